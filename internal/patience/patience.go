// Package patience says when one who shows no life has been waited for long enough,
// without a clock that anybody could set: the time is the waiter's own, and counts
// only while he looks.
package patience

import "time"

// Patience is what one who waits has seen. T is whatever changes while the other
// lives.
type Patience[T comparable] struct {
	// TTL is how long nothing new may be seen.
	TTL time.Duration

	seen  bool
	last  T
	at    time.Time // monotonic
	quiet time.Duration
}

// Look notes what is seen now, and says whether the same has been seen for the
// whole TTL. Between two looks no more counts than a quarter of that: one who was
// stopped himself has seen nothing.
func (p *Patience[T]) Look(now T) bool { return p.look(now, time.Now()) }

func (p *Patience[T]) look(now T, at time.Time) bool {
	if !p.seen || now != p.last {
		p.seen, p.last, p.quiet = true, now, 0
	} else {
		p.quiet += max(0, min(at.Sub(p.at), p.TTL/4)) // at.Sub takes monotonic readings
	}
	p.at = at
	return p.quiet >= p.TTL
}

// Quiet is how long nothing new was seen, as far as that counts.
func (p *Patience[T]) Quiet() time.Duration { return p.quiet }
