// Rows summed up by a Vega-Lite specification: compiled to Vega, computed, drawn as SVG.
import { compile } from "vega-lite"
import { parse, View, Warn } from "vega"
import { between, chance } from "./common.js"

export async function run() {
  const next = chance(4), shops = ["north", "south", "harbour", "station"]
  const values = Array.from({ length: 4000 }, () => ({ week: between(next, 1, 27), shop: shops[between(next, 0, 4)], sum: between(next, 100, 9000) / 100 }))
  const { spec } = compile({
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    data: { values },
    facet: { row: { field: "shop", type: "nominal" } },
    spec: {
      width: 500, height: 120,
      layer: [
        { mark: "bar", encoding: { y: { aggregate: "sum", field: "sum", type: "quantitative" }, color: { field: "shop", type: "nominal" } } },
        { mark: { type: "line", color: "black" }, encoding: { y: { aggregate: "median", field: "sum", type: "quantitative" } } },
      ],
      encoding: { x: { field: "week", type: "ordinal" } },
    },
  })
  const view = new View(parse(spec), { renderer: "none", logLevel: Warn })
  const picture = await view.toSVG()
  view.finalize()
  return picture.replace(/-?\d+\.\d+/g, (n) => Number(n).toFixed(3))
}
