package agent

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/journal"
	"github.com/glovebox-dev/glovebox/js"
)

// divergedAt tells what a load came to, and that the bytes were let alone.
func divergedAt(t *testing.T, s *Session, p *Pool, data []byte) error {
	t.Helper()
	before := bytes.Clone(data)
	_, err := load(t, s, p, data)
	if !bytes.Equal(before, data) {
		t.Error("a load changed the journal")
	}
	return err
}

// TestSurviveDiverged: an authentic journal with other code, another order, another
// argument, name, answer or outcome, with a call too many or too few, is refused
// with the number of a record and nothing of its content; no tool is called, and no
// recorded answer reaches a call with other arguments. The control: unchanged it
// loads. Long because of its table.
//
// proves H-61
func TestSurviveDiverged(t *testing.T) {
	var canary atomic.Int64
	s := newSession(t, Options{Keys: surviveKeys}, Tool{Name: "secret", Func: func(of string) string { canary.Add(1); return "canary-" + of }},
		Tool{Name: "secrit2", Func: func(string) { canary.Add(1) }})
	fed(s, "globalThis.got = {}; const a = await secret('a'); got.a = a; const b = await secret('b'); got.b = b; [a, b]")
	fed(s, "const two = await Promise.all([secret('c'), secret('d')]); two")
	p, ran := newPool(t, Options{Keys: surviveKeys}), canary.Load()
	list := records(t, s)
	at := func(kind journal.Type, n int) int {
		for i, r := range list {
			if r.Type == kind {
				if n--; n < 0 {
					return i
				}
			}
		}
		t.Fatal("no such record")
		return 0
	}
	source := func(old, new string) func([]journal.Record) []journal.Record {
		return func(l []journal.Record) []journal.Record {
			for i, r := range l {
				if m, ok := r.Meta.(*journal.Feed); ok && strings.Contains(string(r.Blob), old) {
					code := strings.ReplaceAll(string(r.Blob), old, new)
					c := *m
					c.Source = len(code)
					l[i] = journal.Record{Type: r.Type, Meta: &c, Blob: []byte(code)}
				}
			}
			return l
		}
	}
	for what, change := range map[string]func([]journal.Record) []journal.Record{
		"argument in code": source("secret('a')", "secret('z')"),
		"tool in code":     source("await secret('b')", "await secrit2('b')"),
		"order in code":    source("[secret('c'), secret('d')]", "[secret('d'), secret('c')]"),
		"fewer calls":      source("const b = await secret('b')", "const b = 'canary-b'"),
		"more calls":       source("const b = await secret('b')", "await secret('x'); const b = await secret('b')"),
		"calls behind":     source("[a, b]", "secret('y'); [a, b]; await secret('z')"),
		"another value":    source("[a, b]", "[b, a]"),
		"throws":           source("[a, b]", "throw 1"),
		"no JavaScript":    source("[a, b]", "[a, b"),
		"never settles":    source("[a, b]", "await new Promise(() => {})"),
		"argument on record": func(l []journal.Record) []journal.Record {
			l[at(journal.TypeStart, 0)].Blob = l[at(journal.TypeStart, 1)].Blob
			return l
		},
		"name on record": func(l []journal.Record) []journal.Record {
			c := *l[at(journal.TypeStart, 1)].Meta.(*journal.Call)
			c.Tool = "secrit2"
			l[at(journal.TypeStart, 1)].Meta = &c
			return l
		},
		"arguments that are none": func(l []journal.Record) []journal.Record {
			l[at(journal.TypeStart, 1)].Blob = []byte{200}
			return l
		},
		"an answer that is none": func(l []journal.Record) []journal.Record { l[at(journal.TypeAnswer, 1)].Blob = []byte{255}; return l },
		"another answer": func(l []journal.Record) []journal.Record {
			l[at(journal.TypeAnswer, 1)].Blob = l[at(journal.TypeAnswer, 2)].Blob
			return l
		},
		"a failure": func(l []journal.Record) []journal.Record {
			l[at(journal.TypeAnswer, 1)] = journal.Record{Type: journal.TypeAnswer, Meta: &journal.Answer{Call: 2, Failure: &journal.Failure{Kind: "x", Name: "Error", Message: "m"}}}
			return l
		},
		"never told": func(l []journal.Record) []journal.Record {
			l[at(journal.TypeAnswer, 1)] = journal.Record{Type: journal.TypeAnswer, Meta: &journal.Answer{Call: 2, Failure: &journal.Failure{Kind: droppedKind, Name: "Error", Message: "m"}}}
			return l
		},
		"outcome": func(l []journal.Record) []journal.Record {
			o := *l[at(journal.TypeOutcome, 0)].Meta.(*journal.Outcome)
			o.Hash = strings.Repeat("0", 64)
			l[at(journal.TypeOutcome, 0)].Meta = &o
			return l
		},
		"a kind of failure": func(l []journal.Record) []journal.Record {
			o := *l[at(journal.TypeOutcome, 0)].Meta.(*journal.Outcome)
			o.Kind = string(js.Thrown)
			l[at(journal.TypeOutcome, 0)].Meta = &o
			return l
		},
		"feeds the other way": func(l []journal.Record) []journal.Record {
			i, j := at(journal.TypeFeed, 0), at(journal.TypeFeed, 1)
			a, b := *l[i].Meta.(*journal.Feed), *l[j].Meta.(*journal.Feed)
			a.Source, b.Source = len(l[j].Blob), len(l[i].Blob)
			l[i].Meta, l[j].Meta, l[i].Blob, l[j].Blob = &a, &b, l[j].Blob, l[i].Blob
			return l
		},
	} {
		err := divergedAt(t, s, p, signed(t, s, change(slices.Clone(list))...))
		if !errors.Is(err, SessionDiverged) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "secr") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if canary.Load() != ran || p.js.Stats().Out != 0 {
		t.Errorf("a tool was called, or %d workers are out", p.js.Stats().Out)
	}
	l, err := load(t, s, p, signed(t, s, list...))
	if err != nil || fed(l, "[a, b, two]") != `["canary-a","canary-b",["canary-c","canary-d"]]` {
		t.Errorf("the control: %v", err)
	}
}

// TestSurviveForeign: another release, engine or platform decides nothing: the
// replay does, and where it comes to the same the session goes on.
//
// proves part of H-61
func TestSurviveForeign(t *testing.T) {
	var ran atomic.Int64
	s := newSession(t, Options{Keys: surviveKeys}, counting("count", &ran))
	fed(s, "let n = await count(); n")
	by := journal.Made{Release: "99", Engine: "another 1.0 jit", Platform: "plan9/mips"}
	l, err := load(t, s, s.pool, signedBy(t, s, by, records(t, s)...))
	if err != nil || fed(l, "n") != "1" || ran.Load() != 1 {
		t.Errorf("what replays: %v", err)
	}
	list := records(t, s)
	o := *list[len(list)-1].Meta.(*journal.Outcome)
	o.Hash = strings.Repeat("0", 64)
	list[len(list)-1].Meta = &o
	if err := divergedAt(t, s, s.pool, signedBy(t, s, by, list...)); !errors.Is(err, SessionDiverged) || ran.Load() != 1 {
		t.Errorf("what does not: %v", err)
	}
}

// TestSurviveEnd: a feed whose end is not on record, since its process ended before,
// comes to that end when the session is loaded, once; how it failed is told.
//
// proves part of S-03
func TestSurviveEnd(t *testing.T) {
	var ran atomic.Int64
	s := newSession(t, Options{Keys: surviveKeys, Limits: Limits{FeedMS: 200}}, counting("count", &ran))
	for i, c := range []struct {
		code string
		kind error
	}{{"globalThis.got = await count(); got", nil}, {"globalThis.got = await count(); throw new Error('mine')", js.Thrown}, {"globalThis.got = await count(); await new Promise(() => {})", js.NeverSettles},
		{"globalThis.got = await count(); for (;;);", js.Timeout}} {
		fed(s, c.code)
		list := records(t, s)
		l, err := load(t, s, s.pool, signed(t, s, list[:len(list)-1]...))
		if err != nil {
			t.Errorf("%s: %v", c.code, err)
			continue
		}
		step := l.Step()
		if step == nil || !step.Done || !errors.Is(step.Err, c.kind) && !(c.kind == error(js.Timeout) && errors.Is(step.Err, js.HardTimeout)) || c.kind == nil && (step.Err != nil || said(step.Result, nil) != "1") {
			t.Errorf("%s: %+v", c.code, step)
		}
		if l.Usage().Calls != int64(i)+1 || ran.Load() != int64(i)+1 || len(records(t, l)) != len(list) {
			t.Errorf("%s: %+v", c.code, l.Usage())
		}
		want := []string{"1", "2", "3", "3"}[i] // the last one is void
		if got := fed(l, "got"); got != want {
			t.Errorf("%s: %s", c.code, got)
		}
	}
}

// TestSurviveOdd: authentic journals with content that this program never writes have
// an error of their own, and change nothing.
//
// proves part of S-21
func TestSurviveOdd(t *testing.T) {
	var ran atomic.Int64
	s := newSession(t, Options{Keys: surviveKeys}, counting("count", &ran))
	feed := func(n uint64, clock int64, code string, inputs ...byte) journal.Record {
		return journal.Record{Type: journal.TypeFeed, Meta: &journal.Feed{Feed: n, Seed: 3, Clock: clock, Source: len(code)}, Blob: append([]byte(code), inputs...)}
	}
	done := func(n uint64) journal.Record {
		return journal.Record{Type: journal.TypeOutcome, Meta: &journal.Outcome{Feed: n, Kind: outcomeDone, Hash: hashOf(js.Value{}, nil)}}
	}
	start := journal.Record{Type: journal.TypeStart, Meta: &journal.Call{Call: 1, Feed: 1, Tool: "count", Key: strings.Repeat("0", 32)}}
	answer := func(clock int64) journal.Record {
		return journal.Record{Type: journal.TypeAnswer, Meta: &journal.Answer{Call: 1, Clock: clock}, Blob: binaryOf(t, 1)}
	}
	for what, list := range map[string][]journal.Record{
		"a clock before time":      {feed(1, -5, "let a = 1"), done(1)},
		"a clock after time":       {feed(1, 1<<62, "let a = 1"), done(1)},
		"an answer before time":    {feed(1, 5, "await count(); undefined"), start, answer(-1), done(1)},
		"an answer after time":     {feed(1, 5, "await count(); undefined"), start, answer(1 << 62), done(1)},
		"inputs that are none":     {feed(1, 5, "1", 0xff, 0xff), done(1)},
		"inputs that are a number": {feed(1, 5, "1", binaryOf(t, 7)...), done(1)},
		"an input of the guest's":  {feed(1, 5, "undefined", binaryOf(t, map[string]any{"Object": 1})...), done(1)},
		"an input of the host's":   {feed(1, 5, "undefined", binaryOf(t, map[string]any{"count": 1})...), done(1)},
		"no UTF-8":                 {feed(1, 5, "undefined\xff"), done(1)},
		"a call of nobody's":       {feed(1, 5, "undefined"), done(1), start},
		"a tool that is none":      {feed(1, 5, "1"), {Type: journal.TypeStart, Meta: &journal.Call{Call: 1, Feed: 1, Tool: "none", Key: strings.Repeat("0", 32)}}},
		"catalog, not lazy":        {feed(1, 5, "1"), {Type: journal.TypeStart, Meta: &journal.Call{Call: 1, Feed: 1, Tool: describeName, Key: strings.Repeat("0", 32)}}},
		"refused after the end":    {feed(1, 5, "undefined"), {Type: journal.TypeRefused, Meta: &journal.Refused{Feed: 1, Tool: "count", Failure: &journal.Failure{}}}, done(1)},
		"a run of no wait":         {feed(1, 5, "await count()"), start, {Type: journal.TypeRun, Meta: &journal.Run{Call: 1}}, {Type: journal.TypeRun, Meta: &journal.Run{Call: 7}}},
	} {
		data := signed(t, s, list...)
		err := divergedAt(t, s, s.pool, data)
		var own *SessionError
		if err != nil && !errors.As(err, &own) {
			t.Errorf("%s: %T %v", what, err, err)
		}
		if err == nil && what != "a call of nobody's" && what != "a run of no wait" {
			t.Errorf("%s loads", what)
		}
	}
	if ran.Load() != 0 {
		t.Error("a tool ran")
	}
}

func binaryOf(t *testing.T, v any) []byte {
	t.Helper()
	x, err := js.ValueOf(v)
	if err != nil {
		t.Fatal(err)
	}
	data, err := x.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSurviveGate: a journal whose feeds the gate of the pool denies does not load,
// by the gate's own word, wherever the feed stands, and is let alone.
//
// proves part of H-57
func TestSurviveGate(t *testing.T) {
	deny := func(word string) gate.Gate {
		return func(_ context.Context, source []byte, _ gate.Info) gate.Verdict {
			return gate.Verdict{Allow: word == "" || !strings.Contains(string(source), word), Reason: "denied"}
		}
	}
	s := newSession(t, Options{Keys: surviveKeys, Gate: deny("")}, Tool{Name: "ask", Func: func() {}})
	fed(s, "let evil = 1")
	fed(s, "let good = 1")
	paused := reloaded(t, s, s.pool)
	if _, err := paused.Start(t.Context(), "await ask(); 'bad'", FeedOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"evil", "good", "bad"} {
		p := newPool(t, Options{Keys: surviveKeys, Gate: deny(word)})
		data := dump(t, paused).Journal
		var denied *gate.Denied
		if err := divergedAt(t, s, p, data); !errors.As(err, &denied) {
			t.Errorf("%s: %v", word, err)
		}
	}
	if _, err := load(t, s, newPool(t, Options{Keys: surviveKeys, Gate: deny("other")}), dump(t, paused).Journal); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// TestSurviveSlow: a replay may take ten times what a feed may, and costs the session
// nothing; what takes longer still is refused, and the journal is let alone.
//
// proves S-18
func TestSurviveSlow(t *testing.T) {
	s := newSession(t, Options{Keys: surviveKeys, Limits: Limits{FeedMS: 20_000}})
	const busy = "let n = 0; const end = %; while (n < end) n++; n"
	loops, took := 1_000_000, int64(0)
	for ; took < 500; loops *= 3 { // on whatever machine
		s = newSession(t, Options{Keys: surviveKeys, Limits: Limits{FeedMS: 20_000}})
		r, err := s.Feed(t.Context(), strings.Replace(busy, "%", strconv.Itoa(loops), 1), FeedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		took = r.Usage.MS
	}
	// Its own limit would be a quarter of what the feed took.
	p := newPool(t, Options{Keys: surviveKeys, Limits: Limits{FeedMS: max(took/4, 20)}})
	data := dump(t, s).Journal
	l, err := load(t, s, p, data)
	if err != nil || fed(l, "n > 0") != "true" || l.Usage().MS > s.Usage().MS+took/4 {
		t.Fatalf("a feed of %d ms: %v", took, err)
	}
	if _, err := l.Feed(t.Context(), "for (;;);", FeedOptions{}); err == nil {
		t.Error("a feed of its own has no limit")
	}
	tight := newPool(t, Options{Keys: surviveKeys, Limits: Limits{FeedMS: max(took/100, 1)}})
	if err := divergedAt(t, s, tight, data); err == nil {
		t.Errorf("the control: %v", err)
	}
}
