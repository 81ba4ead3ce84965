package wire_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// there converts units to a string and back.
func there(t *testing.T, units []uint16) string {
	t.Helper()
	var b []byte
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	s := wire.FromUTF16(b)
	if want := spell(units); s != want {
		t.Fatalf("%x: %q, the reference says %q", units, s, want)
	}
	if !wire.ValidWTF8(s) {
		t.Fatalf("%x: %q is not WTF-8", units, s)
	}
	heap, wide, n, ok := wire.ToUnits(s)
	var back []uint16
	for i := range n {
		if wide {
			back = append(back, binary.LittleEndian.Uint16(heap[2*i:]))
		} else {
			back = append(back, uint16(heap[i]))
		}
	}
	if !ok || !slices.Equal(back, units) || wide != slices.ContainsFunc(units, func(u uint16) bool { return u > 255 }) {
		t.Fatalf("%x: %q came back as %x", units, s, back)
	}
	return s
}

// Every unit alone and every pair of kinds of units is a string of its own that
// comes back; a pair of surrogates is one character.
func TestEveryUnit(t *testing.T) {
	for u := range 1 << 16 {
		there(t, []uint16{uint16(u)})
	}
	kinds := []uint16{0, 'a', 0x7f, 0x80, 0xff, 0x100, 0x7ff, 0x800, 0xd7ff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000, 0xfffd, 0xffff}
	seen := map[string]bool{}
	for _, a := range kinds {
		for _, b := range kinds {
			for _, c := range kinds {
				s := there(t, []uint16{a, b, c})
				if seen[s] {
					t.Errorf("%x %x %x: %q twice", a, b, c, s)
				}
				seen[s] = true
			}
		}
	}
	if s := there(t, []uint16{0xd83d, 0xde00}); s != "😀" || !utf8.ValidString(s) {
		t.Errorf("a pair is %q", s)
	}
}

// What is not WTF-8 is refused, a pair of surrogates in two times three bytes
// above all; each with a neighbour that is WTF-8.
func TestNotWTF8(t *testing.T) {
	for bad, good := range map[string]string{
		"\xed\xa0\xbd\xed\xb8\x80": "😀",             // a pair that would be one character
		"\xff":                     "ÿ",             // no UTF-8 at all
		"\xed\xa0":                 "\xed\xa0\x80",  // cut off
		"\xed\xa0\x80\x80":         "\xed\xa0\x80a", // one byte too many
		"\xc0\x80":                 "\x00",          // longer than needed
		"\xf4\x90\x80\x80":         "\U0010ffff",    // past the last character
		"\xe0\x80\x80":             "\u0800",        // longer than needed
		"a\xed":                    "a\ud7ff",       // cut off
	} {
		for _, around := range []string{"", "a", "日"} {
			if _, err := wire.Encode(around+bad+around, wire.Budget{}); err == nil || wire.ValidWTF8(around+bad+around) {
				t.Errorf("%q is accepted", around+bad+around)
			}
			if _, err := wire.Encode(object(around+bad, nil), wire.Budget{}); err == nil {
				t.Errorf("key %q is accepted", around+bad)
			}
			if _, err := wire.Encode(around+good+around, wire.Budget{}); err != nil || !wire.ValidWTF8(around+good+around) {
				t.Errorf("%q is refused: %v", around+good+around, err)
			}
		}
	}
}

// Strings that lie in one piece of ASCII, over its end and beside it are cut
// rightly, in both kinds of heap.
func TestPieces(t *testing.T) {
	for _, tail := range []string{"", "é", "日"} {
		var all []any
		for i := range 600 {
			all = append(all, strings.Repeat(string(rune('a'+i%26)), i*7%300))
			if i%50 == 49 {
				all = append(all, "x"+tail, tail, strings.Repeat("y", 5000), strings.Repeat("z", 255)+tail)
			}
		}
		if got := agree(t, encodePlain(all)); got == nil || show(*got) != show(all) {
			t.Errorf("with %q: not the same", tail)
		}
	}
}

// One NaN is left of all, so that a payload cannot carry anything.
func TestOneNaN(t *testing.T) {
	for _, word := range []float64{4, 11} {
		v, err := wire.Decode(raw(nil, nil, word, math.Float64frombits(0xfff8_dead_beef_0001)), wire.Budget{})
		if d, ok := v.(wire.Date); ok {
			v = float64(d)
		}
		if f, ok := v.(float64); err != nil || !ok || math.Float64bits(f) != math.Float64bits(math.NaN()) {
			t.Errorf("tag %v: %v, %v", word, v, err)
		}
	}
	b, err := wire.Encode(math.Float64frombits(0xfff8_dead_beef_0001), wire.Budget{})
	if err != nil || string(b) != string(raw(nil, nil, 4, math.NaN())) {
		t.Errorf("%x, %v", b, err)
	}
}

// FuzzText takes arbitrary units to a string and back.
//
// proves part of T-13
func FuzzText(f *testing.F) {
	f.Add([]byte("\x3d\xd8\x00\xde"))
	f.Add([]byte("\x00\xde\x3d\xd8\x3d\xd8"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var units []uint16
		for i := 0; i+1 < len(b); i += 2 {
			units = append(units, binary.LittleEndian.Uint16(b[i:]))
		}
		there(t, units)
	})
}
