package webhook

import (
	"context"
	"slices"
	"time"
)

// target is a host that is told, with what is owed to it.
type target struct {
	owed, trying int
	due          []*item // by time
	tokens       float64 // tries that may begin now
	filled       time.Time
}

// target is a host's. There are no more of them than hosts on the list.
func (h *Hooks) target(host string) *target {
	t := h.hosts[host]
	if t == nil {
		t = &target{tokens: h.burst(), filled: h.o.Now()}
		h.hosts[host] = t
	}
	return t
}

func (h *Hooks) burst() float64 { return max(1, float64(h.o.PerMinute)/6) }

// ready says that an item is due at a time.
func (h *Hooks) ready(i *item, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i.due = at
	t := h.target(i.url.Host)
	n, _ := slices.BinarySearchFunc(t.due, at, func(x *item, at time.Time) int {
		if x.due.After(at) {
			return 1
		}
		return -1 // behind those of the same time
	})
	t.due = slices.Insert(t.due, n, i)
	h.ring()
}

func (h *Hooks) ring() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// dispatch begins tries when they are due and may be.
func (h *Hooks) dispatch() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(h.begin())
		select {
		case <-h.wake:
		case <-timer.C:
		case <-h.drain:
			return
		case <-h.ctx.Done():
			return
		}
	}
}

// begin begins what may be begun, and says when to look again unless something else
// happens.
func (h *Hooks) begin() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, next := h.o.Now(), time.Hour
	for _, t := range h.hosts {
		h.fill(t, now)
		for h.trying < h.o.InFlight && t.trying < h.o.PerHost && t.tokens >= 1 && !h.ended {
			n := slices.IndexFunc(t.due, func(i *item) bool { return !i.due.After(now) && h.key(i.key).trying < h.o.PerKey })
			if n < 0 {
				break
			}
			i := t.due[n]
			t.due = slices.Delete(t.due, n, n+1)
			t.tokens--
			t.trying++
			h.trying++
			h.key(i.key).trying++
			h.work.Go(func() { h.try(i, t) })
		}
		if len(t.due) == 0 {
			continue
		}
		wait := t.due[0].due.Sub(now)
		if t.tokens < 1 {
			wait = max(wait, time.Duration((1-t.tokens)*float64(time.Minute)/float64(h.o.PerMinute)))
		}
		if wait > 0 { // else the end of a try is waited for
			next = min(next, wait)
		}
	}
	return max(next, time.Millisecond)
}

// fill adds what a host has earned since it was looked at.
func (h *Hooks) fill(t *target, now time.Time) {
	if d := now.Sub(t.filled); d > 0 {
		t.tokens = min(h.burst(), t.tokens+d.Minutes()*float64(h.o.PerMinute))
	}
	t.filled = now
}

// tried gives back what a try had.
func (h *Hooks) tried(i *item, t *target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.trying--
	h.trying--
	h.key(i.key).trying--
	h.tidy(i.key)
	h.ring()
}

// tries waits until none is being made.
func (h *Hooks) tries(ctx context.Context) {
	for {
		h.mu.Lock()
		n := h.trying
		h.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-h.wake: // the end of one rings
		case <-ctx.Done():
			return
		}
	}
}
