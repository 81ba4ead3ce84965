package js

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Runtime is one guest and its global object, which last until Close. It runs
// one thing at a time: what comes beside it, also from inside a function of the
// host, is refused with [Busy] at once, so that nothing waits for itself. An
// error of a kind that ended the worker closes it.
type Runtime struct {
	p    *Pool
	pool *Pool // its own, closed with it
	w    *worker
	turn chan struct{}
	clk  clock
	// stall guards the deadline of writes, which answers of calls share.
	stall sync.Mutex

	mu       sync.Mutex
	over     *Error // why nothing runs any more
	bindings map[uint64]*binding
	names    map[string]uint64
	revoked  map[uint64]bool
	held     int64 // bytes of arguments of calls without an answer, as they came
	open     int64 // calls without an answer
	refusals []refusal
	taken    int64 // of the host's memory by values of this runtime, see Limits.HostBytes

	encoding sync.Mutex   // one answer at a time is made ready
	sending  atomic.Int64 // since when the conversation waits to write, in ns since 1970; 0: it does not

	// Of the evaluation that runs, used by its goroutine alone.
	eval     uint64
	binding  uint64 // token that is being bound, 0 in an evaluation
	limits   Limits // that hold for it
	lastCall uint64
	calls    int64               // in the life of the runtime
	before   int64               // of them, before this evaluation
	console  int64               // bytes of this evaluation
	collect  func(Level, string) // of Execute
	listens  func(Level, string) // Script.Console
	inputs   bool                // it brings some
	used     atomic.Bool         // there was one
	cpu      time.Duration       // of the worker when it began
	waves    bool                // it may pause
	paused   map[uint64]*paused  // calls that wait for Resume, by their number

	cleared, clearedModule sum   // what the gate has judged and the worker may be sent next
	denied                 error // the first module of this evaluation that it has denied

	answers atomic.Uint64 // to asynchronous calls, in the life of the runtime

	once sync.Once
}

func newRuntime(p *Pool, w *worker) *Runtime {
	r := &Runtime{p: p, w: w, turn: make(chan struct{}, 1), bindings: map[uint64]*binding{}, names: map[string]uint64{}, revoked: map[uint64]bool{}}
	r.clk.deadline = w.ch.SetReadDeadline
	r.limits = p.limits
	r.turn <- struct{}{}
	return r
}

// Script is one piece of source.
type Script struct {
	Name string // in stacks of errors; "eval" if empty
	Code string
	// Module says that it is a module; see [Runtime.EvalModule].
	Module bool
	// Feed, if it is not nil, says that it is a feed; see there.
	Feed *Feed
	// Console gets the console's text of this evaluation, beside Options.Console and
	// on the same terms. By default nobody does.
	Console func(Level, string)
	// TimeoutMS is a shorter TimeoutMS than that of the limits; 0 leaves it. HardMS is
	// shorter by as much then, and CPUMS at most twice that.
	TimeoutMS int64

	admitted admission
}

// Usage is what an evaluation took.
type Usage struct {
	Calls     int64         // of functions of the host
	Guest     time.Duration // with no function of the host running
	Host      time.Duration // waiting for functions of the host
	HeapBytes int64         // of the engine, as the worker says
	Console   int64         // bytes of console text that came, line ends among them
}

// Eval runs a script and returns the value of its last expression. A promise is
// awaited. What it declares at its top stays for the next evaluation.
func (r *Runtime) Eval(ctx context.Context, code string) (Value, error) {
	v, _, err := r.Run(ctx, Script{Code: code})
	return v, err
}

// Run runs a script and says what it took.
func (r *Runtime) Run(ctx context.Context, s Script) (Value, Usage, error) {
	return r.run(ctx, s, nil)
}

// run is Run; collect gets the console's text too.
func (r *Runtime) run(ctx context.Context, s Script, collect func(Level, string)) (Value, Usage, error) {
	m, err := r.message(s)
	if err != nil {
		return Value{}, Usage{}, err
	}
	cleared, err := r.p.clear(ctx, &s, m)
	if err != nil {
		return Value{}, Usage{}, err
	}
	if err := r.enter(ctx); err != nil {
		return Value{}, Usage{}, err
	}
	defer func() { r.turn <- struct{}{} }()
	r.cleared, r.collect, r.listens = cleared, collect, s.Console
	defer func() { r.collect, r.listens = nil, nil }()
	r.begin(m)
	done, err := r.converse(ctx, false, m)
	if err != nil {
		return Value{}, r.usage(nil), err
	}
	v, err := r.outcome(done)
	return v, r.usage(done), err
}

// begin makes an evaluation of a message.
func (r *Runtime) begin(m *wire.Eval) {
	r.eval++
	r.used.Store(r.used.Load() || m.Kind != wire.EvalState)
	m.ID, r.console, r.before, r.waves, r.denied = r.eval, 0, r.calls, m.Waves, nil
	r.inputs = m.Feed != nil && m.Feed.Given()
	r.limits = r.p.limits.within(int64(m.TimeoutMS))
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// message checks a script, its names against what is bound too.
func (r *Runtime) message(s Script) (*wire.Eval, error) {
	if s.Feed != nil {
		for name := range s.Feed.Inputs {
			if r.bound(name) {
				return nil, inputRefused(name, "is a name of the host's functions")
			}
		}
	}
	return r.p.message(s)
}

// message checks a script.
func (p *Pool) message(s Script) (*wire.Eval, error) {
	m := &wire.Eval{Kind: wire.EvalScript, Name: s.Name, Source: s.Code, TimeoutMS: uint64(s.TimeoutMS)}
	if m.Name == "" {
		m.Name = "eval"
	}
	if s.Module {
		m.Kind = wire.EvalModule
	}
	if s.TimeoutMS < 0 || s.TimeoutMS > p.limits.TimeoutMS {
		return nil, &api.FieldError{Field: "timeout_ms", Value: s.TimeoutMS, Reason: "must be from 0 to that of the runtime"}
	}
	if _, err := wire.AppendPayload(nil, &wire.Eval{ID: 1, Kind: m.Kind, Name: m.Name}); err != nil {
		return nil, &api.FieldError{Field: "name", Value: clean(s.Name, 100), Reason: "must be at most 1,024 bytes of UTF-8"}
	}
	if !utf8.ValidString(s.Code) {
		return nil, &api.FieldError{Field: "code", Value: clean(s.Code, 100), Reason: "must be UTF-8"}
	}
	if len(s.Code) > wire.MaxPayload-4<<10 {
		return nil, &api.FieldError{Field: "code", Value: len(s.Code), Reason: "must be less than 16 MiB"}
	}
	if s.Feed != nil {
		if err := p.addFeed(m, s); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// enter takes the runtime for one thing. Where it has paused that is Resume's.
func (r *Runtime) enter(ctx context.Context) error { return r.take(ctx, false) }

func (r *Runtime) take(ctx context.Context, resume bool) error {
	if err := ctx.Err(); err != nil {
		return ctxEnded(ctx, "before it began")
	}
	select {
	case <-r.turn:
	default:
		return r.ended(failed(Busy, "the runtime runs something else"))
	}
	over := r.ended(nil)
	if over == nil && r.waves && !resume {
		over = failed(Busy, "the runtime has paused; Resume goes on")
	}
	if over != nil {
		r.turn <- struct{}{}
		return over
	}
	return nil
}

// ended is why the runtime is over, or else what is given.
func (r *Runtime) ended(otherwise *Error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over != nil:
		return since(r.over)
	case otherwise != nil:
		return otherwise
	}
	return nil
}

// why is what ended the runtime, nil while it has not ended.
func (r *Runtime) why() *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// converse sends messages and serves the worker until it has answered them, or
// says that it waits. A conversation may be that of an evaluation that goes on.
func (r *Runtime) converse(ctx context.Context, on bool, messages ...wire.Message) (wire.Message, error) {
	limits := &r.limits
	canceled := func() bool { return false }
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, r.w.cancel)
		defer stop()
		canceled = func() bool { return !stop() || ctx.Err() != nil } // the worker is being ended, whatever it still said, or was about to be
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel() // what a function of the host still does for nobody
	r.clk.begin(on, ms(limits.HardMS), ms(limits.HostWaitMS))
	defer r.clk.end()
	whole := false
	defer func() {
		if !whole { // a panic or Goexit in Console: nobody serves the worker any more
			_ = r.end(failed(Closed, "by a panic of the console's function"))
		}
	}()
	watch := r.watchCPU(on)
	defer watch()
	send := func(m wire.Message) error {
		r.writes()
		defer r.wrote()
		return r.send(m)
	}
	rest := messages
	for i, m := range messages {
		// Answers one at a time: a worker that has one reads no second before it has
		// written what the guest says to it, and that it cannot while nobody reads.
		if on && i > 0 {
			break
		}
		rest = messages[i+1:]
		if err := send(m); err != nil {
			whole = true
			return nil, r.broken(ctx, err)
		}
	}
	for {
		answer, err := r.w.in.Read()
		for err == nil && len(rest) > 0 && r.reads(answer, len(rest)) {
			err, rest = send(rest[0]), rest[1:]
		}
		if err != nil {
			whole = true
			return nil, r.broken(ctx, err)
		}
		done, why := r.serve(inner, answer)
		whole = why != nil || done
		if why != nil {
			return nil, r.end(why)
		}
		if done && canceled() {
			return nil, r.end(ctxEnded(ctx, "while it ran"))
		}
		if done {
			return answer, nil
		}
	}
}

// serve does what one message asks for; true is for one that answers the host.
func (r *Runtime) serve(ctx context.Context, m wire.Message) (bool, *Error) {
	switch m := m.(type) {
	case *wire.Done:
		if r.binding != 0 || m.ID != r.eval {
			return false, failed(Protocol, "an answer to another evaluation")
		}
		return true, nil
	case *wire.Bound:
		if r.binding == 0 || m.Token != r.binding {
			return false, failed(Protocol, "an answer to another binding")
		}
		return true, nil
	case *wire.Waiting:
		return r.waits(m)
	case *wire.Call:
		return false, r.call(ctx, m)
	case *wire.Import:
		return false, r.imported(ctx, m)
	case *wire.Console:
		return false, r.print(m)
	case *wire.Fatal:
		return false, failed(Crashed, "%s: %s", m.Kind, clean(m.Message, 400))
	}
	return false, failed(Protocol, "message %T out of turn", m)
}

// print passes console text on, up to its limit; the worker cuts it at the same
// place, so that what is far beyond is no honest worker's.
func (r *Runtime) print(m *wire.Console) *Error {
	if r.binding == 0 && m.EvalID != r.eval || r.binding != 0 && m.EvalID != 0 {
		return failed(Protocol, "console text of evaluation %d in %d", m.EvalID, r.eval)
	}
	r.console += int64(max(len(m.Text), 1)) // what parts them, and the line's end
	for i, s := range m.Text {
		r.console += int64(len(s))
		m.Text[i] = clean(s, len(s))
	}
	if r.console > 2*r.p.limits.ConsoleBytes+64<<10 {
		return failed(Protocol, "console text beyond its limit")
	}
	for _, to := range []func(Level, string){r.collect, r.listens, r.p.opts.Console} {
		if to != nil {
			to(levels[m.Level], strings.Join(m.Text, " "))
		}
	}
	return nil
}

// send writes one message; the worker has WriteStallMS to take it.
func (r *Runtime) send(m wire.Message) error {
	r.stall.Lock()
	defer r.stall.Unlock()
	return r.write(m)
}

// write is send for who has the lock.
func (r *Runtime) write(m wire.Message) error {
	if err := r.unjudged(m); err != nil {
		return err
	}
	_ = r.w.ch.SetWriteDeadline(time.Now().Add(time.Duration(r.p.limits.WriteStallMS) * time.Millisecond))
	return r.w.out.Write(m)
}

// broken says why the conversation cannot go on, and ends the runtime.
func (r *Runtime) broken(ctx context.Context, err error) error {
	var limit *wire.LimitError
	switch {
	case r.why() != nil: // Close, or a limit that another goroutine holds
		r.w.end()
		return r.why()
	case ctx.Err() != nil:
		return r.end(ctxEnded(ctx, "while it ran"))
	case errors.As(err, &limit), errors.Is(err, wire.ErrMalformed), errors.Is(err, wire.ErrVersion):
		return r.end(&Error{Kind: Protocol, Message: err.Error(), Err: err})
	case errors.Is(err, gate.ErrNoVerdict):
		return r.end(&Error{Kind: Closed, Message: err.Error(), Err: err})
	case isTimeout(err) && r.writing(err):
		return r.end(r.p.limits.passed(WriteStall))
	case isTimeout(err):
		return r.end(r.limits.passed(r.clk.over()))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrClosed):
	}
	took := r.clk.soFar()
	why := r.w.cause(&r.p.limits) // the end of its channel is the end of a worker
	if why.Kind == Crashed && r.binding == 0 && took >= ms(r.limits.TimeoutMS) {
		// Jobs of promises that never end are what the engine cannot be stopped in: it aborts.
		why = failed(HardTimeout, "the engine could not be stopped at timeout_ms, %d ms, and ended (%s)", r.limits.TimeoutMS, why.Message)
	}
	return r.end(why)
}

// writing tells an error of a write from one of a read.
func (r *Runtime) writing(err error) bool {
	var path *os.PathError
	return errors.As(err, &path) && path.Op == "write"
}

// end ends the worker; the first reason is the one that is kept.
func (r *Runtime) end(why *Error) error {
	r.shut(why)
	return why
}

func (r *Runtime) shut(why *Error) {
	r.mu.Lock()
	if r.over == nil {
		r.over = why
	}
	r.mu.Unlock()
	r.once.Do(func() {
		r.p.drop(r.w)
		r.p.out.Delete(r)
		if r.pool != nil {
			go func() { _ = r.pool.Close() }()
		}
	})
}

// guestKinds are what a worker may say of its guest.
var guestKinds = []Kind{SyntaxError, Thrown, NeverSettles, Timeout, ResultLimit, Unsupported}

// outcome decodes what an evaluation came to.
func (r *Runtime) outcome(m wire.Message) (Value, error) {
	done := m.(*wire.Done)
	if done.Failure != nil {
		return Value{}, r.failure(done.Failure)
	}
	v, err := decodeValue("result", done.Value, r.room())
	if err != nil {
		if errors.Is(err, wire.ErrLimit) {
			return Value{}, &Error{Kind: ResultLimit, Message: err.Error(), Err: err}
		}
		return Value{}, r.end(&Error{Kind: Protocol, Message: "the result: " + err.Error(), Err: err})
	}
	return v, nil
}

// failure is the error of what the worker says of its guest.
func (r *Runtime) failure(f *wire.Failure) error {
	if !slices.Contains(guestKinds, Kind(f.Kind)) && (Kind(f.Kind) != BindFailed || !r.inputs) {
		return r.end(failed(Protocol, "an error of kind %q", f.Kind))
	}
	return &Error{Kind: Kind(f.Kind), Name: guestName(f.Name), Message: clean(f.Message, 16<<10), Stack: clean(f.Stack, 16<<10), Err: r.denied}
}

// guestName is the name of a guest's error, "Error" for one that claims to be a
// failure of the host.
func guestName(s string) string {
	s = clean(s, 100)
	for _, k := range hostNames {
		if strings.EqualFold(s, k) {
			return "Error"
		}
	}
	return s
}

// usage of the evaluation that has just ended.
func (r *Runtime) usage(m wire.Message) Usage {
	guest, host := r.clk.used()
	u := Usage{Calls: r.calls - r.before, Guest: guest, Host: host, Console: r.console}
	if done, ok := m.(*wire.Done); ok {
		u.HeapBytes = int64(min(done.Usage.HeapBytes, 1<<62))
	}
	return u
}

// Alive tells whether the runtime can still run something. A worker may end at any
// time: what has begun then says why.
func (r *Runtime) Alive() bool {
	select {
	case <-r.w.done:
		return false
	default:
		return r.why() == nil
	}
}

// LastUsage is what the last evaluation took, whatever came of it. It is not to be
// called beside one.
func (r *Runtime) LastUsage() Usage { return r.usage(nil) }

// Check tells what Run would refuse a script for, before anything happens: the
// error is an *api.FieldError or a *ConvertError.
func (r *Runtime) Check(s Script) error {
	_, err := r.message(s)
	return err
}

// Engine is what runs the guest.
func (r *Runtime) Engine() Engine { return r.w.engine }

// Evidence is what was seen of the worker before any guest code.
func (r *Runtime) Evidence() api.Evidence { return r.w.proof }

// Close ends the worker and returns when nothing is left of it. It is
// idempotent and safe beside a running evaluation, which then ends with
// [Closed].
func (r *Runtime) Close() error {
	r.shut(failed(Closed, "the runtime was closed"))
	if r.pool != nil {
		return r.pool.Close()
	}
	<-r.w.done
	return nil
}
