package js

import (
	"context"
	"errors"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Resolver gives the module for a specifier that Options.Modules has not, as the
// module referrer asks for it; referrer is empty for a script. name is what the
// module is from now on: a name that was given before means the module of that
// time, and the source is not looked at. Relative specifiers are as the guest
// wrote them. An error is a TypeError of the guest's, with the text of a
// [*GuestError] or else a fixed one.
//
// It is called at most once for a specifier of a referrer, on a goroutine of its
// own, while the guest stands still; its time is host time, and each call counts
// among Limits.HostCalls. Specifiers have at most 1,024 bytes of UTF-8 and no
// control characters, and so must names.
type Resolver func(ctx context.Context, specifier, referrer string) (name, source string, err error)

// EvalModule runs source as a module and returns what it exports, as an object.
// Its imports come from Options.Modules and Options.Resolve. What awaits at its top
// is awaited. Functions and classes among its exports stay in the guest: the object
// has no property for them; namespaces that it gives on are objects likewise.
// The module is a fresh one each time and has no name that others could import;
// those that it imports run once in the life of the runtime.
func (r *Runtime) EvalModule(ctx context.Context, source string) (Value, error) {
	v, _, err := r.Run(ctx, Script{Code: source, Module: true})
	return v, err
}

// maxModules is how many modules a runtime may be given, and have.
const (
	maxModules     = 1024
	maxModuleBytes = 16 << 20
)

// checkModules looks at those that the host gives beforehand.
func (o *Options) checkModules() error {
	bytes := 0
	for name, source := range o.Modules {
		bytes += len(name) + len(source)
		if !wire.Specifier(name) {
			return &api.FieldError{Field: "modules", Value: clean(name, 100), Reason: "names must be UTF-8 of 1 to 1,024 bytes without control characters"}
		}
		if _, err := wire.AppendPayload(nil, &wire.Eval{ID: 1, Kind: wire.EvalModule, Source: source}); err != nil {
			return &api.FieldError{Field: "modules", Value: clean(name, 100), Reason: "sources must be UTF-8"}
		}
	}
	if len(o.Modules) > maxModules || bytes > maxModuleBytes-64<<10 {
		return &api.FieldError{Field: "modules", Value: len(o.Modules), Reason: "must be at most 1,024 and less than 16 MiB together"}
	}
	return nil
}

// imported answers one request for a module. The guest stands still, and so does
// whoever reads.
func (r *Runtime) imported(ctx context.Context, m *wire.Import) *Error {
	if m.CallID <= r.lastCall || m.EvalID != r.eval || r.binding != 0 {
		return failed(Protocol, "an import of number %d after %d, of evaluation %d in %d", m.CallID, r.lastCall, m.EvalID, r.eval)
	}
	r.calls++
	limits := &r.p.limits
	switch {
	case r.calls > limits.HostCalls:
		return limits.passed(CallLimit)
	case r.p.opts.Resolve == nil:
		return failed(Protocol, "an import where there is nobody to ask")
	case !wire.Specifier(m.Specifier):
		return failed(Protocol, "a specifier that no honest worker passes on")
	}
	r.lastCall = m.CallID
	r.clk.call()
	done := make(chan found, 1)
	go r.resolve(ctx, m, done)
	timer := time.NewTimer(r.clk.left())
	defer timer.Stop()
	select {
	case a := <-done:
		if r.clearedModule = a.cleared; r.denied == nil {
			r.denied = a.denied
		}
		r.deliver(a.Imported)
	case <-r.w.done: // whoever reads next sees its end
	case <-timer.C:
		return r.p.limits.passed(HostWait)
	}
	return nil
}

// deliver sends a module, or why there is none.
func (r *Runtime) deliver(a *wire.Imported) {
	r.stall.Lock()
	defer r.stall.Unlock()
	err := r.write(a)
	if errors.Is(err, wire.ErrLimit) || errors.Is(err, wire.ErrMalformed) || errors.Is(err, gate.ErrNoVerdict) {
		r.p.log.Error("a module is too large, no UTF-8, or was not judged", "name", a.Name)
		err = r.write(&wire.Imported{CallID: a.CallID, Failure: noModule(err)})
	}
	if err != nil && isTimeout(err) {
		go r.shut(r.p.limits.passed(WriteStall)) // whoever reads sees its end
	}
}

// found is what the host's resolver has come to.
type found struct {
	*wire.Imported
	cleared sum
	denied  error // by the gate
}

// resolve asks the host's resolver, and the gate about what it gives; it answers
// whatever becomes of that.
func (r *Runtime) resolve(ctx context.Context, m *wire.Import, done chan<- found) {
	answer := found{Imported: &wire.Imported{CallID: m.CallID, Failure: noModule(errors.New("goexit"))}}
	defer func() {
		if p := recover(); p != nil {
			r.p.log.Error("the resolver of modules panicked", "panic", p)
		}
		r.clk.answered()
		done <- answer
	}()
	name, source, err := r.p.opts.Resolve(ctx, m.Specifier, m.Referrer)
	switch {
	case err != nil:
		answer.Failure = noModule(err)
	case !wire.Specifier(name):
		r.p.log.Error("the resolver of modules gave a name that is none", "name", clean(name, 100))
	default:
		if r.p.opts.Gate != nil {
			if answer.cleared, answer.denied = r.p.judge(ctx, moduleKind(source), name, source); answer.denied != nil {
				r.p.log.Warn("the gate denies a module", "error", answer.denied)
				answer.Failure = noModule(errDenied)
				return
			}
		}
		answer.Name, answer.Source, answer.Failure = name, source, nil
	}
}

// noModule is what the guest sees of a resolver's error.
func noModule(err error) *wire.Failure {
	f := failureOf(err)
	var open *GuestError
	if !errors.As(err, &open) {
		f.Message = "the host gives no such module"
	}
	return f
}
