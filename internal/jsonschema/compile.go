package jsonschema

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// dialects are the values of $schema that are taken.
var dialects = []string{
	"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema", "https://json-schema.org/draft/2019-09/schema",
}

// notes are keywords that say nothing of whether a value fits. Format is one in
// draft 2020-12, unless both sides agree otherwise.
var notes = []string{
	"$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType",
}

// Compile reads a schema. The error is a *CompileError.
func Compile(text []byte) (*Schema, error) {
	var tree any
	if len(text) > MaxBytes {
		return nil, &CompileError{"#", fmt.Sprintf("has more than %d bytes", MaxBytes)}
	}
	if err := strictjson.Decode(text, &tree, strictjson.Options{MaxDepth: maxDepth, MaxBytes: MaxBytes, MaxValues: 10 * MaxSchemas}); err != nil {
		return nil, &CompileError{"#", err.Error()}
	}
	c := &compiler{defs: map[string]*Schema{}}
	root := &Schema{}
	c.defs["#"] = root
	if err := c.declare(tree); err != nil {
		return nil, err
	}
	if err := c.schema(root, tree, "#"); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.bodies)) {
		if err := c.schema(c.defs[name], c.bodies[name], name); err != nil {
			return nil, err
		}
	}
	if err := c.loops(); err != nil {
		return nil, err
	}
	return root, nil
}

type compiler struct {
	defs     map[string]*Schema // by "#", "#/$defs/x", "#/definitions/x"
	bodies   map[string]any     // of the definitions
	all      []*Schema
	patterns int
}

func bad(path, format string, args ...any) error {
	return &CompileError{clip(path), clip(fmt.Sprintf(format, args...))}
}

// clip makes a text of a schema fit to be shown.
func clip(s string) string {
	s = strings.Trim(strconv.QuoteToGraphic(strings.ToValidUTF8(s, "\ufffd")), `"`)
	if len(s) <= 200 {
		return s
	}
	n := 200
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// declare notes the definitions at the top, so that a reference may come before.
func (c *compiler) declare(tree any) error {
	c.bodies = map[string]any{}
	top, ok := tree.(map[string]any)
	if !ok {
		return nil
	}
	for _, word := range []string{"$defs", "definitions"} {
		list, there := top[word]
		if !there {
			continue
		}
		defs, ok := list.(map[string]any)
		if !ok {
			return bad("#/"+word, "must be an object")
		}
		for name, body := range defs {
			path := "#/" + word + "/" + pointer(name)
			c.defs[path], c.bodies[path] = &Schema{Name: name}, body
		}
	}
	return nil
}

// pointer writes a name as part of a JSON pointer.
func pointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// schema fills s with what a tree says. It calls itself as deep as the text is.
func (c *compiler) schema(s *Schema, tree any, path string) error {
	if c.all = append(c.all, s); len(c.all) > MaxSchemas {
		return bad(path, "is one schema too many: the whole may have %d", MaxSchemas)
	}
	switch t := tree.(type) {
	case bool:
		s.Never = !t
		return nil
	case map[string]any:
		for _, word := range slices.Sorted(maps.Keys(t)) {
			if err := c.keyword(s, word, t[word], path); err != nil {
				return err
			}
		}
		if (s.Then != nil || s.Else != nil) && s.If == nil {
			return bad(path, "has then or else without if")
		}
		if (s.MinContains != nil || s.MaxContains != nil) && s.Contains == nil {
			return bad(path, "has minContains or maxContains without contains")
		}
		return nil
	}
	return bad(path, "must be an object, true or false")
}

// keyword reads one keyword.
func (c *compiler) keyword(s *Schema, word string, v any, path string) error {
	at := path + "/" + pointer(word)
	if slices.Contains(notes, word) || strings.HasPrefix(word, "x-") {
		return note(s, word, v, at)
	}
	if done, err := c.nested(s, word, v, at); done {
		return err
	}
	if done, err := c.limit(s, word, v, at); done {
		return err
	}
	switch word {
	case "$schema":
		if text, _ := v.(string); path != "#" || !slices.Contains(dialects, strings.TrimSuffix(text, "#")) {
			return bad(at, "is no draft that is known here")
		}
	case "$id":
		if _, ok := v.(string); path != "#" || !ok {
			return bad(at, "must be a string, at the top alone")
		}
	case "$defs", "definitions":
		if path != "#" {
			return bad(at, "must be at the top")
		}
	case "$ref":
		text, _ := v.(string)
		if s.Ref = c.defs[text]; s.Ref == nil {
			return bad(at, "must be # or lead to one of the definitions at the top; nothing is loaded")
		}
	case "type":
		return types(s, v, at)
	case "enum", "const":
		return enum(s, word, v, at)
	case "required":
		var err error
		s.Required, err = texts(v, at)
		return err
	case "dependentRequired":
		return dependentRequired(s, v, at)
	case "uniqueItems":
		ok := false
		if s.UniqueItems, ok = v.(bool); !ok {
			return bad(at, "must be true or false")
		}
	case "pattern":
		var err error
		s.Pattern, err = c.pattern(v, at)
		return err
	default:
		return bad(at, "is a keyword that is not known here")
	}
	return nil
}

func note(s *Schema, word string, v any, at string) error {
	var to *string
	switch word {
	case "title":
		to = &s.Title
	case "description":
		to = &s.Description
	case "format":
		to = &s.Format
	default:
		return nil
	}
	ok := false
	if *to, ok = v.(string); !ok {
		return bad(at, "must be a string")
	}
	return nil
}

// nested reads the keywords that have schemas in them.
func (c *compiler) nested(s *Schema, word string, v any, at string) (done bool, err error) {
	if one := map[string]**Schema{
		"not": &s.Not, "if": &s.If, "then": &s.Then, "else": &s.Else, "items": &s.Items, "contains": &s.Contains,
		"additionalProperties": &s.AdditionalProperties, "propertyNames": &s.PropertyNames,
	}[word]; one != nil {
		*one = &Schema{}
		return true, c.schema(*one, v, at)
	}
	if many := map[string]*[]*Schema{"allOf": &s.AllOf, "anyOf": &s.AnyOf, "oneOf": &s.OneOf, "prefixItems": &s.PrefixItems}[word]; many != nil {
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			return true, bad(at, "must be a list of at least one schema")
		}
		for i, item := range list {
			sub := &Schema{}
			if err := c.schema(sub, item, at+"/"+strconv.Itoa(i)); err != nil {
				return true, err
			}
			*many = append(*many, sub)
		}
		return true, nil
	}
	if word != "properties" && word != "patternProperties" && word != "dependentSchemas" {
		return false, nil
	}
	list, ok := v.(map[string]any)
	if !ok {
		return true, bad(at, "must be an object")
	}
	s.byName = orMap(s.byName)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		sub := &Schema{}
		if err := c.schema(sub, list[name], at+"/"+pointer(name)); err != nil {
			return true, err
		}
		switch word {
		case "properties":
			s.Properties = append(s.Properties, Property{name, sub})
			s.byName[name] = sub
		case "dependentSchemas":
			s.DependentRequired = append(s.DependentRequired, Dependency{Name: name, Schema: sub})
		default:
			re, err := c.pattern(name, at+"/"+pointer(name))
			if err != nil {
				return true, err
			}
			s.PatternProperties = append(s.PatternProperties, PatternProperty{re, sub})
		}
	}
	return true, nil
}

func orMap(m map[string]*Schema) map[string]*Schema {
	if m == nil {
		return map[string]*Schema{}
	}
	return m
}

// limit reads the keywords that are numbers.
func (c *compiler) limit(s *Schema, word string, v any, at string) (done bool, err error) {
	if count := map[string]**int{
		"minLength": &s.MinLength, "maxLength": &s.MaxLength, "minItems": &s.MinItems, "maxItems": &s.MaxItems, "minContains": &s.MinContains,
		"maxContains": &s.MaxContains, "minProperties": &s.MinProperties, "maxProperties": &s.MaxProperties,
	}[word]; count != nil {
		f, ok := v.(float64)
		if !ok || f < 0 || f != math.Trunc(f) || f > 1<<53 {
			return true, bad(at, "must be a whole number from 0 on")
		}
		n := int(f)
		*count = &n
		return true, nil
	}
	if bound := map[string]**float64{
		"minimum": &s.Minimum, "maximum": &s.Maximum, "exclusiveMinimum": &s.ExclusiveMinimum, "exclusiveMaximum": &s.ExclusiveMaximum,
	}[word]; bound != nil {
		f, ok := v.(float64)
		if !ok {
			return true, bad(at, "must be a number")
		}
		*bound = &f
		return true, nil
	}
	if word == "multipleOf" {
		f, ok := v.(float64)
		if !ok || f <= 0 || f < 1e-100 {
			return true, bad(at, "must be a number above 0")
		}
		s.MultipleOf = rat(f)
		return true, nil
	}
	return false, nil
}

// rat is a number as it is written, so that 0.3 is three times 0.1.
func rat(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return r
}

var kinds = []string{"null", "boolean", "number", "integer", "string", "array", "object"}

func types(s *Schema, v any, at string) error {
	if one, ok := v.(string); ok {
		v = []any{one}
	}
	list, err := texts(v, at)
	if err != nil || len(list) == 0 {
		return bad(at, "must be a type, or a list of types")
	}
	for _, t := range list {
		if !slices.Contains(kinds, t) {
			return bad(at, "has a type that JSON does not have")
		}
	}
	s.Types = list
	return nil
}

func enum(s *Schema, word string, v any, at string) error {
	if s.Enums {
		return bad(at, "stands beside another of const and enum")
	}
	s.Enums, s.Enum = true, []any{v}
	if word == "enum" {
		list, ok := v.([]any)
		if !ok {
			return bad(at, "must be a list")
		}
		s.Enum = list
	}
	return nil
}

func dependentRequired(s *Schema, v any, at string) error {
	list, ok := v.(map[string]any)
	if !ok {
		return bad(at, "must be an object")
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		needs, err := texts(list[name], at+"/"+pointer(name))
		if err != nil {
			return err
		}
		s.DependentRequired = append(s.DependentRequired, Dependency{Name: name, Required: needs})
	}
	return nil
}

// texts reads a list of strings, none twice.
func texts(v any, at string) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, bad(at, "must be a list of strings")
	}
	seen := map[string]bool{}
	var out []string
	for _, item := range list {
		text, ok := item.(string)
		if !ok || seen[text] {
			return nil, bad(at, "must be a list of strings, each once")
		}
		seen[text] = true
		out = append(out, text)
	}
	return out, nil
}

// pattern compiles a pattern with Go's engine, whose time is linear.
func (c *compiler) pattern(v any, at string) (*Pattern, error) {
	text, ok := v.(string)
	if c.patterns++; !ok || len(text) > maxPattern || c.patterns > maxPatterns {
		return nil, bad(at, "must be a string of at most %d bytes, and one of at most %d patterns", maxPattern, maxPatterns)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err == nil {
		var prog *syntax.Prog
		if prog, err = syntax.Compile(tree.Simplify()); err == nil {
			var re *regexp.Regexp
			if re, err = regexp.Compile(text); err == nil {
				return &Pattern{re, len(prog.Inst)}, nil
			}
		}
	}
	return nil, bad(at, "is no pattern of RE2, which has no look-around and no references back")
}

// loops refuses schemas that come back to themselves without going into the
// value: they would never end.
func (c *compiler) loops() error {
	const (
		open = 1
		done = 2
	)
	state := map[*Schema]int{}
	var visit func(s *Schema, depth int) error
	visit = func(s *Schema, depth int) error {
		if s == nil || state[s] == done {
			return nil
		}
		if state[s] == open || depth > 4*maxDepth {
			return bad("#", "has a $ref that leads back to itself, or through too many others")
		}
		state[s] = open
		for _, next := range slices.Concat([]*Schema{s.Ref, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf, dependent(s)) {
			if err := visit(next, depth+1); err != nil {
				return err
			}
		}
		state[s] = done
		return nil
	}
	for _, s := range c.all {
		if err := visit(s, 0); err != nil {
			return err
		}
	}
	return nil
}

func dependent(s *Schema) (out []*Schema) {
	for _, d := range s.DependentRequired {
		out = append(out, d.Schema)
	}
	return out
}
