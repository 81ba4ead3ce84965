package js_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/js"
)

// crossing are results of functions of the host: some of which JSON says all,
// and some of which it does not.
var crossing = []any{
	[]any{}, map[string]any{}, []any{nil, true, false, 0.0, -1.5, 1e300, "", "é", "日本\x00\n\u2028\"\\", "🙂", "\xed\xa0\x80"},
	map[string]any{"__proto__": map[string]any{"toString": 1.0}, "constructor": 1.0, "toJSON": "x", "": 2.0, "7": 3.0, "b": []any{map[string]any{"x": []any{}}}},
	[]any{math.NaN()}, []any{math.Inf(1)}, []any{math.Copysign(0, -1)}, []any{js.Undefined}, map[string]any{"u": js.Undefined, "v": 1.0},
	[]any{big.NewInt(1 << 62)}, []any{time.UnixMilli(5).UTC()}, []any{[]byte{1, 2, 3}}, []any{&js.Set{}},
}

// Whatever route an answer takes, the guest has what the host gave, though it has
// changed all that making it could go through. The control: made by code of the
// guest's, the same passes its setters.
//
// proves part of G-01
func TestAnswersCrossWhole(t *testing.T) {
	rt := open(t, js.Options{})
	n := 0
	if err := rt.Bind(ctx, "next", func() any { n++; return crossing[n-1] }); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Eval(ctx, `
		var seen = 0, trap = { get() { seen++ }, set() { seen++ }, configurable: true };
		for (const k of ["0", "1", "u", "v", "x", "b", "constructor", "toJSON"]) Object.defineProperty(Object.prototype, k, trap);
		Object.defineProperty(Array.prototype, "0", trap);
		JSON.parse = JSON.stringify = Object.fromEntries = () => { seen++ };
		Array = Object = Map = Set = Date = Uint8Array = undefined;
		0`); err != nil {
		t.Fatal(err)
	}
	for _, want := range crossing {
		got, err := rt.Eval(ctx, "next()")
		if err != nil {
			t.Errorf("%#v: %v", want, err)
			continue
		}
		w, err := js.ValueOf(want)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w.Any(), got.Any(), cmp.Comparer(func(a, b float64) bool {
			return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
		}), cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); d != "" {
			t.Errorf("%#v: %s", want, d)
		}
	}
	if v, err := rt.Eval(ctx, "seen"); err != nil || v.Any() != 0.0 {
		t.Errorf("code of the guest ran %v times (%v)", v, err)
	}
	if v, err := rt.Eval(ctx, "({}).u = 1; [].x = 1; seen"); err != nil || v.Any() != 2.0 {
		t.Errorf("a control: setters of the guest ran %v times (%v)", v, err)
	}
}
