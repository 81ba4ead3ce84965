package store

import (
	"bytes"
	"context"
	"sync"
)

// memory keeps sessions in this process.
type memory struct {
	bells bells
	done  chan struct{} // closed by Close

	mu       sync.Mutex
	closed   bool
	fence    uint64 // of the last lease of any session
	sessions map[Key]*memorySession
}

type memorySession struct {
	mu            sync.Mutex
	journal, head []byte
	committed     bool
	holder        *memoryLease // guarded by both mutexes: either may read it
}

// NewMemory makes a store that ends with the process. A lease lasts until it is
// released, closed or taken over: who holds it lives as long as the store does.
func NewMemory() Store {
	return &memory{sessions: map[Key]*memorySession{}, done: make(chan struct{})}
}

// Ephemeral says that nothing of the store outlives the program.
func (m *memory) Ephemeral() bool { return true }

func (m *memory) Acquire(ctx context.Context, k Key, o AcquireOptions) (Lease, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for {
		rung, leave := m.bells.listen(k)
		l, err := m.try(k, o)
		if l != nil || err != nil {
			leave()
			if err != nil {
				return nil, err
			}
			return l, nil
		}
		const why = "a lease of this process has it"
		if o.NoWait {
			leave()
			return nil, busy(ctx, why)
		}
		select {
		case <-rung:
		case <-m.done:
		case <-ctx.Done():
			leave()
			return nil, busy(ctx, why)
		}
		leave()
	}
}

// try returns neither lease nor error where somebody holds the session.
func (m *memory) try(k Key, o AcquireOptions) (*memoryLease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	s := m.sessions[k]
	if s == nil {
		if !o.Create {
			return nil, ErrNotFound
		}
		s = &memorySession{}
		m.sessions[k] = s
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.holder == nil:
	case o.Takeover:
		s.holder.end(ErrFenced)
	default:
		return nil, nil
	}
	m.fence++
	l := &memoryLease{m: m, s: s, key: k, fence: m.fence, lost: make(chan struct{})}
	s.holder = l
	return l, nil
}

func (m *memory) List(ctx context.Context, owner string) ([]Info, error) {
	if err := CheckOwner(owner); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	var all []Info
	for k, s := range m.sessions {
		if k.Owner != owner {
			continue
		}
		s.mu.Lock()
		if s.committed {
			all = append(all, Info{Key: k, Bytes: int64(len(s.journal)), Held: s.holder != nil})
		}
		s.mu.Unlock()
	}
	return all, nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	close(m.done)
	for _, s := range m.sessions {
		s.mu.Lock()
		if s.holder != nil {
			s.holder.end(ErrClosed)
			s.holder = nil
		}
		s.mu.Unlock()
	}
	m.sessions = nil
	return nil
}

type memoryLease struct {
	m     *memory
	s     *memorySession
	key   Key
	fence uint64
	lost  chan struct{}
	over  error // why it holds no longer; guarded by s.mu
}

// end is called with s.mu held, once.
func (l *memoryLease) end(why error) {
	l.over = why
	close(l.lost)
}

func (l *memoryLease) Key() Key              { return l.key }
func (l *memoryLease) Fence() uint64         { return l.fence }
func (l *memoryLease) Lost() <-chan struct{} { return l.lost }

func (l *memoryLease) Load(ctx context.Context) (Record, error) {
	if err := context.Cause(ctx); err != nil {
		return Record{}, err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.over != nil {
		return Record{}, l.over
	}
	return Record{bytes.Clone(l.s.journal), bytes.Clone(l.s.head)}, nil
}

func (l *memoryLease) Append(ctx context.Context, frames, head []byte) error {
	return l.commit(ctx, frames, head, false)
}

func (l *memoryLease) Replace(ctx context.Context, journal, head []byte) error {
	return l.commit(ctx, journal, head, true)
}

func (l *memoryLease) commit(ctx context.Context, frames, head []byte, whole bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.over != nil {
		return l.over
	}
	have := len(s.journal)
	if whole {
		have = 0
	}
	if err := bounds(have, len(frames), len(head)); err != nil {
		return err
	}
	if whole {
		s.journal = nil // what was larger is given back
	}
	s.journal = append(s.journal, frames...)
	s.head = append(s.head[:0], head...)
	s.committed = true
	return nil
}

func (l *memoryLease) Delete(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return l.drop(true)
}

func (l *memoryLease) Release(context.Context) error {
	_ = l.drop(false) // over already: nothing to give back
	return nil
}

// drop ends the lease, and the session where it is to go or was never anything.
func (l *memoryLease) drop(remove bool) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.over != nil {
		return l.over
	}
	l.end(ErrReleased)
	l.s.holder = nil
	if remove || !l.s.committed {
		delete(l.m.sessions, l.key)
	}
	l.m.bells.ring(l.key)
	return nil
}
