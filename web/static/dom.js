// Small tools for the document. Text goes in as text, never as HTML.

/** $ is the element with an id. */
export const $ = id => document.getElementById(id)

/** el makes an element: properties are set, those with a dash as attributes. */
export function el(tag, props = {}, ...children) {
  const e = document.createElement(tag)
  for (const [name, value] of Object.entries(props)) {
    if (name.includes("-") || name === "role" || name === "scope") e.setAttribute(name, value)
    else e[name] = value
  }
  e.append(...children.filter(c => c !== null && c !== undefined && c !== ""))
  return e
}

/** fill replaces what an element has. */
export function fill(e, ...children) {
  e.replaceChildren(...children.filter(c => c !== null && c !== undefined && c !== ""))
  return e
}

/** guest is an element with a guest's words: it cannot reorder what is around it. */
export const guest = text => el("bdi", { dir: "ltr", className: "guest" }, visible(text))

// What is not seen, or moves what is seen: controls, marks of direction, tags.
const UNSEEN = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufff9-\ufffc\ufffe\uffff]/gu

/** visible shows by name every character that is not seen; joiners stay, for emoji and scripts. */
export function visible(text) {
  return String(text).replace(UNSEEN, c => {
    const n = c.codePointAt(0)
    if (n < 0x20) return String.fromCharCode(0x2400 + n)
    if (n === 0x7f) return "\u2421"
    return `<U+${n.toString(16).toUpperCase().padStart(4, "0")}>`
  })
}

/** plural is "1 file", "2 files". */
export const plural = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`

/** bytes is a size for a person. */
export function bytes(n) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
  let i = 0
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++ }
  return `${i === 0 ? n : n.toFixed(n < 10 ? 1 : 0)} ${units[i]}`
}

/** ms is a duration for a person. */
export function ms(n) {
  if (n < 1) return "under 1 ms"
  if (n < 1000) return `${Math.round(n)} ms`
  if (n < 60_000) return `${(n / 1000).toFixed(n < 10_000 ? 2 : 1)} s`
  const s = Math.round(n / 1000), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60
  return h ? `${h} h ${m} min` : `${m} min ${s % 60} s`
}
