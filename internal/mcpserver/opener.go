package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// reopen is how long a failure to open something stands before it is tried again: a
// host can be mended meanwhile.
const reopen = 5 * time.Second

// opener opens something once it is needed, for all who need it, and again after a
// failure.
type opener[T any] struct {
	make  func() (T, error)
	close func(T) error

	mu      sync.Mutex
	value   T
	opened  bool          // value is there, or was until shut
	shut    bool          // nothing is opened any more
	opening chan struct{} // closed when an attempt has ended
	failed  error
	tried   time.Time
}

// begin starts an attempt, if one is due.
func (o *opener[T]) begin() (wait chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opened || o.shut || o.opening != nil || !o.tried.IsZero() && time.Since(o.tried) < reopen {
		return o.opening
	}
	done := make(chan struct{})
	o.opening = done
	go func() {
		v, err := o.make()
		o.mu.Lock()
		defer o.mu.Unlock()
		defer close(done)
		o.opening, o.failed, o.tried = nil, err, time.Now()
		switch {
		case err != nil:
		case o.shut:
			_ = o.close(v)
		default:
			o.value, o.opened = v, true
		}
	}()
	return done
}

// get returns what was opened, and waits while it is being opened.
func (o *opener[T]) get(ctx context.Context) (v T, err error) {
	if wait := o.begin(); wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.shut:
		return v, glovebox.ErrClosed
	case !o.opened:
		return v, o.failed
	}
	return o.value, nil
}

// never is the error that kept it from ever being opened.
func (o *opener[T]) never() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opened {
		return nil
	}
	return o.failed
}

// end refuses from now on, and waits for an attempt that is on its way.
func (o *opener[T]) end() {
	o.mu.Lock()
	o.shut = true
	wait := o.opening
	o.mu.Unlock()
	if wait != nil {
		<-wait // it closes what it opened
	}
}

// release closes what was opened. It is called after end, once.
func (o *opener[T]) release() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.opened {
		return nil
	}
	return o.close(o.value)
}
