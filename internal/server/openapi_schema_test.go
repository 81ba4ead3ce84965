package server

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// schemas makes JSON Schemas of the structs of package api.
type schemas struct {
	t          *testing.T
	components map[string]any
	types      map[string]string    // comments of types
	fields     map[string]string    // comments of fields, by TYPE.FIELD
	values     map[string][]literal // of a type that has constants
	codes      map[string]string    // comments of the codes
	refusals   map[string]any       // components for answers with them
}

type literal struct{ value, text string }

// newSchemas reads the sources of package api.
func newSchemas(t *testing.T) *schemas {
	t.Helper()
	s := &schemas{t: t, components: map[string]any{}, types: map[string]string{}, fields: map[string]string{}, values: map[string][]literal{}, codes: map[string]string{}, refusals: map[string]any{}}
	names, err := filepath.Glob("../../api/*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				s.read(g)
			}
		}
	}
	for _, l := range s.values["Code"] {
		s.codes[l.value] = regexp.MustCompile(`^\d{3}: `).ReplaceAllString(l.text, "")
	}
	return s
}

func (s *schemas) read(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			doc := spec.Doc
			if doc == nil {
				doc = g.Doc
			}
			s.types[spec.Name.Name] = comment(doc)
			if st, ok := spec.Type.(*ast.StructType); ok {
				s.readFields(spec.Name.Name, st)
			}
		case *ast.ValueSpec:
			kind, ok := spec.Type.(*ast.Ident)
			if g.Tok != token.CONST || !ok || len(spec.Values) != 1 {
				continue
			}
			if v, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err == nil {
				s.values[kind.Name] = append(s.values[kind.Name], literal{v, comment(spec.Comment)})
			}
		}
	}
}

func (s *schemas) readFields(name string, st *ast.StructType) {
	shared := "" // a comment may speak of the fields that follow too
	for _, f := range st.Fields.List {
		text := comment(f.Doc)
		if text != "" {
			shared = text
		} else if text = comment(f.Comment); text == "" && len(f.Names) == 1 && regexp.MustCompile(`\b`+f.Names[0].Name+`\b`).MatchString(shared) {
			text = shared
		}
		for _, n := range f.Names {
			s.fields[name+"."+n.Name] = text
		}
	}
}

// comment is the text of a comment, without references to Go.
func comment(c *ast.CommentGroup) string {
	text := strings.Join(strings.Fields(c.Text()), " ")
	text = regexp.MustCompile(`[;,] see (the \w+ constants|\[\w+\])`).ReplaceAllString(text, "")
	text = regexp.MustCompile(` It is a Go error\.`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`\[(\w+)\]`).ReplaceAllString(text, "$1")
	return regexp.MustCompile(`\bnil\b`).ReplaceAllString(text, "null")
}

// answer is the schema of what the service says.
func (s *schemas) answer(v any) any { return s.of(reflect.TypeOf(v), "") }

// request is the schema of what a client says: of the fields that it may set, and
// nothing else.
func (s *schemas) request(v any) any { return s.of(reflect.TypeOf(v), api.AudienceClient) }

func (s *schemas) of(t reflect.Type, audience string) map[string]any {
	switch {
	case t.Kind() == reflect.Pointer:
		return s.of(t.Elem(), audience)
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.String:
		m := map[string]any{"type": "string"}
		if values := s.values[t.Name()]; t.PkgPath() != "" && len(values) > 0 {
			var enum, texts []string
			for _, l := range values {
				enum, texts = append(enum, l.value), append(texts, l.value+": "+l.text)
			}
			m["enum"] = enum
			s.components[t.Name()] = m
			m["description"] = strings.TrimSpace(s.types[t.Name()] + " " + strings.Join(texts, "; "))
			return map[string]any{"$ref": "#/components/schemas/" + t.Name()}
		}
		return m
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Uint32:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem(), audience)}
	case reflect.Map:
		m := map[string]any{"type": "object"}
		if t.Elem().Kind() != reflect.Interface {
			m["additionalProperties"] = s.of(t.Elem(), audience)
		}
		return m
	case reflect.Struct:
		return s.object(t, audience)
	}
	s.t.Fatalf("no schema for %s", t)
	return nil
}

// object makes a component of a struct, and a reference to it.
func (s *schemas) object(t reflect.Type, audience string) map[string]any {
	name := t.Name()
	if audience == "" && s.settable(t) {
		name += "Answer" // a client may set some of it, under the plain name
	}
	ref := map[string]any{"$ref": "#/components/schemas/" + name}
	if s.components[name] != nil {
		return ref
	}
	props := map[string]any{}
	m := map[string]any{"type": "object", "properties": props}
	s.components[name] = m
	if text := s.types[t.Name()]; text != "" {
		m["description"] = jsonNames(text, t)
	}
	if audience != "" {
		m["additionalProperties"] = false
	}
	var required []string
	s.addFields(t, audience, props, &required)
	if len(required) > 0 {
		slices.Sort(required)
		m["required"] = required
	}
	return ref
}

func (s *schemas) addFields(t reflect.Type, audience string, props map[string]any, required *[]string) {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && tag == "":
			s.addFields(f.Type, audience, props, required)
			continue
		case name == "-" || name == "" || audience != "" && !slices.Contains(strings.Split(f.Tag.Get("for"), ","), audience):
			continue
		}
		p := s.of(f.Type, audience)
		optional := strings.Contains(options, "omit")
		if kind := p["type"]; !optional && kind != nil && audience == "" && (f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map) {
			p["type"] = []any{kind, "null"}
		}
		text := jsonNames(s.fields[t.Name()+"."+f.Name], t)
		if t == reflect.TypeFor[api.Limits]() && f.Type.Kind() == reflect.Int64 {
			text += limitText(f.Name)
			p["minimum"] = 0
		}
		if text != "" {
			p["description"] = text
		}
		props[name] = p
		if !optional {
			*required = append(*required, name)
		}
	}
}

// settable tells whether a client may set a field of a struct.
func (s *schemas) settable(t reflect.Type) bool {
	for f := range t.Fields() {
		if slices.Contains(strings.Split(f.Tag.Get("for"), ","), api.AudienceClient) {
			return true
		}
	}
	return false
}

// jsonNames writes the names of fields as JSON has them.
func jsonNames(text string, t reflect.Type) string {
	for f := range t.Fields() {
		if f.Anonymous {
			text = jsonNames(text, f.Type)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		text = regexp.MustCompile(`\b`+f.Name+`\b`).ReplaceAllString(text, name)
	}
	return text
}

// limitText says the bounds of a limit.
func limitText(field string) string {
	get := func(l api.Limits) int64 { return reflect.ValueOf(l).FieldByName(field).Int() }
	max := strconv.FormatInt(get(api.ServiceMaxLimits(1)), 10)
	if field == "CPUPercent" {
		max = "100 for each core"
	}
	return "; 0 means the default, which is " + strconv.FormatInt(get(api.DefaultLimits()), 10) + " unless the language has another (compiler: " +
		strconv.FormatInt(get(api.DefaultCompileLimits()), 10) + "); from " + strconv.FormatInt(get(api.MinLimits()), 10) + " to " + max + " unless the operator lowered it"
}
