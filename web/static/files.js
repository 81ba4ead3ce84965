// The files of a program: the first is the one that runs. Text is edited, other files
// are carried along.

import { $, el, fill, visible, bytes } from "./dom.js"

const MAX_BYTES = 8 << 20

/** plainEditor is a text field, for a page without its bundle. */
function plainEditor(box, changed) {
  const area = el("textarea", { className: "plain", spellcheck: false, "aria-label": "Source", wrap: "off" })
  area.addEventListener("input", () => changed(area.value))
  area.addEventListener("keydown", e => { // Tab indents; Escape first, and it goes on to the next field
    if (e.key === "Escape") area.dataset.leave = "1"
    else if (e.key === "Tab" && !e.shiftKey && !area.dataset.leave) {
      e.preventDefault()
      area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end")
      changed(area.value)
    } else delete area.dataset.leave
  })
  box.append(area)
  return { set: text => { area.value = text }, focus: () => area.focus() }
}

/** openEditor is CodeMirror if it was bundled. */
export async function openEditor(box, changed) {
  if ("bundled" in document.body.dataset) {
    try {
      return (await import("./editor.js")).open(box, changed)
    } catch (e) {
      console.warn("the editor cannot be loaded:", e)
    }
  }
  return plainEditor(box, changed)
}

/** Files is the row of files above the editor. */
export class Files {
  #list = [] // {name, content, encoding}
  #at = 0
  #box
  #editor
  #changed
  #complain

  /** changed is called after every change; complain is told in words what cannot be taken. */
  constructor(box, editor, changed, complain) {
    this.#box = box
    this.#editor = editor
    this.#changed = changed
    this.#complain = complain
  }

  get list() { return this.#list.map(f => ({ ...f })) }

  set(list, at = 0) {
    this.#list = list
    this.show(at)
  }

  /** typed takes what the editor has. */
  typed(text) {
    const f = this.#list[this.#at]
    if (f && f.encoding !== "base64") {
      f.content = text
      this.#changed()
    }
  }

  show(at) {
    this.#at = at
    const f = this.#list[at]
    const binary = f.encoding === "base64"
    this.#editor.set(binary ? `This file is not text (${bytes(atob(f.content).length)}). It goes along as it is.` : f.content, f.name, binary)
    this.#draw()
    this.#changed()
  }

  #draw() {
    fill(this.#box,
      el("div", { className: "names", role: "group", "aria-label": "Files" }, ...this.#list.map((f, i) => el("button", {
        type: "button", className: "file", "aria-pressed": String(i === this.#at), title: i === 0 ? "The file that runs" : "",
        onclick: () => this.show(i), ondblclick: () => this.#rename(i),
      }, i === 0 ? "▸ " : "", visible(f.name)))),
      el("div", { className: "tools" },
        this.#tool("+", "Add a file", () => this.#add()),
        this.#tool("✎", "Rename this file", () => this.#rename(this.#at)),
        this.#tool("✕", "Remove this file", () => this.#remove(this.#at), this.#list.length === 1),
        this.#tool("⇪", "Load files from this computer", () => this.#load())))
  }

  #tool(sign, label, onclick, disabled = false) {
    return el("button", { type: "button", title: label, "aria-label": label, disabled, onclick }, sign)
  }

  async #add() {
    const name = await ask("", n => this.#fault(n))
    if (name === null) return
    this.#list.push({ name, content: "" })
    this.show(this.#list.length - 1)
    this.#editor.focus()
  }

  async #rename(i) {
    const name = await ask(this.#list[i].name, n => this.#fault(n, i))
    if (name === null) return
    this.#list[i].name = name
    this.show(i)
  }

  #remove(i) {
    this.#list.splice(i, 1)
    this.show(Math.max(0, i - 1))
  }

  #load() {
    const input = el("input", { type: "file", multiple: true })
    input.onchange = async () => {
      for (const f of input.files) {
        if (f.size > MAX_BYTES) {
          this.#complain(`${visible(f.name)} is larger than the ${bytes(MAX_BYTES)} that all files together may have.`)
          continue
        }
        const file = { name: f.name, ...await read(f) }
        const same = this.#list.findIndex(o => o.name === f.name)
        if (same < 0) this.#list.push(file)
        else this.#list[same] = file
      }
      this.show(this.#list.length - 1)
    }
    input.click()
  }

  /** fault says why a name cannot be taken; the service judges the rest. */
  #fault(name, but = -1) {
    if (!name) return "A file needs a name."
    if (name.startsWith("/") || name.split("/").includes("..")) return "The name must lead below /box."
    if (visible(name) !== name) return "The name has characters that nobody sees."
    if (this.#list.some((f, i) => i !== but && f.name === name)) return "There is such a file already."
    return ""
  }
}

/** ask asks for a name; null means that the visitor thought better of it. */
function ask(name, fault) {
  const dialog = $("naming"), input = $("name")
  input.value = name
  input.setCustomValidity("")
  dialog.showModal()
  input.select()
  return new Promise(resolve => {
    let answer = null
    input.oninput = () => input.setCustomValidity("")
    dialog.querySelector("form").onsubmit = e => {
      e.preventDefault()
      const given = input.value.trim()
      input.setCustomValidity(fault(given))
      if (!input.reportValidity()) return
      answer = given
      dialog.close()
    }
    dialog.querySelector("[value=cancel]").onclick = () => dialog.close()
    dialog.onclose = () => resolve(answer)
  })
}

/** read is a file's text, or its base64 form when it is none. */
async function read(file) {
  const data = new Uint8Array(await file.arrayBuffer())
  try {
    return { content: new TextDecoder("utf-8", { fatal: true }).decode(data) }
  } catch {
    let text = ""
    for (let i = 0; i < data.length; i += 0x8000) text += String.fromCharCode(...data.subarray(i, i + 0x8000))
    return { content: btoa(text), encoding: "base64" }
  }
}
