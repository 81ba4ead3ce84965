package glovebox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cell"
)

// Run runs one program to its end. The context ends it with the verdict
// canceled. The error is nil whenever there is a Result: a *[FieldError] for a
// program that is not well formed, a *[gate.Denied], [ErrBusy], [ErrClosed], or
// the context's cause when it ended before a cell was free.
func (b *Box) Run(ctx context.Context, p Program, opts ...RunOption) (*Result, error) {
	r, err := b.start(ctx, p, opts, nil)
	if err != nil {
		return nil, err
	}
	return r.Wait()
}

// Start checks a program and starts it; it does not wait for a cell. The context
// ends it. The error is a *[FieldError] or a *[gate.Denied]; all else comes from
// [Running.Wait].
func (b *Box) Start(ctx context.Context, p Program, opts ...RunOption) (*Running, error) {
	return b.start(ctx, p, opts, make(chan unix.Signal, maxSignals))
}

// Judge says whether Start would take a program, with the same errors, and starts
// nothing.
func (b *Box) Judge(ctx context.Context, p Program) error {
	job, err := b.resolve(&p)
	if err != nil {
		return err
	}
	return b.gate.program(ctx, &p, job)
}

// Limits are those that a program would run under, the language's defaults filled
// in; its compiler's are in Compile. The error is as that of [Box.Start], but for a
// gate, which is not asked.
func (b *Box) Limits(p Program) (Limits, error) {
	job, err := b.resolve(&p)
	if err != nil {
		return Limits{}, err
	}
	l := job.Limits
	if l.Compile = nil; job.Compile != nil {
		c := job.Compile.Limits
		l.Compile = &c
	}
	return l, nil
}

// maxSignals is how many signals may wait for a program to start.
const maxSignals = 16

// RunOption is what a caller takes part in one run with.
type RunOption func(*taking)

// taking is what the options of one run say.
type taking struct {
	stdin   io.Reader
	pipe    bool
	event   func(Event)
	stream  bool
	folders []cell.Folder
	trace   *cell.Trace
	traced  *Trace
}

// check refuses options that contradict each other, or that wait for the caller to
// use a Running where there is none.
func (t *taking) check(running bool) error {
	switch {
	case t.pipe && !running:
		return &FieldError{Field: "stdin", Reason: "WithStdinPipe is for Start; nobody could write to that of a Run"}
	case t.stream && !running:
		return &FieldError{Field: "events", Reason: "WithEventStream is for Start; nobody could read that of a Run"}
	case t.pipe && t.stdin != nil:
		return &FieldError{Field: "stdin", Reason: "must be one of WithStdin and WithStdinPipe"}
	}
	return cell.CheckFolders(t.folders)
}

// WithStdin copies r to the program's standard input until it ends, in place
// of Program.Stdin. A Read of r that is pending when the program ends is left
// to end by itself; an *io.PipeReader is closed with EPIPE when the program has
// closed its end, so that its writer does not wait for nobody.
func WithStdin(r io.Reader) RunOption { return func(t *taking) { t.stdin = r } }

// WithStdinPipe makes the program's standard input what is written to
// [Running.Stdin], in place of Program.Stdin, until that is closed. It is for
// [Box.Start].
func WithStdinPipe() RunOption { return func(t *taking) { t.pipe = true } }

// WithEvents calls f for everything that happens, in order and one call at a
// time, from the run's goroutines. Output chunks never split a character. A slow
// f holds up what the program prints, and [Running.Wait], which returns after
// the last call.
func WithEvents(f func(Event)) RunOption { return func(t *taking) { t.event = f } }

// WithEventStream makes everything that happens come out of [Running.Events],
// which must then be read: as with [WithEvents] a slow reader holds up what the
// program prints, and the end of the run. What nobody has read a second after
// [Running.Kill], the end of the context or [Box.Close] is given up. It is for
// [Box.Start].
func WithEventStream() RunOption { return func(t *taking) { t.stream = true } }

// WithFolder shows the program a folder of this host at an absolute path of its
// cell, read-only, nosuid and nodev, with all that lies below it on any file
// system. What other users may not read, a guest may not either: as root it has
// an id of its own. Neither path may hold a link or lie where a cell has files of
// its own (/box, /tmp, /prog, /dev, /proc, /etc, /usr and what belongs to it), and
// folder may not be a parent of those. The program gets a launcher of its own, which
// takes some milliseconds, so that no other cell can see the folder. The program can
// read where the folder lies on its file system, in mountinfo.
func WithFolder(folder, at string) RunOption {
	return func(t *taking) { t.folders = append(t.folders, cell.Folder{Source: folder, At: at}) }
}

// Tracing says how a program is traced. The zero value counts what the profile
// refuses and changes nothing of the run.
type Tracing struct {
	// Learn lets calls through that the profile refuses and that are on the list of
	// what may be learnt, which reach nothing beyond the cell. What is always denied
	// or ends the cell is answered as in any run.
	Learn bool
	// Allowed counts the calls that the profile allows too, but for futex and the
	// returns from signal handlers. Each then waits some microseconds for its answer,
	// and one that a signal meets while it waits returns EINTR if the program's
	// handler has no SA_RESTART, even if it never did before.
	Allowed bool
}

// WithTrace has the program's system calls counted, those of its compiler too, and
// fills to before [Running.Wait] returns, if a cell was started. All other layers hold
// and all limits are the same: where a layer is missing, or the kernel cannot report
// calls, the error wraps [ErrSandboxUnavailable].
func WithTrace(to *Trace, how Tracing) RunOption {
	return func(t *taking) { t.traced, t.trace = to, &cell.Trace{Learn: how.Learn, Allowed: how.Allowed} }
}

// Running is a program on its way. It is safe for concurrent use.
type Running struct {
	id     string
	cancel context.CancelFunc
	done   chan struct{}
	result *Result
	err    error

	stdin   *io.PipeWriter
	signals chan unix.Signal
	events  chan Event
	unread  chan struct{} // closed: nobody reads events any more
	once    sync.Once
}

func (b *Box) start(ctx context.Context, p Program, opts []RunOption, signals chan unix.Signal) (*Running, error) {
	job, err := b.resolve(&p)
	if err != nil {
		return nil, err
	}
	var t taking
	for _, o := range opts {
		o(&t)
	}
	if err := t.check(signals != nil); err != nil {
		return nil, err
	}
	if err := b.gate.program(ctx, &p, job); err != nil {
		return nil, err
	}
	job.Folders, job.Trace = t.folders, t.trace
	r := &Running{id: newID(), done: make(chan struct{}), signals: signals}
	s := cell.Streams{Stdin: t.stdin, Signals: signals}
	if p.Stdin != nil && t.stdin == nil {
		s.Stdin = bytes.NewReader(p.Stdin)
	}
	var input *io.PipeReader
	if t.pipe {
		input, r.stdin = io.Pipe()
		s.Stdin = input
	}
	s.Event = r.eventFunc(t)
	ctx, r.cancel = context.WithCancel(ctx)
	if r.events != nil {
		go r.giveUp(ctx, b.host.Closing())
	}
	go func() {
		defer close(r.done)
		defer r.cancel()
		r.result, r.err = b.host.Run(ctx, job, s)
		if t.traced != nil {
			*t.traced = t.trace.Result
		}
		if r.result != nil && r.result.ID == "" { // else the last event has it, and its reader
			r.result.ID = r.id
		}
		if input != nil {
			_ = input.CloseWithError(os.ErrProcessDone)
		}
		if r.events != nil {
			close(r.events)
		}
	}()
	return r, nil
}

// eventFunc gives events to whom the options name, nil for nobody.
func (r *Running) eventFunc(t taking) func(Event) {
	if t.stream {
		r.events, r.unread = make(chan Event), make(chan struct{})
	}
	if t.event == nil && !t.stream {
		return nil
	}
	return func(e Event) {
		if e.Result != nil {
			e.Result.ID = r.id
		}
		if t.event != nil {
			t.event(e)
		}
		if t.stream {
			select {
			case r.events <- e:
			case <-r.unread:
			}
		}
	}
}

// unreadGrace is how long events of a run that is to end wait for their reader.
const unreadGrace = time.Second

// giveUp lets a run end whose events nobody reads, once it is to end.
func (r *Running) giveUp(ctx context.Context, closing <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-closing:
	}
	select {
	case <-time.After(unreadGrace):
	case <-r.done:
	}
	r.once.Do(func() { close(r.unread) })
}

// ID is the run's own, 128 random bits.
func (r *Running) ID() string { return r.id }

// Kill ends the program; the verdict is canceled.
func (r *Running) Kill() { r.cancel() }

// Wait returns when the program has ended and its verdict is known. It may be
// called more than once.
func (r *Running) Wait() (*Result, error) {
	<-r.done
	return r.result, r.err
}

// Stdin is the program's standard input; Close ends it. Nil unless the run was
// started with [WithStdinPipe]. A Write waits until the program, or the kernel for
// it, has taken everything; it fails with EPIPE once the program has closed its end,
// and with [os.ErrProcessDone] after the run.
func (r *Running) Stdin() io.WriteCloser {
	if r.stdin == nil {
		return nil
	}
	return r.stdin
}

// Signal sends a signal to the program's first process, as kill(2) does: the
// others of its group get none. Before the start it waits for it. How the program
// takes it is its own affair; a signal that ends it makes the verdict error. The
// error is [os.ErrProcessDone] after the end; one that comes at that moment may
// be lost without an error.
func (r *Running) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok || s <= 0 || s > 64 {
		return &FieldError{Field: "signal", Value: fmt.Sprint(sig), Reason: "must be a signal of this system"}
	}
	select {
	case <-r.done:
		return os.ErrProcessDone
	default:
	}
	select {
	case r.signals <- s:
		return nil
	case <-r.done:
		return os.ErrProcessDone
	default:
		return errors.New("too many signals wait for the program")
	}
}

// Events yields what happens until the run is over, with [WithEventStream];
// otherwise nothing. Who stops early gets no further event, and the program goes
// on. It is for one reader.
func (r *Running) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		if r.events == nil {
			return
		}
		defer r.once.Do(func() { close(r.unread) })
		for e := range r.events {
			if !yield(e) {
				return
			}
		}
	}
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
