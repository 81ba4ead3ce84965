// Package cellproto is what a host, its launcher and the init of a cell say to
// each other: plain structs, and a bounded binary form of them.
//
// Both directions are hostile input to the reader. A frame is a type byte and
// a payload of strings, byte strings, lists and unsigned numbers, each with a
// length that must fit what is left of the frame, so that decoding never
// allocates more than a small multiple of the frame. Reflection is avoided
// because init decodes on the path of a cold start.
package cellproto

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxFrame bounds a frame in bytes. A job carries the program's files.
const MaxFrame = 16 << 20

// maxList bounds the elements of one list.
const maxList = 1 << 16

// ErrMalformed is any frame that does not decode.
var ErrMalformed = errors.New("malformed frame")

// encoder appends to a buffer.
type encoder struct{ b []byte }

func (e *encoder) num(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) flag(v bool) {
	if v {
		e.num(1)
	} else {
		e.num(0)
	}
}
func (e *encoder) str(s string)   { e.num(uint64(len(s))); e.b = append(e.b, s...) }
func (e *encoder) bytes(p []byte) { e.num(uint64(len(p))); e.b = append(e.b, p...) }
func (e *encoder) strs(l []string) {
	e.num(uint64(len(l)))
	for _, s := range l {
		e.str(s)
	}
}

func encodeList[T any](e *encoder, l []T, put func(*encoder, *T)) {
	e.num(uint64(len(l)))
	for i := range l {
		put(e, &l[i])
	}
}

// decoder reads a buffer; after the first failure it returns zero values and
// err stays set.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	d.b = nil
}

func (d *decoder) num() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) flag() bool {
	v := d.num()
	if v > 1 {
		d.fail("flag")
	}
	return v == 1
}

func (d *decoder) raw() []byte {
	n := d.num()
	if n > uint64(len(d.b)) {
		d.fail("length")
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) bytes() []byte { return d.raw() }
func (d *decoder) str() string   { return string(d.raw()) }

// count reads the length of a list; every element takes at least one byte.
func (d *decoder) count() int {
	n := d.num()
	if n > maxList || n > uint64(len(d.b)) {
		d.fail("list length")
		return 0
	}
	return int(n)
}

func (d *decoder) strs() []string {
	n := d.count()
	l := make([]string, 0, min(n, 1024))
	for i := 0; i < n && d.err == nil; i++ {
		l = append(l, d.str())
	}
	return l
}

func decodeList[T any](d *decoder, get func(*decoder, *T)) []T {
	n := d.count()
	l := make([]T, 0, min(n, 1024))
	for i := 0; i < n && d.err == nil; i++ {
		var v T
		get(d, &v)
		l = append(l, v)
	}
	return l
}

// end reports the first failure, or bytes left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) != 0 {
		d.fail("trailing bytes")
	}
	return d.err
}
