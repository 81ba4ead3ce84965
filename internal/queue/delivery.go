package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Delivery is a job that this executor holds, until Finish or Retry. It is safe for
// concurrent use.
type Delivery struct {
	// Job is the job. Losses is how many executors it has lost before this one.
	Job Job

	q       *Queue
	control name
	lost    chan struct{}
	signals chan []byte
	admit   atomic.Pointer[func([]byte) error]
	heard   *nats.Subscription // nil before listen

	mu     sync.Mutex
	over   error         // why it is no longer held
	msg    jetstream.Msg // with the queue's lock
	last   uint64        // the number of the last record of its control
	losses uint64
	tries  uint64
	begun  bool
	seq    uint64 // the number of the last event
	bytes  int64  // of events
}

func newDelivery(q *Queue, msg jetstream.Msg) *Delivery {
	return &Delivery{q: q, msg: msg, lost: make(chan struct{}), signals: make(chan []byte, maxSignals)}
}

// Losses is how many executors the job has lost before this one.
func (d *Delivery) Losses() int { return int(d.losses) }

// Lost is closed when the job is no longer held: another executor has it, it was
// ended, or the queue was closed. What runs for it has to end then.
func (d *Delivery) Lost() <-chan struct{} { return d.lost }

// close gives back what has not begun, without a loss, and ends the delivery.
func (d *Delivery) close(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over == nil && !d.begun && d.last > 0 {
		if err := d.write(ctx, &record{kind: kindReleased, tries: d.tries}); err != nil {
			d.q.o.Log.Warn("queue: a job could not be given back", "id", d.Job.ID, "error", err)
		}
	}
	d.loseLocked(ErrClosed)
}

func (d *Delivery) lose(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loseLocked(why)
}

func (d *Delivery) loseLocked(why error) {
	if d.over == nil {
		d.over = why
		close(d.lost)
		if d.heard != nil {
			_ = d.heard.Drain() // whoever has sent something is answered
		}
	}
}

// write puts a record in the place of the last one of the control, with mu held. It
// goes on asking while it is not known what came of it.
func (d *Delivery) write(ctx context.Context, r *record) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	r.by, r.at, r.losses = d.q.instance, time.Now(), d.losses
	body := r.encode()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		num, err := d.q.publish(ctx, outgoing{to: d.control, body: body, cas: true, last: d.last, end: r.kind == kindFinished})
		switch {
		case err == nil:
			d.last = num
			return nil
		case errors.Is(err, errConflict):
			now, e := d.q.control(ctx, d.Job.ID)
			if e == nil && bytes.Equal(now.encode(), body) {
				d.last = now.num // the first time it came through
				return nil
			}
			if e == nil {
				d.loseLocked(ErrLost)
				return ErrLost
			}
		case errors.Is(err, ErrFull), errors.Is(err, ErrTooLarge):
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("queue: it is not known whether this was written: %w", err)
		}
	}
}

// Begin writes down that the run begins, as its first event. From then on the job is
// never given to anybody again. It must come before anything that has an effect.
//
// The error is [ErrLost], [ErrOrder], [ErrFull] (the job is still held, and can be given
// back), or says that it is not known: then nothing may begin, the job is no longer held,
// and ends by itself or comes again.
func (d *Delivery) Begin(ctx context.Context, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over != nil:
		return d.over
	case d.begun:
		return fmt.Errorf("%w: begun before", ErrOrder)
	case len(data) > MaxInline:
		return ErrTooLarge
	}
	d.begun = true
	if err := d.write(ctx, &record{kind: kindStarted, seq: 1, name: TypeStarted, data: data, tries: d.tries}); err != nil {
		if errors.Is(err, ErrFull) {
			d.begun = false
			return err
		}
		d.loseLocked(ErrLost)
		d.q.drop(d.Job.ID) // without a sign of life it comes again
		return err
	}
	d.seq = 1
	return nil
}

// Publish writes down an event of the run: after Begin, before Finish. The type is a
// token. The error is [ErrTooLarge] when the run has written all that it may,
// [ErrFull], [ErrLost], [ErrOrder], [ErrName] or one of NATS, with which the event may be
// there or not; the run can go on.
func (d *Delivery) Publish(ctx context.Context, typ string, data []byte) error {
	if err := CheckToken(typ); err != nil {
		return err
	}
	on, err := d.q.build(dataSubject, d.Job.ID)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over != nil:
		return d.over
	case !d.begun || typ == TypeStarted || typ == TypeFinished:
		return fmt.Errorf("%w: an event %s before the start", ErrOrder, typ)
	case d.seq >= uint64(d.q.o.RunEvents) || d.bytes+int64(len(data)) > d.q.o.RunBytes:
		return fmt.Errorf("%w: %d events of %d bytes", ErrTooLarge, d.seq, d.bytes)
	}
	if err := d.q.room(ctx, forEvents); err != nil {
		return err
	}
	d.seq++ // also of one that may not have come through: a number is never used twice
	r := &record{kind: kindEvent, seq: d.seq, at: time.Now(), name: typ, by: d.q.instance, data: data}
	if len(data) > MaxInline {
		r.object, r.data = fmt.Sprintf("event-%d", d.seq), nil
		if err := d.q.runs.Put(ctx, d.Job.ID, r.object, bytes.NewReader(data)); err != nil {
			return err
		}
	}
	_, err = d.q.publish(ctx, outgoing{to: on, body: r.encode(), cas: true, last: d.last, on: d.control})
	if errors.Is(err, errConflict) {
		d.loseLocked(ErrLost)
		return ErrLost
	}
	if err == nil {
		d.bytes += int64(len(data))
		d.q.spaceLeft.more(len(r.data))
	}
	return err
}

// Finish writes the one final event, and the job is over. A result that is too large
// for a message becomes an object; if there is no room for that, brief takes its
// place: [MaxInline] at most. A job may be finished that has not begun.
//
// The error is [ErrLost] if the job has a final event already, or another executor;
// with others the job is still held, and Finish can be called again.
func (d *Delivery) Finish(ctx context.Context, result, brief []byte) error {
	if len(brief) > MaxInline || len(result) > MaxObject {
		return ErrTooLarge
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over != nil {
		return d.over
	}
	r := &record{kind: kindFinished, seq: d.seq + 1, name: TypeFinished, data: result, tries: d.tries}
	if len(result) > MaxInline {
		r.object, r.data = resultObject, nil
		if err := d.q.runs.Put(ctx, d.Job.ID, r.object, bytes.NewReader(result)); err != nil {
			d.q.o.Log.Warn("queue: a result cannot be stored", "id", d.Job.ID, "error", err)
			r.object, r.data = "", brief
		}
	}
	err := d.write(ctx, r)
	switch {
	case err == nil:
		d.loseLocked(ErrOver)
		if msg := d.q.drop(d.Job.ID); msg != nil {
			_ = msg.Ack()
		}
	case errors.Is(err, ErrLost):
		d.q.drop(d.Job.ID) // whoever has it says when it is over
	}
	return err
}

// Retry gives a job back that has not begun, for an executor after this pause, and
// counts no loss. The error is [ErrOrder] if it has begun or was given back too often,
// [ErrLost], or one of NATS, with which the job goes back too, with a loss.
func (d *Delivery) Retry(ctx context.Context, pause time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over != nil:
		return d.over
	case d.begun:
		return fmt.Errorf("%w: it has begun", ErrOrder)
	case d.tries >= maxTries:
		return fmt.Errorf("%w: it was given back %d times", ErrOrder, d.tries)
	}
	err := d.write(ctx, &record{kind: kindReleased, tries: d.tries + 1})
	d.loseLocked(ErrOver)
	msg := d.q.drop(d.Job.ID)
	if errors.Is(err, ErrLost) || msg == nil {
		return err
	}
	return errors.Join(err, msg.NakWithDelay(pause))
}
