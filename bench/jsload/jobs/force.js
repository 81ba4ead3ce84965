// A network laid out by d3's forces until it rests, drawn as SVG.
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, interpolateViridis, scaleSequential } from "d3"
import { between, chance } from "./common.js"

const count = 200

export function run() {
  const next = chance(2)
  const nodes = Array.from({ length: count }, (_, i) => ({ id: "n" + i, weight: between(next, 1, 9) }))
  const links = nodes.slice(1).map((n, i) => ({ source: "n" + between(next, 0, i + 1), target: n.id }))
  for (let i = 0; i < count / 2; i++) links.push({ source: "n" + between(next, 0, count), target: "n" + between(next, 0, count) })
  const forces = forceSimulation(nodes)
    .force("link", forceLink(links).id((n) => n.id).distance((l) => 10 + l.source.weight + l.target.weight))
    .force("charge", forceManyBody().strength((n) => -10 * n.weight))
    .force("collide", forceCollide((n) => 2 + n.weight))
    .force("x", forceX()).force("y", forceY())
    .stop()
  for (let left = Math.ceil(Math.log(forces.alphaMin()) / Math.log(1 - forces.alphaDecay())); left > 0; left--) forces.tick()
  const color = scaleSequential([0, 10], interpolateViridis), round = (v) => v.toFixed(1)
  const lines = links.map((l) => `<line x1="${round(l.source.x)}" y1="${round(l.source.y)}" x2="${round(l.target.x)}" y2="${round(l.target.y)}"/>`)
  const dots = nodes.map((n) => `<circle cx="${round(n.x)}" cy="${round(n.y)}" r="${n.weight}" fill="${color(n.weight)}"><title>${n.id}</title></circle>`)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-400 -400 800 800"><g stroke="#aaa">${lines.join("")}</g>${dots.join("")}</svg>`
}
