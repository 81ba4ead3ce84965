package wire

// tag is the first word of a value in the structure.
type tag int

// The closed set of tags; 14 and 15 are free.
const (
	tagUndefined tag = 0
	tagNull      tag = 1
	tagFalse     tag = 2
	tagTrue      tag = 3
	tagNumber    tag = 4
	tagBigInt    tag = 5
	tagString    tag = 6
	tagArray     tag = 7
	tagObject    tag = 8
	tagMap       tag = 9
	tagSet       tag = 10
	tagDate      tag = 11
	tagError     tag = 12
	tagBytes     tag = 13
	tagHole      tag = 16
	tagsEnd      tag = 17
)

// tags says of each what follows it in the structure, what it is in Go, and
// what bounds it besides nodes and memory, which bound all. The table in
// docs/wire.md is made from it.
var tags = [tagsEnd]struct{ Name, Operands, Go, Budget string }{
	tagUndefined: {"undefined", "", "Undefined", ""},
	tagNull:      {"null", "", "nil", ""},
	tagFalse:     {"false", "", "false", ""},
	tagTrue:      {"true", "", "true", ""},
	tagNumber:    {"number", "the number; every NaN is the same", "float64", ""},
	tagBigInt:    {"bigint", "length; heap: hexadecimal digits, `-` before if negative", "*big.Int", "262,144 digits"},
	tagString:    {"string", "length; heap: its units", "string", ""},
	tagArray:     {"array", "count; count values or holes", "[]any", "elements, depth"},
	tagObject:    {"object", "shape; if the shape is new: count, count lengths of keys, heap: the keys; a value for each key", "*Object", "elements, depth"},
	tagMap:       {"map", "count; count times key, value", "*Map", "elements, depth"},
	tagSet:       {"set", "count; count values", "*Set", "elements, depth"},
	tagDate:      {"date", "ms since 1970, an integer of at most 8.64e15 either way and never -0, or NaN", "Date", ""},
	tagError:     {"error", "lengths of name, message and stack; heap: the three", "*Error", ""},
	tagBytes:     {"bytes", "kind, length in bytes; bytes: the data", "*Bytes", ""},
	tagHole:      {"hole", "", "Hole", "only in an array"},
}
