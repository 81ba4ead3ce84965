package js

import (
	"context"
	"math"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/internal/testenv/liar/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

func snapshots(rt *Runtime) error { _, err := rt.Snapshot(context.Background()); return err }

func global(kind, name string, v any) any { return []any{kind, name, v} }

// states is what a worker says that its state is.
func states(v any) []script.Step {
	return list(evaluation, said(&wire.Done{ID: 1, Value: mustEncode(v)}), rest)
}

// A worker that lies about its state is found out where it says what is none,
// with each type of message and each hostile form of it; an accessor has no
// encoding, and a cycle is too deep.
//
// proves part of T-11 H-62
func TestLiarStatesAsRoot(t *testing.T) {
	l := openLiars(t, Options{Limits: Limits{ResultBytes: 64 << 10}})
	for _, kind := range wire.Types(wire.Worker) {
		row := hostile[kind.Type]
		for what, steps := range badFrames(kind, said(row.good).Parts[0].Bytes, row.bad) {
			l.see(t, lie{name: kind.Name + ": " + what, steps: append(append([]script.Step{evaluation}, steps...), rest), do: snapshots, want: Protocol})
		}
	}
	state, err := ValueOf([]any{global("let", "a", 1)})
	if err != nil {
		t.Fatal(err)
	}
	rebuilds := func(rt *Runtime) error { return rt.Rebuild(context.Background(), state) }
	for _, c := range []lie{
		{name: "a number", steps: states(1.0), want: Protocol},
		{name: "undefined", steps: states(wire.Undefined{}), want: Protocol},
		{name: "an object", steps: states(&wire.Object{Keys: []string{"a"}, Values: []any{1.0}}), want: Protocol},
		{name: "an entry that is none", steps: states([]any{1.0}), want: Protocol},
		{name: "an entry of two", steps: states([]any{[]any{"let", "a"}}), want: Protocol},
		{name: "a hole", steps: states([]any{wire.Hole{}}), want: Protocol},
		{name: "another kind", steps: states([]any{global("function", "a", 1.0)}), want: Protocol},
		{name: "a name twice", steps: states([]any{global("let", "a", 1.0), global("let", "a", 1.0)}), want: Protocol},
		{name: "a name of two scopes at odds", steps: states([]any{global("let", "a", 1.0), global("var", "a", 1.0)}), want: Protocol},
		{name: "an Error", steps: states([]any{global("let", "a", []any{&wire.Map{Keys: []any{&wire.Error{}}, Values: []any{1.0}}})}), want: Protocol},
		{name: "no end of depth", steps: list(evaluation, frame(wire.TypeDone, 1, 0, 0, 0, 1, sized(rawValue(deepState(3000)))), rest), want: ResultLimit},
		{name: "no tag", steps: list(evaluation, frame(wire.TypeDone, 1, 0, 0, 0, 1, sized(rawValue([]float64{99}))), rest), want: Protocol},
		{name: "more than its limit", steps: list(evaluation, said(&wire.Done{ID: 1, Value: mustEncode([]any{global("let", "a", string(make([]byte, 70<<10)))})}), rest), want: Protocol},
		{name: "refused by a word of the host's", steps: list(evaluation, said(&wire.Done{ID: 1, Failure: &wire.Failure{Kind: "closed"}}), rest), want: Protocol},
		{name: "a call meanwhile", steps: list(evaluation, frame(wire.TypeCall, 1, 7, 1, 0, empty), rest), want: Protocol},
		{name: "a wait", steps: list(evaluation, said(&wire.Waiting{EvalID: 1}), rest), want: Protocol},
		{name: "refused", steps: list(evaluation, said(&wire.Done{ID: 1, Failure: &wire.Failure{Kind: "unsupported", Message: "\u202ea\x1b"}}), rest), want: Unsupported},
		{name: "control", steps: states([]any{global("let", "a", 1.0), global("own", "a", []any{wire.Hole{}}), global("own", "", &wire.Map{})})},
		{name: "inputs refused by one that rebuilds", do: rebuilds, steps: list(evaluation, said(&wire.Done{ID: 1, Failure: &wire.Failure{Kind: "bind_failed"}}), rest), want: Protocol},
		{name: "a call of one that rebuilds", do: rebuilds, steps: list(evaluation, frame(wire.TypeCall, 1, 7, 1, 0, empty), rest), want: Protocol},
		{name: "control of one that rebuilds", do: rebuilds, steps: list(evaluation, one, rest)},
	} {
		if c.do == nil {
			c.do = snapshots
		}
		l.see(t, c)
	}
}

// deepState is arrays in each other, in words.
func deepState(levels int) (words []float64) {
	for range levels {
		words = append(words, 7, 1)
	}
	return append(words, 1)
}

// A state that has the form of one and is not what any worker would say is found
// by an honest one that is rebuilt from it: it refuses, or says something else.
//
// proves part of H-62
func TestStateAtOdds(t *testing.T) {
	p, err := NewPool(context.Background(), Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()}, PoolOptions{Warm: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	for _, c := range []struct {
		name string
		tree []any
		same bool
	}{
		{"control", []any{global("own", "a", 1.0), global("let", "b", &wire.Object{Keys: []string{"x"}, Values: []any{wire.Date(1)}}), global("var", "c", []any{wire.Hole{}})}, true},
		{"out of order", []any{global("let", "b", 1.0), global("let", "a", 1.0)}, false},
		{"a built-in", []any{global("own", "Array", 1.0)}, false},
		{"a constant of the language", []any{global("var", "undefined", 1.0)}, false},
		{"a function of the host's", []any{global("own", "tool", 1.0)}, false},
		{"one that is declared", []any{global("let", "tool", 1.0)}, false},
		{"more than a name", []any{global("let", "a=b,c", 1.0)}, false},
		{"an argument of the worker's script", []any{global("let", "$state$", 1.0), global("var", "$state$$", 2.0)}, true},
		{"keys twice", []any{global("let", "a", &wire.Map{Keys: []any{1.0, 1.0}, Values: []any{1.0, 2.0}})}, false},
		{"minus zero as a key", []any{global("let", "a", &wire.Set{Values: []any{negative}})}, false},
		{"keys in another order than the language's", []any{global("let", "a", &wire.Object{Keys: []string{"b", "1"}, Values: []any{1.0, 2.0}})}, false},
	} {
		rt, err := p.Checkout(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.BindPaused(context.Background(), "tool"); err != nil {
			t.Fatal(err)
		}
		state := valueOf(c.tree, "")
		err = rt.Rebuild(context.Background(), state)
		var again Value
		if err == nil {
			again, err = rt.Snapshot(context.Background())
		}
		if same := err == nil && Equal(state, again); same != c.same {
			t.Errorf("%s: %v, %v", c.name, again, err)
		}
		_ = rt.Close()
	}
}

var negative = math.Copysign(0, -1)
