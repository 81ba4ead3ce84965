package natskv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/glovebox-dev/glovebox/agent/store"
)

type lease struct {
	s     *kvStore
	key   store.Key
	name  string
	fence uint64
	lost  chan struct{}

	mu       sync.Mutex
	over     error  // why it holds no longer
	v        *value // as it is in the bucket; never changed, only replaced
	revision uint64
	turn     uint64 // of the parts that are written next
}

func (l *lease) Key() store.Key        { return l.key }
func (l *lease) Fence() uint64         { return l.fence }
func (l *lease) Lost() <-chan struct{} { return l.lost }

// enter locks the lease, if it holds.
func (l *lease) enter(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	if l.over != nil {
		l.mu.Unlock()
		return l.over
	}
	return nil
}

// finish ends the lease, with mu held.
func (l *lease) finish(why error) {
	l.over = why
	close(l.lost)
	l.s.mu.Lock()
	delete(l.s.leases, l.name)
	l.s.mu.Unlock()
}

// see looks whether the lease still holds, and ends it if not.
func (l *lease) see() {
	ctx, cancel := l.s.bounded(context.Background())
	defer cancel()
	if l.enter(ctx) == nil {
		_ = l.check(ctx)
		l.mu.Unlock()
	}
}

// check asks the bucket whether another has the session. An answer that is late
// says nothing; with mu held.
func (l *lease) check(ctx context.Context) error {
	v, revision, err := l.s.get(ctx, l.key)
	if err != nil {
		return err
	}
	if revision > l.revision && v.lease != l.name {
		l.finish(store.ErrFenced)
		return store.ErrFenced
	}
	return nil
}

// swap puts a value in the place of the one that this lease put there before. It
// goes on asking while it is not known what came of it: the same value in the
// place of the same revision is written once at most.
func (l *lease) swap(ctx context.Context, next *value) error {
	ctx, cancel := l.s.bounded(ctx)
	defer cancel()
	doubt := false
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		revision, err := l.s.put(ctx, next, l.revision)
		switch {
		case err == nil:
			l.v, l.revision = next, revision
			return nil
		case isMismatch(err):
			v, revision, err := l.s.get(ctx, next.key)
			switch {
			case err != nil || revision > 0 && revision <= l.revision: // an answer of a replica that is behind
				doubt = true
			case revision > 0 && bytes.Equal(v.encode(), next.encode()):
				l.v, l.revision = next, revision // the first time it came through
				return nil
			default:
				l.finish(store.ErrFenced)
				return store.ErrFenced
			}
		case refused(err) && !doubt:
			return err
		default:
			doubt = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			err = fmt.Errorf("it is not known whether the bucket has it: %w", errors.Join(err, context.Cause(ctx)))
			l.finish(err) // others wait for the TTL: no beat names this lease any more
			return err
		}
	}
}

// refused says that a server or client has refused a message: nothing was written.
func refused(err error) bool {
	_, answered := errors.AsType[*jetstream.APIError](err)
	return answered || errors.Is(err, nats.ErrMaxPayload)
}

func (l *lease) Load(ctx context.Context) (store.Record, error) {
	if err := l.enter(ctx); err != nil {
		return store.Record{}, err
	}
	defer l.mu.Unlock()
	if err := l.check(ctx); err != nil {
		return store.Record{}, err
	}
	journal, err := l.journal(ctx)
	if err != nil {
		return store.Record{}, err
	}
	return store.Record{Journal: journal, Head: bytes.Clone(l.v.head)}, nil
}

// journal puts the parts together.
func (l *lease) journal(ctx context.Context) ([]byte, error) {
	v := l.v
	if len(v.ranges) == 0 {
		return bytes.Clone(v.tail), nil
	}
	parts := map[string][]byte{}
	var keys, names []string
	for _, c := range v.ranges {
		keys = append(keys, c.prefix(v.key)+".*")
		for n := range c.count {
			names = append(names, c.name(v.key, n))
		}
	}
	// A replica may be behind: then it is asked again.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		for some := range slices.Chunk(keys, 64) {
			err := l.s.each(ctx, slices.Clone(some), func(e jetstream.KeyValueEntry) { parts[e.Key()] = e.Value() })
			if err != nil {
				return nil, err
			}
		}
		journal := make([]byte, 0, v.bytes)
		missing := 0
		for _, name := range names {
			part, ok := parts[name]
			if !ok {
				missing++
			}
			journal = append(journal, part...)
		}
		journal = append(journal, v.tail...)
		switch {
		case missing == 0 && uint64(len(journal)) == v.bytes:
			return journal, nil
		case missing == 0:
			return nil, fmt.Errorf("%w: the parts have %d bytes, not %d", store.ErrDamaged, len(journal), v.bytes)
		}
		if err := l.check(ctx); err != nil { // whoever has it may have written it anew
			return nil, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %d parts are not there", store.ErrDamaged, missing)
		}
	}
}

func (l *lease) Append(ctx context.Context, frames, head []byte) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	next := *l.v
	next.tail = slices.Concat(l.v.tail, frames)
	return l.commit(ctx, &next, uint64(len(frames))+next.bytes, head)
}

func (l *lease) Replace(ctx context.Context, journal, head []byte) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	old := l.v
	next := *old
	next.tail, next.ranges = bytes.Clone(journal), nil
	l.turn++
	if err := l.commit(ctx, &next, uint64(len(journal)), head); err != nil {
		return err
	}
	if len(old.ranges) > 0 {
		l.tidy(ctx)
	}
	return nil
}

// commit writes what does not fit into the value as parts, and then the value.
func (l *lease) commit(ctx context.Context, next *value, size uint64, head []byte) error {
	switch {
	case len(head) > store.MaxHead:
		return fmt.Errorf("%w: a head of %d bytes", store.ErrTooLarge, len(head))
	case size > maxJournal:
		return fmt.Errorf("%w: a journal of more than %d bytes", store.ErrTooLarge, maxJournal)
	}
	next.head, next.bytes = bytes.Clone(head), size
	next.seq++
	if len(next.tail) > maxTail {
		if err := l.parts(ctx, next); err != nil {
			l.turn++ // what came through of these is never a part of anything
			return err
		}
	}
	return l.swap(ctx, next)
}

// parts writes the tail as parts.
func (l *lease) parts(ctx context.Context, next *value) error {
	c := chunks{fence: l.fence, turn: l.turn}
	ranges := slices.Clone(next.ranges)
	if n := len(ranges); n > 0 && ranges[n-1].fence == c.fence && ranges[n-1].turn == c.turn {
		c = ranges[n-1]
		ranges = ranges[:n-1]
	}
	if len(ranges) == maxRanges {
		return fmt.Errorf("%w: a journal of more than %d ranges of parts", store.ErrTooLarge, maxRanges)
	}
	for part := range slices.Chunk(next.tail, l.s.chunk) {
		if _, err := l.s.kv.Create(ctx, c.name(next.key, c.count), part); err != nil {
			return err
		}
		c.count++
	}
	next.ranges, next.tail = append(ranges, c), nil
	return nil
}

// tidy removes parts that are no longer any, as far as that goes: a lease that was
// replaced may have left some.
func (l *lease) tidy(ctx context.Context) {
	ctx, cancel := l.s.bounded(ctx)
	defer cancel()
	lister, err := l.s.kv.ListKeysFiltered(ctx, sessionKey(l.key)+".c.>")
	if err != nil {
		return
	}
	old := map[chunks]bool{}
	for name := range lister.Keys() {
		f := strings.Split(name, ".")
		if len(f) < 4 {
			continue
		}
		f = f[len(f)-3:]
		fence, err1 := strconv.ParseUint(f[0], 10, 64)
		turn, err2 := strconv.ParseUint(f[1], 10, 64)
		// Whoever holds it after this lease has a larger number.
		if err1 == nil && err2 == nil && fence <= l.fence {
			old[chunks{fence: fence, turn: turn}] = true
		}
	}
	for _, c := range l.v.ranges {
		delete(old, chunks{fence: c.fence, turn: c.turn})
	}
	for c := range old {
		_ = l.s.purge(ctx, c.prefix(l.v.key)+".*", 0)
	}
}

func (l *lease) Delete(ctx context.Context) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	return l.remove(ctx, store.ErrReleased)
}

// remove puts a value there that says that there is no session, and takes away
// all that is not newer: a session that another begins meanwhile is.
func (l *lease) remove(ctx context.Context, why error) error {
	if err := l.swap(ctx, &value{key: l.key, deleted: true}); err != nil {
		return err
	}
	l.finish(why)
	step, cancel := l.s.bounded(ctx)
	defer cancel()
	err := l.s.purge(step, sessionKey(l.key)+".>", l.revision+1)
	l.free()
	return err
}

// free tells those who wait.
func (l *lease) free() { _ = l.s.nc.Publish(l.s.subject("free", sessionKey(l.key)), nil) }

func (l *lease) Release(ctx context.Context) error { return l.give(ctx, store.ErrReleased) }

// give lets others have the session. Without an answer they have to wait for the TTL.
func (l *lease) give(ctx context.Context, why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return nil
	}
	var err error
	if l.v.seq == 0 {
		err = l.remove(ctx, why)
	} else {
		next := *l.v
		next.lease, next.store = "", ""
		if err = l.swap(ctx, &next); err == nil {
			l.free()
		}
	}
	if l.over == nil {
		l.finish(why)
	}
	if errors.Is(err, store.ErrFenced) {
		return nil
	}
	return err
}
