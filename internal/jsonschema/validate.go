package jsonschema

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DefaultSteps is a budget for values of ordinary size: some milliseconds.
const DefaultSteps = 200_000

// maxNesting bounds how deep schemas and values go together.
const maxNesting = 1_000

// Validate holds a value against s. The value is what encoding/json makes of a
// text: nil, bool, float64, string, []any and map[string]any; anything else does
// not fit. steps bounds the work: a schema held against a value is one, and so
// are 64 bytes of a string that is looked at. The error is an *Error, ErrSteps if
// the steps are used up.
func (s *Schema) Validate(v any, steps int) error {
	c := &checker{steps: steps}
	if e := c.check(s, v, 0); e != nil {
		if c.spent() {
			return ErrSteps
		}
		slices.Reverse(e.path)
		return &Error{Path: strings.TrimPrefix(strings.Join(e.path, ""), "."), Keyword: e.keyword, Reason: e.reason}
	}
	return nil
}

type checker struct{ steps int }

func (c *checker) spent() bool { return c.steps < 0 }

// misfit is an Error whose path grows on the way up.
type misfit struct {
	keyword, reason string
	path            []string // innermost first
}

func no(keyword, format string, args ...any) *misfit {
	return &misfit{keyword: keyword, reason: fmt.Sprintf(format, args...)}
}

func (m *misfit) in(step string) *misfit {
	if len(m.path) < 20 {
		m.path = append(m.path, step)
	}
	return m
}

func key(name string) string {
	plain := name != "" && len(name) <= 40
	for i, r := range name {
		plain = plain && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || i > 0 && r >= '0' && r <= '9')
	}
	if plain {
		return "." + name
	}
	return "[" + quoted(name) + "]"
}

// quoted is a text of the value in an error.
func quoted(s string) string {
	short := s
	for n := 40; n < len(s) && len(short) == len(s); n-- {
		if utf8.RuneStart(s[n]) {
			short = s[:n]
		}
	}
	if short != s {
		return strconv.QuoteToASCII(short) + "…"
	}
	return strconv.QuoteToASCII(s)
}

var outOfSteps = &misfit{keyword: "steps", reason: ErrSteps.Reason}

// check holds a value against a schema. Once the steps are used up everything
// fails, so that no branch passes for want of a look.
func (c *checker) check(s *Schema, v any, depth int) *misfit {
	if c.steps--; c.steps < 0 || depth > maxNesting {
		c.steps = -1
		return outOfSteps
	}
	depth++
	if s.Never {
		return no("false", "must not be there")
	}
	if s.Ref != nil {
		if m := c.check(s.Ref, v, depth); m != nil {
			return m
		}
	}
	if len(s.Types) > 0 && !slices.ContainsFunc(s.Types, func(t string) bool { return is(v, t) }) {
		return no("type", "must be %s, not %s", strings.Join(s.Types, " or "), kindOf(v))
	}
	if s.Enums && !slices.ContainsFunc(s.Enum, func(e any) bool { return c.equal(v, e) }) {
		return no("enum", "must be one of %d values", len(s.Enum))
	}
	var m *misfit
	switch t := v.(type) {
	case nil, bool:
	case float64:
		m = c.number(s, t)
	case string:
		m = c.text(s, t)
	case []any:
		m = c.list(s, t, depth)
	case map[string]any:
		m = c.object(s, t, depth)
	default:
		m = no("type", "must be a value of JSON")
	}
	if m != nil {
		return m
	}
	return c.combine(s, v, depth)
}

// combine holds a value against the schemas beside it.
func (c *checker) combine(s *Schema, v any, depth int) *misfit {
	for _, sub := range s.AllOf {
		if m := c.check(sub, v, depth); m != nil {
			return m
		}
	}
	if len(s.AnyOf) > 0 {
		if !slices.ContainsFunc(s.AnyOf, func(sub *Schema) bool { return c.check(sub, v, depth) == nil }) {
			return no("anyOf", "must fit one of %d schemas", len(s.AnyOf))
		}
	}
	fits := 0
	for _, sub := range s.OneOf {
		if c.check(sub, v, depth) == nil {
			fits++
		}
		if c.spent() {
			return outOfSteps
		}
	}
	if len(s.OneOf) > 0 && fits != 1 {
		return no("oneOf", "must fit exactly one of %d schemas, and fits %d", len(s.OneOf), fits)
	}
	if s.Not != nil {
		fits := c.check(s.Not, v, depth) == nil
		if c.spent() {
			return outOfSteps
		}
		if fits {
			return no("not", "must not fit this schema")
		}
	}
	if s.If == nil {
		return nil
	}
	then := s.Else
	if c.check(s.If, v, depth) == nil {
		then = s.Then
	}
	if c.spent() {
		return outOfSteps
	}
	if then != nil {
		return c.check(then, v, depth)
	}
	return nil
}

func is(v any, kind string) bool {
	f, number := v.(float64)
	return kind == kindOf(v) || kind == "integer" && number && f == math.Trunc(f) && !math.IsInf(f, 0)
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "something that JSON does not have"
}

func (c *checker) number(s *Schema, f float64) *misfit {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return no("type", "must be a number of JSON")
	case s.Minimum != nil && f < *s.Minimum:
		return no("minimum", "must be at least %v", *s.Minimum)
	case s.Maximum != nil && f > *s.Maximum:
		return no("maximum", "must be at most %v", *s.Maximum)
	case s.ExclusiveMinimum != nil && f <= *s.ExclusiveMinimum:
		return no("exclusiveMinimum", "must be above %v", *s.ExclusiveMinimum)
	case s.ExclusiveMaximum != nil && f >= *s.ExclusiveMaximum:
		return no("exclusiveMaximum", "must be below %v", *s.ExclusiveMaximum)
	case s.MultipleOf == nil:
		return nil
	}
	if c.steps -= 40; c.steps < 0 { // numbers of hundreds of digits
		return outOfSteps
	}
	if !new(big.Rat).Quo(rat(f), s.MultipleOf).IsInt() {
		return no("multipleOf", "must be a multiple of %s", s.MultipleOf.RatString())
	}
	return nil
}

func (c *checker) text(s *Schema, text string) *misfit {
	if s.MinLength != nil || s.MaxLength != nil {
		c.steps -= len(text) / 64
		n := utf8.RuneCountInString(text)
		if s.MinLength != nil && n < *s.MinLength {
			return no("minLength", "must have at least %d characters", *s.MinLength)
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			return no("maxLength", "must have at most %d characters", *s.MaxLength)
		}
	}
	if s.Pattern != nil {
		if !c.matches(s.Pattern, text) {
			return no("pattern", "must match its pattern")
		}
	}
	return nil
}

// matches pays for a pattern before it starts, by the product of the lengths of
// text and program, which bounds the engine's work.
func (c *checker) matches(p *Pattern, text string) bool {
	if c.steps -= 1 + (len(text)+16)*(p.insts+8)/32; c.steps < 0 {
		return false
	}
	return p.re.MatchString(text)
}

func (c *checker) list(s *Schema, list []any, depth int) *misfit {
	switch {
	case s.MinItems != nil && len(list) < *s.MinItems:
		return no("minItems", "must have at least %d items", *s.MinItems)
	case s.MaxItems != nil && len(list) > *s.MaxItems:
		return no("maxItems", "must have at most %d items", *s.MaxItems)
	}
	for i, v := range list {
		sub := s.Items
		if i < len(s.PrefixItems) {
			sub = s.PrefixItems[i]
		}
		if sub == nil {
			continue
		}
		if m := c.check(sub, v, depth); m != nil {
			return m.in("[" + strconv.Itoa(i) + "]")
		}
	}
	if s.UniqueItems {
		if m := c.unique(list); m != nil {
			return m
		}
	}
	return c.contains(s, list, depth)
}

func (c *checker) contains(s *Schema, list []any, depth int) *misfit {
	if s.Contains == nil {
		return nil
	}
	least, fits := 1, 0
	if s.MinContains != nil {
		least = *s.MinContains
	}
	for _, v := range list {
		if c.check(s.Contains, v, depth) == nil {
			fits++
		}
		if c.spent() {
			return outOfSteps
		}
	}
	if fits < least || s.MaxContains != nil && fits > *s.MaxContains {
		return no("contains", "must have another number of items that fit, and has %d", fits)
	}
	return nil
}

// unique compares what the items look like when they are written, so that its
// work grows with their size alone.
func (c *checker) unique(list []any) *misfit {
	seen := make(map[string]int, min(len(list), 1024))
	for i, v := range list {
		text := string(c.canonical(nil, v, 0))
		if c.spent() {
			return outOfSteps
		}
		if first, twice := seen[text]; twice {
			return no("uniqueItems", "must have no item twice, and items %d and %d are the same", first, i)
		}
		seen[text] = i
	}
	return nil
}

// canonical appends a value in one form. Equal values have the same.
func (c *checker) canonical(b []byte, v any, depth int) []byte {
	if c.steps--; c.steps < 0 || depth > maxNesting {
		c.steps = -1
		return b
	}
	switch t := v.(type) {
	case bool:
		return strconv.AppendBool(b, t)
	case float64:
		return strconv.AppendFloat(b, t+0, 'g', -1, 64) // -0 is 0
	case string:
		c.steps -= len(t) / 64
		return append(strconv.AppendInt(append(b, '"'), int64(len(t)), 10), ":"+t...)
	case []any:
		b = append(b, '[')
		for _, item := range t {
			b = append(c.canonical(b, item, depth+1), ',')
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for _, k := range sortedKeys(t) {
			b = c.canonical(b, k, depth+1)
			b = append(c.canonical(append(b, ':'), t[k], depth+1), ',')
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (c *checker) equal(a, b any) bool {
	if kindOf(a) != kindOf(b) {
		c.steps--
		return false
	}
	x, y := c.canonical(nil, a, 0), c.canonical(nil, b, 0)
	return !c.spent() && string(x) == string(y)
}

func (c *checker) object(s *Schema, o map[string]any, depth int) *misfit {
	switch {
	case s.MinProperties != nil && len(o) < *s.MinProperties:
		return no("minProperties", "must have at least %d properties", *s.MinProperties)
	case s.MaxProperties != nil && len(o) > *s.MaxProperties:
		return no("maxProperties", "must have at most %d properties", *s.MaxProperties)
	}
	for _, name := range s.Required {
		if _, ok := o[name]; !ok {
			return no("required", "must have the property %s", quoted(name))
		}
	}
	if s.byName != nil || s.PatternProperties != nil || s.AdditionalProperties != nil || s.PropertyNames != nil {
		for _, name := range sortedKeys(o) {
			if m := c.property(s, name, o[name], depth); m != nil {
				return m.in(key(name))
			}
		}
	}
	for _, d := range s.DependentRequired {
		if _, there := o[d.Name]; !there {
			continue
		}
		for _, name := range d.Required {
			if _, ok := o[name]; !ok {
				return no("dependentRequired", "must have the property %s beside %s", quoted(name), quoted(d.Name))
			}
		}
		if d.Schema != nil {
			if m := c.check(d.Schema, o, depth); m != nil {
				return m
			}
		}
	}
	return nil
}

func (c *checker) property(s *Schema, name string, v any, depth int) *misfit {
	if c.steps--; s.PropertyNames != nil {
		if m := c.check(s.PropertyNames, name, depth); m != nil {
			return m
		}
	}
	sub, known := s.byName[name]
	if known {
		if m := c.check(sub, v, depth); m != nil {
			return m
		}
	}
	for _, p := range s.PatternProperties {
		if c.matches(p.Pattern, name) {
			known = true
			if m := c.check(p.Schema, v, depth); m != nil {
				return m
			}
		}
		if c.spent() {
			return outOfSteps
		}
	}
	if known || s.AdditionalProperties == nil {
		return nil
	}
	if s.AdditionalProperties.Never {
		return no("additionalProperties", "is a property that is not known")
	}
	return c.check(s.AdditionalProperties, v, depth)
}
