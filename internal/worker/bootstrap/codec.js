// Values between the engine and Go: docs/wire.md has the layout. Nothing of the
// guest runs in a walk: properties are read by descriptors, kinds are told by
// what only the engine knows, and every intrinsic is captured before the guest.
(function (put, refuse, fail, call, log, settings) {
  "use strict"

  const { apply, construct, defineProperty: define, getOwnPropertyDescriptor: describe, getPrototypeOf: above, ownKeys } = Reflect
  const F64 = Float64Array, U8 = Uint8Array
  const TypedProto = above(Float64Array.prototype)
  const getter = (proto, name) => describe(proto, name).get
  const typedSet = TypedProto.set
  const typedTag = getter(TypedProto, Symbol.toStringTag)
  const typedBuffer = getter(TypedProto, "buffer"), typedOffset = getter(TypedProto, "byteOffset"), typedBytes = getter(TypedProto, "byteLength")
  const viewBuffer = getter(DataView.prototype, "buffer"), viewOffset = getter(DataView.prototype, "byteOffset"), viewBytes = getter(DataView.prototype, "byteLength")
  const bufferBytes = getter(ArrayBuffer.prototype, "byteLength")
  const { isArray } = Array
  const { isView } = ArrayBuffer
  const { getTime } = Date.prototype
  const mapSize = getter(Map.prototype, "size"), setSize = getter(Set.prototype, "size")
  const mapEach = Map.prototype.forEach, setEach = Set.prototype.forEach
  const MapOf = Map, SetOf = Set, DateOf = Date, ErrorOf = Error, TypeErrorOf = TypeError, BufferOf = ArrayBuffer, ViewOf = DataView
  const mapPut = Map.prototype.set, setPut = Set.prototype.add
  const ObjectProto = Object.prototype, ArrayProto = Array.prototype
  const WeakMapOf = WeakMap, weakGet = WeakMap.prototype.get, weakPut = WeakMap.prototype.set
  const { slice } = String.prototype
  const bigText = BigInt.prototype.toString, BigOf = BigInt
  const StringOf = String
  const { isError: engineSays } = Error
  const errorKinds = [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]
  const views = { Int8Array: 1, Uint8Array: 2, Uint8ClampedArray: 3, Int16Array: 4, Uint16Array: 5, Int32Array: 6, Uint32Array: 7,
    Float32Array: 8, Float64Array: 9, BigInt64Array: 10, BigUint64Array: 11, Float16Array: 12 }
  const viewKinds = [undefined, Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array,
    Float32Array, Float64Array, BigInt64Array, BigUint64Array, typeof Float16Array === "undefined" ? undefined : Float16Array, DataView]
  const viewSizes = [1, 1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 2, 1]
  const mostNodes = settings[0], mostDepth = settings[1], mostElements = settings[2]
  const mostHeap = 8 << 20

  // ---- proxies: the constructor notes what it makes

  const proxies = new WeakMapOf()
  const ProxyOf = Proxy, revocable = Proxy.revocable
  const note = (proxy, target) => apply(weakPut, proxies, [proxy, { target, revoked: false }])
  function ProxyShown(target, handler) {
    if (new.target === undefined) throw new TypeErrorOf("calling Proxy constructor without new is invalid")
    const p = new ProxyOf(target, handler)
    note(p, target)
    return p
  }
  const shownRevocable = (target, handler) => {
    const { proxy, revoke } = revocable(target, handler)
    note(proxy, target)
    const entry = apply(weakGet, proxies, [proxy])
    return { proxy, revoke: native(() => { entry.revoked = true; entry.target = undefined; revoke() }, "", 0) }
  }
  const bindTo = Function.prototype.bind
  function native(f, name, length) {
    const g = apply(bindTo, f, [undefined])
    define(g, "name", { __proto__: null, value: name, configurable: true })
    define(g, "length", { __proto__: null, value: length, configurable: true })
    return g
  }
  const ProxyNative = native(ProxyShown, "Proxy", 2)
  define(ProxyNative, "revocable", { __proto__: null, value: native(shownRevocable, "revocable", 2), writable: true, configurable: true })
  define(globalThis, "Proxy", { __proto__: null, value: ProxyNative, writable: true, configurable: true })

  const isProxy = (o) => apply(weakGet, proxies, [o]) !== undefined

  // target is what a proxy stands for in the end; undefined if it was revoked or
  // the chain is longer than 64.
  function target(o) {
    for (let i = 0; i < 64; i++) {
      const entry = apply(weakGet, proxies, [o])
      if (entry === undefined) return o
      if (entry.revoked) return undefined
      o = entry.target
    }
    return undefined
  }

  // isError: by the engine's own test where it has one, else by the chain.
  const isError = engineSays !== undefined ? (o) => engineSays(o) : (o) => {
    for (let p = above(o), i = 0; p !== null && i < 64; i++) {
      if (isProxy(p)) return false
      for (let k = 0; k < errorKinds.length; k++) if (p === errorKinds[k].prototype) return true
      p = above(p)
    }
    return false
  }

  // ---- out: a walk into words, heap and bytes

  let words = new F64(1024), n = 0, heap = "", nodes = 0, depth = 0
  let chunks = null, bytes = 0 // of the bytes part: a list from its last
  let shapes = null, shapeCount = 0 // known shapes, the newest first

  // A refusal that unwinds the walk. It is ours: no guest code is in between.
  let refusal
  const stop = {}
  function refuseWith(kind, message) { refusal = { kind, message }; throw stop }

  function word(x) {
    if (n === words.length) {
      const more = new F64(2 * n)
      apply(typedSet, more, [words])
      words = more
    }
    words[n++] = x
  }

  function text(s) {
    if (heap.length + s.length > mostHeap) refuseWith("result_limit", "more text than a value may have")
    heap += s
  }

  function node() { if (++nodes > mostNodes) refuseWith("result_limit", "more than " + mostNodes + " values") }
  function enter(count) {
    if (++depth > mostDepth) refuseWith("result_limit", "deeper than " + mostDepth + " levels, or a cycle")
    if (count > mostElements) refuseWith("result_limit", "more than " + mostElements + " elements")
    if (nodes + count > mostNodes) refuseWith("result_limit", "more than " + mostNodes + " values")
  }

  function walk(v) {
    node()
    switch (typeof v) {
      case "number": word(4); word(v); return
      case "string": word(6); word(v.length); text(v); return
      case "boolean": word(v ? 3 : 2); return
      case "undefined": word(0); return
      case "bigint": {
        const s = apply(bigText, v, [16])
        if (s.length > 262144) refuseWith("result_limit", "a bigint of more than a million bits")
        word(5); word(s.length); text(s)
        return
      }
      case "function": refuseWith("unsupported", "a function cannot cross"); break
      case "symbol": refuseWith("unsupported", "a symbol cannot cross")
    }
    if (v === null) { word(1); return }
    const o = target(v)
    if (o === undefined) refuseWith("unsupported", "a revoked proxy, or more than 64 of them, cannot cross")
    if (typeof o === "function") refuseWith("unsupported", "a function cannot cross")
    if (isArray(o)) return array(o)
    const proto = above(o)
    if (proto === ObjectProto || proto === null) return object(o)
    if (isView(o)) return view(o)
    if (isError(o)) return error(o)
    let size
    try { size = apply(mapSize, o, []) } catch { size = undefined }
    if (size !== undefined) return map(o, size)
    try { size = apply(setSize, o, []) } catch { size = undefined }
    if (size !== undefined) return set(o, size)
    let time
    try { time = apply(getTime, o, []) } catch { time = undefined }
    if (time !== undefined) { word(11); word(time === 0 ? 0 : time); return }
    try { size = apply(bufferBytes, o, []) } catch { size = undefined }
    if (size !== undefined) return raw(0, o, 0, size)
    object(o)
  }

  // value reads an own property; accessors are refused, since they are code.
  function value(d, key) {
    const v = describe(d, "value")
    if (v === undefined) refuseWith("unsupported", "the accessor " + (apply(slice, key, [0, 100])) + " cannot cross")
    return v.value
  }

  function array(o) {
    const length = describe(o, "length").value
    enter(length)
    word(7); word(length)
    for (let i = 0; i < length; i++) {
      const d = describe(o, i)
      if (d === undefined) { node(); word(16) } else walk(value(d, StringOf(i)))
    }
    depth--
  }

  function object(o) {
    const all = ownKeys(o)
    const count = all.length
    enter(count)
    const keys = list(), values = list()
    for (let i = 0; i < count; i++) {
      const k = all[i]
      if (typeof k !== "string") continue
      const d = describe(o, k)
      if (d === undefined || !d.enumerable) continue
      keys[keys.length++] = k
      values[values.length++] = value(d, k)
    }
    word(8)
    shape(keys)
    for (let i = 0; i < keys.length; i++) walk(values[i])
    depth--
  }

  // list is one without a prototype: what is put into it runs nothing.
  const list = () => ({ __proto__: null, length: 0 })

  function shape(keys) {
    let i = 0
    for (let s = shapes; s !== null && i < 8; s = s.next, i++) {
      if (s.keys.length !== keys.length) continue
      let same = true
      for (let k = 0; same && k < keys.length; k++) same = s.keys[k] === keys[k]
      if (same) { word(s.id); return }
    }
    word(shapeCount)
    word(keys.length)
    for (let k = 0; k < keys.length; k++) word(keys[k].length)
    for (let k = 0; k < keys.length; k++) text(keys[k])
    shapes = { __proto__: null, keys, id: shapeCount++, next: shapes }
  }

  function map(o, size) {
    enter(size)
    if (nodes + 2 * size > mostNodes) refuseWith("result_limit", "more than " + mostNodes + " values")
    word(9); word(size)
    apply(mapEach, o, [(v, k) => { walk(k); walk(v) }])
    depth--
  }

  function set(o, size) {
    enter(size)
    word(10); word(size)
    apply(setEach, o, [(v) => walk(v)])
    depth--
  }

  // part reads a string property up the chain, by descriptors.
  function part(o, key) {
    for (let p = o, i = 0; p !== null && i < 64; i++) {
      if (isProxy(p)) return ""
      const d = describe(p, key)
      if (d !== undefined) {
        const v = describe(d, "value")
        return v !== undefined && typeof v.value === "string" ? v.value : ""
      }
      p = above(p)
    }
    return ""
  }

  function error(o) {
    const name = part(o, "name"), message = part(o, "message")
    word(12); word(name.length); word(message.length); word(0)
    text(name); text(message)
  }

  function view(o) {
    const tag = apply(typedTag, o, [])
    if (tag === undefined) return raw(13, apply(viewBuffer, o, []), apply(viewOffset, o, []), apply(viewBytes, o, []))
    raw(views[tag], apply(typedBuffer, o, []), apply(typedOffset, o, []), apply(typedBytes, o, []))
  }

  function raw(kind, buffer, offset, length) {
    if (bytes + length > 16 << 20) refuseWith("result_limit", "more bytes than a value may have")
    word(13); word(kind); word(length)
    chunks = { __proto__: null, at: bytes, bytes: new U8(buffer, offset, length), next: chunks }
    bytes += length
  }

  function encode(v) {
    n = 0; heap = ""; nodes = 0; depth = 0; chunks = null; bytes = 0; shapes = null; shapeCount = 0; refusal = undefined
    try {
      walk(v)
      let all
      if (bytes > 0) {
        all = new U8(bytes)
        for (let c = chunks; c !== null; c = c.next) apply(typedSet, all, [c.bytes, c.at])
      }
      put(new F64(words.buffer, 0, n), heap, all)
    } catch (e) {
      if (refusal === undefined) refusal = { kind: "result_limit", message: "the value is too large to be read" }
    }
    if (words.length > 1 << 16) words = new F64(1024)
    heap = ""; chunks = null; shapes = null
    return refusal
  }

  // ---- in: words, heap and bytes to a value, by definitions only

  let w, h, b, at, cut, byte, known, knownCount

  function take() { return w[at++] }
  function string() { const s = apply(slice, h, [cut, cut + w[at]]); cut += w[at++]; return s }

  function read() {
    switch (take()) {
      case 0: return undefined
      case 1: return null
      case 2: return false
      case 3: return true
      case 4: return take()
      case 5: {
        const s = string()
        return s[0] === "-" ? -BigOf("0x" + apply(slice, s, [1])) : BigOf("0x" + s)
      }
      case 6: return string()
      case 7: return readArray()
      case 8: return readObject()
      case 9: {
        const m = new MapOf()
        for (let i = 0, count = take(); i < count; i++) { const k = read(); apply(mapPut, m, [k, read()]) }
        return m
      }
      case 10: {
        const s = new SetOf()
        for (let i = 0, count = take(); i < count; i++) apply(setPut, s, [read()])
        return s
      }
      case 11: return new DateOf(take())
      case 12: return readError()
      case 13: return readBytes()
    }
    throw new TypeErrorOf("malformed value")
  }

  function readArray() {
    const count = take(), a = []
    a.length = count
    for (let i = 0; i < count; i++) {
      if (w[at] === 16) { at++; continue }
      define(a, i, { __proto__: null, value: read(), writable: true, enumerable: true, configurable: true })
    }
    return a
  }

  function readObject() {
    const id = take()
    let keys
    if (id === knownCount) {
      const count = take()
      keys = list()
      for (let i = 0; i < count; i++) keys[keys.length++] = w[at + i]
      at += count
      for (let i = 0; i < count; i++) {
        const length = keys[i]
        keys[i] = apply(slice, h, [cut, cut + length])
        cut += length
      }
      known[knownCount++] = keys
    } else {
      keys = known[id]
    }
    const o = {}
    for (let i = 0; i < keys.length; i++) define(o, keys[i], { __proto__: null, value: read(), writable: true, enumerable: true, configurable: true })
    return o
  }

  function readError() {
    const name = w[at], message = w[at + 1], stack = w[at + 2]
    at += 3
    const e = new ErrorOf(apply(slice, h, [cut + name, cut + name + message]))
    define(e, "name", { __proto__: null, value: apply(slice, h, [cut, cut + name]), writable: true, configurable: true })
    define(e, "stack", { __proto__: null, value: "", writable: true, configurable: true })
    cut += name + message + stack
    return e
  }

  function readBytes() {
    const kind = take(), length = take()
    const buffer = new BufferOf(length)
    apply(typedSet, new U8(buffer), [new U8(b === undefined ? buffer : apply(typedBuffer, b, []), byte, length)])
    byte += length
    if (kind === 0) return buffer
    return new viewKinds[kind](buffer, 0, length / viewSizes[kind])
  }

  function decode(words, text, parts) {
    w = words; h = text; b = parts; at = 0; cut = 0; byte = 0; known = { __proto__: null }; knownCount = 0
    const v = read()
    w = h = b = known = undefined
    return v
  }

  // ---- an object as short text, for the console

  function show(object) {
    let left = 1000
    function one(v, level) {
      if (--left < 0) return "…"
      switch (typeof v) {
        case "string": return level === 0 ? v : "'" + v + "'"
        case "function": return "[Function]"
        case "symbol": return "Symbol()"
        case "bigint": return apply(bigText, v, []) + "n"
        case "object": break
        default: return StringOf(v)
      }
      if (v === null) return "null"
      if (isProxy(v)) return "[Proxy]"
      const isList = isArray(v)
      if (level > 2) return isList ? "[Array]" : "[Object]"
      if (isError(v)) return part(v, "name") + ": " + part(v, "message")
      const keys = ownKeys(v)
      let out = "", count = 0
      for (let i = 0; i < keys.length && left >= 0; i++) {
        const k = keys[i]
        if (typeof k !== "string") continue
        const d = describe(v, k)
        if (d === undefined || !d.enumerable) continue
        const x = describe(d, "value")
        out += (count++ === 0 ? "" : ", ") + (isList ? "" : k + ": ") + (x === undefined ? "[Getter]" : one(x.value, level + 1))
        if (out.length > 8192) return apply(slice, out, [0, 8192]) + "…"
      }
      if (isList) return count === 0 ? "[]" : "[ " + out + " ]"
      return count === 0 ? "{}" : "{ " + out + " }"
    }
    return one(object, 0)
  }

  return { encode, decode, isProxy, isError, text: show }
})
