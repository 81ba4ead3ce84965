package js

import (
	"encoding"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// encodeTree converts a Go value to what wire.Encode takes. The result may share
// bytes and big integers with v: encode it before v changes. root is the name of
// v in errors. The error is a *ConvertError.
//
// Everything is counted before it is made, so that a small value with many
// references to one part costs no more than its budgets.
func encodeTree(root string, v any, b wire.Budget) (any, error) {
	e := &encoder{maxNodes: or(b.Nodes, maxNodes), maxDepth: min(or(b.Depth, maxDepth), maxDepth), maxElements: or(b.Elements, maxElements)}
	tree, f := e.any(v)
	return tree, f.at(root)
}

func or(n, standard int) int {
	if n <= 0 {
		return standard
	}
	return n
}

// maxText is more text than any value that fits a frame has: a character of
// Latin-1 has two bytes in UTF-8 and one there.
const maxText = 2 * wire.MaxValue

type encoder struct {
	maxNodes, maxDepth, maxElements int
	nodes, depth, text              int // so far
}

// node counts one value.
func (e *encoder) node() *fault {
	if e.nodes++; e.nodes > e.maxNodes {
		return exceeds("nodes", e.maxNodes)
	}
	return nil
}

// enter begins a container of n elements. leave ends it.
func (e *encoder) enter(n int) *fault {
	if n > e.maxElements {
		return exceeds("elements", e.maxElements)
	}
	if n > e.maxNodes-e.nodes {
		return exceeds("nodes", e.maxNodes)
	}
	if e.depth++; e.depth > e.maxDepth {
		return &fault{reason: exceeds("depth", e.maxDepth).reason + "; is there a cycle?", limit: "depth"}
	}
	return nil
}

func (e *encoder) leave() { e.depth-- }

// charge counts n bytes of text or data.
func (e *encoder) charge(n int) *fault {
	if e.text += n; n > maxText || e.text > maxText {
		return exceeds("value", wire.MaxValue)
	}
	return nil
}

func (e *encoder) str(s string) (any, *fault) {
	if f := e.charge(len(s)); f != nil {
		return nil, f
	}
	return wtf8(s), nil
}

// any converts common types without reflection.
func (e *encoder) any(v any) (any, *fault) {
	switch v := v.(type) {
	case nil, bool, float64:
		return v, e.node()
	case string:
		if f := e.node(); f != nil {
			return nil, f
		}
		return e.str(v)
	case int:
		return integer(int64(v)), e.node()
	case map[string]any:
		if v != nil {
			return e.object(v)
		}
	case []any:
		if v != nil {
			return e.list(len(v), func(i int) (any, *fault) { return e.any(v[i]) })
		}
	}
	return e.value(reflect.ValueOf(v))
}

// typed converts a value whose type is known.
func (e *encoder) typed(v reflect.Value, info *typeInfo) (any, *fault) {
	if !info.bare {
		return e.value(v)
	}
	if f := e.node(); f != nil {
		return nil, f
	}
	return e.kind(v, info)
}

// value converts any value, after its pointers and interfaces.
func (e *encoder) value(v reflect.Value) (any, *fault) {
	if f := e.node(); f != nil {
		return nil, f
	}
	for range maxHops {
		if !v.IsValid() {
			return nil, nil
		}
		kind := v.Kind()
		if (kind == reflect.Pointer || kind == reflect.Interface) && v.IsNil() {
			return nil, nil
		}
		info := infoOf(v.Type())
		switch {
		case info.leaf != noLeaf:
			return e.leaf(v, info.leaf)
		case kind == reflect.Interface || info.own:
			v = v.Elem()
			continue
		}
		if tree, done, f := e.method(v, info); done {
			return tree, f
		}
		if kind != reflect.Pointer {
			return e.kind(v, info)
		}
		v = v.Elem()
	}
	return nil, faultf("more than %d pointers to pointers", maxHops)
}

// method converts a value that has a method to convert itself. Like in
// encoding/json that of a pointer counts if the value has an address.
func (e *encoder) method(v reflect.Value, info *typeInfo) (tree any, done bool, f *fault) {
	if !v.CanInterface() {
		return nil, false, nil
	}
	addr := v.CanAddr() && v.Kind() != reflect.Pointer
	switch {
	case info.marshalsJSON:
	case addr && info.addrMarshalsJSON:
		v = v.Addr()
	case info.marshalsText:
		return e.marshalText(v)
	case addr && info.addrMarshalsText:
		return e.marshalText(v.Addr())
	case info.isError:
		s, f := e.str(v.Interface().(error).Error())
		if f != nil {
			return nil, true, f
		}
		return &wire.Error{Name: "Error", Message: s.(string)}, true, nil
	default:
		return nil, false, nil
	}
	text, err := v.Interface().(json.Marshaler).MarshalJSON()
	if err != nil {
		return nil, true, &fault{reason: v.Type().String() + ": " + err.Error(), cause: err}
	}
	e.nodes-- // the text's outermost value is this one
	tree, f = e.readJSON(text)
	if f != nil {
		f.reason = v.Type().String() + ".MarshalJSON: " + f.reason
	}
	return tree, true, f
}

func (e *encoder) marshalText(v reflect.Value) (any, bool, *fault) {
	text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return nil, true, &fault{reason: v.Type().String() + ": " + err.Error(), cause: err}
	}
	tree, f := e.str(string(text))
	return tree, true, f
}

// kind converts a value that has no rule of its own.
func (e *encoder) kind(v reflect.Value, info *typeInfo) (any, *fault) {
	switch k := v.Kind(); {
	case k == reflect.Bool:
		return v.Bool(), nil
	case v.CanInt():
		return integer(v.Int()), nil
	case v.CanUint():
		return unsigned(v.Uint()), nil
	case v.CanFloat():
		return v.Float(), nil
	case k == reflect.String:
		return e.str(v.String())
	case k == reflect.Slice && v.IsNil(), k == reflect.Map && v.IsNil():
		return nil, nil
	case k == reflect.Slice && info.bytes:
		return &wire.Bytes{Kind: wire.Uint8Array, Data: v.Bytes()}, e.charge(v.Len())
	case k == reflect.Slice || k == reflect.Array:
		e.nodes-- // list counts it
		element := infoOf(v.Type().Elem())
		return e.list(v.Len(), func(i int) (any, *fault) { return e.typed(v.Index(i), element) })
	case k == reflect.Map:
		return e.mapping(v)
	case k == reflect.Struct:
		return e.structure(v, info.structOf(v.Type()))
	}
	return nil, faultf("%s cannot cross", v.Type())
}

// integer is a number if it is exact there, a BigInt if not.
func integer(n int64) any {
	if n > maxExact || n < -maxExact {
		return big.NewInt(n)
	}
	return float64(n)
}

func unsigned(n uint64) any {
	if n > maxExact {
		return new(big.Int).SetUint64(n)
	}
	return float64(n)
}

func (e *encoder) list(n int, at func(int) (any, *fault)) (any, *fault) {
	if f := e.node(); f != nil {
		return nil, f
	}
	if f := e.enter(n); f != nil {
		return nil, f
	}
	defer e.leave()
	out := make([]any, n)
	for i := range out {
		v, f := at(i)
		if f != nil {
			return nil, f.index(i)
		}
		out[i] = v
	}
	return out, nil
}

// object converts the commonest map.
func (e *encoder) object(m map[string]any) (any, *fault) {
	if f := e.node(); f != nil {
		return nil, f
	}
	if f := e.enter(len(m)); f != nil {
		return nil, f
	}
	defer e.leave()
	o := &wire.Object{Keys: make([]string, 0, len(m)), Values: make([]any, 0, len(m))}
	for k := range m {
		o.Keys = append(o.Keys, k)
	}
	slices.Sort(o.Keys)
	for _, k := range o.Keys {
		v, f := e.any(m[k])
		if f != nil {
			return nil, f.key(k)
		}
		o.Values = append(o.Values, v)
	}
	return o, asKeys(o.Keys)
}

// asKeys makes text of sorted keys, and looks for two that became one by it.
// Names are not charged for: those of records cross once.
func asKeys(keys []string) *fault {
	for i, k := range keys {
		keys[i] = wtf8(k)
	}
	return distinct(keys)
}

func distinct(keys []string) *fault {
	if !slices.IsSorted(keys) {
		keys = slices.Sorted(slices.Values(keys))
	}
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return faultf("two properties of one name").key(keys[i])
		}
	}
	return nil
}

func (e *encoder) mapping(v reflect.Value) (any, *fault) {
	if f := e.enter(v.Len()); f != nil {
		return nil, f
	}
	defer e.leave()
	type pair struct {
		key   string
		value reflect.Value
	}
	pairs := make([]pair, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		k, f := mapKey(it.Key())
		if f != nil {
			return nil, f
		}
		pairs = append(pairs, pair{k, it.Value()})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	o := &wire.Object{Keys: make([]string, len(pairs)), Values: make([]any, len(pairs))}
	for i, p := range pairs {
		value, f := e.value(p.value)
		if f != nil {
			return nil, f.key(p.key)
		}
		o.Keys[i], o.Values[i] = p.key, value
	}
	return o, asKeys(o.Keys)
}

// mapKey converts the key of a map to the name of a property.
func mapKey(k reflect.Value) (string, *fault) {
	if k.Kind() == reflect.String {
		return k.String(), nil
	}
	if k.CanInterface() && k.Type().Implements(textMarshaler) {
		if k.Kind() == reflect.Pointer && k.IsNil() {
			return "", nil
		}
		if m, ok := k.Interface().(encoding.TextMarshaler); ok {
			text, err := m.MarshalText()
			if err != nil {
				return "", &fault{reason: k.Type().String() + ": " + err.Error(), cause: err}
			}
			return string(text), nil
		}
	}
	switch {
	case k.CanInt():
		return big.NewInt(k.Int()).String(), nil
	case k.CanUint():
		return new(big.Int).SetUint64(k.Uint()).String(), nil
	}
	return "", faultf("a map with keys of type %s cannot cross", k.Type())
}

func (e *encoder) structure(v reflect.Value, s *structInfo) (any, *fault) {
	if f := e.enter(len(s.fields)); f != nil {
		return nil, f
	}
	defer e.leave()
	o := &wire.Object{Keys: s.names, Values: make([]any, 0, len(s.fields))}
	if s.varies {
		o.Keys = make([]string, 0, len(s.fields))
	}
	for i := range s.fields {
		field := &s.fields[i]
		fv, ok := follow(v, field.index)
		if !ok || field.omits(fv) {
			continue
		}
		value, f := e.typed(fv, field.info)
		if f != nil {
			return nil, f.key(field.name)
		}
		if field.quoted {
			value = quote(value)
		}
		if s.varies {
			o.Keys = append(o.Keys, field.name)
		}
		o.Values = append(o.Values, value)
	}
	return o, nil
}

// follow returns a field of embedded structs, and false if a pointer on the way
// is nil.
func follow(v reflect.Value, index []int) (reflect.Value, bool) {
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v, true
}

func (f *field) omits(v reflect.Value) bool {
	if f.omitZero && isZero(v) {
		return true
	}
	if !f.omitEmpty {
		return false
	}
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Bool, reflect.Interface, reflect.Pointer:
		return v.IsZero()
	}
	return numeric(v.Kind()) && v.IsZero()
}

type zeroer interface{ IsZero() bool }

var zeroerType = reflect.TypeFor[zeroer]()

// isZero asks the value's IsZero, if its type has one.
func isZero(v reflect.Value) bool {
	t := v.Type()
	switch {
	case !v.CanInterface() || (t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface) && v.IsNil():
		return v.IsZero()
	case t.Implements(zeroerType):
		if e := v.Elem; t.Kind() == reflect.Interface && e().Kind() == reflect.Pointer && e().IsNil() {
			return true
		}
	case reflect.PointerTo(t).Implements(zeroerType):
		p := reflect.New(t)
		p.Elem().Set(v)
		v = p
	default:
		return v.IsZero()
	}
	return v.Interface().(zeroer).IsZero()
}

// quote is the option "string": the JSON text of a value as a string.
func quote(tree any) any {
	switch t := tree.(type) {
	case bool:
		if t {
			return "true"
		}
		return "false"
	case float64:
		return string(appendNumber(nil, t))
	case *big.Int:
		return t.String()
	case string:
		return string(appendString(nil, t))
	}
	return tree
}

// leaf converts a value of one of the types with a rule of their own.
func (e *encoder) leaf(v reflect.Value, l leaf) (any, *fault) {
	if l == leafNumber {
		return e.number(v.String())
	}
	if !v.CanInterface() {
		return nil, faultf("%s of an unexported field cannot cross", v.Type())
	}
	if !v.CanAddr() {
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		v = p.Elem()
	}
	switch p := v.Addr().Interface().(type) {
	case *InvalidDateType:
		return wire.Date(math.NaN()), nil
	case *Value:
		return e.tree(p.wire())
	case *time.Time:
		return date(*p)
	case *big.Int:
		if p.BitLen() > 4*wire.MaxBigInt {
			return nil, exceeds("bigint", wire.MaxBigInt)
		}
		return p, nil
	case *Bytes:
		if size := p.Kind.Size(); size == 0 || len(p.Data)%size != 0 {
			return nil, faultf("%s is no %s", count(len(p.Data), "byte"), p.Kind)
		}
		return &wire.Bytes{Kind: wire.BytesKind(p.Kind), Data: p.Data}, e.charge(len(p.Data))
	case *ErrorValue:
		f := e.charge(len(p.Name) + len(p.Message) + len(p.Stack))
		return &wire.Error{Name: wtf8(p.Name), Message: wtf8(p.Message), Stack: wtf8(p.Stack)}, f
	case *Map:
		return e.entries(p.Entries)
	case *Set:
		return e.set(p.Elements)
	}
	return wire.Undefined{}, nil
}

// date converts a time: ms, what is less is dropped.
func date(t time.Time) (any, *fault) {
	const maxSeconds = 8.64e12
	if s := t.Unix(); s > maxSeconds || s < -maxSeconds || s == maxSeconds && t.Nanosecond() > 0 {
		return nil, faultf("the year %d is none of a Date", t.Year())
	}
	return wire.Date(t.UnixMilli()), nil
}

func (e *encoder) entries(entries []Entry) (any, *fault) {
	if f := e.enter(len(entries)); f != nil {
		return nil, f
	}
	defer e.leave()
	m := &wire.Map{Keys: make([]any, len(entries)), Values: make([]any, len(entries))}
	for i, entry := range entries {
		var f *fault
		if m.Keys[i], f = e.any(entry.Key); f != nil {
			return nil, f.entry("entries", i, ".key")
		}
		if m.Values[i], f = e.any(entry.Value); f != nil {
			return nil, f.entry("entries", i, ".value")
		}
	}
	return m, nil
}

func (e *encoder) set(elements []any) (any, *fault) {
	e.nodes-- // list counts it
	list, f := e.list(len(elements), func(i int) (any, *fault) { return e.any(elements[i]) })
	if f != nil {
		return nil, f.in(".elements")
	}
	return &wire.Set{Values: list.([]any)}, nil
}

// tree counts what a Value holds, all but its outermost value.
func (e *encoder) tree(tree any) (any, *fault) {
	var lists [2][]any
	pairs := 1
	switch t := tree.(type) {
	case []any:
		lists[0] = t
	case *wire.Object:
		lists[0] = t.Values
	case *wire.Map:
		lists, pairs = [2][]any{t.Keys, t.Values}, 2
	case *wire.Set:
		lists[0] = t.Values
	case string:
		return tree, e.charge(len(t))
	case *wire.Bytes:
		return tree, e.charge(len(t.Data))
	case *wire.Error:
		return tree, e.charge(len(t.Name) + len(t.Message) + len(t.Stack))
	default:
		return tree, nil
	}
	if f := e.enter(pairs * len(lists[0])); f != nil {
		return nil, f
	}
	defer e.leave()
	for _, list := range lists {
		for _, v := range list {
			f := e.node()
			if f == nil {
				_, f = e.tree(v)
			}
			if f != nil {
				return nil, f
			}
		}
	}
	return tree, nil
}
