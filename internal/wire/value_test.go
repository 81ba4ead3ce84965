package wire_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

var inf, nan, minusZero = math.Inf(1), math.NaN(), math.Copysign(0, -1)

// latin returns the units of a string of ASCII.
func latin(s string) (units []uint16) {
	for _, c := range []byte(s) {
		units = append(units, uint16(c))
	}
	return units
}

func object(pairs ...any) *wire.Object {
	o := &wire.Object{}
	for i := 0; i < len(pairs); i += 2 {
		o.Keys, o.Values = append(o.Keys, pairs[i].(string)), append(o.Values, pairs[i+1])
	}
	return o
}

func bigint(s string) *big.Int {
	n, ok := new(big.Int).SetString(s, 0)
	if !ok {
		panic(s)
	}
	return n
}

// tagCases has values and hostile encodings for each tag, by its name.
var tagCases = map[string]struct {
	good []any
	bad  [][]byte
}{
	"undefined": {[]any{wire.Undefined{}, []any{wire.Undefined{}}},
		[][]byte{raw(nil, nil), raw(nil, nil, minusZero), raw(nil, nil, 0, 0), raw(latin("x"), nil, 0), raw(nil, []byte{1}, 0)}},
	"null":  {[]any{nil, []any{nil, nil}}, [][]byte{raw(nil, nil, 1.5), raw(nil, nil, 1, 1), raw(nil, nil, nan), raw(nil, nil, inf)}},
	"false": {[]any{false}, [][]byte{raw(nil, nil, 2, 0), raw(nil, nil, -2), raw(nil, nil, 2.0000000000000004)}},
	"true":  {[]any{true}, [][]byte{raw(nil, nil, 3, 0), raw(nil, nil, -3), raw(nil, nil, 3+1<<32)}},
	"number": {[]any{0.0, minusZero, 1.5, -1e300, inf, -inf, nan, 5e-324, math.MaxFloat64, float64(1 << 53)},
		[][]byte{raw(nil, nil, 4), raw(nil, nil, 4, 1, 2), raw(nil, nil, 7, 2, 4, 1, 4)}},
	"bigint": {[]any{bigint("0"), bigint("-1"), bigint("0xf"), bigint("0x10"), bigint("-0x123456789abcdef0123456789"), bigint("0x8000000000000000"),
		new(big.Int).Lsh(bigint("1"), 1<<20-1)},
		[][]byte{raw(nil, nil, 5, 0), raw(latin("-"), nil, 5, 1), raw(latin("-0"), nil, 5, 2), raw(latin("00"), nil, 5, 2), raw(latin("01"), nil, 5, 2), raw(latin("F"), nil, 5, 1),
			raw(latin("0x1"), nil, 5, 3), raw(latin("+1"), nil, 5, 2), raw(latin("1_0"), nil, 5, 3), raw(latin("g"), nil, 5, 1), raw([]uint16{0x661}, nil, 5, 1),
			raw(latin("--1"), nil, 5, 3), raw(latin("1"), nil, 5, 2), raw(latin("11"), nil, 5, 1), raw(latin(strings.Repeat("1", 1<<18+1)), nil, 5, 1<<18+1)}},
	"string": {[]any{"", "a", "\x00", "é", "ÿ", "Ā", "日本", "😀", "\xed\xa0\x80", "\xed\xbf\xbf", "\xed\xb0\x80\xed\xa0\x80", "a\xed\xa0\xbd", "😀\xed\xb8\x80", "\u2028\ufeff\ufffd",
		strings.Repeat("long ", 5000), strings.Repeat("länger ", 5000), []any{"\xed\xa0\xbd", "\xed\xb8\x80"}, []any{"", "a", "", "日", "", strings.Repeat("b", 255), "c"}},
		[][]byte{raw(nil, nil, 6), raw(nil, nil, 6, 1), raw(latin("ab"), nil, 6, 1), raw(latin("ab"), nil, 6, 3), raw(latin("a"), nil, 6, -1), raw(latin("a"), nil, 6, 0.5),
			raw(latin("a"), nil, 6, nan), raw(latin("a"), nil, 6, inf), raw(latin("a"), nil, 6, 1e300), raw(nil, nil, 6, minusZero), raw(latin("a"), nil, 6, 1+1<<32), widened("ab", 6, 2)}},
	"array": {[]any{[]any{}, []any{1.0, "x", nil, wire.Undefined{}, []any{[]any{}}}, nested(128)},
		[][]byte{raw(nil, nil, 7), raw(nil, nil, 7, 1), raw(nil, nil, 7, 2, 1), raw(nil, nil, 7, 1, 1, 1), raw(nil, nil, 7, -1), raw(nil, nil, 7, 1<<32), raw(nil, nil, 7, 1<<53),
			raw(nil, nil, 7, nan), raw(nil, nil, 7, 2, 7, 1, 1), raw(nil, nil, 7, 0.5), encodePlain(nested(129))}},
	"object": {[]any{object(), object("a", 1.0, "__proto__", nil, "constructor", "x", "", true, "0", object("a", 2.0)), []any{object("x", 1.0), object("x", 2.0), object("y", object("x", 3.0))},
		object("日", 1.0, "é", 2.0, "\xed\xa0\x80", 3.0), many(5), many(8), many(9), many(1000)},
		[][]byte{raw(nil, nil, 8), raw(nil, nil, 8, 0), raw(nil, nil, 8, 1, 0), raw(nil, nil, 8, -1, 0), raw(nil, nil, 8, 0, 1, 0), raw(latin("a"), nil, 8, 0, 1, 1),
			raw(latin("a"), nil, 8, 0, 1, 2, 1), raw(latin("aa"), nil, 8, 0, 2, 1, 1, 1, 1), raw(nil, nil, 8, 0, 2, 0, 0, 1, 1), raw(nil, nil, 8, 0, 1<<40), raw(nil, nil, 7, 2, 8, 0, 0, 8, 2, 0),
			raw(latin("a"), nil, 7, 2, 8, 0, 1, 1, 1, 8, 0), raw(latin("a"), nil, 7, 2, 8, 1, 8, 0, 1, 1, 1), raw(latin("a"), nil, 8, 0, 1, 1, 16), twice(20)}},
	"map": {[]any{&wire.Map{}, &wire.Map{Keys: []any{nil, 1.0, "k", object(), nan, nan}, Values: []any{1.0, nil, []any{}, "v", true, false}}},
		[][]byte{raw(nil, nil, 9), raw(nil, nil, 9, 1), raw(nil, nil, 9, 1, 1), raw(nil, nil, 9, 1, 1, 1, 1), raw(nil, nil, 9, 1, 16, 1), raw(nil, nil, 9, 1, 1, 16), raw(nil, nil, 9, 1<<30), raw(nil, nil, 9, -1)}},
	"set": {[]any{&wire.Set{}, &wire.Set{Values: []any{1.0, "a", &wire.Set{}}}},
		[][]byte{raw(nil, nil, 10), raw(nil, nil, 10, 1), raw(nil, nil, 10, 1, 16), raw(nil, nil, 10, 1<<30), raw(nil, nil, 10, 0, 1), raw(nil, nil, 10, 2, 1)}},
	"date": {[]any{wire.Date(0), wire.Date(8.64e15), wire.Date(-8.64e15), wire.Date(nan), []any{wire.Date(1), wire.Date(-1)}},
		[][]byte{raw(nil, nil, 11), raw(nil, nil, 11, 0.5), raw(nil, nil, 11, minusZero), raw(nil, nil, 11, 8.64e15+2), raw(nil, nil, 11, inf), raw(nil, nil, 11, -inf), raw(nil, nil, 11, 1, 1)}},
	"error": {[]any{&wire.Error{}, &wire.Error{Name: "TypeError", Message: "no é", Stack: "at\n日"}},
		[][]byte{raw(nil, nil, 12), raw(nil, nil, 12, 0, 0), raw(latin("abc"), nil, 12, 1, 1, 0), raw(latin("ab"), nil, 12, 1, 1, 1), raw(nil, nil, 12, 0, 0, 0, 0), raw(latin("a"), nil, 12, 1, -1, 1)}},
	"bytes": {[]any{&wire.Bytes{}, &wire.Bytes{Kind: wire.Uint8Array, Data: []byte{1, 2, 3}}, []any{&wire.Bytes{Kind: wire.Float64Array, Data: make([]byte, 16)}, &wire.Bytes{Kind: wire.DataView, Data: []byte{9}}}},
		[][]byte{raw(nil, nil, 13), raw(nil, nil, 13, 0), raw(nil, []byte{1}, 13, 0, 0), raw(nil, []byte{1}, 13, 0, 2), raw(nil, []byte{1}, 13, 14, 1), raw(nil, []byte{1}, 13, -1, 1), raw(nil, []byte{1, 2, 3}, 13, 4, 3),
			raw(nil, make([]byte, 12), 13, 9, 12), raw(nil, []byte{1}, 13, 1.5, 1), raw(nil, []byte{1}, 13, 1, 1e9)}},
	"hole": {[]any{[]any{wire.Hole{}}, []any{wire.Hole{}, nil, wire.Hole{}, wire.Undefined{}}},
		[][]byte{raw(nil, nil, 16), raw(nil, nil, 10, 1, 16), raw(nil, nil, 9, 1, 16, 16), raw(nil, nil, 14), raw(nil, nil, 15), raw(nil, nil, 17), raw(nil, nil, 7, 1, 16, 0)}},
}

// widened is a wide heap where a narrow one would do.
func widened(s string, words ...float64) []byte {
	b := raw(append(latin(s), 0x100), nil, words...)
	b = b[:len(b)-2]
	binary.LittleEndian.PutUint32(b[8:], uint32(len(s)))
	return b
}

// nested is n arrays inside each other.
func nested(n int) any {
	v := any([]any{})
	for range n - 1 {
		v = []any{v}
	}
	return v
}

// many is an object of n keys.
func many(n int) *wire.Object {
	o := &wire.Object{}
	for i := range n {
		o.Keys, o.Values = append(o.Keys, "key"+strings.Repeat("x", i%7)+string(rune('0'+i))), append(o.Values, float64(i))
	}
	return o
}

// twice is the encoding of an object of n keys, the last of which is the first.
func twice(n int) []byte {
	o := many(n)
	o.Keys[n-1] = o.Keys[0]
	return encodePlain(o)
}

// Each row of the table of tags has values that come back as they were, by both
// encoders and both decoders, and encodings that both decoders refuse.
//
// proves part of T-12
func TestTags(t *testing.T) {
	for _, row := range wire.TagRows() {
		c := tagCases[row.Name]
		if len(c.good) == 0 || len(c.bad) == 0 {
			t.Errorf("%s: no cases", row.Name)
		}
		for _, v := range c.good {
			b, err := wire.Encode(v, wire.Budget{})
			if err != nil {
				t.Errorf("%s: %.80s: %v", row.Name, show(v), err)
				continue
			}
			for _, b := range [][]byte{b, encodePlain(v)} {
				if got := agree(t, b); got == nil {
					t.Errorf("%s: %.80s is refused", row.Name, show(v))
				} else if show(*got) != show(v) {
					t.Errorf("%s: %.80s came back as %.80s", row.Name, show(v), show(*got))
				}
			}
		}
		for i, b := range c.bad {
			if got := agree(t, b); got != nil {
				t.Errorf("%s: hostile %d is accepted as %.80s", row.Name, i, show(*got))
			}
		}
	}
}

// agree gives b to both decoders, who must agree, and returns what it stands
// for, or nil if it is refused. A value must survive being encoded again.
func agree(t *testing.T, b []byte) *any {
	t.Helper()
	v, err := wire.Decode(b, wire.Budget{})
	w, err2 := refer(b)
	if (err == nil) != (err2 == nil) {
		t.Fatalf("%.200x: decoder says %v, reference says %v", b, err, err2)
	}
	if err != nil {
		var limit *wire.LimitError
		if errors.As(err, &limit) && limit.What == "memory" || !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrLimit) {
			t.Fatalf("%.200x: %v", b, err)
		}
		return nil
	}
	if show(v) != show(w) {
		t.Fatalf("%.200x: decoder says %.200s, reference says %.200s", b, show(v), show(w))
	}
	again, err := wire.Encode(v, wire.Budget{})
	if err != nil {
		t.Fatalf("%.200x: accepted and not encoded again: %v", b, err)
	}
	if u, err := wire.Decode(again, wire.Budget{}); err != nil || show(u) != show(v) {
		t.Fatalf("%.200x: %.200s became %.200s, %v", b, show(v), show(u), err)
	}
	return &v
}

// arbitrary makes a value.
func arbitrary(r *rand.Rand, depth int) any {
	kinds := 13
	if depth == 0 {
		kinds = 9
	}
	switch r.IntN(kinds) {
	case 0:
		return []any{wire.Undefined{}, nil, true, false}[r.IntN(4)]
	case 1:
		return math.Float64frombits(r.Uint64())
	case 2:
		return float64(r.IntN(1000))
	case 3:
		return new(big.Int).Lsh(big.NewInt(r.Int64()-1<<62), uint(r.IntN(100)))
	case 4, 5:
		return arbitraryText(r)
	case 6:
		return wire.Date(float64(r.Int64N(1 << 52)))
	case 7:
		return &wire.Error{Name: arbitraryText(r), Message: arbitraryText(r)}
	case 8:
		k := wire.BytesKind(r.IntN(14))
		return &wire.Bytes{Kind: k, Data: make([]byte, k.Size()*r.IntN(5))}
	}
	all := make([]any, r.IntN(6))
	for i := range all {
		all[i] = arbitrary(r, depth-1)
	}
	switch r.IntN(4) {
	case 0:
		return &wire.Set{Values: all}
	case 1:
		return &wire.Map{Keys: all[:len(all)/2], Values: all[len(all)/2 : len(all)/2*2]}
	case 2:
		return &wire.Object{Keys: []string{"a", "é", "\xed\xa0\x80", "__proto__", "", "日"}[:len(all)], Values: all}
	}
	if len(all) > 0 && r.IntN(3) == 0 {
		all[0] = wire.Hole{}
	}
	return all
}

func arbitraryText(r *rand.Rand) string {
	var s strings.Builder
	for range r.IntN(8) {
		s.WriteString([]string{"a", "b", "é", "ÿ", "日", "😀", "\xed\xa0\x80 ", "\xed\xb0\x80", "\x00", "plain text"}[r.IntN(10)])
	}
	if !wire.ValidWTF8(s.String()) {
		return ""
	}
	return s.String()
}

// The two decoders agree on values made at random and on what comes of them
// when words, bytes and lengths are changed.
//
// proves T-12
func TestDecodersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 34))
	accepted, refused := 0, 0
	for range 4000 {
		v := arbitrary(r, 4)
		b, err := wire.Encode(v, wire.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		if got := agree(t, b); got == nil || show(*got) != show(v) {
			t.Fatalf("%s does not come back", show(v))
		}
		if got := agree(t, encodePlain(v)); got == nil || show(*got) != show(v) {
			t.Fatalf("%s does not come back from the plain encoder", show(v))
		}
		for range 10 {
			if agree(t, spoil(r, b)) == nil {
				refused++
			} else {
				accepted++
			}
		}
	}
	if accepted < 1000 || refused < 10_000 {
		t.Errorf("%d accepted and %d refused: the changes prove little", accepted, refused)
	}
}

// spoil changes an encoding in one place.
func spoil(r *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	words := int(binary.LittleEndian.Uint32(b))
	switch r.IntN(4) {
	case 0:
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	case 1:
		return b[:r.IntN(len(b))]
	default:
		at := 16 + 8*r.IntN(words)
		binary.LittleEndian.PutUint64(b[at:], math.Float64bits(float64(r.IntN(18))))
	}
	return b
}

// FuzzValue gives arbitrary bytes to both decoders.
//
// proves part of T-12 T-13
func FuzzValue(f *testing.F) {
	for _, c := range tagCases {
		for _, v := range c.good {
			if b := encodePlain(v); len(b) < 64<<10 {
				f.Add(b)
			}
		}
		for _, b := range c.bad {
			if len(b) < 64<<10 {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) { agree(t, b) })
}
