package bootstrap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

func init() {
	children["walked"] = walked
	children["set"] = set
	children["poisoned"] = poisoned
	children["hidden"] = hidden
}

// TestWalked proves H-51: while a value is read no trap, getter, toJSON or iterator of the guest runs,
// wherever it is: as the value, its prototype, an entry, an element, a
// prototype of a built-in. The control reads the same things as a program would.
//
// proves H-51
// proves part of G-13
func TestWalked(t *testing.T) { inChild(t, "walked", "") }

// spies makes spy(target), a Proxy that counts every operation on it in ran, and
// count, a function that counts its calls.
const spies = `var ran = [];
	var count = (name) => function () { ran.push(name) };
	var traps = {};
	for (const name of ['get', 'set', 'has', 'deleteProperty', 'ownKeys', 'getOwnPropertyDescriptor', 'defineProperty',
		'getPrototypeOf', 'setPrototypeOf', 'isExtensible', 'preventExtensions', 'apply', 'construct'])
		traps[name] = function (...args) { ran.push(name); return Reflect[name](...args) };
	var spy = (target) => new Proxy(target, new Proxy(traps, {get(t, name) { ran.push('trap ' + name); return t[name] }}));
	var data = (value) => ({value, enumerable: true, configurable: true, writable: true});
`

func walked(b *bench) {
	b.eval(spies)
	for _, source := range []string{
		"spy({a: 1})", "spy([1, 2])", "spy(spy({a: spy([1])}))", "Object.create(spy({}), {a: data(1)})", "Object.create(Object.create(spy({})), {a: data(1)})",
		"[spy({a: 1}), , spy([])]", "new Map([[spy({}), spy({})]])", "new Set([spy({})])", "Object.setPrototypeOf([1, , 3], spy(Array.prototype))",
		"Object.setPrototypeOf(new Map([[1, 2]]), spy(Map.prototype))", "Object.setPrototypeOf(new Date(0), spy(Date.prototype))",
		"Object.setPrototypeOf(new Uint8Array(2), spy(Uint8Array.prototype))", "Object.setPrototypeOf(new Error('e'), spy(Error.prototype))",
		"spy(new Map([[1, 2]]))", "spy(new Date(0))", "spy(new Uint8Array(2))", "spy(new Error('e'))", "spy(Object(1n))",
		"{toJSON: undefined, valueOf: undefined, toString: undefined}", "Object.create({toJSON() { ran.push('toJSON') }}, {a: data(1)})",
		"Object.create({get [Symbol.toStringTag]() { ran.push('tag') }, get then() { ran.push('then') }}, {a: data(1)})",
		"Object.defineProperty(new Error('e'), 'stack', {get() { ran.push('stack') }})", "Object.defineProperty(new Error('e'), 'message', {get() { ran.push('message') }})",
		"new (class extends Error { get name() { ran.push('name') } get message() { ran.push('message') } })('e')",
		"new (class extends Map { get size() { ran.push('size') } forEach() { ran.push('forEach') } [Symbol.iterator]() { ran.push('iterator') } })([[1, 2]])",
		"(() => { class A extends Array {}; Object.defineProperty(A.prototype, 'constructor', {get: count('constructor')}); return new A(3) })()", "new (class extends Uint8Array { get length() { ran.push('length') } get buffer() { ran.push('buffer') } })(2)",
		"Object.assign([1], {get constructor() { ran.push('constructor'); }, [Symbol.isConcatSpreadable]: true})",
	} {
		v := b.eval("(" + source + ")")
		b.eval("ran.length = 0")
		_, err := b.codec.Encode(v)
		if ran := b.text("ran.join()"); ran != "" || err != nil {
			b.addf("%s: ran %s, %v", source, ran, err)
		}
		v.Release()
	}
	for _, source := range []string{"{get a() { ran.push('getter') }}", "Object.defineProperty([1], 0, {get() { ran.push('getter') }})", "Object.create(null, {a: {get: count('getter'), enumerable: true}})",
		"spy({get a() { ran.push('getter') }})", "new Map([[{get a() { ran.push('getter') }}, 1]])"} {
		v := b.eval("(" + source + ")")
		b.eval("ran.length = 0")
		_, err := b.codec.Encode(v)
		if ran := b.text("ran.join()"); ran != "" || err == nil || err.Error() != Reasons["accessor"] {
			b.addf("%s: ran %s, %v", source, ran, err)
		}
	}
	for _, control := range []string{"JSON.stringify(spy({a: 1}))", "for (const k in Object.create(spy({}))) ;", "[...spy([1])]", "({...spy({a: 1})})", "Object.create(spy({})).a = 1"} {
		b.eval("ran.length = 0")
		b.eval(control)
		if b.text("ran.length") == "0" {
			b.addf("the control %s ran nothing", control)
		}
	}
}

// TestSet proves H-52: what the host gives is defined and never set: no setter of the guest on
// any prototype is called, for a thousand keys and indices and the special ones, and each property is there.
// The control is a plain assignment.
//
// proves H-52
// proves part of G-01
func TestSet(t *testing.T) { inChild(t, "set", "") }

func set(b *bench) {
	b.eval(`var log = '';
		for (const p of [Object.prototype, Array.prototype, Function.prototype, Map.prototype, Error.prototype]) {
			for (let i = 0; i < 1000; i++) for (const k of [i, 'key' + i])
				Object.defineProperty(p, k, {__proto__: null, set(v) { log += 'set ' + k + ';' }, get() { log += 'get ' + k + ';' }, configurable: true});
			for (const k of ['__proto__', 'constructor', 'length', 'name', 'message', 'stack', 'toJSON', 'then', 'valueOf', 'value', 'get', 'set', 'writable', 'enumerable', 'configurable'])
				if (Object.getOwnPropertyDescriptor(p, k)?.configurable !== false)
					Object.defineProperty(p, k, {__proto__: null, set(v) { log += 'set ' + k + ';' }, get() { log += 'get ' + k + ';' }, configurable: true});
		}
		Object.defineProperty(Error, 'stackTraceLimit', {__proto__: null, get() { log += 'stackTraceLimit' + ';' }, configurable: true});
		Object.defineProperty(Error, 'prepareStackTrace', {__proto__: null, get() { log += 'prepareStackTrace' + ';' }, configurable: true});
		Object.defineProperty(Map.prototype, 'set', {__proto__: null, get() { log += 'Map.set' + ';' }});
		Object.defineProperty(Set.prototype, 'add', {__proto__: null, get() { log += 'Set.add' + ';' }});
		Object.defineProperty(Array.prototype, Symbol.iterator, {__proto__: null, get() { log += 'iterator' + ';' }});
		Object.defineProperty(Date, Symbol.species, {__proto__: null, get() { log += 'species' + ';' }}); log = '';`)
	o, a := object(), []any{}
	for _, k := range []string{"0", "999"} { // first, as the language has them
		o.Keys, o.Values = append(o.Keys, k), append(o.Values, "own "+k)
	}
	for i := range 1000 {
		o.Keys, o.Values = append(o.Keys, fmt.Sprintf("key%d", i)), append(o.Values, float64(i))
		a = append(a, object("7", "index", "key7", float64(i), "__proto__", nil))
	}
	for _, k := range []string{"__proto__", "constructor", "length", "name", "message", "then", "toJSON"} {
		o.Keys, o.Values = append(o.Keys, k), append(o.Values, "own "+k)
	}
	a[500] = wire.Hole{}
	for _, v := range []any{o, a, &wire.Map{Keys: []any{"key1", o}, Values: []any{1.0, a}}, &wire.Set{Values: []any{1.0, o}},
		&wire.Error{Name: "TypeError", Message: "m", Stack: "s"}, &wire.Error{Name: "Mine", Message: "m"}, wire.Date(1),
		&wire.Bytes{Kind: wire.Uint8Array, Data: []byte{1}}, &wire.Bytes{Kind: wire.ArrayBuffer, Data: []byte{1}}} {
		b.eval("log = ''")
		if !b.into(v) {
			continue
		}
		if ran := b.text("log"); ran != "" {
			b.addf("%T: ran %.300s", v, ran)
		}
		got, err := b.cross("v")
		if err != nil {
			b.addf("%T: back: %v", v, err)
		} else if diff := equal(v, got); diff != "" {
			b.addf("%T: %.500s", v, diff)
		}
		if ran := b.text("log"); ran != "" {
			b.addf("%T: on the way back ran %.300s", v, ran)
		}
	}
	b.eval("({}).key7 = 'value'; [][3] = 'element'")
	if ran := b.text("log"); ran != "set key7;set 3;" {
		b.addf("the control ran %s", ran)
	}
}

// TestPoisoned proves part of G-01: with every built-in that the guest can reach replaced, deleted or frozen, values still cross both ways.
//
// proves part of G-01
func TestPoisoned(t *testing.T) { inChild(t, "poisoned", "") }

func poisoned(b *bench) {
	v := b.eval("globalThis.kept = [{a: 1, b: [new Map([[1, new Date(5)]]), new Set(['s']), new Uint8Array([9]), new Proxy({p: 1}, {})]}, Object.assign(new TypeError('m'), {stack: ''})]")
	b.eval(`(() => {
		const seen = new Set(), all = [];
		const getKeys = Reflect.ownKeys, describe = Reflect.getOwnPropertyDescriptor, proto = Reflect.getPrototypeOf, define = Reflect.defineProperty, kept = globalThis.kept, global = globalThis;
		const walk = (o) => { if ((typeof o !== 'object' && typeof o !== 'function') || o === null || seen.has(o) || o === kept) return; seen.add(o); all.push(o);
			walk(proto(o)); for (const k of getKeys(o)) { const d = describe(o, k); walk(d.value); walk(d.get); walk(d.set) } };
		walk(globalThis);
		const evil = function () { throw 'poison' }, jobs = [];
		for (const o of all) for (const k of getKeys(o)) { const d = describe(o, k); if (d.configurable || d.writable && k !== 'length') jobs.push({__proto__: null, o, k, d}) }
		for (let i = 0; i < jobs.length; i++) { const job = jobs[i], o = job.o, k = job.k, d = job.d; if (o !== global || (k !== 'kept' && k !== 'String'))
			define(o, k, d.configurable ? {__proto__: null, get: evil, set: evil, configurable: true} : {__proto__: null, value: evil}) }
	})()`)
	want := []any{object("a", 1.0, "b", []any{&wire.Map{Keys: []any{1.0}, Values: []any{wire.Date(5)}}, &wire.Set{Values: []any{"s"}},
		&wire.Bytes{Kind: wire.Uint8Array, Data: []byte{9}}, object("p", 1.0)}), &wire.Error{Name: "TypeError", Message: "m"}}
	for range 2 {
		e, err := b.codec.Encode(v)
		if err != nil {
			b.addf("out: %v", err)
			return
		}
		value, err := wire.AppendUTF16(nil, e.Words, e.Heap, e.Bytes)
		if err != nil {
			b.addf("out: %v", err)
			return
		}
		got, err := wire.Decode(value, wire.Budget{})
		if diff := equal(want, got); diff != "" || err != nil {
			b.addf("%v, %s", err, diff)
		}
		if v, err = b.codec.Decode(Encoding{Words: e.Words, Heap: e.Heap, Wide: true, Bytes: e.Bytes}); err != nil {
			b.addf("in: %v", err)
			return
		}
	}
}

// TestHidden proves part of G-07 and G-09: from the global object, and from each kind of value that the codec has made, nothing of
// its realm can be reached, nor the Proxy that it has put another in place of; that one behaves like it, shows no source and leaves no trace in a stack.
//
// proves part of G-07
// proves part of G-09
func TestHidden(t *testing.T) { inChild(t, "hidden", "") }

func hidden(b *bench) {
	if !b.into([]any{object("a", 1.0), &wire.Map{Keys: []any{1.0}, Values: []any{2.0}}, &wire.Set{}, wire.Date(1), &wire.Error{Name: "AggregateError", Message: "m"},
		&wire.Error{Name: "Mine", Message: "m"}, &wire.Bytes{Kind: wire.Uint8Array, Data: []byte{1}}, &wire.Bytes{Kind: wire.DataView, Data: []byte{1}}, wire.Hole{}}) {
		return
	}
	strangers := b.text(`(() => {
		const seen = new Set(), strangers = [];
		const walk = (o, path) => { if ((typeof o !== 'object' && typeof o !== 'function') || o === null || seen.has(o)) return; seen.add(o);
			const chain = []; for (let p = o; p !== null; p = Reflect.getPrototypeOf(p)) chain.push(p);
			if (chain.length > 1 && chain.at(-1) !== Object.prototype) strangers.push(path);
			if (typeof o === 'function' && !(o instanceof Function) && o !== Function.prototype) strangers.push(path);
			if (typeof o === 'function' && /proxied|codec|deliver|refuse/.test(Function.prototype.toString.call(o))) strangers.push(path);
			walk(Reflect.getPrototypeOf(o), path + '.__proto__');
			for (const k of Reflect.ownKeys(o)) { const d = Reflect.getOwnPropertyDescriptor(o, k); for (const w of ['value', 'get', 'set']) walk(d[w], path + '.' + String(k)) } };
		walk(globalThis, ''); walk(v, 'v');
		return seen.size > 500 ? strangers.join() : 'too few';
	})()`)
	if strangers != "" {
		b.addf("reached: %s", strangers)
	}
	for source, want := range map[string]string{
		"typeof Proxy + Proxy.name + Proxy.length + ('prototype' in Proxy) + Reflect.ownKeys(Proxy).map(String).sort()": "functionProxy2falselength,name,revocable",
		"Function.prototype.toString.call(Proxy)":   "function Proxy() {\n    [native code]\n}",
		"Object.keys(globalThis).includes('Proxy')": "false",
		"(() => { try { Proxy({}, {}) } catch (e) { return e instanceof TypeError && e.constructor === TypeError } })()":                       "true",
		"(() => { try { new Proxy(1, {}) } catch (e) { return e instanceof TypeError && JSON.stringify([e.stack, e.line, e.sourceURL]) } })()": `["",null,null]`,
		"(() => { try { Proxy.revocable({}, 1) } catch (e) { return e instanceof TypeError } })()":                                             "true",
		"(() => { try { class X extends Proxy {} } catch (e) { return e instanceof TypeError } })()":                                           "true",
		"new Proxy({}, {get: (t, k) => k}).hello + Proxy.revocable({x: 1}, {}).proxy.x + Reflect.construct(Proxy, [[4], {}])[0]":               "hello14",
	} {
		if got := b.text(source); got != want {
			b.addf("%s is %q, want %q", source, got, want)
		}
	}
	if s := b.text("(() => { try { new Proxy({}, {get() { throw new Error('x') }}).a } catch (e) { return e.stack } })()"); !strings.Contains(s, "test.js") {
		b.addf("a trap's stack: %q", s)
	}
}
