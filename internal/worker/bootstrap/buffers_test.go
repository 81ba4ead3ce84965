package bootstrap

import (
	"fmt"
	"strings"
	"testing"
)

func init() {
	children["alike"] = alike
}

// TestBuffersAlike proves part of G-06: what is in place of the built-ins that allocate buffers gives what the
// engine's own give, for every class, method and kind of argument, errors by their class.
//
// proves part of G-06
func TestBuffersAlike(t *testing.T) { inChild(t, "alike", "") }

// sayer makes a text of what an expression comes to.
const sayer = `
	var log = [];
	function say(v) {
		if (ArrayBuffer.isView(v)) return v.constructor.name + (v instanceof v.constructor) + '[' + (v.length > 20 ? v.length + ' ' + v[v.length - 1] : Array.from(v).join()) + ']' + Object.prototype.toString.call(v);
		if (v instanceof ArrayBuffer) return 'ArrayBuffer ' + v.byteLength + ',' + v.maxByteLength + ',' + v.resizable + ',' + v.detached + ':' + (v.detached ? '' : Array.from(new Uint8Array(v)).slice(0, 20).join());
		if (Array.isArray(v)) return '[' + v.map(say).join() + ']';
		return typeof v + ' ' + String(v);
	}
	function attempt(f) { log.length = 0; let r; try { r = say(f()) } catch (e) { r = e && e.constructor && e instanceof Error ? e.constructor.name : 'threw ' + String(e) } return r + log.join() }
	function spy(o, name) { return new Proxy(o, { get(t, k, r) { if (k !== Symbol.toPrimitive) log.push(name + String(k)); return Reflect.get(t, k) } }) }
	const num = (n) => ({ valueOf() { log.push('valueOf'); return n } });
	function* gen(n) { for (let i = 0; i < n; i++) yield i; log.push('done') }
	const detached = () => { const b = new ArrayBuffer(8), u = new Uint8Array(b); b.transfer(); return [b, u] };
`

// alikes are the expressions; C is each class, V a value of its content. One
// difference is known: a new.target's prototype is asked for twice.
func alikes() (out []string) {
	for _, class := range []string{"Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array", "Float16Array"} {
		value := "3"
		if strings.HasPrefix(class, "Big") {
			value = "3n"
		}
		for _, e := range []string{
			"new C", "new C()", "new C(0)", "new C(3)", "new C(-1)", "new C(-0.5)", "new C(2.9)", "new C(NaN)", "new C('4')", "new C('x')", "new C(null)", "new C(true)", "new C(undefined)", "new C(2n)", "new C(Symbol())",
			"new C(Infinity)", "new C(2 ** 53)", "new C([V, V])", "new C([V, 'x'])", "new C([, V])", "new C([])", "new C({})", "new C({ length: 2, 0: V, 1: V })", "new C({ length: -1 })", "new C({ length: '2', 0: V, 1: V })", "new C({ length: num(1), 0: V })",
			"new C(new Set([V, V]))", "new C(new Map())", "new C({ [Symbol.iterator]: 1 })", "new C({ [Symbol.iterator]: null, length: 1, 0: V })", "new C({ [Symbol.iterator]: () => 1 })", "new C({ [Symbol.iterator]: () => ({ next: () => 1 }) })",
			"new C(() => 1)", "new C(function (a, b) {})", "new C(spy([V, V], 'a.'))", "new C(new C([V]))", "new C(new C([V]), 1, 2)", "new C(new ArrayBuffer(16))", "new C(new ArrayBuffer(16), 8)", "new C(new ArrayBuffer(16), 8, 1)", "new C(new ArrayBuffer(16), 1)",
			"new C(new ArrayBuffer(16), num(8), num(1))", "new C(new ArrayBuffer(16), 8, undefined)", "new C(new ArrayBuffer(16, { maxByteLength: 32 }))", "new C(detached()[0])", "new C(detached()[1])", "new C(new DataView(new ArrayBuffer(8)))",
			"C()", "C.length + C.name + C.BYTES_PER_ELEMENT", "Reflect.ownKeys(C).map(String).sort()", "C[Symbol.species] === C", "Object.getPrototypeOf(C).name", "C.prototype.constructor === C", "new (class X extends C {})(2)", "new (class X extends C {})([V])",
			"Reflect.construct(C, [2], Array) instanceof Array", "Object.getOwnPropertyDescriptor(C, 'prototype').writable", "C.from([V, V])", "C.from({ length: 2, 0: V, 1: V }, x => x)", "C.from(new Set([V]))", "C.of(V, V)", "C.from.call(Array, [V])", "C.of.call(Object)",
			"new C([V, V, V]).slice(1)", "new C([V, V, V]).slice(-2, -1)", "new C([V, V, V]).slice(2, 1)", "new C([V, V, V]).slice(num(1), num(2))", "new C(100).fill(V).slice(10, 90)", "new C(100).fill(V).slice()", "new C([V, V]).map(x => x)", "new C([V, V]).map(function () { return this.v }, { v: V })",
			"new C([V, V]).map(1)", "new C([V]).map(() => 'x')", "new C([V, V]).map((v, i, a) => (log.push(String(v), i, a.length), v))", "new C([V, V]).filter((v, i) => i)", "new C([V, V]).filter(function () { return this.v }, { v: 1 })", "new C([V]).filter()",
			"new C([V, V, V]).subarray(1)", "new C([V, V, V]).subarray(-1)", "new C([V, V, V]).subarray(1, 2)", "new C([V]).subarray(1, 0)", "new C([V, V]).with(0, V)", "new C([V, V]).with(-1, V)", "new C([V, V]).with(2, V)", "new C([V, V]).with(0, 'x')", "new C([V]).with()", "new C([V, V]).toReversed()",
			"new C([V, V]).toSorted()", "new C([V, V]).toSorted((a, b) => a > b ? 1 : -1)", "new C([V]).toSorted(1)", "new C(2).buffer", "new C(2).buffer === new C(2).buffer", "(u => u.buffer === u.buffer && u.subarray(1).buffer === u.buffer)(new C(4))",
			"(u => (u.constructor = undefined, [u.slice(1), u.map(x => x), u.filter(x => 1)]).map(x => Object.getPrototypeOf(x) === C.prototype))(new C(3))", "(u => (u.constructor = { [Symbol.species]: null }, u.slice(1).length))(new C(3))", "(u => (u.constructor = 1, u.slice(1)))(new C(3))",
			"(u => (u.constructor = { [Symbol.species]: Array }, u.slice(1)))(new C(3))", "(u => (u.constructor = { [Symbol.species]: function () { return new C(1) } }, u.slice(1)))(new C(3))", "(u => (u.constructor = { [Symbol.species]: function (n) { log.push(n); return new C(5) } }, [u.slice(1), u.map(x => V), u.filter(x => 1)]))(new C(3))",
			"(u => (u.constructor = { [Symbol.species]: Float64Array }, u.slice(1)))(new C([V, V]))", "(u => (u.constructor = { [Symbol.species]: BigInt64Array }, u.slice(1)))(new C([V, V]))", "new (class X extends C {})([V, V]).slice(1) instanceof C", "(X => new X(2).map(x => V) instanceof X)(class X extends C {})",
			"detached()[1].slice()", "detached()[1].map(x => x)", "detached()[1].buffer", "C.prototype.slice.call([1])", "C.prototype.map.call({}, x => x)", "C.prototype.with.call(1, 0, 0)", "Object.getOwnPropertyDescriptor(Object.getPrototypeOf(C.prototype), 'buffer').get.call([])",
			"(b => { const u = new C(b); return [u.slice(), u.map(x => (b.resize(0), V))] })(new ArrayBuffer(16, { maxByteLength: 32 }))", "(b => { const u = new C(b); return u.slice({ valueOf() { b.resize(8); return 0 } }) })(new ArrayBuffer(16, { maxByteLength: 32 }))",
			"(b => { const u = new C(b); return u.slice({ valueOf() { b.transfer(); return 0 } }) })(new ArrayBuffer(16))",
		} {
			out = append(out, "(C_ => "+strings.ReplaceAll(strings.ReplaceAll(e, "V", value), "C", "C_")+")("+class+")")
		}
	}
	return append(out,
		"new ArrayBuffer", "new ArrayBuffer(3)", "new ArrayBuffer(-1)", "new ArrayBuffer('2')", "new ArrayBuffer(num(2))", "new ArrayBuffer(2n)", "new ArrayBuffer(1.5)", "new ArrayBuffer(NaN)", "new ArrayBuffer(2 ** 60)", "ArrayBuffer(1)",
		"new ArrayBuffer(2, { maxByteLength: 4 })", "new ArrayBuffer(2, { maxByteLength: 1 })", "new ArrayBuffer(2, { maxByteLength: num(4) })", "new ArrayBuffer(2, spy({ maxByteLength: 4 }, 'o.'))", "new ArrayBuffer(2, 5)", "new ArrayBuffer(2, null)", "new ArrayBuffer(2, { maxByteLength: undefined })", "new ArrayBuffer(2, { maxByteLength: 'x' })", "new ArrayBuffer(0, { maxByteLength: -1 })",
		"ArrayBuffer.length + ArrayBuffer.name", "Reflect.ownKeys(ArrayBuffer).map(String).sort()", "ArrayBuffer.isView(new DataView(new ArrayBuffer(1)))", "ArrayBuffer[Symbol.species] === ArrayBuffer", "new (class X extends ArrayBuffer {})(4)", "Reflect.construct(ArrayBuffer, [4], Array) instanceof Array",
		"new Uint8Array([1, 2, 3, 4]).buffer.slice(1)", "new Uint8Array([1, 2, 3, 4]).buffer.slice(-2, -1)", "new ArrayBuffer(4).slice(3, 1)", "new ArrayBuffer(4).slice(num(1), num(2))", "ArrayBuffer.prototype.slice.call({})", "detached()[0].slice()", "(b => (b.constructor = undefined, b.slice(1)))(new ArrayBuffer(4))", "(b => (b.constructor = { [Symbol.species]: function () { return b } }, b.slice(1)))(new ArrayBuffer(4))",
		"(b => (b.constructor = { [Symbol.species]: function () { return new ArrayBuffer(1) } }, b.slice(1)))(new ArrayBuffer(4))", "(b => (b.constructor = { [Symbol.species]: function () { return new ArrayBuffer(9) } }, b.slice(1)))(new Uint8Array([1, 2]).buffer)", "(b => (b.constructor = { [Symbol.species]: Array }, b.slice(1)))(new ArrayBuffer(4))",
		"new Uint8Array([1, 2]).buffer.transfer()", "new Uint8Array([1, 2]).buffer.transfer(1)", "new Uint8Array([1, 2]).buffer.transfer(4)", "new ArrayBuffer(2, { maxByteLength: 8 }).transfer()", "new ArrayBuffer(2, { maxByteLength: 8 }).transfer(5)", "new ArrayBuffer(2, { maxByteLength: 8 }).transfer(9)", "new ArrayBuffer(2, { maxByteLength: 8 }).transferToFixedLength()", "new ArrayBuffer(2, { maxByteLength: 8 }).transferToFixedLength(9)",
		"detached()[0].transfer()", "new ArrayBuffer(2).transfer(num(3))", "new ArrayBuffer(2).transfer(-1)", "new ArrayBuffer(2).transfer('x')", "ArrayBuffer.prototype.transfer.call({})", "(b => { b.resize(6); return b })(new ArrayBuffer(2, { maxByteLength: 8 }))", "(b => { b.resize(9) })(new ArrayBuffer(2, { maxByteLength: 8 }))",
		"Uint8Array.fromBase64('AQID')", "Uint8Array.fromBase64('AQI', { lastChunkHandling: 'strict' })", "Uint8Array.fromBase64('_-8', { alphabet: 'base64url' })", "Uint8Array.fromBase64(1)", "Uint8Array.fromHex('0aff')", "Uint8Array.fromHex('0')", "Uint8Array.fromHex({})", "Int8Array.fromHex",
		"Array.prototype.map.call(Object.assign([1, 2], { constructor: { [Symbol.species]: Uint8Array } }), x => x)", "Function.prototype.toString.call(1)", "Function.prototype.toString.call(function f() { return 1 })", "String(class A {})", "new Uint8Array(gen(3))", "(function () { 'use strict'; return new Uint8Array(new Proxy([1, 2], {})) })()",
		"(() => { class A extends Uint8Array { constructor() { return {} } } return typeof new A })()", "(() => { Object.defineProperty(Array.prototype, 0, { set() { log.push('set') }, configurable: true }); try { return [new Uint8Array(gen(2)), new Uint8Array([3, 4]).filter(x => 1)].length } finally { delete Array.prototype[0] } })()",
	)
}

func alike(b *bench) {
	realm, err := b.NewRealm()
	if err != nil {
		b.addf("%v", err)
		return
	}
	own := func(source string) string {
		v, err := realm.Evaluate(source, "test.js", 1)
		if err != nil {
			return "failed: " + err.Error()
		}
		s, err := v.Text()
		if err != nil {
			return err.Error()
		}
		return s
	}
	own(sayer)
	b.eval(sayer)
	list := alikes()
	for _, e := range list {
		source := "attempt(() => " + e + ")"
		if got, want := b.text(source), own(source); got != want {
			b.addf("%s\n\tis       %.300s\n\tnatively %.300s", e, got, want)
		}
	}
	b.notes = append(b.notes, fmt.Sprint(len(list), " expressions"))
}
