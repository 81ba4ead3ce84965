// Package storetest is what every store of sessions has to hold, whatever it is
// made of.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
)

// Place makes a new, empty place for sessions, and returns what opens a store in
// it. Where Shared is false that is called once.
type Place func(t *testing.T) (open func() store.Store)

// Options say what a store can do.
type Options struct {
	// Shared says that a place can be opened more than once.
	Shared bool
}

// Run holds a store against the interface.
func Run(t *testing.T, place Place, o Options) {
	one := func(name string, f func(*suite)) {
		t.Run(name, func(t *testing.T) {
			s := &suite{T: t, open: place(t), shared: o.Shared}
			s.store = s.again()
			f(s)
		})
	}
	one("commit", (*suite).commit)
	one("bounds", (*suite).bounds)
	one("replace", (*suite).replace)
	one("large", (*suite).large)
	one("keys", (*suite).keys)
	one("released", (*suite).released)
	one("nothing left", (*suite).nothing)
	one("waiters", (*suite).waiters)
	one("takeover", (*suite).takeover)
	one("takeover at every step", (*suite).steps)
	one("delete", (*suite).remove)
	one("list", (*suite).list)
	one("close", (*suite).close)
	one("ended context", (*suite).ended)
	one("many", (*suite).many)
}

type suite struct {
	*testing.T
	open   func() store.Store
	store  store.Store
	shared bool
}

// again opens the place once more, to be closed with the test.
func (s *suite) again() store.Store {
	st := s.open()
	s.Cleanup(func() {
		if err := st.Close(); err != nil {
			s.Error(err)
		}
	})
	return st
}

// other is a store of the same place, another one where there can be two.
func (s *suite) other() store.Store {
	if s.shared {
		return s.again()
	}
	return s.store
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("the error is %v, not %v", err, want)
	}
}

var key = store.Key{Owner: "an owner", ID: "a session"}

func (s *suite) acquire(st store.Store, o store.AcquireOptions) store.Lease {
	s.Helper()
	l, err := st.Acquire(s.Context(), key, o)
	s.must(err)
	return l
}

func (s *suite) create() store.Lease {
	s.Helper()
	return s.acquire(s.store, store.AcquireOptions{Create: true})
}

func (s *suite) append(l store.Lease, frames, head string) {
	s.Helper()
	s.must(l.Append(s.Context(), []byte(frames), []byte(head)))
}

func (s *suite) release(l store.Lease) {
	s.Helper()
	s.must(l.Release(s.Context()))
}

func (s *suite) holds(l store.Lease, journal, head string) {
	s.Helper()
	r, err := l.Load(s.Context())
	s.must(err)
	if string(r.Journal) != journal || string(r.Head) != head {
		s.Fatalf("the store has %.100q, %q, not %.100q, %q", r.Journal, r.Head, journal, head)
	}
}

func (s *suite) alive(l store.Lease) {
	s.Helper()
	select {
	case <-l.Lost():
		s.Fatal("the lease is lost")
	default:
	}
}

// lost waits until a lease knows that it is over.
func (s *suite) lost(l store.Lease) {
	s.Helper()
	select {
	case <-l.Lost():
	case <-time.After(30 * time.Second):
		s.Fatal("Lost stays open")
	}
}

func (s *suite) commit() {
	_, err := s.store.Acquire(s.Context(), key, store.AcquireOptions{})
	s.is(err, store.ErrNotFound)
	l := s.create()
	if l.Key() != key || l.Fence() == 0 {
		s.Fatal("a lease of", l.Key(), "with number", l.Fence())
	}
	s.holds(l, "", "")
	buf := []byte("one")
	s.must(l.Append(s.Context(), buf, buf))
	copy(buf, "xxx") // it is the caller's again
	s.holds(l, "one", "one")
	s.append(l, "", "two")
	s.holds(l, "one", "two")
	s.append(l, "\x00\xff\n", "")
	s.holds(l, "one\x00\xff\n", "")
	r, err := l.Load(s.Context())
	s.must(err)
	copy(r.Journal, "yyy")
	s.holds(l, "one\x00\xff\n", "")
	s.alive(l)
	s.release(l)
	last := l.Fence()
	for range 5 {
		l = s.acquire(s.other(), store.AcquireOptions{})
		if l.Fence() <= last {
			s.Fatalf("lease %d after %d", l.Fence(), last)
		}
		last = l.Fence()
		s.holds(l, "one\x00\xff\n", "")
		s.release(l)
	}
}

func (s *suite) bounds() {
	l := s.create()
	s.append(l, "a", "b")
	s.is(l.Append(s.Context(), []byte("c"), make([]byte, store.MaxHead+1)), store.ErrTooLarge)
	s.is(l.Replace(s.Context(), []byte("c"), make([]byte, store.MaxHead+1)), store.ErrTooLarge)
	s.holds(l, "a", "b")
	head := strings.Repeat("h", store.MaxHead)
	s.append(l, "d", head)
	s.holds(l, "ad", head)
	s.release(l)
}

func (s *suite) replace() {
	l := s.create()
	s.append(l, strings.Repeat("long ", 1000), "1")
	s.must(l.Replace(s.Context(), []byte("short"), []byte("2")))
	s.holds(l, "short", "2")
	s.append(l, "er", "3")
	s.release(l)
	l = s.acquire(s.other(), store.AcquireOptions{})
	s.holds(l, "shorter", "3")
	s.must(l.Replace(s.Context(), nil, nil))
	s.holds(l, "", "")
	s.append(l, "x", "")
	s.release(l)
	l = s.acquire(s.other(), store.AcquireOptions{})
	s.holds(l, "x", "")
	s.release(l)
}

// large has a journal of 70 MiB, in parts that no message of a network holds.
func (s *suite) large() {
	l := s.create()
	var want []byte
	for i, n := range []int{1, 40 << 20, 3000, 30 << 20, 500, 1 << 20} {
		part := bytes.Repeat([]byte{byte(i), 7, byte(i), 9, 1}, n/5+1)[:n]
		s.must(l.Append(s.Context(), part, []byte{byte(i)}))
		want = append(want, part...)
	}
	check := func(l store.Lease) {
		s.Helper()
		r, err := l.Load(s.Context())
		s.must(err)
		if !bytes.Equal(r.Journal, want) || !bytes.Equal(r.Head, []byte{5}) {
			s.Fatal("it is another journal, of", len(r.Journal), "bytes")
		}
	}
	check(l)
	s.release(l)
	l = s.acquire(s.other(), store.AcquireOptions{})
	check(l)
	s.must(l.Replace(s.Context(), want[1:], []byte{5}))
	want = want[1:]
	check(l)
	s.release(l)
}

func (s *suite) keys() {
	for _, k := range Keys() {
		l, err := s.store.Acquire(s.Context(), k, store.AcquireOptions{Create: true})
		if k.Check() != nil {
			if _, ok := errors.AsType[*FieldError](err); !ok {
				s.Errorf("%q: %v", k, err)
			}
			continue
		}
		if err != nil {
			s.Errorf("%q: %v", k, err)
			continue
		}
		s.append(l, k.Owner+"\x00"+k.ID, "")
		if err := l.Release(s.Context()); err != nil {
			s.Errorf("%q: %v", k, err)
		}
	}
	other := s.other()
	for _, k := range Keys() {
		if k.Check() != nil {
			continue
		}
		l, err := other.Acquire(s.Context(), k, store.AcquireOptions{})
		if err != nil {
			s.Fatalf("%q: %v", k, err)
		}
		s.holds(l, k.Owner+"\x00"+k.ID, "")
		s.release(l)
	}
}

func (s *suite) released() {
	l := s.create()
	s.append(l, "a", "1")
	s.release(l)
	s.release(l)
	s.lost(l)
	next := s.acquire(s.other(), store.AcquireOptions{})
	s.release(l) // it gives back itself alone
	s.is(l.Append(s.Context(), []byte("b"), nil), store.ErrReleased)
	s.is(l.Replace(s.Context(), []byte("b"), nil), store.ErrReleased)
	s.is(l.Delete(s.Context()), store.ErrReleased)
	_, err := l.Load(s.Context())
	s.is(err, store.ErrReleased)
	s.alive(next)
	_, err = s.store.Acquire(s.Context(), key, store.AcquireOptions{NoWait: true})
	s.is(err, store.ErrBusy)
	s.append(next, "c", "2")
	s.holds(next, "ac", "2")
	s.release(next)
}

// nothing has sessions that nothing was committed of.
func (s *suite) nothing() {
	for range 3 {
		l := s.create()
		s.release(l)
		_, err := s.other().Acquire(s.Context(), key, store.AcquireOptions{})
		s.is(err, store.ErrNotFound)
		all, err := s.store.List(s.Context(), key.Owner)
		s.must(err)
		if len(all) != 0 {
			s.Fatal("left behind:", all)
		}
	}
	l := s.create()
	s.is(l.Append(s.Context(), nil, make([]byte, store.MaxHead+1)), store.ErrTooLarge)
	s.release(l)
	_, err := s.store.Acquire(s.Context(), key, store.AcquireOptions{})
	s.is(err, store.ErrNotFound)
}

func (s *suite) waiters() {
	l := s.create()
	s.append(l, "a", "1")
	other := s.other()
	_, err := other.Acquire(s.Context(), key, store.AcquireOptions{NoWait: true})
	s.is(err, store.ErrBusy)
	// Twenty who go away, and three who stay.
	for range 20 {
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Millisecond)
		_, err = other.Acquire(ctx, key, store.AcquireOptions{})
		cancel()
		s.is(err, store.ErrBusy)
		s.is(err, context.DeadlineExceeded)
	}
	got := make(chan error)
	for i := range 3 {
		st := other
		if i == 0 {
			st = s.store
		}
		go func() {
			l, err := st.Acquire(s.Context(), key, store.AcquireOptions{})
			if err == nil {
				err = errors.Join(l.Append(s.Context(), []byte("b"), nil), l.Release(s.Context()))
			}
			got <- err
		}()
	}
	s.append(l, "x", "1")
	s.release(l)
	for range 3 {
		select {
		case err := <-got:
			s.must(err)
		case <-time.After(30 * time.Second):
			s.Fatal("nobody woke")
		}
	}
	l = s.create()
	s.holds(l, "axbbb", "")
	s.release(l)
}

func (s *suite) takeover() {
	old := s.create()
	s.append(old, "a", "1")
	other := s.other()
	next := s.acquire(other, store.AcquireOptions{Takeover: true})
	if next.Fence() <= old.Fence() {
		s.Fatal(next.Fence(), "after", old.Fence())
	}
	s.holds(next, "a", "1")
	s.is(old.Append(s.Context(), []byte("b"), []byte("2")), store.ErrFenced)
	s.lost(old)
	s.is(old.Append(s.Context(), []byte("b"), []byte("2")), store.ErrFenced)
	s.is(old.Replace(s.Context(), []byte("b"), []byte("2")), store.ErrFenced)
	s.is(old.Delete(s.Context()), store.ErrFenced)
	_, err := old.Load(s.Context())
	s.is(err, store.ErrFenced)
	s.release(old)
	s.holds(next, "a", "1")
	s.append(next, "c", "3")
	s.alive(next)
	_, err = s.store.Acquire(s.Context(), key, store.AcquireOptions{NoWait: true})
	s.is(err, store.ErrBusy)
	s.release(next)
	next = s.acquire(s.store, store.AcquireOptions{})
	s.holds(next, "ac", "3")
	s.release(next)
}

// steps takes a session over after each kind of write of its holder, and has the
// old holder write in each way.
func (s *suite) steps() {
	other := s.other()
	writes := map[string]func(store.Lease, string) error{
		"append":  func(l store.Lease, x string) error { return l.Append(s.Context(), []byte(x), []byte(x)) },
		"replace": func(l store.Lease, x string) error { return l.Replace(s.Context(), []byte(x), []byte(x)) },
		"delete":  func(l store.Lease, x string) error { return l.Delete(s.Context()) },
		"release": func(l store.Lease, x string) error { return errors.Join(l.Release(s.Context()), store.ErrFenced) },
	}
	for _, stale := range []string{"append", "replace", "delete", "release"} {
		for _, first := range []string{"append", "replace"} {
			for _, then := range []string{"", "append", "replace", "release", "delete"} {
				old := s.create()
				s.must(writes["replace"](old, "base"))
				s.must(writes[first](old, "A"))
				r, err := old.Load(s.Context())
				s.must(err)
				want := string(r.Journal)
				next := s.acquire(other, store.AcquireOptions{Takeover: true})
				s.holds(next, want, "A")
				switch then {
				case "append":
					s.must(writes["append"](next, "B"))
					want += "B"
				case "replace":
					s.must(writes["replace"](next, "C"))
					want = "C"
				case "release":
					s.release(next)
				case "delete":
					s.must(next.Delete(s.Context()))
				}
				s.is(writes[stale](old, "stale"), store.ErrFenced)
				if then == "release" {
					next = s.acquire(other, store.AcquireOptions{})
				}
				if then == "delete" {
					_, err := other.Acquire(s.Context(), key, store.AcquireOptions{})
					s.is(err, store.ErrNotFound)
					next = s.acquire(other, store.AcquireOptions{Create: true})
					want = ""
				}
				if r, err = next.Load(s.Context()); err != nil || string(r.Journal) != want {
					s.Fatalf("stale %s, first %s, then %s: %q, %v", stale, first, then, r.Journal, err)
				}
				s.release(old)
				s.must(next.Delete(s.Context()))
			}
		}
	}
}

func (s *suite) remove() {
	l := s.create()
	s.append(l, "a", "1")
	s.must(l.Delete(s.Context()))
	s.lost(l)
	s.is(l.Append(s.Context(), []byte("b"), nil), store.ErrReleased)
	s.release(l)
	_, err := s.other().Acquire(s.Context(), key, store.AcquireOptions{})
	s.is(err, store.ErrNotFound)
	last := l.Fence()
	for range 3 {
		l = s.acquire(s.other(), store.AcquireOptions{Create: true})
		s.holds(l, "", "")
		if l.Fence() <= last {
			s.Fatalf("lease %d of a session that was deleted after %d", l.Fence(), last)
		}
		last = l.Fence()
		s.append(l, "b", "")
		s.must(l.Delete(s.Context()))
	}
}

func (s *suite) list() {
	_, err := s.store.List(s.Context(), "")
	if _, ok := errors.AsType[*FieldError](err); !ok {
		s.Fatal(err)
	}
	for _, k := range []store.Key{{Owner: "o", ID: "1"}, {Owner: "o", ID: "2"}, {Owner: "o2", ID: "1"}} {
		l, err := s.store.Acquire(s.Context(), k, store.AcquireOptions{Create: true})
		s.must(err)
		s.append(l, k.ID+k.ID, "")
		if k.ID == "1" {
			s.release(l)
		}
	}
	for owner, want := range map[string][]store.Info{
		"o":  {{Key: store.Key{Owner: "o", ID: "1"}, Bytes: 2}, {Key: store.Key{Owner: "o", ID: "2"}, Bytes: 2, Held: true}},
		"o2": {{Key: store.Key{Owner: "o2", ID: "1"}, Bytes: 2}},
		"o3": nil,
	} {
		all, err := s.other().List(s.Context(), owner)
		s.must(err)
		slices.SortFunc(all, func(a, b store.Info) int { return strings.Compare(a.Key.ID, b.Key.ID) })
		if !slices.Equal(all, want) {
			s.Errorf("%s has %v, not %v", owner, all, want)
		}
	}
}

func (s *suite) close() {
	st := s.again()
	if !s.shared {
		st = s.store
	}
	l := s.acquire(st, store.AcquireOptions{Create: true})
	s.append(l, "a", "1")
	woke := make(chan error)
	go func() {
		_, err := st.Acquire(s.Context(), key, store.AcquireOptions{})
		woke <- err
	}()
	_, err := st.Acquire(s.Context(), key, store.AcquireOptions{NoWait: true})
	s.is(err, store.ErrBusy)
	s.must(st.Close())
	s.must(st.Close())
	select {
	case err := <-woke:
		s.is(err, store.ErrClosed)
	case <-time.After(30 * time.Second):
		s.Fatal("nobody woke")
	}
	s.lost(l)
	s.is(l.Append(s.Context(), []byte("b"), nil), store.ErrClosed)
	s.release(l)
	_, err = st.Acquire(s.Context(), key, store.AcquireOptions{Create: true})
	s.is(err, store.ErrClosed)
	_, err = st.List(s.Context(), key.Owner)
	s.is(err, store.ErrClosed)
	if s.shared { // what was held is free at once
		l = s.acquire(s.store, store.AcquireOptions{NoWait: true})
		s.holds(l, "a", "1")
		s.release(l)
	}
}

func (s *suite) ended() {
	ctx, cancel := context.WithCancelCause(s.Context())
	why := errors.New("why")
	cancel(why)
	_, err := s.store.Acquire(ctx, key, store.AcquireOptions{Create: true})
	s.is(err, why)
	l := s.create()
	s.append(l, "a", "1")
	s.is(l.Append(ctx, []byte("b"), nil), why)
	s.is(l.Replace(ctx, []byte("b"), nil), why)
	s.is(l.Delete(ctx), why)
	_, err = l.Load(ctx)
	s.is(err, why)
	_, err = s.store.List(ctx, key.Owner)
	s.is(err, why)
	s.holds(l, "a", "1")
	s.append(l, "b", "2")
	s.must(l.Release(ctx)) // what is given back is given back
	l = s.acquire(s.other(), store.AcquireOptions{})
	s.holds(l, "ab", "2")
	s.release(l)
}

// many has goroutines that take turns with one session, and count in it.
func (s *suite) many() {
	const goroutines, turns = 8, 10
	stores := []store.Store{s.store, s.other()}
	failed := make(chan error, goroutines)
	for i := range goroutines {
		go func() {
			failed <- func() error {
				for range turns {
					l, err := stores[i%2].Acquire(s.Context(), key, store.AcquireOptions{Create: true})
					if err != nil {
						return err
					}
					r, err := l.Load(s.Context())
					if err == nil {
						n := byte(len(r.Journal) + 1)
						err = l.Append(s.Context(), []byte{n}, []byte{n})
					}
					if err := errors.Join(err, l.Release(s.Context())); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range goroutines {
		s.must(<-failed)
	}
	l := s.create()
	r, err := l.Load(s.Context())
	s.must(err)
	for i, b := range r.Journal {
		if int(b) != i+1 {
			s.Fatal("two had it at once:", r.Journal)
		}
	}
	if len(r.Journal) != goroutines*turns || r.Head[0] != goroutines*turns {
		s.Fatal("lost:", len(r.Journal), r.Head)
	}
	s.release(l)
}
