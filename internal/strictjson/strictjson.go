// Package strictjson decodes JSON that comes from outside. It takes a text in one
// way only: what encoding/json would guess, fold, repeat or drop is refused, by
// the name of the field.
//
// A walk over the text beside the Go type checks everything first; encoding/json
// then decodes what has passed.
package strictjson

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/api"
)

// The bounds of a text, see [Options].
const (
	DefaultDepth  = 64
	DefaultBytes  = 8 << 20
	DefaultValues = 100_000

	// HardDepth keeps the walk, which is recursive, far from the end of the stack.
	HardDepth = 1000
)

// Options say who speaks and how much may be said. The zero value asks for no
// audience and has the default bounds.
type Options struct {
	// Audience is who wrote the text, one of the api.Audience constants. A field
	// whose tag "for" does not have it is refused, as is one without the tag.
	// Empty asks for no audience: every field may be set.
	Audience string
	// MaxDepth is how deep objects and lists may lie in each other, the outermost
	// counted. Zero means [DefaultDepth]; more than [HardDepth] means that.
	MaxDepth int
	// MaxBytes is the length of the whole text. Zero means [DefaultBytes].
	MaxBytes int
	// MaxValues is the number of values of any kind, those in lists and objects
	// included. Zero means [DefaultValues].
	MaxValues int
	// Newer says that the text may be from a newer program than this one: a key that
	// no field has is stepped over, with a value that holds to the same rules. One
	// that differs from a field's name in its case alone is refused still.
	Newer bool
}

// Decode decodes the one JSON value that data holds and sets *v to it. What v
// points to is replaced as a whole, or, with an error, left as it was: a field
// that the text does not name is zero afterwards.
//
// The text is UTF-8 without halves of surrogate pairs. The keys of an object are
// the exact names of the struct's fields, and no object, at any depth, has a key
// twice. null stands for a pointer, map, slice or interface only. Integers are
// plain digits within the range of their type, []byte is standard base64, and an
// array has all its elements. A type with UnmarshalJSON or UnmarshalText is given
// its part of the text, which holds to the same rules for duplicates, UTF-8 and
// bounds, and judges the rest itself; it may be called twice.
//
// The error is a *[api.FieldError]. Its Field is the path of what is refused
// ("files[2].content", `env["a b"]`), "body" for the whole. Of the text it
// repeats keys, numbers and what a type that decodes itself says, all shortened.
//
// v is a pointer, not nil, to a type made of structs, pointers, slices, arrays,
// maps whose keys are strings, strings, numbers, booleans, interface{} and types
// that decode themselves. Decode panics when it is not, whatever the text: that
// is a mistake of the program. A field with the json option "string" is one, and
// two fields of one name at the same depth.
func Decode(data []byte, v any, o Options) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		panic("strictjson: v must be a pointer and not nil")
	}
	w := newWalk(data, o)
	f := w.document(kindOf(p.Type().Elem()))
	if f != nil {
		return f.err()
	}
	fresh := reflect.New(p.Type().Elem())
	if err := json.Unmarshal(data, fresh.Interface()); err != nil {
		return refuse("cannot be decoded: %s", printable(err.Error())).err()
	}
	p.Elem().Set(fresh.Elem())
	return nil
}

func newWalk(data []byte, o Options) *walk {
	w := &walk{data: data, audience: o.Audience, newer: o.Newer, depth: DefaultDepth, bytes: DefaultBytes, values: DefaultValues}
	if o.MaxDepth > 0 {
		w.depth = min(o.MaxDepth, HardDepth)
	}
	if o.MaxBytes > 0 {
		w.bytes = o.MaxBytes
	}
	if o.MaxValues > 0 {
		w.values = o.MaxValues
	}
	return w
}

// failure is an error whose path grows while the walk returns from it.
type failure struct {
	reason string
	value  any
	path   []string // from the inside out
}

// in puts one more part before the path.
func (f *failure) in(part string) *failure {
	f.path = append(f.path, part)
	return f
}

// Bounds of what an error repeats of the text, in bytes.
const (
	maxPart  = 64  // of a key or a number
	maxField = 512 // of a path, before its last part
	maxText  = 200 // of another's error
)

func (f *failure) err() error {
	var b strings.Builder
	for i := len(f.path) - 1; i >= 0; i-- {
		if b.Len() > maxField {
			b.WriteString("…")
			break
		}
		if b.Len() > 0 && f.path[i][0] != '[' {
			b.WriteByte('.')
		}
		b.WriteString(f.path[i])
	}
	field := cmp.Or(b.String(), "body")
	return &api.FieldError{Field: field, Value: f.value, Reason: f.reason}
}

// keyPart is a key as part of a path: a plain name as it is, any other quoted,
// so that one spelled with foreign letters is seen.
func keyPart(key string) string {
	short := cut(key, maxPart)
	plain := key != "" && short == key && strings.IndexFunc(key, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
	if plain {
		return key
	}
	return "[" + quote(key) + "]"
}

func indexPart(i int) string { return "[" + strconv.Itoa(i) + "]" }

// quote quotes a text in ASCII, shortened.
func quote(s string) string {
	short := cut(s, maxPart)
	q := strconv.QuoteToASCII(short)
	if short != s {
		q += "…"
	}
	return q
}

// cut shortens a text to at most n bytes, between characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// printable makes the sentence of another's error fit to be shown.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, cut(s, maxText))
}
