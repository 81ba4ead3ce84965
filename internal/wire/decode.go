package wire

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
)

// Decode returns what v stands for; see the types beside Object for what that
// may be. Nothing of the result is part of v. The error is ErrMalformed, or a
// LimitError if v is well formed as far as it was read.
//
// Memory is bounded before it is taken: each element of a container still to
// come is owed a word of the structure, so that lengths that lie find an end.
func Decode(v Value, b Budget) (any, error) {
	result, _, err := DecodeCounted(v, b)
	return result, err
}

// DecodeCounted is Decode, and says how many bytes of memory it has counted
// against the budget's Memory.
func DecodeCounted(v Value, b Budget) (result any, memory int, err error) {
	p, err := v.Parts()
	if err != nil {
		return nil, 0, err
	}
	if len(v) > MaxValue {
		return nil, 0, &LimitError{"value", MaxValue}
	}
	r := &valueReader{b: b.fill(len(v)), words: p.Words, heap: newHeapReader(p), bytes: p.Bytes, owed: 1}
	result, err = r.value(false)
	switch {
	case err != nil:
		return nil, r.memory, err
	case len(r.words) > 0 || r.heap.left() > 0 || len(r.bytes) > 0:
		return nil, r.memory, malformed("left over: %d words, %d units, %d bytes", len(r.words)/8, r.heap.left(), len(r.bytes))
	}
	return result, r.memory, nil
}

type valueReader struct {
	b      Budget
	words  []byte
	heap   heapReader
	bytes  []byte
	shapes [][]string
	nodes  int
	depth  int
	owed   int // values that containers have been promised and are still to come
	memory int
	keys   keySet
}

var errShort = malformed("structure ends early")

// float reads any word.
func (r *valueReader) float() (float64, error) {
	if len(r.words) < 8 {
		return 0, errShort
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64(r.words))
	r.words = r.words[8:]
	return f, nil
}

// num reads a word that is an integer from 0 to limit in its one form.
func (r *valueReader) num(limit int) (int, error) {
	if len(r.words) < 8 {
		return 0, errShort
	}
	bits := binary.LittleEndian.Uint64(r.words)
	r.words = r.words[8:]
	f := math.Float64frombits(bits)
	if f >= 0 && f <= float64(limit) {
		if n := int(f); math.Float64bits(float64(n)) == bits {
			return n, nil
		}
	}
	return 0, malformed("word %v, limit %d", f, limit)
}

// charge accounts for n bytes of Go's memory.
func (r *valueReader) charge(n int) error {
	if r.memory += n; r.memory > r.b.Memory {
		return &LimitError{"memory", r.b.Memory}
	}
	return nil
}

// The bytes that a node takes, beside the slot that its container has for it.
const (
	slotSize   = 16
	stringSize = 16
	floatSize  = 8
	objectSize = 48 // of Object, Map and Error
	smallSize  = 32 // of Set, Bytes, big.Int and the header of an array
)

func (r *valueReader) value(inArray bool) (any, error) {
	r.owed--
	r.nodes++ // enter has looked at the budget
	t, err := r.num(int(tagsEnd) - 1)
	if err != nil {
		return nil, err
	}
	switch tag(t) {
	case tagUndefined:
		return Undefined{}, nil
	case tagNull:
		return nil, nil
	case tagFalse:
		return false, nil
	case tagTrue:
		return true, nil
	case tagNumber:
		return r.number()
	case tagString:
		return r.str()
	case tagObject:
		return r.object()
	case tagArray:
		return r.array()
	case tagHole:
		if inArray {
			return Hole{}, nil
		}
		return nil, malformed("a hole outside an array")
	default:
		return r.rare(tag(t))
	}
}

func (r *valueReader) rare(t tag) (any, error) {
	switch t {
	case tagBigInt:
		return r.bigint()
	case tagMap:
		return r.entries()
	case tagSet:
		return r.set()
	case tagDate:
		return r.date()
	case tagError:
		return r.failure()
	case tagBytes:
		return r.data()
	}
	return nil, malformed("tag %d", int(t))
}

func (r *valueReader) number() (any, error) {
	f, err := r.float()
	if err == nil {
		err = r.charge(floatSize)
	}
	return canonical(f), err
}

func (r *valueReader) date() (any, error) {
	f, err := r.float()
	if err == nil && !validDate(f) {
		err = malformed("date %v", f)
	}
	if err == nil {
		err = r.charge(floatSize)
	}
	return Date(canonical(f)), err
}

// text reads a length, and that much of the heap.
func (r *valueReader) text() (string, error) {
	n, err := r.num(r.heap.left())
	if err != nil {
		return "", err
	}
	s := r.heap.take(n)
	return s, r.charge(len(s))
}

func (r *valueReader) str() (any, error) {
	s, err := r.text()
	if err == nil {
		err = r.charge(stringSize)
	}
	return s, err
}

func (r *valueReader) failure() (any, error) {
	v := new(Error)
	for _, s := range []*string{&v.Name, &v.Message, &v.Stack} {
		var err error
		if *s, err = r.text(); err != nil {
			return nil, err
		}
	}
	return v, r.charge(objectSize)
}

// nibbles has the value of each hexadecimal digit, and 255 for what is none.
var nibbles = func() (all [256]byte) {
	for i := range all {
		all[i] = 255
	}
	for i, c := range "0123456789abcdef" {
		all[c] = byte(i)
	}
	return all
}()

func (r *valueReader) bigint() (any, error) {
	n, err := r.num(r.heap.left())
	if err != nil {
		return nil, err
	}
	if n > MaxBigInt+1 {
		return nil, &LimitError{"bigint", MaxBigInt}
	}
	// The text and twice the number at most, while one is made of the other.
	if err := r.charge(2*n + smallSize); err != nil {
		return nil, err
	}
	s := r.heap.take(n)
	negative := n > 0 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	if s == "" || len(s) > MaxBigInt || s[0] == '0' && (len(s) > 1 || negative) {
		return nil, malformed("bigint")
	}
	raw := make([]byte, (len(s)+1)/2)
	for i := range len(s) {
		d := nibbles[s[len(s)-1-i]]
		if d > 15 {
			return nil, malformed("bigint")
		}
		raw[len(raw)-1-i/2] |= d << (4 * (i % 2))
	}
	v := new(big.Int).SetBytes(raw)
	if negative {
		v.Neg(v)
	}
	return v, nil
}

func (r *valueReader) data() (any, error) {
	kind, err := r.num(int(kindsEnd) - 1)
	if err != nil {
		return nil, err
	}
	n, err := r.num(len(r.bytes))
	if err != nil {
		return nil, err
	}
	k := BytesKind(kind)
	if n%k.Size() != 0 {
		return nil, malformed("%d bytes as %v", n, k)
	}
	if err := r.charge(smallSize + n); err != nil {
		return nil, err
	}
	v := &Bytes{Kind: k, Data: append(make([]byte, 0, n), r.bytes[:n]...)}
	r.bytes = r.bytes[n:]
	return v, nil
}

// enter begins a container with n values, each of which takes a word at least,
// in elements elements, and charges for their slots.
func (r *valueReader) enter(n, elements, size int) error {
	if elements > r.b.Elements {
		return &LimitError{"elements", r.b.Elements}
	}
	if r.depth++; r.depth > r.b.Depth {
		return &LimitError{"depth", r.b.Depth}
	}
	if r.owed += n; r.owed > len(r.words)/8 {
		return errShort
	}
	if r.owed > r.b.Nodes-r.nodes {
		return &LimitError{"nodes", r.b.Nodes}
	}
	return r.charge(size + n*slotSize)
}

func (r *valueReader) fill(values []any, inArray bool) (err error) {
	for i := range values {
		if values[i], err = r.value(inArray); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

func (r *valueReader) array() (any, error) {
	n, err := r.num(len(r.words) / 8)
	if err != nil {
		return nil, err
	}
	if err := r.enter(n, n, smallSize); err != nil {
		return nil, err
	}
	v := make([]any, n)
	return v, r.fill(v, true)
}

func (r *valueReader) set() (any, error) {
	n, err := r.num(len(r.words) / 8)
	if err != nil {
		return nil, err
	}
	if err := r.enter(n, n, smallSize); err != nil {
		return nil, err
	}
	v := &Set{make([]any, n)}
	return v, r.fill(v.Values, false)
}

func (r *valueReader) entries() (any, error) {
	n, err := r.num(len(r.words) / 16)
	if err != nil {
		return nil, err
	}
	if err := r.enter(2*n, n, objectSize); err != nil {
		return nil, err
	}
	v := &Map{make([]any, n), make([]any, n)}
	for i := range n {
		if v.Keys[i], err = r.value(false); err != nil {
			return nil, err
		}
		if v.Values[i], err = r.value(false); err != nil {
			return nil, err
		}
	}
	r.depth--
	return v, nil
}

func (r *valueReader) object() (any, error) {
	n, err := r.num(len(r.shapes))
	if err != nil {
		return nil, err
	}
	if n == len(r.shapes) {
		if err := r.shape(); err != nil {
			return nil, err
		}
	}
	keys := r.shapes[n]
	if err := r.enter(len(keys), len(keys), objectSize); err != nil {
		return nil, err
	}
	v := newObject(keys)
	return v, r.fill(v.Values, false)
}

// newObject makes an object and the room of its values, in one allocation if
// they are few.
func newObject(keys []string) *Object {
	n := len(keys)
	switch {
	case n == 0:
		return &Object{Keys: keys}
	case n <= 2:
		v := new(struct {
			Object
			room [2]any
		})
		v.Keys, v.Values = keys, v.room[:n:n]
		return &v.Object
	case n <= 4:
		v := new(struct {
			Object
			room [4]any
		})
		v.Keys, v.Values = keys, v.room[:n:n]
		return &v.Object
	case n <= 6:
		v := new(struct {
			Object
			room [6]any
		})
		v.Keys, v.Values = keys, v.room[:n:n]
		return &v.Object
	}
	return &Object{keys, make([]any, n)}
}

// shape reads the keys of a new shape.
func (r *valueReader) shape() error {
	n, err := r.num(len(r.words) / 16) // a length and a value for each
	if err != nil {
		return err
	}
	if n > r.b.Elements {
		return &LimitError{"elements", r.b.Elements}
	}
	// The key, a list of shapes that doubles when it grows, the set of keys.
	if err := r.charge(n*stringSize + 3*24 + 4*slotsFor(n)); err != nil {
		return err
	}
	keys := make([]string, n)
	for i := range keys {
		if keys[i], err = r.text(); err != nil {
			return err
		}
	}
	if ok, err := r.keys.distinct(keys); err != nil {
		return err
	} else if !ok {
		return malformed("a key twice")
	}
	if len(r.shapes) == cap(r.shapes) { // append alone would grow by a quarter at a time, and throw away more
		r.shapes = slices.Grow(r.shapes, max(4, len(r.shapes)))
	}
	r.shapes = append(r.shapes, keys)
	return nil
}
