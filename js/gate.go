package js

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// sum tells one judged source from every other: by its kind, its name and its
// bytes. The zero value is none.
type sum [sha256.Size]byte

func sumOf(kind gate.Kind, name, source string) (out sum) {
	h := sha256.New()
	for _, s := range []string{string(kind), name, source} {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		_, _ = h.Write([]byte(s))
	}
	return sum(h.Sum(nil))
}

// admission is what [Pool.Admit] leaves in a script.
type admission struct {
	pool *Pool
	sum  sum
}

// Admit asks Options.Gate about a script and returns it marked as judged:
// [Runtime.Run] and its like, on a runtime of this pool, do not ask again for as
// long as kind, name and code are what they were. It is for a caller who has
// something to do between the verdict and the run. No worker is taken. The error
// is a *gate.Denied; without a gate there is none.
func (p *Pool) Admit(ctx context.Context, s Script) (Script, error) {
	if p.opts.Gate == nil {
		return s, nil
	}
	m, err := p.message(s)
	if err != nil {
		return s, err
	}
	s.admitted = admission{}
	if s.admitted.sum, err = p.judge(ctx, gateKind(m), m.Name, m.Source); err == nil {
		s.admitted.pool = p
	}
	return s, err
}

// clear asks the gate about a script, unless it was admitted as it is. Without a
// gate the sum is zero.
func (p *Pool) clear(ctx context.Context, s *Script, m *wire.Eval) (sum, error) {
	if p.opts.Gate == nil {
		return sum{}, nil
	}
	if s.admitted.pool == p && s.admitted.sum == sumOf(gateKind(m), m.Name, m.Source) {
		return s.admitted.sum, nil
	}
	return p.judge(ctx, gateKind(m), m.Name, m.Source)
}

// judge asks the gate about one source.
func (p *Pool) judge(ctx context.Context, kind gate.Kind, name, source string) (sum, error) {
	info := gate.Info{Kind: kind, Language: "javascript", Name: name, Timeout: p.opts.GateTimeout}
	if err := gate.Ask(ctx, p.opts.Gate, []byte(source), info); err != nil {
		return sum{}, err
	}
	return sumOf(kind, name, source), nil
}

// gateKind is what the engine will read an evaluation as.
func gateKind(m *wire.Eval) gate.Kind {
	switch m.Kind {
	case wire.EvalScript:
		return gate.Script
	case wire.EvalModule:
		return gate.Module
	case wire.EvalFeed:
		return gate.Feed
	}
	return "unknown"
}

// moduleKind is the kind of what can be imported. Who imports says whether it is
// JSON; what has the form of JSON can run nothing as a module either.
func moduleKind(source string) gate.Kind {
	if json.Valid([]byte(source)) {
		return gate.JSON
	}
	return gate.Module
}

// gateOptions checks what the options say of a gate, and has nothing run that it
// cannot see: code that is made of text, and code that is no text.
func (p *Pool) gateOptions() error {
	o := &p.opts
	if o.GateTimeout < 0 || o.GateTimeout > gate.MaxTimeout {
		return &api.FieldError{Field: "gate_timeout", Value: o.GateTimeout.String(), Reason: fmt.Sprintf("must be from 0, which is %v, to %v", gate.DefaultTimeout, gate.MaxTimeout)}
	}
	if o.Gate == nil {
		return nil
	}
	if slices.Contains(o.Allow, "WebAssembly") {
		return &api.FieldError{Field: "allow", Value: "WebAssembly", Reason: "cannot be had with a gate, which would not see its code"}
	}
	o.StrictEval = true
	return nil
}

// judgeModules asks the gate about the modules that every worker is given.
func (p *Pool) judgeModules(ctx context.Context) error {
	if p.opts.Gate == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.opts.Modules)) {
		source := p.opts.Modules[name]
		if _, err := p.judge(ctx, moduleKind(source), name, source); err != nil {
			return err
		}
	}
	return nil
}

// unjudged is an error for a message with a source that is not the one that was
// cleared. It is asked where messages are written, whoever made them.
func (r *Runtime) unjudged(m wire.Message) error {
	if r.p.opts.Gate == nil {
		return nil
	}
	var got, want sum
	switch m := m.(type) {
	case *wire.Eval:
		if (m.Kind == wire.EvalState || m.Kind == wire.EvalRebuild) && m.Source == "" {
			return nil // data, and names that the worker holds to be names
		}
		got, want = sumOf(gateKind(m), m.Name, m.Source), r.cleared
		r.cleared = sum{} // once
	case *wire.Imported:
		if m.Failure != nil {
			return nil
		}
		got, want = sumOf(moduleKind(m.Source), m.Name, m.Source), r.clearedModule
		r.clearedModule = sum{}
	default:
		return nil
	}
	if got != want {
		return &gate.Denied{Kind: "source", Reason: "no gate has judged it", Err: gate.ErrNoVerdict}
	}
	return nil
}

// errDenied is what a guest sees of a module that the gate denies.
var errDenied = &GuestError{Name: "TypeError", Message: "the host's gate does not let this module pass"}
