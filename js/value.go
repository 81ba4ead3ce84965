package js

import (
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Value is a value of JavaScript that was copied out of it. It never changes,
// and what its methods return is not part of it. The zero value is undefined.
// It is safe for concurrent use.
type Value struct {
	_    [0]func() // not comparable
	tree any       // as wire.Decode returns it; nil is undefined, null{} null
	name string    // of the value in errors; empty is "value"
}

// null stands for null in a Value, whose zero value is undefined.
type null struct{}

// valueOf makes a Value of what wire.Decode returned. Nobody else may keep tree.
func valueOf(tree any, name string) Value {
	switch tree.(type) {
	case nil:
		return Value{tree: null{}, name: name}
	case wire.Undefined, wire.Hole:
		return Value{}
	}
	return Value{tree: tree, name: name}
}

// wire returns the tree of v as wire has it.
func (v Value) wire() any {
	switch v.tree.(type) {
	case nil:
		return wire.Undefined{}
	case null:
		return nil
	}
	return v.tree
}

func (v Value) root() string {
	if v.name == "" {
		return "value"
	}
	return v.name
}

// ValueOf converts a Go value to what it is in JavaScript, by the rules of the
// package, as if it had crossed and come back. The error is a *ConvertError.
func ValueOf(v any) (Value, error) {
	encoded, err := encodeValue("value", v, wire.Budget{})
	if err != nil {
		return Value{}, err
	}
	return decodeValue("value", encoded, wire.Budget{})
}

// encodeValue converts a Go value for the wire. root is its name in errors. The
// error is a *ConvertError.
func encodeValue(root string, v any, b wire.Budget) (wire.Value, error) {
	tree, err := encodeTree(root, v, b)
	if err != nil {
		return nil, err
	}
	encoded, err := wire.Encode(tree, b)
	if err != nil {
		return nil, asFault(err).at(root)
	}
	return encoded, nil
}

// encodeForEngine is encodeValue, or the value as JSON where that says all of it:
// the engine reads it several times faster.
func encodeForEngine(root string, v any, b wire.Budget) (wire.Value, string, error) {
	tree, err := encodeTree(root, v, b)
	if err != nil {
		return nil, "", err
	}
	switch tree.(type) {
	case []any, *wire.Object:
		if exactJSON(tree) {
			text, f := appendJSON(nil, tree)
			if f == nil && len(text) <= wire.MaxValue {
				return nil, string(text), nil
			}
		}
	}
	encoded, err := wire.Encode(tree, b)
	if err != nil {
		return nil, "", asFault(err).at(root)
	}
	return encoded, "", nil
}

// exactJSON reports whether JSON says all of a tree.
func exactJSON(tree any) bool {
	switch t := tree.(type) {
	case nil, bool, string:
		return true
	case float64:
		return !math.IsNaN(t) && !math.IsInf(t, 0)
	case []any:
		return !slices.ContainsFunc(t, func(e any) bool { return !exactJSON(e) })
	case *wire.Object:
		return !slices.ContainsFunc(t.Values, func(e any) bool { return !exactJSON(e) })
	}
	return false
}

// decodeValue reads a value from the wire. root is its name in later errors.
// The error is one of wire's own, since a peer made it.
func decodeValue(root string, v wire.Value, b wire.Budget) (Value, error) {
	tree, err := wire.Decode(v, b)
	if err != nil {
		return Value{}, err
	}
	return valueOf(tree, root), nil
}

// Kind returns what v is in JavaScript.
func (v Value) Kind() ValueKind { return kindOf(v.wire()) }

// IsUndefined reports whether v is undefined.
func (v Value) IsUndefined() bool { return v.tree == nil }

// IsNull reports whether v is null.
func (v Value) IsNull() bool { return v.Kind() == ValueNull }

func kindOf(tree any) ValueKind {
	switch tree.(type) {
	case nil:
		return ValueNull
	case bool:
		return ValueBoolean
	case float64:
		return ValueNumber
	case *big.Int:
		return ValueBigInt
	case string:
		return ValueString
	case wire.Date:
		return ValueDate
	case *wire.Bytes:
		return ValueBytes
	case []any:
		return ValueArray
	case *wire.Object:
		return ValueObject
	case *wire.Map:
		return ValueMap
	case *wire.Set:
		return ValueSet
	case *wire.Error:
		return ValueError
	}
	return ValueUndefined
}

// Any returns v as plain Go data:
//
//	undefined                  Undefined
//	null                       nil
//	boolean                    bool
//	number                     float64
//	BigInt                     *big.Int
//	string                     string
//	Date                       time.Time in UTC, or InvalidDate
//	Uint8Array, ArrayBuffer    []byte
//	other typed arrays         *Bytes, DataView too
//	array                      []any; a hole is Undefined
//	object                     map[string]any
//	Map, Set                   *Map, *Set
//	Error                      *ErrorValue
//
// A string with half of a surrogate pair has three bytes in its place that are
// not valid UTF-8 (WTF-8). The order of an object's properties, holes, and
// whether bytes were a Uint8Array or an ArrayBuffer are lost.
//
// Maps take memory: up to about fifteen times what the value took to cross.
// [Value.Decode] into structs takes less.
func (v Value) Any() any { return toAny(v.wire()) }

func toAny(tree any) any {
	switch t := tree.(type) {
	case nil, bool, float64, string:
		return tree
	case []any:
		return allAny(t)
	case *wire.Object:
		m := make(map[string]any, len(t.Keys))
		for i, k := range t.Keys {
			m[k] = toAny(t.Values[i])
		}
		return m
	case *big.Int:
		return new(big.Int).Set(t)
	case wire.Date:
		if at, ok := toTime(t); ok {
			return at
		}
		return InvalidDate
	case *wire.Bytes:
		if t.Kind == wire.Uint8Array || t.Kind == wire.ArrayBuffer {
			return cloneBytes(t.Data)
		}
		return toBytes(t)
	case *wire.Map:
		return toMap(t)
	case *wire.Set:
		return &Set{allAny(t.Values)}
	case *wire.Error:
		return toErrorValue(t)
	}
	return Undefined
}

func allAny(values []any) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = toAny(v)
	}
	return out
}

func toMap(m *wire.Map) *Map {
	out := &Map{make([]Entry, len(m.Keys))}
	for i := range m.Keys {
		out.Entries[i] = Entry{toAny(m.Keys[i]), toAny(m.Values[i])}
	}
	return out
}

func toErrorValue(e *wire.Error) *ErrorValue { return &ErrorValue{e.Name, e.Message, e.Stack} }

func toBytes(b *wire.Bytes) *Bytes { return &Bytes{BytesKind(b.Kind), cloneBytes(b.Data)} }

// cloneBytes copies b and returns an empty slice, not nil, for none.
func cloneBytes(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }

// toTime returns the time of a Date, and false for an invalid one.
func toTime(d wire.Date) (time.Time, bool) {
	if math.IsNaN(float64(d)) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(d)).UTC(), true
}
