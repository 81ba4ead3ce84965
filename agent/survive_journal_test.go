package agent

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/journal"
)

// refusedEarly tells whether a load is refused before it wants a worker, of which
// this pool has none to give.
func refusedEarly(p *Pool, data []byte, o LoadOptions) (bool, error) {
	_, err := p.Load(ended(), data, o)
	return errors.Is(err, SessionJournal), err
}

// small is a session with a journal of about 4 KiB, its pool's only worker.
func small(t *testing.T, o Options) (*Session, *atomic.Int64) {
	var ran atomic.Int64
	o.Max = 1
	s := checkout(t, newPool(t, o), SessionOptions{Owner: []byte("me"), Tools: catalogOf(t, counting("count", &ran))})
	for len(dump(t, s).Journal) < 3400 {
		if got := fed(s, "globalThis.all = [...(globalThis.all ?? []), await count(), 'é漢😀']; all.length"); got == "" {
			t.Fatal(got)
		}
	}
	return s, &ran
}

// every is how many bytes it goes on by: under a seal the same code
// looks, and the race detector makes each load dear.
func every(seal bool) int {
	if seal {
		return 13
	}
	return bitStep
}

// TestSurviveBits: of a journal of 4 KiB each bit of each byte is turned, and each
// length is cut. Whatever the change, it is refused before a worker is wanted, but
// for what is behind the last whole record; with a head or a count, cuts are refused
// too, except at the committed head or one record beyond. The control: as it is, it
// wants a worker, which is out.
//
// proves S-01
func TestSurviveBits(t *testing.T) {
	for _, seal := range []bool{false, true} {
		s, ran := small(t, Options{Seal: seal})
		p, d, before := s.pool, dump(t, s), ran.Load()
		so := SessionOptions{Owner: s.owner, Tools: s.catalog}
		with := LoadOptions{SessionOptions: so, Head: d.Head, Count: &d.Count}
		for _, o := range []LoadOptions{with, {SessionOptions: so}} {
			if early, err := refusedEarly(p, d.Journal, o); early || err == nil {
				t.Fatalf("the control: %v", err)
			}
		}
		bad := bytes.Clone(d.Journal)
		for i := 0; i < len(bad); i += every(seal) {
			for bit := range 8 {
				bad[i] ^= 1 << bit
				if early, err := refusedEarly(p, bad, LoadOptions{SessionOptions: so}); !early {
					t.Fatalf("bit %d of byte %d: %v", bit, i, err)
				}
				bad[i] ^= 1 << bit
			}
		}
		ends := recordEnds(t, s, d.Journal)
		for n := 0; n < len(d.Journal); n += bitStep {
			if early, _ := refusedEarly(p, d.Journal[:n], with); !early {
				t.Errorf("cut at %d it loads with its head", n)
			}
			// Without one, what is torn off is not seen: the same journal, a while ago.
			if early, err := refusedEarly(p, d.Journal[:n], LoadOptions{SessionOptions: so}); early != (n < ends[0]) {
				t.Errorf("cut at %d: %v", n, err)
			}
		}
		if ran.Load() != before || p.js.Stats().Out != 1 {
			t.Errorf("%d calls were %d, %d workers are out", ran.Load(), before, p.js.Stats().Out)
		}
	}
}

// recordEnds are where the records of a journal end: where one that is cut there is
// not torn.
func recordEnds(t *testing.T, s *Session, data []byte) (ends []int) {
	t.Helper()
	for n := range len(data) + 1 {
		l, err := journal.Load(data[:n], journal.LoadOptions{Keys: s.pool.ring, Owner: s.owner, Settings: s.pool.settings(s.catalog)})
		if err == nil && !l.Torn {
			ends = append(ends, n)
		}
	}
	return ends
}

// TestSurviveHeads: with a head or a count a journal loads there and one record
// beyond, which is what a crash leaves, and nowhere else.
//
// proves part of S-01 S-02 H-59
func TestSurviveHeads(t *testing.T) {
	s, _ := small(t, Options{})
	first := dump(t, s)
	fed(s, "1") // two records: the feed and its outcome
	last := dump(t, s)
	ends := recordEnds(t, s, last.Journal)
	so := SessionOptions{Owner: s.owner, Tools: s.catalog}
	for name, o := range map[string]LoadOptions{"head": {SessionOptions: so, Head: first.Head}, "count": {SessionOptions: so, Count: &first.Count}} {
		for i, end := range ends {
			n := uint64(i) + 1
			early, err := refusedEarly(s.pool, last.Journal[:end], o)
			if allowed := n == first.Count || n == first.Count+1; early == allowed {
				t.Errorf("%s at %d, %d records: %v", name, first.Count, n, err)
			}
		}
	}
	bad := bytes.Clone(first.Head)
	for i := range bad {
		for bit := range 8 {
			bad[i] ^= 1 << bit
			if early, err := refusedEarly(s.pool, first.Journal, LoadOptions{SessionOptions: so, Head: bad}); !early {
				t.Fatalf("bit %d of byte %d of the head: %v", bit, i, err)
			}
			bad[i] ^= 1 << bit
		}
	}
}

// TestSurviveSettings: another owner, key, catalog, or setting, another release,
// engine or platform under Strict, records of another session between, twice,
// left out or in another order: refused before a worker is wanted.
//
// proves part of S-01
func TestSurviveSettings(t *testing.T) {
	s, _ := small(t, Options{Keys: surviveKeys})
	d := dump(t, s)
	so := SessionOptions{Owner: s.owner, Tools: s.catalog}
	early := func(what string, want bool, p *Pool, data []byte, o LoadOptions) {
		t.Helper()
		if got, err := refusedEarly(p, data, o); got != want || err == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	early("the control", false, s.pool, d.Journal, LoadOptions{SessionOptions: so, Strict: true})
	early("another owner", true, s.pool, d.Journal, LoadOptions{SessionOptions: SessionOptions{Owner: []byte("you"), Tools: s.catalog}})
	early("nobody's", true, s.pool, d.Journal, LoadOptions{SessionOptions: SessionOptions{Tools: s.catalog}})
	early("no tools", true, s.pool, d.Journal, LoadOptions{SessionOptions: SessionOptions{Owner: s.owner}})
	changed := catalogOf(t, Tool{Name: "count", Description: "another", Func: func() int64 { return 0 }})
	early("a changed tool", true, s.pool, d.Journal, LoadOptions{SessionOptions: SessionOptions{Owner: s.owner, Tools: changed}})
	root := bytes.Repeat([]byte{1}, 32)
	for what, c := range map[string]struct {
		o    Options
		want bool
	}{
		"same":            {Options{Keys: surviveKeys}, false},
		"older key":       {Options{Keys: &Keys{"n", map[string][]byte{"n": root, "k": make([]byte, 32)}}}, false},
		"retired key":     {Options{Keys: &Keys{"n", map[string][]byte{"n": root}}}, true},
		"another key":     {Options{Keys: &Keys{"k", map[string][]byte{"k": root}}}, true},
		"a random key":    {Options{}, true},
		"shown errors":    {Options{Keys: surviveKeys, ShowErrors: true}, true},
		"strict eval":     {Options{Keys: surviveKeys, StrictEval: true}, true},
		"modules":         {Options{Keys: surviveKeys, Modules: map[string]string{"m": "export default 1"}}, true},
		"sealed":          {Options{Keys: surviveKeys, Seal: true}, true},
		"larger, smaller": {Options{Keys: surviveKeys, Limits: Limits{Calls: 1, FeedMS: 1}}, false},
	} {
		p := newPool(t, c.o)
		early(what, c.want, p, d.Journal, LoadOptions{SessionOptions: so})
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, by := range []journal.Made{{Release: "0", Engine: s.pool.made.engine, Platform: s.pool.made.platform}, {Release: form, Engine: "other", Platform: s.pool.made.platform}, {Release: form, Engine: s.pool.made.engine, Platform: "plan9/mips"}} {
		foreign := signedBy(t, s, by, records(t, s)...)
		early("strict", true, s.pool, foreign, LoadOptions{SessionOptions: so, Strict: true})
		early("not strict", false, s.pool, foreign, LoadOptions{SessionOptions: so})
	}
	ends := recordEnds(t, s, d.Journal)
	other := signed(t, s, records(t, s)...)
	cut := func(data []byte, i int) []byte { return data[ends[i]:ends[i+1]] }
	early("spliced", true, s.pool, slices.Concat(d.Journal[:ends[2]], other[len(other)-len(d.Journal)+ends[2]:]), LoadOptions{SessionOptions: so})
	early("twice", true, s.pool, slices.Concat(d.Journal[:ends[2]], cut(d.Journal, 1), d.Journal[ends[2]:]), LoadOptions{SessionOptions: so})
	early("left out", true, s.pool, slices.Concat(d.Journal[:ends[2]], d.Journal[ends[3]:]), LoadOptions{SessionOptions: so})
	early("turned", true, s.pool, slices.Concat(d.Journal[:ends[1]], cut(d.Journal, 2), cut(d.Journal, 1), d.Journal[ends[3]:]), LoadOptions{SessionOptions: so})
	early("empty", true, s.pool, nil, LoadOptions{SessionOptions: so})
	early("twice whole", true, s.pool, slices.Concat(d.Journal, d.Journal), LoadOptions{SessionOptions: so})
}
