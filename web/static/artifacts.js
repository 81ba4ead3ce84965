// The files that a program left. What is a picture the service decides, by decoding it;
// everything else is a download.

import { call, said } from "./api.js"
import { bytes, el, guest } from "./dom.js"

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])
// The name says only what is worth asking for.
const LIKELY = /\.(png|jpe?g|gif|webp)$/i
const MAX_SHOWN = 8 << 20
const MAX_PICTURES = 24

/** fetched is a file as a blob, and whether it is a picture. */
async function fetched(a) {
  const answer = await call("GET", a.url, { accept: "*/*" })
  const type = answer.headers.get("Content-Type") ?? ""
  const picture = PICTURES.has(type)
  const data = await answer.arrayBuffer()
  return { picture, blob: new Blob([data], { type: picture ? type : "application/octet-stream" }) }
}

/** save gives a blob to the visitor as a file. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob)
  el("a", { href: url, download: name.replace(/^.*\//, "") }).click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/** artifacts is the list of a run's files, null if there is none. */
export function artifacts(result) {
  if (!result.artifacts?.length) return null
  let pictures = 0
  const items = result.artifacts.map(a => {
    const frame = el("div", { className: "picture" })
    const problem = el("span", { className: "hint", role: "status" })
    const button = el("button", { type: "button", onclick: () => fetched(a).then(f => save(f.blob, a.name), e => { problem.textContent = said(e) }) },
      "Download ", guest(a.name))
    if (LIKELY.test(a.name) && a.size <= MAX_SHOWN && pictures++ < MAX_PICTURES) show(a, frame, problem)
    return el("li", {}, frame, el("div", {}, button, " ", el("span", { className: "hint" }, bytes(a.size)), " ", problem))
  })
  return el("section", { className: "artifacts" }, el("h3", {}, "Files"), el("ul", {}, ...items))
}

async function show(a, frame, problem) {
  try {
    const f = await fetched(a)
    if (!f.picture) {
      problem.textContent = "It is no picture of a kind that is shown."
      return
    }
    const url = URL.createObjectURL(f.blob)
    const img = el("img", { src: url, alt: `Picture left by the program, ${a.name.replace(/[^\x20-\x7e]/g, "?")}` })
    img.onload = img.onerror = () => URL.revokeObjectURL(url)
    frame.append(img)
  } catch (e) {
    problem.textContent = said(e)
  }
}
