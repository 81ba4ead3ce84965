package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/js"
	"github.com/glovebox-dev/glovebox/preflight"
)

// TestCompact: a session with a long past is made short, and is what it was: its
// variables, what it has spent, what it has discovered; the old journal does not
// load beside the new head.
//
// proves H-62
func TestCompact(t *testing.T) {
	p := newPool(t, Options{Warm: 1})
	tools := catalogOf(t, Tool{Name: "count", MaxCalls: 60, Func: func(n int) int { return n }}, Tool{Name: "rare", Lazy: true, Func: func() string { return "found" }})
	s := checkout(t, p, SessionOptions{Tools: tools})
	if err := s.Compact(t.Context()); err != nil || s.Compacted() != 0 {
		t.Errorf("without a feed: %v", err)
	}
	fed(s, "let list = []; const map = new Map([[1, new Date(0)]]); var v = {a: [1, , -0]}; await catalog.describe('rare'); let big = 10n")
	fed(s, "const fixed = [1]")
	for range 50 {
		if got := fed(s, "list.push(await count(list.length)); list.length"); strings.HasPrefix(got, "error") {
			t.Fatal(got)
		}
	}
	old, err := s.Dump()
	if err != nil {
		t.Fatal(err)
	}
	before := s.Usage()
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := s.Usage()
	if after.Journal >= before.Journal/4 || after.Calls != before.Calls || after.Feeds != before.Feeds || after.MS != before.MS || s.Compacted() < 150 {
		t.Errorf("%+v\n%+v, %d", before, after, s.Compacted())
	}
	const look = "[list.length, list[49], map.get(1).getTime(), Object.is(v.a[2], -0), 1 in v.a, String(big), await rare(), Math.random()]"
	l := reloaded(t, s, p)
	a, b := fed(s, look), fed(l, look)
	if a != b || !strings.HasPrefix(a, `[50,49,0,true,false,"10","found",0.`) {
		t.Errorf("%s\n%s", a, b)
	}
	if got := fed(l, "fixed = 1"); !strings.HasPrefix(got, "error: js: TypeError") {
		t.Errorf("a constant: %s", got)
	}
	now, err := l.Dump()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Load(t.Context(), old.Journal, LoadOptions{SessionOptions: SessionOptions{Tools: tools}, Head: now.Head}); !errors.Is(err, SessionJournal) {
		t.Errorf("the old journal: %v", err)
	}
	if l.Compact(t.Context()) != nil || fed(reloaded(t, l, p), "list.length") != "50" {
		t.Error("a second time")
	}
}

// TestCompactRefused: what is not plain data refuses, and nothing has happened.
func TestCompactRefused(t *testing.T) {
	s := newSession(t, Options{}, Tool{Name: "ask", Func: func() {}})
	for _, code := range []string{"var bad = () => 1", "bad = Symbol()", "bad = {get x() { return 1 }}", "bad = {}; bad.self = bad", "bad = new Proxy({}, {})", "bad = Promise.resolve(1)", "bad = 1; Array.prototype.extra = 1"} {
		fed(s, code)
		before := s.Usage()
		if err := s.Compact(t.Context()); js.KindOf(err) != js.Unsupported || s.Usage() != before || s.Compacted() != 0 {
			t.Errorf("%s: %v", code, err)
		}
	}
	fed(s, "delete Array.prototype.extra")
	if err := s.Compact(t.Context()); err != nil {
		t.Errorf("the control: %v", err)
	}
	if _, err := s.Start(t.Context(), "await ask()", FeedOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context()); !errors.Is(err, SessionPaused) {
		t.Error(err)
	}
}

// TestCompactStored: the shorter journal takes the place of the longer in a store,
// in one step.
func TestCompactStored(t *testing.T) {
	st := store.NewMemory()
	p := newPool(t, Options{Store: st, Gate: gate.Policy(preflight.Policy{DenyEval: true, Await: true})})
	k := store.Key{Owner: "o", ID: "a"}
	s := acquire(t, p, k, AcquireOptions{})
	for range 20 {
		fed(s, "globalThis.n = (globalThis.n ?? 0) + 1; '"+strings.Repeat("x", 1000)+"'")
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	fed(s, "n++")
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	all, err := p.Sessions(t.Context(), "o")
	if err != nil || len(all) != 1 || all[0].Bytes > 4000 {
		t.Fatalf("%+v %v", all, err)
	}
	if got := fed(acquire(t, p, k, AcquireOptions{}), "n"); got != "21" {
		t.Error(got)
	}
}
