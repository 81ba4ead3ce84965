package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The server drops what is too old by itself, and at once nobody can read it. But its
// bytes stay in the store's files until all of a file is dropped, and the last file is
// never given up: with little traffic for weeks. So what is dropped is gone from the
// disk only if files are short in time: each is filled up after a part of the age, and
// a store that has nothing is emptied.

// aged is a stream whose messages are dropped at an age.
type aged struct {
	s     *stream
	token string // for the subject of what fills files up
	room  int64  // how much the stream holds
	size  int    // of one message; 0 if it is not filled up
	pause time.Duration

	// Of one sweep at a time.
	filled  time.Time
	emptied uint64 // the last number when it was emptied
	from    uint64 // the last number when its file was filled up
}

// maxFile is the largest file of the server's store:
// https://github.com/nats-io/nats-server/blob/main/server/filestore.go
const maxFile = 8 << 20

// keep makes a stream one that is swept.
func (q *Queue) keep(a *aged, ttl time.Duration) {
	a.pause, a.filled = max(ttl/8, time.Second), q.now()
	q.agedMu.Lock()
	defer q.agedMu.Unlock()
	for _, b := range q.aged {
		if b.s.name == a.s.name { // opened twice
			return
		}
	}
	q.aged = append(q.aged, a)
}

// sweeps goes on until the queue is closed.
func (q *Queue) sweeps() {
	tick := time.NewTicker(min(max(q.o.Retention/32, 100*time.Millisecond), time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-q.ctx.Done():
			return
		}
		q.sweep(q.ctx, false)
	}
}

// sweep does what is due; all of it, if now is set.
func (q *Queue) sweep(ctx context.Context, now bool) {
	q.agedMu.Lock()
	defer q.agedMu.Unlock()
	for _, a := range q.aged {
		err := q.empty(ctx, a)
		if err == nil && a.size > 0 && (now || q.now().Sub(a.filled) >= a.pause) {
			err = q.fill(ctx, a)
		}
		if err != nil && q.ctx.Err() == nil && !errors.Is(err, ErrFull) {
			q.o.Log.Warn("queue: sweep", "stream", a.s.name.s, "error", err)
		}
	}
}

// empty gives up the files of a stream that has no messages. What comes meanwhile has
// larger numbers, and stays.
func (q *Queue) empty(ctx context.Context, a *aged) error {
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	info, err := a.s.js.Info(ctx)
	if err != nil {
		return err
	}
	last := info.State.LastSeq
	if info.State.Msgs > 0 || last == a.emptied {
		return nil
	}
	if err := a.s.js.Purge(ctx, jetstream.WithPurgeSequence(last+1)); err != nil {
		return err
	}
	a.emptied, a.filled = last, q.now()
	return nil
}

// fill writes so much that the last file is full, and drops that.
func (q *Queue) fill(ctx context.Context, a *aged) error {
	info, err := a.s.js.Info(ctx)
	if err != nil {
		return err
	}
	if info.State.LastSeq == a.from {
		a.filled = q.now() // nothing has come since
		return nil
	}
	to, err := q.build(padSubject, a.token)
	if err != nil {
		return err
	}
	body := make([]byte, a.size)
	size := int64(maxFile)
	if a.room/4 < maxFile {
		size /= 2
	}
	for ; size > -int64(a.size); size -= int64(a.size) {
		if a.from, err = q.publish(ctx, outgoing{to: to, body: body}); err != nil {
			return err
		}
		if err := a.s.remove(ctx, a.from); err != nil && !errors.Is(err, errNone) {
			return err
		}
	}
	a.filled = q.now()
	return nil
}

// now is the store's clock.
func (q *Queue) now() time.Time { return time.Now().Add(time.Duration(q.ahead.Load())) }
