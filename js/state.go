package js

import (
	"context"
	"fmt"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Snapshot returns all that feeds have left in the guest's global scope, if it is
// plain data: inputs, var, let and const. No guest code runs. What is not plain
// data, such as a function, a class, an object that is held twice, a built-in that was
// changed, a timer that is left or a module that was loaded, is [Unsupported], and
// the error names the first of it. docs/javascript.md has the whole list.
//
// It is for [Runtime.Rebuild]. Seed, clock, bound functions and what was counted are
// not in it. Two runtimes with the same globals give the same bytes
// ([Value.MarshalBinary]), but what the worker says is the worker's word: believe it
// once a fresh runtime that was rebuilt from it gives the same.
func (r *Runtime) Snapshot(ctx context.Context) (Value, error) {
	v, err := r.stateOf(ctx, &wire.Eval{Kind: wire.EvalState, Name: "state"})
	if err != nil {
		return Value{}, err
	}
	if why := badState(v); why != "" {
		return Value{}, r.end(failed(Protocol, "the state: %s", why))
	}
	return v, nil
}

// Rebuild puts what Snapshot has returned into a runtime that has evaluated nothing
// yet; functions may be bound. What is no state is a *api.FieldError. A state that
// does not fit this runtime is [Unsupported] or [Thrown]: give the runtime up then.
func (r *Runtime) Rebuild(ctx context.Context, state Value) error {
	bad := func(why string) error {
		return &api.FieldError{Field: "state", Value: state.Kind().String(), Reason: why}
	}
	if why := badState(state); why != "" {
		return bad(why)
	}
	encoded, err := wire.Encode(state.wire(), r.p.limits.budget())
	if err != nil {
		return asFault(err).at("state")
	}
	if r.used.Load() {
		return bad("must be given to a runtime that has evaluated nothing")
	}
	_, err = r.stateOf(ctx, &wire.Eval{Kind: wire.EvalRebuild, Name: "state", State: encoded})
	return err
}

// stateOf has the worker answer one question of its state.
func (r *Runtime) stateOf(ctx context.Context, m *wire.Eval) (Value, error) {
	if err := r.enter(ctx); err != nil {
		return Value{}, err
	}
	defer func() { r.turn <- struct{}{} }()
	r.begin(m)
	done, err := r.converse(ctx, false, m)
	if err != nil {
		return Value{}, err
	}
	return r.outcome(done)
}

// badState says why a value is no state, "" if it is one.
func badState(v Value) string {
	list, ok := v.tree.([]any)
	if !ok {
		return "must be what Snapshot returns"
	}
	type global struct {
		scope bool // of let and const
		name  string
	}
	seen := map[global]bool{}
	vars := map[string]bool{}
	for i, e := range list {
		three, ok := e.([]any)
		if !ok || len(three) != 3 {
			return fmt.Sprintf("entry %d is none", i)
		}
		kind, ok1 := three[0].(string)
		name, ok2 := three[1].(string)
		if !ok1 || !ok2 || kind != "let" && kind != "const" && kind != "var" && kind != "own" {
			return fmt.Sprintf("entry %d is none", i)
		}
		g := global{kind == "let" || kind == "const", name}
		if seen[g] || vars[name] || kind == "var" && seen[global{!g.scope, name}] {
			return fmt.Sprintf("entry %d has a name twice", i)
		}
		seen[g], vars[name] = true, kind == "var"
		if !plainState(three[2]) {
			return fmt.Sprintf("entry %d has a value that is no plain data", i)
		}
	}
	return ""
}

// plainState reports whether a value is one that a state can have.
func plainState(tree any) bool {
	all := func(lists ...[]any) bool {
		for _, list := range lists {
			for _, v := range list {
				if !plainState(v) {
					return false
				}
			}
		}
		return true
	}
	switch t := tree.(type) {
	case []any:
		return all(t)
	case *wire.Object:
		return all(t.Values)
	case *wire.Map:
		return all(t.Keys, t.Values)
	case *wire.Set:
		return all(t.Values)
	case *wire.Error:
		return false
	}
	return true
}
