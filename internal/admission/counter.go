package admission

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/queue"
)

// A counter has what was charged in one hour of the store's clock, once for each id. The
// counters of a client and of its network lie in one part, so that all that a run is
// charged for is one compare and swap.

const (
	window = hour
	// maxCharges is how many charges a counter has room for.
	maxCharges = 4096
	chargeSize = 12
)

type counter struct {
	begin   int64 // of its window, in ms since 1970
	charges []charge
}

type charge struct {
	id uint64
	n  uint32
}

func (c *counter) encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(c.begin))
	for _, e := range c.charges {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, e.id), e.n)
	}
	return b
}

func decodeCounter(b []byte) (*counter, error) {
	if len(b) < 8 || (len(b)-8)%chargeSize != 0 || len(b) > 8+maxCharges*chargeSize {
		return nil, fmt.Errorf("%w: a counter", queue.ErrDamaged)
	}
	c := &counter{begin: int64(binary.LittleEndian.Uint64(b))}
	for e := range slices.Chunk(b[8:], chargeSize) {
		c.charges = append(c.charges, charge{binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint32(e[8:])})
	}
	return c, nil
}

func (c *counter) used() (sum int64) {
	for _, e := range c.charges {
		sum += int64(e.n)
	}
	return sum
}

func (c *counter) find(id uint64) int {
	return slices.IndexFunc(c.charges, func(e charge) bool { return e.id == id })
}

// roll begins a new window when it is time. A clock that goes back does not: at doubt
// what was charged stands, for two windows at most.
func (c *counter) roll(now time.Time) {
	begin := windowOf(now)
	if begin > c.begin || c.begin > begin+window.Milliseconds() {
		c.begin, c.charges = begin, nil
	}
}

func windowOf(now time.Time) int64 {
	return now.UnixMilli() / window.Milliseconds() * window.Milliseconds()
}

func (c *counter) reset() time.Time { return time.UnixMilli(c.begin).Add(window).UTC() }

// over is whether a counter's window is so long ago that no clock goes back to it.
func over(now time.Time) func(data []byte) bool {
	return func(data []byte) bool {
		c, err := decodeCounter(data)
		return err == nil && c.begin < windowOf(now)-window.Milliseconds()
	}
}

// tally is the counters of a part.
type tally struct {
	*part
	now time.Time
	err error // one of them was damaged
}

func counterName(token string) name {
	sum := sha256.Sum256([]byte(token))
	return name(sum[:16])
}

// of is the counter of a token.
func (t *tally) of(token string) *counter {
	c := &counter{}
	if data, ok := t.entries[counterName(token)]; ok {
		read, err := decodeCounter(data)
		if err != nil {
			t.err = err
		} else {
			c = read
		}
	}
	c.roll(t.now)
	return c
}

func chargeID(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.LittleEndian.Uint64(sum[:])
}

// room says whether a counter takes an amount more.
func (c *counter) room(n, limit int64) bool {
	return len(c.charges) < maxCharges && c.used()+n <= limit
}

// add charges an id, once.
func (t *tally) add(token string, c *counter, id string, n uint32) {
	sum := chargeID(id)
	if c.find(sum) < 0 && len(c.charges) < maxCharges {
		c.charges = append(c.charges, charge{sum, n})
		t.set(counterName(token), c.encode())
	}
}

// remove takes a charge back.
func (t *tally) remove(token, id string) {
	c := t.of(token)
	if i := c.find(chargeID(id)); i >= 0 {
		c.charges = slices.Delete(c.charges, i, i+1)
		t.set(counterName(token), c.encode())
	}
}

// tally reads the counters of a client, and writes what f changes.
func (a *Admission) tally(ctx context.Context, c Client, f func(*tally) error) error {
	p, at := a.countersOf(c)
	return p.change(ctx, at, func(part *part) error {
		t := &tally{part: part, now: a.o.Queue.Now()}
		err := f(t)
		if t.err != nil {
			return t.err
		}
		return err
	})
}

// countersOf is where a client's counters are. All of a network are in one part: the
// first digits of Net and Wide are the same.
func (a *Admission) countersOf(c Client) (*packed, string) {
	if id, ok := strings.CutPrefix(c.ID, "key-k"); ok {
		return &a.keyQuotas, id[:digits]
	}
	return a.countersAt(c)
}

// countersAt is where the counters of a client's address are.
func (a *Admission) countersAt(c Client) (*packed, string) {
	id := strings.TrimPrefix(c.Net, "net-")
	if len(id) < digits {
		id = strings.Repeat("0", digits) // the operator's, which are none
	}
	return &a.quotas, id[:digits]
}
