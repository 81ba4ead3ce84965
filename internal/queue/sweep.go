package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// aged is a stream whose messages are erased at an age.
type aged struct {
	s   *stream
	all name
	// over says of a message whether it is too old. Where messages have an age of
	// their own, every one is asked; otherwise the first that is not too old ends it.
	over  func(m *stored, now time.Time) bool
	every bool
	pause time.Duration
	next  time.Time
}

// sweepMost bounds what one pass erases of one stream; the rest is for the next.
const sweepMost = 20_000

// keep makes a stream one that is swept.
func (q *Queue) keep(a *aged, ttl time.Duration) {
	a.pause = min(max(ttl/16, 100*time.Millisecond), time.Minute)
	if a.every {
		a.pause = min(max(ttl/16, 100*time.Millisecond), time.Hour)
	}
	q.agedMu.Lock()
	defer q.agedMu.Unlock()
	q.aged = append(q.aged, a)
}

// byAge is over for messages that all have the same time.
func byAge(ttl time.Duration) func(*stored, time.Time) bool {
	return func(m *stored, now time.Time) bool { return now.Sub(m.at) >= ttl }
}

// sweeps goes on until the queue is closed.
func (q *Queue) sweeps() {
	tick := time.NewTicker(min(max(q.o.Retention/16, 100*time.Millisecond), time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-q.ctx.Done():
			return
		}
		if err := q.sweep(q.ctx, q.now()); err != nil && q.ctx.Err() == nil {
			q.o.Log.Warn("queue: sweep", "error", err)
		}
	}
}

// sweep erases what is too old at a time: the bytes are written over, so that it is
// gone and not only hidden.
func (q *Queue) sweep(ctx context.Context, now time.Time) error {
	q.agedMu.Lock()
	due := make([]*aged, 0, len(q.aged))
	for _, a := range q.aged {
		if !a.next.After(now) {
			a.next = now.Add(a.pause)
			due = append(due, a)
		}
	}
	q.agedMu.Unlock()
	var all error
	for _, a := range due {
		all = errors.Join(all, a.sweep(ctx, now))
	}
	return all
}

func (a *aged) sweep(ctx context.Context, now time.Time) error {
	erased := 0
	for m, err := range a.s.scan(ctx, a.all, 1) {
		if err != nil {
			return err
		}
		if !a.over(m, now) {
			if a.every {
				continue
			}
			return nil
		}
		if err := a.s.erase(ctx, m.seq); err != nil && !errors.Is(err, errNone) {
			return err
		}
		if erased++; erased == sweepMost {
			return nil
		}
	}
	return nil
}

// done ends a job in the server's list: its program is erased first, since what is
// only acknowledged stays on the disk for a while. If this process is lost between,
// the job comes again, and is over.
func (q *Queue) done(msg jetstream.Msg) {
	q.background(func() {
		ctx, cancel := bounded(q.ctx)
		defer cancel()
		if meta, err := msg.Metadata(); err == nil {
			_ = q.jobs.erase(ctx, meta.Sequence.Stream)
		}
		_ = msg.Ack()
	})
}

// now is the store's clock.
func (q *Queue) now() time.Time { return time.Now().Add(time.Duration(q.ahead.Load())) }
