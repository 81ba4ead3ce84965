package store

import (
	"context"
	"fmt"
	"sync"
)

// bells wake those who wait for a key within this process. Nothing is kept for
// a key that nobody waits for.
type bells struct {
	mu sync.Mutex
	m  map[Key]*bell
}

type bell struct {
	rung    chan struct{}
	waiters int
}

// listen returns what is closed at the next ring, and how to stop listening.
func (b *bells) listen(k Key) (rung <-chan struct{}, leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		b.m = map[Key]*bell{}
	}
	one := b.m[k]
	if one == nil {
		one = &bell{rung: make(chan struct{})}
		b.m[k] = one
	}
	one.waiters++
	return one.rung, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if one.waiters--; one.waiters == 0 && b.m[k] == one {
			delete(b.m, k)
		}
	}
}

// ring wakes all who wait for a key.
func (b *bells) ring(k Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.m[k]; one != nil {
		close(one.rung)
		delete(b.m, k)
	}
}

// busy is the error of one who waited in vain.
func busy(ctx context.Context, why string) error {
	if ctx.Err() == nil {
		return fmt.Errorf("%w: %s", ErrBusy, why)
	}
	return fmt.Errorf("%w: %s: %w", ErrBusy, why, context.Cause(ctx))
}

// bounds judges sizes: have is what the journal has already.
func bounds(have, frames, head int) error {
	if head > MaxHead {
		return fmt.Errorf("%w: a head of %d bytes", ErrTooLarge, head)
	}
	if have > MaxJournal || frames > MaxJournal-have {
		return fmt.Errorf("%w: a journal of more than %d bytes", ErrTooLarge, MaxJournal)
	}
	return nil
}
