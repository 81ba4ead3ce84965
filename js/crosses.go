package js

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"time"
)

// barrier says why no value of a type ever crosses, as an argument or as a
// result, or "". What a field of an argument has is not looked at, since its
// property may be absent, nor a field of a result that may be left out. It calls
// itself as deep as the type is; seen has what it was asked already.
func barrier(t reflect.Type, in bool, seen map[reflect.Type]bool) string {
	info := infoOf(t)
	switch {
	case seen[t] || info.leaf != noLeaf:
		return ""
	case t.Kind() == reflect.Pointer:
		seen[t] = true
		return barrier(t.Elem(), in, seen)
	case in && (info.unmarshalsJSON || info.unmarshalsText):
		return ""
	case !in && (info.addrMarshalsJSON || info.addrMarshalsText || info.isError): // the pointer has those of the value too
		return ""
	}
	seen[t] = true
	switch k := t.Kind(); {
	case k == reflect.Bool || k == reflect.String || numeric(k):
		return ""
	case k == reflect.Interface:
		return interfaceBarrier(t, in)
	case k == reflect.Slice || k == reflect.Array:
		return barrier(t.Elem(), in, seen)
	case k == reflect.Map:
		if why := keyBarrier(t, in, seen); why != "" {
			return why
		}
		return barrier(t.Elem(), in, seen)
	case k == reflect.Struct:
		for _, f := range info.structOf(t).fields {
			if in || f.omitEmpty || f.omitZero {
				continue
			}
			if why := barrier(f.typ, in, seen); why != "" {
				return why
			}
		}
		return ""
	}
	return fmt.Sprintf("has %s in it, which never crosses", t)
}

// decoded are the types of what an interface is set to, see [Value.Any].
var decoded = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]any](), reflect.TypeFor[map[string]any](),
	reflect.TypeFor[*big.Int](), reflect.TypeFor[time.Time](), reflect.TypeFor[InvalidDateType](), reflect.TypeFor[[]byte](), reflect.TypeFor[*Bytes](),
	reflect.TypeFor[*Map](), reflect.TypeFor[*Set](), reflect.TypeFor[*ErrorValue](), reflect.TypeFor[UndefinedType](),
}

// interfaceBarrier is barrier for an interface: a result may hold anything.
func interfaceBarrier(t reflect.Type, in bool) string {
	if !in || slices.ContainsFunc(decoded, func(d reflect.Type) bool { return d.AssignableTo(t) }) {
		return ""
	}
	return fmt.Sprintf("has %s in it, which no value of JavaScript is", t)
}

// keyBarrier is barrier for the keys of a map: of an argument they come from
// names of properties or from a Map, of a result they become names.
func keyBarrier(t reflect.Type, in bool, seen map[reflect.Type]bool) string {
	key := t.Key()
	if in {
		return barrier(key, in, seen)
	}
	v := reflect.New(key).Elem()
	if key.Kind() == reflect.String || v.CanInt() || v.CanUint() || key.Implements(textMarshaler) {
		return ""
	}
	return fmt.Sprintf("has %s in it, whose keys are no names of properties", t)
}
