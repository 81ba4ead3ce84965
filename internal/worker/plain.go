//go:build linux

package worker

import (
	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Values that have no parts but text cross without the codec, which would take
// longer to come to the same.

// quick is the encoding of a value, or of an array of several. It is not ok for
// what only the codec can write, or refuse.
func (s *server) quick(array bool, values ...*jsc.Value) (wire.Value, bool) {
	ok := uint64(len(values)) < s.options.Limits.Nodes
	if array {
		s.plain.Array(len(values))
	}
	for _, v := range values {
		ok = ok && s.write(v)
	}
	value, err := s.plain.Value()
	return value, ok && err == nil
}

// write writes one value; false is for what it does not know.
func (s *server) write(v *jsc.Value) bool {
	switch v.Type() {
	case jsc.Undefined:
		s.plain.Undefined()
	case jsc.Null:
		s.plain.Null()
	case jsc.Boolean:
		b, err := v.Bool()
		s.plain.Bool(b)
		return err == nil
	case jsc.Number:
		f, err := v.Number()
		s.plain.Number(f)
		return err == nil
	case jsc.String:
		units, err := v.UTF16()
		s.plain.Text(units)
		return err == nil
	default:
		return false
	}
	return true
}

// quickArguments are how many arguments of a call the script hands over one by
// one, behind the array of all.
const quickArguments = 3

// arguments encodes those of a call, which are those of the script's from the
// third on.
func (s *server) arguments(k *jsc.Call) (wire.Value, *wire.Failure) {
	most := s.options.Limits.ArgumentBytes
	if n := k.Len() - 3; n <= quickArguments {
		var values []*jsc.Value
		for i := range n {
			values = append(values, k.Arg(3+i))
		}
		if value, ok := s.quick(true, values...); ok && uint64(len(value)) <= most {
			return value, nil
		}
	}
	return s.encode(k.Arg(2), "argument_bytes", most)
}

// made is the value of the guest for what wire calls plain.
func (s *server) made(plain any) *jsc.Value {
	switch v := plain.(type) {
	case nil:
		return s.js.Null()
	case bool:
		return s.js.Bool(v)
	case float64:
		return s.js.Number(v)
	case wire.Text:
		if v.Wide {
			return s.js.UTF16(v.Units)
		}
		return s.js.Latin1(v.Units)
	}
	return s.js.Undefined()
}
