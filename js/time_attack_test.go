package js_test

import (
	"errors"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// TestAttackTimeIsTime: an evaluation whose time is over has failed by its time,
// wherever the engine noticed it: while an argument was made ready for the host the
// end is no exception of the guest's, which it could catch or be said to have thrown.
//
// proves part of G-21
func TestAttackTimeIsTime(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 300}})
	if err := rt.BindAsync(ctx, "take", func(js.Value) {}); err != nil {
		t.Fatal(err)
	}
	const call = "const big = Array(900000).fill(''); const all = []; for (let i = 0; i < 9; i++) all.push(take(big).then(() => {}, (e) => e + '')); (await Promise.all(all)).join()"
	for _, code := range []string{
		"globalThis.big = Array(900000).fill(''); for (let i = 0; i < 99; i++) { try { take(big) } catch (e) { 'caught ' + e } }",
		"(async () => { " + call + " })()",
	} {
		if v, err := rt.Eval(ctx, code); !errors.Is(err, js.Timeout) {
			t.Errorf("%v, %v", v, err)
		}
	}
	if v, err := rt.Eval(ctx, "1 + 1"); err != nil || v.String() != "2" { // control: it goes on
		t.Error(v, err)
	}
}
