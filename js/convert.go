package js

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// ErrNoJSON is in the error of [Value.MarshalJSON] for what JSON cannot say.
var ErrNoJSON = errors.New("no JSON form")

// ConvertError says that a value does not cross between Go and JavaScript, or
// has no JSON form, and where in it. It wraps [ErrNoJSON] or the error of a
// method of the value (MarshalJSON, UnmarshalText, …) where there was one.
type ConvertError struct {
	// Path leads to the value that does not cross: "args[0].items[3].price".
	// Names of properties are JavaScript's; a long path is cut in its middle.
	Path string
	// Reason is a part of a sentence: "number 1.5 does not fit int".
	Reason string
	// Limit names the budget that was too small ("nodes", "depth", "elements",
	// "value"), and is empty for another reason.
	Limit string

	cause error
}

// Error returns the path and the reason, safe to show and at most 1 KiB long.
func (e *ConvertError) Error() string {
	return clean(e.Path+": "+e.Reason, maxErrorText)
}

// Unwrap returns what the error wraps, or nil.
func (e *ConvertError) Unwrap() error { return e.cause }

// The bounds of texts that name a value, in bytes.
const (
	maxErrorText = 1024
	maxPiece     = 48 // a key or a string within an error
	maxSteps     = 12 // of a path that are shown
)

// The bounds of one value, see wire.Budget.
const (
	maxNodes    = 1_000_000
	maxDepth    = 128
	maxElements = 1 << 20
	maxHops     = 128 // pointers and interfaces from one value to the next
)

// maxExact is the largest integer n of which JavaScript tells n from n+1.
const maxExact = 1<<53 - 1

// fault is a ConvertError on its way up: each caller adds where it was.
type fault struct {
	reason string
	limit  string
	cause  error
	steps  []string // innermost first
}

func faultf(format string, args ...any) *fault { return &fault{reason: fmt.Sprintf(format, args...)} }

func exceeds(limit string, n int) *fault {
	return &fault{reason: fmt.Sprintf("more than %d: %s", n, limit), limit: limit}
}

// misfit is the fault of a value that a Go type cannot hold.
func misfit(tree any, t reflect.Type) *fault {
	return faultf("%s does not fit %s", describe(tree), t)
}

func (f *fault) in(step string) *fault {
	f.steps = append(f.steps, step)
	return f
}

func (f *fault) index(i int) *fault { return f.in("[" + strconv.Itoa(i) + "]") }

func (f *fault) key(name string) *fault {
	if identifier(name) {
		return f.in("." + name)
	}
	return f.in("[" + strconv.Quote(cut(name, maxPiece)) + "]")
}

// entry adds a key or value of a Map, or an element of a Set.
func (f *fault) entry(list string, i int, part string) *fault {
	return f.in("." + list + "[" + strconv.Itoa(i) + "]" + part)
}

// at ends the way up. A nil fault is no error.
func (f *fault) at(root string) error {
	if f == nil {
		return nil
	}
	var path strings.Builder
	path.WriteString(root)
	for i := len(f.steps) - 1; i >= 0; i-- {
		if over := len(f.steps) - maxSteps; over > 0 && i == len(f.steps)-1-maxSteps/2 {
			path.WriteString("…")
			i -= over
		}
		path.WriteString(f.steps[i])
	}
	return &ConvertError{Path: path.String(), Reason: f.reason, Limit: f.limit, cause: f.cause}
}

// identifier reports whether a key can stand behind a point. Others are quoted.
func identifier(s string) bool {
	if s == "" || len(s) > maxPiece {
		return false
	}
	for i, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// describe names a value in an error: its kind and, if that is short, itself.
func describe(tree any) string {
	switch v := tree.(type) {
	case float64:
		return "number " + string(appendNumber(nil, v))
	case *big.Int:
		if v.BitLen() > 256 {
			return fmt.Sprintf("bigint of %d bits", v.BitLen())
		}
		return "bigint " + v.String()
	case string:
		return "string " + strconv.Quote(cut(v, maxPiece))
	case []any:
		return "array of " + count(len(v), "element")
	case *wire.Bytes:
		return v.Kind.String() + " of " + count(len(v.Data), "byte")
	case wire.Date:
		return "Date " + dateText(v)
	case bool:
		return "boolean " + strconv.FormatBool(v)
	case wire.Hole:
		return "hole"
	}
	return kindOf(tree).String()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// asFault makes a fault of an error of the wire.
func asFault(err error) *fault {
	if limit, ok := errors.AsType[*wire.LimitError](err); ok {
		return exceeds(limit.What, limit.Limit)
	}
	return &fault{reason: err.Error(), cause: err}
}
