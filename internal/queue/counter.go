package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"time"

	"crypto/sha256"
)

var (
	// ErrQuota says that a charge would be more than the limit: nothing was charged.
	ErrQuota = errors.New("queue: the quota is used up")
	// ErrContended says that others changed a counter each time before this one could:
	// nothing was charged.
	ErrContended = errors.New("queue: too many change this at once")
)

// Charge is an amount that is counted once, by its id, in a window of time.
type Charge struct {
	// ID says what it is for: charged twice within a window, it counts once. A token.
	ID string
	// N is the amount, 1 at least, and Limit what all of a window have together at most.
	N, Limit uint32
	// Window is how long a window is, 1 s to the bucket's TTL: windows begin at
	// multiples of it, UTC.
	Window time.Duration
}

// Usage is the state of a counter.
type Usage struct {
	Used, Limit uint32
	// Reset is when the window ends.
	Reset time.Time
}

const (
	// maxCharges is how many charges a window of one counter can have.
	maxCharges = 4096
	sizeCharge = 12
	casTries   = 32
)

// counter is what a bucket has for one: the window's number and what was charged.
type counter struct {
	window  int64 // its beginning, in ms since 1970
	charges []charged
}

type charged struct {
	id uint64
	n  uint32
}

func (c *counter) encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(c.window))
	for _, e := range c.charges {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, e.id), e.n)
	}
	return b
}

func decodeCounter(b []byte) (*counter, error) {
	if len(b) < 8 || (len(b)-8)%sizeCharge != 0 || len(b) > 8+maxCharges*sizeCharge {
		return nil, fmt.Errorf("%w: a counter", ErrDamaged)
	}
	c := &counter{window: int64(binary.LittleEndian.Uint64(b))}
	for e := range slices.Chunk(b[8:], sizeCharge) {
		c.charges = append(c.charges, charged{binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint32(e[8:])})
	}
	return c, nil
}

func (c *counter) used() uint64 {
	sum := uint64(0)
	for _, e := range c.charges {
		sum += uint64(e.n)
	}
	return sum
}

func (c *counter) find(id uint64) int {
	return slices.IndexFunc(c.charges, func(e charged) bool { return e.id == id })
}

// roll begins a new window when it is time. A clock that goes back does not: at
// doubt what was charged stands, for two windows at most.
func (c *counter) roll(now time.Time, window time.Duration) {
	w := window.Milliseconds()
	begin := now.UnixMilli() / w * w
	if begin > c.window || c.window > begin+w {
		c.window, c.charges = begin, nil
	}
}

func (c *counter) usage(limit uint32, window time.Duration) Usage {
	return Usage{Used: uint32(min(c.used(), 1<<32-1)), Limit: limit, Reset: time.UnixMilli(c.window).Add(window)}
}

func chargeID(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.LittleEndian.Uint64(sum[:])
}

// Charge counts an amount against a limit, once for each id, in one compare and swap:
// however many charge at once, from however many machines, the limit holds. The
// error is [ErrQuota], [ErrContended] or [ErrName], and nothing was charged; with others
// that is not known, and charging the same id again is right.
func (b *Bucket) Charge(ctx context.Context, key string, c Charge) (Usage, error) {
	if err := errors.Join(CheckToken(c.ID), CheckToken(key)); err != nil {
		return Usage{}, err
	}
	if c.N == 0 || c.Window < time.Second || c.Window > b.o.TTL {
		return Usage{}, fmt.Errorf("%w: a charge of %d in %v", ErrName, c.N, c.Window)
	}
	id := chargeID(c.ID)
	return b.change(ctx, key, c.Window, c.Limit, func(n *counter) error {
		switch {
		case n.find(id) >= 0:
			return errSame
		case n.used()+uint64(c.N) > uint64(c.Limit) || len(n.charges) == maxCharges:
			return ErrQuota
		}
		n.charges = append(n.charges, charged{id, c.N})
		return nil
	})
}

// Refund takes back what an id was charged in the window that is now, if it was. Only
// who knows the id can.
func (b *Bucket) Refund(ctx context.Context, key, id string, window time.Duration) (Usage, error) {
	if err := errors.Join(CheckToken(id), CheckToken(key)); err != nil {
		return Usage{}, err
	}
	sum := chargeID(id)
	return b.change(ctx, key, window, 0, func(n *counter) error {
		i := n.find(sum)
		if i < 0 {
			return errSame
		}
		n.charges = slices.Delete(n.charges, i, i+1)
		return nil
	})
}

// Used reads a counter and charges nothing.
func (b *Bucket) Used(ctx context.Context, key string, limit uint32, window time.Duration) (Usage, error) {
	n, _, err := b.counter(ctx, key, window)
	if err != nil {
		return Usage{}, err
	}
	return n.usage(limit, window), nil
}

// counter reads one, and the revision that it has; none is an empty one.
func (b *Bucket) counter(ctx context.Context, key string, window time.Duration) (*counter, uint64, error) {
	if window < time.Second {
		return nil, 0, fmt.Errorf("%w: a window of %v", ErrName, window)
	}
	n := &counter{}
	v, err := b.read(ctx, key)
	switch {
	case err == nil:
		if n, err = decodeCounter(v.Data); err != nil {
			return nil, 0, err
		}
	case !errors.Is(err, errNone):
		return nil, 0, err
	}
	n.roll(b.q.now(), window)
	return n, v.Revision, nil
}

// errSame says that there is nothing to write.
var errSame = errors.New("queue: nothing changes")

var lockSeed = maphash.MakeSeed()

// change is one compare and swap, tried a bounded number of times. In this process
// one at a time tries for a key.
func (b *Bucket) change(ctx context.Context, key string, window time.Duration, limit uint32, f func(*counter) error) (Usage, error) {
	mu := &b.charges[maphash.String(lockSeed, key)%uint64(len(b.charges))]
	mu.Lock()
	defer mu.Unlock()
	for try := range casTries {
		n, revision, err := b.counter(ctx, key, window)
		if err != nil {
			return Usage{}, err
		}
		err = f(n)
		if errors.Is(err, errSame) {
			return n.usage(limit, window), nil
		}
		if err != nil {
			return n.usage(limit, window), err
		}
		_, err = b.write(ctx, key, n.encode(), revision, 0)
		if err == nil {
			return n.usage(limit, window), nil
		}
		if !errors.Is(err, errConflict) {
			return Usage{}, err
		}
		select {
		case <-time.After(rand.N(time.Millisecond << min(try, 6))):
		case <-ctx.Done():
			return Usage{}, context.Cause(ctx)
		}
	}
	return Usage{}, ErrContended
}
