package js

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// gated is a runtime of an honest worker with a gate that allows all, or none.
func gated(t *testing.T, o Options) *Runtime {
	t.Helper()
	o.InitPath, o.WorkerPath = testenv.Init(), testenv.Worker()
	rt, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

func allows(_ context.Context, source []byte, _ gate.Info) gate.Verdict {
	return gate.Verdict{Allow: !strings.Contains(string(source), "DENY")}
}

// A worker is asked to run bytes that were not judged, by code of this package
// that forgot to: they are not sent. The control is a runtime without a gate.
//
// proves part of H-57
func TestUnjudgedIsNotSent(t *testing.T) {
	ctx := context.Background()
	send := func(rt *Runtime, cleared sum, m *wire.Eval) error {
		rt.begin(m)
		rt.cleared = cleared
		_, err := rt.converse(ctx, false, m)
		return err
	}
	script := func() *wire.Eval {
		return &wire.Eval{Kind: wire.EvalScript, Name: "eval", Source: "globalThis.ran = 1"}
	}
	for name, cleared := range map[string]sum{
		"never":        {},
		"other source": sumOf(gate.Script, "eval", "globalThis.ran = 2"),
		"other name":   sumOf(gate.Script, "evil", "globalThis.ran = 1"),
		"other kind":   sumOf(gate.Module, "eval", "globalThis.ran = 1"),
	} {
		rt := gated(t, Options{Gate: allows})
		if err := send(rt, cleared, script()); !errors.Is(err, gate.ErrNoVerdict) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := rt.Eval(ctx, "1"); KindOf(err) != Closed {
			t.Errorf("%s: the runtime goes on: %v", name, err)
		}
	}
	rt := gated(t, Options{Gate: allows})
	if err := send(rt, sumOf(gate.Script, "eval", "globalThis.ran = 1"), script()); err != nil {
		t.Error(err)
	}
	if err := send(rt, sum{}, script()); !errors.Is(err, gate.ErrNoVerdict) { // a clearance is for one time
		t.Error(err)
	}
	if err := send(gated(t, Options{}), sum{}, script()); err != nil {
		t.Error(err)
	}
	// A module likewise: the guest gets an error in its place.
	rt = gated(t, Options{Gate: allows})
	if err := rt.unjudged(&wire.Imported{CallID: 1, Name: "a", Source: "1"}); !errors.Is(err, gate.ErrNoVerdict) {
		t.Error(err)
	}
	rt.clearedModule = sumOf(moduleKind("export {}"), "a", "export {}")
	if err := rt.unjudged(&wire.Imported{CallID: 1, Name: "a", Source: "export {}"}); err != nil {
		t.Error(err)
	}
	if err := rt.unjudged(&wire.Imported{CallID: 1, Name: "a", Failure: &wire.Failure{}}); err != nil {
		t.Error(err)
	}
}

// What is denied reaches no worker: no evaluation has begun, and its runtime is
// as it was.
//
// proves part of H-57
func TestDeniedSendsNothing(t *testing.T) {
	ctx := context.Background()
	rt := gated(t, Options{Gate: allows})
	for range 3 {
		_, err1 := rt.Eval(ctx, "'DENY'")
		_, err2 := rt.Start(ctx, Script{Code: "'DENY'"})
		_, err3 := rt.EvalModule(ctx, "'DENY'")
		_, err4 := rt.Execute(ctx, Script{Code: "'DENY'"})
		for _, err := range []error{err1, err2, err3, err4} {
			if !errors.As(err, new(*gate.Denied)) {
				t.Error(err)
			}
		}
	}
	if rt.eval != 0 || rt.calls != 0 || rt.waves {
		t.Errorf("evaluation %d began", rt.eval)
	}
	if _, err := rt.Eval(ctx, "1"); err != nil || rt.eval != 1 { // the control
		t.Error(err, rt.eval)
	}
}
