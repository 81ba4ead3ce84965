package wire_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// reference is the second decoder: written from docs/wire.md, without a thought
// for speed or memory. It panics with a refusal.
type reference struct {
	words  []float64
	units  []uint16
	bytes  []byte
	wide   bool
	shapes [][]string
	nodes  int

	depth    int  // the most containers inside each other
	trusting bool // a control: believes every count, as decoders do that allocate first
}

type refusal string

func refuse(why string, bad bool) {
	if bad {
		panic(refusal(why))
	}
}

// refer decodes a value with the reference and its default budgets.
func refer(v []byte) (any, error) { return (&reference{depth: 128}).decode(v) }

func (r *reference) decode(v []byte) (result any, err error) {
	defer func() {
		if e := recover(); e != nil {
			why, ok := e.(refusal)
			if !ok {
				panic(e)
			}
			err = fmt.Errorf("reference: %s", why)
		}
	}()
	r.split(v)
	result = r.value(0, false)
	refuse("left over", len(r.words)+len(r.units)+len(r.bytes) > 0)
	return result, nil
}

func (r *reference) split(v []byte) {
	refuse("short", len(v) < 16)
	var h [4]int
	for i := range h {
		h[i] = int(binary.LittleEndian.Uint32(v[4*i:]))
	}
	refuse("wide flag", h[1] > 1)
	size := h[2]
	if r.wide = h[1] == 1; r.wide {
		size = 2 * h[2]
	}
	refuse("length", 16+8*h[0]+size+h[3] != len(v))
	v = v[16:]
	for i := range h[0] {
		r.words = append(r.words, math.Float64frombits(binary.LittleEndian.Uint64(v[8*i:])))
	}
	v = v[8*h[0]:]
	needed := false
	for i := range h[2] {
		var u uint16
		if r.wide {
			u = uint16(v[2*i]) + uint16(v[2*i+1])<<8
		} else {
			u = uint16(v[i])
		}
		needed = needed || u > 255
		r.units = append(r.units, u)
	}
	refuse("wide without need", r.wide && !needed)
	r.bytes = append(r.bytes, v[size:]...)
}

func (r *reference) word() float64 {
	refuse("structure ends", len(r.words) == 0)
	w := r.words[0]
	r.words = r.words[1:]
	return w
}

func (r *reference) num(limit int) int {
	w := r.word()
	refuse("no integer", w != math.Floor(w) || math.Signbit(w) || w > float64(limit))
	return int(w)
}

func (r *reference) text() string {
	n := r.num(len(r.units))
	s := spell(r.units[:n])
	r.units = r.units[n:]
	return s
}

// spell writes units as WTF-8.
func spell(units []uint16) string {
	var b []byte
	for i := 0; i < len(units); i++ {
		u := rune(units[i])
		if i+1 < len(units) && utf16.DecodeRune(u, rune(units[i+1])) != utf8.RuneError {
			b = utf8.AppendRune(b, utf16.DecodeRune(u, rune(units[i+1])))
			i++
		} else if utf16.IsSurrogate(u) {
			b = append(b, 0xe0|byte(u>>12), 0x80|byte(u>>6)&0x3f, 0x80|byte(u)&0x3f)
		} else {
			b = utf8.AppendRune(b, u)
		}
	}
	return string(b)
}

func (r *reference) value(depth int, inArray bool) any {
	r.nodes++
	refuse("nodes", r.nodes > 1_000_000)
	switch t := r.num(16); t {
	case 0:
		return wire.Undefined{}
	case 1:
		return nil
	case 2, 3:
		return t == 3
	case 4:
		return r.word()
	case 5:
		return r.bigint()
	case 6:
		return r.text()
	case 7:
		return r.list(r.count(), depth+1, true)
	case 8:
		keys := r.keys()
		return &wire.Object{Keys: keys, Values: r.list(len(keys), depth+1, false)}
	case 9:
		both, m := r.list(2*r.count(), depth+1, false), &wire.Map{}
		for i := 0; i < len(both); i += 2 {
			m.Keys, m.Values = append(m.Keys, both[i]), append(m.Values, both[i+1])
		}
		return m
	case 10:
		return &wire.Set{Values: r.list(r.count(), depth+1, false)}
	case 11:
		w := r.word()
		refuse("date", !math.IsNaN(w) && (math.Abs(w) > 8.64e15 || math.Trunc(w) != w || w == 0 && math.Signbit(w)))
		return wire.Date(w)
	case 12:
		return r.failure()
	case 13:
		return r.data()
	case 16:
		refuse("hole", !inArray)
		return wire.Hole{}
	}
	panic(refusal("tag"))
}

func (r *reference) count() int { return r.num(1 << 20) }

func (r *reference) list(n, depth int, array bool) []any {
	refuse("depth", depth > r.depth)
	var all []any
	if r.trusting {
		all = make([]any, 0, n)
	}
	for range n {
		all = append(all, r.value(depth, array))
	}
	return all
}

func (r *reference) keys() []string {
	n := r.num(len(r.shapes))
	if n < len(r.shapes) {
		return r.shapes[n]
	}
	seen := map[string]bool{}
	var lengths []int
	for range r.count() {
		lengths = append(lengths, r.num(len(r.units)))
	}
	var keys []string
	for _, n := range lengths {
		refuse("heap ends", n > len(r.units))
		k := spell(r.units[:n])
		r.units = r.units[n:]
		refuse("key twice", seen[k])
		seen[k] = true
		keys = append(keys, k)
	}
	r.shapes = append(r.shapes, keys)
	return keys
}

func (r *reference) bigint() *big.Int {
	s := r.text()
	refuse("digits", len(strings.TrimPrefix(s, "-")) > 1<<18)
	n, ok := new(big.Int).SetString(s, 16)
	refuse("bigint", !ok || n.Text(16) != s)
	return n
}

func (r *reference) failure() *wire.Error {
	e := new(wire.Error)
	e.Name = r.text()
	e.Message = r.text()
	e.Stack = r.text()
	return e
}

func (r *reference) data() *wire.Bytes {
	kind := r.num(13)
	n := r.num(len(r.bytes))
	refuse("elements", n%[]int{1, 1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 2, 1}[kind] != 0)
	b := &wire.Bytes{Kind: wire.BytesKind(kind), Data: r.bytes[:n]}
	r.bytes = r.bytes[n:]
	return b
}

// show writes a value so that two are the same if and only if they show the
// same. Empty and nil lists are the same, all NaN are, 0 and -0 are not.
func show(v any) string {
	var b strings.Builder
	showTo(&b, v)
	return b.String()
}

func showTo(b *strings.Builder, v any) {
	list := func(name string, all []any) {
		fmt.Fprintf(b, "%s(", name)
		for _, e := range all {
			showTo(b, e)
			b.WriteByte(',')
		}
		b.WriteByte(')')
	}
	number := func(name string, f float64) {
		if math.IsNaN(f) {
			f = math.NaN()
		}
		fmt.Fprintf(b, "%s(%v:%x)", name, f, math.Float64bits(f))
	}
	switch v := v.(type) {
	case float64:
		number("number", v)
	case wire.Date:
		number("date", float64(v))
	case *big.Int:
		fmt.Fprintf(b, "bigint(%x)", v)
	case string:
		fmt.Fprintf(b, "%q", v)
	case []any:
		list("array", v)
	case *wire.Object:
		list(fmt.Sprintf("object%q", v.Keys), v.Values)
	case *wire.Map:
		list("map", v.Keys)
		list("to", v.Values)
	case *wire.Set:
		list("set", v.Values)
	case *wire.Error:
		fmt.Fprintf(b, "error%q", []string{v.Name, v.Message, v.Stack})
	case *wire.Bytes:
		fmt.Fprintf(b, "%v(%x)", v.Kind, v.Data)
	default:
		fmt.Fprintf(b, "%T(%v)", v, v)
	}
}

// plain is the second encoder: no shape is shared, and the heap is UTF-16 until
// the end. It takes only what Encode would.
type plain struct {
	words  []float64
	units  []uint16
	bytes  []byte
	shapes int
}

func encodePlain(v any) []byte {
	p := new(plain)
	p.value(v)
	return raw(p.units, p.bytes, p.words...)
}

// raw puts a value together.
func raw(units []uint16, data []byte, words ...float64) []byte {
	wide := uint32(0)
	for _, u := range units {
		if u > 255 {
			wide = 1
		}
	}
	var b []byte
	for _, n := range []int{len(words), int(wide), len(units), len(data)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(w))
	}
	for _, u := range units {
		if b = append(b, byte(u)); wide == 1 {
			b = append(b, byte(u>>8))
		}
	}
	return append(b, data...)
}

func (p *plain) put(words ...float64) { p.words = append(p.words, words...) }

func (p *plain) text(all ...string) {
	for _, s := range all {
		var units []uint16
		for len(s) > 0 {
			r, n := utf8.DecodeRuneInString(s)
			if r == utf8.RuneError && n == 1 { // a lone surrogate
				r, n = rune(s[0]&0xf)<<12|rune(s[1]&0x3f)<<6|rune(s[2]&0x3f), 3
			}
			if r > 0xffff {
				a, b := utf16.EncodeRune(r)
				units = append(units, uint16(a), uint16(b))
			} else {
				units = append(units, uint16(r))
			}
			s = s[n:]
		}
		p.units = append(p.units, units...)
		p.put(float64(len(units)))
	}
}

func (p *plain) value(v any) {
	switch v := v.(type) {
	case wire.Undefined:
		p.put(0)
	case nil:
		p.put(1)
	case bool:
		p.put(map[bool]float64{false: 2, true: 3}[v])
	case float64:
		p.put(4, v)
	case *big.Int:
		p.put(5)
		p.text(fmt.Sprintf("%x", v))
	case string:
		p.put(6)
		p.text(v)
	case []any:
		p.put(7, float64(len(v)))
		p.values(v)
	case *wire.Object:
		p.put(8, float64(p.shapes), float64(len(v.Keys)))
		p.shapes++
		p.text(v.Keys...)
		p.values(v.Values)
	case *wire.Map:
		p.put(9, float64(len(v.Keys)))
		for i := range v.Keys {
			p.values([]any{v.Keys[i], v.Values[i]})
		}
	case *wire.Set:
		p.put(10, float64(len(v.Values)))
		p.values(v.Values)
	case wire.Date:
		p.put(11, float64(v))
	case *wire.Error:
		p.put(12)
		p.text(v.Name, v.Message, v.Stack)
	case *wire.Bytes:
		p.put(13, float64(v.Kind), float64(len(v.Data)))
		p.bytes = append(p.bytes, v.Data...)
	case wire.Hole:
		p.put(16)
	}
}

func (p *plain) values(all []any) {
	for _, v := range all {
		p.value(v)
	}
}
