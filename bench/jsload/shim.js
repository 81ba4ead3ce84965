// What the libraries of the jobs expect of a browser and a bare engine lacks, each only where it is missing. Enough for
// them, and no more: no network, no documents, a Blob that is its bytes.
(function () {
  "use strict"
  const world = globalThis
  const missing = (name, make) => { if (world[name] === undefined) world[name] = make() }

  missing("self", () => world)
  missing("console", () => {
    const none = () => {}
    return { log: none, info: none, warn: none, error: none, debug: none, trace: none }
  })
  missing("queueMicrotask", () => (job) => { Promise.resolve().then(job) })
  // Timers where there is setTimeout and nothing that takes one back.
  if (world.clearTimeout === undefined) {
    const start = setTimeout, waiting = new Set()
    let last = 0
    const after = (id, ms, job) => {
      waiting.add(id)
      start(() => { if (waiting.has(id)) job() }, ms)
      return id
    }
    world.setTimeout = (job, ms = 0, ...args) => {
      const id = ++last
      return after(id, ms, () => { waiting.delete(id); job(...args) })
    }
    world.setInterval = (job, ms = 0, ...args) => {
      const id = ++last, again = () => after(id, ms, () => { again(); job(...args) })
      return again()
    }
    world.clearTimeout = world.clearInterval = (id) => { waiting.delete(id) }
  }
  missing("setImmediate", () => (job, ...args) => setTimeout(job, 0, ...args))
  missing("clearImmediate", () => (id) => clearTimeout(id))
  missing("performance", () => ({ now: () => Date.now(), mark() {}, measure() {} }))
  missing("structuredClone", () => (value) => clone(value, new Map()))

  function clone(value, seen) {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeError("it cannot be cloned")
    if (typeof value !== "object" || value === null) return value
    if (seen.has(value)) return seen.get(value)
    const keep = (copy) => { seen.set(value, copy); return copy }
    if (value instanceof Date) return keep(new Date(value.getTime()))
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags))
    if (value instanceof ArrayBuffer) return keep(value.slice(0))
    if (value instanceof DataView) return keep(new DataView(clone(value.buffer, seen), value.byteOffset, value.byteLength))
    if (ArrayBuffer.isView(value)) return keep(new value.constructor(clone(value.buffer, seen), value.byteOffset, value.length))
    if (value instanceof Map) {
      const copy = keep(new Map())
      for (const [k, v] of value) copy.set(clone(k, seen), clone(v, seen))
      return copy
    }
    if (value instanceof Set) {
      const copy = keep(new Set())
      for (const v of value) copy.add(clone(v, seen))
      return copy
    }
    const copy = keep(Array.isArray(value) ? new Array(value.length) : {})
    for (const key of Object.keys(value)) copy[key] = clone(value[key], seen)
    return copy
  }

  missing("TextEncoder", () => class TextEncoder {
    get encoding() { return "utf-8" }
    encode(text = "") {
      const s = String(text), out = new Uint8Array(3 * s.length)
      let n = 0
      for (let i = 0; i < s.length; i++) {
        let c = s.charCodeAt(i)
        if (c < 0x80) { out[n++] = c; continue }
        if (c < 0x800) { out[n++] = 0xc0 | c >> 6; out[n++] = 0x80 | c & 63; continue }
        if ((c & 0xf800) === 0xd800) {
          const low = c < 0xdc00 ? s.charCodeAt(i + 1) : 0
          if ((low & 0xfc00) === 0xdc00) {
            c = 0x10000 + ((c & 0x3ff) << 10 | low & 0x3ff)
            i++
            out[n++] = 0xf0 | c >> 18; out[n++] = 0x80 | c >> 12 & 63; out[n++] = 0x80 | c >> 6 & 63; out[n++] = 0x80 | c & 63
            continue
          }
          c = 0xfffd // half of a pair
        }
        out[n++] = 0xe0 | c >> 12; out[n++] = 0x80 | c >> 6 & 63; out[n++] = 0x80 | c & 63
      }
      return out.slice(0, n)
    }
  })

  // The inputs of the jobs are well-formed; what is not becomes U+FFFD, byte by byte.
  missing("TextDecoder", () => class TextDecoder {
    get encoding() { return "utf-8" }
    decode(input) {
      if (input === undefined) return ""
      const b = bytesOf(input), part = []
      let text = ""
      for (let i = 0; i < b.length; ) {
        const c = b[i], more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : -1
        let point = more === 0 ? c : more < 0 ? 0xfffd : c & (0x3f >> more)
        let length = 1
        for (; length <= more; length++) {
          if ((b[i + length] & 0xc0) !== 0x80) { point = 0xfffd; length = 1; break }
          point = point << 6 | b[i + length] & 63
        }
        part.push(point > 0x10ffff ? 0xfffd : point)
        i += length
        if (part.length === 4096) text += String.fromCodePoint(...part.splice(0))
      }
      return text + String.fromCodePoint(...part)
    }
  })

  function bytesOf(value) {
    if (value instanceof Uint8Array) return value
    if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    return new Uint8Array(value)
  }

  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  missing("btoa", () => (text) => {
    const s = String(text)
    let out = ""
    for (let i = 0; i < s.length; i += 3) {
      const left = s.length - i
      const word = s.charCodeAt(i) << 16 | (left > 1 ? s.charCodeAt(i + 1) << 8 : 0) | (left > 2 ? s.charCodeAt(i + 2) : 0)
      out += alphabet[word >> 18 & 63] + alphabet[word >> 12 & 63] + (left > 1 ? alphabet[word >> 6 & 63] : "=") + (left > 2 ? alphabet[word & 63] : "=")
    }
    return out
  })
  missing("atob", () => (text) => {
    const s = String(text).replace(/[\s=]/g, "")
    let out = "", held = 0, bits = 0
    for (let i = 0; i < s.length; i++) {
      held = (held << 6 | alphabet.indexOf(s[i])) & 0xffff
      bits += 6
      if (bits >= 8) {
        bits -= 8
        out += String.fromCharCode(held >> bits & 255)
      }
    }
    return out
  })

  missing("Blob", () => class Blob {
    #bytes
    constructor(parts = [], options = {}) {
      const all = Array.from(parts, (p) => p instanceof Blob ? p.#bytes
        : typeof p === "object" && p !== null && (p instanceof ArrayBuffer || ArrayBuffer.isView(p)) ? bytesOf(p) : new TextEncoder().encode(String(p)))
      this.#bytes = new Uint8Array(all.reduce((sum, a) => sum + a.length, 0))
      let at = 0
      for (const a of all) {
        this.#bytes.set(a, at)
        at += a.length
      }
      this.type = options.type === undefined ? "" : String(options.type)
    }
    get size() { return this.#bytes.length }
    async arrayBuffer() { return this.#bytes.slice().buffer }
    async text() { return new TextDecoder().decode(this.#bytes) }
    slice(from, to, type) { return new Blob([this.#bytes.slice(from, to)], { type }) }
  })
  missing("FileReader", () => class FileReader {
    result = null
    onload = null
    onloadend = null
    onerror = null
    #give(promise, form) {
      promise.then((value) => {
        this.result = form(value)
        if (this.onload) this.onload({ target: this })
        if (this.onloadend) this.onloadend({ target: this })
      })
    }
    readAsArrayBuffer(blob) { this.#give(blob.arrayBuffer(), (b) => b) }
    readAsText(blob) { this.#give(blob.text(), (t) => t) }
    readAsDataURL(blob) {
      this.#give(blob.arrayBuffer(), (b) => {
        let text = ""
        for (const byte of new Uint8Array(b)) text += String.fromCharCode(byte)
        return "data:" + (blob.type || "application/octet-stream") + ";base64," + btoa(text)
      })
    }
  })
  // Addresses are carried along and never opened.
  missing("URL", () => class URL {
    constructor(address, base) {
      this.href = base !== undefined && !/^[a-z][a-z0-9+.-]*:/i.test(address) ? String(base).replace(/[^/]*$/, "") + address : String(address)
      this.protocol = (/^[a-z][a-z0-9+.-]*:/i.exec(this.href) || [""])[0]
    }
    toString() { return this.href }
    static createObjectURL() { return "blob:none" }
    static revokeObjectURL() {}
  })
})()
