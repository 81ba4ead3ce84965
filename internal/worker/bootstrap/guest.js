// Evaluated in the guest's realm before any code of the guest. It gives the
// codec, which lives in a realm of its own, what it needs of this one: the
// prototypes, to know values by, and ways to make objects of this realm. And
// it puts something in Proxy's place that says so when one is made.
//
// Called with two functions, proxied(proxy, target) and seen(proxy), the latter of
// buffers.js.
(function (proxied, seen) {
	"use strict";
	const NativeProxy = Proxy, nativeRevocable = Proxy.revocable, NativeTypeError = TypeError;
	const define = Object.defineProperty, bind = Function.prototype.bind, apply = Reflect.apply, remove = Reflect.deleteProperty;

	// refuse throws what Proxy does, with no trace of where it is thrown.
	function refuse(text) {
		const error = new NativeTypeError(text);
		remove(error, "line");
		remove(error, "column");
		remove(error, "sourceURL");
		define(error, "stack", { __proto__: null, value: "", writable: true, configurable: true });
		return error;
	}
	function fits(target, handler) {
		return (typeof target === "object" && target !== null || typeof target === "function") &&
			(typeof handler === "object" && handler !== null || typeof handler === "function");
	}
	// note tells the codec. It is of another realm: what is thrown on the way to it,
	// where no stack is left, would be an object of that realm.
	function note(proxy, target) {
		let noted = false;
		try { proxied(proxy, target); seen(proxy); noted = true; } catch { /* its error is nobody's */ }
		if (!noted) throw refuse("Maximum call stack size exceeded.");
	}
	const make = function Proxy(target, handler) {
		if (new.target === undefined) throw refuse("calling Proxy constructor without new is invalid");
		if (!fits(target, handler)) throw refuse("a Proxy needs objects as target and handler");
		const proxy = new NativeProxy(target, handler);
		note(proxy, target);
		return proxy;
	};
	const makeRevocable = function revocable(target, handler) {
		if (!fits(target, handler)) throw refuse("a Proxy needs objects as target and handler");
		const result = nativeRevocable(target, handler);
		note(result.proxy, target);
		return result;
	};
	// A bound function shows no source, has no prototype and tells nothing of what it is bound to.
	function native(f, name, length) {
		const bound = apply(bind, f, [undefined]);
		define(bound, "name", { __proto__: null, value: name, configurable: true });
		define(bound, "length", { __proto__: null, value: length, configurable: true });
		return bound;
	}
	const Replaced = native(make, "Proxy", 2);
	define(Replaced, "revocable", { __proto__: null, value: native(makeRevocable, "revocable", 2), writable: true, configurable: true });
	define(globalThis, "Proxy", { __proto__: null, value: Replaced, writable: true, configurable: true });

	const generator = Object.getPrototypeOf(function* () {}).prototype;
	const asyncGenerator = Object.getPrototypeOf(async function* () {}).prototype;
	const iterator = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
	return {
		__proto__: null,
		object: () => ({}),
		copy: (o) => ({...o}),
		array: () => [],
		parse: JSON.parse,
		Map, Set, Date, ArrayBuffer, DataView,
		errors: { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError, AggregateError },
		arrays: {
			__proto__: null, Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array,
			Float32Array, Float64Array, BigInt64Array, BigUint64Array, Float16Array: globalThis.Float16Array,
		},
		plain: Object.prototype, lists: Array.prototype, functions: Function.prototype,
		maps: Map.prototype, sets: Set.prototype, dates: Date.prototype, buffers: ArrayBuffer.prototype,
		boxes: { __proto__: null, Number: Number.prototype, String: String.prototype, Boolean: Boolean.prototype, BigInt: BigInt.prototype, Symbol: Symbol.prototype },
		opaque: [Promise.prototype, WeakMap.prototype, WeakSet.prototype, RegExp.prototype, generator, asyncGenerator, iterator,
			globalThis.WeakRef && WeakRef.prototype, globalThis.FinalizationRegistry && FinalizationRegistry.prototype],
	};
})
