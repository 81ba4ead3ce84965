// What a program prints, shown safely: colours by an allow-list, everything else that a
// terminal would obey is dropped or made visible. Every line belongs to one stream.

import { el, plural, visible } from "./dom.js"

// Bounds of what is kept in the document: characters, each piece of a line for several.
const MAX_COST = 300_000
const NODE = 30
const MAX_LINE = 4000      // characters; longer ones are folded
const MAX_SEQUENCE = 256   // a longer one is none

// One whole control sequence: CSI, a string (OSC, DCS, APC, PM, SOS) with its end, or
// another of two or three characters. See ECMA-48.
const SEQUENCE = /^\x1b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/
// The beginning of one that may still become whole.
const BEGUN = /^\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)$/

// What a line that is not standard output begins with for who does not see its colour.
const SPOKEN = { stderr: "standard error: ", stdin: "you typed: " }

/** Style is what SGR may change: two of sixteen colours, and four attributes. */
class Style {
  fg = null
  bg = null
  bold = false
  faint = false
  italic = false
  underline = false
  inverse = false

  get classes() {
    const names = []
    const [fg, bg] = this.inverse ? [this.bg ?? "back", this.fg ?? "fore"] : [this.fg, this.bg]
    if (bg !== null) names.push(`bg-${bg}`)
    else if (fg !== null) names.push(`fg-${fg}`)
    for (const a of ["bold", "faint", "italic", "underline"]) if (this[a]) names.push(a)
    return names.join(" ")
  }

  /** apply takes the parameters of one SGR sequence; what it does not know it skips. */
  apply(params) {
    const n = params.split(/[;:]/, 32).map(p => Number(p) || 0)
    for (let i = 0; i < n.length; i++) {
      const p = n[i]
      if (p === 0) Object.assign(this, new Style())
      else if (p === 1) this.bold = true
      else if (p === 2) this.faint = true
      else if (p === 3) this.italic = true
      else if (p === 4) this.underline = true
      else if (p === 7) this.inverse = true
      else if (p === 22) this.bold = this.faint = false
      else if (p === 23) this.italic = false
      else if (p === 24) this.underline = false
      else if (p === 27) this.inverse = false
      else if (p === 39) this.fg = null
      else if (p === 49) this.bg = null
      else if (p >= 30 && p <= 37) this.fg = p - 30
      else if (p >= 40 && p <= 47) this.bg = p - 40
      else if (p >= 90 && p <= 97) this.fg = p - 82
      else if (p >= 100 && p <= 107) this.bg = p - 92
      else if (p === 38 || p === 48) {
        const palette = n[i + 1] === 5
        const color = palette ? indexed(n[i + 2]) : nearest(n[i + 2], n[i + 3], n[i + 4])
        if (p === 38) this.fg = color
        else this.bg = color
        i += palette ? 2 : 4
      }
    }
  }
}

/** indexed is one of 256 colours as one of our sixteen, whose contrast is known. */
function indexed(n = 0) {
  if (n < 16) return n
  if (n >= 232) return nearest(...Array(3).fill(8 + (n - 232) * 10))
  const level = i => [0, 95, 135, 175, 215, 255][i]
  n -= 16
  return nearest(level(Math.floor(n / 36) % 6), level(Math.floor(n / 6) % 6), level(n % 6))
}

function nearest(r = 0, g = 0, b = 0) {
  const top = Math.max(r, g, b), low = Math.min(r, g, b)
  if (top - low < 40) return top < 64 ? 0 : top < 150 ? 8 : top < 220 ? 7 : 15
  const bit = v => v > (top + low) / 2 ? 1 : 0
  return bit(r) + 2 * bit(g) + 4 * bit(b) + (low > 80 || top > 230 ? 8 : 0)
}

/** Screen shows the output of one run in an element. */
export class Screen {
  #box
  #streams
  #lines
  #cost
  #dropped
  #queued
  #frame = 0

  constructor(box) {
    this.#box = box
    this.clear()
  }

  clear() {
    cancelAnimationFrame(this.#frame)
    this.#box.replaceChildren()
    this.#frame = this.#cost = this.#dropped = 0
    this.#lines = []
    this.#queued = []
    this.#streams = { stdout: new Feed(), stderr: new Feed(), stdin: new Feed() }
  }

  /** write shows a piece of a stream; it may be cut anywhere. */
  write(stream, text) {
    if (!this.#streams[stream] || !text) return
    this.#queued.push([stream, text])
    this.#frame ||= requestAnimationFrame(() => this.flush())
  }

  /** flush shows what was written, now. */
  flush() {
    cancelAnimationFrame(this.#frame)
    this.#frame = 0
    const low = this.#box.scrollHeight - this.#box.scrollTop - this.#box.clientHeight < 24
    for (const [stream, text] of this.#queued.splice(0)) {
      this.#streams[stream].read(text, (t, classes) => this.#show(stream, t, classes))
      this.#trim()
    }
    if (low) this.#box.scrollTop = this.#box.scrollHeight
  }

  /** end also shows what a sequence that never became whole has left. */
  end() {
    this.flush()
    for (const [stream, feed] of Object.entries(this.#streams)) feed.end((t, c) => this.#show(stream, t, c))
  }

  /** show takes one printable piece, or "\n" or "\r". */
  #show(stream, text, classes) {
    let l = this.#lines.at(-1)
    if (text === "\r") {
      if (l?.stream === stream) l.restart = true
      return
    }
    if (!l || l.stream !== stream || l.over) l = this.#begin(stream)
    if (text === "\n") {
      l.over = true
      return
    }
    if (l.restart) {
      l.restart = false
      l.length = 0
      l.box.replaceChildren()
    }
    while (text !== "") {
      if (l.length >= MAX_LINE) l = this.#begin(stream)
      const piece = text.slice(0, MAX_LINE - l.length)
      text = text.slice(piece.length)
      this.#append(l, piece, classes)
    }
  }

  #append(l, piece, classes) {
    const last = l.box.lastChild
    const node = classes ? last?.firstChild : last
    if (node?.nodeType === Node.TEXT_NODE && (last.className ?? "") === classes) node.appendData(piece)
    else {
      l.box.append(classes ? el("span", { className: classes }, piece) : piece)
      l.cost += NODE
      this.#cost += NODE
    }
    l.length += piece.length
    l.cost += piece.length
    this.#cost += piece.length
  }

  #begin(stream) {
    const box = el("div", { className: `line ${stream}` })
    if (stream !== "stdout" && this.#lines.at(-1)?.stream !== stream) box.append(el("span", { className: "away" }, SPOKEN[stream]))
    this.#box.append(box)
    const line = { stream, box, length: 0, cost: NODE, over: false, restart: false }
    this.#cost += NODE
    this.#lines.push(line)
    return line
  }

  /** trim drops the oldest lines, and says so. */
  #trim() {
    let drop = 0
    for (; this.#cost > MAX_COST && drop < this.#lines.length - 1; drop++) {
      this.#cost -= this.#lines[drop].cost
      this.#lines[drop].box.remove()
    }
    if (drop === 0) return
    this.#lines.splice(0, drop)
    this.#dropped += drop
    const note = `${plural(this.#dropped, "earlier line")} not shown; the download has all.`
    const first = this.#box.firstChild
    if (first.className === "note") first.textContent = note
    else this.#box.prepend(el("div", { className: "note" }, note))
  }
}

/** Feed splits one stream into text with its classes. */
class Feed {
  #held = ""
  #style = new Style()

  read(text, out) {
    const all = this.#held + text
    this.#held = ""
    const show = t => t && out(t, this.#style.classes)
    // Text without controls, an end of a line, or the place of an ESC.
    const parts = /[^\x1b\r\n]+|\r?\n|\r|\x1b/g
    for (let m; (m = parts.exec(all));) {
      const c = m[0]
      if (c === "\n" || c === "\r\n") out("\n", "")
      else if (c === "\r") {
        if (parts.lastIndex === all.length) this.#held = "\r" // a "\n" may follow
        else out("\r", "")
      } else if (c !== "\x1b") show(shown(c))
      else {
        const rest = all.slice(m.index, m.index + MAX_SEQUENCE)
        const whole = SEQUENCE.exec(rest)
        if (whole) {
          if (whole[2] === "m" && /^[0-9;:]*$/.test(whole[1])) this.#style.apply(whole[1])
          parts.lastIndex = m.index + whole[0].length
        } else if (rest.length < MAX_SEQUENCE && BEGUN.test(rest)) {
          this.#held = rest
          return
        } else show("\u241b")
      }
    }
  }

  end(out) {
    const held = this.#held
    this.#held = ""
    if (held && held !== "\r") out(shown(held), this.#style.classes)
  }
}

const shown = text => text.split("\t").map(visible).join("\t")
