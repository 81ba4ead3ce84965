package js

import (
	"cmp"
	"encoding"
	"encoding/json"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// leaf is a type that has a rule of its own, before all others.
type leaf int

const (
	noLeaf leaf = iota
	leafUndefined
	leafInvalidDate
	leafValue
	leafTime
	leafBig
	leafNumber
	leafMap
	leafSet
	leafBytes
	leafError
)

var leaves = map[reflect.Type]leaf{
	reflect.TypeFor[UndefinedType]():   leafUndefined,
	reflect.TypeFor[InvalidDateType](): leafInvalidDate,
	reflect.TypeFor[Value]():           leafValue,
	reflect.TypeFor[time.Time]():       leafTime,
	reflect.TypeFor[big.Int]():         leafBig,
	reflect.TypeFor[json.Number]():     leafNumber,
	reflect.TypeFor[Map]():             leafMap,
	reflect.TypeFor[Set]():             leafSet,
	reflect.TypeFor[Bytes]():           leafBytes,
	reflect.TypeFor[ErrorValue]():      leafError,
}

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	errorType       = reflect.TypeFor[error]()
)

// typeInfo is what both directions must know of a type.
type typeInfo struct {
	leaf leaf
	own  bool // a leaf, or behind one pointer
	bare bool // a bool, number or string without a method that counts

	// What a value has, and what a pointer to it has besides.
	marshalsJSON, marshalsText, isError bool
	addrMarshalsJSON, addrMarshalsText  bool
	unmarshalsJSON, unmarshalsText      bool // a pointer to it
	bytes                               bool // a slice or array of plain bytes

	once   sync.Once
	fields *structInfo
}

var typeInfos sync.Map // reflect.Type -> *typeInfo

func infoOf(t reflect.Type) *typeInfo {
	if info, ok := typeInfos.Load(t); ok {
		return info.(*typeInfo)
	}
	p := reflect.PointerTo(t)
	info := &typeInfo{
		leaf:             leaves[t],
		marshalsJSON:     t.Implements(jsonMarshaler),
		marshalsText:     t.Implements(textMarshaler),
		isError:          t.Implements(errorType),
		addrMarshalsJSON: p.Implements(jsonMarshaler),
		addrMarshalsText: p.Implements(textMarshaler),
		unmarshalsJSON:   p.Implements(jsonUnmarshaler),
		unmarshalsText:   p.Implements(textUnmarshaler),
	}
	info.own = info.leaf != noLeaf || t.Kind() == reflect.Pointer && leaves[t.Elem()] != noLeaf
	if k := t.Kind(); (k == reflect.Slice || k == reflect.Array) && t.Elem().Kind() == reflect.Uint8 {
		e := reflect.PointerTo(t.Elem())
		info.bytes = !e.Implements(jsonMarshaler) && !e.Implements(textMarshaler)
	}
	methods := info.addrMarshalsJSON || info.addrMarshalsText || info.isError // the pointer has those of the value too
	info.bare = !info.own && !methods && (numeric(t.Kind()) || t.Kind() == reflect.Bool || t.Kind() == reflect.String)
	known, _ := typeInfos.LoadOrStore(t, info)
	return known.(*typeInfo)
}

// structOf returns the fields of the struct type t, whose info this is.
func (i *typeInfo) structOf(t reflect.Type) *structInfo {
	i.once.Do(func() { i.fields = newStructInfo(t) })
	return i.fields
}

// field is a field that crosses.
type field struct {
	name      string
	index     []int // through embedded structs
	typ       reflect.Type
	info      *typeInfo // of typ
	tagged    bool
	omitEmpty bool
	omitZero  bool
	quoted    bool // the option "string"
}

// structInfo is the fields of a struct that cross, in the order of the source.
type structInfo struct {
	fields []field
	names  []string // all of them
	byName map[string]int
	varies bool // a field may be left out
	strict bool // it says so itself, see [Value.Decode]
}

func newStructInfo(t reflect.Type) *structInfo {
	s := &structInfo{fields: dominant(allFields(t)), byName: map[string]int{}}
	for i := range t.NumField() {
		s.strict = s.strict || t.Field(i).Name == "_" && t.Field(i).Tag.Get("js") == "strict"
	}
	for i, f := range s.fields {
		s.names = append(s.names, f.name)
		s.byName[f.name] = i
		s.varies = s.varies || f.omitEmpty || f.omitZero || throughPointer(t, f.index)
	}
	return s
}

func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// allFields lists the fields of t and of the structs embedded in it, level by
// level, each type once. A type that a level embeds twice hides its own fields,
// so they are listed twice.
func allFields(t reflect.Type) []field {
	type level struct {
		t     reflect.Type
		index []int
	}
	var found []field
	visited := map[reflect.Type]bool{}
	for now, times := []level{{t: t}}, map[reflect.Type]int{}; len(now) > 0; {
		var next []level
		nextTimes := map[reflect.Type]int{}
		for _, l := range now {
			if visited[l.t] {
				continue
			}
			visited[l.t] = true
			for i := range l.t.NumField() {
				f, embedded, ok := fieldOf(l.t.Field(i))
				if !ok {
					continue
				}
				f.index = append(slices.Clone(l.index), i)
				if embedded == nil {
					found = append(found, f)
					if times[l.t] > 1 {
						found = append(found, f)
					}
				} else if nextTimes[embedded]++; nextTimes[embedded] == 1 {
					next = append(next, level{embedded, f.index})
				}
			}
		}
		now, times = next, nextTimes
	}
	return found
}

// fieldOf reads a field and its tag. embedded is the struct type whose fields
// stand for it, nil for a field of its own; ok is false for one that never
// crosses.
func fieldOf(sf reflect.StructField) (f field, embedded reflect.Type, ok bool) {
	inner := sf.Type
	if inner.Kind() == reflect.Pointer && (sf.Anonymous || inner.Name() == "") {
		inner = inner.Elem()
	}
	tag := sf.Tag.Get("json")
	switch {
	case tag == "-":
		return f, nil, false
	case sf.Anonymous && !sf.IsExported() && inner.Kind() != reflect.Struct:
		return f, nil, false
	case !sf.Anonymous && !sf.IsExported():
		return f, nil, false
	}
	name, options, _ := strings.Cut(tag, ",")
	if !validName(name) {
		name = ""
	}
	if sf.Anonymous && name == "" && inner.Kind() == reflect.Struct && leaves[inner] == noLeaf {
		return f, inner, true
	}
	if sf.Anonymous && !sf.IsExported() {
		// encoding/json would name such a field, though nothing can set it.
		if leaves[inner] != noLeaf {
			return f, nil, false
		}
	}
	f = field{name: cmp.Or(name, sf.Name), typ: sf.Type, info: infoOf(sf.Type), tagged: name != ""}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			f.omitZero = true
		case "string":
			f.quoted = quotable(inner)
		}
	}
	return f, nil, true
}

// quotable reports whether the option "string" says something of a type.
func quotable(t reflect.Type) bool {
	info := infoOf(t)
	if info.leaf == leafNumber {
		return true
	}
	if info.leaf != noLeaf || info.marshalsJSON || info.marshalsText || info.addrMarshalsJSON || info.addrMarshalsText ||
		info.unmarshalsJSON || info.unmarshalsText {
		return false
	}
	return numeric(t.Kind()) || t.Kind() == reflect.Bool || t.Kind() == reflect.String
}

func numeric(k reflect.Kind) bool {
	return k >= reflect.Int && k <= reflect.Uintptr || k == reflect.Float32 || k == reflect.Float64
}

// validName reports whether the name in a tag counts; another one is ignored.
func validName(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return s != ""
}

// dominant keeps of each name the field that Go's rules for embedded structs
// choose: the least deep, among them the one with a tag; none if that leaves
// two.
func dominant(all []field) []field {
	slices.SortStableFunc(all, func(a, b field) int {
		tagFirst := 0
		if a.tagged != b.tagged {
			tagFirst = 1
			if a.tagged {
				tagFirst = -1
			}
		}
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(len(a.index), len(b.index)), tagFirst, slices.Compare(a.index, b.index))
	})
	var kept []field
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].name == all[i].name {
			j++
		}
		if j == i+1 || len(all[i].index) != len(all[i+1].index) || all[i].tagged != all[i+1].tagged {
			kept = append(kept, all[i])
		}
		i = j
	}
	slices.SortFunc(kept, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return kept
}
