package js_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// open starts a runtime with the programs of this tree.
func open(t testing.TB, o js.Options) *js.Runtime {
	t.Helper()
	o.InitPath, o.WorkerPath = testenv.Init(), testenv.Worker()
	rt, err := js.New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return rt
}

// text evaluates and returns the value as JSON.
func text(t testing.TB, rt *js.Runtime, code string) string {
	t.Helper()
	v, err := rt.Eval(context.Background(), code)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	b, err := v.MarshalJSON()
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	return string(b)
}

// kind evaluates and returns the kind of the error.
func kind(t testing.TB, rt *js.Runtime, code string) js.Kind {
	t.Helper()
	v, err := rt.Eval(context.Background(), code)
	if err == nil {
		t.Errorf("%s came to %s", code, v)
	}
	return js.KindOf(err)
}

func TestEval(t *testing.T) {
	rt := open(t, js.Options{})
	for code, want := range map[string]string{
		"[1, 2, 3].map(x => x * 2)":                                 "[2,4,6]",
		"({ a: 'é\\ud800', b: [null, true], __proto__: { c: 1 } })": `{"a":"é\ud800","b":[null,true]}`,
		"Promise.resolve(42)":                                       "42",
		"(async () => { await null; return 'x' })()":                `"x"`,
		"let kept = 1; kept":                                        "1",
		"typeof process + typeof require + typeof Deno":             `"undefinedundefinedundefined"`,
	} {
		if got := text(t, rt, code); got != want {
			t.Errorf("%s: %s, not %s", code, got, want)
		}
	}
	if got := text(t, rt, "++kept"); got != "2" {
		t.Errorf("a declaration did not stay: %s", got)
	}
	for code, want := range map[string]js.Kind{
		"throw new TypeError('no')": js.Thrown, "throw 1": js.Thrown, "Promise.reject(new Error('late'))": js.Thrown,
		"let (": js.SyntaxError, "new Promise(() => {})": js.NeverSettles, "() => 1": js.Unsupported, "Symbol()": js.Unsupported,
		"let c = {}; c.c = c; c": js.Unsupported, "({ get x() { return 1 } })": js.Unsupported,
	} {
		if got := kind(t, rt, code); got != want {
			t.Errorf("%s: %s, not %s", code, got, want)
		}
	}
	if got := text(t, rt, "'alive'"); got != `"alive"` {
		t.Error(got)
	}
}

// The error of a guest has its own name, message and stack, without a frame of
// ours.
//
// proves part of G-09
func TestGuestError(t *testing.T) {
	rt := open(t, js.Options{})
	if err := rt.Bind(context.Background(), "fail", func() error { return errors.New("secret /etc/passwd") }); err != nil {
		t.Fatal(err)
	}
	_, err := rt.Eval(context.Background(), "function inner() { throw new RangeError('deep\\u202e') }\ninner()")
	var e *js.Error
	if !errors.As(err, &e) || e.Name != "RangeError" || e.Message != "deep" || !strings.HasPrefix(e.Stack, "inner@eval:1:") {
		t.Errorf("%#v", e)
	}
	if got := text(t, rt, "try { fail() } catch (e) { [e.name, e.message, e.stack, Object.getOwnPropertyNames(e).join()] }"); strings.Contains(got, "secret") ||
		strings.Contains(got, "glovebox") || strings.Contains(got, "native") || !strings.Contains(got, "the function of the host failed") {
		t.Errorf("%s", got)
	}
}

// What the guest can be told of nothing: no number of a limit is clamped.
//
// proves part of B-05 B-09
func TestOptionsAreRefused(t *testing.T) {
	for field, o := range map[string]js.Options{
		"limits.timeout_ms":   {Limits: js.Limits{TimeoutMS: -1}},
		"limits.memory_bytes": {Limits: js.Limits{MemoryBytes: 1}},
		"limits.hard_ms":      {Limits: js.Limits{TimeoutMS: 500, HardMS: 100}},
		"jit":                 {JIT: "ludicrous"},
		"sandbox":             {Sandbox: "off"},
		"allow":               {Allow: []string{"process"}},
		"clock":               {Clock: new(int64)},
	} {
		if field == "clock" {
			*o.Clock = -1
		}
		refused(t, o, field)
	}
}

// refused sees that options are refused, by the name of a field.
func refused(t *testing.T, o js.Options, field string) {
	t.Helper()
	o.InitPath, o.WorkerPath = testenv.Init(), testenv.Worker()
	_, err := js.New(context.Background(), o)
	var f *api.FieldError
	if !errors.As(err, &f) || f.Field != field {
		t.Errorf("%s: %v", field, err)
	}
}

// A runtime survives its soft timeout, and a function of the engine that never
// looks costs the worker at the hard one.
//
// proves G-15
func TestTimeouts(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 200, HardMS: 8000}})
	if got := kind(t, rt, "for (;;) ;"); got != js.Timeout {
		t.Errorf("a loop: %s", got)
	}
	if got := text(t, rt, "1"); got != "1" {
		t.Error(got)
	}
	// Jobs of promises without an end stop at the soft limit if the engine lets
	// itself be stopped, and cost the worker at the hard one otherwise.
	microtasks := open(t, js.Options{Limits: js.Limits{TimeoutMS: 200, HardMS: 2000}})
	begin := time.Now()
	got := kind(t, microtasks, "const again = () => Promise.resolve().then(again); again()")
	if got != js.HardTimeout && got != js.Timeout {
		t.Errorf("microtasks: %s", got)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if v, err := microtasks.Eval(context.Background(), "'alive'"); (got == js.HardTimeout) != (js.KindOf(err) == js.Closed) || err == nil && v.String() != "alive" {
		t.Errorf("after %s: %s, %v", got, v, err)
	}
}

// What the time limit ends behind the end of a script, a job of a promise, is a
// timeout too: the script's own value is none any more.
func TestJobsPastTheLimit(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 200, HardMS: 20_000}})
	if err := rt.Bind(ctx, "echo", func(v js.Value) any { return v }); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"0", "'abc'", "({ a: 1 })", "echo([1.5])", "new Promise(() => {})"} {
		if got := kind(t, rt, "{ const f = () => { for (;;) ; }; Promise.resolve().then(f); "+value+" }"); got != js.Timeout {
			t.Errorf("%s: %q", value, got)
		}
		if got := text(t, rt, "[1.5, echo(2.5)]"); got != "[1.5,2.5]" {
			t.Errorf("%s, afterwards: %s", value, got)
		}
	}
}

// What programs try against an engine, and what each comes to: an error that
// leaves the runtime usable, or a worker less.
//
// proves G-04 G-05 G-10
func TestHostilePrograms(t *testing.T) {
	limits := js.Limits{TimeoutMS: 1000, HardMS: 20_000, MemoryBytes: 128 << 20}
	rt := open(t, js.Options{Limits: limits})
	for code, want := range map[string]string{
		"let o = []; o[2**32-2] = 1; o.sort(); 1": "timeout ",
		`/^(a+)+$/.test("a".repeat(40)+"b")`:      "timeout ",
		"(2n ** 100000n) ** 100000n":              "thrown RangeError",
		"(function f() { return f() })()":         "thrown RangeError",
		`JSON.parse("[".repeat(1e6))`:             "thrown SyntaxError",
		`eval("(".repeat(1e5))`:                   "thrown RangeError",
		`new RegExp("(".repeat(1e3))`:             "thrown SyntaxError",
		"new Uint8Array(2**33)":                   "thrown RangeError",
		`let s = "a"; for (;;) s += s`:            "thrown RangeError",
		"Promise.reject(2)":                       "thrown ",
		"2n ** 1000000n":                          "",
		"new Array(2**32-1)":                      "result_limit RangeError",
		"let deep = []; for (let i = 0; i < 1e5; i++) deep = [deep]; deep": "result_limit RangeError",
		"Object.create(new Proxy({}, {}))":                                 "",
	} {
		_, err := rt.Eval(ctx, "{"+code+"}")
		got := ""
		var e *js.Error
		if errors.As(err, &e) {
			got = string(e.Kind) + " " + e.Name
		}
		if got != want {
			t.Errorf("%s: %q (%v), not %q", code, got, err, want)
		}
		if js.KindOf(err) == js.Closed {
			t.Fatal("the runtime is gone")
		}
	}
	if got := text(t, rt, "'alive'"); got != `"alive"` {
		t.Error(got)
	}
	for _, code := range []string{"let o = []; o[2**32-2] = 1; o.join()", "new Array(2**32-1).fill(0)", `"x".repeat(2**30).repeat(4).at(-1)`} {
		limits.TimeoutMS, limits.HardMS = 30_000, 60_000
		if got := kind(t, open(t, js.Options{Limits: limits}), code); got != js.MemoryLimit {
			t.Errorf("%s: %s", code, got)
		}
	}
}

// More memory than the kernel gives ends the worker, and the kernel says so.
func TestMemory(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{MemoryBytes: 64 << 20}})
	if got := kind(t, rt, "const all = []; for (;;) all.push('x'.repeat(1 << 20) + all.length)"); got != js.MemoryLimit {
		t.Errorf("%s", got)
	}
	if got := kind(t, rt, "1"); got != js.Closed {
		t.Errorf("afterwards: %s", got)
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(hostChild) != "" {
		os.Exit(hostMain())
	}
	os.Exit(m.Run())
}
