// Package js runs JavaScript that nobody vouches for, and converts values
// between Go and JavaScript.
//
// # Values
//
// A value is copied when it crosses; nothing is shared, and no method of either
// side runs on the other. The rules are like those of encoding/json, with the
// same tags `json:"name,omitempty,omitzero,string"` and the same choice among
// embedded fields, but exact: nothing is rounded to an integer, clamped, cut or
// folded in silence. docs/javascript.md has them as tables.
//
// From Go, in this order:
//
//   - [Undefined], [InvalidDate], [Value], time.Time (a Date in ms; what is less
//     is dropped), *big.Int (BigInt), json.Number, [Map], [Set], [Bytes] and
//     [ErrorValue] are what they say.
//   - nil, and a nil pointer, interface, slice or map, is null.
//   - A json.Marshaler is what its JSON says, an encoding.TextMarshaler a string,
//     another error an Error with the name "Error".
//   - A bool is a boolean. An integer is a number up to 2^53-1 either way and a
//     BigInt beyond, a float a number: NaN, the infinities and -0 stay.
//   - A string is a string. It may hold halves of surrogate pairs, three bytes each
//     (WTF-8); another byte that is not UTF-8 becomes U+FFFD.
//   - A []byte is a Uint8Array, other slices and arrays are arrays.
//   - A map whose keys are strings, integers or encoding.TextMarshaler is an object
//     with its keys sorted, a struct an object with its fields in their order.
//   - Functions, channels, complex numbers and unsafe pointers cannot cross.
//
// To Go: [Value.Any] names the type for each value, [Value.Decode] fills any Go
// type.
//
//   - undefined and null are nil in a pointer, map or slice, null in an interface
//     too, undefined there is [Undefined]. Other types refuse both, but a property
//     that is undefined counts as absent.
//   - Before anything else come the types named above; then json.Unmarshaler gets
//     the value as JSON (see [Value.MarshalJSON]) and encoding.TextUnmarshaler a
//     string.
//   - A boolean fits bool and a string fits string types. A number fits a float
//     that is large enough; a number or BigInt an integer type or big.Int that has
//     exactly this integer.
//   - An ArrayBuffer, Uint8Array, Uint8ClampedArray or DataView fits []byte and, at
//     its exact length, [N]byte; other views fit [Bytes] only. A string is no bytes.
//   - An array or Set fits a slice; an array fits a Go array of its exact length. A
//     hole is undefined.
//   - An object fits a struct, by exact names, and a map whose keys are strings,
//     integers or encoding.TextUnmarshaler. A Map fits a map whose keys it fits.
//
// One value has at most 1,000,000 nodes (each value in it is one), 128 levels of
// containers, 1,048,576 elements in one of them, and must fit a frame of 16 MiB.
// What has more, cycles among it, is refused with a [ConvertError].
//
// Strings of a guest, in values as in errors' fields, are as the guest made them.
// Text that is meant for people ([Value.String], the text of errors) has no
// control, reordering or invisible characters.
package js
