// Package jsonschema compiles JSON Schemas of strangers (draft 2020-12, and what
// draft 7 has in common with it) and holds values against them. Both are bounded:
// nothing is loaded, patterns are RE2, recursion and steps are counted. A keyword
// that is not known, or that cannot be held, refuses the schema: none is ignored
// but those that say nothing of a value (title, description, format and such).
package jsonschema

import (
	"fmt"
	"math/big"
	"regexp"
)

// The bounds of a schema.
const (
	MaxBytes    = 256 << 10 // of its text
	MaxSchemas  = 5_000     // schemas within it, true and false too
	maxDepth    = 40        // of its text
	maxPatterns = 200
	maxPattern  = 1_000 // bytes
)

// Schema is a compiled schema. It never changes, and is safe for concurrent use.
// Fields that a text does not have are nil.
type Schema struct {
	Name               string // of a definition
	Title, Description string
	Format             string // a note: it is not checked

	// Never is the schema false, which nothing fits.
	Never bool
	Ref   *Schema // of $ref

	Types []string // "null", "boolean", "number", "integer", "string", "array", "object"
	Enum  []any    // const is an enum of one
	Enums bool     // there is an enum, which may be empty

	AllOf, AnyOf, OneOf []*Schema
	Not, If, Then, Else *Schema

	Minimum, Maximum, ExclusiveMinimum, ExclusiveMaximum *float64
	MultipleOf                                           *big.Rat

	MinLength, MaxLength *int
	Pattern              *Pattern

	PrefixItems              []*Schema
	Items, Contains          *Schema
	MinContains, MaxContains *int
	MinItems, MaxItems       *int
	UniqueItems              bool
	Properties               []Property // in the order of their names
	PatternProperties        []PatternProperty
	AdditionalProperties     *Schema
	PropertyNames            *Schema
	Required                 []string
	MinProperties            *int
	MaxProperties            *int
	DependentRequired        []Dependency
	byName                   map[string]*Schema
}

// Pattern is a regular expression of RE2.
type Pattern struct {
	re    *regexp.Regexp
	insts int // of its program: what one byte of a text can cost
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.re.String() }

// Property is one of the properties of a schema.
type Property struct {
	Name   string
	Schema *Schema
}

// PatternProperty is a schema for all properties whose names fit a pattern.
type PatternProperty struct {
	Pattern *Pattern
	Schema  *Schema
}

// Dependency says what else an object must have, and fit, that has a name.
type Dependency struct {
	Name     string
	Required []string
	Schema   *Schema
}

// CompileError says why a schema is refused, and where in it.
type CompileError struct {
	Path   string // "#/properties/a/pattern"
	Reason string
}

// Error returns path and reason, cut to a few hundred bytes.
func (e *CompileError) Error() string { return fmt.Sprintf("schema %s: %s", e.Path, e.Reason) }

// Error says why a value does not fit.
type Error struct {
	Path    string // "items[3].price"; empty for the value itself
	Keyword string // "maximum"
	Reason  string // "must be at most 5"
}

// Error returns path and reason.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// ErrSteps is what Validate returns when its steps are used up.
var ErrSteps = &Error{Keyword: "steps", Reason: "takes too many steps to check"}
