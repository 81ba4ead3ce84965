package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// maxSignals is how many signals of one job wait for its executor.
const maxSignals = 64

var (
	signalTaken = []byte("+")
	signalBusy  = []byte("-")
	signalOver  = []byte("0") // it is no longer held
	signalNo    = []byte("!") // it is not taken, now or later
)

// Signal sends a text to the executor that holds a job, wherever it is, and returns
// when it is among what [Delivery.Signals] gives. The signals of one sender keep their
// order. Nothing is stored.
//
// The error is [ErrNotFound] if nobody holds the job, [ErrBusy] if as many wait as may,
// [ErrRefused] if the executor takes none such,
// [ErrTooLarge], [ErrName] or one of NATS, with which it may have come through.
func (q *Queue) Signal(ctx context.Context, id string, data []byte) (err error) {
	defer q.closing(&err)
	to, err := q.build(signalSubject, id)
	switch {
	case err != nil:
		return err
	case len(data) > MaxInline:
		return fmt.Errorf("%w: a signal of %d bytes", ErrTooLarge, len(data))
	case q.ctx.Err() != nil:
		return ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	answer, err := q.nc.RequestWithContext(ctx, to.s, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNotFound
	case err != nil:
		return err
	case string(answer.Data) == string(signalOver):
		return ErrNotFound
	case string(answer.Data) == string(signalNo):
		return ErrRefused
	case string(answer.Data) != string(signalTaken):
		return ErrBusy
	}
	return nil
}

// Signals are what [Queue.Signal] sends to this job, in order. The channel is never
// closed.
func (d *Delivery) Signals() <-chan []byte { return d.signals }

// Admit has f judge every signal before it is taken: one for which it returns an error
// is answered with [ErrBusy] if the error is that, and with [ErrRefused] for any other.
// It is called one signal at a time and must not wait.
func (d *Delivery) Admit(f func([]byte) error) { d.admit.Store(&f) }

// listen takes the signals for a job, until the delivery is over.
func (d *Delivery) listen() error {
	on, err := d.q.build(signalSubject, d.Job.ID)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over != nil {
		return d.over
	}
	d.heard, err = d.q.nc.Subscribe(on.s, func(m *nats.Msg) {
		select {
		case <-d.lost:
			_ = m.Respond(signalOver)
			return
		default:
		}
		if len(d.signals) == cap(d.signals) { // nobody else sends: what f takes has room
			_ = m.Respond(signalBusy)
			return
		}
		if f := d.admit.Load(); f != nil {
			if err := (*f)(m.Data); err != nil {
				answer := signalNo
				if errors.Is(err, ErrBusy) {
					answer = signalBusy
				}
				_ = m.Respond(answer)
				return
			}
		}
		d.signals <- m.Data
		_ = m.Respond(signalTaken)
	})
	return err
}
