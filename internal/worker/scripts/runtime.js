// The guest's world, made before any guest code: the console, the functions of
// the host, what is absent, clock and chance. It gives back the one function by
// which Go asks for something.
//
// Nothing here calls or reads what a guest can replace: every intrinsic is
// captured first, properties are read by their descriptors, and what the guest
// gets to see are bound functions, which have no source text and no way back.
//
// Called with what Go does: result(value), call(index, sync, args), fail(kind,
// name, message, stack), log(level, text), proxied(object); the settings; look, and
// what tells a Proxy without Go: of another realm, so it is for where no guest
// code is below, and no error of that realm could reach one.
(function (result, call, fail, log, proxied, settings, look, proxiedBelow) {
  "use strict"

  const { apply, construct, defineProperty: define, deleteProperty: remove, getOwnPropertyDescriptor: describe, getPrototypeOf: above, setPrototypeOf: below, isExtensible } = Reflect
  const global = globalThis
  const bindTo = Function.prototype.bind
  const PromiseOf = Promise, promises = Promise.prototype, { then } = promises
  const plain = Object.prototype, lists = Array.prototype, functions = Function.prototype
  const ours = { __proto__: null, [Symbol.species]: PromiseOf }
  const ErrorOf = Error, TypeErrorOf = TypeError, RangeErrorOf = RangeError
  const { isError: engineSays } = ErrorOf
  const errorProtos = [Error.prototype, AggregateError.prototype]
  const { ownKeys } = Reflect
  const { isArray } = Array
  const maps = Map.prototype, sets = Set.prototype, dates = Date.prototype
  const mapSize = describe(maps, "size").get, setSize = describe(sets, "size").get, { getTime, toISOString: toISO } = dates
  const mapEntries = maps.entries, setValues = sets.values, { next: mapStep } = above(new Map().entries()), { next: setStep } = above(new Set().values())
  const MapOf = Map, { get: mapGet, set: mapSet, delete: mapDelete } = Map.prototype
  const { indexOf, slice, endsWith } = String.prototype
  const StringOf = String
  const hidden = "glovebox:bootstrap"
  const isProxy = (o) => o !== global && proxied(o) // the engine has a stand-in for the global object too

  // ---- what Go needs of values

  // shown is a function as a guest sees it: "[native code]", no prototype.
  function shown(f, name, length) {
    const g = apply(bindTo, f, [undefined])
    define(g, "name", { __proto__: null, value: name, configurable: true })
    define(g, "length", { __proto__: null, value: length, configurable: true })
    return g
  }

  // later is a function that calls f natively: nothing of ours is below it. Making
  // it reads nothing of f, which may have a getter for a length.
  const run = apply(bindTo, apply, [undefined])
  const later = (f, self, args) => apply(bindTo, run, [undefined, f, self, args])

  // pure makes a promise of ours one whose constructor nobody is asked for.
  const pure = (promise) => {
    if (isProxy(promise)) throw new TypeErrorOf("no promise")
    define(promise, "constructor", { __proto__: null, value: undefined, writable: true, configurable: true })
    return promise
  }
  const done = pure(PromiseOf.resolve())

  // find reads a string property by descriptors, up the chain, without running
  // anything.
  function find(object, key) {
    for (let o = object, i = 0; o !== null && i < 64; o = above(o), i++) {
      if (isProxy(o)) return undefined
      const d = describe(o, key)
      if (d === undefined) continue
      const v = describe(d, "value")
      return v !== undefined && typeof v.value === "string" ? v.value : undefined
    }
    return undefined
  }

  // isError: by the engine's own test where it has one, else by the chain.
  function isError(o) {
    if (engineSays !== undefined) return engineSays(o)
    for (let p = above(o), i = 0; p !== null && i < 64; p = above(p), i++) {
      if (isProxy(p)) return false
      if (p === errorProtos[0] || p === errorProtos[1]) return true
    }
    return false
  }

  // frames drops the lines of a stack that are ours: of this script, and of those
  // that have no name.
  function frames(stack) {
    let out = "", from = 0
    while (from < stack.length) {
      let to = apply(indexOf, stack, ["\n", from])
      if (to < 0) to = stack.length
      const line = apply(slice, stack, [from, to])
      if (line !== "" && !apply(endsWith, line, ["@"]) && apply(indexOf, line, [hidden]) < 0 && apply(indexOf, line, ["[native code]"]) < 0) out += out === "" ? line : "\n" + line
      from = to + 1
    }
    return out
  }

  // scrubbed is an error of ours whose stack shows the guest's frames alone.
  function scrubbed(error) {
    const stack = find(error, "stack")
    if (stack !== undefined) define(error, "stack", { __proto__: null, value: frames(stack), writable: true, configurable: true })
    remove(error, "line"); remove(error, "column"); remove(error, "sourceURL")
    return error
  }

  function short(text, most) { return text.length > most ? apply(slice, text, [0, most]) : text }

  // where is the place of a source's error, which the engine has just made.
  function where(thrown) {
    const line = describe(thrown, "line"), column = describe(thrown, "column")
    const at = (d) => d !== undefined && typeof d.value === "number" && d.value > 0 ? d.value : 0
    if (at(line) === 0) return ""
    return " (line " + at(line) + (at(column) === 0 ? ")" : ", column " + at(column) + ")")
  }

  // explain hands over what was thrown; unparsed says that it is the engine's word on
  // a source that is no program.
  function explain(thrown, unparsed) {
    if (typeof thrown !== "object" || thrown === null || isProxy(thrown) || !isError(thrown)) {
      fail("thrown", "", short(inspect(thrown), 8192), "")
      return
    }
    const name = find(thrown, "name"), message = find(thrown, "message"), stack = find(thrown, "stack")
    const at = stack === undefined ? "" : frames(stack)
    fail("thrown", short(name === undefined ? "Error" : name, 256), short(message === undefined ? "" : message, 8192) + (unparsed === true ? where(thrown) : ""), short(at, 8192))
  }

  // ---- an evaluation

  let settled = false, turn = 0

  // strays are promises that were rejected with nobody to handle it, and why. The
  // one that an evaluation comes to is none of them: it is awaited.
  let strays = { __proto__: null }, count = 0
  const stray = (promise, reason) => {
    if (count < 100) strays[count++] = { __proto__: null, promise, reason }
  }
  function report(awaited) {
    const list = strays, n = count
    strays = { __proto__: null }
    count = 0
    for (let i = 0; i < n; i++) if (list[i].promise !== awaited) log(5, "Uncaught (in promise) " + short(inspect(list[i].reason), 8192))
  }

  // isPromise goes by the prototypes; what only looks like one subscribe finds out.
  // Go asks alone.
  function isPromise(o) {
    if (proxiedBelow(o)) return false
    for (let p = above(o), i = 0; p !== null && p !== plain && p !== lists && i < 64; p = above(p), i++) {
      if (p === promises) return true
      if (proxiedBelow(p)) return false
    }
    return false
  }

  // subscribe is then, which would ask a promise for its constructor, and that for
  // its species: for as long as it asks, the promise has one of ours. One that does
  // not let it have that is asked in a job of its own, with nothing of ours below.
  function subscribe(promise, good, bad, none) {
    const own = describe(promise, "constructor"), maker = { __proto__: null, value: ours, writable: true, enumerable: false, configurable: true }
    if (!define(promise, "constructor", maker)) {
      const asked = pure(apply(then, done, [later(then, promise, [good, bad])]))
      apply(then, asked, [undefined, none])
      return
    }
    let seen = true
    try { apply(then, promise, [good, bad]) } catch { seen = false }
    if (own === undefined) remove(promise, "constructor")
    else define(promise, "constructor", bare(own))
    if (!seen) none()
  }
  function bare(descriptor) {
    below(descriptor, null)
    return descriptor
  }

  function settle(value) {
    report(value)
    settled = false
    const mine = ++turn // what an earlier evaluation awaited answers no later one
    if (typeof value === "object" && value !== null && isPromise(value)) {
      const end = (f) => (v) => { if (mine === turn && !settled) { settled = true; f(v) } }
      subscribe(value, end(result), end(explain), end(() => result(value)))
      return
    }
    settled = true
    result(value)
  }

  // ---- functions of the host

  const bound = new MapOf() // path -> slot: index, async
  const spaces = new MapOf() // path -> object of ours
  const members = new MapOf() // path -> either, once it is there
  const waiting = new MapOf() // call id -> resolve, reject

  // ask calls the host; up to three arguments are given one by one beside the
  // array of them.
  function ask(slot, sync, args) {
    switch (args.length) {
      case 0: return call(slot.index, sync, args)
      case 1: return call(slot.index, sync, args, args[0])
      case 2: return call(slot.index, sync, args, args[0], args[1])
      case 3: return call(slot.index, sync, args, args[0], args[1], args[2])
    }
    return call(slot.index, sync, args, 0, 0, 0, 0)
  }

  function callSync(slot, args) {
    try {
      return ask(slot, true, args)
    } catch (e) {
      throw scrubbed(e)
    }
  }

  function callAsync(slot, args) {
    return construct(PromiseOf, [(resolve, reject) => {
      let id
      try { id = ask(slot, false, args) } catch (e) { reject(scrubbed(e)); return }
      apply(mapSet, waiting, [id, { __proto__: null, resolve, reject }])
    }])
  }

  function answer(id, good, a, b) {
    const w = apply(mapGet, waiting, [id])
    if (w === undefined) return
    apply(mapDelete, waiting, [id])
    if (!good) w.reject(error(a, b))
    else if (typeof a !== "object" || a === null) w.resolve(a)
    else apply(then, done, [later(w.resolve, undefined, [a])]) // resolving asks the guest's Object.prototype for a then
  }

  function error(name, message) {
    const known = name === "RangeError" ? RangeErrorOf : name === "TypeError" ? TypeErrorOf : ErrorOf
    const e = new known(message)
    if (name !== "Error" && known === ErrorOf) define(e, "name", { __proto__: null, value: name, writable: true, configurable: true })
    return scrubbed(e)
  }

  // taken tells whether a name means something already, wherever it comes from.
  function taken(object, name) {
    for (let o = object, i = 0; o !== null; o = above(o), i++) {
      if (i > 64 || isProxy(o) || describe(o, name) !== undefined) return true
    }
    return false
  }

  // bind defines a function under a path, and returns what its first part is now.
  function bind(index, path, isAsync) {
    const old = apply(mapGet, bound, [path])
    if (old !== undefined) { // revoked before
      old.index = index
      old.isAsync = isAsync
      return undefined
    }
    let target = global, from = 0, first
    for (;;) {
      const dot = apply(indexOf, path, [".", from])
      const end = dot < 0 ? path.length : dot
      const name = apply(slice, path, [from, end])
      let member
      if (dot < 0) {
        const slot = { index, isAsync }
        apply(mapSet, bound, [path, slot])
        member = shown((...args) => slot.isAsync ? callAsync(slot, args) : callSync(slot, args), name, 0)
      } else {
        member = apply(mapGet, spaces, [apply(slice, path, [0, end])])
      }
      if (member === undefined || dot < 0) {
        if (taken(target, name)) { apply(mapDelete, bound, [path]); fail("bind_failed", "Error", "the guest has " + name, ""); return undefined }
        if (member === undefined) {
          member = {}
          apply(mapSet, spaces, [apply(slice, path, [0, end]), member])
        }
        if (!define(target, name, { __proto__: null, value: member, enumerable: true })) {
          apply(mapDelete, bound, [path])
          fail("bind_failed", "Error", "the guest does not let " + name + " be defined", "")
          return undefined
        }
        apply(mapSet, members, [apply(slice, path, [0, end]), member])
      }
      if (first === undefined) first = member
      if (dot < 0) return first
      target = member
      from = dot + 1
    }
  }

  // made tells of a property of the global object whether bind has made it: 0, or 2
  // if the guest has changed something of it, or 1.
  function made(name, value) {
    const top = apply(mapGet, members, [name])
    if (top === undefined) return 0
    return top === value && untouched(name, top) ? 1 : 2
  }
  function untouched(path, member) {
    const keys = ownKeys(member)
    if (!isExtensible(member)) return false
    if (typeof member === "function") return keys.length === 2 && above(member) === functions
    for (let i = 0; i < keys.length; i++) {
      const at = typeof keys[i] === "string" ? path + "." + keys[i] : ""
      const own = apply(mapGet, members, [at])
      if (own === undefined || !untouched(at, own)) return false
    }
    return above(member) === plain
  }

  // ---- the console

  // inspect is a value as text: short, without running anything of the guest.
  function inspect(value) {
    switch (typeof value) {
      case "string": return value
      case "number": case "boolean": case "undefined": case "bigint": return StringOf(value)
      case "symbol": return "Symbol()"
      case "function": return "[Function]"
    }
    if (value === null) return "null"
    if (isProxy(value)) return "[Proxy]"
    if (isError(value)) {
      const name = find(value, "name"), message = find(value, "message")
      return (name === undefined ? "Error" : name) + (message === undefined || message === "" ? "" : ": " + message)
    }
    return show(value)
  }

  // kindOf is the prototype of Map, Set or Date that an object has, if it is one.
  function kindOf(o) {
    for (let p = above(o), i = 0; p !== null && p !== plain && p !== lists && i < 64; p = above(p), i++) {
      const read = p === maps ? mapSize : p === sets ? setSize : p === dates ? getTime : undefined
      if (read !== undefined) {
        try { apply(read, o, []); return p } catch { return undefined }
      }
      if (isProxy(p)) return undefined
    }
    return undefined
  }

  // show is an object, three levels of it and a thousand parts.
  function show(object) {
    let left = 1000
    const most = 8192
    function one(v, level) {
      if (--left < 0) return "…"
      if (typeof v === "string") return "'" + short(v, most) + "'"
      if (typeof v === "bigint") return StringOf(v) + "n"
      if (typeof v !== "object" || v === null || isProxy(v) || isError(v)) return inspect(v)
      const list = isArray(v), kind = list ? undefined : kindOf(v)
      if (kind === dates) return date(v)
      if (level > 2) return list ? "[Array]" : kind === maps ? "[Map]" : kind === sets ? "[Set]" : "[Object]"
      let out = kind === undefined ? "" : entries(v, kind, level)
      const keys = ownKeys(v)
      let next = 0 // index
      const add = (text) => { out += (out === "" ? "" : ", ") + text }
      const gap = (to) => {
        if (to > next && left >= 0) add("<" + (to - next) + (to - next === 1 ? " empty item>" : " empty items>"))
      }
      for (let i = 0; i < keys.length && left >= 0 && out.length <= most; i++) {
        const k = keys[i]
        if (typeof k !== "string") continue
        const d = describe(v, k)
        if (d === undefined) continue
        const index = list && StringOf(k >>> 0) === k
        if (index) { gap(k >>> 0); next = (k >>> 0) + 1 }
        if (!d.enumerable) continue
        const x = describe(d, "value")
        add((index ? "" : short(k, 256) + ": ") + (x === undefined ? "[Getter]" : one(x.value, level + 1)))
      }
      if (list && out.length <= most) gap(describe(v, "length").value)
      if (out.length > most) out = short(out, most) + "…"
      const size = kind === maps ? "Map(" + apply(mapSize, v, []) + ") " : kind === sets ? "Set(" + apply(setSize, v, []) + ") " : ""
      if (list) return out === "" ? "[]" : "[ " + out + " ]"
      return size + (out === "" ? "{}" : "{ " + out + " }")
    }
    // entries are those of a Map or Set, by the language's own iterators.
    function entries(v, kind, level) {
      const iterator = apply(kind === maps ? mapEntries : setValues, v, []), step = kind === maps ? mapStep : setStep
      let out = ""
      while (left >= 0 && out.length <= most) {
        const { done, value } = apply(step, iterator, [])
        if (done) break
        out += (out === "" ? "" : ", ") + (kind === maps ? one(value[0], level + 1) + " => " + one(value[1], level + 1) : one(value, level + 1))
      }
      return out
    }
    function date(v) {
      const ms = apply(getTime, v, [])
      return ms !== ms ? "Invalid Date" : apply(toISO, v, [])
    }
    return one(object, 0)
  }

  const levels = { log: 1, debug: 2, info: 3, warn: 4, error: 5, trace: 2 }
  const most = settings[0]
  const console = {}
  for (const name of ["log", "debug", "info", "warn", "error", "trace"]) {
    const level = levels[name]
    const print = (...args) => {
      let text = ""
      for (let i = 0; i < args.length && text.length <= most; i++) text += (i === 0 ? "" : " ") + short(inspect(args[i]), most + 1)
      log(level, text)
    }
    define(console, name, { __proto__: null, value: shown(print, name, 0), writable: true, configurable: true, enumerable: true })
  }
  define(global, "console", { __proto__: null, value: console, writable: true, configurable: true })

  // ---- timers, on a time of their own: when nothing else is left to do, the next
  // one's turn has come. A heap by time and number; entries without a prototype.

  const mostTimers = 10000
  const heap = { __proto__: null }
  let size = 0, clock = 0, number = 0
  const live = new MapOf() // id -> entry

  const before = (x, y) => x.at < y.at || x.at === y.at && x.id < y.id
  function push(entry) {
    let i = size++
    for (; i > 0; ) {
      const up = (i - 1) >> 1
      if (!before(entry, heap[up])) break
      heap[i] = heap[up]
      i = up
    }
    heap[i] = entry
  }
  function pop() {
    const top = heap[0], last = heap[--size]
    heap[size] = undefined
    if (size > 0) {
      let i = 0
      for (;;) {
        let kid = 2 * i + 1
        if (kid >= size) break
        if (kid + 1 < size && before(heap[kid + 1], heap[kid])) kid++
        if (!before(heap[kid], last)) break
        heap[i] = heap[kid]
        i = kid
      }
      heap[i] = last
    }
    return top
  }

  function delay(ms) {
    if (typeof ms !== "number" || !(ms >= 1)) return 1 // NaN too
    return ms > 2147483647 ? 1 : ms
  }

  function schedule(callback, ms, args, every) {
    if (typeof callback !== "function") throw scrubbed(new TypeErrorOf("the callback must be a function"))
    if (size >= mostTimers) throw scrubbed(new RangeErrorOf("more than " + mostTimers + " timers"))
    const entry = { __proto__: null, id: ++number, at: clock + delay(ms), every: every ? delay(ms) : 0, run: later(callback, undefined, args), off: false }
    apply(mapSet, live, [entry.id, entry])
    push(entry)
    return entry.id
  }

  function cancel(id) {
    const entry = apply(mapGet, live, [id])
    if (entry === undefined) return
    entry.off = true
    apply(mapDelete, live, [id])
  }

  // tick runs the next timer, as a job of its own so that no frame of ours is
  // below it; false when there is none.
  function tick() {
    while (size > 0) {
      const entry = pop()
      if (entry.off) continue
      clock = entry.at
      if (entry.every > 0) {
        entry.at = clock + entry.every
        push(entry)
      } else {
        apply(mapDelete, live, [entry.id])
      }
      apply(then, pure(apply(then, done, [entry.run])), [undefined, (e) => log(5, "Uncaught " + short(inspect(e), 8192))])
      return true
    }
    return false
  }

  // timed tells whether there is one.
  function timed() {
    for (let i = 0; i < size; i++) if (!heap[i].off) return true
    return false
  }

  const globals = {
    setTimeout: [(f, ms, ...args) => schedule(f, ms, args, false), 2],
    setInterval: [(f, ms, ...args) => schedule(f, ms, args, true), 2],
    clearTimeout: [(id) => cancel(id), 1],
    clearInterval: [(id) => cancel(id), 1],
  }
  for (const name of ["setTimeout", "setInterval", "clearTimeout", "clearInterval"]) {
    define(global, name, { __proto__: null, value: shown(globals[name][0], name, globals[name][1]), writable: true, configurable: true })
  }

  // ---- dispatch

  return function (op, a, b, c, d) {
    switch (op) {
      case 1: return bind(a, b, c)
      case 2: return settle(a)
      case 3: report(); return settled
      case 4: return answer(a, b, c, d)
      case 5: report(); return explain(a, b)
      case 6: return error(a, b)
      case 7: return tick()
      case 8: return a === b
      case 9: return stray(a, b)
      case 10: return { __proto__: null, scrubbed, shown, find, isProxy, pure, later, error }
      case 11: return made
      case 12: return timed()
    }
  }
})
