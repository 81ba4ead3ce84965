package executor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// Bounds of what waits to be written down.
const (
	maxPending = 1 << 20  // bytes; a program that prints faster than the store takes it is held up
	maxChunk   = 64 << 10 // bytes of one event
	// Behind so many events of a run the next ones are gathered for a while, so that
	// one which runs for minutes does not come to the end of what it may write.
	brisk  = 500
	gather = 25 * time.Millisecond
)

// recorder writes the events of a run into its queue, in order, from one goroutine.
// What comes while it writes is gathered: chunks of one stream grow together, and
// of counters only the newest are kept.
type recorder struct {
	d        *queue.Delivery
	compiled bool
	log      *slog.Logger

	mu      sync.Mutex
	changed *sync.Cond // pending or closed
	pending []api.Event
	bytes   int
	closed  bool
	done    chan struct{}
}

func newRecorder(d *queue.Delivery, compiled bool, log *slog.Logger) *recorder {
	r := &recorder{d: d, compiled: compiled, log: log, done: make(chan struct{})}
	r.changed = sync.NewCond(&r.mu)
	go r.write()
	return r
}

// event takes one event of the run; it waits while too much is pending.
func (r *recorder) event(e api.Event) {
	if e.Type == "finished" || e.Type == "started" && !r.compiled { // the queue has its own of these
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.bytes > maxPending && !r.closed {
		r.changed.Wait()
	}
	r.bytes += len(e.Data) + len(e.Base64)
	if n := len(r.pending); n > 0 && merge(&r.pending[n-1], &e) {
		return
	}
	r.pending = append(r.pending, e)
	r.changed.Broadcast()
}

// merge makes one event of two, if they can be one.
func merge(last, e *api.Event) bool {
	switch {
	case last.Type != e.Type:
		return false
	case e.Type == "stats":
		*last = *e
		return true
	case e.Type == "chunk" && last.Stream == e.Stream && last.Base64 == "" && e.Base64 == "" && len(last.Data)+len(e.Data) <= maxChunk:
		last.Data += e.Data
		return true
	}
	return false
}

// close writes down what is pending and returns when it is there.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.changed.Broadcast()
	r.mu.Unlock()
	<-r.done
}

// next returns what is pending, nil at the end.
func (r *recorder) next() []api.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.pending) == 0 && !r.closed {
		r.changed.Wait()
	}
	batch := r.pending
	r.pending, r.bytes = nil, 0
	r.changed.Broadcast()
	return batch
}

// write is the goroutine that publishes. Once the store takes no more of the run, the
// rest is dropped: the result has all of the output.
func (r *recorder) write() {
	defer close(r.done)
	full := false
	for written := 0; ; {
		batch := r.next()
		if batch == nil {
			return
		}
		for _, e := range batch {
			if full {
				continue
			}
			written++
			if err := r.publish(&e); err != nil {
				full = errors.Is(err, queue.ErrTooLarge) || errors.Is(err, queue.ErrLost) || errors.Is(err, queue.ErrOver)
				r.log.Warn("executor: an event is not written", "type", e.Type, "error", err)
			}
		}
		if written > brisk {
			time.Sleep(gather)
		}
	}
}

func (r *recorder) publish(e *api.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	typ := e.Type
	if typ == queue.TypeStarted { // that name is the queue's own
		typ = TypeProgram
	}
	return r.d.Publish(ctx, typ, data)
}

// TypeProgram is the event at which a program that was compiled starts.
const TypeProgram = "program"
