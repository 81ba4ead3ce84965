// Modules, of which the engine's C API knows nothing: objects that link them. Go
// loads modules, parses them, resolves names and says what runs when; each module
// is a function here that Go has made of its source (internal/script). Nothing in
// this file is ever below the code of a module on the stack: Go calls that itself.
//
// Called with what runtime.js gives, and with what Go does: request(importer,
// id, specifier, type), settled(number, ok, error).
(function (given, request, settled) {
  "use strict"

  const { scrubbed, shown, find, isProxy, pure, later, error } = given
  const { apply, construct, defineProperty: define, getOwnPropertyDescriptor: describe, ownKeys, preventExtensions, setPrototypeOf } = Reflect
  const { then } = Promise.prototype
  const PromiseOf = Promise
  const classes = { __proto__: null, TypeError, SyntaxError, RangeError }
  const { next } = Object.getPrototypeOf(function* () {}).prototype
  const { forEach } = Array.prototype
  const step = Function.prototype.bind.call(Function.prototype.call, next)
  const { parse } = JSON
  const tag = Symbol.toStringTag
  const StringOf = String

  const modules = { __proto__: null } // number -> record
  const waiting = { __proto__: null } // id of an import -> resolve, reject
  let ids = 0

  const put = (object, key, value, enumerable) => define(object, key, { __proto__: null, value, enumerable })
  const append = (list, value) => define(list, list.length, { __proto__: null, value, writable: true, enumerable: true, configurable: true })

  // failure is an error of the guest's, of its own class.
  function failure(kind, message) {
    const Class = classes[kind]
    return Class === undefined ? error(kind, message) : scrubbed(new Class(message))
  }

  // kindOf reads the attributes of an import(…): data alone, no code of the guest.
  function kindOf(options) {
    if (options === undefined) return ""
    if (typeof options !== "object" || options === null || isProxy(options)) return undefined
    const w = describe(options, "with")
    if (w === undefined) return ""
    const list = describe(w, "value") === undefined ? undefined : w.value
    if (list === undefined) return describe(w, "value") === undefined ? undefined : ""
    if (typeof list !== "object" || list === null || isProxy(list)) return undefined
    const keys = ownKeys(list)
    if (keys.length === 0) return ""
    return keys.length === 1 && keys[0] === "type" && find(list, "type") === "json" ? "json" : undefined
  }

  // importer is import as a module has it, or the scripts for number -1.
  function importer(number) {
    return shown((specifier, options) => construct(PromiseOf, [(resolve, reject) => {
      const kind = kindOf(options)
      if (kind === undefined) { reject(failure("TypeError", "the only attribute of an import is type, and its only value \"json\"")); return }
      const type = typeof specifier
      if (type === "symbol" || type === "function" || type === "object" && specifier !== null) {
        reject(failure("TypeError", "the specifier of an import must be a string"))
        return
      }
      const id = ++ids
      try { request(number, id, StringOf(specifier), kind) } catch (e) { reject(scrubbed(e)); return }
      waiting[id] = { __proto__: null, resolve, reject }
    }]), "import", 1)
  }

  // make makes the record of a module.
  function make(number, name, isAsync) {
    const m = { __proto__: null, name, link: { __proto__: null }, getters: undefined, entries: [], done: false, started: false, body: undefined, gate: undefined, open: undefined, namespace: undefined }
    modules[number] = m
    const own = importer(number)
    const meta = { __proto__: null }
    define(meta, "url", { __proto__: null, value: name, writable: true, enumerable: true, configurable: true })
    define(own, "meta", { __proto__: null, value: meta, enumerable: true })
    put(m.link, "import", own, false)
    put(m.link, "export", shown((...getters) => {
      if (m.getters === undefined) { setPrototypeOf(getters, null); m.getters = getters }
    }, "export", 0), false)
    if (isAsync) m.gate = pure(construct(PromiseOf, [(resolve) => { m.open = resolve }]))
    define(m.link, "yield", { __proto__: null, get: shown(() => { m.started = true; return m.gate }, "yield", 0) })
  }

  // begin calls the function of a module, without a this.
  const begin = (number, f) => later(f, undefined, [modules[number].link])

  // json is a module that is a value.
  function json(number, name, text) {
    let value
    try { value = parse(text) } catch { throw failure("SyntaxError", name + " is no JSON") }
    modules[number] = { __proto__: null, name, getters: { __proto__: null, 0: () => value }, entries: [], done: true, started: true, namespace: undefined }
  }

  // reader gives the value of an export: all of a module for the index -1. It is
  // the module's own function: what it throws has no frame of ours.
  const reader = (target, index) => index < 0 ? () => namespace(target) : modules[target].getters[index]

  // bind gives a module a name of another one, whose function has begun.
  function bind(number, local, target, index) {
    define(modules[number].link, local, { __proto__: null, get: shown(reader(target, index), local, 0), enumerable: true })
  }

  // name gives the namespace of a module one more name; they come in their order.
  function name(number, key, target, index, fixed) {
    append(modules[number].entries, { __proto__: null, key, target, index, fixed })
  }

  // settles tells whether an entry has the value that it will keep.
  const settles = (e) => e.index < 0 || e.fixed && modules[e.target].done

  // namespace is all that a module exports, as an object.
  function namespace(number) {
    const m = modules[number]
    if (m.namespace !== undefined) return m.namespace
    const object = { __proto__: null }
    m.namespace = object
    for (let i = 0; i < m.entries.length; i++) {
      const e = m.entries[i], read = reader(e.target, e.index)
      if (settles(e)) put(object, e.key, read(), true)
      else define(object, e.key, { __proto__: null, get: shown(read, e.key, 0), enumerable: true })
    }
    put(object, tag, "Module", false)
    preventExtensions(object)
    return object
  }

  // values are the exports of a module that can cross: functions stay here, and a
  // namespace that is being looked at already.
  function values(number) {
    let left = 1000000
    const path = { __proto__: null }
    function one(number) {
      const out = {}
      const { entries } = modules[number]
      path[number] = true
      for (let i = 0; i < entries.length; i++) {
        const e = entries[i]
        if (--left < 0) throw failure("RangeError", "too many exports")
        if (e.index < 0 && path[e.target]) continue
        const value = e.index < 0 ? one(e.target) : reader(e.target, e.index)()
        if (typeof value !== "function") define(out, e.key, { __proto__: null, value, writable: true, enumerable: true, configurable: true })
      }
      path[number] = false
      return out
    }
    return one(number)
  }

  // hold takes what the function of a module has given: a promise is listened to.
  function hold(number, body) {
    const m = modules[number]
    m.body = body
    if (m.gate === undefined) return
    apply(then, pure(body), [() => { m.done = true; settled(number, true) }, (e) => settled(number, false, e)])
  }

  // batch is a function that runs the bodies of modules, one after the other,
  // without anything of ours in between.
  function batch(numbers) {
    const bodies = []
    for (let i = 1; i < numbers.length; i++) append(bodies, modules[numbers[i]].body)
    return later(forEach, bodies, [step])
  }

  // finish settles an import(…).
  function finish(id, good, value) {
    const w = waiting[id]
    delete waiting[id]
    if (w === undefined) return
    if (good) w.resolve(namespace(value)); else w.reject(value)
  }

  // first runs the beginning of a module, up to where its body begins.
  const first = (number) => later(next, modules[number].body, [])

  return function (op, a, b, c, d, e) {
    switch (op) {
      case 1: return make(a, b, c)
      case 2: return json(a, b, c)
      case 3: return bind(a, b, c, d)
      case 4: return name(a, b, c, d, e)
      case 5: return hold(a, b)
      case 6: return first(a)
      case 7: return batch(arguments)
      case 8: return modules[a].open
      case 9: modules[a].done = true; return undefined
      case 10: return modules[a].started
      case 11: return values(a)
      case 12: return finish(a, b, c)
      case 13: return failure(a, b)
      case 14: return importer(-1)
      case 15: return begin(a, b)
    }
  }
})
