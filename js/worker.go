package js

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// startTimeout bounds the time from a cell's job to a worker that is ready. Tests
// make it shorter.
var startTimeout = 20 * time.Second

// worker is one process behind the wall, from its start to its end.
type worker struct {
	ch     *cell.Channel
	in     *wire.Reader
	out    *wire.Writer
	engine Engine
	proof  api.Evidence

	clock  func() (time.Duration, bool) // in place of the channel's, for tests
	cancel context.CancelFunc
	done   chan struct{} // closed once nothing is left of it
	result *api.Result   // of its cell, once done is closed; nil if it had none
	err    error         // why it had none
}

// Engine is what runs the JavaScript of a worker.
type Engine struct {
	Name    string `json:"name"`     // with its version
	BuildID string `json:"build_id"` // of the library, hexadecimal
	Mode    string `json:"mode"`     // "interpreter", "baseline", "full"
}

// start starts a worker and waits until it has sealed itself and said so.
func (p *Pool) start(ctx context.Context) (*worker, error) {
	return p.startAs(ctx, p.argv(), (*worker).greet)
}

// startAs starts a worker of some kind.
func (p *Pool) startAs(ctx context.Context, argv []string, greet func(*worker, *Pool) error) (*worker, error) {
	life, cancel := context.WithCancel(context.Background())
	w := &worker{cancel: cancel, done: make(chan struct{})}
	begun := make(chan *cell.Channel, 1)
	job := &cell.Job{
		Profile: cell.WorkerProfile, Argv: argv,
		Env: []string{"LANG=C.UTF-8", "TZ=UTC"}, Limits: p.limits.cell(),
	}
	go func() {
		defer close(w.done)
		w.result, w.err = p.host.Run(life, job, cell.Streams{Channel: func(c *cell.Channel) { begun <- c }})
	}()
	caller := ctx
	ctx, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	select {
	case w.ch = <-begun:
	case <-w.done:
		return nil, w.neverBegan()
	case <-ctx.Done():
		w.end()
		return nil, tooLate(caller)
	}
	w.speak(&p.limits)
	defer context.AfterFunc(ctx, func() { _ = w.ch.SetDeadline(time.Unix(1, 0)) })()
	if err := greet(w, p); err != nil {
		if isTimeout(err) {
			w.end()
			return nil, tooLate(caller)
		}
		return nil, w.startFailed(ctx, err)
	}
	return w, nil
}

// speak begins to read and write frames.
func (w *worker) speak(l *Limits) {
	w.in, w.out = wire.NewReader(w.ch, wire.Worker), wire.NewWriter(w.ch)
	w.in.Limit(wire.TypeDone, max(int(l.ResultBytes), textBytes)+4<<10)
	w.in.Limit(wire.TypeCall, int(l.ArgumentBytes)+4<<10)
}

// textBytes is what the texts of a failure may take: message, stack and name.
const textBytes = 33 << 10

// tooLate is the error of a worker that was not ready when its time was over, or
// its caller's.
func tooLate(caller context.Context) *Error {
	if caller.Err() != nil {
		return ctxEnded(caller, "while a worker was started")
	}
	return failed(SetupFailed, "the worker was not ready within %v", startTimeout)
}

// argv is the command line of a worker.
func (p *Pool) argv() []string {
	wasm := "nowasm"
	if p.allow&wire.GlobalWebAssembly != 0 {
		wasm = "wasm"
	}
	return append([]string{cell.WorkerPath, p.opts.JIT.mode(), wasm, p.library.Path}, p.files...)
}

// neverBegan is why the cell did not come as far as its job.
func (w *worker) neverBegan() error {
	if w.err != nil {
		return &Error{Kind: SetupFailed, Message: w.err.Error(), Err: w.err}
	}
	return failed(SetupFailed, "%s: %s: %s", w.result.Verdict, w.result.Stage, w.result.Message)
}

// startFailed ends a worker that did not come as far as being ready. Of one that
// has hung up the kernel says more.
func (w *worker) startFailed(ctx context.Context, err error) error {
	e := failed(SetupFailed, "%v", err)
	e.Err = err
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		w.end()
		return e
	}
	select {
	case <-w.done:
	case <-ctx.Done():
	case <-time.After(lastWord):
	}
	w.end()
	if r := w.result; r != nil {
		e.Message += fmt.Sprintf(" (%s%s)", r.Verdict, notice(r))
	}
	return e
}

// notice is what a worker that died has written, for people: the first line,
// since what follows are stacks of the engine and of the runtime.
func notice(r *api.Result) string {
	first, _, _ := strings.Cut(strings.TrimLeft(r.Stderr, "\n"), "\n")
	text := clean(first, 200)
	switch {
	case r.Message != "":
		text = clean(r.Message, 400)
	case r.Signal != "" && text != "":
		text = r.Signal + ": " + text
	case r.Signal != "":
		text = r.Signal
	}
	if text == "" {
		return ""
	}
	return ": " + text
}

// greet opens the runtime and waits for the proof that the worker is sealed:
// its own probes, and what the kernel says of its threads and mappings.
func (w *worker) greet(p *Pool) error {
	if err := w.out.Write(&wire.HostHello{Version: wire.Version}); err != nil {
		return err
	}
	if err := w.out.Write(p.open()); err != nil {
		return err
	}
	m, err := w.in.Read()
	if err != nil {
		return err
	}
	hello, ok := m.(*wire.WorkerHello)
	if !ok {
		return fatal(m)
	}
	w.engine = Engine{Name: clean(hello.Engine, 100), BuildID: hello.BuildID, Mode: hello.Mode}
	if hello.BuildID != p.library.BuildID || hello.Mode != p.opts.JIT.mode() {
		return fmt.Errorf("the worker has engine %s in mode %s, not %s in mode %s", w.engine.BuildID, w.engine.Mode, p.library.BuildID, p.opts.JIT.mode())
	}
	if m, err = w.in.Read(); err != nil {
		return err
	}
	if _, ok := m.(*wire.Ready); !ok {
		return fatal(m)
	}
	return w.attest(p)
}

// fatal is the error of a message that is not the one that was due.
func fatal(m wire.Message) error {
	if f, ok := m.(*wire.Fatal); ok {
		return fmt.Errorf("%s: %s", f.Kind, clean(f.Message, 400))
	}
	return fmt.Errorf("message %T out of turn", m)
}

// attest reads what the kernel says of the worker, and adds it to the evidence.
func (w *worker) attest(p *Pool) error {
	sealed, err := w.ch.Sealed()
	if err != nil {
		return fmt.Errorf("attest: %w", err)
	}
	if p.opts.JIT == "" && len(sealed.Code) > 0 {
		return fmt.Errorf("attest: memory is executable in the interpreter's mode: %s", sealed.Code[0])
	}
	w.proof = w.ch.Evidence()
	detail := fmt.Sprintf("outside: %d threads under %d filters, no capability; no memory is executable but code of files", sealed.Threads, sealed.Filters)
	engine := fmt.Sprintf("; %s, build id %s", w.engine.Name, w.engine.BuildID)
	if len(sealed.Code) > 0 {
		detail = fmt.Sprintf("outside: %d threads under %d filters, no capability; open: %d mappings of generated code for the JIT compiler %s",
			sealed.Threads, sealed.Filters, len(sealed.Code), p.opts.JIT)
	}
	w.proof.Layers = append(w.proof.Layers[:len(w.proof.Layers):len(w.proof.Layers)], api.Layer{Name: "worker_seal", Applied: true, Detail: detail + engine})
	return nil
}

// end kills the worker and waits until nothing is left of it.
func (w *worker) end() {
	w.cancel()
	<-w.done
}

// lastWord bounds the wait for the verdict on a worker that has hung up.
const lastWord = 3 * time.Second

// cause says from the kernel's words why a worker ended by itself.
func (w *worker) cause(l *Limits) *Error {
	select {
	case <-w.done:
	case <-time.After(lastWord):
		w.end()
		return failed(Protocol, "the worker hung up and lived on")
	}
	r := w.result
	switch {
	case r == nil:
		return &Error{Kind: Crashed, Message: "its cell is gone", Err: w.err}
	case r.Verdict == api.MemoryLimit:
		return l.passed(MemoryLimit)
	case r.Verdict == api.Denied:
		return failed(Denied, "system call %s", r.Syscall)
	case r.Signal == "SIGSYS":
		return failed(Denied, "a system call that the sealed worker may not make")
	case r.Verdict == api.Timeout && r.Cause == api.CauseWall:
		return failed(Expired, "the worker's life of %d ms is over", lifetime)
	case r.Verdict == api.Timeout:
		return failed(CPULimit, "the worker took more processor time than a worker has in its life, %d ms", lifetime)
	case r.Verdict == api.Interrupted, r.Verdict == api.Canceled:
		return failed(Closed, "the pool was closed")
	}
	return failed(Crashed, "%s%s", r.Verdict, notice(r))
}

// open is the runtime that a worker of this pool makes.
func (p *Pool) open() *wire.Open {
	o := &wire.Open{
		ClockMS: uint64(max(time.Now().UnixMilli(), 0)), Locale: "en-US", Zone: "UTC", StrictEval: p.opts.StrictEval,
		TimeoutMS: uint64(p.limits.TimeoutMS), Limits: p.limits.wire(), Allow: p.allow,
	}
	o.Resolves = p.opts.Resolve != nil
	for _, name := range slices.Sorted(maps.Keys(p.opts.Modules)) {
		o.Modules = append(o.Modules, wire.Module{Specifier: name, Source: p.opts.Modules[name]})
	}
	if p.opts.Clock != nil {
		o.ClockMS, o.Frozen = uint64(*p.opts.Clock), true
	}
	if p.opts.Seed != nil {
		o.Seed = *p.opts.Seed
	} else {
		_, _ = rand.Read(o.Seed[:])
	}
	return o
}

// used is the processor time that the worker has used so far.
func (w *worker) used() (time.Duration, bool) {
	if w.clock != nil {
		return w.clock()
	}
	return w.ch.CPU()
}

// isTimeout tells an error of a deadline that this side has set.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// stale tells a worker that should serve nobody: it has ended, or what it was
// made of is no longer what lies on the host.
func (w *worker) stale() bool {
	select {
	case <-w.done:
		return true
	default:
		return w.ch.Stale()
	}
}
