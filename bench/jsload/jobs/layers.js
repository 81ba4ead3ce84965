// A graph of modules laid out in layers by dagre.
import dagre from "dagre"
import { between, chance } from "./common.js"

const count = 200

export function run() {
  const next = chance(6), graph = new dagre.graphlib.Graph({ compound: false })
  graph.setGraph({ rankdir: "LR", nodesep: 15, ranksep: 50, edgesep: 5 })
  graph.setDefaultEdgeLabel(() => ({}))
  for (let i = 0; i < count; i++) graph.setNode("m" + i, { width: between(next, 40, 120), height: 24 })
  for (let i = 1; i < count; i++) {
    graph.setEdge("m" + between(next, Math.floor(i / 4), i), "m" + i)
    if (next() < 0.2) graph.setEdge("m" + between(next, 0, i), "m" + i)
  }
  dagre.layout(graph)
  const round = (p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`
  const nodes = graph.nodes().map((name) => `${name} ${round(graph.node(name))}`)
  const edges = graph.edges().map((e) => `${e.v} ${e.w} ${graph.edge(e).points.map(round).join(" ")}`)
  return nodes.concat(edges).join("\n")
}
