package agent

import (
	"context"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/journal"
)

// keeper keeps a journal in memory, where replays read it, and in a store, if the
// session is held there: first there, so that what is in memory is never more.
type keeper struct {
	bytes []byte
	lease store.Lease
	heads *journal.Heads
}

// mostGrowth is how much room is made at most for what is still to come.
const mostGrowth = 8 << 20

// storeTimeout bounds one write to a store.
const storeTimeout = 30 * time.Second

// Append commits a frame with its head.
func (k *keeper) Append(frame []byte, head journal.Head) error {
	if k.lease != nil {
		text, err := k.heads.Marshal(head)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		if err := k.lease.Append(ctx, frame, text); err != nil {
			return err
		}
	}
	if n := len(k.bytes) + len(frame); n > cap(k.bytes) { // twice as much: append alone moves a long journal often
		k.bytes = slices.Grow(k.bytes, max(n, min(2*n, n+mostGrowth))-len(k.bytes))
	}
	k.bytes = append(k.bytes, frame...)
	return nil
}
