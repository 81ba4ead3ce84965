package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/journal"
)

// surviveKeys are the keys of pools that share journals.
var surviveKeys = &Keys{Current: "k", Roots: map[string][]byte{"k": make([]byte, 32)}}

// ended is a context that is over: what comes as far as to want a worker fails by
// it, and what is refused before does not.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// dump is what a session is dumped as.
func dump(t testing.TB, s *Session) *Dump {
	t.Helper()
	d, err := s.Dump()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// records are those of a session's journal, without the first.
func records(t testing.TB, s *Session) (list []journal.Record) {
	t.Helper()
	_, err := journal.Load(dump(t, s).Journal, journal.LoadOptions{Keys: s.pool.ring, Owner: s.owner, Settings: s.pool.settings(s.catalog),
		Each: func(r journal.Record) error { list = append(list, r); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return list[1:]
}

// signed is an authentic journal of records for the owner and the tools of a
// session. It ends before the first record that cannot come next.
func signed(t testing.TB, s *Session, list ...journal.Record) []byte {
	t.Helper()
	return signedBy(t, s, s.pool.journalMade(), list...)
}

func signedBy(t testing.TB, s *Session, by journal.Made, list ...journal.Record) []byte {
	t.Helper()
	m := &journal.Memory{}
	w, err := journal.Create(m, journal.Begin{Keys: s.pool.ring, Owner: s.owner, Settings: s.pool.settings(s.catalog), Made: by})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if _, err := w.Append(r); err != nil {
			break
		}
	}
	return m.Bytes
}

// load loads a journal as that of the session's owner and tools.
func load(t testing.TB, s *Session, p *Pool, data []byte) (*Session, error) {
	t.Helper()
	return p.Load(t.Context(), data, LoadOptions{SessionOptions: SessionOptions{Owner: s.owner, Tools: s.catalog}})
}

// counting is a tool that counts its runs.
func counting(name string, n *atomic.Int64) Tool {
	return Tool{Name: name, Func: func() int64 { return n.Add(1) }}
}

// flaky is a store whose writes and releases can be made to fail.
type flaky struct {
	store.Store
	write, release atomic.Bool // fail
	released       atomic.Int64
}

type flakyLease struct {
	store.Lease
	f *flaky
}

var errFlaky = errors.New("no space left")

func (f *flaky) Acquire(ctx context.Context, k store.Key, o store.AcquireOptions) (store.Lease, error) {
	l, err := f.Store.Acquire(ctx, k, o)
	if err != nil {
		return nil, err
	}
	return &flakyLease{l, f}, nil
}

func (l *flakyLease) Append(ctx context.Context, frames, head []byte) error {
	if l.f.write.Load() {
		return errFlaky
	}
	return l.Lease.Append(ctx, frames, head)
}

func (l *flakyLease) Release(ctx context.Context) error {
	err := l.Lease.Release(ctx)
	l.f.released.Add(1)
	if l.f.release.Load() {
		return errFlaky
	}
	return err
}

// rewound is a store that gives each session as it was kept at one time.
type rewound struct {
	store.Store
	kept *store.Record // nil: as it is
}

type rewoundLease struct {
	store.Lease
	kept *store.Record
}

func (r *rewound) Acquire(ctx context.Context, k store.Key, o store.AcquireOptions) (store.Lease, error) {
	l, err := r.Store.Acquire(ctx, k, o)
	if err != nil || r.kept == nil {
		return l, err
	}
	return &rewoundLease{l, r.kept}, nil
}

func (l *rewoundLease) Load(context.Context) (store.Record, error) { return *l.kept, nil }
