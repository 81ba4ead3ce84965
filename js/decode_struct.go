package js

import (
	"math/big"
	"reflect"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// plan says for each key of a shape which field it sets, -1 for none. Objects of
// one shape share their list of keys, so records are planned once.
type plan struct {
	s      *structInfo
	first  *string
	fields []int
}

func (d *decoder) planOf(s *structInfo, keys []string) []int {
	if len(keys) == 0 {
		return nil
	}
	for i := range d.plans {
		if p := &d.plans[i]; p.first == &keys[0] && p.s == s && len(p.fields) == len(keys) {
			return p.fields
		}
	}
	fields := make([]int, len(keys))
	for i, k := range keys {
		n, ok := s.byName[k]
		if !ok {
			n = -1
		}
		fields[i] = n
	}
	d.plans[d.next] = plan{s, &keys[0], fields}
	d.next = (d.next + 1) % len(d.plans)
	return fields
}

func (d *decoder) structure(o *wire.Object, dst reflect.Value, info *typeInfo) *fault {
	s := info.structOf(dst.Type())
	for i, n := range d.planOf(s, o.Keys) {
		if n < 0 {
			if d.strict || s.strict {
				return faultf("%s has no such field", dst.Type()).key(o.Keys[i])
			}
			continue
		}
		field := &s.fields[n]
		if f := d.field(o.Values[i], dst, field); f != nil {
			return f.key(field.name)
		}
	}
	return nil
}

// field sets one field. Undefined is as good as absent, but for a type that has
// undefined.
func (d *decoder) field(tree any, dst reflect.Value, field *field) *fault {
	if absent(tree) && field.typ.Kind() != reflect.Interface && leaves[field.typ] == noLeaf {
		return nil
	}
	for _, i := range field.index {
		if dst.Kind() == reflect.Pointer {
			if dst.IsNil() {
				if !dst.CanSet() {
					return faultf("cannot be set through the unexported %s", dst.Type())
				}
				dst.Set(reflect.New(dst.Type().Elem()))
			}
			dst = dst.Elem()
		}
		dst = dst.Field(i)
	}
	if field.quoted {
		return unquote(tree, dst)
	}
	return d.value(tree, dst)
}

// unquote is the option "string": the value is in a string, as its JSON text.
func unquote(tree any, dst reflect.Value) *fault {
	for dst.Kind() == reflect.Pointer {
		if tree == nil {
			return nil
		}
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	s, ok := tree.(string)
	if !ok {
		return misfit(tree, dst.Type())
	}
	var inner any
	switch k := dst.Kind(); {
	case leaves[dst.Type()] == leafNumber && isNumber(s):
		dst.SetString(s)
		return nil
	case k == reflect.String:
		e := &encoder{maxNodes: 1, maxDepth: 1, maxElements: 1}
		if v, f := e.readJSON([]byte(s)); f == nil {
			inner = v
		}
	case k == reflect.Bool && (s == "true" || s == "false"):
		inner = s == "true"
	case isNumber(s) && !dst.CanFloat():
		if n, ok := new(big.Int).SetString(cut(s, maxPiece), 10); ok {
			inner = n
		}
	case dst.CanFloat() && (isNumber(s) || s == "NaN" || s == "Infinity" || s == "-Infinity"):
		if f, err := strconv.ParseFloat(s, dst.Type().Bits()); err == nil {
			inner = f
		}
	}
	if inner == nil || scalar(inner, dst) != nil {
		return misfit(tree, dst.Type())
	}
	return nil
}

// setData sets dst, a pointer to a leaf, and reports whether it can.
func setData(tree, dst any) bool {
	switch p := dst.(type) {
	case *time.Time:
		if v, ok := tree.(wire.Date); ok {
			*p, ok = toTime(v)
			return ok
		}
	case *Map:
		if v, ok := tree.(*wire.Map); ok {
			*p = *toMap(v)
			return true
		}
	case *Set:
		if v, ok := tree.(*wire.Set); ok {
			p.Elements = allAny(v.Values)
			return true
		}
	case *Bytes:
		if v, ok := tree.(*wire.Bytes); ok {
			*p = *toBytes(v)
			return true
		}
	case *ErrorValue:
		if v, ok := tree.(*wire.Error); ok {
			*p = *toErrorValue(v)
			return true
		}
	}
	return false
}
