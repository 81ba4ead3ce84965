package js_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// A guest that has spoilt everything it can reach changes nothing of what
// crosses, and cannot abort the worker.
//
// proves part of G-01
func TestSpoiltWorld(t *testing.T) {
	rt := open(t, js.Options{})
	if err := rt.Bind(ctx, "echo", func(v js.Value) any { return v }); err != nil {
		t.Fatal(err)
	}
	if err := rt.BindAsync(ctx, "later", func(n int) int { return n + 1 }); err != nil {
		t.Fatal(err)
	}
	spoil := `
		globalThis.touched = 0
		const evil = function () { touched++; throw "evil" }
		const define = Object.defineProperty, names = Object.getOwnPropertyNames, iterator = Symbol.iterator
		const classes = [Array, String, Map, Set, Promise, Date, Error, TypeError, Function, WeakMap, Number, BigInt, RegExp, ArrayBuffer, Float64Array, Symbol]
		for (let i = 0; i < classes.length; i++) {
			const two = [classes[i], classes[i].prototype]
			for (let k = 0; k < 2; k++) {
				const all = names(two[k])
				for (let j = 0; j < all.length; j++) {
					const n = all[j]
					if (n === "prototype" || n === "constructor" || n === "length" || n === "name") continue
					try { define(two[k], n, { __proto__: null, get: evil, set: evil }) } catch {}
				}
			}
			try { define(classes[i].prototype, iterator, { __proto__: null, get: evil }) } catch {}
		}
		const own = [Reflect, JSON, Math, Object]
		for (let i = 0; i < own.length; i++) { const all = names(own[i]); for (let j = 0; j < all.length; j++) try { own[i][all[j]] = evil } catch {} }
		const plain = ["value", "get", "set", "writable", "enumerable", "configurable", "then", "toJSON", "0", "1", "index", "resolve", "message", "stack"]
		for (let i = 0; i < plain.length; i++)
			try { define({}.__proto__, plain[i], { __proto__: null, get: evil, set: evil, configurable: true }) } catch {}
		globalThis.Error = globalThis.Promise = globalThis.Map = globalThis.TypeError = evil
		touched = 0; 1`
	if got := text(t, rt, spoil); got != "1" {
		t.Fatal(got)
	}
	for code, want := range map[string]string{
		`({ a: [1, "x", null, { b: true }] })`:                                      `{"a":[1,"x",null,{"b":true}]}`,
		`echo({ k: [1, 2, { z: "y" }], __proto__: null })`:                          `{"k":[1,2,{"z":"y"}]}`,
		`let caught; try { echo(() => 1) } catch (e) { caught = typeof e }; caught`: `"object"`,
		`console.log({ a: 1 }, [1]); "logged"`:                                      `"logged"`,
	} {
		if got := text(t, rt, code); got != want {
			t.Errorf("%s: %s, not %s", code, got, want)
		}
		if got := text(t, rt, "touched"); got != "0" {
			t.Errorf("%s: %s of the guest's traps ran", code, got)
		}
	}
	// An error that the guest does not catch is made by the engine, which may ask
	// Error.stackTraceLimit: the guest's own doing, in its own time.
	if got := kind(t, rt, "null.x"); got != js.Thrown {
		t.Errorf("an error: %s", got)
	}
	if got := text(t, rt, "'alive'"); got != `"alive"` {
		t.Error(got)
	}
}

// The context, Close and the death of the worker each end an evaluation with
// their own kind, and nothing is left.
//
// proves B-17 B-18
func TestEnds(t *testing.T) {
	before := len(testenv.Descendants(os.Getpid()))
	for name, c := range map[string]struct {
		end  func(rt *js.Runtime, cancel func())
		want js.Kind
	}{
		"the context": {func(_ *js.Runtime, cancel func()) { cancel() }, js.Canceled},
		"Close":       {func(rt *js.Runtime, _ func()) { _ = rt.Close() }, js.Closed},
	} {
		rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 60_000}})
		began := make(chan struct{})
		if err := rt.Bind(ctx, "began", func() { close(began) }); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			<-began
			c.end(rt, cancel)
		}()
		_, err := rt.Eval(ctx, "began(); for (;;) ;")
		cancel()
		if got := js.KindOf(err); got != c.want {
			t.Errorf("%s: %v", name, err)
		}
		for range 2 {
			if err := rt.Close(); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		}
		if _, err := rt.Eval(context.Background(), "1"); js.KindOf(err) != js.Closed {
			t.Errorf("%s, afterwards: %v", name, err)
		}
	}
	if after := len(testenv.Descendants(os.Getpid())); after != before {
		t.Errorf("%d processes became %d", before, after)
	}
}

// A flood of console text is cut at its limit, stretches no deadline, and what
// reaches the host has passed the filter.
//
// proves part of G-16 G-17
// proves B-13
func TestConsoleFlood(t *testing.T) {
	var bytes int
	var last string
	rt := open(t, js.Options{Limits: js.Limits{ConsoleBytes: 64 << 10, TimeoutMS: 60_000}, Console: func(_ js.Level, s string) { bytes += len(s); last = s }})
	if got := text(t, rt, "for (let i = 0; i < 100000; i++) console.log('line', i); 'over'"); got != `"over"` {
		t.Error(got)
	}
	if bytes < 50<<10 || bytes > 65<<10 || !strings.HasSuffix(last, "[truncated]") {
		t.Errorf("%d bytes, the last %q", bytes, last)
	}
	bytes = 0
	if got := text(t, rt, "console.log('x'.repeat(16 << 20)); 'over'"); got != `"over"` {
		t.Error(got)
	}
	if bytes > 65<<10 {
		t.Errorf("%d bytes", bytes)
	}
	if _, err := rt.Eval(ctx, `console.log("a\x1b[31m\u202eb\u200bc\x00d\n\te")`); err != nil {
		t.Fatal(err)
	}
	if last != "a[31mbcd\n\te" {
		t.Errorf("%q", last)
	}
}

// With a seed and a clock two runtimes say the same, whatever the host's zone
// and language are.
//
// proves G-03 H-42
func TestSameWorld(t *testing.T) {
	t.Setenv("TZ", "Asia/Kolkata")
	t.Setenv("LANG", "de_DE.UTF-8")
	clock, seed := int64(1_000_000_000_000), [32]byte{1, 2, 3}
	code := `[Math.random(), Math.random(), Date.now(), new Date().toString(), Date(), new Intl.DateTimeFormat().format(), new Date(0).getTimezoneOffset(),
		Intl.DateTimeFormat().resolvedOptions().timeZone, (1234.5).toLocaleString(), new Date() instanceof Date, new (class extends Date {})().getTime()]`
	first := text(t, open(t, js.Options{Clock: &clock, Seed: &seed}), code)
	second := text(t, open(t, js.Options{Clock: &clock, Seed: &seed}), code)
	if first != second {
		t.Errorf("%s\n%s", first, second)
	}
	for _, want := range []string{"1000000000000", "Sun Sep 09 2001 01:46:40 GMT+0000", `"9/9/2001"`, `"UTC"`, `"1,234.5"`, "true,1000000000000]"} {
		if !strings.Contains(first, want) {
			t.Errorf("%s lacks %s", first, want)
		}
	}
	if other := text(t, open(t, js.Options{}), code); other == first { // control
		t.Error("without seed and clock it is the same")
	}
}

// A pool keeps workers warm, gives none to two, and at its cap a checkout waits
// for its context.
//
// proves B-15 B-16
func TestPool(t *testing.T) {
	p, err := js.NewPool(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()}, js.PoolOptions{Warm: 1, Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Checkout(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Checkout(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Eval(ctx, "globalThis.secret = 1"); err != nil {
		t.Fatal(err)
	}
	if got := text(t, b, "typeof secret"); got != `"undefined"` {
		t.Errorf("another runtime sees %s", got)
	}
	if s := p.Stats(); s.Out != 2 || s.Warm != 0 {
		t.Errorf("%+v", s)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := p.Checkout(short); js.KindOf(err) != js.PoolFull || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the cap: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	c, err := p.Checkout(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, c, "typeof secret"); got != `"undefined"` {
		t.Errorf("the next runtime sees %s", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Eval(ctx, "1"); js.KindOf(err) != js.Closed {
		t.Errorf("after the pool: %v", err)
	}
	if _, err := p.Checkout(ctx); js.KindOf(err) != js.Closed {
		t.Errorf("after the pool: %v", err)
	}
}

// Many runtimes at once keep to themselves.
func TestManyRuntimes(t *testing.T) {
	p, err := js.NewPool(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker(), Limits: js.Limits{TimeoutMS: 60_000, MemoryBytes: 64 << 20}}, js.PoolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			rt, err := p.Checkout(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			defer rt.Close()
			v, err := rt.Eval(ctx, fmt.Sprintf("let n = 0; for (let i = 0; i < 20000; i++) n += %d; n", i))
			if err != nil || v.String() != fmt.Sprint(20000*i) {
				t.Errorf("%d: %s, %v", i, v, err)
			}
		})
	}
	all.Wait()
}

// The evidence says what the kernel said of the sealed worker, and with a
// compiler that memory is executable.
//
// proves part of H-2 O-05
// proves O-27
func TestEvidence(t *testing.T) {
	for jit, want := range map[js.JIT]string{"": "no memory is executable but code of files", js.Full: "mappings of generated code for the JIT compiler full"} {
		rt := open(t, js.Options{JIT: jit})
		e := rt.Evidence()
		seal := e.Layers[len(e.Layers)-1]
		if e.Profile != "worker" || seal.Name != "worker_seal" || !seal.Applied || !strings.Contains(seal.Detail, "under 2 filters") || !strings.Contains(seal.Detail, want) || !strings.Contains(seal.Detail, "build id "+rt.Engine().BuildID) {
			t.Errorf("%q: %+v", jit, seal)
		}
		if got := rt.Engine(); got.BuildID == "" || (jit == "") != (got.Mode == "interpreter") {
			t.Errorf("%+v", got)
		}
	}
}

// A script with a shorter time is killed that much earlier.
func TestShorterHardLimit(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 60_000}})
	begin := time.Now()
	_, _, err := rt.Run(ctx, js.Script{Code: "const p = (async () => { for (;;) await null })(); p", TimeoutMS: 100})
	if k := js.KindOf(err); k != js.HardTimeout && k != js.Timeout {
		t.Error(err)
	}
	if d := time.Since(begin); d > 30*time.Second {
		t.Errorf("after %v", d)
	}
}
