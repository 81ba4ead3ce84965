package js_test

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// poisons spoil everything that a guest reaches from its global object. poison(o,
// k, d) is done to each property that can be changed.
var poisons = map[string]string{
	"getters that throw":      "define(o, k, { __proto__: null, get: evil, set: evil, configurable: true })",
	"functions that throw":    "define(o, k, d.configurable ? { __proto__: null, value: evil, writable: true, configurable: true } : { __proto__: null, value: evil })",
	"undefined":               "define(o, k, { __proto__: null, value: undefined })",
	"nothing":                 "remove(o, k)",
	"numbers":                 "define(o, k, { __proto__: null, value: 7 })",
	"objects that are frozen": "define(o, k, { __proto__: null, value: freeze({ __proto__: null }) })",
	"Proxies that throw":      "define(o, k, { __proto__: null, value: new Stand(evil, { __proto__: null, apply: evil, get: evil, construct: evil, getPrototypeOf: evil }) })",
}

// poisoning keeps the host's functions and what the test itself needs.
const poisoning = `(() => {
	const getKeys = Reflect.ownKeys, describe = Reflect.getOwnPropertyDescriptor, above = Reflect.getPrototypeOf, define = Reflect.defineProperty, remove = Reflect.deleteProperty, freeze = Object.freeze, Stand = Proxy
	const kept = { __proto__: null, echo: 1, later: 1, touched: 1, console: 1, setTimeout: 1 }, global = globalThis, seen = new Set(), all = []
	globalThis.touched = 0
	const evil = function () { touched++; throw "evil" }
	const walk = (o) => { if ((typeof o !== "object" && typeof o !== "function") || o === null || seen.has(o)) return; seen.add(o); all.push(o)
		walk(above(o)); for (const k of getKeys(o)) { const d = describe(o, k); walk(d.value); walk(d.get); walk(d.set) } }
	const spared = new Set([globalThis.console])
	walk(globalThis)
	const jobs = []
	for (const o of all) for (const k of getKeys(o)) { const d = describe(o, k); if ((d.configurable || d.writable && k !== "length") && !(o === global && kept[k]) && !spared.has(o)) jobs.push({ __proto__: null, o, k, d }) }
	const n = jobs.length
	for (let i = 0; i < n; i++) { const j = jobs[i], o = j.o, k = j.k, d = j.d; POISON }
	touched = 0
	return n
})()`

// Whatever all built-ins at once have become, values cross both ways, functions of the
// host are called and answer, timers and the console work, and not one of the guest's
// functions runs.
//
// proves G-01
func TestPoisonedWorlds(t *testing.T) {
	for name, poison := range poisons {
		var lines []string
		rt := open(t, js.Options{Allow: []string{"WebAssembly", "Atomics", "WeakRef"}, Console: func(l js.Level, s string) { lines = append(lines, string(l)+" "+s) }})
		if err := rt.Bind(ctx, "echo", func(v js.Value) any { return v }); err != nil {
			t.Fatal(err)
		}
		if err := rt.BindAsync(ctx, "later", func(v js.Value) any { return v }); err != nil {
			t.Fatal(err)
		}
		v, err := rt.Eval(ctx, strings.ReplaceAll(poisoning, "POISON", poison))
		if err != nil || len(v.String()) < 4 {
			t.Errorf("%s: %s, %v", name, v, err)
			continue
		}
		for _, c := range [][2]string{
			{`({ a: [1, "x", null, { b: true }], c: 5n })`, `{a: [1, "x", null, {b: true}], c: 5n}`},
			{`echo({ k: [1, 2, { z: "y" }], __proto__: null })`, `{k: [1, 2, {z: "y"}]}`},
			{`later([1, { a: 2 }])`, `[1, {a: 2}]`},
			{`let caught; try { echo(() => 1) } catch (e) { caught = typeof e }; caught`, `object`},
			{`console.log({ a: 1 }, [1], 5n, "x"); "logged"`, `logged`},
			{`setTimeout(() => { touched += 10 }, 5); later(1)`, `1`},
			{`touched === 0 || touched === 10`, `true`},
		} {
			v, err := rt.Eval(ctx, c[0])
			if err != nil || v.String() != c[1] {
				t.Errorf("%s: %s: %s, %v, not %s", name, c[0], v, err, c[1])
			}
		}
		if len(lines) != 1 || lines[0] != "log { a: 1 } [ 1 ] 5 x" {
			t.Errorf("%s: console %q", name, lines)
		}
		if got := kind(t, rt, "throw { a: 1 }"); got != js.Thrown {
			t.Errorf("%s: %s", name, got)
		}
		if _, err := rt.Eval(ctx, "null.x"); js.KindOf(err) != js.Thrown {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Setters on Object.prototype for every name that a bridge could use, and Proxies
// as the prototypes of the world, are never asked.
//
// proves part of G-01 G-13
func TestSettersAndProxiesAbove(t *testing.T) {
	rt := open(t, js.Options{})
	if err := rt.Bind(ctx, "echo", func(v js.Value) any { return v }); err != nil {
		t.Fatal(err)
	}
	if err := rt.BindAsync(ctx, "later", func(v js.Value) any { return v }); err != nil {
		t.Fatal(err)
	}
	if got := text(t, rt, `globalThis.log = ""; globalThis.map = Uint8Array.prototype.map
		const names = ["value", "get", "set", "writable", "enumerable", "configurable", "then", "toJSON", "index", "isAsync", "resolve", "reject", "message", "stack", "name", "line", "column", "sourceURL",
			"constructor2", "maxByteLength", "done", "next", "length2", "proxy", "revoke", "run", "id", "at", "every", "off", "promise", "reason", "a", "k"]
		for (let i = 0; i < 1000; i++) names.push(String(i), "key" + i)
		for (const p of [Object.prototype, Array.prototype, Function.prototype, Promise.prototype, Error.prototype])
			for (const k of names) if (!Object.getOwnPropertyDescriptor(p, k)) Object.defineProperty(p, k, { __proto__: null, get() { log += "get " + k + ";" }, set() { log += "set " + k + ";" }, configurable: true })
		log = ""; 1`); got != "1" {
		t.Fatal(got)
	}
	check := func(name string) {
		t.Helper()
		for code, want := range map[string]string{
			`({ a: [1, , 3], k: { key7: 1 } })`: `{"a":[1,null,3],"k":{"key7":1}}`, `echo([{ a: 1, 7: "x" }])`: `[{"7":"x","a":1}]`, `later("m")`: `"m"`, `later(1).then(() => { throw 1 }).catch(e => e)`: "1",
			`console.log([1, { a: 2 }]); setTimeout(() => 1, 1); 2`: "2", `Reflect.apply(map, new Uint8Array([1, 2]), [x => x * 2])[1]`: "4", `try { echo(Symbol()) } catch (e) { e.message }`: `"a symbol cannot cross"`,
		} {
			if got := text(t, rt, code); got != want {
				t.Errorf("%s: %s: %s, not %s", name, code, got, want)
			}
			if got := text(t, rt, "(() => { const l = log; log = ''; return l })()"); got != `""` {
				t.Errorf("%s: %s: ran %s", name, code, got)
			}
		}
	}
	check("setters")
	text(t, rt, `(() => {
		const spy = (o, n) => new Proxy(o, new Proxy({}, { get(t, trap) { log += n + " " + trap + ";" } }))
		for (const C of [Function, Promise, Error, Map, Set, Date, Array, RegExp, Uint8Array]) Object.setPrototypeOf(C.prototype, spy(Object.create(Object.getPrototypeOf(C.prototype)), C.name))
		log = ""
	})(); 1`)
	check("proxies")
}

// At the end of the stack every way into the bridge is an error of the guest's or
// works; none ends the worker or leaves it in disorder.
//
// proves part of G-01
func TestNoStackLeft(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 120_000, BufferBytes: 8 << 20}})
	if err := rt.Bind(ctx, "echo", func(v js.Value) any { return v }); err != nil {
		t.Fatal(err)
	}
	if err := rt.BindAsync(ctx, "later", func(v js.Value) any { return v }); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Eval(ctx, `globalThis.atEnd = (f) => { let bad = null, n = 0
		for (let pad = 0; pad < 40; pad++) { const more = Array(pad).fill(0)
			;(function rec() { try { rec() } catch (e) {} if (n++ < 4000) try { f(...more) } catch (e) { if (!(e instanceof Error)) bad = String(e) } })() }
		return bad }; 0`); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{
		"() => echo({ a: [1, { b: 2 }] })", "() => { later(1).catch(() => 0) }", "() => console.log({ a: 1 })", "() => clearTimeout(setTimeout(() => 1, 1))", "() => new Proxy({}, {})", "() => new Uint8Array(100)", "() => new Uint8Array([1, 2, 3]).map(x => x).slice(1).buffer.slice(0)",
		"() => new Uint8Array({ [Symbol.iterator]: function* () { yield 1 } })", "() => new ArrayBuffer(70000).transfer(3)", "() => new Uint8Array(3).with(0, 1).toSorted()", "() => String(Uint8Array)", "() => new Date()", "() => Math.random()", "() => Promise.reject(1)",
	} {
		if got := text(t, rt, "atEnd("+f+")"); got != "null" {
			t.Errorf("%s: %s", f, got)
		}
		if got := text(t, rt, "echo([1, { a: 2 }])"); got != `[1,{"a":2}]` {
			t.Fatalf("%s, afterwards: %s", f, got)
		}
	}
	if got := text(t, rt, "(() => { try { for (const k = []; ; ) k.push(new Uint8Array(1 << 20)) } catch (e) { return e.name } })()"); got != `"RangeError"` {
		t.Errorf("the budget afterwards: %s", got)
	}
	if got := text(t, rt, "new Uint8Array(7 << 20).length"); got != "7340032" {
		t.Errorf("the budget afterwards: %s", got)
	}
}

// Recursion without an end, in every part that could do it, is an error that is
// caught.
func TestRecursion(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 120_000}})
	if err := rt.Bind(ctx, "echo", func(v js.Value) any { return v }); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]string{
		"eval('('.repeat(1e6))": "RangeError", "new Function('['.repeat(1e6))": "RangeError", "eval('a=>'.repeat(1e5) + '1')": "RangeError", "eval('{'.repeat(1e5))": "RangeError", "eval('!'.repeat(1e5) + '1')": "RangeError",
		"new RegExp('('.repeat(1e5) + ')'.repeat(1e5))": "RangeError", "new RegExp('(?:a|'.repeat(1e4) + ')'.repeat(1e4)).test('b')": "true", "/(?:(a)|b)*/.exec('ab'.repeat(1e6))": "null", "/^(?:a|ab)(?:c|bcd)(?:d*)*$/.test('a'.repeat(1e6))": "false",
		"JSON.parse('['.repeat(1e6))": "SyntaxError", "JSON.parse('['.repeat(1e5) + ']'.repeat(1e5)) && 1": "1", "JSON.stringify((() => { let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return a })())": "RangeError", "JSON.stringify({ toJSON() { return { toJSON: this.toJSON, a: this } } })": "RangeError",
		"JSON.parse('[1]', function r() { return JSON.parse('[1]', r) })": "RangeError", "echo((() => { let a = []; for (let i = 0; i < 1e6; i++) a = [a]; return a })())": "RangeError", "String(new Proxy({}, { get(t, k, r) { return r[k] } }))": "RangeError", "Object.create(null, { a: { get() { return this.a } } }).a": "RangeError",
		"new (class A { constructor() { new A } })": "RangeError", "new Uint8Array({ get length() { return new Uint8Array(this).length } })": "RangeError", "(function f() { return [1].map(f) })()": "RangeError", "(function f() { return new Uint8Array(1).map(f) })()": "RangeError", "(function* g() { yield* g() })().next()": "RangeError",
		"let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x": "RangeError", "let o = {}; for (let i = 0; i < 1e5; i++) o = Object.create(o); String(o.x)": "undefined", "let s = ''; for (let i = 0; i < 1e6; i++) s = s + i + ''; s.length": "5888890",
		"let b = () => 1; for (let i = 0; i < 1e5; i++) b = b.bind(); b()": "RangeError", "const a = []; a[0] = a; String(a)": "", "const x = { toString() { return `${x}` } }; String(x)": "RangeError", "[1, 2].sort(function s() { return [1, 2].sort(s)[0] })": "RangeError",
	} {
		got := text(t, rt, "(() => { try { return String(eval("+quoted(code)+")) } catch (e) { return e.name } })()")
		if got != quoted(want) {
			t.Errorf("%s: %s, not %s", code, got, want)
		}
	}
	if got := text(t, rt, "'alive'"); got != `"alive"` {
		t.Error(got)
	}
}

// A million console lines are a value in the end, and no more than their limit.
//
// proves part of B-13
// proves G-16
func TestMillionLinesAsRoot(t *testing.T) {
	lines := 0
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 120_000, HardMS: 180_000}, Console: func(js.Level, string) { lines++ }})
	if got := text(t, rt, "for (let i = 0; i < 1_000_000; i++) console.log(i); 'over'"); got != `"over"` {
		t.Error(got)
	}
	if lines < 100_000 || lines > 600_000 {
		t.Errorf("%d lines for 1 MiB", lines)
	}
}
