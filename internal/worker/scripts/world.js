// Clock and chance: what a guest may know of time is what its host says, and
// its random numbers come from the host's seed. What is absent unless it was
// asked for is taken away here. It gives back a function that seeds anew and
// moves a clock that stands.
(function (result, call, fail, log, isProxy, settings, look) {
  "use strict"

  const { apply, construct, defineProperty: define, deleteProperty: remove, getOwnPropertyDescriptor: describe, ownKeys } = Reflect
  const bindTo = Function.prototype.bind
  let now = settings[1]
  const frozen = settings[2] === 1, allow = settings[3]

  // shown is a function as a guest sees it: "[native code]", no way back.
  function shown(f, name, length) {
    const g = apply(bindTo, f, [undefined])
    define(g, "name", { __proto__: null, value: name, configurable: true })
    define(g, "length", { __proto__: null, value: length, configurable: true })
    return g
  }
  const method = (object, name, f, length) =>
    define(object, name, { __proto__: null, value: shown(f, name, length), writable: true, configurable: true })

  // ---- chance: xoshiro128**, seeded by the host

  let a = 0, b = 0, c = 0, d = 0
  const imul = Math.imul
  function next() {
    const x = imul(b, 5)
    const result = imul((x << 7) | (x >>> 25), 9) >>> 0
    const t = b << 9
    c ^= a; d ^= b; b ^= c; a ^= d; c ^= t
    d = (d << 11) | (d >>> 21)
    return result
  }
  function seed(s0, s1, s2, s3, s4, s5, s6, s7) {
    a = s0 ^ s4; b = s1 ^ s5; c = s2 ^ s6; d = s3 ^ s7
    if ((a | b | c | d) === 0) a = 1
    for (let i = 0; i < 16; i++) next()
  }
  seed(settings[4], settings[5], settings[6], settings[7], settings[8], settings[9], settings[10], settings[11])
  method(Math, "random", () => ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992, 0)

  // ---- a clock that stands

  if (frozen) {
    const DateOf = Date
    function Clock(...args) {
      if (new.target === undefined) return apply(text, new DateOf(now), [])
      return construct(DateOf, args.length === 0 ? [now] : args, new.target === Clock ? DateOf : new.target)
    }
    const text = DateOf.prototype.toString
    Clock.prototype = DateOf.prototype
    const shownDate = shown(Clock, "Date", 7)
    define(shownDate, "prototype", { __proto__: null, value: DateOf.prototype })
    for (const key of ["parse", "UTC"]) define(shownDate, key, describe(DateOf, key))
    method(shownDate, "now", () => now, 0)
    define(DateOf.prototype, "constructor", { __proto__: null, value: shownDate, writable: true, configurable: true })
    define(globalThis, "Date", { __proto__: null, value: shownDate, writable: true, configurable: true })

    if (typeof Intl === "object") {
      const proto = Intl.DateTimeFormat.prototype
      const get = describe(proto, "format").get
      const WeakMapOf = WeakMap, weakGet = WeakMap.prototype.get, weakPut = WeakMap.prototype.set
      const formats = new WeakMapOf()
      define(proto, "format", {
        __proto__: null, configurable: true,
        get: look({ f() {
          const format = apply(get, this, [])
          let own = apply(weakGet, formats, [this])
          if (own === undefined) {
            own = shown((date) => format(date === undefined ? now : date), "", 1)
            apply(weakPut, formats, [this, own])
          }
          return own
        } }.f, "get format", 0),
      })
      const parts = proto.formatToParts
      define(proto, "formatToParts", {
        __proto__: null, writable: true, configurable: true,
        value: look({ f(date) { return apply(parts, this, [date === undefined ? now : date]) } }.f, "formatToParts", 1),
      })
    }
    remove(globalThis, "Temporal")
  }

  // ---- what is absent unless it was asked for

  const optional = [["WebAssembly", 1], ["SharedArrayBuffer", 2], ["Atomics", 2], ["WeakRef", 4], ["FinalizationRegistry", 4]]
  for (let i = 0; i < optional.length; i++) if ((allow & optional[i][1]) === 0) remove(globalThis, optional[i][0])
  for (const name of ["performance", "ShadowRealm", "$vm", "Loader"]) remove(globalThis, name)

  return (ms, s0, s1, s2, s3, s4, s5, s6, s7) => {
    if (ms !== undefined) now = ms
    if (s0 !== undefined) seed(s0, s1, s2, s3, s4, s5, s6, s7)
  }
})
