package js

import (
	"encoding"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strconv"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Decode sets what dst, a pointer that is not nil, points to to v. It works like
// encoding/json's Unmarshal, with exact rules (see "Values" in the package
// documentation): what dst points to is replaced as a whole and, with an error,
// left as it was; names of fields are compared exactly; numbers that a type
// cannot hold are refused, never rounded to an integer or clamped. Properties
// that a struct has no field for are ignored, unless it has a field _ with the
// tag `js:"strict"`.
//
// The error is a *ConvertError. A dst that is no pointer, or nil, is one too.
func (v Value) Decode(dst any) error { return v.decode(dst, false) }

// DecodeStrict is Decode, but refuses a property that a struct has no field for.
func (v Value) DecodeStrict(dst any) error { return v.decode(dst, true) }

func (v Value) decode(dst any, strict bool) error {
	p := reflect.ValueOf(dst)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return faultf("cannot be set: %T is no pointer, or nil", dst).at(v.root())
	}
	made := reflect.New(p.Type().Elem()).Elem()
	if err := decodeInto(v.root(), v.wire(), made, strict); err != nil {
		return err
	}
	p.Elem().Set(made)
	return nil
}

// decodeInto sets dst, which is settable and zero. root is the name of the value
// in errors. After an error dst may be set in part.
func decodeInto(root string, tree any, dst reflect.Value, strict bool) error {
	d := &decoder{strict: strict}
	return d.value(tree, dst).at(root)
}

type decoder struct {
	strict bool
	depth  int
	plans  [8]plan
	next   int // plan to be replaced
}

// value sets dst, which is zero, to what tree says.
func (d *decoder) value(tree any, dst reflect.Value) *fault {
	// A tree is no deeper, but one that a bug made must not exhaust the stack.
	if d.depth++; d.depth > maxDepth+1 {
		return exceeds("depth", maxDepth)
	}
	defer func() { d.depth-- }()
	for hops := 0; dst.Kind() == reflect.Pointer; hops++ {
		if tree == nil || absent(tree) {
			return nil
		}
		if hops == maxHops || !dst.CanSet() {
			return misfit(tree, dst.Type())
		}
		dst.Set(reflect.New(dst.Type().Elem()))
		dst = dst.Elem()
	}
	info := infoOf(dst.Type())
	switch {
	case info.leaf != noLeaf:
		return d.leaf(tree, dst, info.leaf)
	case info.unmarshalsJSON && dst.Addr().CanInterface():
		return unmarshalJSON(tree, dst)
	case info.unmarshalsText && dst.Addr().CanInterface():
		return unmarshalText(tree, dst)
	}
	switch dst.Kind() {
	case reflect.Interface:
		return toInterface(tree, dst)
	case reflect.Map, reflect.Slice:
		if tree == nil || absent(tree) {
			return nil
		}
	}
	switch dst.Kind() {
	case reflect.Map:
		return d.mapping(tree, dst)
	case reflect.Slice:
		return d.slice(tree, dst, info)
	case reflect.Array:
		return d.array(tree, dst, info)
	case reflect.Struct:
		if o, ok := tree.(*wire.Object); ok {
			return d.structure(o, dst, info)
		}
		return misfit(tree, dst.Type())
	}
	return scalar(tree, dst)
}

func toInterface(tree any, dst reflect.Value) *fault {
	if tree == nil {
		return nil
	}
	v := reflect.ValueOf(toAny(tree))
	if !v.Type().AssignableTo(dst.Type()) {
		return misfit(tree, dst.Type())
	}
	dst.Set(v)
	return nil
}

func unmarshalJSON(tree any, dst reflect.Value) *fault {
	text, f := appendJSON(nil, tree)
	if f != nil {
		return f
	}
	return methodFault(dst, dst.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(text))
}

func unmarshalText(tree any, dst reflect.Value) *fault {
	s, ok := tree.(string)
	if !ok {
		return misfit(tree, dst.Type())
	}
	return methodFault(dst, dst.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)))
}

func methodFault(dst reflect.Value, err error) *fault {
	if err == nil {
		return nil
	}
	return &fault{reason: dst.Type().String() + ": " + err.Error(), cause: err}
}

// scalar sets a bool, number or string.
func scalar(tree any, dst reflect.Value) *fault {
	switch v := tree.(type) {
	case bool:
		if dst.Kind() == reflect.Bool {
			dst.SetBool(v)
			return nil
		}
	case string:
		if dst.Kind() == reflect.String {
			dst.SetString(v)
			return nil
		}
	case float64:
		if setFloat(v, dst) {
			return nil
		}
	case *big.Int:
		if setBig(v, dst) {
			return nil
		}
	}
	return misfit(tree, dst.Type())
}

// setFloat sets a number: any in a float that is large enough, an integer in an
// integer type that has it.
func setFloat(f float64, dst reflect.Value) bool {
	switch {
	case dst.CanFloat():
		if dst.OverflowFloat(f) && !math.IsInf(f, 0) {
			return false
		}
		dst.SetFloat(f)
		return true
	case f != math.Trunc(f):
		return false
	case dst.CanInt():
		// -2^63 is a float64, 2^63-1 is none.
		if f < -1<<63 || f >= 1<<63 || dst.OverflowInt(int64(f)) {
			return false
		}
		dst.SetInt(int64(f))
		return true
	case dst.CanUint():
		if f < 0 || f >= 1<<64 || dst.OverflowUint(uint64(f)) {
			return false
		}
		dst.SetUint(uint64(f))
		return true
	}
	return false
}

func setBig(n *big.Int, dst reflect.Value) bool {
	switch {
	case dst.CanInt() && n.IsInt64() && !dst.OverflowInt(n.Int64()):
		dst.SetInt(n.Int64())
		return true
	case dst.CanUint() && n.IsUint64() && !dst.OverflowUint(n.Uint64()):
		dst.SetUint(n.Uint64())
		return true
	}
	return false
}

// leaf sets a value of one of the types with a rule of their own.
func (d *decoder) leaf(tree any, dst reflect.Value, l leaf) *fault {
	if l == leafNumber {
		return setNumber(tree, dst)
	}
	switch p := dst.Addr().Interface().(type) {
	case *Value:
		*p = valueOf(tree, "")
		return nil
	case *UndefinedType:
		if absent(tree) {
			return nil
		}
	case *InvalidDateType:
		if date, ok := tree.(wire.Date); ok && math.IsNaN(float64(date)) {
			return nil
		}
	case *big.Int:
		switch t := tree.(type) {
		case *big.Int:
			p.Set(t)
			return nil
		case float64:
			if t == math.Trunc(t) && !math.IsInf(t, 0) {
				new(big.Float).SetFloat64(t).Int(p)
				return nil
			}
		}
	default:
		if setData(tree, p) {
			return nil
		}
	}
	return misfit(tree, dst.Type())
}

// maxNumberBits bounds a BigInt that is written in decimal, which takes longer
// than in proportion.
const maxNumberBits = 1 << 14

func setNumber(tree any, dst reflect.Value) *fault {
	switch t := tree.(type) {
	case float64:
		if !math.IsNaN(t) && !math.IsInf(t, 0) {
			dst.SetString(string(appendNumber(nil, t)))
			return nil
		}
	case *big.Int:
		if t.BitLen() <= maxNumberBits {
			dst.SetString(t.String())
			return nil
		}
	}
	return misfit(tree, dst.Type())
}

func (d *decoder) slice(tree any, dst reflect.Value, info *typeInfo) *fault {
	var values []any
	switch t := tree.(type) {
	case []any:
		values = t
	case *wire.Set:
		values = t.Values
	case *wire.Bytes:
		if !info.bytes || !plainBytes(t) {
			return misfit(tree, dst.Type())
		}
		dst.SetBytes(cloneBytes(t.Data))
		return nil
	default:
		return misfit(tree, dst.Type())
	}
	if dst.Type() == reflect.TypeFor[[]any]() {
		dst.Set(reflect.ValueOf(allAny(values)))
		return nil
	}
	dst.Set(reflect.MakeSlice(dst.Type(), len(values), len(values)))
	return d.elements(values, dst)
}

// plainBytes reports whether a []byte says all of a value: elements of other
// kinds are no bytes.
func plainBytes(b *wire.Bytes) bool {
	switch b.Kind {
	case wire.ArrayBuffer, wire.Uint8Array, wire.Uint8ClampedArray, wire.DataView:
		return true
	}
	return false
}

func (d *decoder) array(tree any, dst reflect.Value, info *typeInfo) *fault {
	switch t := tree.(type) {
	case []any:
		if len(t) == dst.Len() {
			return d.elements(t, dst)
		}
	case *wire.Bytes:
		if info.bytes && plainBytes(t) && len(t.Data) == dst.Len() {
			copy(dst.Bytes(), t.Data)
			return nil
		}
	}
	return misfit(tree, dst.Type())
}

func (d *decoder) elements(values []any, dst reflect.Value) *fault {
	for i, v := range values {
		if f := d.value(v, dst.Index(i)); f != nil {
			return f.index(i)
		}
	}
	return nil
}

// mapping sets a map from an object, or from a Map.
func (d *decoder) mapping(tree any, dst reflect.Value) *fault {
	t := dst.Type()
	switch v := tree.(type) {
	case *wire.Object:
		if t == reflect.TypeFor[map[string]any]() {
			dst.Set(reflect.ValueOf(toAny(tree)))
			return nil
		}
		dst.Set(reflect.MakeMapWithSize(t, len(v.Keys)))
		for i, name := range v.Keys {
			key, f := propertyKey(name, t.Key())
			if f == nil {
				f = d.put(dst, key, v.Values[i])
			}
			if f != nil {
				return f.key(name)
			}
		}
		return nil
	case *wire.Map:
		dst.Set(reflect.MakeMapWithSize(t, len(v.Keys)))
		for i := range v.Keys {
			key := reflect.New(t.Key()).Elem()
			if f := d.value(v.Keys[i], key); f != nil {
				return f.entry("entries", i, ".key")
			}
			if !key.Comparable() {
				return misfit(v.Keys[i], t.Key()).entry("entries", i, ".key")
			}
			if f := d.put(dst, key, v.Values[i]); f != nil {
				return f.entry("entries", i, ".value")
			}
		}
		return nil
	}
	return misfit(tree, t)
}

// put adds one entry. Two keys that became one are refused.
func (d *decoder) put(dst, key reflect.Value, tree any) *fault {
	if dst.MapIndex(key).IsValid() {
		return faultf("a second value for one key of %s", dst.Type())
	}
	value := reflect.New(dst.Type().Elem()).Elem()
	if f := d.value(tree, value); f != nil {
		return f
	}
	dst.SetMapIndex(key, value)
	return nil
}

// propertyKey converts the name of a property to a map's key.
func propertyKey(name string, t reflect.Type) (reflect.Value, *fault) {
	key := reflect.New(t).Elem()
	switch {
	case infoOf(t).unmarshalsText:
		return key, unmarshalText(name, key)
	case t.Kind() == reflect.String:
		key.SetString(name)
		return key, nil
	case key.CanInt():
		if n, err := strconv.ParseInt(name, 10, t.Bits()); err == nil && strconv.FormatInt(n, 10) == name {
			key.SetInt(n)
			return key, nil
		}
	case key.CanUint():
		if n, err := strconv.ParseUint(name, 10, t.Bits()); err == nil && strconv.FormatUint(n, 10) == name {
			key.SetUint(n)
			return key, nil
		}
	}
	return key, faultf("key %q does not fit %s", cut(name, maxPiece), t)
}
