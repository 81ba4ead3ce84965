// What is in the guest that was not there at the start: its globals, if they are
// plain data. Evaluated in the codec's realm, whose built-ins no guest reaches.
//
// capture looks at the guest's world before there is any guest code: each object
// that can be reached, its prototype, its properties. state compares all of it and
// reads the rest. No guest code runs: of what may be a Proxy nothing is asked but that.
//
// Called with isProxy(value), encode(value) and guest(), which are the codec's.
(function (isProxy, encode, guestOf) {
	"use strict";
	const { getPrototypeOf, getOwnPropertyDescriptor: descriptor, isExtensible, hasOwn } = Object;
	const keysOf = Reflect.ownKeys, isArray = Array.isArray, isView = ArrayBuffer.isView, isError = Error.isError ?? (() => false);
	const tagOf = Object.prototype.toString;
	const slot = (prototype, name) => descriptor(prototype, name)?.get;
	const views = getPrototypeOf(Uint8Array.prototype), data = DataView.prototype, buffers = ArrayBuffer.prototype;
	const viewName = slot(views, Symbol.toStringTag), viewBuffer = slot(views, "buffer"), viewOffset = slot(views, "byteOffset"), viewBytes = slot(views, "byteLength");
	const dataBuffer = slot(data, "buffer"), dataOffset = slot(data, "byteOffset"), dataBytes = slot(data, "byteLength");
	const bufferBytes = slot(buffers, "byteLength"), resizable = slot(buffers, "resizable"), detached = slot(buffers, "detached");
	const mapSize = slot(Map.prototype, "size"), mapEach = Map.prototype.forEach, setSize = slot(Set.prototype, "size"), setEach = Set.prototype.forEach;
	const timeOf = Date.prototype.getTime;
	const slots = [mapSize, setSize, bufferBytes, BigInt.prototype.valueOf, Symbol.prototype.valueOf]; // of classes that the engine has no tag for
	const maxDepth = 120;

	let global, guest, ours;
	const world = new Map(); // object -> what it was
	const names = new Set(); // keys of the global object
	let seen, path;

	class Refusal { constructor(text) { this.text = text; } }

	// ---- the world

	// isMethod tells a function that has nothing but a length and a name, which most
	// are: of those nothing is noted, since reading it makes the engine make it.
	const isMethod = (v) => typeof v === "function" && !hasOwn(v, "prototype") && v !== guest.functions && !hasOwn(v, "revocable");

	function capture(globalObject, roots, oursOf) {
		global = globalObject, guest = guestOf(), ours = oursOf;
		const todo = [];
		const see = (v, name) => {
			if (!(typeof v === "object" && v !== null || typeof v === "function") || world.has(v)) return;
			world.set(v, { name, prototype: undefined, open: true, keys: undefined, properties: undefined });
			if (!isMethod(v)) todo.push(v);
		};
		see(global, "");
		for (const k of keysOf(global)) { // for the sake of their names
			const f = descriptor(global, k).value;
			if (typeof f === "function") see(descriptor(f, "prototype")?.value, k + ".prototype");
		}
		for (let i = 0; i < roots.length; i++) see(roots[i], "an object of the language");
		for (let i = 0; i < todo.length; i++) {
			const o = todo[i], was = world.get(o), { name } = was, properties = [];
			was.prototype = getPrototypeOf(o);
			was.open = isExtensible(o);
			was.keys = keysOf(o);
			was.properties = properties;
			for (const k of was.keys) {
				const d = descriptor(o, k), at = name === "" ? String(k) : name + "." + String(k);
				properties.push(d);
				see(d.value, at);
				see(d.get, at);
				see(d.set, at);
			}
			see(was.prototype, (name === "" ? "globalThis" : name) + ".__proto__");
		}
		for (const k of world.get(global).keys) names.add(k);
	}

	const alike = (a, b) => a !== undefined && b.get === a.get && b.set === a.set && b.writable === a.writable && b.enumerable === a.enumerable &&
		b.configurable === a.configurable && Object.is(a.value, b.value);

	// compareMethod refuses a method that has more than a length and a name.
	function compareMethod(f, name) {
		const keys = keysOf(f), usual = (k, type) => {
			const d = descriptor(f, k);
			return d !== undefined && typeof d.value === type && !d.writable && !d.enumerable && d.configurable;
		};
		if (keys.length === 2 && usual("length", "number") && usual("name", "string") && isExtensible(f) && getPrototypeOf(f) === guest.functions) return;
		throw new Refusal(name + "." + String(keys.find((k) => k !== "length" && k !== "name") ?? "__proto__") + ": a built-in that was changed");
	}

	// compare refuses a world that is not what it was.
	function compare() {
		for (const [o, was] of world) {
			if (was.keys === undefined) {
				compareMethod(o, was.name);
				continue;
			}
			const own = keysOf(o), changed = (k) => { throw new Refusal((was.name === "" ? "" : was.name + ".") + String(k) + ": a built-in that was changed"); };
			if (getPrototypeOf(o) !== was.prototype || isExtensible(o) !== was.open) changed(o === global ? "globalThis" : "__proto__");
			if (o !== global && own.length !== was.keys.length) changed(own.find((k) => !was.keys.includes(k)) ?? was.keys.find((k) => !own.includes(k)));
			for (let i = 0; i < was.keys.length; i++) {
				const k = was.keys[i];
				if (o !== global && own[i] !== k || !alike(descriptor(o, k), was.properties[i])) changed(k);
			}
		}
	}

	// ---- plain data

	function step(k) {
		if (typeof k === "number") return "[" + k + "]";
		if (typeof k === "symbol") return "[" + String(k) + "]";
		return /^[A-Za-z_$][A-Za-z0-9_$]*$/.test(k) ? "." + k : "[" + JSON.stringify(k.slice(0, 40)) + "]";
	}
	function refuse(why, ...more) {
		let text = path[0];
		for (const k of path.slice(1).concat(more)) text += typeof k === "string" && k.startsWith("\0") ? k.slice(1) : step(k);
		throw new Refusal((text.length > 200 ? text.slice(0, 100) + "…" + text.slice(-100) : text) + ": " + why);
	}
	function within(k, v) {
		path.push(k);
		check(v);
		path.pop();
	}

	function check(v) {
		if (typeof v === "function") refuse("a function");
		if (typeof v === "symbol") refuse("a symbol");
		if (typeof v !== "object" || v === null) return;
		if (isProxy(v)) refuse("a Proxy");
		if (world.has(v)) refuse("a part of the guest's world");
		if (seen.has(v)) refuse("an object that is held twice, or holds itself");
		seen.add(v);
		if (path.length > maxDepth) refuse("nested too deeply");
		if (!isExtensible(v)) refuse("an object that is not extensible");
		const prototype = getPrototypeOf(v);
		if (isArray(v)) return array(v, prototype);
		if (isView(v)) return view(v, prototype);
		switch (prototype) {
		case guest.plain: return plain(v);
		case guest.maps: return slotted(v, mapSize) || map(v);
		case guest.sets: return slotted(v, setSize) || set(v);
		case guest.dates: return slotted(v, timeOf) || bare(v);
		case guest.buffers: return slotted(v, bufferBytes) || buffer(v);
		}
		if (isError(v)) refuse("an Error");
		refuse(prototype === null ? "an object without a prototype" : "an object of another class, or with another prototype");
	}
	// slotted refuses what only has a prototype of a class.
	function slotted(v, read) {
		try { read.call(v); } catch { refuse("an object whose prototype was changed"); }
	}
	const has = (v, read) => { try { read.call(v); return true; } catch { return false; } };
	// bare refuses properties.
	function bare(v) {
		for (const k of keysOf(v)) refuse("a property of what has none", k);
	}
	function property(v, k, as) {
		const d = descriptor(v, k);
		if (!("value" in d)) refuse("an accessor", as);
		if (!d.writable || !d.enumerable || !d.configurable) refuse("a property with other attributes", as);
		within(as, d.value);
	}
	function plain(v) {
		const keys = keysOf(v);
		if (tagOf.call(v) !== "[object Object]" || isError(v) || keys.length === 0 && slots.some((read) => has(v, read))) refuse("an object whose prototype was changed");
		for (const k of keys) {
			if (typeof k === "symbol") refuse("a property named by a symbol", k);
			property(v, k, k);
		}
	}
	function array(v, prototype) {
		if (prototype !== guest.lists) refuse("an array with another prototype");
		if (!descriptor(v, "length").writable) refuse("an array whose length is fixed");
		for (const k of keysOf(v)) {
			if (k === "length") continue;
			if (typeof k === "symbol" || String(k >>> 0) !== k || k === "4294967295") refuse("a property of an array that is no element", k);
			property(v, k, Number(k));
		}
	}
	function map(v) {
		bare(v);
		let i = 0;
		mapEach.call(v, (e, k) => {
			within("\0.keys[" + i + "]", k);
			within("\0.values[" + i++ + "]", e);
		});
	}
	function set(v) {
		bare(v);
		let i = 0;
		setEach.call(v, (e) => within("\0.values[" + i++ + "]", e));
	}
	function buffer(v) {
		bare(v);
		if (resizable?.call(v)) refuse("a buffer that can be resized");
		if (detached?.call(v)) refuse("a detached buffer");
	}
	function view(v, prototype) {
		const name = viewName.call(v), isData = name === undefined;
		if (prototype !== (isData ? guest.DataView.prototype : guest.arrays[name]?.prototype)) refuse("an array with another prototype");
		let b;
		try {
			b = (isData ? dataBuffer : viewBuffer).call(v);
			if ((isData ? dataOffset : viewOffset).call(v) !== 0 || (isData ? dataBytes : viewBytes).call(v) !== bufferBytes.call(b)) b = undefined;
		} catch {
			refuse("a detached buffer");
		}
		if (b === undefined) refuse("a view of a part of a buffer");
		if (isData) bare(v);
		else {
			const keys = keysOf(v), n = viewBytes.call(v) / guest.arrays[name].BYTES_PER_ELEMENT;
			if (keys.length !== n) refuse("a property of an array that is no element", keys[n]);
		}
		path.push("buffer");
		if (getPrototypeOf(b) !== guest.buffers) refuse("an object whose prototype was changed");
		if (seen.has(b)) refuse("a buffer that is held twice");
		seen.add(b);
		if (!isExtensible(b)) refuse("an object that is not extensible");
		buffer(b);
		path.pop();
	}

	// ---- the globals

	// list has an entry for each global, of kind, name and value: of kind let and const
	// for names of the scope, var for those of the global object that var and function make,
	// own for other properties of it.
	function list(lexical, constants, values) {
		const all = [];
		const add = (kind, name, value) => {
			path = [name];
			check(value);
			all.push([kind, name, value]);
		};
		if (lexical !== "") lexical.split(",").forEach((name, i) => add(constants[i] === "1" ? "const" : "let", name, values[i]));
		for (const k of keysOf(global)) {
			if (names.has(k)) continue;
			const d = descriptor(global, k);
			path = [String(k)];
			if (typeof k === "symbol") refuse("a property named by a symbol");
			const whose = ours(k, d.value);
			if (whose === 1) continue;
			if (whose === 2) refuse("a function of the host's that was changed");
			if (!("value" in d)) refuse("an accessor");
			if (!d.writable || !d.enumerable) refuse("a property with other attributes");
			add(d.configurable ? "own" : "var", k, d.value);
		}
		return all.sort((a, b) => a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : a[0] < b[0] ? -1 : 1);
	}

	// state hands over what there is, as encode does, or returns a text that says why not.
	// A word of encode's begins with a point, what else it says with an exclamation mark.
	function state(lexical, constants, values) {
		seen = new Set();
		try {
			compare();
			const word = encode(list(lexical, constants, values));
			return word === undefined ? undefined : "." + word;
		} catch (e) {
			return e instanceof Refusal ? "!" + e.text : ".stack";
		} finally {
			seen = path = undefined;
		}
	}

	return (name) => ({ capture, state })[name];
})
