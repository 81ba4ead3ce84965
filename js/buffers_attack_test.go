package js_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// tricks hold on to 1 MiB each by a handle that was not charged itself, or try
// to have memory made by a built-in that is not charged. Each is an expression.
var tricks = []string{
	"new Uint8Array(1 << 20).buffer", "new Uint8Array(1 << 20).subarray(1)", "new DataView(new Uint8Array(1 << 20).buffer)", "new Uint16Array(new Uint8Array(1 << 20).buffer, 2, 3)",
	"new Uint8Array(1 << 20).buffer.transfer()", "new Uint8Array(new ArrayBuffer(1 << 20).transfer()).subarray(1).subarray(1)", "new ArrayBuffer(1 << 20).transfer().transfer().transferToFixedLength()", "new ArrayBuffer(1 << 10, { maxByteLength: 1 << 20 }).transfer()",
	"new Uint8Array(1 << 20).subarray(1).buffer.transfer()", "((u, b) => (b = u.buffer, u = null, b.transfer()))(new Uint8Array(1 << 20))",
	"((b) => (new Uint8Array(b).buffer, b.transfer()))(new ArrayBuffer(1 << 20))", "((b) => (new Uint8Array(b).buffer, new DataView(b.transfer().transfer())))(new ArrayBuffer(1 << 20))", "new Uint8Array(new Uint8Array(new ArrayBuffer(1 << 20)).subarray(1).buffer.transfer()).subarray(2)",
	"((b) => (new Uint8Array(b).buffer, b = b.transfer(), new Uint8Array(b).subarray(1).buffer.transfer()))(new ArrayBuffer(1 << 20))", "((m) => new DataView(m.buffer))(new WebAssembly.Memory({ initial: 16 }))",
	"stolen(new Uint8Array(1 << 20))", "Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), 'buffer').get.call(new Uint8Array(1 << 20))",
	"nameless(u).slice()", "nameless(u).map(x => x)", "nameless(u).filter(x => 1)", "nameless(b).slice()", "changing(u).slice()", "changing(u).map(x => x)", "changing(b).slice()", "speciesless(u).slice(1)",
	"new (Object.getPrototypeOf(class extends Uint8Array {}))(1 << 20)", "new (class extends Uint8Array { constructor() { super(1 << 20) } })", "new Uint8Array.prototype.constructor(1 << 20)", "new (new Uint8Array).constructor(1 << 20)", "new (new ArrayBuffer).constructor(1 << 20)",
	"Reflect.construct(Uint8Array, [1 << 20], function () {}.bind())", "Reflect.construct(Uint8Array, [1 << 20], new Proxy(class {}, {}))", "new (Uint8Array.bind(null, 1 << 20))", "new (new Proxy(Uint8Array, {}))(1 << 20)", "Reflect.construct(ArrayBuffer, [1 << 20], Uint8Array)",
	"Reflect.construct(Uint8Array, [4], Object.defineProperty(function () {}.bind(), 'prototype', { get() { new Uint8Array(1 << 20); return Uint8Array.prototype } })) && new Uint8Array(1 << 20)",
	"new Uint8Array({ valueOf: () => 0, length: 1 << 20 })", "new ArrayBuffer({ valueOf: () => 1 << 20 })", "new ArrayBuffer(growingNumber())", "new ArrayBuffer(0, { get maxByteLength() { return growingNumber() } })", "new Uint8Array({ get length() { return growingNumber() } })",
	"new Uint8Array(new Proxy([], { get: (t, k) => k === 'length' ? growingNumber() : k === Symbol.iterator ? undefined : 0 }))", "new Uint8Array(lying(1 << 17))", "new Float64Array(iterating(1 << 14))", "Float64Array.from(iterating(1 << 14))", "new Uint8Array('1048576')", "new Uint8Array(true ? 1048576.9 : 0)",
	"Array.prototype.map.call(Object.assign(new Array(1 << 20), { constructor: { [Symbol.species]: Uint8Array } }), x => x)",
	"Promise && new (class extends Promise { constructor(f) { super(f); this.b = new ArrayBuffer(1 << 20) } })(() => {})", "eval('new Uint8Array(1 << 20)')", "new Function('return new Uint8Array(1 << 20)')()",
	"JSON.parse('1', () => new Uint8Array(1 << 20))", "[1].map(() => new Uint8Array(1 << 20))[0]", "resizing()", "new WebAssembly.Memory({ initial: 16 }).buffer", "new Uint8Array(new WebAssembly.Memory({ initial: 16 }).buffer)", "((m) => (m.grow(8), m.grow(8), m.buffer))(new WebAssembly.Memory({ initial: 0 }))",
	"new WebAssembly.Memory({ get initial() { return growingNumber() >> 16 } })", "new Array(64).fill().map(() => new Uint8Array(1 << 14))", "new Array(1024).fill().map(() => new Uint8Array(1 << 10))", "bytes(1 << 20).buffer", "bytes(1 << 20).subarray(1)",
}

// trickWorld is what they use.
const trickWorld = memoryWorld + `{
	const define = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true })
	define("stolen", (u) => { let got; u.constructor = { [Symbol.species]: function (b) { got = b; return new Uint8Array(4) } }; u.subarray(0, 2); return got })
	define("nameless", (o) => { o.constructor = undefined; return o })
	define("changing", (o) => { let n = 0; Object.defineProperty(o, "constructor", { get: () => n++ % 2 ? undefined : o instanceof ArrayBuffer ? ArrayBuffer : Uint8Array, configurable: true }); return o })
	define("speciesless", (o) => { o.constructor = { [Symbol.species]: undefined }; return o })
	let n = 0
	define("growingNumber", () => n++ % 2 ? 1 << 21 : 1 << 20)
	define("lying", (n) => { const a = [1]; a[Symbol.iterator] = () => { let i = 0; return { next: () => ({ done: i++ >= 8 * n, value: 1 }) } }; return a })
	define("iterating", (n) => ({ [Symbol.iterator]() { let i = 0; return { next: () => ({ done: i++ >= 8 * n, value: 1 }) } } }))
	define("resizing", () => { const b = new ArrayBuffer(0, { maxByteLength: 1 << 20 }); const u = new Uint8Array(b); b.resize(1 << 20); return u.subarray(1) })
}; 0`

// Whatever a guest keeps of a buffer keeps its charge, and no way leads past it:
// after at most as much as the budget there is a RangeError.
//
// proves part of G-06
func TestBufferTricksAsRoot(t *testing.T) {
	for _, jit := range []js.JIT{"", js.Full} {
		bufferTricks(t, jit)
	}
}

func bufferTricks(t *testing.T, jit js.JIT) {
	t.Helper()
	rt := memoryRuntime(t, jit, js.Limits{MemoryBytes: 512 << 20, BufferBytes: 7 << 20, TimeoutMS: 60_000, HostCalls: 1 << 20})
	if _, err := rt.Eval(ctx, trickWorld); err != nil {
		t.Fatal(err)
	}
	for _, trick := range tricks {
		got := text(t, rt, strings.Replace(bomb(trick, 40), "e.stack, n]", "n < 9]", 1))
		if !strings.HasPrefix(got, `["RangeError","no room for a buffer`) || !strings.HasSuffix(got, ",true]") {
			t.Errorf("%q: %s: %.300s", jit, trick, got)
		}
		if jit != "" { // a compiler's own references keep garbage for a while
			continue
		}
		if got := text(t, rt, "new Uint8Array(4 << 20).length"); got != "4194304" {
			t.Errorf("%s, afterwards: %s", trick, got)
		}
	}
}

// What is not kept is given back while it is needed, without an end of the
// script: a program may make many times its budget.
func TestBuffersAreGivenBackAsRoot(t *testing.T) {
	rt := memoryRuntime(t, "", js.Limits{MemoryBytes: 128 << 20, BufferBytes: 12 << 20, TimeoutMS: 60_000})
	for _, code := range []string{
		"new Uint8Array(1 << 20)", "new Uint8Array(5 << 20)", "new ArrayBuffer(3 << 20).slice(1)", "new Uint8Array(1 << 20).subarray(1).buffer", "new ArrayBuffer(1 << 20).transfer(2 << 20)",
		"new ArrayBuffer(0, { maxByteLength: 4 << 20 }).transfer()", "u.map(x => 1).buffer.transfer()", "new Float64Array(100000).toReversed().with(1, 1)", "new WebAssembly.Memory({ initial: 16 }).buffer", "keep.length = 0",
	} {
		if got := text(t, rt, bomb("("+code+", 0)", 100)); got != `["nothing"]` {
			t.Errorf("%s: %s", code, got)
		}
	}
	if got := text(t, rt, bomb("(new Uint8Array(100), 0)", 1_000_000)); got != `["nothing"]` {
		t.Errorf("a million small ones: %s", got)
	}
	if got := text(t, rt, bomb("(globalThis.last = new Uint8Array(globalThis.last ? globalThis.last.length : 1 << 20), 0)", 200)); got != `["nothing"]` {
		t.Errorf("one after the other: %s", got)
	}
}

// A limit counts both ways: what fits its budget exactly is made, one byte more is not.
func TestBufferBudget(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{BufferBytes: 1 << 20}})
	code := `(n => { try { return new Uint8Array(n).length } catch (e) { return e.name } })`
	for n, want := range map[int]string{1<<20 - 256: fmt.Sprint(1<<20 - 256), 1<<20 - 255: `"RangeError"`, 1 << 33: `"RangeError"`, -1: `"RangeError"`} {
		if got := text(t, rt, fmt.Sprintf("%s(%d)", code, n)); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
	_, err := rt.Eval(ctx, "new ArrayBuffer(1 << 21)")
	if js.KindOf(err) != js.Thrown || !strings.Contains(err.Error(), "RangeError: no room for a buffer: all that live may have 1048576 bytes") {
		t.Errorf("%v", err)
	}
	for limits, field := range map[js.Limits]string{{BufferBytes: 1}: "limits.buffer_bytes", {BufferBytes: 1 << 40}: "limits.buffer_bytes"} {
		refused(t, js.Options{Limits: limits}, field)
	}
}

// An answer that the guest has no room for fails its call and nothing else.
func TestBufferAnswers(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{BufferBytes: 1 << 20}})
	some := func(n int) []byte { return make([]byte, n) }
	if err := rt.Bind(ctx, "bytes", some); err != nil {
		t.Fatal(err)
	}
	if err := rt.BindAsync(ctx, "later", some); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]string{
		"try { bytes(2 << 20) } catch (e) { [e instanceof RangeError, e.name, e.message] }": `[true,"RangeError","no room for a buffer"]`,
		"later(2 << 20).catch(e => [e instanceof RangeError, e.message])":                   `[true,"no room for a buffer"]`,
		"bytes(1000).length": "1000", "later(1000).then(b => b.length)": "1000",
	} {
		if got := text(t, rt, code); got != want {
			t.Errorf("%s: %s, not %s", code, got, want)
		}
	}
}

// Nothing of what is in place of the built-ins can be told from them by a look,
// nor found by its frames in a stack.
//
// proves part of G-07 G-09
func TestBuffersLookNative(t *testing.T) {
	clock := int64(1)
	rt := open(t, js.Options{Allow: []string{"WebAssembly"}, Clock: &clock})
	if err := rt.Bind(ctx, "tools.add", func(a, b int) int { return a + b }); err != nil {
		t.Fatal(err)
	}
	if got := text(t, rt, `(() => {
		const bad = [], seen = new Set(), text = Function.prototype.toString
		const walk = (o, path) => {
			if ((typeof o !== "object" && typeof o !== "function") || o === null || seen.has(o)) return
			seen.add(o)
			if (typeof o === "function" && o !== walk && !/^function [^]*\(\) \{\s+\[native code\]\s\}$/.test(text.call(o))) bad.push(path + ": " + text.call(o))
			walk(Reflect.getPrototypeOf(o), path + ".__proto__")
			for (const k of Reflect.ownKeys(o)) { const d = Reflect.getOwnPropertyDescriptor(o, k); for (const w of ["value", "get", "set"]) walk(d[w], path + "." + String(k)) }
		}
		walk(globalThis, "")
		return seen.size > 500 ? bad : "too few"
	})()`); got != "[]" {
		t.Errorf("%s", got)
	}
	for _, code := range []string{
		"new Uint8Array(-1)", "new Uint8Array([Symbol()])", "new Uint8Array({ [Symbol.iterator]: 1 })", "new Uint8Array({ get length() { throw new TypeError('mine') } })", "new ArrayBuffer(-1)", "new ArrayBuffer(2 ** 40)",
		"Uint8Array(1)", "new Uint8Array(1).map(() => { throw new TypeError('mine') })", "new Uint8Array(1).map(1)", "new Uint8Array(1).slice({ valueOf() { null.x } })", "Uint8Array.prototype.with.call(1)", "Uint8Array.fromHex(1)", "ArrayBuffer.prototype.slice.call(1)",
		"Function.prototype.toString.call(1)", "new WebAssembly.Memory()", "new WebAssembly.Memory({ initial: 1e9 })",
	} {
		got := text(t, rt, "(function outer() { try { "+code+" } catch (e) { return [e.stack, String(e.sourceURL), Object.keys(e).join(), e instanceof Error] } })()")
		if strings.Contains(got, "glovebox") || strings.Contains(got, `"@\n`) || strings.Contains(got, `\n@\n`) || !strings.Contains(got, "outer@eval:1:") || !strings.HasSuffix(got, "true]") {
			t.Errorf("%s: %s", code, got)
		}
	}
	// What a callback of the guest's sees from inside, or is thrown there, has no place of ours.
	for _, code := range []string{"new Uint8Array(1).map(() => new Error().stack.split('\\n')[1] !== '@' ? 1 : 0)[0]", "new Uint8Array({ get length() { globalThis.s = new Error().stack; return 0 } }).length + s",
		"try { new Intl.DateTimeFormat().formatToParts.call(1) } catch (e) { [e.stack, e.sourceURL] + '' }", "try { new Date(Symbol()) } catch (e) { [e.stack, e.sourceURL] + '' }", "try { new Date({ valueOf() { throw new Error().stack } }) } catch (e) { e }", "try { setTimeout(1) } catch (e) { [e.stack, e.sourceURL] + '' }",
		"try { Object.getOwnPropertyDescriptor(Intl.DateTimeFormat.prototype, 'format').get.call(1) } catch (e) { [e.stack, e.sourceURL] + '' }", "try { tools.add({ get x() { } }) } catch (e) { [e.stack, e.sourceURL] + '' }", "try { tools.add(1, 2, 3) } catch (e) { [e.stack, e.sourceURL] + '' }"} {
		got := text(t, rt, code)
		if strings.Contains(got, "glovebox") || strings.Contains(got, "note") || strings.Contains(got, "room") {
			t.Errorf("%s: %s", code, got)
		}
	}
}
