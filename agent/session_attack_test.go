package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/js"
)

// TestAttackOldFunctions: whoever takes a session has his own functions called, and
// his own Print, not those of who had it before: the hash of a catalog knows no
// closures.
//
// proves part of S-19
func TestAttackOldFunctions(t *testing.T) {
	tools := func(who string) AcquireOptions {
		return AcquireOptions{Tools: catalogOf(t, Tool{Name: "who", Func: func() string { return who }}, Tool{Name: "lazy", Lazy: true, Func: func() string { return who }})}
	}
	for _, most := range []int{0, 2} { // by a replay, and with the guest that was kept
		p := newPool(t, Options{Store: store.NewMemory(), Residents: most})
		k := store.Key{Owner: "o", ID: "a"}
		s := acquire(t, p, k, tools("the first"))
		if got := fed(s, "await catalog.describe('lazy'); await who()"); got != `"the first"` {
			t.Fatal(got)
		}
		var first, second strings.Builder
		print := func(b *strings.Builder) func(js.Level, string) {
			return func(_ js.Level, text string) { b.WriteString(text) }
		}
		if _, err := s.Start(t.Context(), "let x = await who(); console.log('secret'); x", FeedOptions{Print: print(&first)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
		s = acquire(t, p, k, tools("the second"))
		step, err := s.Resume(t.Context(), Reply{Call: s.Step().Calls[0].ID, Run: true})
		if err != nil || said(step.Result, nil) != `"the second"` {
			t.Errorf("residents %d: %v %v", most, step, err)
		}
		if first.Len() > 0 || step != nil && !strings.Contains(step.Result.Output, "secret") {
			t.Errorf("residents %d: the old Print got %q, the result has %q", most, first.String(), step.Result.Output)
		}
		r, err := s.Feed(t.Context(), "console.log('mine'); await who() + ', ' + await lazy()", FeedOptions{Print: print(&second)})
		if got := said(r, err); got != `"the second, the second"` || second.String() != "mine" {
			t.Errorf("residents %d: %s, printed %q", most, got, second.String())
		}
	}
}

// TestAttackTimeOfReplay: a feed that waited where it was loaded, or lost its worker
// to MaxPauseMS, has the time that it had left, and not the tenfold of a replay.
//
// proves part of S-04
func TestAttackTimeOfReplay(t *testing.T) {
	o := Options{Limits: Limits{FeedMS: 300, MaxPauseMS: 10}}
	p := newPool(t, o)
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "ask", Func: func() int { return 1 }})})
	if _, err := s.Start(t.Context(), "await ask(); for (;;) ;", FeedOptions{}); err != nil {
		t.Fatal(err)
	}
	s = reloaded(t, s, p)
	begin := time.Now()
	step, err := s.Resume(t.Context(), Reply{Call: s.Step().Calls[0].ID, Value: 1})
	took := time.Since(begin)
	if js.KindOf(err) != js.Timeout && js.KindOf(err) != js.HardTimeout {
		t.Errorf("%v %v", step, err)
	}
	if used := s.Usage().MS; used > 1500 {
		t.Errorf("a feed of at most 300 ms took %v, and %d ms were charged", took, used)
	}
}

// TestAttackLostStore: who has kept a count sees that a store has lost the session,
// whether it is gone or older: budgets do not begin anew.
//
// proves part of S-02
func TestAttackLostStore(t *testing.T) {
	st := store.NewMemory()
	p := newPool(t, Options{Store: st, Limits: Limits{TTLMS: 200}})
	k := store.Key{Owner: "o", ID: "a"}
	s := acquire(t, p, k, AcquireOptions{})
	fed(s, "1")
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	future := s.w.Head().Count + 9
	old := future - 9
	time.Sleep(300 * time.Millisecond) // it is the wall's clock that expires sessions
	if s, err := p.Acquire(t.Context(), k, AcquireOptions{Count: &future}); !errors.Is(err, SessionJournal) {
		t.Errorf("an older session that has expired: %v", err)
		_ = s.Release()
	}
	s = acquire(t, p, k, AcquireOptions{Count: &old}) // control: the very one has expired
	if s.Usage().Feeds != 0 {
		t.Error("it has not expired")
	}
	_ = s.Release()
	if err := p.Delete(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if s, err := p.Acquire(t.Context(), k, AcquireOptions{Count: &old}); !errors.Is(err, SessionJournal) {
		t.Errorf("a session that is gone: %v", err)
		_ = s.Release()
	}
	none := uint64(0)
	s = acquire(t, p, k, AcquireOptions{Count: &none}) // control: there was none yet
	_ = s.Release()
}

// TestAttackOrderOfRefusals: calls that the runtime refuses before anybody else sees
// them are refused in their order, so that a replay comes to the same.
//
// proves part of S-06
func TestAttackOrderOfRefusals(t *testing.T) {
	p := newPool(t, Options{})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "ask", Func: func(...int) int { return 1 }})})
	const code = `
		const many = Array(10001).fill(0), order = []
		await Promise.all(Array.from({length: 30}, (_, i) => ask(...many).catch(() => order.push(i))))
		order.join()`
	want := make([]string, 30)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	if got := fed(s, code); got != `"`+strings.Join(want, ",")+`"` {
		t.Errorf("refused in the order %s", got)
	}
	reloaded(t, s, p)
}

// TestAttackSeedOfVoid: a session whose first feeds were void has random numbers of
// its own all the same.
//
// proves part of S-03
func TestAttackSeedOfVoid(t *testing.T) {
	p := newPool(t, Options{Limits: Limits{FeedMS: 50}})
	seen := map[string]bool{}
	for range 2 {
		s := checkout(t, p, SessionOptions{})
		if got := fed(s, "for (;;) ;"); !strings.Contains(got, "timeout") {
			t.Fatal(got)
		}
		got := fed(s, "Math.random()")
		if seen[got] {
			t.Errorf("two sessions have the random number %s", got)
		}
		seen[got] = true
		if s = reloaded(t, s, p); fed(s, "Math.random()") == got {
			t.Error("the numbers begin again")
		}
	}
}

// TestAttackStarved: who waits for a worker gets that of a session that is released,
// though the pool would keep it.
//
// proves part of S-24
func TestAttackStarved(t *testing.T) {
	p := newPool(t, Options{Store: store.NewMemory(), Residents: 1, Max: 1})
	k := store.Key{Owner: "o", ID: "a"}
	s := acquire(t, p, k, AcquireOptions{})
	guest := s.runtimeOf()
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if s = acquire(t, p, k, AcquireOptions{}); s.runtimeOf() != guest {
		t.Error("the control: a guest that nobody waits for is not kept")
	}
	got := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		other, err := p.Acquire(ctx, store.Key{Owner: "p", ID: "b"}, AcquireOptions{})
		if err == nil {
			err = other.Release()
		}
		got <- err
	}()
	for p.residents.waits(0) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestAttackErrorText: what is no UTF-8 in the error of a tool reaches the guest as
// the journal has it.
//
// proves part of S-03
func TestAttackErrorText(t *testing.T) {
	p := newPool(t, Options{ShowErrors: true})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t,
		Tool{Name: "plain", Func: func() error { return errors.New("a\xffb\xed\xa0\x80c\xf0\x9f\x98") }},
		Tool{Name: "shown", Func: func() error {
			return &js.GuestError{Name: "N\xff", Message: "a\xffb\xed\xa0\x80\x00\u202e" + strings.Repeat("\xff", 9000)}
		}})})
	for _, name := range []string{"plain", "shown"} {
		t.Log(fed(s, "let "+name+"1; try { await "+name+"() } catch (e) { "+name+"1 = e.name + JSON.stringify(e.message).slice(0, 200) + e.message.length }; "+name+"1"))
		reloaded(t, s, p)
	}
}

// TestAttackHeadless: a store that gives a journal without its head, or with bytes
// behind its end, is refused: it could be cut anywhere, or grow behind what nobody
// can read.
//
// proves part of S-01
func TestAttackHeadless(t *testing.T) {
	st := &rewound{Store: store.NewMemory()}
	p := newPool(t, Options{Store: st, Keys: surviveKeys})
	k := store.Key{Owner: "o", ID: "a"}
	s := acquire(t, p, k, AcquireOptions{})
	fed(s, "1")
	before, err := s.keep.lease.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fed(s, "2")
	after, err := s.keep.lease.Load(t.Context())
	if err := errors.Join(err, s.Release()); err != nil {
		t.Fatal(err)
	}
	other := newPool(t, Options{Store: st, Keys: surviveKeys})
	for name, r := range map[string]store.Record{
		"no head":    {Journal: before.Journal},
		"empty head": {Journal: before.Journal, Head: []byte{}},
		"torn":       {Journal: append(after.Journal[:len(after.Journal):len(after.Journal)], 1, 2, 3), Head: after.Head},
		"room":       {Journal: append(after.Journal[:len(after.Journal):len(after.Journal)], make([]byte, 100)...), Head: after.Head},
	} {
		st.kept = &r
		if s, err := other.Acquire(t.Context(), k, AcquireOptions{}); !errors.Is(err, SessionJournal) {
			t.Errorf("%s: %v", name, err)
			_ = s.Release()
		}
	}
	st.kept = &after
	s = acquire(t, other, k, AcquireOptions{}) // control
	_ = s.Release()
}

// faulty is a store of which one write fails, before or behind its effect.
type faulty struct {
	store.Store
	at     int64 // the write that fails, from 1 on
	behind bool
	n      atomic.Int64
}

type faultyLease struct {
	store.Lease
	f *faulty
}

func (f *faulty) Acquire(ctx context.Context, k store.Key, o store.AcquireOptions) (store.Lease, error) {
	l, err := f.Store.Acquire(ctx, k, o)
	if err != nil {
		return nil, err
	}
	return &faultyLease{l, f}, nil
}

func (l *faultyLease) Append(ctx context.Context, frames, head []byte) error {
	return l.write(func() error { return l.Lease.Append(ctx, frames, head) })
}

func (l *faultyLease) Replace(ctx context.Context, journal, head []byte) error {
	return l.write(func() error { return l.Lease.Replace(ctx, journal, head) })
}

func (l *faultyLease) write(do func() error) error {
	if l.f.n.Add(1) != l.f.at {
		return do()
	}
	if l.f.behind {
		_ = do()
	}
	return errFlaky
}

// TestAttackEachWriteFails: whichever single write to a store fails, and whether it
// took effect: no tool has run that is not on record, none runs twice unless it is
// said to be in doubt, the session value is over, its guest is not used again, and
// whoever takes the session goes on with what was stored.
//
// proves part of S-23
func TestAttackEachWriteFails(t *testing.T) {
	p := newPool(t, Options{Keys: surviveKeys, Warm: 1})
	for _, behind := range []bool{false, true} {
		for at := int64(1); ; at++ {
			f := &faulty{Store: store.NewMemory(), at: at, behind: behind}
			writes := attackWrites(t, p, f)
			if writes < at {
				if writes < 12 {
					t.Errorf("only %d writes", writes)
				}
				break
			}
		}
	}
}

// overStore is a pool with the workers of another one, and a store of its own.
func overStore(made *Pool, st store.Store) *Pool {
	p := &Pool{ctx: made.ctx, cancel: made.cancel, residents: newResidents(1), o: made.o, limits: made.limits, js: made.js, ring: made.ring, sessions: map[*Session]struct{}{}, made: made.made}
	p.o.Store = st
	return p
}

// attackWrites runs a session over a faulty store and tells how many writes there
// were.
func attackWrites(t *testing.T, made *Pool, f *faulty) int64 {
	t.Helper()
	p := overStore(made, f)
	defer p.residents.close()
	ran := map[string]int{} // by key of the call
	tool := func(ctx context.Context) int { c, _ := CallOf(ctx); ran[c.Key]++; return len(ran) }
	o := AcquireOptions{Tools: catalogOf(t, Tool{Name: "act", Func: tool}, Tool{Name: "may", Func: tool, Approve: true})}
	k := store.Key{Owner: "o", ID: "a"}
	again := map[string]bool{}
	script := func() error {
		s, err := p.Acquire(t.Context(), k, o)
		if err != nil {
			return err
		}
		defer func() { _ = s.Release() }()
		for s.Usage().Feeds < 3 || s.Step() != nil && !s.Step().Done {
			step := s.Step()
			if step == nil || step.Done {
				if _, err = s.Start(t.Context(), "globalThis.n = (globalThis.n ?? 0) + 1; await act(); await may(); n", FeedOptions{RunTools: true}); err != nil {
					return errors.Join(err, stillOver(t, s))
				}
				continue
			}
			c := step.Calls[0]
			if c.InDoubt {
				again[c.Key] = true
			}
			if _, err = s.Resume(t.Context(), Reply{Call: c.ID, Run: true, Approval: c.Approval}); err != nil {
				return errors.Join(err, stillOver(t, s))
			}
		}
		return lastFeed(t, s, f, len(ran))
	}
	var err error
	for range 3 {
		if err = script(); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("write %d, behind %v: %v", f.at, f.behind, err)
	}
	for key, n := range ran {
		if n > 1 && (!again[key] || n > 2) {
			t.Errorf("write %d, behind %v: a tool ran %d times, in doubt: %v", f.at, f.behind, n, again[key])
		}
	}
	return f.n.Load()
}

// lastFeed makes the journal of three feeds short, and looks at what they left.
func lastFeed(t *testing.T, s *Session, f *faulty, ran int) error {
	t.Helper()
	if err := s.Compact(t.Context()); err != nil {
		return err
	}
	r, err := s.Feed(t.Context(), "n", FeedOptions{})
	if errors.Is(err, errFlaky) {
		return errors.Join(err, stillOver(t, s))
	}
	if got := said(r, err); got != "3" {
		t.Errorf("write %d, behind %v: n is %s after %d feeds", f.at, f.behind, got, s.Usage().Feeds-1)
	}
	if u := s.Usage(); int(u.Calls) != ran {
		t.Errorf("write %d, behind %v: %d calls on record, %d ran", f.at, f.behind, u.Calls, ran)
	}
	return nil
}

// stillOver sees that a session whose write has failed does nothing any more.
func stillOver(t *testing.T, s *Session) error {
	t.Helper()
	if _, err := s.Feed(t.Context(), "1", FeedOptions{}); !errors.Is(err, SessionJournal) {
		t.Errorf("behind a write that failed: %v", err)
	}
	return nil
}

// slow is a store that takes its time to have a lease back.
type slow struct{ store.Store }

type slowLease struct{ store.Lease }

const slowness = 500 * time.Millisecond

func (s slow) Acquire(ctx context.Context, k store.Key, o store.AcquireOptions) (store.Lease, error) {
	l, err := s.Store.Acquire(ctx, k, o)
	return slowLease{l}, err
}

func (l slowLease) Release(ctx context.Context) error {
	select {
	case <-time.After(slowness):
	case <-ctx.Done():
	}
	return l.Lease.Release(ctx)
}

// TestAttackSlowStore: closing a pool waits for a slow store once, and not for each of
// its sessions.
//
// proves part of S-24
func TestAttackSlowStore(t *testing.T) {
	p := newPool(t, Options{Store: slow{store.NewMemory()}, Keys: rootKey(1)})
	const n = 8
	for i := range n {
		acquire(t, p, store.Key{Owner: "o", ID: fmt.Sprint(i)}, AcquireOptions{})
	}
	begin := time.Now()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > n/2*slowness {
		t.Errorf("it took %v", took)
	}
}

// touchy is a type whose own method fails the program on some texts; or ends it.
type touchy string

func (p *touchy) UnmarshalText(text []byte) error {
	switch string(text) {
	case "panic":
		panic("touchy")
	case "exit":
		runtime.Goexit()
	}
	*p = touchy(text)
	return nil
}

// TestAttackTouchyArguments: a method of the type of an argument that panics, or ends
// its goroutine, is the failure of one call: the guest chooses what it is given.
//
// proves part of S-05
func TestAttackTouchyArguments(t *testing.T) {
	s := newSession(t, Options{}, Tool{Name: "take", Func: func(p touchy) string { return string(p) }})
	got := make(chan string)
	for _, c := range [][2]string{{"panic", "tool_arguments"}, {"fine", `"fine"`}, {"exit", "tool_arguments"}, {"fine", `"fine"`}} {
		go func() {
			text := "gone"
			defer func() {
				if p := recover(); p != nil {
					text = fmt.Sprint("the host panicked: ", p)
				}
				got <- text
			}()
			text = fed(s, "await take('"+c[0]+"')")
		}()
		if text := <-got; !strings.Contains(text, c[1]) {
			t.Errorf("%s: %s", c[0], text)
		}
	}
}

// TestAttackPrintPanics: a Print that panics, which whoever calls Feed may recover
// from as a server does, leaves a session that goes on: its feed is void.
//
// proves part of S-05
func TestAttackPrintPanics(t *testing.T) {
	s := newSession(t, Options{}, Tool{Name: "ask", Func: func() int { return 1 }})
	fed(s, "let n = 1")
	for name, do := range map[string]func(){"panic": func() { panic("print") }, "exit": runtime.Goexit} {
		o := FeedOptions{Print: func(js.Level, string) { do() }}
		ended := make(chan any)
		for _, whole := range []bool{true, false} {
			go func() {
				defer func() { ended <- recover() }()
				if whole {
					_, _ = s.Feed(context.Background(), "n = 2; console.log(1); n", o)
					return
				}
				step, err := s.Start(context.Background(), "n = 2; await ask(); console.log(1); n", o)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = s.Resume(context.Background(), Reply{Call: step.Calls[0].ID, Run: true})
			}()
			<-ended
			if got := fed(s, "n"); got != "1" {
				t.Errorf("behind a %s, whole %v: %s", name, whole, got)
			}
		}
	}
	if l := reloaded(t, s, s.pool); fed(l, "n") != "1" {
		t.Error("it does not load")
	}
}
