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
	meanwhile   time.Duration // processor time of the guest while a function of the host ran
	hard, wait  time.Duration // these
	since       time.Time
	calls       int // functions of the host that run; they may outlive their evaluation
}

// begin starts the time of an evaluation, or that of one that goes on.
func (c *clock) begin(on bool, hard, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !on {
		c.guest, c.host, c.meanwhile = 0, 0, 0
	}
	c.running, c.hard, c.wait, c.since = true, hard, wait, time.Now()
	c.arm()
}

// end stops it.
func (c *clock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add()
	c.running = false
}

// call counts a function of the host that runs, answered one less.
func (c *clock) call()     { c.change(1) }
func (c *clock) answered() { c.change(-1) }

func (c *clock) change(by int) {
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
	left := c.hard - c.guest - c.meanwhile
	if c.calls > 0 {
		left = c.wait - c.host
	}
	_ = c.deadline(c.since.Add(max(left, 1)))
}

// left is how long the host may take from now on while a function of it runs.
func (c *clock) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add()
	return max(c.wait-c.host, 1)
}

// book takes the processor time that the worker has used since the last look,
// at which the clock said guest and host. What is more than the guest's own time
// was used while a function of the host ran: the guest ran on. It returns what the
// clock says now, and whether the hard limit is used up.
func (c *clock) book(used, guest, host time.Duration) (nowGuest, nowHost time.Duration, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return c.guest, c.host, false
	}
	c.add()
	c.meanwhile += max(min(used-(c.guest-guest), c.host-host), 0)
	return c.guest, c.host, c.guest+c.meanwhile > c.hard
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
