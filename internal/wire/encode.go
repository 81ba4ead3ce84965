package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sync"
)

// Encode returns the encoding of v, see AppendValue.
func Encode(v any, b Budget) (Value, error) { return AppendValue(nil, v, b) }

// AppendValue appends the encoding of v, one of the types that Decode returns,
// to dst. Memory of b has no meaning here. The error is ErrValue for what has
// no encoding, such as another type, text that is not WTF-8, a key that occurs
// twice or a nil pointer, and a LimitError for more than a budget or MaxValue.
// A cycle ends as too deep.
func AppendValue(dst []byte, v any, b Budget) ([]byte, error) {
	w := writers.Get().(*valueWriter)
	defer w.release()
	w.b = b.fill(0)
	if err := w.value(v); err != nil {
		return dst, err
	}
	p := Parts{Words: w.words, Heap: w.heap.b, Wide: w.heap.wide, Bytes: w.bytes}
	return p.append(slices.Grow(dst, headerSize+len(p.Words)+len(p.Heap)+len(p.Bytes))), nil
}

// writers are kept for their buffers. The largest are not.
var writers = sync.Pool{New: func() any { return new(valueWriter) }}

const keepWriter = 4 << 20

func (w *valueWriter) release() {
	if cap(w.words)+cap(w.heap.b)+cap(w.bytes)+4*cap(w.keys.slots) <= keepWriter {
		*w = valueWriter{words: w.words[:0], heap: heapWriter{b: w.heap.b[:0]}, bytes: w.bytes[:0], keys: w.keys}
		writers.Put(w)
	}
}

// recent is how many shapes an encoder looks back.
const recent = 8

type valueWriter struct {
	b      Budget
	words  []byte
	heap   heapWriter
	bytes  []byte
	nodes  int
	depth  int
	shapes int
	last   [recent][]string // keys of the shape with number n in last[n%recent]
	keys   keySet
}

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrValue, fmt.Sprintf(format, args...))
}

func (w *valueWriter) num(f float64) {
	w.words = binary.LittleEndian.AppendUint64(w.words, math.Float64bits(f))
}

func (w *valueWriter) head(t tag, operands ...int) {
	w.num(float64(t))
	for _, n := range operands {
		w.num(float64(n))
	}
}

func (w *valueWriter) room() error {
	if headerSize+len(w.words)+len(w.heap.b)+len(w.bytes) > MaxValue {
		return &LimitError{"value", MaxValue}
	}
	return nil
}

func (w *valueWriter) value(v any) error {
	if w.nodes++; w.nodes > w.b.Nodes {
		return &LimitError{"nodes", w.b.Nodes}
	}
	if err := w.room(); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		w.head(tagNull)
	case Undefined:
		w.head(tagUndefined)
	case bool:
		if v {
			w.head(tagTrue)
		} else {
			w.head(tagFalse)
		}
	case float64:
		w.head(tagNumber)
		w.num(canonical(v))
	case string:
		return w.text(tagString, v)
	case Date:
		return w.date(float64(v))
	default:
		return w.pointer(v)
	}
	return w.room()
}

// canonical returns f, with one NaN for all.
func canonical(f float64) float64 {
	if f != f {
		return math.NaN()
	}
	return f
}

func validDate(f float64) bool {
	return f != f || math.Abs(f) <= maxDate && f == math.Trunc(f) && (f != 0 || !math.Signbit(f))
}

func (w *valueWriter) date(f float64) error {
	if !validDate(f) {
		return unfit("date %v", f)
	}
	w.head(tagDate)
	w.num(canonical(f))
	return w.room()
}

func (w *valueWriter) pointer(v any) error {
	switch v := v.(type) {
	case []any:
		return w.array(v)
	case *Object:
		if v != nil {
			return w.object(v)
		}
	case *Map:
		if v != nil {
			return w.entries(v)
		}
	case *Set:
		if v != nil {
			w.head(tagSet, len(v.Values))
			return w.inside(len(v.Values), v.Values)
		}
	case *Error:
		if v != nil {
			return w.text(tagError, v.Name, v.Message, v.Stack)
		}
	case *Bytes:
		if v != nil {
			return w.data(v)
		}
	case *big.Int:
		if v != nil {
			return w.bigint(v)
		}
	}
	return unfit("%T", v)
}

// text puts a tag, the lengths of strings and, on the heap, the strings.
func (w *valueWriter) text(t tag, all ...string) error {
	w.head(t)
	for _, s := range all {
		n, ok := w.heap.add(s)
		if !ok {
			return unfit("text is not WTF-8")
		}
		w.num(float64(n))
	}
	return w.room()
}

func (w *valueWriter) bigint(v *big.Int) error {
	if v.BitLen() > 4*MaxBigInt {
		return &LimitError{"bigint", MaxBigInt}
	}
	return w.text(tagBigInt, v.Text(16))
}

func (w *valueWriter) data(v *Bytes) error {
	if size := v.Kind.Size(); size == 0 || len(v.Data)%size != 0 {
		return unfit("%d bytes as %v", len(v.Data), v.Kind)
	}
	if len(v.Data) > MaxValue {
		return &LimitError{"value", MaxValue}
	}
	w.head(tagBytes, int(v.Kind), len(v.Data))
	w.bytes = append(w.bytes, v.Data...)
	return w.room()
}

// enter begins a container of n elements, leave ends it.
func (w *valueWriter) enter(n int) error {
	if n > w.b.Elements {
		return &LimitError{"elements", w.b.Elements}
	}
	if w.depth++; w.depth > w.b.Depth {
		return &LimitError{"depth", w.b.Depth}
	}
	return nil
}

func (w *valueWriter) leave() { w.depth-- }

func (w *valueWriter) inside(n int, values []any) error {
	if err := w.enter(n); err != nil {
		return err
	}
	defer w.leave()
	for _, v := range values {
		if err := w.value(v); err != nil {
			return err
		}
	}
	return nil
}

func (w *valueWriter) array(v []any) error {
	w.head(tagArray, len(v))
	if err := w.enter(len(v)); err != nil {
		return err
	}
	defer w.leave()
	for _, e := range v {
		if _, hole := e.(Hole); !hole {
			if err := w.value(e); err != nil {
				return err
			}
			continue
		}
		if w.nodes++; w.nodes > w.b.Nodes {
			return &LimitError{"nodes", w.b.Nodes}
		}
		w.head(tagHole)
	}
	return w.room()
}

func (w *valueWriter) entries(v *Map) error {
	if len(v.Keys) != len(v.Values) {
		return unfit("a Map of %d keys and %d values", len(v.Keys), len(v.Values))
	}
	w.head(tagMap, len(v.Keys))
	if err := w.enter(len(v.Keys)); err != nil {
		return err
	}
	defer w.leave()
	for i := range v.Keys {
		if err := w.value(v.Keys[i]); err != nil {
			return err
		}
		if err := w.value(v.Values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *valueWriter) object(v *Object) error {
	if len(v.Keys) != len(v.Values) {
		return unfit("an Object of %d keys and %d values", len(v.Keys), len(v.Values))
	}
	if err := w.shape(v.Keys); err != nil {
		return err
	}
	return w.inside(len(v.Values), v.Values)
}

// shape puts the tag of an object and its keys, or the number of a recent shape
// that has the same.
func (w *valueWriter) shape(keys []string) error {
	for n := w.shapes - 1; n >= 0 && n >= w.shapes-recent; n-- {
		if same(w.last[n%recent], keys) {
			w.head(tagObject, n)
			return nil
		}
	}
	if len(keys) > w.b.Elements {
		return &LimitError{"elements", w.b.Elements}
	}
	if ok, err := w.keys.distinct(keys); err != nil {
		return err
	} else if !ok {
		return unfit("an Object with a key twice")
	}
	w.head(tagObject, w.shapes, len(keys))
	for _, k := range keys {
		n, ok := w.heap.add(k)
		if !ok {
			return unfit("text is not WTF-8")
		}
		w.num(float64(n))
	}
	w.last[w.shapes%recent] = keys
	w.shapes++
	return w.room()
}

func same(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
