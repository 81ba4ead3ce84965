package js_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// came is what a feed comes to: its value as JSON, or the kind of its error and
// the guest's name.
func came(v js.Value, err error) string {
	var e *js.Error
	var field *api.FieldError
	switch {
	case errors.As(err, &e):
		return strings.TrimSpace(string(e.Kind) + " " + e.Name)
	case errors.As(err, &field):
		return fmt.Sprintf("field %s %v", field.Field, field.Value)
	case err != nil:
		return err.Error()
	case v.IsUndefined():
		return "undefined"
	}
	b, err := v.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// fed runs a feed.
func fed(rt *js.Runtime, code string, f js.Feed) string {
	v, _, err := rt.Run(ctx, js.Script{Code: code, Feed: &f})
	return came(v, err)
}

type feedCase struct {
	src, want string
	inputs    map[string]any
}

func feedAll(t *testing.T, rt *js.Runtime, cases []feedCase) {
	t.Helper()
	for _, c := range cases {
		if got := fed(rt, c.src, js.Feed{Inputs: c.inputs}); got != c.want {
			t.Errorf("%q with %v: %s, not %s", c.src, c.inputs, got, c.want)
		}
	}
}

// What is declared stays, await and return may stand at the top, the value is
// that of the last expression, and a name that nobody has is the guest's own error.
//
// proves S-07 S-12
func TestFeedKeeps(t *testing.T) {
	rt := open(t, js.Options{Modules: map[string]string{"m": "export const x = 'imported'"}})
	feedAll(t, rt, []feedCase{
		{src: "var v = 1; let l = 2; const c = 3; class K { m() { return 4 } } function f() { return 5 }", want: "undefined"},
		{src: "[v, l, c, new K().m(), f()]", want: "[1,2,3,4,5]"},
		{src: "v = 10; l = 20; await 0; [v, l]", want: "[10,20]"},
		{src: "c = 1", want: "thrown TypeError"},
		{src: "let { a, b: [d = 7] } = await { a: 6, b: [] }; return [a, d]; 'not this'", want: "[6,7]"},
		{src: "a + d", want: "13"},
		{src: "await 0; function g() { return f() } class L extends K {}", want: "undefined"},
		{src: "g() + new L().m()", want: "9"},
		{src: "if (await true) return", want: "undefined"},
		{src: "return (async () => 8)()", want: "8"},
		{src: "Promise.reject(new RangeError('no'))", want: "thrown RangeError"},
		{src: "(await import('m')).x", want: `"imported"`},
		{src: "import('m').then(m => m.x)", want: `"imported"`},
		{src: "nobody", want: "thrown ReferenceError"},
		{src: "await nobody", want: "thrown ReferenceError"},
		{src: "$import$0", want: "thrown ReferenceError"},
		{src: "let l = 1", want: "thrown SyntaxError"}, // the engine's, for what is declared
		{src: "await 0; let l = 1", want: "thrown SyntaxError"},
		{src: "let (", want: "syntax_error SyntaxError"},
		{src: "await 1; let (", want: "syntax_error SyntaxError"},
		{src: "return 1 }); (async () => {", want: "syntax_error SyntaxError"},
		{src: "await 1; 08n", want: "syntax_error SyntaxError"}, // which the engine alone refuses
		{src: "break", want: "syntax_error SyntaxError"},
		{src: "throw new SyntaxError('mine')", want: "thrown SyntaxError"},
		{src: "await 0; throw Object.assign(new SyntaxError('mine'), { line: 1 })", want: "thrown SyntaxError"},
		{src: "eval('let (')", want: "thrown SyntaxError"},
		{src: "await new Promise(() => {})", want: "never_settles Error"},
		{src: "await 0; () => 1", want: "unsupported TypeError"},
		{src: "[typeof nobody, l]", want: `["undefined",20]`},
	})
}

// Whatever a guest does to its world, what is a program is told by the engine's
// own parser.
//
// proves S-07
func TestFeedSyntaxIsOutOfReach(t *testing.T) {
	rt := open(t, js.Options{})
	feedAll(t, rt, []feedCase{
		{src: `globalThis.SyntaxError = TypeError; globalThis.Function = () => { throw 1 }; globalThis.eval = () => { throw 1 }
			Error.prototype.name = 'ok'; delete globalThis.Promise; Object.prototype.toString = () => { throw 1 }
			String.prototype.indexOf = String.prototype.slice = () => { throw 1 }
			for (const k of ['then', 'line', 'column', 'stack', 'message']) Object.defineProperty(Object.prototype, k, { get() { throw 1 }, set() { throw 1 }, configurable: true }); 1`, want: "1"},
		{src: "let (", want: "syntax_error SyntaxError"},
		{src: "await 1; (", want: "syntax_error SyntaxError"},
		{src: "await 1; 2", want: "2"},
	})
}

// Inputs are variables that are there before the source runs: own data
// properties of the global object, whatever the guest has put in their way.
func TestFeedInputs(t *testing.T) {
	rt := open(t, js.Options{})
	describe := "JSON.stringify(Object.getOwnPropertyDescriptor(globalThis, 'x'))"
	feedAll(t, rt, []feedCase{
		{"x.a[1]", "2", map[string]any{"x": map[string]any{"a": []int{1, 2}}}},
		{"x", `{"a":[1,2]}`, nil},
		{"x = 3; await x", "3", nil},
		{describe, `"{\"value\":4,\"writable\":true,\"enumerable\":true,\"configurable\":true}"`, map[string]any{"x": 4}},
		{"var w = 1; let l = 1; const c = 1; class K {} function f() {}", "undefined", nil},
		{"[w, f]", "[2,3]", map[string]any{"w": 2, "f": 3}},
		{"1", "bind_failed Error", map[string]any{"l": 1}},
		{"1", "bind_failed Error", map[string]any{"c": 1, "x": 9}},
		{"1", "bind_failed Error", map[string]any{"K": 1}},
		{"[l, c, x]", "[1,1,4]", nil},
		{"let x = 5; x", "5", nil}, // before the property
		{"1", "bind_failed Error", map[string]any{"x": 1}},
		{"(", "syntax_error SyntaxError", map[string]any{"kept": 1}},
		{"kept", "1", nil},
		{"let nope = (() => { throw new Error('x') })()", "thrown Error", nil},
		{"1", "bind_failed Error", map[string]any{"nope": 1}},
		{"let v1 = 1; let w = 1", "thrown SyntaxError", nil}, // declares nothing
		{"[v1, w]", "[7,8]", map[string]any{"v1": 7, "w": 8}},
		{"[m.get(1), s.has(2), d.getTime(), n, u === undefined, z === null]", `["a",true,5,1,true,true]`, map[string]any{"m": &js.Map{Entries: []js.Entry{{Key: 1, Value: "a"}}}, "s": &js.Set{Elements: []any{2}}, "d": time.UnixMilli(5), "n": 1, "u": js.Undefined, "z": nil}},
	})
}

// What a guest lays in wait for inputs does not see them, and what it does not let
// be written is refused, without a part of the inputs being set.
func TestFeedInputsHostile(t *testing.T) {
	rt := open(t, js.Options{})
	feedAll(t, rt, []feedCase{
		{src: `var seen = []
			for (const o of [Object.prototype, globalThis]) for (const k of ['a', 'b', 'value', 'writable', 'get', 'set', 'configurable', 'enumerable'])
				Object.defineProperty(o, k, { __proto__: null, get() { seen.push('get ' + k); return 1 }, set(v) { seen.push('set ' + k) }, configurable: true })
			Object.defineProperty(Object.prototype, 'c', { __proto__: null, set(v) { seen.push(v) } }); Object.defineProperty = () => { throw 1 }; Reflect.ownKeys = Reflect.defineProperty = () => seen.push('called'); Array.prototype[Symbol.iterator] = 1; 1`, want: "1"},
		{"[a, b.x, c, seen]", `[1,2,3,[]]`, map[string]any{"a": 1, "b": map[string]any{"x": 2}, "c": 3}},
		{"Object.getOwnPropertyNames(globalThis).filter(k => 'abc'.includes(k)).length", "3", nil},
	})
	feedAll(t, rt, []feedCase{{src: "Reflect.getOwnPropertyDescriptor(globalThis, 'hard') ?? (({ define: Object.defineProperties })).define(globalThis, { hard: { __proto__: null, value: 1 }, acc: { __proto__: null, get() { return 1 } } }), 1", want: "1"},
		{"1", "bind_failed Error", map[string]any{"hard": 2, "a": 9}},
		{"1", "bind_failed Error", map[string]any{"acc": 2, "a": 9}},
		{"[a, hard, acc]", "[1,1,1]", nil},
		{"Object.preventExtensions(globalThis); 1", "1", nil},
		{"1", "bind_failed Error", map[string]any{"a": 9, "newcomer": 2}},
		{"a", "1", nil},
		{"a", "2", map[string]any{"a": 2}}, // control: it is there already
	})
}

// Names that mean something else are refused before anything is sent.
func TestFeedInputNames(t *testing.T) {
	rt := open(t, js.Options{Allow: []string{"WebAssembly", "Atomics", "WeakRef"}})
	if err := rt.Bind(ctx, "tools.deep.f", func() int { return 1 }); err != nil {
		t.Fatal(err)
	}
	names, err := rt.Eval(ctx, "[...new Set([...Object.getOwnPropertyNames(globalThis), ...Object.getOwnPropertyNames(Object.prototype)])]")
	if err != nil {
		t.Fatal(err)
	}
	all := names.Any().([]any)
	if len(all) < 70 {
		t.Errorf("only %d names in the guest's world", len(all))
	}
	for _, n := range append(all, "", "1a", "a-b", "a.b", "é", "a b", strings.Repeat("a", 65), "if", "await", "let", "static", "arguments", "undefined", "null", "$import$", "Temporal", "tools") {
		want := fmt.Sprintf("field feed.inputs %v", n)
		if got := fed(rt, "1", js.Feed{Inputs: map[string]any{n.(string): 1}}); got != want && len(n.(string)) < 65 {
			t.Errorf("%q: %s", n, got)
		}
	}
	for _, n := range []string{"deep", "f", "_", "$", "of", "async", "tools2", "process", strings.Repeat("a", 64)} {
		if got := fed(rt, n, js.Feed{Inputs: map[string]any{n: 1}}); got != "1" {
			t.Errorf("%q: %s", n, got)
		}
	}
	var convert *js.ConvertError
	if _, _, err := rt.Run(ctx, js.Script{Code: "1", Feed: &js.Feed{Inputs: map[string]any{"x": func() {}}}}); !errors.As(err, &convert) || convert.Path != "inputs.x" {
		t.Errorf("%v", err)
	}
	// After a script nobody has read what it declares, the engine is asked.
	if _, err := rt.Eval(ctx, "let fromEval = 1; var alsoEval = 1"); err != nil {
		t.Fatal(err)
	}
	feedAll(t, rt, []feedCase{{"1", "bind_failed Error", map[string]any{"fromEval": 2}}, {"[fromEval, alsoEval]", "[1,2]", map[string]any{"alsoEval": 2}}})
}

// The same seed and clock give the same on whatever worker of a warm pool, and go
// on from feed to feed.
func TestFeedSeedAndClock(t *testing.T) {
	at := func(ms int64) *int64 { return &ms }
	p := poolOf(t, js.Options{Clock: at(1_000)}, js.PoolOptions{Warm: 2, Max: 3})
	seed := [32]byte{1, 31: 9}
	code := "[Math.random(), Math.random(), Date.now(), new Date().getTime(), new Intl.DateTimeFormat('en', { timeStyle: 'medium' }).format(), Date().slice(16, 24)]"
	var outs []string
	for i := range 3 {
		rt, err := p.Checkout(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range i { // what it has done before
			fed(rt, "Math.random()", js.Feed{})
		}
		out := fed(rt, code, js.Feed{Seed: &seed, Clock: at(3_600_000)}) + fed(rt, code, js.Feed{}) + fed(rt, code, js.Feed{Clock: at(7_200_000)})
		outs = append(outs, out)
		if !strings.Contains(out, `3600000,3600000,"1:00:00`) || !strings.Contains(out, `7200000,7200000,"2:00:00`) {
			t.Errorf("%s", out)
		}
		_ = rt.Close()
	}
	if outs[0] != outs[1] || outs[1] != outs[2] {
		t.Errorf("%s", strings.Join(outs, "\n"))
	}
	rt, err := p.Checkout(ctx)
	if err != nil {
		t.Fatal(err)
	}
	other := seed
	other[5] = 1
	if a, b := fed(rt, "Math.random()", js.Feed{Seed: &seed}), fed(rt, "Math.random()", js.Feed{Seed: &other}); a == b {
		t.Errorf("another seed gives the same: %s", a)
	}
	_ = rt.Close()
	running := open(t, js.Options{})
	if got := fed(running, "1", js.Feed{Clock: at(5)}); got != "field feed.clock 5" {
		t.Error(got)
	}
	if got := fed(running, "1", js.Feed{Seed: &seed}); got != "1" {
		t.Error(got)
	}
}

// The clock moves with a reply, before its answer is seen.
func TestReplyClock(t *testing.T) {
	at := func(ms int64) *int64 { return &ms }
	rt := open(t, js.Options{Clock: at(1)})
	if err := rt.BindPaused(ctx, "tool"); err != nil {
		t.Fatal(err)
	}
	step, err := rt.Start(ctx, js.Script{Code: "const before = Date.now(); const got = await tool(1); const [x, y] = await Promise.allSettled([tool(2), tool(3)]); [before, got, x.value, y.reason.message, Date.now()]", Feed: &js.Feed{Clock: at(5)}})
	for i := 0; err == nil && !step.Done; i++ {
		var replies []js.Reply
		for _, c := range step.Calls {
			r := js.Reply{ID: c.ID, Value: "v", Clock: at(int64(10 * c.ID))}
			if c.ID == 3 {
				r.Err = &js.GuestError{Message: "no"}
			}
			replies = append(replies, r)
		}
		if i == 0 {
			if _, err := rt.Resume(ctx, js.Reply{ID: 1, Value: 1, Clock: at(-1)}); came(js.Value{}, err) != "field replies.clock -1" {
				t.Errorf("%v", err)
			}
		}
		step, err = rt.Resume(ctx, replies...)
	}
	if err != nil || came(step.Value, nil) != `[5,"v","v","no",30]` {
		t.Errorf("%+v, %v", step, err)
	}
}

// poolOf is a pool with the programs of this tree.
func poolOf(t *testing.T, o js.Options, size js.PoolOptions) *js.Pool {
	t.Helper()
	o.InitPath, o.WorkerPath = programs()
	p, err := js.NewPool(ctx, o, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// A feed goes through Run, Execute, Start and Resume; its console is its own.
func TestFeedEverywhere(t *testing.T) {
	var everything, own []string
	rt := open(t, js.Options{Console: func(_ js.Level, s string) { everything = append(everything, s) }})
	listen := func(_ js.Level, s string) { own = append(own, s) }
	if err := rt.BindPaused(ctx, "tool"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := rt.Run(ctx, js.Script{Code: "console.log('run'); await 1", Feed: &js.Feed{}, Console: listen}); err != nil {
		t.Error(err)
	}
	e, err := rt.Execute(ctx, js.Script{Code: "console.log('execute'); return n", Feed: &js.Feed{Inputs: map[string]any{"n": 4}}, Console: listen})
	if err != nil || string(e.Result) != "4" || e.Stdout != "execute\n" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err = rt.Execute(ctx, js.Script{Code: "1", Feed: &js.Feed{Inputs: map[string]any{"if": 4}}}); err == nil {
		t.Errorf("%+v", e)
	}
	step, err := rt.Start(ctx, js.Script{Code: "console.log('start'); const r = await tool(n); console.log('resumed'); r + 1", Feed: &js.Feed{}, Console: listen})
	if err != nil || len(step.Calls) != 1 {
		t.Fatalf("%+v, %v", step, err)
	}
	if step, err = rt.Resume(ctx, js.Reply{ID: step.Calls[0].ID, Value: 41}); err != nil || came(step.Value, nil) != "42" {
		t.Errorf("%+v, %v", step, err)
	}
	if got := fed(rt, "console.log('after'); r", js.Feed{}); got != "41" {
		t.Error(got)
	}
	if a, b := strings.Join(own, ","), strings.Join(everything, ","); a != "run,execute,start,resumed" || b != a+",after" {
		t.Errorf("%s; %s", a, b)
	}
	if _, _, err := rt.Run(ctx, js.Script{Code: "1", Module: true, Feed: &js.Feed{}}); came(js.Value{}, err) != "field feed module" {
		t.Errorf("%v", err)
	}
}

// Reading a long feed counts as the guest's time.
//
// proves part of G-10
func TestFeedParseIsTimed(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 20, HardMS: 20_000}})
	long := "await 1;" + strings.Repeat("a=b+c;", 1<<21)
	begin := time.Now()
	if got := fed(rt, long, js.Feed{}); got != "timeout" || time.Since(begin) > 5*time.Second {
		t.Errorf("%s after %v", got, time.Since(begin))
	}
	if got := fed(rt, "await 1", js.Feed{}); got != "1" {
		t.Error(got)
	}
}

// Equal tells values apart that JSON does not.
func TestEqual(t *testing.T) {
	rt := open(t, js.Options{})
	v, err := rt.Eval(context.Background(), "[0, -0, NaN, NaN, { a: 1, b: 2 }, { b: 2, a: 1 }, { a: 1, b: 2 }, [,], [undefined], 1n, 1, '1', new Map([[1, 2]]), new Map([[1, 2]]), new Uint8Array(1), new Int8Array(1)]")
	if err != nil {
		t.Fatal(err)
	}
	var all []js.Value
	if err := v.Decode(&all); err != nil {
		t.Fatal(err)
	}
	same := map[[2]int]bool{{2, 3}: true, {4, 6}: true, {12, 13}: true}
	for i, a := range all {
		for j, b := range all {
			if i <= j && js.Equal(a, b) != (i == j || same[[2]int{i, j}]) {
				t.Errorf("%d and %d: %v", i, j, js.Equal(a, b))
			}
		}
	}
}

func programs() (init, worker string) { return testenv.Init(), testenv.Worker() }
