// The codec, evaluated in a realm of its own: the built-ins that it uses are not
// the guest's, so it may be written as if nobody had touched them. It hands the
// guest's realm nothing but strings, numbers and objects made there.
//
// Of the guest's values it only asks what no guest code answers: typeof, own keys and
// own data properties of what is no Proxy, prototypes, and internal slots. So
// nothing changes while it walks. See docs/wire.md for what it writes.
// Called with one function, deliver(structure, heap, bytes).
(function (deliver) {
	"use strict";
	const UNDEFINED = 0, NULL = 1, FALSE = 2, TRUE = 3, NUMBER = 4, BIGINT = 5, STRING = 6, ARRAY = 7, OBJECT = 8,
		MAP = 9, SET = 10, DATE = 11, ERROR = 12, BYTES = 13, HOLE = 16;
	const kinds = ["ArrayBuffer", "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
		"Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array", "Float16Array", "DataView"];
	const kindOf = new Map(kinds.map((name, kind) => [name, kind]));
	const { keys: ownKeys, getPrototypeOf, getOwnPropertyDescriptor: descriptor, defineProperty: define } = Object;
	const allKeys = Reflect.ownKeys, isArray = Array.isArray, isView = ArrayBuffer.isView, isError = Error.isError;
	const { __lookupGetter__: getterOf, __lookupSetter__: setterOf, hasOwnProperty: has } = Object.prototype;
	const slot = (prototype, name) => descriptor(prototype, name).get;
	const views = getPrototypeOf(Uint8Array.prototype);
	const viewName = slot(views, Symbol.toStringTag), viewBuffer = slot(views, "buffer"), viewOffset = slot(views, "byteOffset"), viewBytes = slot(views, "byteLength");
	const dataBuffer = slot(DataView.prototype, "buffer"), dataOffset = slot(DataView.prototype, "byteOffset"), dataBytes = slot(DataView.prototype, "byteLength");
	const bufferBytes = slot(ArrayBuffer.prototype, "byteLength");
	const mapSize = slot(Map.prototype, "size"), mapEach = Map.prototype.forEach, mapPut = Map.prototype.set;
	const setSize = slot(Set.prototype, "size"), setEach = Set.prototype.forEach, setPut = Set.prototype.add;
	const timeOf = Date.prototype.getTime;
	const maxSteps = 64, keepWords = 1 << 18;

	let guest; // what guest.js gave
	const targets = new WeakMap(); // of each Proxy of the guest
	let proxies = false; // whether there is one
	const classes = new Map(); // what is done with a value by what its prototype is
	const errorNames = new Map();

	// Refusals are thrown inside of this file only, and become the texts that encode returns.
	class Refusal { constructor(code) { this.code = code; } }
	const refuse = (code) => { throw new Refusal(code); };

	let maxNodes = 1000000, maxDepth = 128, maxElements = 1 << 20, maxSize = (1 << 24) - 4096;
	let words = new Float64Array(1024), at = 0, room = 1024, heap = [], strings = 0, units = 0, datas = [], size = 0, nodes = 0, depth = 0, shapes = 0;
	let recent = [], recentNumber = []; // keys of the last shapes by the number of keys
	const ancestors = [];

	function grow(n) {
		if (8 * (at + n) + units + size > maxSize) refuse("size");
		if (at + n > room) reserve(n);
	}
	// reserve makes room that need not all be used.
	function reserve(n) {
		const old = words;
		while (at + n > room) room *= 2;
		words = new Float64Array(room);
		words.set(old);
	}
	function text(s) {
		units += s.length;
		if (8 * at + units + size > maxSize) refuse("size");
		heap[strings++] = s;
		return s.length;
	}
	function enter(v, n) {
		if (n > maxElements) refuse("elements");
		if (depth === maxDepth) refuse(ancestors.includes(v) ? "cycle" : "depth");
		ancestors[depth++] = v;
	}
	// target returns what a chain of Proxies stands for in the end. Array.isArray
	// looks through them as well, and throws where one is revoked; no trap runs.
	function target(proxy) {
		let p = proxy;
		for (let n = 0; targets.has(p); n++) {
			if (n === maxSteps) refuse("proxies");
			p = targets.get(p);
		}
		try { isArray(proxy); } catch { refuse("revoked"); }
		return p;
	}
	function value(v) {
		if (++nodes > maxNodes) refuse("nodes");
		if (at + 8 > room || (nodes & 255) === 0) grow(8);
		switch (typeof v) {
		case "string":
			words[at++] = STRING;
			words[at++] = text(v);
			return;
		case "number":
			words[at++] = NUMBER;
			words[at++] = v;
			return;
		case "object":
			if (v === null) { words[at++] = NULL; return; }
			return object(v);
		case "boolean":
			words[at++] = v ? TRUE : FALSE;
			return;
		case "undefined":
			words[at++] = UNDEFINED;
			return;
		case "bigint":
			words[at++] = BIGINT;
			words[at++] = text(v.toString(16));
			return;
		case "function":
			refuse("function");
		default:
			refuse("symbol");
		}
	}
	// inner writes a value whose container counts it.
	function inner(v) {
		if (typeof v === "object" && v !== null) {
			if (nodes > maxNodes) refuse("nodes");
			if (!proxies && isArray(v)) return array(v);
			if (at + 8 > room) grow(8);
			return object(v);
		}
		nodes--;
		value(v);
	}
	function object(v) {
		if (proxies && targets.has(v)) {
			v = target(v);
			if (typeof v === "function") refuse("function");
		}
		if (isArray(v)) return array(v);
		const prototype = getPrototypeOf(v);
		if (prototype === guest.plain || prototype === null) return plain(v);
		if (isView(v)) return view(v);
		for (let p = prototype, n = 0; p !== null && n < maxSteps && !(proxies && targets.has(p)); p = getPrototypeOf(p), n++) {
			const known = classes.get(p);
			if (known !== undefined) return known(v) || plain(v);
		}
		plain(v);
	}
	// plain writes an object's own enumerable string keys. Most objects have the
	// keys of the last one with as many: then only the number of that shape is written.
	// It is the innermost loop: an interpreter reads shared variables and constants
	// slowly, so it has its own, and the frequent types are written here.
	function plain(v) {
		const keys = ownKeys(v), n = keys.length;
		if (n > maxElements || depth === maxDepth) return enter(v, n);
		ancestors[depth++] = v;
		let a = at;
		if (a + 3 + 3 * n > room || 8 * a + units + size > maxSize) grow(3 + 3 * n);
		const last = n < 64 ? recent[n] : undefined;
		let i = 0, w = words;
		if (last !== undefined) while (i < n && keys[i] === last[i]) i++;
		if (last !== undefined && i === n) {
			w[a] = 8; // OBJECT
			w[a + 1] = recentNumber[n];
			a += 2;
		} else {
			shape(keys, n);
			if (at + 2 * n > room) grow(2 * n);
			w = words, a = at;
		}
		const getter = getterOf, texts = heap;
		let t = strings, u = 0;
		for (i = 0; i < n; i++) {
			const k = keys[i];
			if (getter.call(v, k) !== undefined) refuse("accessor");
			const e = v[k];
			if (typeof e === "string") {
				const length = e.length;
				w[a] = 6; // STRING
				w[a + 1] = length;
				a += 2;
				u += length;
				texts[t++] = e;
			} else if (typeof e === "number") {
				w[a] = 4; // NUMBER
				w[a + 1] = e;
				a += 2;
			} else if (typeof e === "boolean") {
				w[a++] = e ? 3 : 2; // TRUE, FALSE
			} else {
				if (e === undefined && setterOf.call(v, k) !== undefined) refuse("accessor");
				at = a, strings = t, units += u, u = 0;
				inner(e);
				if (at + 2 * (n - i) > room) grow(2 * (n - i));
				w = words, a = at, t = strings;
			}
		}
		at = a, strings = t, units += u, nodes += n;
		depth--;
	}
	function shape(keys, n) {
		words[at++] = OBJECT;
		words[at++] = shapes;
		words[at++] = n;
		for (let i = 0; i < n; i++) words[at++] = text(keys[i]);
		if (n < 64) {
			recent[n] = keys;
			recentNumber[n] = shapes;
		}
		shapes++;
	}
	// indexKeys are indices as strings, which take the engine a fifth of the time
	// that numbers take it as keys. They stay, up to a size.
	const indexKeys = [], maxIndexKeys = 1 << 15;
	function indexKey(i) {
		if (i < indexKeys.length) return indexKeys[i];
		const k = String(i);
		if (i === indexKeys.length && i < maxIndexKeys) indexKeys.push(k);
		return k;
	}
	// usual says whether an array with the usual prototype has no elements but its
	// own, and no Proxy behind it. It is found out once for each encoding.
	let arraysAsUsual;
	function usual() {
		return arraysAsUsual = getPrototypeOf(guest.lists) === guest.plain && !hasIndices(guest.lists) && !hasIndices(guest.plain);
	}
	// hasIndices looks at the first own key alone: indices come before all others.
	function hasIndices(o) {
		const k = allKeys(o)[0];
		return typeof k === "string" && String(k >>> 0) === k;
	}
	// array is as plain is: it has its own variables, and writes the frequent types here.
	function array(v) {
		const n = v.length;
		if (n > maxElements || depth === maxDepth) return enter(v, n);
		ancestors[depth++] = v;
		let a = at;
		if (8 * a + units + size > maxSize) refuse("size");
		if (a + 2 + 2 * n > room) reserve(2 + 2 * n);
		const plainly = getPrototypeOf(v) === guest.lists && (arraysAsUsual ?? usual()), getter = getterOf, texts = heap, known = indexKeys.length;
		let w = words, t = strings, u = 0;
		w[a] = 7; // ARRAY
		w[a + 1] = n;
		a += 2;
		for (let i = 0; i < n; i++) {
			const k = i < known ? indexKeys[i] : indexKey(i);
			const e = (plainly || has.call(v, k)) && getter.call(v, k) === undefined ? v[i] : undefined;
			if (typeof e === "string") {
				const length = e.length;
				w[a] = 6; // STRING
				w[a + 1] = length;
				a += 2;
				u += length;
				texts[t++] = e;
			} else if (typeof e === "number") {
				w[a] = 4; // NUMBER
				w[a + 1] = e;
				a += 2;
			} else if (e === undefined) {
				const own = has.call(v, k);
				if (own && (getter.call(v, k) !== undefined || setterOf.call(v, k) !== undefined)) refuse("accessor");
				w[a++] = own ? UNDEFINED : HOLE;
			} else {
				at = a, strings = t, units += u, u = 0;
				inner(e);
				if (at + 2 * (n - i) > room) reserve(2 * (n - i));
				w = words, a = at, t = strings;
			}
		}
		at = a, strings = t, units += u, nodes += n;
		depth--;
	}
	// bytes writes what of a buffer a view shows, copied once here.
	function bytes(kind, buffer, offset, length) {
		if (8 * at + units + size + length > maxSize) refuse("size");
		grow(3);
		words[at++] = BYTES;
		words[at++] = kind;
		words[at++] = length;
		if (length > 0) datas.push(new Uint8Array(buffer, offset, length));
		size += length;
	}
	function view(v) {
		const name = viewName.call(v);
		try {
			if (name === undefined) return bytes(kindOf.get("DataView"), dataBuffer.call(v), dataOffset.call(v), dataBytes.call(v));
		} catch (e) {
			refuse(e instanceof Refusal ? e.code : "detached");
		}
		const kind = kindOf.get(name);
		if (kind === undefined) refuse("opaque");
		bytes(kind, viewBuffer.call(v), viewOffset.call(v), viewBytes.call(v));
	}
	// The functions of classes answer whether v is what its prototype promises, and write it if so.
	function slotOr(read, v) {
		try { return read.call(v); } catch { return undefined; }
	}
	function buffer(v) {
		const n = slotOr(bufferBytes, v);
		if (n === undefined) return false;
		bytes(0, v, 0, n);
		return true;
	}
	function map(v) {
		const n = slotOr(mapSize, v);
		if (n === undefined) return false;
		enter(v, n);
		grow(2 + 2 * n);
		words[at++] = MAP;
		words[at++] = n;
		mapEach.call(v, (e, k) => { value(k); value(e); });
		depth--;
		return true;
	}
	function set(v) {
		const n = slotOr(setSize, v);
		if (n === undefined) return false;
		enter(v, n);
		grow(2 + n);
		words[at++] = SET;
		words[at++] = n;
		setEach.call(v, value);
		depth--;
		return true;
	}
	function date(v) {
		const ms = slotOr(timeOf, v);
		if (ms === undefined) return false;
		words[at++] = DATE;
		words[at++] = ms;
		return true;
	}
	const box = (read) => (v) => {
		const primitive = slotOr(read, v);
		if (primitive === undefined) return false;
		nodes--;
		value(primitive);
		return true;
	};
	const opaque = () => refuse("opaque");
	// ownText reads an own property of data, if it is a string.
	function ownText(v, k) {
		const d = descriptor(v, k);
		return d !== undefined && typeof d.value === "string" ? d.value : undefined;
	}
	function error(v) {
		if (isError !== undefined && !isError(v)) return false;
		let name;
		for (let p = v, n = 0; name === undefined && p !== null && n < maxSteps && !(proxies && targets.has(p)); p = getPrototypeOf(p), n++)
			name = errorNames.get(p) ?? ownText(p, "name");
		grow(4);
		words[at++] = ERROR;
		words[at++] = text(name ?? "Error");
		words[at++] = text(ownText(v, "message") ?? "");
		words[at++] = text(ownText(v, "stack") ?? "");
		return true;
	}
	function reset() {
		if (room > keepWords) words = new Float64Array(room = 1024);
		at = 0;
		heap = [];
		datas = [];
		recent = [];
		arraysAsUsual = undefined;
		strings = units = size = nodes = depth = shapes = 0;
		ancestors.length = 0;
	}
	// encode hands structure, heap and bytes to deliver, all at once, or returns a
	// text that says why there is no encoding.
	function encode(v) {
		reset();
		try {
			value(v);
			if (nodes > maxNodes) return "nodes";
			if (8 * at + units + size > maxSize) return "size";
			deliver(words.subarray(0, at), heap.join(""), joined());
		} catch (e) {
			return e instanceof Refusal ? e.code : "stack";
		} finally {
			reset();
		}
	}
	function joined() {
		const all = new Uint8Array(size);
		let to = 0;
		for (const d of datas) {
			all.set(d, to);
			to += d.length;
		}
		return all;
	}

	// Decoding. What is read here the host wrote; what it says is checked all the
	// same, and values are made by defining own properties alone.
	let input, inputAt, text16, textAt, input8, byteAt, inputShapes, firsts;
	const property = { __proto__: null, value: undefined, writable: true, enumerable: true, configurable: true };
	const hidden = { __proto__: null, value: undefined, writable: true, enumerable: false, configurable: true };

	function count(limit) {
		const n = input[inputAt++];
		if (!(n >= 0 && n <= limit) || n !== Math.trunc(n)) refuse("malformed");
		return n;
	}
	function read(n) {
		if (n > text16.length - textAt) refuse("malformed");
		return text16.substring(textAt, textAt += n);
	}
	function made() {
		if (++nodes > maxNodes) refuse("nodes");
		switch (input[inputAt++]) {
		case UNDEFINED: return undefined;
		case NULL: return null;
		case FALSE: return false;
		case TRUE: return true;
		case NUMBER: return input[inputAt++];
		case BIGINT: return bigint(read(count(text16.length)));
		case STRING: return read(count(text16.length));
		case ARRAY: return madeArray();
		case OBJECT: return madeObject();
		case MAP: return madeMap();
		case SET: return madeSet();
		case DATE: return new guest.Date(input[inputAt++]);
		case ERROR: return madeError();
		case BYTES: return madeBytes();
		}
		refuse("malformed");
	}
	function bigint(digits) {
		return digits.startsWith("-") ? -BigInt("0x" + digits.slice(1)) : BigInt("0x" + digits);
	}
	function inside(n) {
		if (n > maxElements) refuse("elements");
		if (depth === maxDepth) refuse("depth");
		depth++;
	}
	// madeArray begins with an array that has all its elements, so that setting
	// one finds it and looks no further for a setter.
	function madeArray() {
		const n = count(input.length);
		inside(n);
		const array = n === 0 ? guest.array() : guest.parse("[" + "0,".repeat(n - 1) + "0]");
		for (let i = 0; i < n; i++) {
			if (input[inputAt] === HOLE) {
				inputAt++;
				if (++nodes > maxNodes) refuse("nodes");
				delete array[i];
			} else array[i] = made();
		}
		depth--;
		return array;
	}
	// madeObject defines the properties of the first object of a shape. Those after
	// it begin as a copy of that one, so that setting a property finds it.
	function madeObject() {
		const number = count(inputShapes.length);
		let keys = inputShapes[number];
		if (keys === undefined) {
			const n = count(input.length);
			if (n > maxElements) refuse("elements");
			keys = [];
			for (let i = 0; i < n; i++) keys.push(read(count(text16.length)));
			inputShapes.push(keys);
		}
		const n = keys.length;
		inside(n);
		const first = firsts[number];
		if (first !== undefined) return filled(guest.copy(first), keys, n);
		const object = guest.object();
		for (let i = 0; i < n; i++) {
			const v = made();
			property.value = v;
			define(object, keys[i], property);
		}
		firsts[number] ??= object;
		depth--;
		return object;
	}
	function filled(object, keys, n) {
		const w = input, all = text16;
		for (let i = 0; i < n; i++) {
			const tag = w[inputAt];
			if (tag === 6) { // STRING
				const from = textAt, length = w[inputAt + 1];
				if (!(length >= 0 && length <= all.length - from) || length !== (length | 0)) refuse("malformed");
				object[keys[i]] = all.substring(from, textAt = from + length);
				inputAt += 2;
				nodes++;
			} else if (tag === 4) { // NUMBER
				object[keys[i]] = w[inputAt + 1];
				inputAt += 2;
				nodes++;
			} else object[keys[i]] = made();
		}
		depth--;
		return object;
	}
	function madeMap() {
		const n = count(input.length);
		inside(n);
		const m = new guest.Map();
		for (let i = 0; i < n; i++) {
			const k = made();
			mapPut.call(m, k, made());
		}
		depth--;
		return m;
	}
	function madeSet() {
		const n = count(input.length);
		inside(n);
		const s = new guest.Set();
		for (let i = 0; i < n; i++) setPut.call(s, made());
		depth--;
		return s;
	}
	function own(object, k, v) {
		hidden.value = v;
		define(object, k, hidden);
	}
	// madeError makes an error with the stack that came, or none: the one of
	// here is nobody's business.
	function madeError() {
		const n = count(text16.length), m = count(text16.length), l = count(text16.length);
		const name = read(n), message = read(m), stack = read(l);
		const Class = guest.errors[name] ?? guest.errors.Error;
		const e = name === "AggregateError" ? new Class([], message) : new Class(message);
		for (const k of ["line", "column", "sourceURL"]) delete e[k];
		own(e, "message", message);
		own(e, "stack", stack);
		if (guest.errors[name] === undefined) own(e, "name", name);
		return e;
	}
	function madeBytes() {
		const kind = count(kinds.length - 1), n = count(input8.length - byteAt);
		let buffer;
		try { buffer = new guest.ArrayBuffer(n); } catch { refuse("buffers"); } // it is charged to the guest
		new Uint8Array(buffer).set(input8.subarray(byteAt, byteAt += n));
		if (kind === 0) return buffer;
		const Class = kinds[kind] === "DataView" ? guest.DataView : guest.arrays[kinds[kind]];
		if (Class === undefined || Class !== guest.DataView && n % Class.BYTES_PER_ELEMENT !== 0) refuse("malformed");
		return new Class(buffer);
	}
	// decode returns the value, or throws a text that says why there is none.
	function decode(structure, length, heapText, data) {
		reset();
		input = structure, inputAt = 0, text16 = heapText, textAt = 0, input8 = data, byteAt = 0, inputShapes = [], firsts = [];
		try {
			const v = made();
			if (inputAt !== length || textAt !== text16.length || byteAt !== input8.length) refuse("malformed");
			return v;
		} catch (e) {
			throw e instanceof Refusal ? e.code : "stack";
		} finally {
			input = text16 = input8 = inputShapes = firsts = property.value = hidden.value = undefined;
		}
	}
	return (name) => ({
		encode, decode,
		proxied(proxy, of) {
			proxies = true;
			targets.set(proxy, of);
		},
		// from takes what guest.js gave.
		from(given) {
			guest = given;
			for (const [p, f] of [[guest.maps, map], [guest.sets, set], [guest.dates, date], [guest.buffers, buffer]]) classes.set(p, f);
			for (const name of ["Number", "String", "Boolean", "BigInt", "Symbol"])
				classes.set(guest.boxes[name], box(globalThis[name].prototype.valueOf));
			for (const p of guest.opaque) if (p !== undefined) classes.set(p, opaque);
			for (const name of ownKeys(guest.errors)) errorNames.set(guest.errors[name].prototype, name);
			classes.set(guest.errors.Error.prototype, error);
		},
		isProxy: (v) => proxies && targets.has(v),
		guest: () => guest,
		limits(n, d, e, s) { maxNodes = n, maxDepth = d, maxElements = e, maxSize = s; },
	})[name];
})
