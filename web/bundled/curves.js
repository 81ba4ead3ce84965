// The curves of a run and of the dashboard, drawn by uPlot.

import uPlot from "uplot"
import styles from "uplot/dist/uPlot.min.css"

const sheet = new CSSStyleSheet()
sheet.replaceSync(styles)
document.adoptedStyleSheets.push(sheet)

// A canvas knows no variables, and none of light-dark().
const probe = document.createElement("i")
probe.hidden = true
document.body.append(probe)

function color(name) {
  probe.style.color = `var(${name})`
  return getComputedStyle(probe).color
}

const clock = t => new Date(t * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" })

/** chart is a box with lines over time. Each of lines has a label, a variable with its colour, and a unit; time says what x is. */
export function chart(box, lines, { height = 150, time = false } = {}) {
  const host = box.appendChild(document.createElement("div"))
  host.className = "chart"
  const axis = { stroke: () => color("--quiet"), grid: { stroke: () => color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" }
  const options = {
    width: Math.max(200, host.clientWidth), height, legend: { live: true }, cursor: { y: false },
    scales: { x: { time }, ...Object.fromEntries(lines.map((l, i) => [`y${i}`, { range: (_, low, high) => [0, Math.max(l.least ?? 1, (high ?? 0) * 1.1)] }])) },
    axes: [{ ...axis, size: 26, space: 80, values: (_, v) => v.map(x => time ? clock(x) : `${x} s`) },
      ...lines.map((l, i) => ({ ...axis, scale: `y${i}`, side: i ? 1 : 3, size: 58, grid: i ? { show: false } : axis.grid, values: (_, v) => v.map(n => `${n} ${l.unit}`) }))],
    series: [{ label: "Time", value: (_, v) => v == null ? "–" : time ? clock(v) : `${v.toFixed(2)} s` },
      ...lines.map((l, i) => ({ label: l.label, scale: `y${i}`, stroke: () => color(l.color), dash: i ? [6, 3] : undefined, width: 2, spanGaps: true, points: { show: false }, value: (_, v) => v == null ? "–" : `${v.toFixed(1)} ${l.unit}` }))],
  }
  const plot = new uPlot(options, [[], ...lines.map(() => [])], host)
  const watch = new ResizeObserver(() => plot.setSize({ width: Math.max(200, host.clientWidth), height }))
  watch.observe(host)
  const dark = matchMedia("(prefers-color-scheme: dark)")
  const redraw = () => plot.redraw()
  dark.addEventListener("change", redraw)
  return {
    set: (x, ...series) => plot.setData([x, ...series]),
    destroy: () => { dark.removeEventListener("change", redraw); watch.disconnect(); plot.destroy(); host.remove() },
  }
}
