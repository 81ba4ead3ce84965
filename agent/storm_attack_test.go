package agent

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/agent/store"
)

// TestAttackStorm: sessions that are taken, fed, paused, compacted, released, closed
// and deleted by many at one time, on few workers that are given back after a few
// milliseconds, count as if one had used them after the other.
//
// proves part of S-08
func TestAttackStorm(t *testing.T) {
	st := store.NewMemory()
	pools := []*Pool{
		newPool(t, Options{Store: st, Keys: surviveKeys, Residents: 2, Max: 3, Limits: Limits{MaxPauseMS: 10}}),
		newPool(t, Options{Store: st, Keys: surviveKeys, Residents: 1, Warm: 1, Limits: Limits{MaxPauseMS: 10}}),
	}
	tools := catalogOf(t, Tool{Name: "add", Func: func(n int) int { return n + 1 }})
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for round := range 12 {
				k := store.Key{Owner: "o", ID: fmt.Sprint((i + round) % 2)}
				if err := stormOnce(t, pools[(i+round)%2], k, tools, i+round); err != nil {
					t.Errorf("%d, round %d: %v", i, round, err)
				}
			}
		})
	}
	all.Wait()
	for _, p := range pools {
		if p.residents.guests < 0 || p.residents.guests > 2 || p.residents.waits(0) != 0 || len(p.residents.owners) != 0 {
			t.Errorf("%d guests, %d wait, %v", p.residents.guests, p.residents.waits(0), p.residents.owners)
		}
	}
}

// stormOnce takes a session for one thing.
func stormOnce(t *testing.T, p *Pool, k store.Key, tools *Catalog, what int) error {
	if what%11 == 10 {
		if err := p.Delete(t.Context(), k); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return nil
	}
	s, err := p.Acquire(t.Context(), k, AcquireOptions{Tools: tools})
	if err != nil {
		return err
	}
	step := s.Step()
	if step == nil || step.Done {
		want := fmt.Sprint(s.Usage().Feeds + 1)
		if step, err = s.Start(t.Context(), "globalThis.n = await add(globalThis.n ?? 0); n", FeedOptions{RunTools: what%3 > 0}); err != nil {
			return errors.Join(err, s.Close())
		}
		if step.Done && said(step.Result, nil) != want {
			err = fmt.Errorf("%s, not %s", said(step.Result, nil), want)
		}
	} else if _, err = s.Resume(t.Context(), Reply{Call: step.Calls[0].ID, Run: true}); err == nil && what%2 == 0 {
		err = s.Compact(t.Context())
	}
	if what%4 == 0 {
		return errors.Join(err, s.Close())
	}
	return errors.Join(err, s.Release())
}

// TestAttackHalfDropped: a crash between the records of calls that a feed did not wait
// for, and its outcome, loses nothing: the session loads, the feed ends as it ended or
// is void, and no such call is handed over again.
//
// proves part of S-23
func TestAttackHalfDropped(t *testing.T) {
	made := newPool(t, Options{Keys: surviveKeys, Warm: 1, Limits: Limits{FeedMS: 200}})
	k := store.Key{Owner: "o", ID: "a"}
	for name, c := range map[string]struct{ code, outcome, after string }{
		"done": {"var n = 1; ask(); ask(); await ask(); n = 2; n", "2", "2"},
		"void": {"globalThis.m = 1; ask(); ask(); await ask(); for (;;) ;", "error: js: timeout", `"undefined"`},
	} {
		for _, behind := range []bool{false, true} {
			for at := int64(7); at <= 9; at++ { // header, feed, three calls, an answer: then two that were dropped, and the outcome
				f := &faulty{Store: store.NewMemory(), at: at, behind: behind}
				p := overStore(made, f)
				var ran int
				o := AcquireOptions{Tools: catalogOf(t, Tool{Name: "ask", Func: func() { ran++ }})}
				s := acquire(t, p, k, o)
				step, err := s.Start(t.Context(), c.code, FeedOptions{})
				if err != nil {
					t.Fatal(err)
				}
				step, err = s.Resume(t.Context(), Reply{Call: step.Calls[2].ID, Value: 1})
				if !errors.Is(err, errFlaky) {
					t.Fatalf("%s, write %d: %v %v", name, at, step, err)
				}
				_ = s.Release()
				if s, err = p.Acquire(t.Context(), k, o); err != nil {
					t.Errorf("%s, write %d, behind %v: %v", name, at, behind, err)
					continue
				}
				if step := s.Step(); step != nil && !step.Done {
					_, err = s.Resume(t.Context(), Reply{Call: step.Calls[0].ID, Value: 1})
					t.Logf("%s, write %d, behind %v: waits for %d, %v", name, at, behind, len(step.Calls), err)
				}
				if got := fed(s, map[string]string{"done": "n", "void": "typeof m"}[name]); got != c.after {
					t.Errorf("%s, write %d, behind %v: %s", name, at, behind, got)
				}
				_ = s.Release()
				p.residents.close()
			}
		}
	}
}

// TestAttackHalfVoid: a feed that was being made void when its program ended is void
// when it is loaded, though its guest could go on.
//
// proves part of S-05
func TestAttackHalfVoid(t *testing.T) {
	p := overStore(newPool(t, Options{Keys: surviveKeys}), &faulty{Store: store.NewMemory(), at: 7})
	defer p.residents.close()
	k := store.Key{Owner: "o", ID: "a"}
	o := AcquireOptions{Tools: catalogOf(t, Tool{Name: "ask", Func: func() {}, Approve: true}, Tool{Name: "boom", Func: func() { panic("boom") }})}
	s := acquire(t, p, k, o)
	if _, err := s.Start(t.Context(), "globalThis.m = 1; ask(); try { await boom() } catch {} await ask(); 5", FeedOptions{RunTools: true}); !errors.Is(err, errFlaky) {
		t.Fatal(err)
	}
	_ = s.Release()
	s = acquire(t, p, k, o)
	if step := s.Step(); step == nil || !step.Done || s.Usage().Calls != 2 {
		t.Errorf("%+v, %v", step, s.Usage())
	}
	if got := fed(s, "typeof m"); got != `"undefined"` {
		t.Error(got)
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
}
