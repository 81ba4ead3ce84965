package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/keyring"
)

func ringOf(t testing.TB, current string, ids ...string) *keyring.Ring {
	t.Helper()
	roots := map[string][]byte{}
	for _, id := range append(ids, current) {
		roots[id] = bytes.Repeat([]byte(id), 32)
	}
	r, err := keyring.New(current, roots)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	owner    = []byte("owner 1")
	settings = Settings{Redaction: true, Catalog: "c"}
	made     = Made{"1.0", "jsc 6", "linux/amd64"}
)

func beginOf(t testing.TB, s Settings) Begin {
	return Begin{ringOf(t, "k1"), owner, s, made}
}

// sample is a journal of two feeds, three calls and all that can be told of
// them, and where its records end.
func sample(t testing.TB, s Settings) (data []byte, ends []int, heads []Head) {
	t.Helper()
	m := &Memory{}
	w, err := Create(m, beginOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	mark := func(h Head, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		ends, heads = append(ends, len(m.Bytes)), append(heads, h)
	}
	mark(w.Head(), nil)
	mark(w.Append(Record{TypeFeed, &Feed{Feed: 1, Seed: 7, Clock: 1000, Source: 5}, []byte("await tools.charge('é漢😀')")}))
	mark(w.Append(Record{TypeStart, w.NextCall("charge"), []byte("args 1")}))
	mark(w.Append(Record{TypeStart, w.NextCall("charge"), []byte("args 2")}))
	mark(w.Append(Record{TypeAnswer, &Answer{Call: 2}, []byte("value 2")}))
	mark(w.Append(Record{TypeAnswer, &Answer{Call: 1, Failure: &Failure{"host_error", "Error", "no"}}, nil}))
	mark(w.Append(Record{TypeOutcome, &Outcome{Feed: 1, Kind: "done", Hash: "h", Used: Spent{MS: 5, Bytes: 9}}, []byte("result")}))
	mark(w.Append(Record{TypeFeed, &Feed{Feed: 2, Clock: 2000}, []byte(strings.Repeat("// é漢😀\n", 240))}))
	mark(w.Append(Record{TypeAsk, w.NextCall("approve"), []byte("args é漢😀 3")}))
	return m.Bytes, ends, heads
}

func optionsOf(t testing.TB, s Settings) LoadOptions {
	return LoadOptions{Keys: ringOf(t, "k1"), Owner: owner, Settings: s}
}

// TestLoad: what was appended comes back.
func TestLoad(t *testing.T) {
	for _, s := range []Settings{settings, {Sealed: true}} {
		data, ends, heads := sample(t, s)
		o := optionsOf(t, s)
		o.Head, o.Made = &heads[8], &made
		var types []Type
		var blobs []string
		o.Each = func(r Record) error {
			types, blobs = append(types, r.Type), append(blobs, string(r.Blob))
			return nil
		}
		l, err := Load(data, o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Type{1, 2, 3, 3, 5, 5, 6, 2, 4}, types); diff != "" || blobs[1] != "await tools.charge('é漢😀')" || blobs[8] != "args é漢😀 3" {
			t.Errorf("%v, blobs %q", types, blobs)
		}
		if l.Count() != 9 || l.Feed != 2 || !l.Open || l.Call != 3 || l.Seed != 7 || l.Clock != 2000 || l.Torn || l.Beyond || l.RollbackPossible || l.Good != ends[8] {
			t.Errorf("%+v", l)
		}
		if len(l.Waiting) != 1 || l.Waiting[0].Tool != "approve" || len(l.InDoubt) != 0 || l.Spent != (Spent{Calls: 3, MS: 5, Bytes: 9}) || l.Tools["charge"] != 2 {
			t.Errorf("waiting %v, in doubt %v, spent %v, %v", l.Waiting, l.InDoubt, l.Spent, l.Tools)
		}
		if bytes.Contains(data, []byte("charge")) == s.Sealed {
			t.Errorf("sealed %v, and the tool's name is in the bytes: %v", s.Sealed, !s.Sealed)
		}
	}
}

// TestEveryBit: no bit of a journal can be another, with a head or without.
//
// proves part of S-01
func TestEveryBit(t *testing.T) {
	for _, s := range []Settings{settings, {Sealed: true}} {
		data, _, heads := sample(t, s)
		if len(data) < 4<<10 {
			t.Fatalf("only %d bytes", len(data))
		}
		bound, free := optionsOf(t, s), optionsOf(t, s)
		bound.Head = &heads[7]
		seen := map[Kind]int{}
		for i := 0; i < len(data)*8; i += stride {
			data[i/8] ^= 1 << (i % 8)
			for _, o := range []LoadOptions{bound, free} {
				o.Each = func(r Record) error {
					if r.Type == TypeHeader && i/8 < len(Magic)+sizeHead {
						return errors.New("the first record is handed out")
					}
					return nil
				}
				_, err := Load(data, o)
				bad, ok := errors.AsType[*Error](err)
				if !ok || bad.Kind != Forged && bad.Kind != NotOne && bad.Kind != BadKey {
					t.Errorf("bit %d of byte %d: %v", i%8, i/8, err)
				} else {
					seen[bad.Kind]++
				}
			}
			data[i/8] ^= 1 << (i % 8)
		}
		if _, err := Load(data, bound); err != nil || seen[Forged] < 1000/stride {
			t.Errorf("the control: %v; %v", err, seen)
		}
	}
}

// TestEveryCut: cut to any length, a journal is refused unless it ends at the
// head or one record beyond; a record that it ends within was never there. The
// control: without a head each whole record is an end, and a budget is regained,
// of which the result says that it is possible.
//
// proves part of S-01 S-02 H-59
func TestEveryCut(t *testing.T) {
	data, ends, heads := sample(t, settings)
	regained := false
	for at, head := range heads {
		bound, counted, free := optionsOf(t, settings), optionsOf(t, settings), optionsOf(t, settings)
		bound.Head, counted.Counter = &head, &head.Count
		for n := 0; n <= len(data); n += stride {
			whole := 0
			for whole < len(ends) && ends[whole] <= n {
				whole++
			}
			want, beyond := Kind(""), whole == at+2
			switch {
			case whole == 0:
				want = NotOne
			case whole < at+1:
				want = Rollback
			case whole > at+2:
				want = Ahead
			}
			for _, o := range []LoadOptions{bound, counted} {
				l, err := Load(data[:n], o)
				if want != "" && !errors.Is(err, want) || want == "" && err != nil {
					t.Fatalf("%d bytes, %d records, head %d: %v, want %q", n, whole, at+1, err, want)
				}
				if want == "" && (l.Good != ends[whole-1] || l.Torn != (n > ends[whole-1]) || l.Beyond != beyond || l.RollbackPossible) {
					t.Fatalf("%d bytes, %d records, head %d: %+v", n, whole, at+1, l)
				}
			}
			l, err := Load(data[:n], free)
			if (err == nil) != (whole > 0) || err == nil && !l.RollbackPossible {
				t.Fatalf("%d bytes without a head: %v", n, err)
			}
			regained = regained || err == nil && l.Spent.Calls == 1
		}
	}
	if !regained {
		t.Error("the control: no cut without a head has given back a call")
	}
}

// frames splits a journal.
func frames(data []byte, ends []int) (out [][]byte) {
	start := len(Magic)
	for _, e := range ends {
		out = append(out, data[start:e])
		start = e
	}
	return out
}

func joined(parts ...[]byte) []byte {
	return append([]byte(Magic), bytes.Join(parts, nil)...)
}

// TestForged: records in another order, twice, left out or of another session;
// another owner, another key of the same name, other settings; a head of another
// session, or of another history of the same length. The controls are the
// journal as it is, and each of those that it was mixed with.
// Long because of its table.
//
// proves part of S-01 H-59 H-63
func TestForged(t *testing.T) {
	data, ends, heads := sample(t, settings)
	other, otherEnds, otherHeads := sample(t, settings)
	f, g := frames(data, ends), frames(other, otherEnds)
	o := optionsOf(t, settings)
	for name, bad := range map[string][]byte{
		"swapped":       joined(f[0], f[1], f[3], f[2]),
		"twice":         joined(f[0], f[1], f[1]),
		"left out":      joined(f[0], f[2]),
		"first alone":   joined(f[1]),
		"two firsts":    joined(f[0], f[0]),
		"spliced":       joined(f[0], g[1]),
		"other's first": joined(g[0], f[1]),
		"a tail":        append(bytes.Clone(data), "{\"n\":1}\n padding that is no frame"...),
		"a flipped end": append(bytes.Clone(data[:len(data)-1]), data[len(data)-1]^1),
	} {
		if _, err := Load(bad, o); !errors.Is(err, Forged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string][]byte{"none": nil, "JSON lines": []byte("{\"n\":1}\n"), "version": []byte(strings.Replace(string(data), "GLOVEJ1", "GLOVEJ2", 1)), "magic alone": []byte(Magic)} {
		if _, err := Load(bad, o); !errors.Is(err, NotOne) {
			t.Errorf("%s: %v", name, err)
		}
	}
	change := func(f func(*LoadOptions)) LoadOptions { c := o; f(&c); return c }
	third, err := keyring.New("k1", map[string][]byte{"k1": bytes.Repeat([]byte("x"), 32)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    LoadOptions
		want Kind
	}{
		"other owner":     {change(func(o *LoadOptions) { o.Owner = []byte("owner 2") }), Forged},
		"no owner":        {change(func(o *LoadOptions) { o.Owner = nil }), Forged},
		"other root":      {change(func(o *LoadOptions) { o.Keys = third }), Forged},
		"retired key":     {change(func(o *LoadOptions) { o.Keys = ringOf(t, "k2") }), BadKey},
		"redaction":       {change(func(o *LoadOptions) { o.Settings.Redaction = false }), Mismatch},
		"strict eval":     {change(func(o *LoadOptions) { o.Settings.StrictEval = true }), Mismatch},
		"catalog":         {change(func(o *LoadOptions) { o.Settings.Catalog = "d" }), Mismatch},
		"sealed":          {change(func(o *LoadOptions) { o.Settings.Sealed = true }), Mismatch},
		"engine":          {change(func(o *LoadOptions) { o.Made = &Made{"1.0", "jsc 7", "linux/amd64"} }), Mismatch},
		"other's head":    {change(func(o *LoadOptions) { o.Head = &otherHeads[8] }), Rollback},
		"other history":   {change(func(o *LoadOptions) { h := heads[8]; h.Chain = otherHeads[8].Chain; o.Head = &h }), Rollback},
		"history, beyond": {change(func(o *LoadOptions) { h := heads[7]; h.Chain = otherHeads[7].Chain; o.Head = &h }), Rollback},
	} {
		called := false
		c.o.Each = func(Record) error { called = true; return nil }
		if _, err := Load(data, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if called && c.want != Rollback {
			t.Errorf("%s: records were handed out", name)
		}
	}
	for _, good := range [][]byte{data, other} {
		if _, err := Load(good, change(func(o *LoadOptions) { o.Keys = ringOf(t, "k2", "k1") })); err != nil {
			t.Errorf("the control, with a newer key beside: %v", err)
		}
	}
}

// TestHead: a head has a mac of its own, and is of its owner.
//
// proves part of H-63
func TestHead(t *testing.T) {
	data, _, heads := sample(t, settings)
	ring := ringOf(t, "k1")
	text, err := heads[8].Marshal(ring, owner)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseHead(text, ringOf(t, "k2", "k1"), owner)
	if diff := cmp.Diff(heads[8], got); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	for i := range len(text) * 8 {
		text[i/8] ^= 1 << (i % 8)
		if _, err := ParseHead(text, ring, owner); err == nil {
			t.Errorf("bit %d of byte %d passes", i%8, i/8)
		}
		text[i/8] ^= 1 << (i % 8)
	}
	for n := range len(text) {
		if _, err := ParseHead(text[:n], ring, owner); err == nil {
			t.Errorf("cut to %d bytes it passes", n)
		}
	}
	if _, err := ParseHead(text, ring, []byte("owner 2")); !errors.Is(err, Forged) {
		t.Errorf("of another owner: %v", err)
	}
	if _, err := ParseHead(text, ringOf(t, "k2"), owner); !errors.Is(err, BadKey) {
		t.Errorf("of a retired key: %v", err)
	}
	if _, err := ParseHead(data, ring, owner); err == nil {
		t.Error("a journal passes for a head")
	}
}

// rawFrame is an authentic frame with anything in it.
func rawFrame(k *keys, prev Chain, inner []byte) ([]byte, Chain) {
	f := binary.LittleEndian.AppendUint32(nil, uint32(len(inner)))
	check := k.check(prev, f)
	f = append(append(f, check[:]...), inner...)
	chain := k.sum(prev, f)
	return append(f, chain[:]...), chain
}

func rawInner(t Type, meta string, blob []byte) []byte {
	inner := binary.LittleEndian.AppendUint32([]byte{byte(t)}, uint32(len(meta)))
	return append(append(inner, meta...), blob...)
}

// TestOdd: what is authentic and cannot be is refused as such, by exact names and
// in order. Each has a good neighbour, which is what the sample is made of.
//
// proves part of S-21
func TestOdd(t *testing.T) {
	data, ends, _ := sample(t, settings)
	feed, call := `{"feed":1,"clock":0,"source":0}`, `{"call":1,"feed":1,"tool":"t","key":"`+strings.Repeat("0", 32)+`"}`
	for name, c := range map[string][]struct {
		t    Type
		meta string
		blob string
	}{
		"type 0": {{0, `{}`, ""}}, "type 9": {{9, `{}`, ""}}, "no JSON": {{TypeFeed, `{`, ""}}, "twice": {{TypeFeed, `{"feed":1,"feed":1,"clock":0}`, ""}},
		"other case": {{TypeFeed, `{"Feed":1,"clock":0}`, ""}}, "long s": {{TypeBudget, `{"u\u017fed":{}}`, ""}}, "unknown": {{TypeFeed, `{"feed":1,"clock":0,"x":1}`, ""}},
		"not UTF-8": {{TypeStart, "{\"tool\":\"\xff\"}", ""}}, "half a pair": {{TypeStart, `{"tool":"\ud800"}`, ""}}, "deep": {{TypeFeed, strings.Repeat("[", MaxMeta), ""}},
		"deep, ended": {{TypeFeed, strings.Repeat(`{"a":`, 12_000) + "1" + strings.Repeat("}", 1_000), ""}}, "behind": {{TypeFeed, feed + feed, ""}},
		"meta too long": {{TypeFeed, feed + strings.Repeat(" ", MaxMeta), ""}}, "source": {{TypeFeed, `{"feed":1,"clock":0,"source":2}`, "x"}}, "negative source": {{TypeFeed, `{"feed":1,"clock":0,"source":-1}`, "x"}},
		"feed 2": {{TypeFeed, `{"feed":2,"clock":0}`, ""}}, "feed 0": {{TypeFeed, `{"feed":0,"clock":0}`, ""}},
		"feed in a feed": {{TypeFeed, feed, ""}, {TypeFeed, `{"feed":2,"clock":0}`, ""}}, "call before a feed": {{TypeStart, call, ""}},
		"call of another": {{TypeFeed, feed, ""}, {TypeStart, strings.Replace(call, `"feed":1`, `"feed":2`, 1), ""}}, "call 2": {{TypeFeed, feed, ""}, {TypeStart, strings.Replace(call, `"call":1`, `"call":2`, 1), ""}},
		"call twice": {{TypeFeed, feed, ""}, {TypeStart, call, ""}, {TypeAsk, call, ""}}, "no key": {{TypeFeed, feed, ""}, {TypeStart, `{"call":1,"feed":1,"tool":"t","key":""}`, ""}},
		"answer to none": {{TypeFeed, feed, ""}, {TypeAnswer, `{"call":1}`, ""}}, "answer twice": {{TypeFeed, feed, ""}, {TypeStart, call, ""}, {TypeAnswer, `{"call":1}`, ""}, {TypeAnswer, `{"call":1}`, ""}},
		"value and failure": {{TypeFeed, feed, ""}, {TypeStart, call, ""}, {TypeAnswer, `{"call":1,"failure":{"kind":"k","name":"n","message":"m"}}`, "v"}},
		"outcome of none":   {{TypeOutcome, `{"feed":0,"kind":"done","hash":"","used":{}}`, ""}}, "outcome twice": {{TypeFeed, feed, ""}, {TypeOutcome, `{"feed":1,"kind":"done","hash":"","used":{}}`, ""}, {TypeOutcome, `{"feed":1,"kind":"done","hash":"","used":{}}`, ""}},
		"refused before a feed": {{TypeRefused, `{"feed":1,"tool":"t","failure":{"kind":"k","name":"n","message":"m"}}`, ""}}, "refused without why": {{TypeFeed, feed, ""}, {TypeRefused, `{"feed":1,"tool":"t","failure":null}`, ""}},
		"run of none": {{TypeFeed, feed, ""}, {TypeRun, `{"call":1}`, ""}}, "run of a start": {{TypeFeed, feed, ""}, {TypeStart, call, ""}, {TypeRun, `{"call":1}`, ""}}, "run twice": {{TypeFeed, feed, ""}, {TypeAsk, call, ""}, {TypeRun, `{"call":1}`, ""}, {TypeRun, `{"call":1}`, ""}},
		"gives back": {{TypeBudget, `{"used":{"calls":-1}}`, ""}}, "outcome gives back": {{TypeFeed, feed, ""}, {TypeOutcome, `{"feed":1,"kind":"done","hash":"","used":{"ms":-5}}`, ""}},
		"checkpoint": {{TypeCheckpoint, `{"feed":1,"call":0,"seed":0,"clock":0,"hash":"","spent":{},"tools":{},"discovered":[]}`, ""}}, "second first": {{TypeHeader, `{"key":"k1","session":"` + strings.Repeat("0", 32) + `","settings":{"redaction":true,"strict_eval":false,"catalog":"c","sealed":false},"made":{"release":"","engine":"","platform":""}}`, ""}},
	} {
		k, err := derive(ringOf(t, "k1"), "k1", owner)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Load(data[:ends[0]], optionsOf(t, settings))
		if err != nil {
			t.Fatal(err)
		}
		bad, chain := bytes.Clone(data[:ends[0]]), l.Chain
		for i, r := range c {
			if _, err := Load(bad, optionsOf(t, settings)); err != nil {
				t.Errorf("%s: the control, its first %d records: %v", name, i, err)
			}
			var f []byte
			f, chain = rawFrame(k, chain, rawInner(r.t, r.meta, []byte(r.blob)))
			bad = append(bad, f...)
		}
		start := time.Now()
		if _, err := Load(bad, optionsOf(t, settings)); !errors.Is(err, Odd) {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(start); d > 500*time.Millisecond {
			t.Errorf("%s took %v", name, d)
		}
	}
}

// A length that is authentic and too small, or too large, is no panic; nor is
// meta beyond its record.
func TestOddLengths(t *testing.T) {
	data, ends, _ := sample(t, settings)
	l, err := Load(data[:ends[0]], optionsOf(t, settings))
	if err != nil {
		t.Fatal(err)
	}
	k, err := derive(ringOf(t, "k1"), "k1", owner)
	if err != nil {
		t.Fatal(err)
	}
	for _, inner := range [][]byte{{}, {2}, {2, 0, 0, 0}, {2, 1, 0, 0, 0}, {2, 255, 255, 255, 255}, {2, 255, 255, 255, 127, 'x'}} {
		f, _ := rawFrame(k, l.Chain, inner)
		if _, err := Load(append(bytes.Clone(data[:ends[0]]), f...), optionsOf(t, settings)); !errors.Is(err, Odd) {
			t.Errorf("%v: %v", inner, err)
		}
	}
	blobbed, _ := rawFrame(k, Chain{}, rawInner(TypeHeader, string(data[len(Magic)+sizeHead+sizeInner:ends[0]-sizeMAC]), []byte("x")))
	if _, err := Load(joined(blobbed), optionsOf(t, settings)); !errors.Is(err, Odd) {
		t.Errorf("a first record with a blob: %v", err)
	}
	huge := binary.LittleEndian.AppendUint32(nil, 1<<31)
	check := k.check(l.Chain, huge)
	if _, err := Load(append(bytes.Clone(data[:ends[0]]), append(huge, check[:]...)...), optionsOf(t, settings)); !errors.Is(err, Odd) {
		t.Errorf("a record of 2 GiB: %v", err)
	}
}

// Each of a frame's two macs stands for all that is before it.
func TestMACsChain(t *testing.T) {
	k, err := derive(ringOf(t, "k1"), "k1", owner)
	if err != nil {
		t.Fatal(err)
	}
	a, b, text := Chain{1}, Chain{2}, []byte("text")
	if k.sum(a, text) == k.sum(b, text) {
		t.Error("the mac of a record")
	}
	if k.check(a, text) == k.check(b, text) {
		t.Error("the mac of a length")
	}
}

// TestMany: a million records, and a megabyte of what is none, in time and memory
// that grow with them.
func TestMany(t *testing.T) {
	m := &Memory{}
	w, err := Create(m, beginOf(t, settings))
	if err != nil {
		t.Fatal(err)
	}
	const n = many
	r := Record{TypeBudget, &Budget{Spent{MS: 1}}, nil}
	start := time.Now()
	for range n {
		if _, err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	written := time.Since(start)
	start = time.Now()
	l, err := Load(m.Bytes, optionsOf(t, settings))
	if err != nil || l.Count() != n+1 || l.Spent.MS != n {
		t.Fatalf("%+v, %v", l, err)
	}
	t.Logf("%d records, %d bytes: written in %v, loaded in %v", n, len(m.Bytes), written, time.Since(start))
}

// What is behind the last record is none, or room that holds nothing.
func TestTail(t *testing.T) {
	data, _, _ := sample(t, settings)
	if _, err := Load(append(bytes.Clone(data), bytes.Repeat([]byte{1}, 1<<20)...), optionsOf(t, settings)); !errors.Is(err, Forged) {
		t.Errorf("a megabyte behind it: %v", err)
	}
	if l, err := Load(append(bytes.Clone(data), make([]byte, 4096)...), optionsOf(t, settings)); err != nil || !l.Torn || l.Good != len(data) {
		t.Errorf("zeros behind it: %v", err)
	}
}

// The key of a call is the same however often it is asked for, and another for
// each call, session and owner.
//
// proves part of S-23
func TestIdempotencyKeys(t *testing.T) {
	seen := map[string]string{}
	for i := range 3 {
		for _, who := range []string{"a", "b"} {
			m := &Memory{}
			b := beginOf(t, settings)
			b.Owner = []byte(who)
			w, err := Create(m, b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Append(Record{TypeFeed, &Feed{Feed: 1}, nil}); err != nil {
				t.Fatal(err)
			}
			for n := range 3 {
				c := w.NextCall("t")
				if *w.NextCall("t") != *c {
					t.Error("the same call has two keys")
				}
				what := fmt.Sprint(i, who, n)
				if other := seen[c.Key]; other != "" {
					t.Errorf("%s and %s have the same key", other, what)
				}
				seen[c.Key] = what
				if _, err := w.Append(Record{TypeStart, c, nil}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
