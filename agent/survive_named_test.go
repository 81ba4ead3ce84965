package agent

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/api"
)

// TestSurviveReleased: a session that ended by its store is still to be given back,
// and then nothing of it is left: no worker, no lease, no place of its owner.
//
// proves part of S-08
func TestSurviveReleased(t *testing.T) {
	for name, give := range map[string]func(*Session) error{"close": (*Session).Close, "release": (*Session).Release} {
		st := &flaky{Store: store.NewMemory()}
		p := newPool(t, Options{Store: st, Keys: rootKey(1), Limits: Limits{PerOwner: 1}})
		k := store.Key{Owner: "o", ID: "a"}
		s := acquire(t, p, k, AcquireOptions{})
		if got := fed(s, "let n = 1; n"); got != "1" {
			t.Fatal(got)
		}
		st.write.Store(true)
		if _, err := s.Feed(t.Context(), "2", FeedOptions{}); !errors.Is(err, SessionJournal) || !errors.Is(err, errFlaky) {
			t.Errorf("%s: %v", name, err)
		}
		st.write.Store(false)
		if err := errors.Join(give(s), give(s)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if out := p.js.Stats().Out; out != 0 || st.released.Load() != 1 {
			t.Errorf("%s: %d workers are out, %d leases were released", name, out, st.released.Load())
		}
		if s, err := p.Acquire(t.Context(), k, AcquireOptions{NoWait: true}); err != nil || fed(s, "n") != "1" {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

// TestSurviveRefusedSession: what could not be had leaves nothing in the store, and
// a release that the store fails gives the session up all the same, once.
//
// proves S-08
func TestSurviveRefusedSession(t *testing.T) {
	st := &flaky{Store: store.NewMemory()}
	p := newPool(t, Options{Store: st, Keys: rootKey(1), Max: 1})
	other := checkout(t, p, SessionOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	k := store.Key{Owner: "o", ID: "a"}
	if _, err := p.Acquire(ctx, k, AcquireOptions{}); err == nil || ctx.Err() == nil {
		t.Fatalf("with all workers out: %v", err)
	}
	if all, err := p.Sessions(t.Context(), "o"); err != nil || len(all) != 0 {
		t.Errorf("left behind: %v %v", all, err)
	}
	if _, err := p.Acquire(t.Context(), k, AcquireOptions{MustExist: true, NoWait: true}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("afterwards: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	s := acquire(t, p, k, AcquireOptions{})
	fed(s, "let n = 1")
	st.release.Store(true)
	if err := s.Release(); !errors.Is(err, errFlaky) {
		t.Errorf("a release that fails: %v", err)
	}
	if err := s.Release(); err != nil {
		t.Errorf("and the second: %v", err)
	}
	st.release.Store(false)
	s = acquire(t, p, k, AcquireOptions{NoWait: true})
	if got := fed(s, "n"); got != "undefined" && got != "1" {
		t.Error(got)
	}
}

// TestSurviveIDs: what Acquire takes as a key, Release takes too; what is no key is
// refused by the name of its part, and what an owner may be is bounded.
//
// proves S-09
func TestSurviveIDs(t *testing.T) {
	p := newPool(t, Options{Store: store.NewMemory(), Residents: 1})
	long := strings.Repeat("é", store.MaxName/2)
	for _, name := range []string{"a", "a/b", "..", ".", "*", ">", "a b", "a.b", "\n", "\x1b[2J", "é漢😀", "\u202ex", "%00", "-", long, "\uffff", " "} {
		for _, k := range []store.Key{{Owner: name, ID: "i"}, {Owner: "o", ID: name}, {Owner: name, ID: name}} {
			s := acquire(t, p, k, AcquireOptions{NoWait: true})
			if err := s.Release(); err != nil {
				t.Errorf("%q: %v", k, err)
			}
			if err := p.Delete(t.Context(), k); err != nil {
				t.Errorf("%q: %v", k, err)
			}
		}
	}
	for _, name := range []string{"", "\xff", "a\xc3", "a\x00b", "\xed\xa0\x80", long + "x"} {
		for field, k := range map[string]store.Key{"owner": {Owner: name, ID: "i"}, "id": {Owner: "o", ID: name}} {
			for _, try := range []func() error{
				func() error { _, err := p.Acquire(t.Context(), k, AcquireOptions{}); return err },
				func() error { return p.Delete(t.Context(), k) },
			} {
				var bad *api.FieldError
				if err := try(); !errors.As(err, &bad) || bad.Field != field {
					t.Errorf("%q: %v", k, err)
				}
			}
		}
	}
	// Two keys whose parts run together are two sessions.
	one, two := acquire(t, p, store.Key{Owner: "ab", ID: "c"}, AcquireOptions{}), acquire(t, p, store.Key{Owner: "a", ID: "bc"}, AcquireOptions{})
	fed(one, "let x = 1")
	if got := fed(two, "typeof x"); got != `"undefined"` {
		t.Error(got)
	}
	if _, err := p.Checkout(t.Context(), SessionOptions{Owner: make([]byte, 4097)}); err == nil {
		t.Error("an owner of 4,097 bytes is taken")
	}
	s := checkout(t, p, SessionOptions{Owner: make([]byte, 4096)})
	if l := reloaded(t, s, p); l.ID() != s.ID() {
		t.Error("another id")
	}
}

// TestSurviveRollback: a pool remembers how far each session was, also where its
// worker is gone, and refuses an older one each time that it is asked. The control:
// a pool that has not seen the session takes it.
//
// proves S-02
func TestSurviveRollback(t *testing.T) {
	st := &rewound{Store: store.NewMemory()}
	var ran atomic.Int64
	o := AcquireOptions{Tools: catalogOf(t, counting("count", &ran))}
	p := newPool(t, Options{Store: st, Keys: surviveKeys})
	k := store.Key{Owner: "o", ID: "a"}
	s := acquire(t, p, k, o)
	fed(s, "await count()")
	old, err := s.keep.lease.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fed(s, "await count()")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	st.kept = &old
	for i := range 3 {
		if _, err := p.Acquire(t.Context(), k, o); !errors.Is(err, SessionJournal) {
			t.Errorf("older, time %d: %v", i, err)
		}
	}
	n := uint64(10)
	other := newPool(t, Options{Store: st, Keys: surviveKeys})
	if _, err := other.Acquire(t.Context(), k, AcquireOptions{Tools: o.Tools, Count: &n}); !errors.Is(err, SessionJournal) {
		t.Errorf("with a counter of the caller's: %v", err)
	}
	control, err := other.Acquire(t.Context(), k, o)
	if err != nil {
		t.Fatalf("the control: %v", err)
	}
	if err := control.Close(); err != nil {
		t.Fatal(err)
	}
	st.kept = nil
	if s, err = p.Acquire(t.Context(), k, o); err != nil || s.Usage().Calls != 2 {
		t.Fatalf("the newest: %v", err)
	}
	// Another pool has deleted it and begun anew: that is another session.
	if err := errors.Join(s.Release(), other.Delete(t.Context(), k)); err != nil {
		t.Fatal(err)
	}
	anew := acquire(t, other, k, o)
	fed(anew, "1")
	if err := anew.Release(); err != nil {
		t.Fatal(err)
	}
	if s, err = p.Acquire(t.Context(), k, o); err != nil || s.Usage().Calls != 0 {
		t.Errorf("begun anew elsewhere: %v", err)
	}
}

// TestSurviveResident: a guest that was kept and is out again belongs to who has it:
// the end of its stay does nothing to it.
//
// proves part of S-20
func TestSurviveResident(t *testing.T) {
	const stay = 300 * time.Millisecond
	p := newPool(t, Options{Store: store.NewMemory(), Residents: 1, Limits: Limits{MaxPauseMS: stay.Milliseconds()}})
	o := AcquireOptions{Tools: catalogOf(t, Tool{Name: "long", Func: func() { <-time.After(2 * stay) }})}
	k := store.Key{Owner: "o", ID: "a"}
	s := acquire(t, p, k, o)
	fed(s, "let n = 1")
	guest := s.runtimeOf()
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if s = acquire(t, p, k, o); s.runtimeOf() != guest {
		t.Fatal("the guest was not kept")
	}
	if got := fed(s, "await long(); n++; n"); got != "2" {
		t.Error(got)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if p.residents.guests != 1 {
		t.Errorf("%d guests are kept", p.residents.guests)
	}
}

// TestSurvivePoolClose: closing a pool stores what its sessions have done, gives their
// leases back and wakes those who wait; also if it is closed by a tool.
//
// proves S-24
func TestSurvivePoolClose(t *testing.T) {
	st := store.NewMemory()
	var ran atomic.Int64
	in, closing := make(chan struct{}), make(chan error, 1)
	var p *Pool
	o := AcquireOptions{Tools: catalogOf(t, counting("count", &ran), Tool{Name: "hang", Func: func(ctx context.Context) { close(in); <-ctx.Done() }},
		Tool{Name: "shut", Func: func() { closing <- p.Close() }})}
	p = newPool(t, Options{Store: st, Keys: surviveKeys, Max: 2})
	a, b := store.Key{Owner: "o", ID: "a"}, store.Key{Owner: "o", ID: "b"}
	s, paused := acquire(t, p, a, o), acquire(t, p, b, o)
	fed(s, "let n = await count(); n")
	if _, err := paused.Start(t.Context(), "let m = await count(); m", FeedOptions{}); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 3)
	go func() { _, err := s.Feed(context.Background(), "n = 2; await hang()", FeedOptions{}); results <- err }()
	go func() { _, err := p.Acquire(context.Background(), a, o); results <- err }()
	go func() { _, err := p.Checkout(context.Background(), SessionOptions{}); results <- err }()
	<-in
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-results; err == nil {
			t.Error("something went on")
		}
	}
	if _, err := s.Feed(t.Context(), "1", FeedOptions{}); !errors.Is(err, SessionClosed) {
		t.Error(err)
	}
	p = newPool(t, Options{Store: st, Keys: surviveKeys})
	s, paused = acquire(t, p, a, AcquireOptions{Tools: o.Tools, NoWait: true}), acquire(t, p, b, AcquireOptions{Tools: o.Tools, NoWait: true})
	if u := s.Usage(); u.Calls != 2 || u.Feeds != 2 || fed(s, "n") != "1" {
		t.Errorf("%+v", u)
	}
	step, err := paused.Resume(t.Context(), Reply{Call: paused.Step().Calls[0].ID, Run: true})
	if err != nil || said(step.Result, nil) != "2" {
		t.Errorf("%+v %v", step, err)
	}
	if _, err := s.Feed(t.Context(), "await shut()", FeedOptions{}); err == nil {
		t.Error("a feed outlived its pool")
	}
	if err := <-closing; err != nil {
		t.Error(err)
	}
	p = newPool(t, Options{Store: st, Keys: surviveKeys})
	if s := acquire(t, p, a, AcquireOptions{Tools: o.Tools, NoWait: true}); s.Usage().Calls != 3 || fed(s, "n") != "1" {
		t.Errorf("%+v", s.Usage())
	}
}
