package admission

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// slowKey names a source of a client.
func (a *Admission) slowKey(client, sourceHash string) string {
	return a.o.Secret.Hash("slowed source", client, sourceHash)
}

// slowFor is how long the n-th loss slows a source.
func (a *Admission) slowFor(n uint64) time.Duration {
	d := a.o.SlowFor
	for ; n > 1 && d < day; n-- {
		d *= 2
	}
	return min(d, day)
}

// slowed refuses a source that has ended its executor.
func (a *Admission) slowed(ctx context.Context, c Client, sourceHash string) error {
	if sourceHash == "" {
		return nil
	}
	v, err := a.slow.Get(ctx, a.slowKey(c.ID, sourceHash))
	if errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	if err != nil || len(v.Data) != 8 {
		return a.failed("a slowed source cannot be read", errors.Join(err, queue.ErrDamaged))
	}
	until := v.Written.Add(a.slowFor(binary.LittleEndian.Uint64(v.Data)))
	if !a.o.Now().Before(until) {
		return nil
	}
	return &api.ServiceError{Code: api.CodeSlowed, RetryAfterMS: a.until(until, day),
		Message: "this program has ended what ran it before it had begun: it is refused for a time"}
}

// Lost says that a program has ended an executor: from now on its client is refused the
// source for a time, twice as long with each loss within two days. An executor that is given
// a job with losses calls it before it begins, so that it stands if that is the end of
// this executor too, and [Admission.Cleared] when the run has ended. The error is one
// of the queue.
func (a *Admission) Lost(ctx context.Context, client, sourceHash string) error {
	key := a.slowKey(client, sourceHash)
	for range casTries {
		v, err := a.slow.Get(ctx, key)
		n := uint64(1)
		switch {
		case errors.Is(err, queue.ErrNotFound):
			_, err = a.slow.Create(ctx, key, binary.LittleEndian.AppendUint64(nil, n), 0)
		case err != nil:
			return err
		default:
			if len(v.Data) == 8 {
				n += binary.LittleEndian.Uint64(v.Data)
			}
			_, err = a.slow.Update(ctx, key, binary.LittleEndian.AppendUint64(nil, n), v.Revision, 0)
		}
		if !errors.Is(err, queue.ErrExists) && !errors.Is(err, queue.ErrConflict) {
			return err
		}
	}
	return queue.ErrContended
}

// Cleared says that a program has run to its end after all. The error is one of the queue.
func (a *Admission) Cleared(ctx context.Context, client, sourceHash string) error {
	err := a.slow.Delete(ctx, a.slowKey(client, sourceHash), 0)
	if errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrConflict) {
		err = nil
	}
	return err
}
