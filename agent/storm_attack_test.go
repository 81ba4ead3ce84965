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
