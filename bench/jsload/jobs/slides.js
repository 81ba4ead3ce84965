// A price list of a thousand rows over many slides by pptxgenjs, in one zip file.
import PptxGenJS from "pptxgenjs"
import { between, chance } from "./common.js"

export async function run() {
  const next = chance(7), head = ["no.", "name", "shelf", "pieces", "each", "sum"]
  const rows = [head.map((text) => ({ text, options: { bold: true, color: "FFFFFF", fill: { color: "224466" } } }))]
  for (let i = 1; i <= 1000; i++) {
    const pieces = between(next, 1, 80), cents = between(next, 50, 9000)
    const row = [i, "part " + between(next, 1000, 9999), "ABCDEF"[i % 6], pieces, (cents / 100).toFixed(2), (pieces * cents / 100).toFixed(2)]
    rows.push(row.map((text) => ({ text: String(text) })))
  }
  const deck = new PptxGenJS()
  deck.title = "Prices"
  const slide = deck.addSlide()
  slide.addText("Prices", { x: 0.5, y: 0.2, w: 6, h: 0.5, fontSize: 24 })
  slide.addTable(rows, { x: 0.5, y: 0.9, w: 9, fontSize: 11, border: { pt: 0.5, color: "999999" }, autoPage: true, autoPageRepeatHeader: true })
  return new Uint8Array(await deck.write({ outputType: "arraybuffer" }))
}
