package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Types of events that the queue itself writes. The others are the executor's.
const (
	TypeStarted  = "started"
	TypeFinished = "finished"
)

const resultObject = "result"

// Event is one thing that happened to a run.
type Event struct {
	// Seq grows from event to event, from 1 on; a number may be missing.
	Seq  uint64
	Type string
	At   time.Time
	// Data is the executor's. Object is the name of the object that has it instead,
	// if it is larger than [MaxInline]: see [Queue.Data].
	Data   []byte
	Object string
	// Final says that it is the last one.
	Final bool
}

func (r *record) event() Event {
	e := Event{Seq: r.seq, Type: r.name, At: r.at, Data: r.data, Object: r.object, Final: r.kind == kindFinished}
	if e.Object != "" {
		e.Data = nil
	}
	return e
}

// Events are the events of a run whose number is larger than after, as they are
// stored, and then as they come, until the final one. A run that waits has none yet.
// What is not read is not kept anywhere but in the store: a slow reader costs nothing.
//
// An error is the last thing that comes: [ErrNotFound], [ErrName], [ErrClosed], the
// context's, or one of NATS.
func (q *Queue) Events(ctx context.Context, id string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		all, err := q.build(runSubjects, id)
		if err != nil {
			yield(Event{}, err)
			return
		}
		rung := q.hints.add(id, false)
		defer q.hints.remove(id, rung)
		for from := uint64(1); ; {
			for m, err := range q.events.scan(ctx, all, from) {
				var r *record
				if err == nil {
					r, err = decodeRecord(m.body)
				}
				if err != nil {
					q.closing(&err)
					yield(Event{}, orCause(ctx, err))
					return
				}
				from = m.seq + 1
				if q.old(m.at) { // the server takes it away in its own time
					if r.kind == kindFinished {
						yield(Event{}, ErrNotFound)
						return
					}
					continue
				}
				if r.seq > after {
					after = r.seq
					if !yield(r.event(), nil) {
						return
					}
				}
				if r.kind == kindFinished {
					return
				}
			}
			if err := q.await(ctx, id, rung); err != nil {
				q.closing(&err)
				yield(Event{}, orCause(ctx, err))
				return
			}
		}
	}
}

// old says whether what was written at a time is kept no longer.
func (q *Queue) old(at time.Time) bool { return q.now().Sub(at) >= q.o.Retention }

// orCause says why the caller has gone, if he has.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Last is the number of the last event that a run has so far, 0 if it has none yet, and
// whether that is its final one. The error is as that of [Queue.Events].
func (q *Queue) Last(ctx context.Context, id string) (seq uint64, final bool, err error) {
	defer q.closing(&err)
	all, err := q.build(runSubjects, id)
	if err != nil {
		return 0, false, err
	}
	m, err := q.events.last(ctx, all)
	if errors.Is(err, errNone) {
		_, _, err = q.look(ctx, id)
		return 0, false, orCause(ctx, err)
	}
	if err != nil {
		return 0, false, orCause(ctx, err)
	}
	r, err := decodeRecord(m.body)
	if err != nil {
		return 0, false, err
	}
	return r.seq, r.kind == kindFinished, nil
}

// await waits until there may be something new of a run, if there can be.
func (q *Queue) await(ctx context.Context, id string, rung chan struct{}) error {
	select {
	case <-rung:
		return nil
	default:
	}
	if _, _, err := q.look(ctx, id); err != nil {
		return err
	}
	select {
	case <-rung:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-q.ctx.Done():
		return ErrClosed
	}
}

// Wait returns the final event of a run, when it is there. The error is as that of
// [Queue.Events].
func (q *Queue) Wait(ctx context.Context, id string) (_ Event, err error) {
	defer q.closing(&err)
	rung := q.hints.add(id, true)
	defer q.hints.remove(id, rung)
	_, last, err := q.look(ctx, id)
	for {
		if err != nil {
			return Event{}, orCause(ctx, err)
		}
		if last != nil && last.kind == kindFinished {
			return last.event(), nil
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		case <-q.ctx.Done():
			return Event{}, ErrClosed
		}
		// Most often it is there now, and nothing else need be asked.
		if last, err = q.control(ctx, id); errors.Is(err, errNone) || err == nil && last.kind != kindFinished {
			_, last, err = q.look(ctx, id)
		}
	}
}

// Data is what an event has to say, wherever it lies. The error is [ErrNotFound] when
// its object is gone.
func (q *Queue) Data(ctx context.Context, id string, e Event) (_ []byte, err error) {
	defer q.closing(&err)
	if e.Object == "" {
		return e.Data, nil
	}
	o, err := q.runs.Get(ctx, id, e.Object)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(o)
}

// Result is the data of the final event. The error is [ErrRunning] if there is none
// yet, [ErrNotFound], [ErrName] or one of NATS.
func (q *Queue) Result(ctx context.Context, id string) (_ []byte, err error) {
	defer q.closing(&err)
	_, last, err := q.look(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case last == nil || last.kind != kindFinished:
		return nil, ErrRunning
	}
	return q.Data(ctx, id, last.event())
}

// Forget erases all that is kept of a run that has ended: events, result and
// objects. The error is [ErrRunning], [ErrNotFound], [ErrName] or one of NATS.
func (q *Queue) Forget(ctx context.Context, id string) (err error) {
	defer q.closing(&err)
	_, last, err := q.look(ctx, id)
	switch {
	case err != nil:
		return err
	case last == nil || last.kind != kindFinished:
		return ErrRunning
	}
	all, err := q.build(runSubjects, id)
	if err != nil {
		return err
	}
	return errors.Join(q.runs.DeleteAll(ctx, id), q.events.removeAll(ctx, all))
}

// position says how many jobs wait before one.
func (q *Queue) position(ctx context.Context, num uint64) (int, error) {
	q.taking.mu.Lock()
	active := len(q.taking.active)
	q.taking.mu.Unlock()
	info, err := q.jobs.js.Info(ctx)
	if err != nil {
		return 0, err
	}
	first, msgs := info.State.FirstSeq, info.State.Msgs
	if num < first {
		return 0, nil
	}
	// What was canceled or ended out of order leaves gaps behind the first.
	before := min(num-first, msgs)
	return max(int(before)-active, 0), nil
}

// hints say that there may be something new of a run. They are never relied on for
// what it is, and several of them are one.
type hints struct {
	mu      sync.Mutex
	waiting map[string]map[chan struct{}]bool // true: for the final event alone
}

func (h *hints) add(id string, final bool) chan struct{} {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[id] == nil {
		h.waiting[id] = map[chan struct{}]bool{}
	}
	h.waiting[id][c] = final
	return c
}

func (h *hints) remove(id string, c chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting[id], c)
	if len(h.waiting[id]) == 0 {
		delete(h.waiting, id)
	}
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has not heard the one before yet
	}
}

// all wakes everybody: hints may have been lost.
func (h *hints) all() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, of := range h.waiting {
		for c := range of {
			ring(c)
		}
	}
}

// hint is called for each record that the server has stored.
func (q *Queue) hint(m *nats.Msg) {
	id := name{m.Subject}.token(2)
	end := len(m.Header[endHeader]) > 0
	q.hints.mu.Lock()
	for c, final := range q.hints.waiting[id] {
		if end || !final {
			ring(c)
		}
	}
	q.hints.mu.Unlock()
	if q.srv == nil {
		q.verify(id)
	}
}

// verify looks whether a job that is held here was written to by another.
func (q *Queue) verify(id string) {
	d := q.held(id)
	if d == nil {
		return
	}
	go func() { // the answer comes by the goroutine that this one is
		ctx, cancel := bounded(q.ctx)
		defer cancel()
		if last, err := q.control(ctx, id); err == nil && last.by != q.instance {
			d.lose(fmt.Errorf("%w: another has it", ErrLost))
		}
	}()
}
