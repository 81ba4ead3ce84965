// What feeds of a session are given before they run: variables of the global
// scope. Evaluated when the guest's world is there and no guest code has run.
//
// A variable is defined as an own property of the global object, so that no setter
// of the guest sees it; where there is one already it gets the value alone.
(function () {
  "use strict"

  const { defineProperty: define, deleteProperty: remove, getOwnPropertyDescriptor: describe, getPrototypeOf: above, isExtensible, ownKeys } = Reflect
  const global = globalThis
  const marker = { __proto__: null }

  // world are the names that mean something before there is a guest.
  const world = { __proto__: null }
  for (let o = global; o !== null; o = above(o)) {
    const keys = ownKeys(o)
    for (let i = 0; i < keys.length; i++) if (typeof keys[i] === "string") world[keys[i]] = true
  }

  const data = (value) => ({ __proto__: null, value, writable: true, enumerable: true, configurable: true })

  // put defines a variable; false where the guest does not let it be.
  function put(name, value) {
    const own = describe(global, name)
    if (own === undefined || own.configurable) return define(global, name, data(value))
    return describe(own, "value") !== undefined && own.writable && define(global, name, { __proto__: null, value })
  }

  // how tells in which way a variable can be given a value: 1 as what it is, by
  // assigning, 2 by defining it, 0 not at all.
  function how(name) {
    const own = describe(global, name)
    if (own === undefined) return isExtensible(global) ? 2 : 0
    if (describe(own, "value") === undefined || !own.writable) return own.configurable ? 2 : 0
    return own.configurable && !own.enumerable ? 2 : 1
  }

  // inputs makes variables of the properties of an object, all of them or none: it
  // returns undefined, or the name that is not to be had.
  function inputs(object) {
    const names = ownKeys(object), ways = { __proto__: null }
    for (let i = 0; i < names.length; i++) if (world[names[i]] || (ways[i] = how(names[i])) === 0) return names[i]
    for (let i = 0; i < names.length; i++) {
      const name = names[i]
      if (ways[i] === 1) global[name] = object[name]
      else define(global, name, data(object[name]))
    }
    return undefined
  }

  // names are those of an object, which are identifiers, in one text.
  function names(object) {
    const keys = ownKeys(object)
    let out = ""
    for (let i = 0; i < keys.length; i++) out += (i === 0 ? "" : ",") + keys[i]
    return out
  }

  // mark gives a global variable a value of ours, so that it shows whether its name
  // means it, and restore what it had. What cannot be had is left as it is.
  let marked
  function mark(name) {
    marked = describe(global, name)
    return put(name, marker) ? marker : undefined
  }
  function restore(name) {
    const own = marked
    marked = undefined
    if (own === undefined) remove(global, name)
    else if (own.configurable) define(global, name, pure(own))
    else define(global, name, { __proto__: null, value: own.value })
  }
  // pure is a descriptor that has nothing but its own.
  function pure(own) {
    return describe(own, "value") !== undefined
      ? { __proto__: null, value: own.value, writable: own.writable, enumerable: own.enumerable, configurable: own.configurable }
      : { __proto__: null, get: own.get, set: own.set, enumerable: own.enumerable, configurable: own.configurable }
  }

  // rebuild defines what of a state is a property of the global object, and keeps the
  // list as one for the script that declares the rest.
  function rebuild(list, name) {
    for (let i = 0; i < list.length; i++) if (list[i][0] === "own") define(global, list[i][1], data(list[i][2]))
    define(global, name, data(list))
  }

  return function (op, a, b) {
    switch (op) {
      case 1: return inputs(a)
      case 2: return names(a)
      case 3: return mark(a)
      case 4: return restore(a)
      case 5: return rebuild(a, b)
      case 6: return remove(global, a)
    }
  }
})
