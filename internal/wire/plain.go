package wire

import (
	"encoding/binary"
	"math"
)

// Plain writes a value that has no parts but text, or an array of such, without
// a tree of it. The zero value is empty; after Value it may be used again.
type Plain struct{ words, heap []byte }

func (p *Plain) word(f float64) {
	p.words = binary.LittleEndian.AppendUint64(p.words, math.Float64bits(f))
}

// Array begins an array: the next n values are its elements.
func (p *Plain) Array(n int) { p.word(float64(tagArray)); p.word(float64(n)) }

// Undefined writes undefined.
func (p *Plain) Undefined() { p.word(float64(tagUndefined)) }

// Null writes null.
func (p *Plain) Null() { p.word(float64(tagNull)) }

// Bool writes a boolean.
func (p *Plain) Bool(v bool) {
	if v {
		p.word(float64(tagTrue))
	} else {
		p.word(float64(tagFalse))
	}
}

// Number writes a number.
func (p *Plain) Number(f float64) { p.word(float64(tagNumber)); p.word(canonical(f)) }

// Text writes a string of UTF-16LE code units.
func (p *Plain) Text(utf16 []byte) {
	p.word(float64(tagString))
	p.word(float64(len(utf16) / 2))
	p.heap = append(p.heap, utf16...)
}

// Value returns what was written, and forgets it. The error is that of
// AppendUTF16.
func (p *Plain) Value() (Value, error) {
	v, err := AppendUTF16(nil, p.words, p.heap, nil)
	p.words, p.heap = p.words[:0], p.heap[:0]
	return v, err
}

// Plain returns what the parts stand for, if that has no parts but text:
// Undefined, nil (null), bool, float64 or Text.
func (p *Parts) Plain() (any, bool) {
	word := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(p.Words[8*i:])) }
	n := len(p.Words) / 8
	switch t := word(0); {
	case len(p.Bytes) > 0 || n > 2:
	case n == 2 && t == float64(tagString) && word(1) == float64(p.units()):
		return Text{p.Heap, p.Wide}, true
	case len(p.Heap) > 0:
	case n == 2 && t == float64(tagNumber):
		return word(1), true
	case n == 2:
	case t == float64(tagUndefined):
		return Undefined{}, true
	case t == float64(tagNull):
		return nil, true
	case t == float64(tagFalse), t == float64(tagTrue):
		return t == float64(tagTrue), true
	}
	return nil, false
}

// units is the length of the heap.
func (p *Parts) units() int {
	if p.Wide {
		return len(p.Heap) / 2
	}
	return len(p.Heap)
}

// Text is a string as it lies in a value.
type Text struct {
	Units []byte // Latin-1, or UTF-16LE if Wide
	Wide  bool
}
