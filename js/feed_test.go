package js_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/script"
	"github.com/glovebox-dev/glovebox/js"
)

// What sessions are fed keeps what it declares, and has the value of its last
// expression, whether it awaits or not.
func TestFeeds(t *testing.T) {
	rt := open(t, js.Options{Modules: map[string]string{"a": "export const x = 'imported'"}})
	for _, c := range []struct{ src, want string }{
		{"let a = await 1, { b } = { b: 2 }; a + b", "3"},
		{"a + b", "3"},
		{"a = 5; await 0; a", "5"},
		{"await f(); function f() { return g() } function g() { return 7 }", "7"},
		{"await 0\nf()", "7"},
		{"f() + 1", "8"},
		{"class A { m() { return 'm' } }\nnew A().m() + await 1", `"m1"`},
		{"new A() instanceof A", "true"},
		{"for (var i of [1, 2]) { var j = await i }\n[i, j]", "[2,2]"},
		{"[i, j, globalThis.i]", "[2,2,2]"},
		{"return [await 9]", "[9]"},
		{"if (await 1) return 'early'\n'late'", `"early"`},
		{"const c = await 4", "null"},
		{"c; ;", "4"},
		{"await 1\n;[c].map(x => x * 2)", "[8]"},
		{"[this === globalThis, typeof arguments, await 1]", `[true,"undefined",1]`},
		{"'use strict'; await 0; try { undeclared = 1 } catch (e) { e.name }\n(() => { try { undeclared = 1 } catch (e) { return e.name } })()", `"ReferenceError"`},
		{"await 1; // a comment", "1"},
		{"(await import('a')).x", `"imported"`},
		{"import('a').then(m => m.x)", `"imported"`},
		{"let { x, ...rest } = await { x: 1, y: 2 }, [z = await 3] = [];\n({ x, rest, z })", `{"x":1,"rest":{"y":2},"z":3}`},
		{"async function* gen() { yield 1; yield 2 }\nlet all = []; for await (const v of gen()) all.push(v)\nall", "[1,2]"},
		{"let a = await 2", "thrown"},
		{"\n\nawait 0; throw new Error('third line')", "thrown"},
		{"a", "5"},
		{"let broken = await Promise.reject(new Error('no'))", "thrown"},
		{"typeof broken", `"undefined"`},
		{"`${await 1}` + /a/.source", `"1a"`},
	} {
		s, err := script.Feed(c.src, "$import$", script.Options{})
		if err != nil {
			t.Errorf("%q: %v", c.src, err)
			continue
		}
		if s.Call {
			s.Source += "(globalThis)"
		}
		v, err := rt.Eval(ctx, s.Source)
		var e *js.Error
		got := ""
		switch {
		case errors.As(err, &e):
			if got = string(e.Kind); strings.Contains(c.src, "third line") && !strings.Contains(e.Stack, "eval:3:") {
				t.Errorf("%q: %s", c.src, e.Stack)
			}
		case v.IsUndefined():
			got = "null"
		default:
			b, _ := v.MarshalJSON()
			got = string(b)
		}
		if got != c.want {
			t.Errorf("%q: %s (%v), not %s\n%s", c.src, got, err, c.want, s.Source)
		}
	}
}
