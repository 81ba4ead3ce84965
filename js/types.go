package js

import (
	"strings"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// UndefinedType is the type of [Undefined].
type UndefinedType struct{}

// Undefined is JavaScript's undefined. It crosses both ways.
var Undefined UndefinedType

// String returns "undefined".
func (UndefinedType) String() string { return "undefined" }

// MarshalJSON returns null, so that what [Value.Any] returns can be given to
// encoding/json. [Value.MarshalJSON] is stricter.
func (UndefinedType) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// InvalidDateType is the type of [InvalidDate].
type InvalidDateType struct{}

// InvalidDate is a Date without a time, new Date(NaN). It crosses both ways.
var InvalidDate InvalidDateType

// String returns "Invalid Date".
func (InvalidDateType) String() string { return "Invalid Date" }

// Entry is one entry of a [Map].
type Entry struct {
	Key   any // any value, objects and arrays too
	Value any
}

// Map is a JavaScript Map: its entries in their order. It crosses both ways. To
// cross into JavaScript a key should occur once; if it does not, the last entry
// wins there. The zero value is an empty Map; a nil *Map crosses as null.
type Map struct{ Entries []Entry }

// Set is a JavaScript Set: its elements in their order. It crosses both ways.
// The zero value is an empty Set; a nil *Set crosses as null.
type Set struct{ Elements []any }

// ErrorValue is a JavaScript Error as a value. Name, message and stack are the
// guest's own words. To cross into JavaScript, Name may be any; it becomes the
// error's name, not its class. A nil *ErrorValue crosses as null.
type ErrorValue struct {
	Name    string // "TypeError"
	Message string
	Stack   string // empty where there is none
}

// Error returns the name and the message, made safe to show and cut; the fields
// are as the guest set them.
func (e *ErrorValue) Error() string {
	name := e.Name
	if name == "" {
		name = "Error"
	}
	if e.Message == "" {
		return clean(name, maxErrorText)
	}
	return clean(cut(name, maxPiece)+": "+cut(e.Message, maxErrorText), maxErrorText)
}

// BytesKind says as what bytes appear in JavaScript.
type BytesKind byte

// The kinds of [Bytes]. The zero value is ArrayBuffer.
const (
	ArrayBuffer       BytesKind = BytesKind(wire.ArrayBuffer)
	Int8Array         BytesKind = BytesKind(wire.Int8Array)
	Uint8Array        BytesKind = BytesKind(wire.Uint8Array)
	Uint8ClampedArray BytesKind = BytesKind(wire.Uint8ClampedArray)
	Int16Array        BytesKind = BytesKind(wire.Int16Array)
	Uint16Array       BytesKind = BytesKind(wire.Uint16Array)
	Int32Array        BytesKind = BytesKind(wire.Int32Array)
	Uint32Array       BytesKind = BytesKind(wire.Uint32Array)
	Float32Array      BytesKind = BytesKind(wire.Float32Array)
	Float64Array      BytesKind = BytesKind(wire.Float64Array)
	BigInt64Array     BytesKind = BytesKind(wire.BigInt64Array)
	BigUint64Array    BytesKind = BytesKind(wire.BigUint64Array)
	Float16Array      BytesKind = BytesKind(wire.Float16Array)
	DataView          BytesKind = BytesKind(wire.DataView)
)

// String returns the name of the class in JavaScript.
func (k BytesKind) String() string { return wire.BytesKind(k).String() }

// Size returns the length of one element in bytes, 0 if k is no kind.
func (k BytesKind) Size() int { return wire.BytesKind(k).Size() }

// Bytes is an ArrayBuffer, a typed array or a DataView: the bytes that it shows,
// little-endian. Data must be a multiple of the kind's Size to cross. A []byte
// crosses as a Uint8Array without it. A nil *Bytes crosses as null.
type Bytes struct {
	Kind BytesKind
	Data []byte
}

// ValueKind is what a [Value] is in JavaScript.
type ValueKind byte

// The kinds of a [Value]. Functions, symbols and other objects never cross.
const (
	ValueUndefined ValueKind = iota
	ValueNull
	ValueBoolean
	ValueNumber
	ValueBigInt
	ValueString
	ValueDate
	ValueBytes // ArrayBuffer, typed array or DataView
	ValueArray
	ValueObject
	ValueMap
	ValueSet
	ValueError
)

const kindNames = "undefined null boolean number bigint string Date bytes array object Map Set Error"

// String returns "undefined", "null", "boolean", "number", "bigint", "string",
// "Date", "bytes", "array", "object", "Map", "Set" or "Error".
func (k ValueKind) String() string {
	if names := strings.Fields(kindNames); int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}
