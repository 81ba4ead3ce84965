package js_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

var ctx = context.Background()

type tools struct{ sum int }

func (t *tools) Add(n int) int           { t.sum += n; return t.sum }
func (t *tools) Sum() int                { return t.sum }
func (t *tools) Fail(text string) error  { return &js.GuestError{Name: "RangeError", Message: text} }
func (t *tools) Echo(v js.Value) any     { return v }
func (t *tools) All(parts ...string) int { return len(parts) }

func TestBind(t *testing.T) {
	rt := open(t, js.Options{})
	if err := rt.BindObject(ctx, "host.tools", &tools{}); err != nil {
		t.Fatal(err)
	}
	if err := rt.BindAsync(ctx, "later", func(_ context.Context, n int) (int, error) { return n + 1, nil }); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]string{
		"host.tools.add(40); host.tools.add(2)":                                              "42",
		"host.tools.all('a', 'b', 'c')":                                                      "3",
		"try { host.tools.fail('x') } catch (e) { [e.name, e.message, e instanceof Error] }": `["RangeError","x",true]`,
		"host.tools.echo({ a: [1, 'é', null], n: 1.5 })":                                     `{"a":[1,"é",null],"n":1.5}`,
		"Promise.all([later(1), later(2), later(3)])":                                        "[2,3,4]",
		"later(1).then(later).then(later)":                                                   "4",
		"try { host.tools.add('x') } catch (e) { e.name }":                                   `"TypeError"`,
		"try { host.tools.add(1, 2) } catch (e) { e.name }":                                  `"TypeError"`,
		"try { host.tools.add(() => 1) } catch (e) { e.message }":                            `"a function cannot cross"`,
		"host.tools.add.toString().includes('native code')":                                  "true",
		"Object.getOwnPropertyNames(host.tools.add).join()":                                  `"length,name"`,
	} {
		if got := text(t, rt, code); got != want {
			t.Errorf("%s: %s, not %s", code, got, want)
		}
	}
	if err := rt.Revoke(ctx, "later"); err != nil {
		t.Fatal(err)
	}
	if got := text(t, rt, "later(1).catch(e => e.message)"); got != `"the function was revoked"` {
		t.Errorf("revoked: %s", got)
	}
	if err := rt.BindAsync(ctx, "later", func() string { return "again" }); err != nil {
		t.Errorf("bound again: %v", err)
	}
	if got := text(t, rt, "later()"); got != `"again"` {
		t.Errorf("bound again: %s", got)
	}
}

// What a guest has made under a name, in whatever way, makes a bind fail.
//
// proves G-08
func TestBindIsNeverInert(t *testing.T) {
	for name, code := range map[string]string{
		"a value":           "globalThis.tool = 1",
		"a read-only value": "Object.defineProperty(globalThis, 'tool', { value: 1 })",
		"an accessor":       "Object.defineProperty(globalThis, 'tool', { get() { return 1 }, set() {} })",
		"on the prototype":  "Object.prototype.tool = 1",
		"a setter above":    "Object.defineProperty(Object.prototype, 'tool', { set() {} })",
		"let":               "let tool = 1",
		"const":             "const tool = () => 1",
		"a class":           "class tool {}",
		"a function":        "function tool() {}",
		"a closed object":   "Object.preventExtensions(globalThis)",
		"a proxy above":     "Object.setPrototypeOf(globalThis, new Proxy({}, {}))",
	} {
		rt := open(t, js.Options{})
		_, err := rt.Eval(ctx, code)
		if err != nil && js.KindOf(err) != js.Unsupported {
			t.Logf("%s: %v", name, err) // the engine does not let it
			continue
		}
		if err := rt.Bind(ctx, "tool", func() string { return "host" }); js.KindOf(err) != js.BindFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
	rt := open(t, js.Options{}) // control
	if err := rt.Bind(ctx, "tool", func() string { return "host" }); err != nil {
		t.Error(err)
	}
	if got := text(t, rt, "tool()"); got != `"host"` {
		t.Error(got)
	}
}

// Nothing that a function of the host does takes the runtime along, and none of
// its words reach the guest.
//
// proves B-04 B-08
func TestHostFunctionsThatMisbehave(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{HostWaitMS: 60_000}})
	var inside atomic.Value
	for name, fn := range map[string]any{
		"panics": func() { panic("secret") },
		"exits":  func() { runtime.Goexit() },
		"fails":  func() error { return errors.New("secret") },
		"enters": func() {
			_, err := rt.Eval(ctx, "1")
			done := make(chan error)
			go func() { _, err := rt.Eval(ctx, "1"); done <- err }()
			inside.Store(fmt.Sprint(js.KindOf(err), " ", js.KindOf(<-done)))
		},
	} {
		if err := rt.Bind(ctx, name, fn); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"panics", "exits", "fails"} {
		if got := text(t, rt, "try { "+name+"() } catch (e) { e.message + e.stack }"); !strings.HasPrefix(got, `"the function of the host failed`) || strings.Contains(got, "secret") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := text(t, rt, "enters(); 'back'"); got != `"back"` || inside.Load() != "busy busy" {
		t.Errorf("%s, inside: %v", got, inside.Load())
	}
}

// A function that takes too long ends the evaluation, and its context ends.
//
// proves part of B-02
func TestHostWait(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{HostWaitMS: 200, TimeoutMS: 5000}})
	ended := make(chan struct{})
	if err := rt.Bind(ctx, "slow", func(ctx context.Context) { <-ctx.Done(); close(ended) }); err != nil {
		t.Fatal(err)
	}
	if got := kind(t, rt, "slow()"); got != js.HostWait {
		t.Errorf("%s", got)
	}
	<-ended
}

// A hundred thousand calls, and calls that nobody awaits.
//
// proves B-03 B-11
func TestManyCalls(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{InFlight: 64, HostCalls: 200_000, TimeoutMS: 120_000}})
	if err := rt.Bind(ctx, "inc", func(n int) int { return n + 1 }); err != nil {
		t.Fatal(err)
	}
	block := make(chan struct{})
	if err := rt.BindAsync(ctx, "never", func(ctx context.Context) { <-block }); err != nil {
		t.Fatal(err)
	}
	n := 20_000
	if got := text(t, rt, fmt.Sprintf("let n = 0; for (let i = 0; i < %d; i++) n = inc(n); n", n)); got != fmt.Sprint(n) {
		t.Errorf("%s", got)
	}
	if got := text(t, rt, "let refused = 0; for (let i = 0; i < 100; i++) never().catch(() => refused++); 'over'"); got != `"over"` {
		t.Errorf("%s", got)
	}
	if got := text(t, rt, "refused"); got != "36" {
		t.Errorf("%s calls were refused beyond 64", got)
	}
	close(block)
}
