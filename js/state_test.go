package js_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/js"
)

// rebuilt snapshots a runtime, rebuilds another one from it, and compares what
// both say. It returns the other one.
func rebuilt(t *testing.T, rt *js.Runtime, o js.Options) *js.Runtime {
	t.Helper()
	state, err := rt.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	data, err := state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var stored js.Value
	if err := stored.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	other := open(t, o)
	if err := other.Rebuild(ctx, stored); err != nil {
		t.Fatal(err)
	}
	again, err := other.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !js.Equal(state, again) {
		t.Errorf("%s became %s", state, again)
	}
	return other
}

// describer makes a text of a value that tells apart what must not be the same.
const describer = `(function say(v) {
	if (Array.isArray(v)) { let out = []; for (let i = 0; i < v.length; i++) out.push(i in v ? say(v[i]) : '-'); return '[' + out + ']' }
	if (v instanceof Map) return 'Map' + say([...v].flat())
	if (v instanceof Set) return 'Set' + say([...v])
	if (v instanceof Date) return 'Date' + v.getTime()
	if (ArrayBuffer.isView(v)) return v.constructor.name + say(Array.from(new Uint8Array(v.buffer)))
	if (v instanceof ArrayBuffer) return 'ArrayBuffer' + say(Array.from(new Uint8Array(v)))
	if (typeof v === 'object' && v !== null) return '{' + Object.keys(v).map(k => k + ':' + say(v[k])) + '}'
	if (typeof v === 'string') return JSON.stringify(v)
	if (Object.is(v, -0)) return '-0'
	return typeof v === 'bigint' ? v + 'n' : String(v)
})`

// A state is the same with every compiler of the engine.
func TestStateCompiled(t *testing.T) {
	var last js.Value
	for i, jit := range []js.JIT{"", js.Baseline, js.Full} {
		o := js.Options{JIT: jit, Allow: []string{"WebAssembly", "Atomics", "WeakRef"}}
		rt := open(t, o)
		if got := fed(rt, "let n = 0; for (let i = 0; i < 1e5; i++) n += [i].map(x => x % 7)[0]; const m = new Map([[n, [new Set('abc'), , -0]]]); n", js.Feed{Inputs: map[string]any{"a": 1}}); got != "299995" {
			t.Errorf("%s: %s", jit, got)
		}
		state, err := rt.Snapshot(ctx)
		if err != nil || i > 0 && !js.Equal(state, last) {
			t.Errorf("%s: %v, %v", jit, state, err)
		}
		last = state
		rebuilt(t, rt, o)
	}
}

// Every kind of plain data is in a state, comes back as it was, and in the same
// order; let, const, var and properties are again what they were.
func TestStateKeeps(t *testing.T) {
	rt := open(t, js.Options{})
	values := []string{"undefined", "null", "true", "-0", "NaN", "-Infinity", "1e308", "''", "'é漢😀\\ud800'", "2n ** 200n", "-1n", "[]", "[,]", "[1,,2,,]", "[[[]]]", "({})", "({ z: 1, a: { '': 2 }, 5: 3, ['__proto__']: 4, 'é-': [] })",
		"new Map()", "new Map([['b', 1], ['a', new Map([[NaN, {}]])], [{ k: 1 }, new Set([[]])]])", "new Set([3, 'x', -0])", "new Date(5)", "new Date(NaN)", "new ArrayBuffer(3)", "new Uint8Array([1, 2])", "new Float64Array([-0, NaN])",
		"new BigInt64Array([-1n])", "new DataView(new ArrayBuffer(2))", "new Float32Array(0)", "new Uint8ClampedArray([300])", "Array.from({ length: 3 }, (_, i) => ({ id: i, name: 'n' + i }))"}
	feedAll(t, rt, []feedCase{{src: "var all = [" + strings.Join(values, ", ") + "]; let l = 1; const c = [2]; var v = 'v'; globalThis['odd name'] = 7; globalThis[3] = 'index'; undefined", want: "undefined"},
		{src: "await 0; let m = 4; var w; const assignable = 1", want: "undefined"},
		{src: "let input = 'shadowed'; const é = 1, \\u{61}b = 2; if", want: "syntax_error SyntaxError"},
		{"let input = 'shadowed'; const é = 1, \\u{61}b = 2; 1", "1", map[string]any{"input": "below", "plain": map[string]any{"x": 1}}}})
	say := fed(rt, describer+"(all)", js.Feed{})
	other := rebuilt(t, rt, js.Options{})
	if got := fed(other, describer+"(all)", js.Feed{}); got != say || !strings.Contains(say, "-0") || !strings.Contains(say, "[1,-,2,-]") {
		t.Errorf("%s\nbecame %s", say, got)
	}
	feedAll(t, other, []feedCase{
		{src: "[l, c, v, globalThis['odd name'], globalThis[3], m, typeof w, input, globalThis.input, plain, é, ab]", want: `[1,[2],"v",7,"index",4,"undefined","shadowed","below",{"x":1},1,2]`},
		{src: "l = 2; m = 5; v = 6; c = 1", want: "thrown TypeError"},
		{src: "[l, m, v, c]", want: "[2,5,6,[2]]"},
		{src: "let l", want: "thrown SyntaxError"},
		{src: "let v", want: "thrown SyntaxError"},
		{src: "['v', 'w', 'plain', 'input', 'l'].map(k => Object.getOwnPropertyDescriptor(globalThis, k)?.configurable)", want: "[false,false,true,true,null]"},
		{"1", "bind_failed Error", map[string]any{"l": 1}},
		{"[plain, v]", "[1,2]", map[string]any{"plain": 1, "v": 2}},
		{src: "Object.keys(globalThis).filter(k => k.includes('$')).length", want: "0"},
	})
	rebuilt(t, other, js.Options{})
}

// The same globals are the same bytes, whichever way they came about; another
// order of keys is another state.
func TestStateCanonical(t *testing.T) {
	state := func(codes ...string) []byte {
		rt := open(t, js.Options{})
		for _, c := range codes {
			if got := fed(rt, c, js.Feed{}); got != "undefined" {
				t.Fatalf("%s: %s", c, got)
			}
		}
		v, err := rt.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		data, err := v.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	one := state("let a = { x: 1, y: 2 }; var b = 1; var c")
	for _, other := range [][]string{{"var c; var b = 0", "await 0; let a = { x: 0 }; a.x = 1; a.y = 2; b = 1; return"}, {"let a = JSON.parse('{\"x\":1,\"y\":2}'); var c, b = 1; { let c = 1; globalThis.gone = 1; delete globalThis.gone }; undefined"}} {
		if !bytes.Equal(state(other...), one) {
			t.Errorf("%q: not the same", other)
		}
	}
	for _, other := range []string{"let a = { y: 2, x: 1 }; var b = 1; var c", "const a = { x: 1, y: 2 }; var b = 1; var c", "let a = { x: 1, y: 2 }; globalThis.b = 1; var c; undefined", "let a = { x: 1, y: 2 }; var b = -0; var c", "let a = { x: 1, y: 2 }; var b = 1"} {
		if bytes.Equal(state(other), one) {
			t.Errorf("%q: the same", other)
		}
	}
}

// unplain are feeds that leave what is not plain data, and what the error names.
var unplain = []struct{ code, names string }{
	{"let f = () => 1", "f: a function"}, {"function g() {}", "g: a function"}, {"class A {}", "A: a function"}, {"let s = Symbol()", "s: a symbol"}, {"var o = { a: [1, { b: Symbol.iterator }] }", "o.a[1].b: a symbol"},
	{"let o = { get x() { return 1 } }", "o.x: an accessor"}, {"let o = { set x(v) {} }", "o.x: an accessor"}, {"let o = Object.defineProperty({}, 'x', { value: 1 })", "o.x: a property with other attributes"},
	{"let o = Object.freeze({})", "o: an object that is not extensible"}, {"let o = Object.freeze([1])", "o: an object that is not extensible"}, {"let o = Object.seal({ a: 1 })", "o: an object that is not extensible"},
	{"let o = Object.preventExtensions(new Map())", "o: an object that is not extensible"}, {"let o = Object.create({})", "o: an object of another class"}, {"let o = Object.create(null)", "o: an object without a prototype"},
	{"let o = { [Symbol()]: 1 }", "o[Symbol()]: a property named by a symbol"}, {"let o = new Proxy({}, { ownKeys() { throw 1 } })", "o: a Proxy"}, {"let o = Proxy.revocable({}, {}).proxy", "o: a Proxy"}, {"let o = [new Proxy([], {})]", "o[0]: a Proxy"},
	{"let o = {}; o.o = o", "o.o: an object that is held twice"}, {"let o = {}; var p = [o]", "p[0]: an object that is held twice"}, {"let o = [[], []]; o[1][0] = o[0]", "o[1][0]: an object that is held twice"}, {"let o = new Map(); o.set(o, 1)", "o.keys[0]: an object that is held twice"},
	{"let o = new Map([[1, 2], [3, () => 1]])", "o.values[1]: a function"}, {"let o = new Set([1, Symbol()])", "o.values[1]: a symbol"}, {"let o = Object.assign([], { x: 1 })", "o.x: a property of an array that is no element"}, {"let o = Object.defineProperty([], 'length', { writable: false })", "o: an array whose length is fixed"},
	{"let o = Object.defineProperty([1], 0, { value: 1, enumerable: false })", "o[0]: a property with other attributes"}, {"let o = Object.assign(new Date(1), { x: 1 })", "o.x: a property of what has none"}, {"let o = Object.assign(new Map(), { x: 1 })", "o.x: a property of what has none"},
	{"let o = Object.setPrototypeOf([], null)", "o: an array with another prototype"}, {"let o = new (class X extends Array {})()", "o: an array with another prototype"}, {"let o = new (class X extends Map {})()", "o: an object of another class"}, {"let o = Promise.resolve(1)", "o: an object of another class"},
	{"let o = /x/", "o: an object of another class"}, {"let o = new Error('x')", "o: an Error"}, {"let o = new TypeError('x')", "o: an Error"}, {"let o = new WeakMap()", "o: an object of another class"}, {"let o = Object(1)", "o: an object of another class"}, {"let o = (function* () {})()", "o: an object of another class"},
	{"let o = [].values()", "o: an object of another class"}, {"let o = new Intl.NumberFormat()", "o: an object of another class"}, {"let o = (function () { return arguments })()", "o"}, {"let o = Math", "o: a part of the guest's world"}, {"let o = globalThis", "o: a part of the guest's world"}, {"let o = [Array.prototype]", "o[0]: a part of the guest's world"},
	{"let o = Object.setPrototypeOf(new Date(1), Object.prototype)", "o: an object whose prototype was changed"}, {"let o = Object.setPrototypeOf(new Map([[1, 2]]), Object.prototype)", "o: an object whose prototype was changed"}, {"let o = Object.setPrototypeOf({}, Map.prototype)", "o: an object whose prototype was changed"},
	{"let o = Object.setPrototypeOf(/x/, Object.prototype)", "o: an object whose prototype was changed"}, {"let o = Object.setPrototypeOf(new Error(), Object.prototype)", "o: an object whose prototype was changed"}, {"let o = Object.setPrototypeOf(Object(1n), Object.prototype)", "o: an object whose prototype was changed"}, {"let o = Object.setPrototypeOf(new Set(), Object.prototype)", "o: an object whose prototype was changed"},
	{"let o = new Uint8Array(new ArrayBuffer(4), 1)", "o: a view of a part of a buffer"}, {"let b = new ArrayBuffer(4), o = new Uint8Array(b)", "o.buffer: a buffer that is held twice"}, {"let o = new Uint8Array(4), p = new Int8Array(o.buffer)", "p.buffer: a buffer that is held twice"}, {"let o = new Uint8Array(new ArrayBuffer(4, { maxByteLength: 8 }))", "o.buffer: a buffer that can be resized"},
	{"let o = Object.assign(new Uint8Array(1), { x: 1 })", "o.x: a property of an array that is no element"}, {"let o = new Uint8Array(4); o.buffer.transfer()", "o"}, {"let o = new ArrayBuffer(4); o.transfer()", "o: a detached buffer"}, {"let o = Object.assign(new Uint8Array(1)); o.buffer.x = 1", "o.buffer.x: a property of what has none"},
	{"globalThis[Symbol.for('x')] = 1", "Symbol(Symbol.for('x'))"}, {"Object.defineProperty(globalThis, 'acc', { get() { return 1 } })", "acc: an accessor"}, {"Object.defineProperty(globalThis, 'fixed', { value: 1 })", "fixed: a property with other attributes"},
	{"setTimeout(() => {}, 1e9)", "a timer is left"}, {"setInterval(() => {}, 1e9)", "a timer is left"}, {"let o = (() => { throw new Error('x') })()", "o: declared, but without a value"}, {"await import('m')", "modules were loaded"},
}

// Whatever is not plain data is refused, and the error says where it is. The
// runtime is as it was: nothing of the guest has run.
//
// proves part of H-62
func TestStateRefuses(t *testing.T) {
	o := js.Options{Modules: map[string]string{"m": ""}}
	for _, c := range unplain {
		rt := open(t, o)
		fed(rt, "var ran = 0; globalThis.kept = 'x'", js.Feed{})
		fed(rt, c.code, js.Feed{})
		names := strings.ReplaceAll(c.names, "Symbol(Symbol.for('x'))", "Symbol(x)")
		_, err := rt.Snapshot(ctx)
		var e *js.Error
		if !errors.As(err, &e) || e.Kind != js.Unsupported || !strings.HasPrefix(e.Message, names) {
			t.Errorf("%s: %v, not %q", c.code, err, names)
		}
		if got := fed(rt, "[ran, kept]", js.Feed{}); got != `[0,"x"]` {
			t.Errorf("%s: %s", c.code, got)
		}
		_ = rt.Close()
	}
	rt := open(t, o)
	fed(rt, "setTimeout(() => {}, 1); clearTimeout(setTimeout(() => {}, 5)); await new Promise(f => setTimeout(f, 10)); let f = () => 1; f = 2; var g = { get x() { return 1 } }; delete g.x; /a(b)/.exec('ab'); Math.random()", js.Feed{})
	if _, err := rt.Snapshot(ctx); err != nil { // control: nothing of it is left
		t.Error(err)
	}
}

// A built-in that was changed, wherever it is, is seen and named.
//
// proves part of H-62
func TestStateSeesTheWorld(t *testing.T) {
	for code, names := range map[string]string{
		"Array.prototype.map = Array.prototype.filter": "Array.prototype.map", "Array.prototype.extra = 1": "Array.prototype.extra", "delete Array.prototype.at": "Array.prototype.at", "Object.freeze(Object.prototype)": "Object",
		"Math.random = () => 4": "Math.random", "Math.PI2 = 1": "Math.PI2", "JSON.parse = 1": "JSON.parse", "globalThis.parseInt = parseFloat": "parseInt", "delete globalThis.isNaN": "isNaN", "globalThis.undefinedd = Array; Object.defineProperty(globalThis, 'JSON', { enumerable: true })": "JSON",
		"Object.setPrototypeOf(Map.prototype, null)": "Map.prototype.__proto__", "Promise.prototype.then = function () {}": "Promise.prototype.then", "Object.defineProperty(Map.prototype, 'size', { get() { return 1 } })": "Map.prototype.size",
		"console.log = () => {}": "console.log", "console.extra = 1": "console.extra", "setTimeout.x = 1": "setTimeout.x", "[].map.x = 1": "Array.prototype.map.x", "Object.getPrototypeOf([].values()).next = 1": "an object of the language", "Object.getPrototypeOf(function* () {}).x = 1": "an object of the language",
		"Object.getPrototypeOf(async () => {}).constructor.x = 1": "an object of the language", "Symbol.prototype[Symbol.toPrimitive] === 1 || (Date.prototype[Symbol('x')] = 1)": "Date.prototype.Symbol(x)", "Object.defineProperty(Intl.DateTimeFormat.prototype, 'format', { value: 1 })": "Intl.DateTimeFormat.prototype.format",
		"Object.preventExtensions(Reflect)": "Reflect", "Error.stackTraceLimit = 1": "Error.stackTraceLimit", "Object.defineProperty(Array, 'name', { value: 'A' })": "Array.name", "Object.defineProperty([].at, 'length', { value: 'x' })": "Array.prototype.at", "delete [].at.name": "Array.prototype.at", "Object.setPrototypeOf([].at, null)": "Array.prototype.at", "Object.freeze(Map)": "Map", "String.prototype.at = String.prototype.at.bind('x')": "String.prototype.at",
		"Object.prototype.toJSON = 1": "Object.prototype.toJSON", "Function.prototype.call = 1": "Function.prototype.call", "RegExp.prototype.exec = () => null": "RegExp.prototype.exec", "Object.setPrototypeOf(Reflect, null)": "Reflect.__proto__", "tools.x = 1": "tools", "tools.f.x = 1": "tools", "Object.setPrototypeOf(tools, null)": "tools",
		"alone.x = 1": "alone", "Object.freeze(tools.f)": "tools",
	} {
		rt := open(t, js.Options{})
		for _, name := range []string{"tools.f", "tools.deep.g", "alone"} {
			if err := rt.Bind(ctx, name, func() int { return 1 }); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := rt.Snapshot(ctx); err != nil {
			t.Errorf("before %s: %v", code, err)
		}
		if got := fed(rt, code+"; 0", js.Feed{}); got != "0" {
			t.Errorf("%s: %s", code, got)
		}
		_, err := rt.Snapshot(ctx)
		if js.KindOf(err) != js.Unsupported || !strings.HasPrefix(err.Error(), "js: TypeError: "+names) {
			t.Errorf("%s: %v, not %q", code, err, names)
		}
		_ = rt.Close()
	}
}

// What a guest puts in the way of whoever reads its globals does not run.
//
// proves part of H-62
func TestStateRunsNothing(t *testing.T) {
	rt := open(t, js.Options{})
	feedAll(t, rt, []feedCase{{src: `var ran = [], spy = (k) => () => { ran.push(k); throw 1 }
		globalThis.o = { a: [1], toJSON: 1, then: 2, constructor: 3, valueOf: 4, length: 5 }
		for (const k of ['get', 'set', 'value', 'writable', 'enumerable', 'configurable', '0', '1', 'kind', 'length', Symbol.toStringTag, Symbol.iterator, Symbol.species, Symbol.isConcatSpreadable])
			Object.defineProperty(Object.prototype, k, { __proto__: null, get: spy(k), set: spy(k), configurable: true })
		Array.prototype.sort = Array.prototype.push = spy('array'); Map.prototype.forEach = spy('map'); Reflect.ownKeys = spy('reflect'); 1`, want: "1"}})
	if _, err := rt.Snapshot(ctx); js.KindOf(err) != js.Unsupported {
		t.Errorf("%v", err)
	}
	feedAll(t, rt, []feedCase{{src: `spy = 0; for (const k of ['get', 'set', 'value', 'writable', 'enumerable', 'configurable', '0', '1', 'kind', 'length', Symbol.toStringTag, Symbol.iterator, Symbol.species, Symbol.isConcatSpreadable]) delete Object.prototype[k]; ran.length`, want: "0"}})
}

// What is running, what a script has declared that nobody read, what does not fit
// and what is no state is refused.
func TestStateElsewhere(t *testing.T) {
	rt := open(t, js.Options{})
	if err := rt.BindPaused(ctx, "tool"); err != nil {
		t.Fatal(err)
	}
	step, err := rt.Start(ctx, js.Script{Code: "let r = await tool(1); tool(2); r", Feed: &js.Feed{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Snapshot(ctx); js.KindOf(err) != js.Busy {
		t.Errorf("%v", err)
	}
	if step, err = rt.Resume(ctx, js.Reply{ID: step.Calls[0].ID, Value: 5}); err != nil || !step.Done {
		t.Fatalf("%+v, %v", step, err)
	}
	if _, err := rt.Snapshot(ctx); js.KindOf(err) != js.Unsupported || !strings.Contains(err.Error(), "no answer yet") { // of tool(2), which nobody awaits
		t.Errorf("%v", err)
	}
	if got := fed(rt, "r", js.Feed{}); got != "5" {
		t.Error(got)
	}
	state, err := rt.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var field *api.FieldError
	if err := rt.Rebuild(ctx, state); !errors.As(err, &field) {
		t.Errorf("%v", err)
	}
	fresh := open(t, js.Options{})
	for _, v := range []any{nil, 1, "x", []any{1}, []any{[]any{"let", "a"}}, []any{[]any{"let", 1, 1}}, []any{[]any{"function", "a", 1}}, []any{[]any{"let", "a", 1}, []any{"const", "a", 1}}, []any{[]any{"var", "a", 1}, []any{"let", "a", 1}},
		[]any{[]any{"own", "a", 1}, []any{"var", "a", 1}}, []any{[]any{"let", "a", []any{&js.ErrorValue{}}}}, []any{[]any{"let", "a", 1, 2}}} {
		value, err := js.ValueOf(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := fresh.Rebuild(ctx, value); !errors.As(err, &field) || field.Field != "state" {
			t.Errorf("%v: %v", v, err)
		}
	}
	if err := fresh.Rebuild(ctx, state); err != nil { // control: it is still fresh
		t.Error(err)
	}
	for _, v := range []any{[]any{[]any{"let", "a=1,b", 1}}, []any{[]any{"let", "a//", 1}}, []any{[]any{"const", "if", 1}}, []any{[]any{"var", "", 1}}, []any{[]any{"let", "undefined", 1}}, []any{[]any{"let", "let", 1}}} {
		value, _ := js.ValueOf(v)
		rt := open(t, js.Options{})
		if err := rt.Rebuild(ctx, value); js.KindOf(err) != js.Unsupported && js.KindOf(err) != js.Thrown && js.KindOf(err) != js.SyntaxError {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// A script that is no feed, whose declarations nobody has read, and more than a
// result may be.
func TestStateTooMuch(t *testing.T) {
	rt := open(t, js.Options{})
	if _, err := rt.Snapshot(ctx); err != nil {
		t.Error(err)
	}
	if _, err := rt.Eval(ctx, "let x = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Snapshot(ctx); js.KindOf(err) != js.Unsupported || !strings.Contains(err.Error(), "no feed") {
		t.Errorf("%v", err)
	}
	small := open(t, js.Options{Limits: js.Limits{ResultBytes: 1000}})
	fed(small, "let s = 'x'.repeat(2000)", js.Feed{})
	if _, err := small.Snapshot(ctx); js.KindOf(err) != js.ResultLimit {
		t.Errorf("%v", err)
	}
	fed(small, "s = 'x'.repeat(200)", js.Feed{})
	if _, err := small.Snapshot(ctx); err != nil {
		t.Error(err)
	}
}

// With a gate nothing of a state is asked for, since nothing of it is source.
func TestStateGated(t *testing.T) {
	o := js.Options{Gate: func(_ context.Context, source []byte, _ gate.Info) gate.Verdict {
		return gate.Verdict{Allow: strings.HasPrefix(string(source), "/*ok*/")}
	}}
	rt := open(t, o)
	if got := fed(rt, "/*ok*/ let a = { x: 'denied()' }", js.Feed{Inputs: map[string]any{"b": 1}}); got != "undefined" {
		t.Error(got)
	}
	other := rebuilt(t, rt, o)
	if got := fed(other, "/*ok*/ [a, b]", js.Feed{}); got != `[{"x":"denied()"},1]` {
		t.Error(got)
	}
	if _, _, err := other.Run(ctx, js.Script{Code: "a", Feed: &js.Feed{}}); !errors.As(err, new(*gate.Denied)) {
		t.Errorf("%v", err)
	}
	value, _ := js.ValueOf([]any{[]any{"let", "a=(globalThis.evil=1),b", 1}})
	if err := open(t, o).Rebuild(ctx, value); js.KindOf(err) != js.Unsupported {
		t.Errorf("%v", err)
	}
}
