// The line in the head of every page that says whether the host seals cells.

import { get } from "./api.js"
import { $, el, fill, plural } from "./dom.js"
import { demanded } from "./verdict.js"

/** showHost asks for the status and shows it in short; null when it cannot be had. */
export async function showHost() {
  const status = await get("/v1/status").catch(() => null)
  const box = $("host")
  if (!status) {
    fill(box, "")
    return null
  }
  const layers = demanded(status.layers), held = layers.filter(l => l.applied).length
  box.className = `host ${status.complete ? "good" : "bad"}`
  fill(box, el("a", { href: "/dashboard#wall" },
    status.draining ? "about to end" : status.complete ? `sealed: ${plural(held, "layer")} hold` : `not sealed: ${plural(layers.length - held, "layer")} missing`))
  return status
}
