package wire

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A string of JavaScript is any sequence of 16-bit units; a string of Go that
// stands for one is WTF-8 (https://simonsapin.github.io/wtf-8/): UTF-8, and the
// three bytes of a surrogate that has no partner. A pair of surrogates is always
// the four bytes of the character it means, so each has one form only.

// nextRune decodes the first character of s, or the first lone surrogate. size
// is 0 if s does not begin with either.
func nextRune(s string) (r rune, size int) {
	r, size = utf8.DecodeRuneInString(s)
	if r != utf8.RuneError || size > 1 {
		return r, size
	}
	if len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80 {
		return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	return 0, 0
}

func isHigh(r rune) bool { return r&^0x3ff == 0xd800 }
func isLow(r rune) bool  { return r&^0x3ff == 0xdc00 }

// ValidWTF8 reports whether s stands for a string of JavaScript. Every valid
// UTF-8 does; strings.ToValidUTF8 makes one of any string.
func ValidWTF8(s string) bool {
	if utf8.ValidString(s) {
		return true
	}
	for last := rune(0); len(s) > 0; {
		r, size := nextRune(s)
		if size == 0 || isHigh(last) && isLow(r) {
			return false
		}
		last, s = r, s[size:]
	}
	return true
}

// asciiPrefix returns how many bytes of s come before the first that is not
// ASCII.
func asciiPrefix[T string | []byte](s T) int {
	i := 0
	for i < len(s) && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// heapWriter collects the strings of a value: Latin-1 until a unit needs more,
// then UTF-16.
type heapWriter struct {
	b    []byte
	wide bool
}

func (h *heapWriter) units() int {
	if h.wide {
		return len(h.b) / 2
	}
	return len(h.b)
}

func (h *heapWriter) widen() {
	wide := make([]byte, 0, 2*len(h.b)+64)
	for _, c := range h.b {
		wide = append(wide, c, 0)
	}
	h.b, h.wide = wide, true
}

// add appends s and returns its length in units, and false if s is not WTF-8.
func (h *heapWriter) add(s string) (int, bool) {
	start, n := h.units(), asciiPrefix(s)
	if !h.wide {
		h.b = append(h.b, s[:n]...)
	} else {
		for i := range n {
			h.b = append(h.b, s[i], 0)
		}
	}
	for last := rune(0); len(s) > n; {
		r, size := nextRune(s[n:])
		if size == 0 || isHigh(last) && isLow(r) {
			return 0, false
		}
		if r > 0xff && !h.wide {
			h.widen()
		}
		switch {
		case !h.wide:
			h.b = append(h.b, byte(r))
		case r > 0xffff:
			a, b := utf16.EncodeRune(r)
			h.b = append(h.b, byte(a), byte(a>>8), byte(b), byte(b>>8))
		default:
			h.b = append(h.b, byte(r), byte(r>>8))
		}
		last = r
		n += size
	}
	return h.units() - start, true
}

// fromLatin1 returns the string of units of one byte each.
func fromLatin1(b []byte) string {
	n := asciiPrefix(b)
	if n == len(b) {
		return string(b)
	}
	long := 0
	for _, c := range b[n:] {
		long += int(c >> 7)
	}
	var s strings.Builder
	s.Grow(len(b) + long)
	s.Write(b[:n])
	for _, c := range b[n:] {
		s.WriteRune(rune(c))
	}
	return s.String()
}

// unitAt returns the i-th unit of UTF-16LE.
func unitAt(b []byte, i int) rune { return rune(binary.LittleEndian.Uint16(b[2*i:])) }

// fromUTF16 returns the string of UTF-16LE units.
func fromUTF16(b []byte) string {
	n, size := len(b)/2, 0
	for i := 0; i < n; i++ {
		switch u := unitAt(b, i); {
		case u < 0x80:
			size++
		case u < 0x800:
			size += 2
		case isHigh(u) && i+1 < n && isLow(unitAt(b, i+1)):
			size += 4
			i++
		default:
			size += 3
		}
	}
	var s strings.Builder
	s.Grow(size)
	for i := 0; i < n; i++ {
		switch u := unitAt(b, i); {
		case u < 0x80:
			s.WriteByte(byte(u))
		case isHigh(u) && i+1 < n && isLow(unitAt(b, i+1)):
			s.WriteRune(utf16.DecodeRune(u, unitAt(b, i+1)))
			i++
		case isHigh(u) || isLow(u): // WriteRune would write U+FFFD
			s.WriteByte(0xed)
			s.WriteByte(0x80 | byte(u>>6&0x3f))
			s.WriteByte(0x80 | byte(u&0x3f))
		default:
			s.WriteRune(u)
		}
	}
	return s.String()
}

// Short strings are cut from pieces of ASCII that are converted at one time; a
// string that outlives its value keeps at most such a piece alive.
const (
	piece = 4 << 10 // units
	short = 256     // units
)

// heapReader cuts the strings of a value from its heap.
type heapReader struct {
	b     []byte
	shift int // of a unit's size
	at    int // units taken
	units int

	ascii   string // the units from begin on
	begin   int
	scratch []byte
}

func newHeapReader(p Parts) heapReader {
	h := heapReader{b: p.Heap, units: len(p.Heap)}
	if p.Wide {
		h.shift, h.units = 1, h.units/2
	}
	return h
}

func (h *heapReader) left() int { return h.units - h.at }

// take returns the next n units, of which there are that many.
func (h *heapReader) take(n int) string {
	if n == 0 {
		return ""
	}
	at := h.at
	h.at += n
	if n <= short {
		if i := at - h.begin; i+n <= len(h.ascii) {
			return h.ascii[i : i+n]
		}
		if s := h.convert(at); n <= len(s) {
			h.ascii, h.begin = string(s), at
			return h.ascii[:n]
		}
	}
	b := h.b[at<<h.shift : (at+n)<<h.shift]
	if h.shift == 0 {
		return fromLatin1(b)
	}
	return fromUTF16(b)
}

// convert returns the ASCII that begins at a unit, at most a piece.
func (h *heapReader) convert(at int) []byte {
	b := h.b[at<<h.shift : min(at+piece, h.units)<<h.shift]
	if h.shift == 0 {
		return b[:asciiPrefix(b)]
	}
	if h.scratch == nil {
		h.scratch = make([]byte, 0, min(piece, h.units))
	}
	s := h.scratch[:0]
	for i := 0; i < len(b) && b[i] < 0x80 && b[i+1] == 0; i += 2 {
		s = append(s, b[i])
	}
	return s
}
