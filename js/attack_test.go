package js_test

import (
	"context"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// leak looks for an object of another realm where no stack is left, in every
// depth: the error of a call that the bridge makes for the guest.
const leak = `var O = {}, found = null
function look(d, ...pad) { try { new Proxy(O, O) } catch (e) { if (!(e instanceof Error)) found = found || e } }
function go(n) { const pad = Array(n).fill(0); (function rec() { try { rec() } catch (e) { look(...pad); return } look(...pad) })() }
for (let i = 0; i < 60 && !found; i++) go(i)
found === null`

// The codec's realm stays hidden from a guest that has used up its stack.
//
// proves part of G-07
func TestHiddenRealmAsRoot(t *testing.T) {
	rt := open(t, js.Options{StrictEval: true, Limits: js.Limits{TimeoutMS: 60_000}})
	if got := text(t, rt, leak); got != "true" {
		t.Error("an object of another realm was reached")
	}
	if got := text(t, rt, "new Proxy(O, O) instanceof Object"); got != "true" {
		t.Error(got)
	}
}

// A guest that makes much garbage keeps its worker: what the Go runtime of the
// worker wants one day was there before the seal.
func TestGarbage(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 60_000}})
	if err := rt.Bind(ctx, "take", func(b []byte) int { return len(b) }); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if _, err := rt.Eval(ctx, "new Uint8Array(14 << 20)"); err != nil {
			t.Fatal(err)
		}
		if got := text(t, rt, "take(new Uint8Array(14 << 20))"); got != "14680064" {
			t.Fatal(got)
		}
	}
}

// An answer that comes when its evaluation is over keeps its value, whatever is
// said in between, and what was awaited then answers nothing later.
func TestLateAnswers(t *testing.T) {
	rt := open(t, js.Options{})
	let := make(chan struct{})
	if err := rt.BindAsync(ctx, "late", func(context.Context) string { <-let; return strings.Repeat("late", 100) }); err != nil {
		t.Fatal(err)
	}
	if got := text(t, rt, "globalThis.p = late(); 1"); got != "1" {
		t.Fatal(got)
	}
	close(let)
	for range 3 {
		if got := text(t, rt, "'"+strings.Repeat("x", 2000)+"'.length"); got != "2000" {
			t.Fatal(got)
		}
	}
	if got := text(t, rt, "p.then(v => v.length)"); got != "400" {
		t.Error(got)
	}
	if got := kind(t, rt, "globalThis.first = new Promise(r => globalThis.settle = r); first"); got != js.NeverSettles {
		t.Errorf("%s", got)
	}
	if got := text(t, rt, "setTimeout(() => settle('the first'), 1); new Promise(r => setTimeout(() => r('the second'), 50))"); got != `"the second"` {
		t.Error(got)
	}
}

// What calls without an answer hold of the host's memory is bounded by bytes,
// not by their number alone.
func TestHeldArguments(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{ArgumentBytes: 1 << 20, TimeoutMS: 60_000}})
	let := make(chan struct{})
	if err := rt.BindAsync(ctx, "hold", func(_ context.Context, b []byte) int { <-let; return len(b) }); err != nil {
		t.Fatal(err)
	}
	if got := text(t, rt, `let refused = ""; globalThis.all = []; for (let i = 0; i < 4; i++) all.push(hold(new Uint8Array(400 << 10)).catch(e => { refused += e.message })); 1`); got != "1" {
		t.Fatal(got)
	}
	if got := text(t, rt, "refused"); strings.Count(got, "more bytes in calls of the host at one time than argument_bytes, ") != 2 {
		t.Errorf("%s", got)
	}
	close(let)
	if got := text(t, rt, "Promise.all(all).then(() => hold(new Uint8Array(900 << 10)))"); got != "921600" {
		t.Errorf("afterwards: %s", got)
	}
}

// One line of a megabyte and lines of nothing are both cut.
//
// proves part of G-16
func TestConsoleLines(t *testing.T) {
	lines := 0
	rt := open(t, js.Options{Limits: js.Limits{ConsoleBytes: 4 << 20, TimeoutMS: 60_000}, Console: func(js.Level, string) { lines++ }})
	if got := text(t, rt, "console.log('x'.repeat(1 << 20)); console.log('x'.repeat(3 << 20)); 1"); got != "1" {
		t.Error(got)
	}
	small := open(t, js.Options{Limits: js.Limits{ConsoleBytes: 1000, TimeoutMS: 60_000}, Console: func(js.Level, string) { lines++ }})
	lines = 0
	if got := text(t, small, "for (let i = 0; i < 100000; i++) console.log(''); 1"); got != "1" || lines > 1001 {
		t.Errorf("%s, %d lines", got, lines)
	}
}
