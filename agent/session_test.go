package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// newPool is a pool of this tree's workers.
func newPool(t testing.TB, o Options) *Pool {
	t.Helper()
	o.InitPath, o.WorkerPath = testenv.Init(), testenv.Worker()
	p, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func checkout(t testing.TB, p *Pool, o SessionOptions) *Session {
	t.Helper()
	s, err := p.Checkout(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newSession is one of a pool of its own.
func newSession(t testing.TB, o Options, tools ...Tool) *Session {
	t.Helper()
	return checkout(t, newPool(t, o), SessionOptions{Tools: catalogOf(t, tools...)})
}

// fed is what a feed came to as JSON, or its error.
func fed(s *Session, code string) string {
	r, err := s.Feed(context.Background(), code, FeedOptions{})
	return said(r, err)
}

func said(r *Result, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	text, err := r.Value.MarshalJSON()
	if err != nil {
		return r.Value.String()
	}
	return string(text)
}

// dumped dumps a session and loads it into a pool.
func reloaded(t testing.TB, s *Session, p *Pool) *Session {
	t.Helper()
	d, err := s.Dump()
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Load(context.Background(), d.Journal, LoadOptions{SessionOptions: SessionOptions{Owner: s.owner, Tools: s.catalog}, Head: d.Head, Count: &d.Count})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestFeeds: what is declared stays, the value is what is returned or the last
// expression, and tools are awaited.
func TestFeeds(t *testing.T) {
	var log []string
	s := newSession(t, Options{}, Tool{Name: "add", Func: func(a, b int) int { return a + b }},
		Tool{Name: "files.read", Func: func(ctx context.Context, path string) (map[string]any, error) {
			log = append(log, path)
			return map[string]any{"path": path, "n": len(log)}, nil
		}})
	for i, c := range [][2]string{
		{"let a = 1; const b = 2; var c = 3; function f(x) { return x + a } class K { v() { return b } }", "undefined"},
		{"a++; f(c) + new K().v()", "7"},
		{"const r = await add(a, 40); r", "42"},
		{"return [r, (await files.read('x')).n, (await files.read('y')).n]", "[42,1,2]"},
		{"const [p, q] = await Promise.all([add(1, 2), files.read('z')]); [p, q]", `[3,{"n":3,"path":"z"}]`},
		{"nope", "error: js: ReferenceError: Can't find variable: nope"},
		{"let x = ;", "error: js: SyntaxError: unexpected \";\" (line 1, column 9)"},
		{"throw new RangeError('own')", "error: js: RangeError: own"},
		{"await new Promise(() => {})", "error: js: Error: the promise has nothing left that could settle it"},
		{"() => 1", "error: js: unsupported: a function"},
		{"a", "2"},
	} {
		if got := fed(s, c[0]); got != c[1] && !(strings.HasPrefix(c[1], "error: js: unsupported") && strings.HasPrefix(got, "error: js: ")) {
			t.Errorf("%d: %s is %s, not %s", i, c[0], got, c[1])
		}
	}
	if u := s.Usage(); u.Feeds != 11 || u.Calls != 5 || u.Bytes == 0 || u.Journal == 0 {
		t.Errorf("%+v", u)
	}
	if !slices.Equal(log, []string{"x", "y", "z"}) {
		t.Error(log)
	}
}

// TestReplay: a session that is loaded is the one that was dumped: its variables,
// its random numbers and its time, its race's winner; and no tool is called again.
//
// proves S-03
func TestReplay(t *testing.T) {
	var calls atomic.Int64
	tools := []Tool{
		{Name: "slow", Func: func(ctx context.Context, ms int) (int, error) {
			calls.Add(1)
			select {
			case <-time.After(time.Duration(ms) * time.Millisecond):
			case <-ctx.Done():
			}
			return ms, nil
		}},
		{Name: "fail", Func: func() error { calls.Add(1); return &js.GuestError{Name: "RangeError", Message: "not now"} }},
	}
	p := newPool(t, Options{Warm: 1})
	s := checkout(t, p, SessionOptions{Owner: []byte("me"), Tools: catalogOf(t, tools...)})
	feeds := []string{
		"globalThis.log = []; const order = []; await Promise.all([slow(30).then(v => order.push(v)), slow(1).then(v => order.push(v)), slow(15).then(v => order.push(v))]); order",
		"const t0 = Date.now(); await slow(20); log.push(Math.random(), t0, Date.now() - t0 > 5, new Date().getTime()); log",
		"try { await fail() } catch (e) { log.push(e.name + e.message + (e instanceof RangeError)) }; log.length",
		"log.push(await Promise.race([slow(20), slow(2)])); slow(1); log",
		"setTimeout(() => log.push('timer'), 10); await new Promise(done => setTimeout(done, 20))",
		"throw new Error(log.length)",
	}
	var live []string
	for _, code := range feeds {
		live = append(live, fed(s, code))
	}
	if live[0] != "[1,15,30]" || !strings.Contains(live[3], ",2]") {
		t.Fatal(live)
	}
	before := calls.Load()
	l := reloaded(t, s, p)
	if calls.Load() != before {
		t.Error("a tool was called again")
	}
	const all = "[log, order, Math.random(), Math.random()]"
	a, b := fed(s, all), fed(l, all)
	if a != b || !strings.Contains(a, "timer") {
		t.Errorf("%s\n%s", a, b)
	}
	if u, v := s.Usage(), l.Usage(); u.Calls != v.Calls || u.Feeds != v.Feeds || v.Calls != 7 {
		t.Errorf("%v, %v", u, v)
	}
}

// TestPause: Start stops at each wave, Resume goes on, also elsewhere; what is no
// answer to what waits changes nothing.
//
// proves S-11
// proves S-21
func TestPause(t *testing.T) {
	p := newPool(t, Options{Warm: 1})
	tools := catalogOf(t, Tool{Name: "ask", Func: func(string) string { return "own" }})
	s := checkout(t, p, SessionOptions{Tools: tools})
	other := checkout(t, p, SessionOptions{Tools: tools})
	step, err := s.Start(t.Context(), "const [a, b] = await Promise.all([ask('a'), ask('b')]); const c = await ask(a + b); [a, b, c]", FeedOptions{})
	if err != nil || step.Done || len(step.Calls) != 2 || step.Calls[1].Args[0].Any() != "b" {
		t.Fatalf("%+v %v", step, err)
	}
	foreign, err := other.Start(t.Context(), "await ask('other')", FeedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Feed(t.Context(), "1", FeedOptions{}); !errors.Is(err, SessionPaused) {
		t.Error(err)
	}
	id := step.Calls[0].ID
	var field *api.FieldError
	refuse := func(s *Session, what string, replies ...Reply) {
		t.Helper()
		before, _ := s.Dump()
		if _, err := s.Resume(t.Context(), replies...); err == nil || errors.As(err, new(*SessionError)) {
			t.Errorf("%s: %v", what, err)
		}
		if after, _ := s.Dump(); string(after.Journal) != string(before.Journal) {
			t.Errorf("%s changed the journal", what)
		}
	}
	refuse(s, "none")
	refuse(s, "forged", Reply{Call: "1.abc"})
	refuse(s, "another session's", Reply{Call: foreign.Calls[0].ID, Value: 1})
	refuse(s, "twice", Reply{Call: id, Value: 1}, Reply{Call: id, Value: 2})
	refuse(s, "a value that cannot cross", Reply{Call: id, Value: make(chan int)})
	refuse(s, "one that can and one that cannot", Reply{Call: step.Calls[1].ID, Value: 1}, Reply{Call: id, Value: func() {}})
	refuse(s, "a run and a value", Reply{Call: id, Value: 1, Run: true})
	refuse(s, "another approval", Reply{Call: id, Run: true, Approval: step.Calls[1].Approval})
	l := reloaded(t, s, p)
	if got := l.Step(); got == nil || len(got.Calls) != 2 || got.Calls[0].InDoubt || got.Calls[0].Number != 1 || got.Calls[0].Approval != step.Calls[0].Approval {
		t.Fatalf("%+v", got)
	}
	refuse(l, "from before the dump", Reply{Call: id, Value: 1})
	if step, err = s.Resume(t.Context(), Reply{Call: step.Calls[1].ID, Value: "B"}, Reply{Call: id, Value: "A"}); err != nil || len(step.Calls) != 1 || step.Calls[0].Args[0].Any() != "AB" {
		t.Fatalf("%+v %v", step, err)
	}
	refuse(s, "answered", Reply{Call: id, Value: 1})
	l = reloaded(t, s, p)
	for _, s := range []*Session{s, l} {
		step, err = s.Resume(t.Context(), Reply{Call: s.Step().Calls[0].ID, Run: true})
		if err != nil || !step.Done || said(step.Result, nil) != `["A","B","own"]` {
			t.Errorf("%+v %v", step, err)
		}
		if _, err := s.Resume(t.Context(), Reply{Call: id}); !errors.Is(err, SessionNotAsked) {
			t.Error(err)
		}
	}
	if errors.As(err, &field) {
		t.Error(field)
	}
}

// TestVoid: what ends a feed and is not the same each time leaves the guest as it
// was before; what was spent stays spent.
//
// proves S-05
func TestVoid(t *testing.T) {
	var s *Session
	tools := []Tool{
		{Name: "boom", Func: func() { panic("boom") }},
		{Name: "exit", Func: func() { runtime.Goexit() }},
		{Name: "endless", Func: func(ctx context.Context) { <-ctx.Done() }},
		{Name: "one", Func: func() int { return 1 }},
	}
	o := Options{Limits: Limits{FeedMS: 200, FeedWaitMS: 300, MemoryBytes: 64 << 20}}
	s = newSession(t, o, tools...)
	if got := fed(s, "let n = await one(); n"); got != "1" {
		t.Fatal(got)
	}
	for i, c := range []struct {
		code string
		kind error
	}{
		{"n = 2; await one(); await boom()", SessionTool},
		{"n = 3; await exit()", SessionTool},
		{"n = 4; await endless()", SessionWait},
		{"n = 5; for (;;) {}", js.Timeout},
		{"n = 6; const all = []; for (;;) all.push(new Array(100000).fill(1.5))", js.MemoryLimit},
		{"n = 7; await (async () => { for (;;) await null })()", js.Timeout},
	} {
		r, err := s.Feed(t.Context(), c.code, FeedOptions{})
		if !errors.Is(err, c.kind) && !(c.kind == error(js.Timeout) && errors.Is(err, js.HardTimeout)) || r == nil {
			t.Errorf("%d: %v, %+v", i, err, r)
		}
		if got := fed(s, "n"); got != "1" {
			t.Errorf("%d: afterwards n is %s", i, got)
		}
	}
	if u := s.Usage(); u.Calls != 5 || u.Feeds != 13 || u.MS < 300 {
		t.Errorf("%+v", u)
	}
	l := reloaded(t, s, s.pool)
	if got := fed(l, "n"); got != "1" || l.Usage().Calls != 5 {
		t.Errorf("loaded: %s, %+v", got, l.Usage())
	}
}

// TestCanceledFeed: a feed whose context ends is void, at once, and its tool hears
// of it.
func TestCanceledFeed(t *testing.T) {
	heard := make(chan struct{})
	began := make(chan struct{})
	s := newSession(t, Options{}, Tool{Name: "wait", Func: func(ctx context.Context) { close(began); <-ctx.Done(); close(heard) }})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	r, err := s.Feed(ctx, "let x = 1; await wait()", FeedOptions{})
	if !errors.Is(err, SessionCanceled) || !errors.Is(err, context.Canceled) || len(r.Dropped) != 1 || r.Dropped[0].Tool != "wait" {
		t.Fatalf("%v %+v", err, r)
	}
	<-heard
	if got := fed(s, "typeof x"); got != `"undefined"` {
		t.Error(got)
	}
}

// TestOwnTools: a tool cannot use its own session; it hears that it is busy.
//
// proves S-14
func TestOwnTools(t *testing.T) {
	var s *Session
	s = newSession(t, Options{}, Tool{Name: "reenter", Func: func(ctx context.Context) []string {
		_, feed := s.Feed(ctx, "1", FeedOptions{})
		_, start := s.Start(ctx, "1", FeedOptions{})
		_, resume := s.Resume(ctx, Reply{Call: "1"})
		_, dump := s.Dump()
		var out []string
		for _, err := range []error{feed, start, resume, dump, s.Close()} {
			out = append(out, fmt.Sprint(errors.Is(err, SessionBusy)))
		}
		return append(out, fmt.Sprint(s.Usage().Calls))
	}})
	if got := fed(s, "await reenter()"); got != `["true","true","true","true","true","1"]` {
		t.Error(got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Feed(t.Context(), "1", FeedOptions{}); !errors.Is(err, SessionClosed) {
		t.Error(err)
	}
}

// TestBudgets: of tool, feed and session, none of which a load gives back; a call
// that is refused costs nothing.
func TestBudgets(t *testing.T) {
	var ran atomic.Int64
	p := newPool(t, Options{Limits: Limits{Calls: 8, FeedCalls: 5}})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "a", MaxCalls: 3, Func: func() { ran.Add(1) }}, Tool{Name: "b", Func: func(n int) { ran.Add(1) }})})
	const count = "let done = 0, why = []; for (let i = 0; i < 9; i++) try { await %s; done++ } catch (e) { why.push(e.message) } ({done, why: why[0] || ''})"
	each := func(call string) string {
		return fed(s, "return await (async () => {"+strings.Replace(fmt.Sprintf(count, call), "({done", "return ({done", 1)+"})()")
	}
	if got := each("b('no')"); !strings.HasPrefix(got, `{"done":0,"why":"tool_arguments: `) {
		t.Error(got)
	}
	if u := s.Usage(); u.Calls != 0 || u.Refused != 9 || ran.Load() != 0 {
		t.Errorf("%+v", u)
	}
	for _, c := range [][2]string{
		{"a()", `{"done":3,"why":"tool_budget: all 3 calls are used up"}`},
		{"b(1)", `{"done":5,"why":"tool_budget: all 5 calls of the feed are used up"}`},
		{"b(1)", `{"done":0,"why":"tool_budget: all 8 calls of the session are used up"}`},
	} {
		s = reloaded(t, s, p)
		if got := each(c[0]); got != c[1] {
			t.Errorf("%s: %s", c[0], got)
		}
	}
	if u := reloaded(t, s, p).Usage(); u.Calls != 8 || u.Refused != 28 || ran.Load() != 8 {
		t.Errorf("%+v, %d ran", u, ran.Load())
	}
}

// TestQueue: calls past those that may run wait in their order, and are replayed
// in it.
//
// proves S-06
func TestQueue(t *testing.T) {
	var now, most atomic.Int64
	p := newPool(t, Options{Limits: Limits{InFlight: 3, FeedCalls: 100}})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "t", Func: func(i int) int {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(time.Duration(3-i%3) * time.Millisecond)
		now.Add(-1)
		return i
	}})})
	got := fed(s, "const order = []; await Promise.all(Array.from({length: 40}, (_, i) => t(i).then(v => order.push(v)))); order")
	if most.Load() != 3 || len(strings.Split(got, ",")) != 40 {
		t.Errorf("%d at a time: %s", most.Load(), got)
	}
	if again := fed(reloaded(t, s, p), "order"); again != got {
		t.Errorf("%s\n%s", got, again)
	}
}

// A context that has ended already ends nothing: the guest stays, and nothing is
// on record.
func TestEndedContext(t *testing.T) {
	s := newSession(t, Options{}, Tool{Name: "t", Func: func() {}})
	fed(s, "let n = 1")
	step, err := s.Start(t.Context(), "await t()", FeedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := s.Usage()
	if _, err := s.Resume(ctx, Reply{Call: step.Calls[0].ID}); !errors.Is(err, SessionCanceled) {
		t.Error(err)
	}
	if step, err = s.Resume(t.Context(), Reply{Call: s.Step().Calls[0].ID}); err != nil || !step.Done {
		t.Fatal(err)
	}
	after := s.Usage()
	if _, err := s.Feed(ctx, "n = 2", FeedOptions{}); !errors.Is(err, SessionCanceled) || s.Usage() != after || before.Feeds != after.Feeds {
		t.Errorf("%v: %v", err, s.Usage())
	}
	if got := fed(s, "n"); got != "1" {
		t.Error(got)
	}
}

// A feed that runs its tools goes on so after a load, once somebody has resumed
// it; the load itself runs none.
func TestRunToolsAfterLoad(t *testing.T) {
	var ran atomic.Int64
	p := newPool(t, Options{})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "free", Func: func(n int) int { ran.Add(1); return n + 1 }},
		Tool{Name: "pay", Approve: true, Func: func(n int) int { return n * 10 }})})
	step, err := s.Start(t.Context(), "const a = await free(1); const b = await pay(a); await free(b)", FeedOptions{RunTools: true})
	if err != nil || len(step.Calls) != 1 || step.Calls[0].Tool != "pay" || ran.Load() != 1 {
		t.Fatalf("%+v %v", step, err)
	}
	l := reloaded(t, s, p)
	if ran.Load() != 1 {
		t.Error("the load ran a tool")
	}
	c := l.Step().Calls[0]
	if _, err := l.Resume(t.Context(), Reply{Call: c.ID, Run: true}); err == nil {
		t.Error("run without its approval")
	}
	if step, err = l.Resume(t.Context(), Reply{Call: c.ID, Run: true, Approval: c.Approval}); err != nil || said(step.Result, nil) != "21" || ran.Load() != 2 {
		t.Errorf("%+v %v", step, err)
	}
}
