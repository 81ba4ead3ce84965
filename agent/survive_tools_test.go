package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

// badError is an error that cannot be told.
type badError struct{}

func (badError) Error() string { panic("no text") }

// badIs is one that cannot be asked.
type badIs struct{}

func (badIs) Error() string   { return "text" }
func (badIs) Is(error) bool   { panic("is") }
func (badIs) Unwrap() []error { panic("unwrap") }

// attempt is what a call comes to, or the message of what it throws.
func attempt(call string) string {
	return "return await (async () => { try { return await " + call + " } catch (e) { return e.message } })()"
}

// TestSurviveTools: whatever a tool does, its feed has an end, the session goes on,
// each call is charged once and the journal loads to the same. Long because of its
// table.
//
// proves part of S-05
func TestSurviveTools(t *testing.T) {
	var s *Session
	var p *Pool
	left := make(chan struct{})
	t.Cleanup(func() { close(left) })
	tools := []Tool{
		{Name: "panicValue", Func: func() { panic(badError{}) }},
		{Name: "panicNil", Func: func() { panic(nil) }},
		{Name: "nilMap", Func: func() { emptyMap["x"] = 1 }},
		{Name: "goexit", Func: func() { runtime.Goexit() }},
		{Name: "blocks", Func: func() { <-left }},
		{Name: "slow", TimeoutMS: 50, Func: func() { <-left }},
		{Name: "badErr", Func: func() error { return badError{} }},
		{Name: "badIs", Func: func() error { return badIs{} }},
		{Name: "badText", Func: func() error {
			return &js.GuestError{Name: "a\xffb", Message: "c\xff\u202ed\x00\ud7ff" + strings.Repeat("\x01", 20_000)}
		}},
		{Name: "nilErr", Func: func() error { return (*js.GuestError)(nil) }},
		{Name: "chanOut", Func: func() any { return make(chan int) }},
		{Name: "cycle", Func: func() any { m := map[string]any{}; m["m"] = m; return m }},
		{Name: "deep", Func: func() any { return nested(100_000) }},
		{Name: "deeper", Func: func() any { return nested(200) }},
		{Name: "wide", Func: func() any { return make([]int, 2_000_000) }},
		{Name: "large", Func: func() string { return strings.Repeat("x", 40<<20) }},
		{Name: "noUTF8", Func: func() string { return "a\xffb" }},
		{Name: "closes", Func: func() string { return fmt.Sprint(s.Close()) }},
		{Name: "another", Func: func(ctx context.Context) (string, error) {
			o, err := p.Checkout(ctx, SessionOptions{})
			if err != nil {
				return "", err
			}
			defer o.Close()
			r, err := o.Feed(ctx, "20 + 1", FeedOptions{})
			return said(r, err), err
		}},
	}
	p = newPool(t, Options{Limits: Limits{FeedWaitMS: 400, Bytes: 128 << 20}})
	s = checkout(t, p, SessionOptions{Tools: catalogOf(t, tools...)})
	fed(s, "let n = 0")
	caught := func(name string) string {
		return "n++; let " + name + "R; try { " + name + "R = await " + name + "() } catch (e) { " + name + "R = e.name + ': ' + e.message }; typeof " + name + "R == 'string' ? " + name + "R : typeof " + name + "R"
	}
	const told, hidden = `"ToolError: `, `"Error: the function of the host failed"`
	counted := 0
	for i, c := range []struct {
		name, want string
		kind       error // of a feed that is void
	}{
		{"panicValue", "", SessionTool}, {"panicNil", "", SessionTool}, {"nilMap", "", SessionTool}, {"goexit", "", SessionTool},
		{"blocks", "", SessionWait},
		{"badErr", hidden, nil}, {"badIs", hidden, nil}, {"nilErr", hidden, nil},
		{"slow", told + `tool_timeout: it took more than 50 ms"`, nil},
		{"chanOut", told + `tool_result: its result cannot cross"`, nil}, {"cycle", told + `tool_result: its result cannot cross"`, nil},
		{"deep", told + `tool_result: its result cannot cross"`, nil}, {"deeper", told + `tool_result: its result cannot cross"`, nil},
		{"wide", told + `tool_result: its result cannot cross"`, nil}, {"large", told + `tool_result: its result cannot cross"`, nil},
		{"noUTF8", "\"a\ufffdb\"", nil},
		{"closes", `"agent: session_busy: the session runs something else"`, nil}, {"another", `"21"`, nil},
	} {
		r, err := s.Feed(t.Context(), caught(c.name), FeedOptions{})
		if c.kind == nil {
			counted++
		}
		if got := said(r, err); c.kind == nil && got != c.want || !errors.Is(err, c.kind) || r == nil || r.Usage.Calls != 1 {
			t.Errorf("%s: %s", c.name, got)
		}
		if got := fed(s, "n"); got != fmt.Sprint(counted) || s.Usage().Calls != int64(i)+1 {
			t.Fatalf("%s: afterwards n is %s, %+v", c.name, got, s.Usage())
		}
	}
	fed(s, "let text; try { await badText() } catch (e) { text = [e.name, e.message.length, e.message] }")
	l := reloaded(t, s, p)
	if a, b := fed(s, "text"), fed(l, "text"); a != b || len(a) < 10 {
		t.Errorf("%.200s\n%.200s", a, b)
	}
	if a, b := fed(s, "[n, largeR, anotherR]"), fed(l, "[n, largeR, anotherR]"); a != b || l.Usage().Calls != s.Usage().Calls {
		t.Errorf("%s\n%s", a, b)
	}
}

func nested(n int) any {
	var v any = 1
	for range n {
		v = []any{v}
	}
	return v
}

// TestSurviveEscaped: a tool that a guest has kept in a global, in an object, in a
// closure or behind a proxy, and calls in a later feed, from a timer or from a job
// of a promise after its feed's end, is charged, on record and bounded as each call
// is, also by what that later feed may call; or it is never begun, and said to be.
//
// proves S-22
func TestSurviveEscaped(t *testing.T) {
	var ran atomic.Int64
	p := newPool(t, Options{Limits: Limits{Calls: 12}})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "space.tool", Func: func(n int) int { ran.Add(1); return n }}, Tool{Name: "other", Func: func() {}})})
	check := func(code, want string, calls int64, dropped int, o FeedOptions) {
		t.Helper()
		r, err := s.Feed(t.Context(), code, o)
		if got := said(r, err); got != want || len(r.Dropped) != dropped || s.Usage().Calls != calls {
			t.Errorf("%s: %s, dropped %v, %+v", code, got, r.Dropped, s.Usage())
		}
	}
	no := FeedOptions{Tools: []string{"other"}}
	check("globalThis.kept = space.tool; globalThis.o = {f: n => kept(n)}; globalThis.proxy = new Proxy(kept, {}); globalThis.log = []; globalThis.bound = kept.bind(null, 7); 0", "0", 0, 0, FeedOptions{})
	check("[await kept(1), await o.f(2), await proxy(3), await bound()]", "[1,2,3,7]", 4, 0, FeedOptions{})
	check(attempt("kept(1)"), `"unknown_tool: this feed may not call it"`, 4, 0, no)
	check(attempt("bound()"), `"unknown_tool: this feed may not call it"`, 4, 0, no)
	// A timer that outlives its feed: it runs when a later feed waits, as that feed's.
	check("setTimeout(() => kept(5).then(v => log.push(v), e => log.push(e.message)), 5); 'left'", `"left"`, 4, 0, FeedOptions{})
	check("log.length", "0", 4, 0, FeedOptions{})
	check("await new Promise(done => setTimeout(done, 50)); log", "[5]", 5, 0, FeedOptions{})
	check("setTimeout(() => kept(6).then(v => log.push(v), e => log.push(e.message)), 5); 'left'", `"left"`, 5, 0, FeedOptions{})
	check("await new Promise(done => setTimeout(done, 50)); log", `[5,"unknown_tool: this feed may not call it"]`, 5, 0, no)
	// A call that nobody awaits, and one from a job behind the feed's value.
	check("kept(8).then(v => log.push(v)).catch(() => log.push('dropped')); 'gone'", `"gone"`, 5, 1, FeedOptions{})
	check("Promise.resolve().then(() => 0).then(() => kept(9)).catch(() => log.push('dropped')); 'gone'", `"gone"`, 5, 1, FeedOptions{})
	// A later feed's answer goes to the later feed's call.
	check("await kept(10)", "10", 6, 0, FeedOptions{})
	check("for (let i = 0; i < 10; i++) try { await o.f(i) } catch (e) { log.push(e.message); break } log.at(-1)", `"tool_budget: all 12 calls of the session are used up"`, 12, 0, FeedOptions{})
	l := reloaded(t, s, p)
	if a, b := fed(s, "log"), fed(l, "log"); a != b || l.Usage().Calls != 12 {
		t.Errorf("%s\n%s\n%+v", a, b, l.Usage())
	}
	if ran.Load() != 12 {
		t.Errorf("%d ran", ran.Load())
	}
}

// TestSurviveRestricted: what a feed may call it may call, and no more, wherever the
// session is loaded in between.
func TestSurviveRestricted(t *testing.T) {
	s := newSession(t, Options{}, Tool{Name: "a", Func: func() string { return "a" }}, Tool{Name: "b", Func: func() string { return "b" }})
	for _, only := range [][]string{{"a"}, {}, nil} {
		step, err := s.Start(t.Context(), "var out = []; for (const f of [a, b, a]) try { out.push(await f()) } catch (e) { out.push(e.message) } return out", FeedOptions{Tools: only})
		if err != nil {
			t.Fatal(err)
		}
		l := reloaded(t, s, s.pool)
		for _, one := range []*Session{s, l} {
			for step = one.Step(); step != nil && !step.Done; {
				if step, err = one.Resume(t.Context(), Reply{Call: step.Calls[0].ID, Run: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if step != nil {
			const no = `"unknown_tool: this feed may not call it"`
			want := map[int]string{0: `["a","b","a"]`, 1: `["a",` + no + `,"a"]`}[len(only)]
			if only != nil && len(only) == 0 {
				want = "[" + no + "," + no + "," + no + "]"
			}
			if got := said(step.Result, nil); got != want {
				t.Errorf("%v: %s", only, got)
			}
		}
	}
}

// TestSurviveReference: a name that nobody has is the guest's own ReferenceError, and
// the host hears nothing of it.
//
// proves S-12
func TestSurviveReference(t *testing.T) {
	s := newSession(t, Options{}, Tool{Name: "space.tool", Func: func() {}})
	for _, c := range [][2]string{
		{"try { nosuch() } catch (e) { [e instanceof ReferenceError, e.name, typeof e.message] }", `[true,"ReferenceError","string"]`},
		{attempt("nosuch.tool()"), `"Can't find variable: nosuch"`},
		{attempt("tool()"), `"Can't find variable: tool"`},
		{"await nosuch()", "error: js: ReferenceError: Can't find variable: nosuch"},
		{attempt("space.nosuch()"), `"space.nosuch is not a function. (In 'space.nosuch()', 'space.nosuch' is undefined)"`},
		{"typeof nosuch + typeof space.nosuch + typeof space.tool", `"undefinedundefinedfunction"`},
		{"nosuch", "error: js: ReferenceError: Can't find variable: nosuch"},
		{"'use strict'; madeUp = 1", "error: js: ReferenceError: Can't find variable: madeUp"},
	} {
		if got := fed(s, c[0]); got != c[1] {
			t.Errorf("%s: %s", c[0], got)
		}
	}
	if u := s.Usage(); u.Calls != 0 || u.Refused != 0 {
		t.Errorf("%+v", u)
	}
}

// TestSurviveSyntax: a guest that has replaced all that could look at a source, and
// given parsers' names to its own, has the next feed judged as ever.
//
// proves S-07
func TestSurviveSyntax(t *testing.T) {
	s := newSession(t, Options{}, Tool{Name: "t", Func: func() int { return 1 }})
	feeds := [][2]string{
		{"let x = ;", "error: js: SyntaxError: unexpected \";\" (line 1, column 9)"},
		{"const a = await t(); return a", "1"},
		{"if (1) {", ""}, {"await", ""}, {"return await t()", "1"}, {"const b", ""}, {"let let = 1", ""}, {"new.target", ""}, {"import x from 'y'", ""}, {"}{", ""},
	}
	for i := range feeds {
		if got := fed(s, feeds[i][0]); feeds[i][1] == "" {
			feeds[i][1] = got
		} else if got != feeds[i][1] {
			t.Fatalf("%s: %s", feeds[i][0], got)
		}
	}
	feeds[1][0] = "{ const a = await t(); return a }"
	if got := fed(s, `for (const name of ["eval", "Function", "Promise", "AsyncFunction", "parse", "Parser", "acorn", "esbuild", "transform", "rewrite", "Feed", "feed", "check", "compile", "SyntaxError", "Error",
			"Reflect", "Proxy", "Symbol", "Object", "RegExp", "String", "Array", "JSON"]) try { globalThis[name] = new Proxy(function () { return globalThis.caught = true }, {get() { globalThis.caught = true }}) } catch {}
		for (const p of [String.prototype ?? ''.constructor.prototype, [].__proto__, /x/.__proto__, (() => 1).__proto__, (async () => 1).__proto__, ({}).__proto__])
			for (const k of ["split", "replace", "match", "slice", "charCodeAt", "indexOf", "exec", "test", "push", "map", "join", "call", "apply", "bind", "toString", "then", "get", "set", "value", "message", "name", "line"])
				try { ({}).__proto__.__lookupGetter__; p[k] = () => { globalThis.caught = true } } catch {}
		0`); got != "0" && !strings.Contains(got, "error") {
		t.Fatal(got)
	}
	for _, c := range feeds {
		if got := fed(s, c[0]); got != c[1] {
			t.Errorf("afterwards %s: %s, not %s", c[0], got, c[1])
		}
	}
}

// TestSurviveNames: no name that a session's guest has can be a bare tool's, nor an
// input's if a tool has it; what is taken is there for the guest, and its own.
//
// proves S-10
func TestSurviveNames(t *testing.T) {
	s := newSession(t, Options{}, Tool{Name: "own", Func: func() int { return 1 }}, Tool{Name: "deep.own", Func: func() int { return 2 }})
	r, err := s.Feed(t.Context(), "Object.getOwnPropertyNames(globalThis)", FeedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := r.Value.Decode(&names); err != nil || len(names) < 60 || !slices.Contains(names, "own") {
		t.Fatal(err, names)
	}
	for _, name := range names {
		if _, err := NewCatalog([]Tool{{Name: name, Func: func() {}}}, CatalogOptions{}); err == nil && name != "own" && name != "deep" {
			t.Errorf("%s can be a tool", name)
		}
	}
	for _, name := range []string{"own", "deep", "Object", "console", "class"} {
		before := s.Usage()
		var bad *api.FieldError
		if _, err := s.Feed(t.Context(), "1", FeedOptions{Inputs: map[string]any{name: 1}}); !errors.As(err, &bad) || s.Usage() != before {
			t.Errorf("%s as an input: %v", name, err)
		}
	}
	if got := fed(s, "[await own(), await deep.own()]"); got != "[1,2]" {
		t.Error(got)
	}
}

// TestSurviveLazy: a lazy tool cannot be called before the guest has asked for it,
// which costs nothing; a discovery survives a load, a void feed, and compaction, and
// is the session's own.
//
// proves S-13
// proves S-19
func TestSurviveLazy(t *testing.T) {
	var ran atomic.Int64
	p := newPool(t, Options{})
	catalog := catalogOf(t, Tool{Name: "mail.send", Lazy: true, MaxCalls: 3, Func: func() int64 { return ran.Add(1) }}, Tool{Name: "mail.drop", Lazy: true, Func: func() {}},
		Tool{Name: "boom", Func: func() { panic("boom") }})
	s, other := checkout(t, p, SessionOptions{Tools: catalog}), checkout(t, p, SessionOptions{Tools: catalog})
	send, drop := attempt("mail.send()"), attempt("mail.drop()")
	const no = `"undiscovered_tool: ask for its description first"`
	if got := fed(s, send); got != no || s.Usage().Calls != 0 || s.Usage().Refused != 1 || ran.Load() != 0 {
		t.Errorf("%s, %+v", got, s.Usage())
	}
	s = reloaded(t, s, p)
	if got := fed(s, send); got != no || s.Usage().Refused != 2 {
		t.Errorf("loaded: %s, %+v", got, s.Usage())
	}
	if got := fed(s, "(await catalog.search('send'))[0].name + (await catalog.describe('mail.send')).name"); got != `"mail.sendmail.send"` {
		t.Fatal(got)
	}
	if _, err := s.Feed(t.Context(), "await catalog.describe('mail.drop'); await boom()", FeedOptions{}); !errors.Is(err, SessionTool) {
		t.Fatal(err)
	}
	for i := range 3 {
		if i == 2 {
			if err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s = reloaded(t, s, p)
		if got := fed(s, send); got != fmt.Sprint(i+1) {
			t.Errorf("%d: %s", i, got)
		}
		if got := fed(s, drop); got != "undefined" {
			t.Errorf("discovered in a void feed: %s", got)
		}
	}
	s = reloaded(t, s, p)
	if got := fed(s, send); got != `"tool_budget: all 3 calls are used up"` || ran.Load() != 3 {
		t.Errorf("%s, %d ran", got, ran.Load())
	}
	// The other session of the catalog knows nothing of that, and has its own budget.
	if got := fed(other, send); got != no {
		t.Errorf("the other session: %s", got)
	}
	if got := fed(other, "await catalog.describe('mail.send'); [await mail.send(), await mail.send(), await mail.send()].length"); got != "3" {
		t.Errorf("the other session: %s", got)
	}
}

// TestSurviveCallables: what Go can call is a tool of a session, with a declaration,
// and its answers are replayed.
//
// proves S-17
func TestSurviveCallables(t *testing.T) {
	c := &counter{}
	base := 10
	var mu sync.Mutex
	tools := []Tool{
		{Name: "w.closure", Func: func(n int) int { mu.Lock(); defer mu.Unlock(); base += n; return base }},
		{Name: "w.method", Func: c.Add}, {Name: "w.generic", Func: double[float64]},
		{Name: "w.variadic", Func: func(sep string, s ...string) string { return strings.Join(s, sep) }},
		{Name: "w.ctx", Func: func(ctx context.Context) (string, error) {
			i, _ := CallOf(ctx)
			return i.Tool + fmt.Sprint(len(i.Key)), nil
		}},
		{Name: "w.err", Func: func(string) error { return nil }}, {Name: "w.any", Func: func(v any) any { return v }},
		{Name: "w.value", Func: func(v js.Value) js.Value { return v }}, {Name: "w.at", Func: func(v time.Time) time.Time { return v.Add(time.Second) }},
		{Name: "w.bytes", Func: func(b []byte) []byte { return append(b, 3) }}, {Name: "w.big", Func: func(n *big.Int) *big.Int { return n.Mul(n, n) }},
		{Name: "w.keys", Func: func(m map[int]bool) bool { return m[7] }}, {Name: "w.record", Func: func(r record) record { r.Deep++; return r }},
		{Name: "w.maybe", Func: func(r *record) bool { return r == nil }},
		{Name: "w.schema", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
			Func: func(_ context.Context, in map[string]any) (any, error) { return in["n"], nil }},
	}
	p := newPool(t, Options{})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, tools...)})
	const code = `const got = [await w.closure(5), await w.method(7), await w.generic(1.5), await w.variadic('-', 'a', 'b'), await w.ctx(), await w.err('x'),
		await w.any([1, null, 'x']), await w.value('v'), (await w.at(new Date(0))).getTime(), [...await w.bytes(new Uint8Array([1]))], String(await w.big(1n << 40n)),
		await w.keys({7: true}), await w.record({deep: 1, name: 'n', tags: ['x']}), await w.maybe(), await w.maybe(null), await w.schema({n: 4})]; got`
	const want = `[15,7,3,"a-b","w.ctx32",null,[1,null,"x"],"v",1000,[1,3],"1208925819614629174706176",true,{"deep":2,"name":"n","tags":["x"]},true,true,4]`
	got := fed(s, code)
	if strings.ReplaceAll(got, `{"$undefined":true}`, "null") != want {
		t.Errorf("%s", got)
	}
	if again := fed(reloaded(t, s, p), "got"); again != got || s.Usage().Calls != 16 {
		t.Errorf("%s\n%+v", again, s.Usage())
	}
	declared := s.Catalog().TypeScript()
	for _, tool := range tools {
		if _, name, _ := strings.Cut(tool.Name, "."); !strings.Contains(declared, " "+name+"(") {
			t.Errorf("%s is not declared in\n%s", tool.Name, declared)
		}
	}
}

// TestSurvivePause: a session that pauses gives its worker back, between feeds and
// within one, and whoever goes on with it meanwhile is never told that it is busy.
//
// proves S-20
func TestSurvivePause(t *testing.T) {
	p := newPool(t, Options{Limits: Limits{MaxPauseMS: 20}})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "ask", Func: func(n int) int { return n + 1 }})})
	away := func() {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); p.js.Stats().Out > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the worker is still out")
			}
		}
	}
	fed(s, "let n = 1, r = Math.random()")
	away()
	step, err := s.Start(t.Context(), "n = await ask(n); n = await ask(n); n", FeedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := step.Calls[0].ID
	away()
	if step, err = s.Resume(t.Context(), Reply{Call: id, Run: true}); err != nil || step.Done {
		t.Fatalf("%+v %v", step, err)
	}
	away()
	if step, err = s.Resume(t.Context(), Reply{Call: step.Calls[0].ID, Value: 7}); err != nil || said(step.Result, nil) != "7" {
		t.Fatalf("%+v %v", step, err)
	}
	away()
	if s.Usage().Calls != 2 {
		t.Errorf("%+v", s.Usage())
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-stop:
				return
			default:
				s.rest()
			}
		}
	}()
	for range 20 {
		if got := fed(s, "n"); got != "7" {
			t.Error(got)
		}
	}
	close(stop)
	<-over
}
