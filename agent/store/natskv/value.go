package natskv

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/glovebox-dev/glovebox/agent/store"
)

// value is what a session is in the bucket.
type value struct {
	key     store.Key
	deleted bool
	store   string // the name of the store that holds it
	lease   string // the name of the lease, empty if nobody holds it
	seq     uint64 // commits so far
	bytes   uint64 // of the journal
	ranges  []chunks
	head    []byte
	tail    []byte // what is behind the parts
}

// chunks are parts of a journal: numbers 0 to count-1 that a lease has written in
// one go. Numbers of another go are other values, so that nothing is ever written
// over.
type chunks struct{ fence, turn, count uint64 }

const (
	kvMagic   = "GLOVEKV1"
	sizeName  = 16
	sizeRange = 24
)

// prefix is where the parts lie, but for their number.
func (c chunks) prefix(k store.Key) string {
	return fmt.Sprintf("%s.c.%d.%d", sessionKey(k), c.fence, c.turn)
}

func (c chunks) name(k store.Key, n uint64) string { return fmt.Sprintf("%s.%d", c.prefix(k), n) }

func (v *value) encode() []byte {
	b := make([]byte, 0, 128+len(v.key.Owner)+len(v.key.ID)+len(v.ranges)*sizeRange+len(v.head)+len(v.tail))
	b = append(b, kvMagic...)
	flags := byte(0)
	if v.deleted {
		flags = 1
	}
	b = append(b, flags)
	for _, name := range []string{v.store, v.lease} {
		b = append(b, byte(len(name)))
		b = append(b, name...)
	}
	b = binary.LittleEndian.AppendUint64(b, v.seq)
	b = binary.LittleEndian.AppendUint64(b, v.bytes)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(v.key.Owner)))
	b = append(b, v.key.Owner...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(v.key.ID)))
	b = append(b, v.key.ID...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(v.ranges)))
	for _, c := range v.ranges {
		b = binary.LittleEndian.AppendUint64(b, c.fence)
		b = binary.LittleEndian.AppendUint64(b, c.turn)
		b = binary.LittleEndian.AppendUint64(b, c.count)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(v.head)))
	return append(append(b, v.head...), v.tail...)
}

// decode reads what encode wrote. The error is store.ErrDamaged.
func decode(b []byte) (*value, error) {
	r := reader{b: b}
	if string(r.take(len(kvMagic))) != kvMagic {
		return nil, fmt.Errorf("%w: a value that does not begin like one of this version", store.ErrDamaged)
	}
	v := &value{deleted: r.number(1) != 0}
	v.store = string(r.take(r.length(1, sizeName)))
	v.lease = string(r.take(r.length(1, sizeName)))
	v.seq, v.bytes = r.number(8), r.number(8)
	v.key.Owner = string(r.take(r.length(2, store.MaxName)))
	v.key.ID = string(r.take(r.length(2, store.MaxName)))
	parts := uint64(0)
	for range r.length(4, maxRanges) {
		c := chunks{r.number(8), r.number(8), r.number(8)}
		v.ranges = append(v.ranges, c)
		parts += min(c.count, math.MaxUint32)
	}
	v.head = r.take(r.length(4, store.MaxHead))
	v.tail = r.take(len(r.b))
	switch {
	case r.short:
		return nil, fmt.Errorf("%w: a value that ends within itself", store.ErrDamaged)
	case v.bytes > maxJournal || parts > v.bytes || uint64(len(v.tail)) > v.bytes || v.key.Check() != nil:
		return nil, fmt.Errorf("%w: a value that says what cannot be", store.ErrDamaged)
	}
	return v, nil
}

// reader takes bytes off; what is not there is zero, and short is set.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.short, r.b = true, nil
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) number(size int) uint64 {
	var b [8]byte
	copy(b[:], r.take(size))
	return binary.LittleEndian.Uint64(b[:])
}

func (r *reader) length(size, most int) int {
	n := r.number(size)
	if n > uint64(most) {
		r.short, r.b = true, nil
		return 0
	}
	return int(n)
}

// hasName looks for a lease in a beat.
func hasName(beat []byte, name string) bool {
	for ; len(beat) >= sizeName; beat = beat[sizeName:] {
		if string(beat[:sizeName]) == name {
			return true
		}
	}
	return false
}

// String is for messages of tests.
func (v *value) String() string {
	return fmt.Sprintf("%q seq %d, %d bytes in %d ranges and %d, lease %s", v.key, v.seq, v.bytes, len(v.ranges), len(v.tail), hex.EncodeToString([]byte(v.lease)))
}
