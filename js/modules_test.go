package js_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// module runs a module and returns what it exports as JSON.
func module(t testing.TB, rt *js.Runtime, code string) string {
	t.Helper()
	v, err := rt.EvalModule(ctx, code)
	if err != nil {
		var e *js.Error
		if errors.As(err, &e) {
			return string(e.Kind) + " " + e.Name + ": " + e.Message
		}
		t.Fatalf("%s: %v", code, err)
	}
	b, err := v.MarshalJSON()
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	return string(b)
}

var library = map[string]string{
	"a":         "export let n = 1; export function inc() { n++; return this }; export default class A {}; export const twice = x => x * 2",
	"lib/b.js":  "export * from './c.js'; export { default } from './c.js'; export { n as m, inc } from 'a'; export * as a from 'a'",
	"lib/c.js":  "export const c = 'c'; export default function () { return 'default c' } globalThis.runs = (globalThis.runs ?? 0) + 1",
	"even":      "import { odd } from 'odd'; export function even(n) { return n === 0 || odd(n - 1) }; export const late = 'late'; export let first = odd(1)",
	"odd":       "import { even, late } from 'even'; export function odd(n) { return n !== 0 && even(n - 1) }\nexport let seen; try { late } catch (e) { seen = e.name + e.stack }\nexport const thisIs = (() => { try { return even(0) } catch (e) { return e.message } })()",
	"data.json": `{ "__proto__": 1, "x": [1] }`,
	"bad.json":  `{`,
	"star1":     "export const x = 1, y = 1", "star2": "export const x = 2, z = 2", "stars": "export * from 'star1'; export * from 'star2'",
	"waits":   "export const order = []; order.push('waits 1'); await null; order.push('waits 2')",
	"beside":  "import { order } from 'waits'; order.push('beside')",
	"throws":  "globalThis.thrown = (globalThis.thrown ?? 0) + 1; throw new RangeError('on purpose')",
	"syntax":  "export const = 1",
	"engine":  "export const a = 1; a b",
	"odd\"s":  "export const weird = 1; export { weird as 'a b', weird as __proto__, weird as then_ }",
	"self":    "import * as self from 'self'; export { self }; export const n = Object.keys(self).join()",
	"fn":      "export let f = function () { return this === undefined }; export const swap = () => { f = () => 'swapped' }; export default class { static name2 = 1 }",
	"thenner": "export function then(resolve) { resolve('then') }",
}

// proves part of B-07
func TestModules(t *testing.T) {
	rt := open(t, js.Options{Modules: library})
	for _, c := range []struct{ code, want string }{
		{"export const x = 1; export default 'd'; export function f() {} export { x as 'é y' }", `{"default":"d","x":1,"é y":1}`},
		{"import A, { n, inc, twice } from 'a'; const before = n; const self = inc(); export { before, n }; export default [typeof A, twice(n), self === undefined]", `{"before":1,"default":["function",4,true],"n":2}`},
		{"import d, { c, m, inc, a } from './lib/b.js'; inc(); export const r = [d(), c, m, a.n, Object.keys(a)]", `{"r":["default c","c",3,3,["default","inc","n","twice"]]}`},
		{"import * as b from 'lib/b.js'; export const r = [Object.getPrototypeOf(b), b[Symbol.toStringTag], String(Object.keys(b)), Object.isExtensible(b), globalThis.runs]",
			`{"r":[null,"Module","a,c,default,inc,m",false,1]}`},
		{"import * as b from 'lib/b.js'; const r = []; for (const f of [() => { b.c = 1 }, () => { b.m = 1 }, () => { delete b.c }, () => { b.x = 1 }, () => Object.defineProperty(b, 'c', { value: 2 })]) try { f(); r.push('?') } catch (e) { r.push(e.name) } export { r }",
			`{"r":["TypeError","TypeError","TypeError","TypeError","TypeError"]}`},
		{"import { f, swap } from 'fn'\nconst before = f()\nlet x = 1\nf()\nconst o = { f }, g = ((f) => f)(2), h = ({ f }) => f; swap(); export const r = [before, (f)(), o.f(), g, h({ f: 3 }), f?.(), typeof f, `${f()}`, f`x`, [f].length, new (class { f = f; m() { return this.f() } })().m(), (() => { let f = 4; return f })(), eval('typeof f')]",
			`{"r":[true,"swapped",false,2,3,"swapped","function","swapped","swapped",1,"swapped",4,"undefined"]}`},
		{"export { default } from 'fn'; import K, { f } from 'fn'; let e = []; for (const bad of [() => { f = 1 }, () => { [f] = [1] }, () => { ({ f } = {}) }, () => { for (f of [1]) ; }, () => f++]) try { bad() } catch (x) { e.push(x.name) } export const r = [e, K.name2]",
			`{"r":[["TypeError","TypeError","TypeError","TypeError","TypeError"],1]}`},
		{"import { n } from 'a'; let r; try { n = 1 } catch (e) { r = e.name } export { r }", `{"r":"TypeError"}`},
		{"import { twice } from 'a'; let r; try { twice = 1 } catch (e) { r = e.name } export { r }", `{"r":"TypeError"}`},
		{"import { even, first } from 'even'; import { odd, thisIs } from 'odd'; export const r = [even(10), odd(10), first, thisIs]", `{"r":[true,false,true,true]}`},
		{"import data from 'data.json' with { type: 'json' }; export const r = [Object.keys(data), data.x]", `{"r":[["__proto__","x"],[1]]}`},
		{"import { y, z } from 'stars'; export const r = [y, z]", `{"r":[1,2]}`},
		{"import * as stars from 'stars'; export const r = Object.keys(stars)", `{"r":["y","z"]}`},
		{"import 'beside'; import { order } from 'waits'; export { order }", `{"order":["waits 1","waits 2","beside"]}`},
		{"import { weird, 'a b' as b, __proto__ as p } from 'odd\"s'; export { p as __proto__, b as then }; export const r = [weird, b, p]", `{"__proto__":1,"r":[1,1,1],"then":1}`},
		{"export * from 'self'; export * as again from 'self'", `{"again":{"n":"n,self"},"n":"n,self","self":{"n":"n,self"}}`},
		{"export const r = [import.meta.url, Object.getPrototypeOf(import.meta), import.meta === import.meta, typeof this, typeof arguments_]; var arguments_", `{"r":["eval",null,true,"undefined","undefined"]}`},
		{"const a = await import('a'); export const r = [a.n, a.twice(4), (await import('a')) === a, await import('thenner')]", `{"r":[3,8,true,"then"]}`},
		{"export const r = await Promise.all(['throws', 'throws', 'nothing', 'syntax', 'engine', {}, Symbol(), '', 'x\\n', '\\ud800', 'x'.repeat(1025)].map(s => import(s).catch(e => e.name)))",
			`{"r":["RangeError","RangeError","TypeError","SyntaxError","SyntaxError","TypeError","TypeError","TypeError","TypeError","TypeError","TypeError"]}`},
		{"export const r = [globalThis.thrown, await import('data.json', { with: { type: 'json' } }).then(d => d.default.x), await import('data.json', { with: { get type() { throw 1 } } }).catch(e => e.name)]", `{"r":[1,[1],"TypeError"]}`},
		{"import 'throws'", "thrown RangeError: on purpose"},
		{"import 'nothing'", `thrown TypeError: there is no module "nothing" (eval:1:8)`},
		{"\n import { nope } from 'a'", `syntax_error SyntaxError: eval: a has no export "nope", or two of that name`},
		{"import { x } from 'stars'", `syntax_error SyntaxError: eval: stars has no export "x", or two of that name`},
		{"export { nope } from 'a'", `syntax_error SyntaxError: eval: a has no export "nope", or two of that name`},
		{"import 'syntax'", "syntax_error SyntaxError: syntax: unexpected \"=\" (line 1, column 14)"},
		{"import x from 'bad.json' with { type: 'json' }", "syntax_error SyntaxError: bad.json is no JSON"},
		{"return 1", "syntax_error SyntaxError: eval: unexpected \"return\" (line 1, column 1)"},
		{"a b", "syntax_error SyntaxError: eval: unexpected \"b\" (line 1, column 3)"},
		{"await new Promise(() => {})", "never_settles Error: the promise has nothing left that could settle it"},
		{"export const f = { g() {} }", "unsupported TypeError: a function cannot cross"},
	} {
		if got := module(t, rt, c.code); got != c.want {
			t.Errorf("%s\n%s\n%s", c.code, got, c.want)
		}
	}
	seen := module(t, rt, "import { seen } from 'odd'; export { seen }")
	if !strings.Contains(seen, "ReferenceError") || strings.Contains(seen, "glovebox") || !strings.Contains(seen, "odd:2:") {
		t.Errorf("a name before its time: %s", seen)
	}
	if got := text(t, rt, "import('a').then(a => a.twice(21))"); got != "42" {
		t.Errorf("a script's import: %s", got)
	}
}

// The resolver is asked once for a specifier of a referrer, and what it says is
// what the guest gets.
//
// proves part of B-08
// proves B-07
func TestResolver(t *testing.T) {
	var asked atomic.Int64
	resolve := func(_ context.Context, specifier, referrer string) (string, string, error) {
		asked.Add(1)
		switch specifier {
		case "count":
			return "count", "export let n = 0; export const add = () => ++n", nil
		case "alias":
			return "count", "this is never looked at", nil
		case "who":
			return "who/" + referrer, "export default import.meta.url", nil
		case "open":
			return "", "", &js.GuestError{Message: "not for you"}
		case "secret":
			return "", "", errors.New("/etc/passwd")
		case "panic":
			panic("resolver")
		case "bad name":
			return "a\nb", "", nil
		case "bad text":
			return "bad", "\xff", nil
		case "large":
			return "large", strings.Repeat(" ", 17<<20), nil
		}
		return specifier, "export const me = " + fmt.Sprintf("%q", specifier), nil
	}
	rt := open(t, js.Options{Resolve: resolve, Modules: library})
	for _, c := range []struct{ code, want string }{
		{"import { n, add } from 'count'; import * as other from 'alias'; add(); export const r = [n, other.n]", `{"r":[1,1]}`},
		{"import { n } from 'count'; export { n }", `{"n":1}`},
		{"import a from 'who'; export { a }", `{"a":"who/eval"}`},
		{"export const r = await Promise.all(['open', 'secret', 'panic', 'bad name', 'bad text', 'large'].map(s => import(s).catch(e => [e.name, e.message.replace(/ \\(.*/, '')])))",
			`{"r":[["TypeError","not for you"],["TypeError","the host gives no such module"],["TypeError","the host gives no such module"],["TypeError","the host gives no such module"],["TypeError","the host gives no such module"],["TypeError","the host gives no such module"]]}`},
		{"import { me } from './x/../y.js'; export { me }", `{"me":"./x/../y.js"}`},
	} {
		if got := module(t, rt, c.code); got != c.want {
			t.Errorf("%s\n%s\n%s", c.code, got, c.want)
		}
	}
	before := asked.Load()
	if got := text(t, rt, "Promise.all([import('new'), import('new')]).then(([a, b]) => [a === b, a.me])"); got != `[true,"new"]` || asked.Load() != before+1 {
		t.Errorf("%s, asked %d times", got, asked.Load()-before)
	}
	_, usage, err := rt.Run(ctx, js.Script{Code: "import('newer')"})
	if usage.Calls != 1 {
		t.Errorf("%d calls, %v", usage.Calls, err)
	}
}
