package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/js"
)

// TestSurviveWave: tools that answer much at one time, to each of which the guest says
// as much, hold nobody up.
func TestSurviveWave(t *testing.T) {
	p := newPool(t, Options{Limits: Limits{FeedMS: 60_000, JournalBytes: 256 << 20, MemoryBytes: 1 << 30}})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "echo", Func: func(v js.Value) js.Value { return v }})})
	code := "const n = await Promise.all(Array.from({length: 6}, async () => { const a = await echo('x'.repeat(1 << 20)); console.log('y'.repeat(1 << 16)); return (await echo(a)).length })); n"
	if got := fed(s, code); got != "["+strings.Repeat("1048576,", 5)+"1048576]" {
		t.Error(got)
	}
	if l := reloaded(t, s, p); l.Usage().Calls != 12 {
		t.Errorf("%+v", l.Usage())
	}
}

// TestSurviveBudget: a budget that was spent is spent, whatever is tried: overlapping
// calls at its end, answers and arguments that have no room, a journal that is full,
// a session that is loaded, released with an error, or taken by another pool. Long
// because of the steps that follow from each other.
//
// proves S-04
func TestSurviveBudget(t *testing.T) {
	st := &flaky{Store: store.NewMemory()}
	var ran atomic.Int64
	tools := catalogOf(t, Tool{Name: "count", MaxCalls: 10, Func: func() int64 { return ran.Add(1) }}, Tool{Name: "big", Func: func(n int, _ ...string) string { return strings.Repeat("b", n) }})
	o := AcquireOptions{Tools: tools}
	limits := Limits{Calls: 40, JournalBytes: 128 << 10, InFlight: 8}
	pools := []*Pool{newPool(t, Options{Store: st, Keys: surviveKeys, Limits: limits}), newPool(t, Options{Store: st, Keys: surviveKeys, Limits: limits, Residents: 1})}
	k := store.Key{Owner: "o", ID: "a"}
	const overlap = "const done = (await Promise.allSettled(Array.from({length: 6}, () => count()))).filter(r => r.status === 'fulfilled').length; return done"
	feed := "return await (async () => {" + overlap + "})()"
	spent := int64(0)
	for i, want := range []string{"6", "4", "0"} {
		s := acquire(t, pools[i%2], k, o)
		if got := fed(s, feed); got != want {
			t.Errorf("%d: %s", i, got)
		}
		st.release.Store(i == 1)
		if err := s.Release(); (err != nil) != (i == 1) {
			t.Error(err)
		}
		st.release.Store(false)
	}
	s := acquire(t, pools[1], k, o)
	if ran.Load() != 10 || s.Usage().Calls != 10 {
		t.Fatalf("%d ran, %+v", ran.Load(), s.Usage())
	}
	// A journal that is full: what has no room is refused and charged as it says, and nothing is forgotten.
	got := fed(s, "return await (async () => { const out = []; for (const f of [() => big(60000), () => big(60000), () => big(60000), () => big(1, 'x'.repeat(70000)), () => big(10)]) try { out.push((await f()).length) } catch (e) { out.push(e.message) } return out })()")
	// The fourth is refused, and there is no room for that on record either: the feed is void.
	if got != "error: agent: session_budget: the journal has no room for a refused call" {
		t.Errorf("%s", got)
	}
	if spent = s.Usage().Calls; spent != 13 {
		t.Errorf("%+v", s.Usage())
	}
	for i := 0; !strings.Contains(got, "limits.journal_bytes"); i++ {
		if got = fed(s, "'"+strings.Repeat("y", 8_000)+"'.length"); i > 100 {
			t.Fatal("a journal without end")
		}
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		s := acquire(t, pools[i%2], k, o)
		if u := s.Usage(); u.Calls != spent || u.Journal > limits.JournalBytes {
			t.Errorf("%+v", u)
		}
		if got := fed(s, "'"+strings.Repeat("y", 8_000)+"'.length"); !strings.Contains(got, "limits.journal_bytes") {
			t.Errorf("a full journal takes more: %s", got)
		}
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
	}
	s = acquire(t, pools[0], k, o)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fed(s, feed); got != "0" || s.Usage().Calls != spent || ran.Load() != 10 {
		t.Errorf("compacted: %s, %+v", got, s.Usage())
	}
	if l := reloaded(t, s, pools[1]); l.Usage().Calls != spent || fed(l, feed) != "0" {
		t.Errorf("compacted and loaded: %+v", l.Usage())
	}
}

// mixed does one thing or another with sessions of a pool, and says what went wrong.
// Long because of its ways.
func mixed(p *Pool, catalog *Catalog, r *rand.Rand, ran *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var s *Session
	var err error
	if r.IntN(2) == 0 {
		s, err = p.Checkout(ctx, SessionOptions{Tools: catalog})
	} else {
		s, err = p.Acquire(ctx, store.Key{Owner: "o", ID: fmt.Sprint(r.IntN(8))}, AcquireOptions{Tools: catalog})
	}
	if err != nil {
		return err
	}
	defer s.Release()
	if err := settleStep(ctx, s); err != nil {
		return err
	}
	for range 3 {
		before := s.Usage().Calls
		switch r.IntN(6) {
		case 0:
			_, err = s.Feed(ctx, "globalThis.n = (globalThis.n ?? 0) + await one(); n", FeedOptions{})
		case 1:
			_, err = s.Feed(ctx, "throw new Error('mine')", FeedOptions{})
			if errors.Is(err, js.Thrown) {
				err = nil
			}
		case 2:
			_, err = s.Feed(ctx, "await boom()", FeedOptions{})
			if errors.Is(err, SessionTool) {
				err = nil
			}
		case 3:
			quick, stop := context.WithTimeout(ctx, time.Duration(r.IntN(5))*time.Millisecond)
			_, err = s.Feed(quick, "await Promise.all([one(), one(), one()])", FeedOptions{})
			stop()
			if errors.Is(err, SessionCanceled) || errors.Is(err, js.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				err = nil
			}
		case 4:
			var step *Step
			if step, err = s.Start(ctx, "await one() + await one()", FeedOptions{}); err == nil {
				err = settleStep(ctx, s)
			}
			_ = step
		case 5:
			var d *Dump
			var l *Session
			if d, err = s.Dump(); err == nil {
				if l, err = p.Load(ctx, d.Journal, LoadOptions{SessionOptions: SessionOptions{Owner: s.owner, Tools: catalog}, Head: d.Head}); err == nil {
					if l.Usage().Calls != s.Usage().Calls {
						err = fmt.Errorf("loaded %v, not %v", l.Usage(), s.Usage())
					}
					err = errors.Join(err, l.Close())
				}
			}
		}
		if err != nil {
			return err
		}
		if s.Usage().Calls < before {
			return errors.New("a budget came back")
		}
	}
	return nil
}

// surviveMixed lets goroutines do mixed work on one pool.
func surviveMixed(t *testing.T, goroutines, each int) {
	var ran atomic.Int64
	p := newPool(t, Options{Store: store.NewMemory(), Residents: 2, Max: 16, Limits: Limits{PerOwner: 1000}})
	catalog := catalogOf(t, Tool{Name: "one", Func: func() int { ran.Add(1); return 1 }}, Tool{Name: "boom", Func: func() { panic("boom") }})
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for range each {
				if err := mixed(p, catalog, r, &ran); err != nil {
					t.Errorf("goroutine %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	for range 2 {
		p.residents.evictOne()
	}
	if out := p.js.Stats().Out; out != 0 || len(p.residents.owners) != 0 || len(p.sessions) != 0 {
		t.Errorf("%d workers are out, owners %v, %d sessions", out, p.residents.owners, len(p.sessions))
	}
	if ran.Load() == 0 {
		t.Error("no tool ran")
	}
}

// TestSurviveMixed: 64 goroutines on one pool, some of them after the same sessions.
func TestSurviveMixed(t *testing.T) { surviveMixed(t, 64, 1) }

// TestSurviveHundred: a hundred sessions side by side, each with calls that wait for
// those of all others.
func TestSurviveHundred(t *testing.T) {
	const n = 100
	var meet sync.WaitGroup
	meet.Add(n)
	p := newPool(t, Options{Limits: Limits{MemoryBytes: 128 << 20}})
	catalog := catalogOf(t, Tool{Name: "meet", Func: func(i int) int { meet.Done(); meet.Wait(); return i }, TimeoutMS: 120_000})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s, err := p.Checkout(context.Background(), SessionOptions{Tools: catalog})
			if err != nil {
				t.Error(err)
				meet.Done()
				return
			}
			if got := fed(s, fmt.Sprintf("let mine = await meet(%d); mine", i)); got != fmt.Sprint(i) {
				t.Errorf("%d: %s", i, got)
			}
		})
	}
	wg.Wait()
	if out := p.js.Stats().Out; out != n {
		t.Errorf("%d workers are out", out)
	}
}
