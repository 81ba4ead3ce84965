package agent

import (
	"slices"
	"strconv"

	"github.com/glovebox-dev/glovebox/internal/jsonschema"
	"github.com/glovebox-dev/glovebox/js"
)

// maxLiterals is how many values of an enum are printed; of more their types
// are.
const maxLiterals = 64

// typeMaker makes types of TypeScript. What is the same Go type or the same
// schema becomes the same type.
type typeMaker struct {
	js.Shapes
	shapes  map[*js.Shape]*tsType
	schemas map[*jsonschema.Schema]*tsType
}

func newTypeMaker() *typeMaker {
	return &typeMaker{shapes: map[*js.Shape]*tsType{}, schemas: map[*jsonschema.Schema]*tsType{}}
}

var shapeWords = map[js.ShapeKind]*tsType{
	js.ShapeAny: tsUnknown, js.ShapeVoid: {word: "undefined"}, js.ShapeBoolean: {word: "boolean"}, js.ShapeNumber: {word: "number"},
	js.ShapeBigInt: {word: "bigint"}, js.ShapeString: {word: "string"}, js.ShapeDate: {word: "Date"}, js.ShapeBytes: {word: "Uint8Array"},
	js.ShapeBuffer: {word: "ArrayBufferView | ArrayBuffer"}, js.ShapeMap: {word: "Map<unknown, unknown>"}, js.ShapeSet: {word: "Set<unknown>"}, js.ShapeError: {word: "Error"},
}

var tsNull = &tsType{word: "null"}

// ofShape is the type of what a Go type is in JavaScript.
func (m *typeMaker) ofShape(s *js.Shape) *tsType {
	if word := shapeWords[s.Kind]; word != nil {
		return word
	}
	if known := m.shapes[s]; known != nil {
		return known
	}
	t := &tsType{name: s.Name}
	m.shapes[s] = t
	switch s.Kind {
	case js.ShapeArray:
		t.kind, t.parts = tsArray, []*tsType{m.ofShape(s.Elem)}
	case js.ShapeRecord:
		t.kind, t.parts = tsRecord, []*tsType{m.ofShape(s.Elem)}
	case js.ShapeNullable:
		t.kind, t.parts = tsUnion, []*tsType{m.ofShape(s.Elem), tsNull}
	default:
		t.kind = tsObject
		for _, f := range s.Fields {
			t.fields = append(t.fields, tsField{f.Name, f.Doc, m.ofShape(f.Shape), f.Optional})
		}
	}
	return t
}

var jsonWords = map[string]*tsType{"null": tsNull, "boolean": {word: "boolean"}, "number": {word: "number"}, "integer": {word: "number"}, "string": {word: "string"}}

// ofSchema is a type that all values that fit a schema have; others may have it
// too, since TypeScript cannot say what lengths and patterns do.
func (m *typeMaker) ofSchema(s *jsonschema.Schema) *tsType {
	if s == nil {
		return tsUnknown
	}
	if known := m.schemas[s]; known != nil {
		return known
	}
	if s.Never {
		return &tsType{word: "never"}
	}
	t := &tsType{kind: tsAll, name: s.Name} // while it is not known: no plain word
	if t.name == "" {
		t.name = s.Title
	}
	m.schemas[s] = t
	all := []*tsType{}
	if own := m.own(s); own != nil {
		all = append(all, own)
	}
	if s.Ref != nil {
		all = append(all, m.ofSchema(s.Ref))
	}
	for _, sub := range s.AllOf {
		all = append(all, m.ofSchema(sub))
	}
	for _, list := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		if len(list) > 0 {
			all = append(all, m.union(list))
		}
	}
	all = slices.DeleteFunc(all, func(t *tsType) bool { return t == tsUnknown })
	switch len(all) {
	case 0:
		m.schemas[s] = tsUnknown
		return tsUnknown
	case 1:
		if own := all[0]; !own.compound() || m.fresh(own) {
			name := t.name
			*t = *own
			t.name = name
			return t
		}
	}
	t.kind, t.parts = tsAll, all
	return t
}

// fresh reports whether a type is nobody else's yet.
func (m *typeMaker) fresh(t *tsType) bool {
	for _, known := range m.schemas {
		if known == t {
			return false
		}
	}
	return true
}

func (m *typeMaker) union(list []*jsonschema.Schema) *tsType {
	t := &tsType{kind: tsUnion}
	for _, sub := range list {
		t.parts = append(t.parts, m.ofSchema(sub))
	}
	return t
}

// own is the type of a schema without those beside it, nil for any.
func (m *typeMaker) own(s *jsonschema.Schema) *tsType {
	if s.Enums {
		return literals(s.Enum)
	}
	types := s.Types
	if len(types) == 0 && len(s.Properties) > 0 {
		types = []string{"object"}
	}
	var parts []*tsType
	for _, name := range types {
		word := jsonWords[name]
		switch name {
		case "array":
			word = m.array(s)
		case "object":
			word = m.object(s)
		}
		if !slices.Contains(parts, word) {
			parts = append(parts, word)
		}
	}
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	}
	return &tsType{kind: tsUnion, parts: parts}
}

func (m *typeMaker) array(s *jsonschema.Schema) *tsType {
	if len(s.PrefixItems) == 0 {
		return &tsType{kind: tsArray, parts: []*tsType{m.ofSchema(s.Items)}}
	}
	t := &tsType{kind: tsTuple}
	for _, p := range s.PrefixItems {
		t.parts = append(t.parts, m.ofSchema(p))
	}
	if s.Items == nil || !s.Items.Never {
		t.rest = m.ofSchema(s.Items)
	}
	return t
}

func (m *typeMaker) object(s *jsonschema.Schema) *tsType {
	if len(s.Properties) == 0 {
		if s.AdditionalProperties != nil && s.AdditionalProperties.Never {
			return &tsType{kind: tsObject}
		}
		return &tsType{kind: tsRecord, parts: []*tsType{m.ofSchema(s.AdditionalProperties)}}
	}
	t := &tsType{kind: tsObject}
	for _, p := range s.Properties {
		t.fields = append(t.fields, tsField{p.Name, p.Schema.Description, m.ofSchema(p.Schema), !slices.Contains(s.Required, p.Name)})
	}
	return t
}

// literals is the type of an enum.
func literals(values []any) *tsType {
	t := &tsType{kind: tsUnion}
	add := func(p *tsType) {
		if !slices.ContainsFunc(t.parts, func(q *tsType) bool { return q.word == p.word }) {
			t.parts = append(t.parts, p)
		}
	}
	for _, v := range values {
		many := len(values) > maxLiterals
		switch v := v.(type) {
		case nil:
			add(tsNull)
		case bool:
			add(&tsType{kind: tsLiteral, word: strconv.FormatBool(v)})
		case float64:
			if many {
				add(jsonWords["number"])
			} else {
				add(&tsType{kind: tsLiteral, word: strconv.FormatFloat(v, 'g', -1, 64)})
			}
		case string:
			if many || len(v) > maxFieldDoc {
				add(jsonWords["string"])
			} else {
				add(&tsType{kind: tsLiteral, word: quoteTS(v)})
			}
		default:
			add(tsUnknown)
		}
	}
	switch len(t.parts) {
	case 0:
		return &tsType{word: "never"}
	case 1:
		return t.parts[0]
	}
	return t
}
