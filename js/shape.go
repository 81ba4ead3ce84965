package js

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/glovebox-dev/glovebox/api"
)

// Shape is what the values of a Go type are in JavaScript, for declarations. It
// may contain itself, through a struct that does.
type Shape struct {
	Kind ShapeKind
	// Name is the name of the Go type, without its package; of a struct alone.
	Name string
	// Elem is the shape of an array's elements, a record's values, and what
	// ShapeNullable has beside null.
	Elem *Shape
	// Fields are those of an object, in their order.
	Fields []ShapeField
}

// ShapeField is one property of an object.
type ShapeField struct {
	Name string
	// Doc is the text of the field's tag "jsonschema".
	Doc   string
	Shape *Shape
	// Optional says that the property may be absent: its tag has omitempty or
	// omitzero, or it is a pointer of an argument.
	Optional bool
}

// ShapeKind says what kind of values a [Shape] has.
type ShapeKind byte

// The kinds of a [Shape].
const (
	ShapeAny      ShapeKind = iota // of any kind
	ShapeVoid                      // undefined
	ShapeBoolean                   // boolean
	ShapeNumber                    // number; an integer beyond 2^53-1 is a bigint
	ShapeBigInt                    // bigint; as an argument a whole number too
	ShapeString                    // string
	ShapeDate                      // Date
	ShapeBytes                     // Uint8Array
	ShapeBuffer                    // ArrayBuffer, typed array or DataView
	ShapeArray                     // array of Elem
	ShapeRecord                    // object with Elem as values
	ShapeObject                    // object with Fields
	ShapeMap                       // Map
	ShapeSet                       // Set
	ShapeError                     // Error
	ShapeNullable                  // null or Elem
)

// Shapes makes shapes. One struct has one shape in it for each direction, so that
// it can be declared once. The zero value is ready; it is not safe for concurrent
// use.
type Shapes struct{ in, out map[reflect.Type]*Shape }

// Argument tells which values [Value.Decode] takes for a type. The error, for a
// type that never crosses, is an *api.FieldError.
func (s *Shapes) Argument(t reflect.Type) (*Shape, error) { return shapeOf(t, true, &s.in) }

// Result tells what values of a type become. The error is as for Argument.
func (s *Shapes) Result(t reflect.Type) (*Shape, error) { return shapeOf(t, false, &s.out) }

func shapeOf(t reflect.Type, in bool, known *map[reflect.Type]*Shape) (*Shape, error) {
	if *known == nil {
		*known = map[reflect.Type]*Shape{}
	}
	s := &shaper{in: in, structs: *known}
	shape := s.of(t, 0)
	if s.bad != "" {
		*known = nil // some may be half made
		return nil, &api.FieldError{Field: "type", Value: t.String(), Reason: s.bad}
	}
	return shape, nil
}

type shaper struct {
	in      bool
	structs map[reflect.Type]*Shape
	bad     string
}

// maxShape is how deep types may lie within each other without a struct that
// comes again.
const maxShape = 64

var leafShapes = map[leaf]ShapeKind{
	leafUndefined: ShapeVoid, leafInvalidDate: ShapeDate, leafValue: ShapeAny, leafTime: ShapeDate, leafBig: ShapeBigInt,
	leafNumber: ShapeNumber, leafMap: ShapeMap, leafSet: ShapeSet, leafBytes: ShapeBuffer, leafError: ShapeError,
}

// of is the shape of a type. It calls itself as deep as the type is.
func (s *shaper) of(t reflect.Type, depth int) *Shape {
	if depth > maxShape {
		s.bad = "is nested too deeply"
		return &Shape{}
	}
	info := infoOf(t)
	switch {
	case info.leaf != noLeaf:
		return &Shape{Kind: leafShapes[info.leaf]}
	case t.Kind() == reflect.Pointer:
		return nullable(s.of(t.Elem(), depth+1))
	case s.in && info.unmarshalsJSON, !s.in && (info.marshalsJSON || info.addrMarshalsJSON):
		return &Shape{Kind: ShapeAny}
	case s.in && info.unmarshalsText, !s.in && (info.marshalsText || info.addrMarshalsText):
		return &Shape{Kind: ShapeString}
	case !s.in && info.isError, t == errorType:
		return &Shape{Kind: ShapeError}
	}
	return s.kind(t, info, depth)
}

func (s *shaper) kind(t reflect.Type, info *typeInfo, depth int) *Shape {
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return &Shape{Kind: ShapeBoolean}
	case numeric(k):
		return &Shape{Kind: ShapeNumber}
	case k == reflect.String:
		return &Shape{Kind: ShapeString}
	case k == reflect.Interface:
		s.bad = cmp.Or(s.bad, interfaceBarrier(t, s.in))
		return &Shape{Kind: ShapeAny}
	case info.bytes && (k == reflect.Slice || s.in):
		return s.nilable(k, &Shape{Kind: ShapeBytes})
	case k == reflect.Slice, k == reflect.Array:
		return s.nilable(k, &Shape{Kind: ShapeArray, Elem: s.of(t.Elem(), depth+1)})
	case k == reflect.Map:
		s.bad = cmp.Or(s.bad, keyBarrier(t, s.in, map[reflect.Type]bool{}))
		return s.nilable(k, &Shape{Kind: ShapeRecord, Elem: s.of(t.Elem(), depth+1)})
	case k == reflect.Struct:
		return s.structure(t, info, depth)
	}
	s.bad = fmt.Sprintf("has %s in it, which never crosses", t)
	return &Shape{}
}

func nullable(inner *Shape) *Shape {
	if inner.Kind == ShapeAny || inner.Kind == ShapeNullable {
		return inner
	}
	return &Shape{Kind: ShapeNullable, Elem: inner}
}

// nilable is the shape of a result whose nil is null. As an argument null is
// taken too, and not worth a word.
func (s *shaper) nilable(k reflect.Kind, inner *Shape) *Shape {
	if s.in || k == reflect.Array {
		return inner
	}
	return nullable(inner)
}

func (s *shaper) structure(t reflect.Type, info *typeInfo, depth int) *Shape {
	if known := s.structs[t]; known != nil {
		return known
	}
	out := &Shape{Kind: ShapeObject, Name: t.Name()}
	s.structs[t] = out
	for _, f := range info.structOf(t).fields {
		field := ShapeField{Name: f.name, Optional: f.omitEmpty || f.omitZero || throughPointer(t, f.index) || s.in && f.typ.Kind() == reflect.Pointer}
		field.Doc = t.FieldByIndex(f.index).Tag.Get("jsonschema")
		if field.Shape = s.of(f.typ, depth+1); f.quoted {
			field.Shape = &Shape{Kind: ShapeString}
		}
		if field.Optional && field.Shape.Kind == ShapeNullable && (s.in || f.omitEmpty || f.omitZero) {
			field.Shape = field.Shape.Elem // absent says as much
		}
		out.Fields = append(out.Fields, field)
	}
	return out
}
