package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

func acquire(t testing.TB, p *Pool, k store.Key, o AcquireOptions) *Session {
	t.Helper()
	s, err := p.Acquire(context.Background(), k, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stores are one of each kind that needs no server.
func stores(t testing.TB) map[string]func() store.Store {
	dir := filepath.Join(t.TempDir(), "sessions")
	return map[string]func() store.Store{
		"memory": store.NewMemory,
		"file": func() store.Store {
			st, err := store.NewFile(dir, store.FileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
	}
}

// TestNamed: a session of a store goes on where it was released, with its guest or
// by a replay, for its owner and id alone.
func TestNamed(t *testing.T) {
	for name, make := range stores(t) {
		t.Run(name, func(t *testing.T) {
			st := make()
			t.Cleanup(func() { _ = st.Close() })
			testNamed(t, st)
		})
	}
}

func testNamed(t *testing.T, st store.Store) {
	p := newPool(t, Options{Store: st, Keys: rootKey(1), Residents: 2, Warm: 1})
	o := AcquireOptions{Tools: catalogOf(t, Tool{Name: "ask", Func: func(n int) int { return n + 1 }})}
	k := store.Key{Owner: "o", ID: "a"}
	if _, err := p.Acquire(t.Context(), k, AcquireOptions{MustExist: true}); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	s := acquire(t, p, k, o)
	if got := fed(s, "let n = await ask(1); n"); got != "2" {
		t.Fatal(got)
	}
	if _, err := p.Acquire(t.Context(), k, AcquireOptions{Tools: o.Tools, NoWait: true}); !errors.Is(err, store.ErrBusy) {
		t.Errorf("while it is out: %v", err)
	}
	guest := s.runtimeOf()
	if err := errors.Join(s.Release(), s.Release()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Feed(t.Context(), "1", FeedOptions{}); !errors.Is(err, SessionClosed) {
		t.Error(err)
	}
	if s = acquire(t, p, k, o); s.runtimeOf() != guest {
		t.Error("the guest was not kept")
	}
	step, err := s.Start(t.Context(), "n = await ask(n); n", FeedOptions{})
	if err != nil || len(step.Calls) != 1 {
		t.Fatal(err)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := newPool(t, Options{Store: st, Keys: rootKey(2)}).Acquire(t.Context(), k, o); !errors.Is(err, SessionJournal) {
		t.Errorf("under another key: %v", err)
	}
	p.residents.forget(k)
	if s = acquire(t, p, k, o); s.runtimeOf() == guest || s.Step() == nil { // by a replay
		t.Fatal("no replay, or not paused")
	}
	if step, err = s.Resume(t.Context(), Reply{Call: s.Step().Calls[0].ID, Run: true}); err != nil || said(step.Result, nil) != "3" {
		t.Errorf("%v %v", step, err)
	}
	again := acquire(t, p, store.Key{Owner: "o", ID: "b"}, o)
	if got := fed(again, "typeof n"); got != `"undefined"` {
		t.Error(got)
	}
	if all, err := p.Sessions(t.Context(), "o"); err != nil || len(all) != 2 {
		t.Errorf("%v %v", all, err)
	}
	if err := errors.Join(again.Release(), s.Close(), p.Delete(t.Context(), k)); err != nil {
		t.Error(err)
	}
	if got := fed(acquire(t, p, k, o), "typeof n"); got != `"undefined"` {
		t.Errorf("deleted, and %s", got)
	}
}

// TestTwoPools: two pools with one store have the same session in turn, and never
// at the same time; what one spends the other has spent.
//
// proves part of S-04
func TestTwoPools(t *testing.T) {
	st := store.NewMemory()
	keys := &Keys{Current: "k", Roots: map[string][]byte{"k": make([]byte, 32)}}
	o := AcquireOptions{Tools: catalogOf(t, Tool{Name: "count", MaxCalls: 20, Func: func() {}})}
	k := store.Key{Owner: "o", ID: "a"}
	pools := []*Pool{newPool(t, Options{Store: st, Keys: keys, Residents: 1}), newPool(t, Options{Store: st, Keys: keys, Residents: 1})}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			s, err := pools[i%2].Acquire(context.Background(), k, o)
			if err != nil {
				t.Error(err)
				return
			}
			if got := fed(s, "globalThis.n = (globalThis.n ?? 0) + 1; try { await count(); await count() } catch {}; n"); got == "" {
				t.Error(got)
			}
			if err := s.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := acquire(t, pools[0], k, o)
	if u := s.Usage(); fed(s, "n") != "12" || u.Calls != 20 || u.Feeds != 12 {
		t.Errorf("%+v", s.Usage())
	}
}

// TestFenced: whoever has lost a session starts no tool and changes nothing.
//
// proves part of H-60
func TestFenced(t *testing.T) {
	st := store.NewMemory()
	ran := 0
	o := AcquireOptions{Tools: catalogOf(t, Tool{Name: "once", Func: func() { ran++ }})}
	p := newPool(t, Options{Store: st})
	k := store.Key{Owner: "o", ID: "a"}
	s := acquire(t, p, k, o)
	step, err := s.Start(t.Context(), "await once()", FeedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := st.Acquire(t.Context(), k, store.AcquireOptions{Takeover: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resume(t.Context(), Reply{Call: step.Calls[0].ID, Run: true}); !errors.Is(err, SessionLost) || ran != 0 {
		t.Errorf("%v, %d ran", err, ran)
	}
	if _, err := s.Feed(t.Context(), "1", FeedOptions{}); !errors.Is(err, SessionLost) {
		t.Error(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	s = acquire(t, p, k, o)
	if _, err = s.Resume(t.Context(), Reply{Call: s.Step().Calls[0].ID, Run: true}); err != nil || ran != 1 {
		t.Errorf("%v, %d ran", err, ran)
	}
}

// TestResidents: guests of released sessions are kept up to their number and time,
// and go first when a worker is needed.
func TestResidents(t *testing.T) {
	st := store.NewMemory()
	p := newPool(t, Options{Store: st, Residents: 2, Max: 3, Limits: Limits{PerOwner: 3}})
	key := func(i int) store.Key { return store.Key{Owner: "o", ID: fmt.Sprint(i)} }
	var guests []any
	for i := range 4 {
		s := acquire(t, p, key(i), AcquireOptions{})
		guests = append(guests, s.runtimeOf())
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if s := acquire(t, p, key(0), AcquireOptions{}); s.runtimeOf() == guests[0] {
		t.Error("three guests were kept")
	}
	if s := acquire(t, p, key(3), AcquireOptions{}); s.runtimeOf() != guests[3] {
		t.Error("the last guest was not kept")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := p.Acquire(ctx, key(4), AcquireOptions{}); err != nil {
		t.Errorf("with all workers out and one of them resting: %v", err)
	}
	if _, err := p.Acquire(ctx, key(5), AcquireOptions{}); !errors.Is(err, SessionBudget) {
		t.Errorf("the owner's fourth: %v", err)
	}
}

// TestExpired: a session past its time is begun anew.
func TestExpired(t *testing.T) {
	st := store.NewMemory()
	p := newPool(t, Options{Store: st, Limits: Limits{TTLMS: 20}})
	k := store.Key{Owner: "o", ID: "a"}
	s := acquire(t, p, k, AcquireOptions{})
	fed(s, "let n = 1")
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	<-time.After(30 * time.Millisecond)
	if got := fed(acquire(t, p, k, AcquireOptions{}), "typeof n"); got != `"undefined"` {
		t.Error(got)
	}
}

// TestReplayIsAfforded: a session that has used itself up is not replayed for
// nothing, however often it is taken.
func TestReplayIsAfforded(t *testing.T) {
	st := store.NewMemory()
	p := newPool(t, Options{Store: st, Limits: Limits{Feeds: 2}})
	k := store.Key{Owner: "o", ID: "a"}
	s := acquire(t, p, k, AcquireOptions{})
	fed(s, "var n = 1")
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	s = acquire(t, p, k, AcquireOptions{})
	if s.runtimeOf() != nil {
		t.Error("it was replayed before anybody asked for it")
	}
	if got := fed(s, "n"); got != "1" {
		t.Error(got)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	s = acquire(t, p, k, AcquireOptions{})
	if _, err := s.Feed(t.Context(), "n", FeedOptions{}); !errors.Is(err, SessionBudget) || s.runtimeOf() != nil {
		t.Errorf("%v; replayed: %v", err, s.runtimeOf() != nil)
	}
}

func rootKey(b byte) *Keys {
	return &Keys{Current: "k", Roots: map[string][]byte{"k": bytes.Repeat([]byte{b}, 32)}}
}

// TestDurableStore: a store that outlives the program needs keys, and its journals
// are sealed unless somebody says otherwise.
//
// proves part of H-63
func TestDurableStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	st, err := store.NewFile(dir, store.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	for field, o := range map[string]Options{"keys": {Store: st}, "unsealed": {Store: st, Keys: rootKey(1), Seal: true, Unsealed: true}} {
		var bad *api.FieldError
		if _, err := Open(t.Context(), o); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	const secret = "a secret of the guest"
	for _, unsealed := range []bool{false, true} {
		s := acquire(t, newPool(t, Options{Store: st, Keys: rootKey(1), Unsealed: unsealed}), store.Key{Owner: "o", ID: fmt.Sprint(unsealed)}, AcquireOptions{})
		fed(s, "'"+secret+"'")
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
		found := false
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			found = found || bytes.Contains(data, []byte(secret))
			return err
		})
		if err != nil || found != unsealed {
			t.Errorf("unsealed %v: found %v, %v", unsealed, found, err)
		}
	}
}

// runtimeOf is the guest, nil where it was given up: to see whether it is the one that
// was there before.
func (s *Session) runtimeOf() *js.Runtime { return s.rt }
