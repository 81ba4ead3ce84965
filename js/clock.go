package js

import (
	"sync"
	"time"
)

// clock measures one evaluation at a time: the guest's time while no function
// of the host runs, and the host's while one does. It holds both limits by the
// deadline of the channel that the evaluation reads.
type clock struct {
	deadline func(time.Time) error

	mu          sync.Mutex
	running     bool
	guest, host time.Duration // used of
	hard, wait  time.Duration // these
	since       time.Time
	calls       int // without an answer; they may outlive their evaluation
}

// begin starts the time of an evaluation.
func (c *clock) begin(hard, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.guest, c.host, c.hard, c.wait, c.since = true, 0, 0, hard, wait, time.Now()
	c.arm()
}

// end stops it.
func (c *clock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add()
	c.running = false
}

// call counts a call that has no answer yet, answered one less.
func (c *clock) call() int { return c.change(1) }
func (c *clock) answered() { c.change(-1) }

func (c *clock) change(by int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.calls > 0
	if c.running && was != (c.calls+by > 0) {
		c.add()
		c.calls += by
		c.arm()
	} else {
		c.calls += by
	}
	return c.calls
}

// add books the time since the last change.
func (c *clock) add() {
	now := time.Now()
	if c.calls > 0 {
		c.host += now.Sub(c.since)
	} else {
		c.guest += now.Sub(c.since)
	}
	c.since = now
}

// arm sets the deadline for the kind of time that runs now.
func (c *clock) arm() {
	left := c.hard - c.guest
	if c.calls > 0 {
		left = c.wait - c.host
	}
	_ = c.deadline(c.since.Add(max(left, 1)))
}

// left is how long the host may take from now on while a call has no answer.
func (c *clock) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add()
	return max(c.wait-c.host, 1)
}

// over says which limit a missed deadline was.
func (c *clock) over() Kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls > 0 {
		return HostWait
	}
	return HardTimeout
}

// soFar is the guest's time of the evaluation that runs.
func (c *clock) soFar() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		c.add()
	}
	return c.guest
}

// used is the guest's time and the host's of the evaluation.
func (c *clock) used() (guest, host time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guest, c.host
}
