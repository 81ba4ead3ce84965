// Evaluated in the guest's realm before anything else. It puts something in the
// place of every built-in that allocates the memory of a buffer, so that what
// lives of them is charged to one budget and more of it is a RangeError.
//
// A charge is an entry of a tally of Go's: an object that is held weakly, and a
// size. It is given back when the collector has taken the object. The object is
// the buffer, or the typed array that was made with memory of its own; what else
// can come to hold the same memory keeps that object alive (keepers).
//
// What is put in place looks like what was there: Function.prototype.toString is
// one of them. It calls nothing that a guest can replace, asks a guest's object
// once for each thing, and no built-in that it stands for can be reached.
//
// Called with add and sweep (see jsc.Tally), what they share, and the budget.
(function (add, sweep, shared, budget) {
	"use strict";
	const { apply, construct, defineProperty: define, getOwnPropertyDescriptor: describe, getPrototypeOf: above, setPrototypeOf: raise, ownKeys, deleteProperty: remove } = Reflect;
	const global = globalThis, { isArray } = Array, { isView } = ArrayBuffer, { isError } = Error, { trunc, min } = Math;
	const { iterator, species } = Symbol;
	const NativeTypeError = TypeError, NativeRangeError = RangeError, NativeWeakMap = WeakMap, NativeBytes = Uint8Array;
	const { get: mapGet, set: mapPut, has: mapHas } = WeakMap.prototype;
	const { indexOf, slice: cut, endsWith } = String.prototype;
	const slots = 32, COUNT = 32, TOTAL = 33; // of shared
	const each = 256, large = 1 << 16, page = 1 << 16, entry = 64;
	const getter = (prototype, name) => describe(prototype, name).get;
	const views = above(Uint8Array.prototype);
	const viewTag = getter(views, Symbol.toStringTag), viewLength = getter(views, "length"), viewBytes = getter(views, "byteLength"),
		viewBuffer = getter(views, "buffer"), viewAt = views.at, viewSub = views.subarray;
	const bufferBytes = getter(ArrayBuffer.prototype, "byteLength");
	const sharedBytes = global.SharedArrayBuffer && getter(SharedArrayBuffer.prototype, "byteLength");

	// ---- errors, without our frames

	// clean takes our frames, whose script has no name, off an error's stack.
	function clean(e) {
		if (isError === undefined || !isError(e)) return e;
		const d = describe(e, "stack"), v = d && describe(d, "value");
		if (v !== undefined && typeof v.value === "string" && d.configurable) {
			const stack = v.value;
			let out = "", from = 0;
			while (from < stack.length) {
				let to = apply(indexOf, stack, ["\n", from]);
				if (to < 0) to = stack.length;
				const line = apply(cut, stack, [from, to]);
				if (!apply(endsWith, line, ["@"]) && line !== "construct@[native code]") out += out === "" ? line : "\n" + line;
				from = to + 1;
			}
			if (out !== stack) define(e, "stack", { __proto__: null, value: out, writable: true, configurable: true });
		}
		if (describe(e, "sourceURL") === undefined) { remove(e, "line"); remove(e, "column"); }
		return e;
	}
	const refuse = (Class, text) => clean(new Class(text));

	// ---- the tally

	const blank = () => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
	let young = blank(), count = 0, fresh = 0, old = 0; // not handed over yet; old is Go's total
	let last; // the object that was charged last

	function flush() {
		shared[COUNT] = count;
		apply(add, undefined, young);
		old = shared[TOTAL];
		young = blank();
		count = fresh = 0;
	}
	// scrub writes over what earlier calls have left on the stack: the collector
	// takes for alive what looks like a reference there.
	function scrub(n) {
		const a = n, b = n, c = n, d = n, e = n, f = n, g = n, h = n;
		return n > 0 ? scrub(n - 1) + a + b + c + d + e + f + g + h : 0;
	}
	// room sees that n bytes more fit, or throws.
	function room(n) {
		if (old + fresh + n + each <= budget) return;
		last = undefined;
		if (n + each <= budget) {
			flush();
			for (let collect = 0; collect < 2; collect++) {
				if (collect === 1) try { scrub(64); } catch { /* no stack is left */ }
				shared[COUNT] = collect;
				sweep();
				old = shared[TOTAL];
				if (old + n + each <= budget) return;
			}
		}
		throw new NativeRangeError("no room for a buffer: all that live may have " + budget + " bytes");
	}
	// note charges n bytes to an object, which it returns.
	function note(object, n) {
		if (count === slots) flush();
		n += each;
		last = object;
		young[count] = object;
		shared[count++] = n;
		fresh += n;
		if (n > large) flush();
		return object;
	}
	// settle charges what may have become more than there was room for.
	function settle(object, n) {
		room(n);
		return note(object, n);
	}

	// ---- who keeps the object with the charge: memory's second object -> it

	const keepers = new NativeWeakMap();
	function keep(other, owner) {
		if (!apply(mapHas, keepers, [other])) apply(mapPut, keepers, [other, owner]);
		return other;
	}

	// ---- looks

	const texts = new NativeWeakMap();
	function native(f, name, length) {
		define(f, "name", { __proto__: null, value: name, configurable: true });
		define(f, "length", { __proto__: null, value: length, configurable: true });
		apply(mapPut, texts, [f, "function " + name + "() {\n    [native code]\n}"]);
		return f;
	}
	// method puts f, a method of an object literal, in place of a built-in one. What
	// the engine throws in it is cleaned; f says itself what a guest's code throws.
	function method(object, name, f) {
		const was = describe(object, name);
		if (was === undefined) return;
		define(object, name, { __proto__: null, value: native(f, name, was.value.length), writable: true, configurable: true });
	}
	function getMethod(object, name, f) {
		define(object, name, { __proto__: null, get: native(f, "get " + name, 0), set: undefined, configurable: true });
	}
	// class_ puts make in place of a class: same prototype, same statics.
	function class_(holder, name, Native, make) {
		native(make, name, Native.length);
		define(make, "prototype", { __proto__: null, value: Native.prototype, writable: false });
		raise(make, above(Native));
		for (let keys = ownKeys(Native), i = 0; i < keys.length; i++) {
			const k = keys[i];
			if (k !== "length" && k !== "name" && k !== "prototype") define(make, k, raised(describe(Native, k)));
		}
		define(Native.prototype, "constructor", { __proto__: null, value: make, writable: true, configurable: true });
		define(holder, name, { __proto__: null, value: make, writable: true, configurable: true });
		return make;
	}
	function raised(d) {
		raise(d, null);
		return d;
	}
	const called = (name) => refuse(NativeTypeError, "calling " + name + " constructor without new is invalid");

	// ---- conversions, as the language's

	const isObject = (v) => typeof v === "object" ? v !== null : typeof v === "function";
	const bytesOf = (n) => n > 0 ? n : 0; // NaN too
	function integer(v) {
		const n = trunc(+v);
		return n === n ? n : 0;
	}
	function isBuffer(v) {
		try { apply(bufferBytes, v, []); return true; } catch { /* no ArrayBuffer */ }
		if (sharedBytes === undefined) return false;
		try { apply(sharedBytes, v, []); return true; } catch { return false; }
	}
	// speciesOf is the class that a method of object makes its result of.
	function speciesOf(object, Usual) {
		const C = object.constructor;
		if (C === undefined) return Usual;
		if (!isObject(C)) throw new NativeTypeError("the constructor is no object");
		const S = C[species];
		return S === undefined || S === null ? Usual : S;
	}

	// ---- classes of typed arrays

	const proxies = new NativeWeakMap();
	let anyProxy = false;
	const isProxy = (v) => anyProxy && apply(mapHas, proxies, [v]);
	const usual = { __proto__: null }; // what is in place of the classes, by name

	// listed is what an iterable gives, as an array without a prototype; undefined
	// for what is none. While it grows it counts as a buffer would.
	function listed(object) {
		const f = object[iterator];
		if (f === undefined || f === null) return undefined;
		const list = [];
		raise(list, null);
		const it = apply(f, object, []);
		if (!isObject(it)) throw new NativeTypeError("the iterator is no object");
		const next = it.next;
		for (let n = 0; ; n++) {
			const step = apply(next, it, []);
			if (!isObject(step)) throw new NativeTypeError("the iterator's result is no object");
			if (step.done) return list;
			if ((n & 1023) === 0) room(8 * n + 8192);
			list[n] = step.value;
		}
	}
	function typed(name) {
		const Native = global[name];
		if (Native === undefined) return;
		const size = Native.BYTES_PER_ELEMENT, few = 1024 / size;
		// of makes an array of an object that is none of a buffer.
		function of(a, Target) {
			const build = (v) => Target === make ? new Native(v) : construct(Native, [v], Target);
			let n;
			if (isView(a) && apply(viewTag, a, []) !== undefined) n = apply(viewLength, a, []);
			else if (isArray(a) && !isProxy(a)) n = a.length;
			if (n !== undefined) {
				room(n * size);
				const made = build(a);
				return settle(made, apply(viewBytes, made, []));
			}
			if (isBuffer(a)) return undefined;
			const list = listed(a), from = list === undefined ? a : list;
			n = min(bytesOf(integer(from.length)), 9007199254740991);
			room(n * size);
			const made = settle(build(n), n * size);
			for (let i = 0; i < n; i++) made[i] = from[i];
			return made;
		}
		const make = function (a, b, c) {
			if (new.target === undefined) throw called(name);
			try {
				if (typeof a === "number" && a >= 0 && a <= few && count < slots) { // most of them
					const n = a * size + each;
					if (old + fresh + n <= budget) {
						const made = new.target === make ? new Native(a) : construct(Native, [a], new.target);
						if (count === slots) return note(made, n - each); // the class's prototype was asked for
						young[count] = last = made;
						shared[count++] = n;
						fresh += n;
						return made;
					}
				}
				if (isObject(a)) {
					const made = b !== undefined && isBuffer(a) ? undefined : of(a, new.target); // only a buffer has an offset
					if (made !== undefined) return made;
					return new.target === make ? new Native(a, b, c) : construct(Native, [a, b, c], new.target);
				}
				if (typeof a !== "number") a = a === undefined ? 0 : +a;
				let n = a * size;
				if (!(n > 0)) n = 0;
				if (old + fresh + n + each > budget) room(n);
				return note(new.target === make ? new Native(a) : construct(Native, [a], new.target), n);
			} catch (e) { throw clean(e); }
		};
		usual[name] = class_(global, name, Native, make);
	}
	const kinds = ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
		"Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array", "Float16Array"];
	for (let i = 0; i < kinds.length; i++) typed(kinds[i]);

	// ---- methods of typed arrays

	// valid throws for what is no typed array, or has lost its memory.
	const valid = (v) => { apply(viewAt, v, [0]); return apply(viewLength, v, []); };
	const isBig = (name) => name === "BigInt64Array" || name === "BigUint64Array";
	function created(like, n) {
		const name = apply(viewTag, like, []), Usual = usual[name], S = speciesOf(like, Usual);
		if (S === Usual) return new Usual(n);
		const made = construct(S, [n]);
		if (valid(made) < n) throw new NativeTypeError("the species made a shorter array");
		if (isBig(apply(viewTag, made, [])) !== isBig(name)) throw new NativeTypeError("the species made an array of another content");
		return made;
	}
	const methods = {
		map(f, of) {
			try {
				const length = valid(this);
				if (typeof f !== "function") throw new NativeTypeError("the callback must be a function");
				const made = created(this, length);
				if (of === undefined) for (let i = 0; i < length; i++) made[i] = f(this[i], i, this);
				else for (let i = 0; i < length; i++) made[i] = apply(f, of, [this[i], i, this]);
				return made;
			} catch (e) { throw clean(e); }
		},
		subarray(start, end) {
			try {
				keep(apply(viewBuffer, this, []), this);
				return apply(viewSub, this, [start, end]);
			} catch (e) { throw clean(e); }
		},
	};
	for (let names = ownKeys(methods), i = 0; i < names.length; i++) method(views, names[i], methods[names[i]]);
	// These make their result last, by the class that the species says, which has
	// charged it then, or by themselves.
	for (let names = ["slice", "filter"], i = 0; i < names.length; i++) {
		const was = views[names[i]];
		method(views, names[i], {
			f(a, b) {
				try {
					const made = apply(was, this, [a, b]);
					return made === last ? made : settle(made, apply(viewBytes, made, []));
				} catch (e) { throw clean(e); }
			},
		}.f);
	}
	// These make their result themselves, of the length of this.
	for (let names = ["with", "toSorted", "toReversed"], i = 0; i < names.length; i++) {
		const name = names[i], was = views[name];
		method(views, name, {
			f(a, b) {
				try {
					room(apply(viewBytes, this, []));
					const made = apply(was, this, [a, b]);
					return settle(made, apply(viewBytes, made, []));
				} catch (e) { throw clean(e); }
			},
		}.f);
	}
	for (let names = ["fromBase64", "fromHex"], i = 0; i < names.length; i++) {
		const name = names[i], was = NativeBytes[name];
		method(global.Uint8Array, name, {
			f(text, options) {
				try {
					if (typeof text === "string") room(text.length); // it gives at most so many bytes
					const made = apply(was, this, [text, options]);
					return settle(made, apply(viewBytes, made, []));
				} catch (e) { throw clean(e); }
			},
		}.f);
	}
	getMethod(views, "buffer", {
		f() {
			try { return keep(apply(viewBuffer, this, []), this); } catch (e) { throw clean(e); }
		},
	}.f);

	// ---- buffers

	// buffer puts a class of buffers in place. One that can grow is charged what it
	// can grow to.
	function buffer(name) {
		const Native = global[name];
		if (Native === undefined) return undefined;
		const prototype = Native.prototype, bytes = getter(prototype, "byteLength");
		const make = function (length, options) {
			if (new.target === undefined) throw called(name);
			try {
				const n = typeof length === "number" ? length : length === undefined ? 0 : +length;
				let most, native = n;
				if (isObject(options)) most = options.maxByteLength;
				if (most !== undefined) native = most = +most;
				native = bytesOf(native);
				room(native);
				const args = most === undefined ? [n] : [n, { __proto__: null, maxByteLength: most }];
				return settle(construct(Native, args, new.target === make ? Native : new.target), native);
			} catch (e) { throw clean(e); }
		};
		class_(global, name, Native, make);
		const was = prototype.slice;
		method(prototype, "slice", {
			f(start, end) {
				try {
					const made = apply(was, this, [start, end]);
					return made === last ? made : settle(made, apply(bytes, made, []));
				} catch (e) { throw clean(e); }
			},
		}.f);
		return prototype;
	}
	const plain = buffer("ArrayBuffer");
	buffer("SharedArrayBuffer");
	for (let names = ["transfer", "transferToFixedLength"], i = 0; i < names.length; i++) {
		const name = names[i], was = plain[name], fixed = i === 1;
		if (was === undefined) continue;
		const resizable = getter(plain, "resizable"), most = getter(plain, "maxByteLength");
		method(plain, name, {
			f(length) {
				try {
					const had = apply(bufferBytes, this, []), grows = apply(resizable, this, []), held = grows ? apply(most, this, []) : had;
					const n = length === undefined ? had : integer(length), needs = grows && !fixed ? held : bytesOf(n);
					// The memory passes over as it is, and its charge with it.
					if (needs === held) return keep(apply(was, this, [n]), owner(this));
					room(needs > held ? needs - held : 0);
					return note(apply(was, this, [n]), needs);
				} catch (e) { throw clean(e); }
			},
		}.f);
	}
	function owner(v) {
		const o = apply(mapGet, keepers, [v]);
		return o === undefined ? v : o;
	}

	// ---- WebAssembly, where the engine has been told to have it: what scripts make
	// and grow. What a module declares for itself is not seen here.

	// read takes the fields of a descriptor once, as numbers, words and truths.
	function read(like, numbers, words) {
		const own = { __proto__: null };
		if (!isObject(like)) throw new NativeTypeError("the descriptor is no object");
		for (let i = 0; i < numbers.length; i++) {
			const v = like[numbers[i]];
			if (v !== undefined) own[numbers[i]] = +v;
		}
		for (let i = 0; i < words.length; i++) {
			const v = like[words[i]];
			if (v !== undefined) own[words[i]] = typeof v === "boolean" ? v : "" + v;
		}
		return own;
	}
	function growing(name, unit, words) {
		const Native = WebAssembly[name], grow = Native.prototype.grow;
		const make = function (like, ...rest) {
			if (new.target === undefined) throw called("WebAssembly." + name);
			try {
				const own = read(like, ["initial", "minimum", "maximum"], words);
				const n = bytesOf(integer(own.initial === undefined ? own.minimum : own.initial)) * unit;
				room(n);
				return settle(construct(Native, rest.length === 0 ? [own] : [own, rest[0]], new.target === make ? Native : new.target), n);
			} catch (e) { throw clean(e); }
		};
		class_(WebAssembly, name, Native, make);
		method(Native.prototype, "grow", {
			f(by, ...rest) {
				try {
					const n = integer(by), more = bytesOf(n) * unit;
					room(more);
					const was = apply(grow, this, rest.length === 0 ? [n] : [n, rest[0]]);
					note(this, more);
					return was;
				} catch (e) { throw clean(e); }
			},
		}.f);
	}
	if (global.WebAssembly !== undefined) {
		growing("Memory", page, ["shared"]);
		growing("Table", entry, ["element"]);
		const prototype = WebAssembly.Memory.prototype, of = getter(prototype, "buffer");
		getMethod(prototype, "buffer", {
			f() {
				try { return keep(apply(of, this, []), this); } catch (e) { throw clean(e); }
			},
		}.f);
		remove(prototype, "toResizableBuffer"); // a second way to grow
		remove(prototype, "toFixedLengthBuffer");
	}

	// ---- the text of what is in place

	const nativeText = Function.prototype.toString;
	method(Function.prototype, "toString", {
		f() {
			const text = isObject(this) ? apply(mapGet, texts, [this]) : undefined;
			if (text !== undefined) return text;
			try { return apply(nativeText, this, []); } catch (e) { throw clean(e); }
		},
	}.f);

	// For guest.js, which says what is a Proxy, and for other scripts, which put
	// functions in place themselves.
	return (object, name, length) => {
		if (name !== undefined) return native(object, name, length);
		anyProxy = true;
		apply(mapPut, proxies, [object, true]);
	};
})
