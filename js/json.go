package js

import (
	"math"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// MarshalJSON returns v as JSON, as JSON.stringify would without toJSON:
// properties in their order, those that are undefined left out, undefined and
// holes in an array as null, a Date as its ISO string, half of a surrogate pair
// as an escape. Three things differ: -0 keeps its sign, bytes of every kind are
// a base64 string, as a []byte is in encoding/json, and an Error is an object
// with name and message.
//
// What JSON cannot say is an error that wraps [ErrNoJSON] and names the path:
// undefined itself, NaN and the infinities, BigInt, Map, Set, an invalid Date.
func (v Value) MarshalJSON() ([]byte, error) {
	b, f := appendJSON(nil, v.wire())
	if f != nil {
		return nil, f.at(v.root())
	}
	return b, nil
}

func noJSON(tree any) *fault {
	return &fault{reason: describe(tree) + " has no JSON form", cause: ErrNoJSON}
}

// appendJSON recurses as deep as the tree, which wire has bounded.
func appendJSON(b []byte, tree any) ([]byte, *fault) {
	switch t := tree.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		if t {
			return append(b, "true"...), nil
		}
		return append(b, "false"...), nil
	case float64:
		if !math.IsNaN(t) && !math.IsInf(t, 0) {
			return appendNumber(b, t), nil
		}
	case string:
		return appendString(b, t), nil
	case wire.Date:
		if !math.IsNaN(float64(t)) {
			return append(append(append(b, '"'), dateText(t)...), '"'), nil
		}
	case *wire.Bytes:
		return appendBase64(b, t.Data), nil
	case *wire.Error:
		b = appendString(append(b, `{"name":`...), t.Name)
		b = appendString(append(b, `,"message":`...), t.Message)
		return append(b, '}'), nil
	case []any:
		return appendArray(b, t)
	case *wire.Object:
		return appendObject(b, t)
	}
	return b, noJSON(tree)
}

func absent(tree any) bool {
	switch tree.(type) {
	case wire.Undefined, wire.Hole:
		return true
	}
	return false
}

func appendArray(b []byte, values []any) ([]byte, *fault) {
	b = append(b, '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		if absent(v) {
			v = nil
		}
		var f *fault
		if b, f = appendJSON(b, v); f != nil {
			return b, f.index(i)
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, o *wire.Object) ([]byte, *fault) {
	b = append(b, '{')
	first := true
	for i, v := range o.Values {
		if absent(v) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendString(b, o.Keys[i]), ':')
		var f *fault
		if b, f = appendJSON(b, v); f != nil {
			return b, f.key(o.Keys[i])
		}
	}
	return append(b, '}'), nil
}
