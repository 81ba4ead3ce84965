package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/journal"
	"github.com/glovebox-dev/glovebox/js"
)

// Session is one guest that is fed source piece by piece. What a feed declares
// stays for the next, and everything that another run would need to come to the
// same is in its journal. It does one thing at a time: what comes beside it, also
// from inside one of its tools, is refused with [SessionBusy] at once.
type Session struct {
	pool    *Pool
	catalog *Catalog
	owner   []byte
	key     store.Key // in a store
	id      string
	epoch   string // part of the ids of calls: those of a session that was loaded are new ones
	turn    chan struct{}

	mu     sync.Mutex // of what can be asked at any time
	usage  Usage
	paused *Step
	over   *SessionError
	stop   context.CancelFunc // of what runs

	// Of whoever has the turn.
	tools   *ToolSet
	keep    *keeper
	w       *journal.Writer
	rt      *js.Runtime      // nil: given up, and made again by a replay
	feed    *feed            // open, nil between feeds
	bare    bool             // no feed has left anything: the next one begins the random numbers
	records []journal.Record // that were loaded, until they are replayed
	gone    bool             // it was given back
	resting *time.Timer
	idle    sync.Mutex // held by rest while it has the turn
}

// SessionOptions say whose a session is and what it is given.
type SessionOptions struct {
	// Owner is whose journal it is, at most 4,096 bytes; nil is nobody in particular.
	// A journal loads for its owner alone.
	Owner []byte
	// Tools are what the guest may call; nil is none. They are the session's from
	// beginning to end.
	Tools *Catalog
}

// Checkout begins a session on a worker of its own. The error is an
// *api.FieldError, a *SessionError or a *js.Error.
func (p *Pool) Checkout(ctx context.Context, o SessionOptions) (*Session, error) {
	s, err := p.session(o, &keeper{})
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// session is one without a journal and a worker.
func (p *Pool) session(o SessionOptions, keep *keeper) (*Session, error) {
	if len(o.Owner) > maxOwner {
		return nil, fieldError("owner", len(o.Owner), "must be at most %d bytes", maxOwner)
	}
	if o.Tools == nil {
		o.Tools = noTools()
	}
	s := &Session{pool: p, catalog: o.Tools, owner: slices.Clone(o.Owner), turn: make(chan struct{}, 1), tools: o.Tools.NewToolSet(), keep: keep, epoch: newEpoch()}
	s.resting = time.AfterFunc(time.Hour, s.rest)
	s.resting.Stop()
	return s, nil
}

const maxOwner = 4096

// noTools is the catalog of a session that has none.
var noTools = sync.OnceValue(func() *Catalog {
	c, err := NewCatalog(nil, CatalogOptions{})
	if err != nil {
		panic(err)
	}
	return c
})

func newEpoch() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// enrol makes a finished session one of the pool's, and opens its turn.
func (s *Session) enrol() error {
	if !s.pool.add(s) {
		s.drop()
		return sessionFailed(SessionClosed, "the pool is closed")
	}
	s.leave()
	return nil
}

// settings are what a journal of this pool is begun and loaded with.
func (p *Pool) settings(c *Catalog) journal.Settings {
	pinned := c.hash
	if len(p.o.Modules) > 0 {
		h := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(p.o.Modules)) {
			writePart(h, []byte(name))
			writePart(h, []byte(p.o.Modules[name]))
		}
		pinned += " " + hex.EncodeToString(h.Sum(nil))
	}
	return journal.Settings{Redaction: !p.o.ShowErrors, StrictEval: p.o.StrictEval, Catalog: pinned, Sealed: p.o.Seal}
}

func (p *Pool) journalMade() journal.Made {
	return journal.Made{Release: p.made.release, Engine: p.made.engine, Platform: p.made.platform}
}

// short tells whether there are more who wait for a worker than there may be workers.
func (p *Pool) short() bool {
	return p.o.Max > 0 && p.js.Stats().Out+p.residents.waits(0) > p.o.Max
}

// worker takes a worker and gives it the tools.
func (s *Session) worker(ctx context.Context) (*js.Runtime, error) {
	s.pool.residents.waits(1)
	defer s.pool.residents.waits(-1)
	if s.pool.short() {
		s.pool.residents.evictOne()
	}
	rt, err := s.pool.js.Checkout(ctx)
	if err != nil {
		return nil, err
	}
	if err := rt.BindPaused(ctx, s.catalog.bound()...); err != nil {
		_ = rt.Close()
		return nil, err
	}
	return rt, nil
}

// bound are the names that a guest can call.
func (c *Catalog) bound() []string {
	var names []string
	for _, t := range c.tools {
		names = append(names, t.Name)
	}
	if c.lazy {
		names = append(names, searchName, describeName)
	}
	return names
}

// take takes the turn if nobody uses the session. That its worker is just being
// given back is no use.
func (s *Session) take() bool {
	s.idle.Lock()
	defer s.idle.Unlock()
	select {
	case <-s.turn:
		return true
	default:
		return false
	}
}

// enter takes the session for one thing.
func (s *Session) enter() error {
	if !s.take() {
		if over := s.why(); over != nil {
			return over
		}
		return sessionFailed(SessionBusy, "the session runs something else")
	}
	if over := s.why(); over != nil {
		s.turn <- struct{}{}
		return over
	}
	s.resting.Stop()
	return nil
}

// leave gives the turn back; from now on the session rests.
func (s *Session) leave() {
	if s.rt != nil {
		s.resting.Reset(time.Duration(s.pool.limits.MaxPauseMS) * time.Millisecond)
	}
	s.turn <- struct{}{}
}

// rest gives the worker of a session back that has paused too long.
func (s *Session) rest() {
	s.idle.Lock()
	defer s.idle.Unlock()
	select {
	case <-s.turn:
		s.drop()
		s.turn <- struct{}{}
	default: // somebody has come
	}
}

// drop gives the worker up.
func (s *Session) drop() {
	if s.rt != nil {
		_ = s.rt.Close()
		s.rt = nil
	}
}

// why is what ended the session, nil while it has not.
func (s *Session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		return nil
	}
	return s.over
}

// finish ends the session; the first reason is kept.
func (s *Session) finish(why *SessionError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil {
		s.over = why
	}
}

// ID is the session's own name, random, 32 hexadecimal digits: of all sessions
// that are loaded from its journal too.
func (s *Session) ID() string { return s.id }

// Catalog are its tools.
func (s *Session) Catalog() *Catalog { return s.catalog }

// Usage is what it has used up so far; it can be asked at any time.
func (s *Session) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage
}

// count makes Usage say what the journal says.
func (s *Session) count() {
	state := s.w.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.Feeds, s.usage.Calls, s.usage.MS, s.usage.Bytes = int64(state.Feed), state.Spent.Calls, state.Spent.MS, state.Spent.Bytes
	s.usage.Refused, s.usage.Journal = state.Spent.Refused, int64(s.w.Size())
	if f := s.feed; f != nil {
		s.usage.MS += f.ms
		s.usage.Bytes += f.bytes
	}
}

// Step is where the session waits for Resume, nil where it does not. It can be
// asked at any time.
func (s *Session) Step() *Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused
}

func (s *Session) setStep(step *Step) *Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = step
	return step
}

// running has Pool.Close and its like end what runs.
func (s *Session) running(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.stop = cancel
	over := s.over != nil
	s.mu.Unlock()
	if over {
		cancel()
	}
	return ctx, cancel
}

// Close ends the session and gives its worker back. While it runs something it is
// refused with [SessionBusy]: end that first, by its context. It is idempotent.
// What the session was is in its journal, see [Session.Dump].
func (s *Session) Close() error { return s.end(sessionFailed(SessionClosed, "by Close"), false) }

// end gives the session back, once, whatever has ended it before.
func (s *Session) end(why *SessionError, keep bool) error {
	if !s.take() {
		if errors.Is(s.why(), SessionClosed) {
			return nil // whoever has ended it is about to
		}
		return sessionFailed(SessionBusy, "the session runs something else")
	}
	defer func() { s.turn <- struct{}{} }()
	s.resting.Stop()
	keep = keep && s.why() == nil
	s.finish(why)
	return s.giveBack(keep)
}

// abandon ends the session whatever it does.
func (s *Session) abandon() {
	s.finish(sessionFailed(SessionClosed, "the pool is closed"))
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	<-s.turn // a feed whose context has ended waits for nobody
	defer func() { s.turn <- struct{}{} }()
	s.resting.Stop()
	_ = s.giveBack(false)
}

// Dump is a session that can be loaded again, by [Pool.Load].
type Dump struct {
	// Journal is the record; whoever has it can read it, unless it is sealed, and
	// change nothing.
	Journal []byte
	// Head says where it ends. Kept where the keeper of the journal cannot go back, it
	// makes sure that nobody loads an older one; so does Count.
	Head  []byte
	Count uint64
}

// Dump returns the session as it is between feeds, or where it waits for Resume.
// While it runs it is refused with [SessionBusy]. The session goes on.
func (s *Session) Dump() (*Dump, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	head, err := s.w.Head().Marshal(s.pool.ring, s.owner)
	if err != nil {
		return nil, because(SessionJournal, err, "its head")
	}
	return &Dump{Journal: slices.Clone(s.keep.bytes), Head: head, Count: s.w.Head().Count}, nil
}
