package strictjson

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// class is what the text of a type looks like.
type class int

const (
	boolean class = iota
	integer
	unsigned
	float
	number // json.Number
	text
	octets   // []byte, in base64
	list     // slice or array
	dict     // map
	record   // struct
	free     // interface{}: anything
	verbatim // what a foreign type is given: anything, its numbers not looked at
	foreign  // a type that decodes itself
	textual  // the same, from a string
	pointer
)

// wants is how a class is named to whoever wrote something else.
var wants = [...]string{boolean: "true or false", integer: "a whole number", unsigned: "a whole number", float: "a number", number: "a number",
	text: "a string", octets: "a string of base64", list: "a list", dict: "an object", record: "an object", foreign: "a value",
	textual: "a string"}

// kind is a Go type as the walk needs it.
type kind struct {
	class class
	typ   reflect.Type
	size  int   // number of elements of an array, -1 for a slice
	elem  *kind // of pointers, lists and dicts; of free and verbatim themselves
	null  bool  // null is a value of it

	names  map[string]*field // of a record
	fields []*field          // the same, outer before embedded ones
}

// field is a field of a record under its JSON name.
type field struct {
	name      string
	index     int // in kind.fields
	kind      *kind
	audiences []string
}

// isFor reports whether an audience may set the field; "" may set any.
func (f *field) isFor(audience string) bool {
	return audience == "" || slices.Contains(f.audiences, audience)
}

var (
	anything    = newAnything(free)
	allVerbatim = newAnything(verbatim)

	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonNumber      = reflect.TypeFor[json.Number]()
)

func newAnything(c class) *kind {
	k := &kind{class: c, size: -1, null: true}
	k.elem = k
	return k
}

// known holds the kinds made so far, by reflect.Type.
var known sync.Map

// kindOf returns the kind of a type, and panics for one that has none.
func kindOf(t reflect.Type) *kind {
	if k, ok := known.Load(t); ok {
		return k.(*kind)
	}
	k := builder{}.kind(t)
	known.Store(t, k) // only now that it is complete
	return k
}

// builder holds the kinds of the types in one type, which may hold itself.
type builder map[reflect.Type]*kind

func (b builder) kind(t reflect.Type) *kind {
	if k := b[t]; k != nil {
		return k
	}
	k := &kind{typ: t, size: -1}
	b[t] = k
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		k.null = true
	}
	if p := reflect.PointerTo(t); p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler) {
		if t.Name() == "" {
			unsupported(t, "has no name, so encoding/json would not call its methods")
		}
		if k.class = foreign; !p.Implements(jsonUnmarshaler) {
			k.class = textual
		}
		return k
	}
	b.fill(k, t)
	return k
}

func (b builder) fill(k *kind, t reflect.Type) {
	switch t.Kind() {
	case reflect.Bool:
		k.class = boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		k.class = integer
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		k.class = unsigned
	case reflect.Float32, reflect.Float64:
		k.class = float
	case reflect.String:
		k.class = text
		if t == jsonNumber {
			k.class = number
		}
	case reflect.Pointer:
		k.class, k.elem = pointer, b.kind(t.Elem())
	case reflect.Array:
		k.class, k.elem, k.size = list, b.kind(t.Elem()), t.Len()
	case reflect.Slice:
		k.class = octets
		if t.Elem().Kind() != reflect.Uint8 {
			k.class, k.elem = list, b.kind(t.Elem())
		}
	case reflect.Map:
		if key := t.Key(); key.Kind() != reflect.String || reflect.PointerTo(key).Implements(textUnmarshaler) {
			unsupported(t, "must have plain strings as keys")
		}
		k.class, k.elem = dict, b.kind(t.Elem())
	case reflect.Struct:
		k.class, k.names = record, map[string]*field{}
		b.record(k, t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			unsupported(t, "has methods")
		}
		k.class, k.elem = free, anything
	default:
		unsupported(t, "has no JSON form")
	}
}

// record finds the fields of a struct as encoding/json does: those of embedded
// structs count as its own, and an outer one hides one of the same name.
func (b builder) record(k *kind, t reflect.Type) {
	seen := map[reflect.Type]bool{}
	for level := []reflect.Type{t}; len(level) > 0; {
		var next []reflect.Type
		var here []*field
		for _, st := range level {
			seen[st] = true
			for i := range st.NumField() {
				f, embedded := b.field(st, st.Field(i))
				if f != nil {
					here = append(here, f)
				}
				if embedded != nil && !seen[embedded] {
					next = append(next, embedded)
				}
			}
		}
		added := map[string]bool{}
		for _, f := range here {
			switch {
			case added[f.name]: // encoding/json would drop both without a word
				unsupported(t, fmt.Sprintf("has two fields %q", f.name))
			case k.names[f.name] == nil:
				f.index = len(k.fields)
				k.names[f.name], k.fields = f, append(k.fields, f)
				added[f.name] = true
			}
		}
		level = next
	}
}

// field returns the field of a struct's member, or the struct that it embeds, or
// neither for one that JSON does not reach.
func (b builder) field(t reflect.Type, m reflect.StructField) (f *field, embedded reflect.Type) {
	under := m.Type
	if under.Name() == "" && under.Kind() == reflect.Pointer {
		under = under.Elem()
	}
	isStruct := under.Kind() == reflect.Struct
	tag := m.Tag.Get("json")
	if !m.IsExported() && !(m.Anonymous && isStruct) || tag == "-" {
		return nil, nil
	}
	name, options, _ := strings.Cut(tag, ",")
	switch {
	case slices.Contains(strings.Split(options, ","), "string"):
		unsupported(t, fmt.Sprintf("has the option \"string\" on %s", m.Name))
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }):
		unsupported(t, fmt.Sprintf("has a name for %s that is not plain ASCII", m.Name))
	case m.Anonymous && !m.IsExported() && m.Type != under:
		unsupported(t, fmt.Sprintf("embeds %s, which encoding/json cannot set", m.Type))
	case m.Anonymous && isStruct && name == "":
		return nil, under
	}
	f = &field{name: cmp.Or(name, m.Name), kind: b.kind(m.Type)}
	if tag := m.Tag.Get("for"); tag != "" {
		f.audiences = strings.Split(tag, ",")
	}
	return f, nil
}

func unsupported(t reflect.Type, why string) {
	panic(fmt.Sprintf("strictjson: the type %s %s", t, why))
}
