package jsc

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf16"
	"unsafe"
)

// Type is what kind of value a Value is, in the language's own terms.
type Type int

// The types, numbered as the engine does.
const (
	Undefined Type = iota
	Null
	Boolean
	Number
	String
	Object // arrays, functions and errors too
	Symbol
	BigInt
)

// Kind is a kind of typed array, numbered as the engine does.
type Kind int

// The kinds. NotBytes is every object that has no bytes of its own.
const (
	Int8 Kind = iota
	Int16
	Int32
	Uint8
	Uint8Clamped
	Uint16
	Uint32
	Float32
	Float64
	ArrayBuffer
	NotBytes
	BigInt64
	BigUint64
)

// ErrType is wrapped by the error of asking a value for what it is not.
var ErrType = errors.New("jsc: value of another type")

// Value is a JavaScript value that Go holds. It is protected from the collector
// until Release. The zero value is not usable.
type Value struct {
	c        *Context
	ref      uintptr
	over     *bool // of a call's argument: whether the call is over
	released bool
}

// Release lets go of the value, which must not be used afterwards. More than
// once, or on an argument of a call or nil, it does nothing.
func (v *Value) Release() {
	if v == nil || v.released || v.over != nil {
		return
	}
	v.released = true
	call(v.c.fn.valueUnprotect, v.c.ref, v.ref)
}

// word is the engine's reference. Using a value that is gone is a mistake of
// the program that would be a wild pointer in C, so it panics.
func (v *Value) word() uintptr {
	if v.gone() {
		panic("jsc: a value was used after its release")
	}
	return v.ref
}

// gone says whether the value can no longer be used.
func (v *Value) gone() bool { return v.released || v.over != nil && *v.over }

// keep makes a handle of what a call returned, protected before anything else
// happens.
func (c *Context) keep(ref uintptr) *Value {
	call(c.fn.valueProtect, c.ref, ref)
	return &Value{c: c, ref: ref}
}

// Keep returns the same value once more, with a protection of its own: an
// argument of a call stays usable beyond it that way.
func (c *Context) Keep(v *Value) *Value { return c.keep(v.word()) }

// Type returns the value's type.
func (v *Value) Type() Type { return Type(int32(call(v.c.fn.valueGetType, v.c.ref, v.word()))) }

// Bool returns the value of a boolean.
func (v *Value) Bool() (bool, error) {
	if t := v.Type(); t != Boolean {
		return false, fmt.Errorf("%w: %d is no boolean", ErrType, t)
	}
	return call(v.c.fn.valueToBoolean, v.c.ref, v.ref)&0xff != 0, nil
}

// Number returns the value of a number. Nothing is converted, so no guest code runs.
func (v *Value) Number() (float64, error) {
	if t := v.Type(); t != Number {
		return math.NaN(), fmt.Errorf("%w: %d is no number", ErrType, t)
	}
	return v.c.fn.valueToNumber(v.c.ref, v.ref, nil), nil
}

// Units returns a copy of a string's UTF-16 code units, lone surrogates and all.
// Nothing is converted, so no guest code runs.
func (v *Value) Units() (units []uint16, err error) {
	err = v.withUnits(func(u []uint16) { units = slices.Clone(u) })
	return units, err
}

// UTF16 returns a copy of a string's code units as bytes, little-endian.
func (v *Value) UTF16() (b []byte, err error) {
	err = v.withUnits(func(u []uint16) {
		if len(u) > 0 {
			b = slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(u))), 2*len(u)))
		}
	})
	return b, err
}

// withUnits shows f a string's code units, in the engine's memory.
func (v *Value) withUnits(f func([]uint16)) error {
	if t := v.Type(); t != String {
		return fmt.Errorf("%w: %d is no string", ErrType, t)
	}
	var exception uintptr
	s := call(v.c.fn.valueToStringCopy, v.c.ref, v.ref, uintptr(unsafe.Pointer(&exception)))
	if s == 0 {
		return v.c.thrown(exception) // out of memory while a rope is made flat
	}
	defer call(v.c.fn.stringRelease, s)
	n := int(call(v.c.fn.stringLength, s))
	if n == 0 {
		return nil
	}
	p := call(v.c.fn.stringCharacters, s)
	if p == 0 {
		return errors.New("jsc: no memory for a string")
	}
	f(unsafe.Slice((*uint16)(pointer(p)), n))
	return nil
}

// Text returns a string's value; a lone surrogate becomes U+FFFD.
func (v *Value) Text() (string, error) {
	units, err := v.Units()
	return string(utf16.Decode(units)), err
}

// Kind returns what kind of typed array an object is.
func (v *Value) Kind() Kind {
	if v.Type() != Object {
		return NotBytes
	}
	return Kind(int32(call(v.c.fn.valueTypedArrayType, v.c.ref, v.ref, 0)))
}

// Bytes returns a copy of what a typed array or an ArrayBuffer holds.
func (v *Value) Bytes() ([]byte, error) {
	c, kind := v.c, v.Kind()
	if kind == NotBytes || kind < 0 {
		return nil, fmt.Errorf("%w: no typed array", ErrType)
	}
	buffer, offset := v.ref, uintptr(0)
	var length uintptr
	if kind != ArrayBuffer {
		// The pointer is asked of the buffer, since that of an array means the
		// buffer's beginning in some engines and the array's in others.
		offset = call(c.fn.objectTypedArrayOffset, c.ref, v.ref, 0)
		length = call(c.fn.objectTypedArrayLength, c.ref, v.ref, 0)
		buffer = call(c.fn.objectTypedArrayBuffer, c.ref, v.ref, 0)
		if buffer == 0 {
			return nil, errors.New("jsc: no memory for an ArrayBuffer")
		}
	}
	data, size, err := c.memory(buffer)
	if err != nil {
		return nil, err
	}
	if kind == ArrayBuffer {
		length = uintptr(len(data))
	}
	if offset > size || length > size-offset {
		return nil, errors.New("jsc: a typed array beyond its buffer")
	}
	return append([]byte(nil), data[offset:offset+length]...), nil
}

// memory returns an ArrayBuffer's memory, valid until the next call.
func (c *Context) memory(buffer uintptr) ([]byte, uintptr, error) {
	size := call(c.fn.objectArrayBufferLength, c.ref, buffer, 0)
	if size == 0 {
		return nil, 0, nil
	}
	p := call(c.fn.objectArrayBufferPtr, c.ref, buffer, 0)
	if p == 0 || size > math.MaxInt32 {
		return nil, 0, errors.New("jsc: an ArrayBuffer without memory")
	}
	return unsafe.Slice((*byte)(pointer(p)), int(size)), size, nil
}

// pointer makes a pointer of an address in the engine's memory, which Go's
// collector neither moves nor frees.
func pointer(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// Undefined returns the value undefined.
func (c *Context) Undefined() *Value {
	return c.keep(call(c.fn.valueMakeUndefined, c.ref))
}

// Null returns the value null.
func (c *Context) Null() *Value {
	return c.keep(call(c.fn.valueMakeNull, c.ref))
}

// Bool returns true or false.
func (c *Context) Bool(b bool) *Value {
	var word uintptr
	if b {
		word = 1
	}
	return c.keep(call(c.fn.valueMakeBoolean, c.ref, word))
}

// Number returns a number.
func (c *Context) Number(f float64) *Value {
	return c.keep(c.fn.valueMakeNumber(c.ref, f))
}

// String returns a string of UTF-16 code units, lone surrogates and all.
func (c *Context) String(units []uint16) *Value {
	s := c.newString(units)
	defer call(c.fn.stringRelease, s)
	return c.keep(call(c.fn.valueMakeString, c.ref, s))
}

// UTF16 returns a string of code units as bytes, little-endian; a last odd byte
// does not count.
func (c *Context) UTF16(b []byte) *Value {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = uint16(b[2*i]) | uint16(b[2*i+1])<<8
	}
	return c.String(units)
}

// Latin1 returns a string of units below 256. What is ASCII alone takes the
// engine a byte a unit.
func (c *Context) Latin1(b []byte) *Value {
	plain := true
	for _, u := range b {
		plain = plain && u-1 < 0x7f // 0 is the end for the engine
	}
	if plain {
		text := append(slices.Grow(slices.Clone(b), 1), 0)
		s := call(c.fn.stringCreateUTF8, uintptr(unsafe.Pointer(unsafe.SliceData(text))))
		defer call(c.fn.stringRelease, s)
		return c.keep(call(c.fn.valueMakeString, c.ref, s))
	}
	units := make([]uint16, len(b))
	for i, u := range b {
		units[i] = uint16(u)
	}
	return c.String(units)
}

// JSON returns the value that a JSON text without a zero byte says. No guest code
// runs. The error of a text that is none says nothing of where.
func (c *Context) JSON(text string) (*Value, error) {
	c.enter()
	b := append(append(make([]byte, 0, len(text)+1), text...), 0)
	s := call(c.fn.stringCreateUTF8, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	defer call(c.fn.stringRelease, s)
	ref := call(c.fn.valueMakeFromJSON, c.ref, s)
	if ref == 0 {
		return nil, errors.New("jsc: no JSON")
	}
	return c.keep(ref), nil
}

// Text returns a string; what is not UTF-8 in it becomes U+FFFD.
func (c *Context) Text(s string) *Value { return c.String(utf16.Encode([]rune(s))) }

// newString makes one of the engine's strings; the caller releases it.
func (c *Context) newString(units []uint16) uintptr {
	return call(c.fn.stringCreate, uintptr(unsafe.Pointer(unsafe.SliceData(units))), uintptr(len(units)))
}

// width is how many bytes an element of each kind has.
var width = map[Kind]int{
	Int8: 1, Uint8: 1, Uint8Clamped: 1, Int16: 2, Uint16: 2, Int32: 4, Uint32: 4, Float32: 4,
	Float64: 8, BigInt64: 8, BigUint64: 8,
}

// Array returns a new typed array of the kind with a copy of b, whose length is
// a multiple of the element's. ArrayBuffer itself is not among the kinds.
func (r *Realm) Array(kind Kind, b []byte) (*Value, error) {
	c := r.c
	c.enter()
	w := width[kind]
	if w == 0 || len(b)%w != 0 {
		return nil, fmt.Errorf("%w: no typed array %d of %d bytes", ErrType, kind, len(b))
	}
	var exception uintptr
	ref := call(c.fn.objectMakeTypedArray, r.ref, uintptr(kind), uintptr(len(b)/w), uintptr(unsafe.Pointer(&exception)))
	if ref == 0 {
		return nil, c.thrown(exception)
	}
	v := c.keep(ref)
	if len(b) == 0 {
		return v, nil
	}
	buffer := call(c.fn.objectTypedArrayBuffer, c.ref, ref, 0)
	data, _, err := c.memory(buffer)
	if err != nil || len(data) != len(b) {
		v.Release()
		return nil, errors.Join(errors.New("jsc: no memory for a typed array"), err)
	}
	copy(data, b)
	return v, nil
}
