package js

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Feed says that a script is one of several that are fed to one runtime, as a
// person would type them: it may have await and return at its top, comes to what
// it returns or to its last expression, and what it declares at its top stays for
// the next. Inputs, Seed and Clock are set before the source is looked at, and
// stay whatever becomes of it. The zero value sets nothing.
type Feed struct {
	// Inputs are global variables by their names. A name is an identifier of at
	// most 64 ASCII letters, digits, $ and _, no word of the language, nothing that
	// the guest's world or the host has: anything else is a *api.FieldError. A variable
	// of that name is overwritten. A let, const or class of that name, or one that
	// the guest does not let be written, is [BindFailed], and nothing is set. Values
	// cross by the rules of [Value].
	Inputs map[string]any
	// Seed begins the random numbers anew; nil leaves them as they go on.
	Seed *[32]byte
	// Clock is what the clock says from here on, in ms since 1970; nil leaves it. It
	// is refused unless Options.Clock is set: a clock that runs is not moved.
	Clock *int64
}

// inputForm is a name of an input.
var inputForm = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]{0,63}$`)

// words of the language, in whatever mode and place.
var words = strings.Fields("arguments await break case catch class const continue debugger default delete do else enum eval export extends false finally for " +
	"function if implements import in instanceof interface let new null package private protected public return static super switch this throw true try typeof " +
	"undefined var void while with yield")

// worldNames are what a guest has before it begins, and what it has by request: the
// same on every host, so that a name is refused whatever engine is there. A name
// that an engine has beside them the worker refuses.
var worldNames = strings.Fields("AggregateError Array ArrayBuffer AsyncDisposableStack Atomics BigInt BigInt64Array BigUint64Array Boolean DataView Date DisposableStack Error EvalError " +
	"FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array Intl Iterator JSON Map Math NaN Number Object Promise Proxy " +
	"RangeError ReferenceError Reflect RegExp Set SharedArrayBuffer String SuppressedError Symbol SyntaxError Temporal TypeError URIError Uint16Array Uint32Array Uint8Array " +
	"Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly clearInterval clearTimeout console decodeURI decodeURIComponent encodeURI encodeURIComponent escape globalThis " +
	"isFinite isNaN parseFloat parseInt setInterval setTimeout unescape " +
	"__defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ __proto__ constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf " +
	"$import$")

// addFeed makes a feed of a message.
func (p *Pool) addFeed(m *wire.Eval, s Script) (err error) {
	if s.Module {
		return &api.FieldError{Field: "feed", Value: "module", Reason: "must be nil for a module"}
	}
	m.Kind = wire.EvalFeed
	if m.Feed, err = p.feed(s.Feed); err != nil {
		return err
	}
	if n := len(s.Code) + len(m.Feed.Inputs) + len(m.Feed.JSON); n > wire.MaxPayload-4<<10 {
		return &api.FieldError{Field: "feed.inputs", Value: n, Reason: "code and inputs must be less than 16 MiB together"}
	}
	return nil
}

// feed checks a feed. The error is a *api.FieldError or *ConvertError.
func (p *Pool) feed(f *Feed) (*wire.Feed, error) {
	m := &wire.Feed{Seed: f.Seed}
	var err error
	if m.Clock, err = p.clockTo("feed.clock", f.Clock); err != nil {
		return nil, err
	}
	if len(f.Inputs) == 0 {
		return m, nil
	}
	for name := range f.Inputs {
		why := ""
		switch {
		case !inputForm.MatchString(name):
			why = "must be an identifier of at most 64 characters"
		case slices.Contains(words, name):
			why = "is a word of the language"
		case slices.Contains(worldNames, name):
			why = "is a name of the guest's world"
		}
		if why != "" {
			return nil, inputRefused(name, why)
		}
	}
	m.Inputs, m.JSON, err = encodeForEngine("inputs", f.Inputs, p.limits.budget())
	return m, err
}

func inputRefused(name, why string) error {
	return &api.FieldError{Field: "feed.inputs", Value: clean(name, 100), Reason: why}
}

// bound tells whether a name is the first part of one that is bound.
func (r *Runtime) bound(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.names {
		if first, _, _ := strings.Cut(n, "."); first == name {
			return true
		}
	}
	return false
}

// clockTo checks a time that the clock is to be moved to.
func (p *Pool) clockTo(field string, ms *int64) (*uint64, error) {
	if ms == nil {
		return nil, nil
	}
	if p.opts.Clock == nil {
		return nil, &api.FieldError{Field: field, Value: *ms, Reason: "must be nil where Options.Clock is: that clock runs"}
	}
	if *ms < 0 || *ms > maxClock {
		return nil, &api.FieldError{Field: field, Value: *ms, Reason: "must be from 0 to 8640000000000000 ms"}
	}
	to := uint64(*ms)
	return &to, nil
}

// maxClock is the last ms of JavaScript's dates.
const maxClock = 8_640_000_000_000_000

// Equal reports whether two values are the same: of one kind, with the same parts
// in the same order. NaN is the same as NaN, 0 is not the same as -0. Values
// that are too large to cross are the same as none.
func Equal(a, b Value) bool {
	x, err1 := a.MarshalBinary()
	y, err2 := b.MarshalBinary()
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
