package wire

import (
	"encoding/binary"
)

// Value is an encoded value: a header of 16 bytes, the structure in float64
// words, the heap of strings, the bytes. See docs/wire.md.
type Value []byte

// headerSize is the length of a Value's header.
const headerSize = 16

// Parts are the three parts of a Value.
type Parts struct {
	Words []byte // the structure, 8 bytes a word
	Heap  []byte // Latin-1, or UTF-16LE if Wide
	Wide  bool
	Bytes []byte
}

// Parts splits a value and checks that it is made of nothing else. The parts
// are not copied. The error is ErrMalformed.
func (v Value) Parts() (Parts, error) {
	if len(v) < headerSize {
		return Parts{}, malformed("value of %d bytes", len(v))
	}
	field := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(v[at:])) }
	words, wide, units, bytes := field(0), field(4), field(8), field(12)
	if wide > 1 || words == 0 || headerSize+8*words+units<<wide+bytes != uint64(len(v)) {
		return Parts{}, malformed("header of a value")
	}
	a := headerSize + 8*words
	b := a + units<<wide
	p := Parts{Words: v[headerSize:a:a], Heap: v[a:b:b], Wide: wide == 1, Bytes: v[b:]}
	if p.Wide && narrow(p.Heap) {
		return Parts{}, malformed("wide heap without a wide unit")
	}
	return p, nil
}

// narrow reports whether UTF-16LE text fits Latin-1.
func narrow(utf16 []byte) bool {
	for i := 1; i < len(utf16); i += 2 {
		if utf16[i] != 0 {
			return false
		}
	}
	return true
}

// AppendUTF16 appends the value made of the parts that an engine hands over,
// its heap as UTF-16LE, and stores it in Latin-1 if it fits. What the structure
// says is not looked at. The error is ErrMalformed for parts that are none, a
// LimitError for more than MaxValue.
func AppendUTF16(dst []byte, words, utf16, bytes []byte) ([]byte, error) {
	if len(words) == 0 || len(words)%8 != 0 || len(utf16)%2 != 0 {
		return dst, malformed("parts of a value")
	}
	p := Parts{Words: words, Heap: utf16, Wide: !narrow(utf16), Bytes: bytes}
	size := headerSize + len(words) + len(utf16) + len(bytes)
	if !p.Wide {
		size -= len(utf16) / 2
	}
	if size > MaxValue {
		return dst, &LimitError{"value", MaxValue}
	}
	if p.Wide {
		return p.append(dst), nil
	}
	p.Heap = make([]byte, len(utf16)/2)
	for i := range p.Heap {
		p.Heap[i] = utf16[2*i]
	}
	return p.append(dst), nil
}

func (p *Parts) append(dst []byte) []byte {
	units, wide := p.units(), uint32(0)
	if p.Wide {
		wide = 1
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.Words)/8))
	dst = binary.LittleEndian.AppendUint32(dst, wide)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(units))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.Bytes)))
	dst = append(dst, p.Words...)
	dst = append(dst, p.Heap...)
	return append(dst, p.Bytes...)
}

// A decoded value is one of
//
//	Undefined, nil (null), bool, float64, *big.Int, string (WTF-8), Date,
//	[]any, *Object, *Map, *Set, *Error, *Bytes
//
// and Hole as an element of an array. Encode takes the same and nothing else.
type (
	// Undefined is JavaScript's undefined.
	Undefined struct{}

	// Hole is the absence of an element of an array.
	Hole struct{}

	// Date is a time in ms since 1970, an integer of at most 8.64e15 either way,
	// or NaN for an invalid date.
	Date float64

	// Object has the own properties of an object in their order. Keys are
	// distinct; "__proto__" is a key like others. Objects of one value may share
	// Keys, so nobody writes to it.
	Object struct {
		Keys   []string
		Values []any // as long as Keys
	}

	// Map has the entries of a Map in their order. Keys may be any values.
	Map struct{ Keys, Values []any }

	// Set has the elements of a Set in their order.
	Set struct{ Values []any }

	// Error is an Error object. Each part may be empty.
	Error struct{ Name, Message, Stack string }

	// Bytes is an ArrayBuffer or what of it a view shows, little-endian.
	Bytes struct {
		Kind BytesKind
		Data []byte // a multiple of the kind's size
	}
)

// BytesKind is a class of bytes in JavaScript.
type BytesKind byte

// The classes.
const (
	ArrayBuffer BytesKind = iota
	Int8Array
	Uint8Array
	Uint8ClampedArray
	Int16Array
	Uint16Array
	Int32Array
	Uint32Array
	Float32Array
	Float64Array
	BigInt64Array
	BigUint64Array
	Float16Array
	DataView
	kindsEnd
)

var (
	kindNames = [kindsEnd]string{"ArrayBuffer", "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array",
		"Int32Array", "Uint32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array", "Float16Array", "DataView"}
	kindSizes = [kindsEnd]int{1, 1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 2, 1}
)

// String returns the name of the class in JavaScript.
func (k BytesKind) String() string {
	if k < kindsEnd {
		return kindNames[k]
	}
	return "unknown"
}

// Size returns the length of an element in bytes, 0 for a kind that is none.
func (k BytesKind) Size() int {
	if k < kindsEnd {
		return kindSizes[k]
	}
	return 0
}

// MaxBigInt bounds the hexadecimal digits of a bigint: JavaScriptCore's are of
// 1,048,576 bits at most.
const MaxBigInt = 1 << 18

// maxDate is the last ms of JavaScript's dates.
const maxDate = 8.64e15

// Amplification is how many bytes of Go's memory a decoded value may take for
// each byte of its encoding.
const Amplification = 8

// Budget bounds one value. A field that is zero means its default.
type Budget struct {
	Nodes    int // values of all kinds, holes too, keys of objects not; default 1,000,000
	Depth    int // containers inside each other, the outermost is the first; default and at most 128
	Elements int // of one array, map or set, or keys of one object; default 1,048,576
	Memory   int // bytes of Go's memory that decoding may fill; default and at most 8 for each byte of the encoding
}

// maxDepth is a constant, since walks recurse: a budget cannot exhaust a stack.
const maxDepth = 128

func (b Budget) fill(size int) Budget {
	or := func(v, standard int) int {
		if v <= 0 {
			return standard
		}
		return v
	}
	return Budget{
		Nodes:    or(b.Nodes, 1_000_000),
		Depth:    min(or(b.Depth, maxDepth), maxDepth),
		Elements: or(b.Elements, 1<<20),
		Memory:   min(or(b.Memory, Amplification*size), Amplification*size),
	}
}
