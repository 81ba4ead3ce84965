// Package executor runs the jobs of a queue in sealed cells: it takes a job, writes
// down that it begins, runs it, writes down what happens while it happens, and
// writes the one final event. It knows nothing of HTTP.
package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// Note is what the service keeps with a job, beside the program.
type Note struct {
	// Interactive keeps standard input open for what [Signal] sends.
	Interactive bool `json:"interactive,omitempty"`
	// Source is a hash of the program, by which one is known again that kills executors.
	Source string `json:"source,omitempty"`
}

// End is a run that has its final event.
type End struct {
	Job      queue.Job
	Note     Note
	Language string // of the program; empty for a command
	Losses   int    // executors that the job had lost before
	Result   *api.Result
	Data     []byte // the result as it is stored
}

// Options of [Start]. Queue and Box are needed.
type Options struct {
	Queue *queue.Queue
	Box   *glovebox.Box
	// Slots is how many jobs run at once; with none nothing is taken.
	Slots int
	// Reserve, if there is one, keeps room for a run of these limits, or waits until
	// there is some; what it returns gives the room back.
	Reserve func(context.Context, api.Limits) (release func(), err error)
	// Taken hears of each job that this executor holds, before it begins, and how many
	// executors it has lost; Ended of each final event that it wrote, when it is
	// written. Nil for nobody.
	Taken func(j queue.Job, losses int, note Note)
	Ended func(End)
	Log   *slog.Logger
}

// Executor runs jobs. It is safe for concurrent use.
type Executor struct {
	o       Options
	ctx     context.Context // of taking
	stop    context.CancelFunc
	quit    chan struct{} // closed: nothing begins any more
	once    sync.Once
	slots   sync.WaitGroup
	running atomic.Int64
}

// Start begins to take jobs.
func Start(o Options) *Executor {
	e := &Executor{o: o, quit: make(chan struct{})}
	if e.o.Log == nil {
		e.o.Log = slog.New(slog.DiscardHandler)
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	for range o.Slots {
		e.slots.Go(e.slot)
	}
	return e
}

// Running is how many jobs run at this moment.
func (e *Executor) Running() int { return int(e.running.Load()) }

// Quit takes no further job, gives back what has not begun, and no longer waits for a
// store that takes no result. What runs goes on, see [Executor.Drain].
func (e *Executor) Quit() {
	e.stop()
	e.once.Do(func() { close(e.quit) })
}

// Drain takes no further job and returns when none runs, or with the context's cause.
// What runs then goes on until its Box is closed, which ends it as interrupted.
func (e *Executor) Drain(ctx context.Context) error {
	e.stop()
	done := make(chan struct{})
	go func() {
		e.slots.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait returns when no slot is in use any more; see Drain.
func (e *Executor) Wait() { e.slots.Wait() }

// slot runs one job after the other.
func (e *Executor) slot() {
	pause := 10 * time.Millisecond
	for e.ctx.Err() == nil {
		d, err := e.o.Queue.Take(e.ctx)
		if err == nil {
			pause = 10 * time.Millisecond
			e.running.Add(1)
			e.hold(d)
			e.running.Add(-1)
			continue
		}
		if e.ctx.Err() != nil || errors.Is(err, queue.ErrClosed) {
			return
		}
		e.o.Log.Error("executor: no job can be taken", "error", err)
		select {
		case <-time.After(pause):
			pause = min(2*pause, 5*time.Second)
		case <-e.ctx.Done():
		}
	}
}

// hold brings one job to its final event.
func (e *Executor) hold(d *queue.Delivery) {
	r := &run{e: e, d: d, log: e.o.Log.With("run", d.Job.ID), running: make(chan *glovebox.Running, 1)}
	result, err := r.run()
	if errors.Is(err, errBack) {
		r.log.Info("executor: a job was given back", "error", err)
		return
	}
	if err != nil {
		r.log.Error("executor: a run was given up", "error", err)
		return
	}
	data, err := r.finish(result)
	if err != nil {
		r.log.Error("executor: a result could not be written", "error", err)
		return
	}
	if e.o.Ended != nil {
		e.o.Ended(End{Job: d.Job, Note: r.note, Language: r.language, Losses: d.Losses(), Result: result, Data: data})
	}
}
