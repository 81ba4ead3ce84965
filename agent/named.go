package agent

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/journal"
)

// AcquireOptions say what a session of a store gets.
type AcquireOptions struct {
	Tools *Catalog // as in [SessionOptions]
	// MustExist is store.ErrNotFound where there is no such session; without it one is
	// begun.
	MustExist bool
	// NoWait is store.ErrBusy at once where another holds the session.
	NoWait bool
	// Count, if it is not nil, is how many records the session had, by who has kept
	// that where the store's keeper cannot go back: an older one is refused, and one
	// that is gone. Who knows of an expiry or a Delete gives none.
	Count *uint64
	// Strict refuses journals made by another release, engine or platform.
	Strict bool
}

// Acquire takes a session of Options.Store by its owner and id, for this caller
// alone, over all processes that use the store; it waits while another has it,
// until ctx ends. All that a session does is in the store before it has an effect:
// what crashes loses nothing. [Session.Release] gives it back.
//
// A session that this pool has had last is there at once if nobody has had it
// since and its worker was not needed elsewhere; otherwise it is replayed, by its
// next feed or, where it waits for Resume, at once.
//
// A session is expired, and begun anew, when its last feed began more than
// Limits.TTLMS ago. An owner has at most Limits.PerOwner sessions at one time.
func (p *Pool) Acquire(ctx context.Context, k store.Key, o AcquireOptions) (*Session, error) {
	if p.o.Store == nil {
		return nil, fieldError("store", nil, "must be set for sessions with names")
	}
	if err := k.Check(); err != nil {
		return nil, err
	}
	if err := p.residents.enter(k.Owner, p.limits.PerOwner); err != nil {
		return nil, err
	}
	s, err := p.acquire(ctx, k, o)
	if err != nil {
		p.residents.leave(k.Owner)
		return nil, err
	}
	return s, nil
}

func (p *Pool) acquire(ctx context.Context, k store.Key, o AcquireOptions) (*Session, error) {
	ctx, cancel := p.living(ctx)
	defer cancel()
	lease, err := p.o.Store.Acquire(ctx, k, store.AcquireOptions{Create: !o.MustExist, NoWait: o.NoWait})
	if err != nil {
		return nil, p.closedOr(err)
	}
	s, err := p.leased(ctx, lease, o)
	if err != nil {
		return nil, errors.Join(err, release(lease))
	}
	return s, nil
}

// release gives a lease back whatever became of the caller's context.
func release(l store.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return l.Release(ctx)
}

// closedOr is err, or that the pool was closed meanwhile.
func (p *Pool) closedOr(err error) error {
	if p.ctx.Err() != nil {
		return sessionFailed(SessionClosed, "the pool is closed")
	}
	return err
}

// living ends with the pool too: who waits for a session hears of its Close.
func (p *Pool) living(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// leased makes the session of a lease.
func (p *Pool) leased(ctx context.Context, lease store.Lease, o AcquireOptions) (*Session, error) {
	k := lease.Key()
	record, err := lease.Load(ctx)
	if err != nil {
		return nil, err
	}
	if len(record.Journal) > 0 && p.expired(record, k, o) {
		if err := lease.Delete(ctx); err != nil {
			return nil, err
		}
		p.residents.forget(k)
		o.Count = nil // it was that of the one that has expired
		return p.acquire(ctx, k, o)
	}
	keep := &keeper{lease: lease}
	s, err := p.session(SessionOptions{Owner: ownerOf(k), Tools: o.Tools}, keep)
	if err != nil {
		return nil, err
	}
	s.key = k
	if keep.heads, err = journal.NewHeads(p.ring, s.owner); err != nil {
		return nil, err
	}
	if len(record.Journal) == 0 {
		switch {
		case o.MustExist:
			return nil, store.ErrNotFound
		case o.Count != nil && *o.Count > 0:
			return nil, sessionFailed(SessionJournal, "it is refused: the store has none, and it had %d records", *o.Count)
		}
		return s, s.begin(ctx)
	}
	return s, s.takeUp(ctx, record, o)
}

// ownerOf binds the journals of a store to owner and id.
func ownerOf(k store.Key) []byte { return []byte(k.Owner + "\x00" + k.ID) }

// begin takes a worker and begins a journal: where there is no worker nothing is
// left in a store.
func (s *Session) begin(ctx context.Context) error {
	p := s.pool
	var err error
	if s.rt, err = s.worker(ctx); err != nil {
		return err
	}
	if s.w, err = journal.Create(s.keep, journal.Begin{Keys: p.ring, Owner: s.owner, Settings: p.settings(s.catalog), Made: p.journalMade()}); err != nil {
		s.drop()
		return because(SessionJournal, err, "it cannot be begun")
	}
	s.id, s.bare = s.w.State().Header.Session, true
	s.count()
	return s.enrol()
}

// takeUp goes on with what a store has.
func (s *Session) takeUp(ctx context.Context, record store.Record, o AcquireOptions) error {
	seen := s.pool.residents.take(s.key)
	if record.Head == nil {
		record.Head = []byte{} // nil asks for none, and a store always has one
	}
	lo := LoadOptions{Head: record.Head, Count: o.Count, Strict: o.Strict}
	err := s.load(record.Journal, lo)
	if err == nil && len(s.keep.bytes) < len(record.Journal) { // a store commits whole records, and what comes is put behind what it has
		err = sessionFailed(SessionJournal, "it is refused: the store has bytes behind its end")
	}
	if err != nil {
		seen.drop()
		return err
	}
	if seen.older(s.w.Head()) {
		seen.drop()
		return sessionFailed(SessionJournal, "it is refused: the store has an older session than this pool had")
	}
	if seen.fits(s) {
		// The functions are those of this catalog, whatever it shares a hash with.
		if s.tools, err = s.catalog.RestoreToolSet(seen.tools.State()); err != nil {
			seen.drop()
			return because(SessionJournal, err, "it is refused")
		}
		s.rt, s.feed, s.records = seen.rt, seen.feed, nil
		if s.feed != nil {
			s.feed.print = nil // it was of who had the session before
			s.pause()
		}
		s.count()
		return s.enrol()
	}
	seen.drop()
	if !s.w.State().Open { // the replay waits for a feed that the session can afford
		return s.enrol()
	}
	if err := s.awake(ctx); err != nil {
		return err
	}
	if err := s.frontier(ctx); err != nil {
		s.drop()
		return err
	}
	return s.enrol()
}

// expired tells whether a session is past its time. What is refused is not: whoever
// loads it says why. An older one that somebody has put back would else be deleted
// and begun anew, with nothing spent.
func (p *Pool) expired(record store.Record, k store.Key, o AcquireOptions) bool {
	if o.Tools == nil {
		o.Tools = noTools()
	}
	head, err := journal.ParseHead(record.Head, p.ring, ownerOf(k))
	if err != nil {
		return false
	}
	l, err := journal.Load(record.Journal, journal.LoadOptions{Keys: p.ring, Owner: ownerOf(k), Settings: p.settings(o.Tools), Head: &head, Counter: o.Count})
	if err == nil && p.residents.older(k, l.Head()) {
		return false
	}
	return err == nil && l.Clock != 0 && time.Since(time.UnixMilli(l.Clock)) > time.Duration(p.limits.TTLMS)*time.Millisecond
}

// Release gives a session of a store back. Its worker stays with the pool for a
// while, for who comes next. While it runs something it is refused with
// [SessionBusy]; where it has paused, it waits in the store. It is idempotent. An
// error of the store is told, and the session is given up all the same.
func (s *Session) Release() error {
	return s.end(sessionFailed(SessionClosed, "by Release"), true)
}

// giveBack is the end of a session, for who has the turn.
func (s *Session) giveBack(keep bool) error {
	if s.gone {
		return nil
	}
	s.gone = true
	p := s.pool
	p.remove(s)
	if s.keep.lease == nil {
		s.drop()
		return nil
	}
	if !keep || s.rt != nil && !s.rt.Alive() {
		s.drop()
	}
	p.residents.put(s, time.Duration(p.limits.MaxPauseMS)*time.Millisecond)
	s.rt = nil
	err := release(s.keep.lease)
	p.residents.leave(s.key.Owner)
	return err
}

// Delete removes a session from the store, if nobody holds it; it waits for that.
func (p *Pool) Delete(ctx context.Context, k store.Key) error {
	if p.o.Store == nil {
		return fieldError("store", nil, "must be set for sessions with names")
	}
	ctx, cancel := p.living(ctx)
	defer cancel()
	lease, err := p.o.Store.Acquire(ctx, k, store.AcquireOptions{})
	if err != nil {
		return p.closedOr(err)
	}
	p.residents.forget(k)
	if err := lease.Delete(ctx); err != nil {
		return errors.Join(err, release(lease))
	}
	return nil
}

// Sessions tells of an owner's sessions in the store.
func (p *Pool) Sessions(ctx context.Context, owner string) ([]store.Info, error) {
	if p.o.Store == nil {
		return nil, fieldError("store", nil, "must be set for sessions with names")
	}
	return p.o.Store.List(ctx, owner)
}

// newResidents makes an empty set.
func newResidents(most int) *residents {
	return &residents{most: most, byKey: map[store.Key]*list.Element{}, order: list.New(), owners: map[string]int64{}}
}
