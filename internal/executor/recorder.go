package executor

import (
	"context"
	"encoding/base64"
	"encoding/json"
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
	crowd      = 32       // events; with more of them pending the next ones are put together
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
	brisk   bool // much was written
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
	if !r.join(&e) {
		r.pending = append(r.pending, e)
	}
	r.changed.Broadcast()
}

// join makes an event part of one that is pending, if it can be one with the last. When
// many are pending, or were written, it is one with the last of its own kind: what a
// program prints to two streams in turn is then told in another order, which nobody who
// reads two pipes could know either, and does not use up the events of its run.
func (r *recorder) join(e *api.Event) bool {
	crowded := r.brisk || len(r.pending) > crowd
	for i := len(r.pending) - 1; i >= 0 && i >= len(r.pending)-3; i-- {
		last := &r.pending[i]
		if merge(last, e, crowded) {
			return true
		}
		if !crowded || last.Type != "chunk" && last.Type != "stats" {
			return false
		}
	}
	return false
}

// merge makes one event of two, if they can be one: bytes that are no text and text only
// if they must.
func merge(last, e *api.Event, must bool) bool {
	switch {
	case last.Type != e.Type:
		return false
	case e.Type == "stats":
		*last = *e
		return true
	case e.Type != "chunk" || last.Stream != e.Stream || len(last.Data)+len(last.Base64)+len(e.Data)+len(e.Base64) > maxChunk:
		return false
	case last.Base64 == "" && e.Base64 == "":
		last.Data += e.Data
		return true
	case (last.Base64 == "") != (e.Base64 == "") && !must:
		return false
	}
	last.Base64 = base64.StdEncoding.EncodeToString(append(content(last), content(e)...))
	last.Data = ""
	return true
}

// content is what a chunk has to say.
func content(e *api.Event) []byte {
	if e.Base64 == "" {
		return []byte(e.Data)
	}
	b, _ := base64.StdEncoding.DecodeString(e.Base64) // it was encoded in this process
	return b
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
				full = true // also of a store that does not answer: each try would take its time
				r.log.Warn("executor: the events of a run end here", "type", e.Type, "error", err)
			}
		}
		if written > brisk {
			r.mu.Lock()
			r.brisk = true
			r.mu.Unlock()
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
