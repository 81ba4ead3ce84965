package js_test

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// printed is what the console writes for the arguments of one call.
func printed(t *testing.T, rt *js.Runtime, code string) string {
	t.Helper()
	e, err := rt.Execute(ctx, js.Script{Code: code})
	if err != nil || e.Status != js.StatusOK {
		t.Errorf("%s: %+v, %v", code, e, err)
	}
	return strings.TrimSuffix(e.Stdout, "\n")
}

// The console shows values as other engines do.
func TestInspect(t *testing.T) {
	rt := open(t, js.Options{})
	for code, want := range map[string]string{
		"new Map([['a', 1], [{ k: 2 }, new Map()]])": "Map(2) { 'a' => 1, { k: 2 } => Map(0) {} }", "new Set([1, 'x', new Set([[]])])": "Set(3) { 1, 'x', Set(1) { [] } }", "new Map(), new Set()": "Map(0) {} Set(0) {}",
		"new Date(0), { at: new Date(1.7e12) }, new Date(NaN)": "1970-01-01T00:00:00.000Z { at: 2023-11-14T22:13:20.000Z } Invalid Date", "[1,,2], [,], [,,'x',,,], [undefined]": "[ 1, <1 empty item>, 2 ] [ <1 empty item> ] [ <2 empty items>, 'x', <2 empty items> ] [ undefined ]",
		"Object.assign([1], { name: 2 }), Object.assign([,1], { '01': 3 })": "[ 1, name: 2 ] [ <1 empty item>, 1, 01: 3 ]", "[], {}, [[]], { a: {} }": "[] {} [ [] ] { a: {} }", "new Array(5), new Array(4294967295)": "[ <5 empty items> ] [ <4294967295 empty items> ]",
		"[[[[]]]], { a: { b: { c: { d: 1 } } } }, [[[new Map([[1, 2]]), new Set(), new Date(0)]]]": "[ [ [ [Array] ] ] ] { a: { b: { c: [Object] } } } [ [ [ [Map], [Set], 1970-01-01T00:00:00.000Z ] ] ]", "Object.assign(new Map([[1, 2]]), { extra: 3 })": "Map(1) { 1 => 2, extra: 3 }",
		"new (class M extends Map {})([[1, 2]])": "Map(1) { 1 => 2 }", "Object.create(Map.prototype), Object.create(Date.prototype), Object.setPrototypeOf(new Map([[1, 2]]), null)": "{} {} {}", "new Map([[new Proxy({}, {}), new Error('e')]])": "Map(1) { [Proxy] => Error: e }",
		"(() => { const m = new Map(); m.set(m, m); return m })()": "Map(1) { Map(1) { Map(1) { [Map] => [Map] } => Map(1) { [Map] => [Map] } } => Map(1) { Map(1) { [Map] => [Map] } => Map(1) { [Map] => [Map] } } }",
	} {
		if got := printed(t, rt, "console.log("+code+")"); got != want {
			t.Errorf("%s: %q, not %q", code, got, want)
		}
	}
	for _, code := range []string{"new Map(Array.from({ length: 1e5 }, (_, i) => [i, i]))", "new Set(Array.from({ length: 1e5 }, (_, i) => i))", "Array.from({ length: 1e5 }, (_, i) => i % 2)", "Object.assign([], { 4294967294: 1, 7: 'x'.repeat(1e5) })"} {
		if got := printed(t, rt, "console.log("+code+")"); len(got) > 20_000 || !strings.Contains(got, "…") {
			t.Errorf("%s: %d bytes", code, len(got))
		}
	}
}

// Nothing of the guest runs while the console looks at a value.
//
// proves part of G-17
func TestInspectRunsNothing(t *testing.T) {
	rt := open(t, js.Options{})
	code := `var ran = []
		const spy = (k) => function () { ran.push(k); throw 1 }
		for (const C of [Map, Set]) for (const k of ['entries', 'values', 'keys', 'forEach', Symbol.iterator, 'get', 'has']) C.prototype[k] = spy(k)
		for (const C of [Map, Set]) Object.defineProperty(C.prototype, 'size', { get: spy('size') })
		for (const o of [new Map().__proto__.__proto__, Object.getPrototypeOf(Reflect.apply(entries, new Map(), [])), Object.getPrototypeOf(Reflect.apply(values, new Set(), []))]) for (const k of ['next', 'done', 'value', '0', '1']) Object.defineProperty(o, k, { __proto__: null, get: spy(k), set: spy(k), configurable: true })
		for (const k of ['toISOString', 'getTime', 'valueOf', 'toString', 'toJSON', Symbol.toPrimitive]) Date.prototype[k] = spy(k)
		Object.defineProperty(Array.prototype, '1', { __proto__: null, get: spy('1'), configurable: true })
		console.log(new Map([[1, { a: 2 }]]), new Set([3]), new Date(0), [0, , 2])
		ran.length`
	e, err := rt.Execute(ctx, js.Script{Code: "const { entries } = Map.prototype, { values } = Set.prototype\n" + code})
	if err != nil || string(e.Result) != "0" || e.Stdout != "Map(1) { 1 => { a: 2 } } Set(1) { 3 } 1970-01-01T00:00:00.000Z [ 0, <1 empty item>, 2 ]\n" {
		t.Errorf("%+v, %v", e, err)
	}
}

// What is no program says where, in scripts, feeds and modules.
func TestSyntaxErrorsHavePlaces(t *testing.T) {
	rt := open(t, js.Options{})
	for code, line := range map[string]string{"let a = 1;\nlet b = ;": "line 2", "\n\nif (": "line 3", "'abc": "line 1", "1\n2\n  )": "line 3", "/(/": "line 1", "let x;\n\nlet x": "line 3", "\n\n08n": "line 3", "var a;\nbreak": "line 2"} {
		for _, f := range []*js.Feed{nil, {}} {
			_, _, err := rt.Run(ctx, js.Script{Code: code, Feed: f})
			if js.KindOf(err) != js.SyntaxError || !strings.Contains(err.Error(), "("+line) {
				t.Errorf("%q: %v, not %s", code, err, line)
			}
		}
	}
	if _, _, err := rt.Run(ctx, js.Script{Code: "\nawait 1;\n\n08n", Feed: &js.Feed{}}); js.KindOf(err) != js.SyntaxError || !strings.Contains(err.Error(), "(line 4") {
		t.Errorf("%v", err)
	}
	if _, err := rt.Eval(ctx, "throw Object.assign(new SyntaxError('mine'), { line: 7 })"); err == nil || strings.Contains(err.Error(), "line") {
		t.Errorf("%v", err)
	}
}
