package js_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// Many names are bound at once, more than are sent together; each can be called.
func TestBindMany(t *testing.T) {
	rt := open(t, js.Options{})
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("space%d.tool%d", i%7, i))
	}
	if err := rt.BindPaused(ctx, names...); err != nil {
		t.Fatal(err)
	}
	s, err := rt.Start(ctx, js.Script{Code: "Promise.all([" + strings.Join(names, "(), ") + "()])"})
	if err != nil || len(s.Calls) != len(names) {
		t.Fatal(err, s)
	}
	for i, c := range s.Calls {
		if c.Name != names[i] {
			t.Fatalf("call %d is of %s, not %s", i, c.Name, names[i])
		}
	}
	if err := rt.BindPaused(ctx); err != nil {
		t.Errorf("no names: %v", err)
	}
}

// One name that cannot be bound, wherever it stands, takes the others with it: what
// was bound throws, and nothing is left that the host would answer.
func TestBindManyOrNone(t *testing.T) {
	for _, at := range []int{0, 1, 70, 149} {
		rt := open(t, js.Options{})
		names := make([]string, 150)
		for i := range names {
			names[i] = fmt.Sprintf("tool%d", i)
		}
		names[at] = "Array"
		if err := rt.BindPaused(ctx, names...); js.KindOf(err) != js.BindFailed || !strings.Contains(err.Error(), "Array") {
			t.Fatalf("%d: %v", at, err)
		}
		got := text(t, rt, `(async () => {
			let open = 0
			for (let i = 0; i < 150; i++) {
				const f = globalThis['tool' + i]
				if (f) try { await f(); open++ } catch (e) { if (!/revoked/.test(e.message)) open++ }
			}
			return open
		})()`)
		if got != "0" {
			t.Errorf("%d: %s names are open", at, got)
		}
		if err := rt.BindPaused(ctx, "later"); err != nil {
			t.Errorf("%d: afterwards: %v", at, err)
		}
	}
	rt := open(t, js.Options{})
	if err := rt.BindPaused(ctx, "a", "b", "a"); js.KindOf(err) != js.BindFailed {
		t.Error(err)
	}
	if got := text(t, rt, "typeof a + typeof b"); got != `"undefinedundefined"` {
		t.Error(got)
	}
}
