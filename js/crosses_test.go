package js_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

type (
	chain  []chain
	ring   struct{ Next *ring }
	quiet  struct{ C chan int }
	hidden struct {
		C chan int `json:"-"`
		N int
	}
	empty struct {
		C chan int `json:"c,omitzero"`
	}
	speaks struct{ C chan int }
)

func (speaks) MarshalJSON() ([]byte, error)  { return []byte("1"), nil }
func (*speaks) UnmarshalJSON(b []byte) error { return nil }

// A function whose parameters or result can never cross is refused when it is
// bound, by what is wrong with it, and one whose can is not.
func TestBindTypes(t *testing.T) {
	rt := open(t, js.Options{})
	for i, c := range []struct {
		fn     any
		reason string // empty: is bound
	}{
		{func(chan int) {}, "its parameter 1 has chan int in it, which never crosses"},
		{func(_ context.Context, _ int, _ []func()) {}, "its parameter 3 has func() in it, which never crosses"},
		{func(...complex128) {}, "its parameter 1 has complex128 in it, which never crosses"},
		{func(io.Reader) {}, "its parameter 1 has io.Reader in it, which no value of JavaScript is"},
		{func(int, context.Context) {}, "its parameter 2 has context.Context in it, which no value of JavaScript is"},
		{func(map[chan int]int) {}, "its parameter 1 has chan int in it, which never crosses"},
		{func() *func() { return nil }, "its result has func() in it, which never crosses"},
		{func() (map[string]quiet, error) { return nil, nil }, "its result has chan int in it, which never crosses"},
		{func() map[bool]int { return nil }, "its result has map[bool]int in it, whose keys are no names of properties"},
		{func(a, b chan int) chan int { return nil }, "its parameter 1 has chan int in it, which never crosses"},
		{func(int) {}, ""}, {func(any, error, fmt.Stringer, json.Marshaler) {}, ""}, {func(chain, ring, *ring) (chain, error) { return nil, nil }, ""},
		{func(quiet, hidden, map[bool]int) hidden { return hidden{} }, ""}, {func() empty { return empty{} }, ""}, {func(speaks, time.Time) speaks { return speaks{} }, ""},
		{func(big.Float, js.Value, *js.Map, json.Number, [3]byte, uintptr) error { return nil }, ""}, {func() io.Reader { return nil }, ""},
		{func() map[int8]any { return nil }, ""}, {func() map[any]any { return nil }, "its result has map[interface {}]interface {} in it, whose keys are no names of properties"},
	} {
		err := rt.Bind(ctx, fmt.Sprintf("f%d", i), c.fn)
		var bad *api.FieldError
		switch {
		case c.reason == "" && err != nil:
			t.Errorf("%T: %v", c.fn, err)
		case c.reason != "" && (!errors.As(err, &bad) || bad.Field != "fn" || bad.Value != reflect.TypeOf(c.fn).String() || bad.Reason != c.reason):
			t.Errorf("%T: %v, not %s", c.fn, err, c.reason)
		}
	}
	if got := text(t, rt, "f13({}, { N: 4 }, new Map([[true, 1]]))"); got != `{"N":0}` {
		t.Errorf("a field that never crosses and is not given: %s", got)
	}
}

// What is wrong with an entry of an object is said with the entry's name, and
// nothing of the object is bound.
func TestBindObjectNamesTheEntry(t *testing.T) {
	rt := open(t, js.Options{})
	for want, object := range map[string]map[string]any{
		"object.second: chan int: must be a function":                                            {"first": func() {}, "second": make(chan int)},
		"object.second: func(chan int): its parameter 1 has chan int in it, which never crosses": {"first": func() {}, "second": func(chan int) {}},
		`name: tools.a b: must be identifiers joined by dots`:                                    {"A": func() {}, "a b": func() {}},
		`name: tools.: must be identifiers joined by dots`:                                       {"": func() {}},
		"object: map[string]interface {}: has no exported method and is no map of functions":     {},
		`object.x: <nil>: must be a function`:                                                    {"x": nil},
	} {
		if err := rt.BindObject(ctx, "tools", object); err == nil || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	}
	if got := text(t, rt, "typeof globalThis.tools?.first"); got != `"undefined"` {
		t.Error(got)
	}
	if err := rt.Bind(ctx, "", func() {}); err == nil || err.Error() != `name: "": must be identifiers joined by dots` {
		t.Errorf("no name: %v", err)
	}
}
