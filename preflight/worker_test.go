package preflight_test // package js, which it asks, is above package preflight

import (
	"context"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
	"github.com/glovebox-dev/glovebox/preflight"
)

// What evades the check by a name made at run time is not found, and does not
// exist in a worker: the absence there is what holds.
//
// proves P-05
func TestNoBoundary(t *testing.T) {
	ctx := context.Background()
	rt, err := js.New(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, source := range []string{
		"globalThis['req' + 'uire']",
		"globalThis[`fet${'ch'}`]",
		"globalThis[['XML', 'HttpRequest'].join('')]",
		"Reflect.get(globalThis, 'Web' + 'Socket')",
		"(0, eval)('typeof pro' + 'cess === \"undefined\" ? undefined : 1')",
		"this['De' + 'no']",
		"const g = globalThis; g.fetch",
		"(() => {}).constructor('return typeof req' + 'uire === \"function\" ? require : undefined')()",
		"[].map['const' + 'ructor']('return this.fet' + 'ch')()",
	} {
		if r := preflight.Check(source, preflight.Options{}); len(r.Findings) > 0 {
			t.Errorf("%s: %s", source, r)
		}
		v, err := rt.Eval(ctx, "{"+source+"}")
		if err != nil || !v.IsUndefined() {
			t.Errorf("%s: %v, %v", source, v, err)
		}
	}
	// The control: what does exist is not undefined, by the same ways.
	for _, source := range []string{"globalThis['Mat' + 'h'].PI", "[].map['const' + 'ructor']('return this.Arr' + 'ay')().length"} {
		if v, err := rt.Eval(ctx, source); err != nil || v.IsUndefined() {
			t.Errorf("%s: %v, %v", source, v, err)
		}
	}
}

// What the check calls an error does fail in a worker, or comes to nothing.
//
// proves part of P-05
func TestErrorsFail(t *testing.T) {
	ctx := context.Background()
	rt, err := js.New(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, source := range []string{
		"import a from 'b'", "export const a = 1", "import('a')", "require('fs')", "fetch('x')", "new XMLHttpRequest()", "new WebSocket('x')", "process.env", "Deno.args",
		"child_process.exec('x')", "globalThis.fetch('x')", "import.meta",
	} {
		if preflight.Check(source, preflight.Options{}).OK() {
			t.Errorf("%s: no finding", source)
		}
		if v, err := rt.Eval(ctx, source); err == nil {
			t.Errorf("%s: %v", source, v)
		}
	}
}

// Every name of the list does not exist in a worker, and what the rule of the top
// level finds does not work in a script of one.
//
// proves part of P-05
func TestAbsentNamesAreAbsent(t *testing.T) {
	ctx := context.Background()
	rt, err := js.New(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, name := range preflight.Others() {
		v, err := rt.Eval(ctx, "typeof "+name)
		if err != nil || v.Any() != "undefined" {
			t.Errorf("%s is %v, %v", name, v, err)
		}
		if r := preflight.Check(name+"()", preflight.Options{}); len(r.Findings) != 1 {
			t.Errorf("%s: %s", name, r)
		}
	}
	for _, source := range []string{"await Promise.resolve(1)", "return 1"} {
		if v, err := rt.Eval(ctx, source); js.KindOf(err) != js.SyntaxError {
			t.Errorf("%s: %v, %v", source, v, err)
		}
		if v, _, err := rt.Run(ctx, js.Script{Code: source, Feed: &js.Feed{}}); err != nil { // the control
			t.Errorf("%s: %v, %v", source, v, err)
		}
	}
}
