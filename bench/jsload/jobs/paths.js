// Walks on a map with turf: a strip along each, their union, the cells around places on them, thinner walks.
import { area, bbox, buffer, featureCollection, length, lineString, point, simplify, union, voronoi } from "@turf/turf"
import { between, chance, rounded } from "./common.js"

export function run() {
  const next = chance(5), walks = [], places = []
  for (let w = 0; w < 12; w++) {
    let x = 9.8 + 0.4 * next(), y = 53.4 + 0.3 * next(), dx = 0, dy = 0
    const line = []
    for (let i = 0; i < 110; i++) {
      dx = 0.9 * dx + 0.002 * (next() - 0.5)
      dy = 0.9 * dy + 0.0015 * (next() - 0.5)
      line.push([(x += dx), (y += dy)])
      if (i % 5 === 0) places.push(point([x, y]))
    }
    walks.push(lineString(line, { walk: w, width: between(next, 80, 200) }))
  }
  const all = featureCollection(walks)
  const strips = walks.map((w) => buffer(w, w.properties.width, { units: "meters", steps: 8 }))
  const covered = union(featureCollection(strips))
  const around = voronoi(featureCollection(places), { bbox: bbox(all) })
  return rounded({
    kilometres: walks.map((w) => length(w)), squareMetres: area(covered), covered: covered.geometry,
    cells: around.features.map((f) => area(f)), thin: walks.map((w) => simplify(w, { tolerance: 0.0004 }).geometry),
  }, 4)
}
