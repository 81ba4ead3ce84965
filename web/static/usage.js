// Memory and processor over the time of a run: numbers always, curves if their library
// was bundled.

import { bytes, el, fill, ms } from "./dom.js"

const MAX_POINTS = 2000

/** Usage shows what a run uses. */
export class Usage {
  #box
  #text
  #chart
  #points = []
  #draw

  constructor(box) {
    this.#box = box
    if ("bundled" in document.body.dataset) this.#draw = import("./curves.js").catch(() => null)
  }

  clear() {
    this.#points = []
    this.#chart?.destroy()
    this.#chart = null
    this.#text = el("p", { className: "hint" })
    fill(this.#box, this.#text)
    this.#box.hidden = true
  }

  /** add takes one sample: {t_ms, memory_bytes, cpu_ms}. */
  async add(s) {
    if (s.memory_bytes == null && s.cpu_ms == null || this.#points.length >= MAX_POINTS) return
    const before = this.#points.at(-1)
    if (before && s.t_ms <= before.t) return
    const percent = before && s.cpu_ms != null && before.cpu != null ? 100 * (s.cpu_ms - before.cpu) / (s.t_ms - before.t) : null
    this.#points.push({ t: s.t_ms, memory: s.memory_bytes ?? null, cpu: s.cpu_ms ?? null, percent: percent && Math.max(0, percent) })
    this.#box.hidden = false
    this.#text.textContent = `At ${ms(s.t_ms)}: ${s.memory_bytes == null ? "memory unknown" : bytes(s.memory_bytes)}, ${s.cpu_ms == null ? "" : `${ms(s.cpu_ms)} of processor time`}`
    const points = this.#points
    const library = await this.#draw
    if (!library || points !== this.#points || points.length < 2) return
    this.#chart ??= library.chart(this.#box, [{ label: "Memory", unit: "MiB", color: "--curve-memory" }, { label: "Processor", unit: "%", color: "--curve-cpu", least: 100 }])
    this.#chart.set(points.map(p => p.t / 1000), points.map(p => p.memory === null ? null : p.memory / 1048576), points.map(p => p.percent))
  }

  /** end shows the result's totals. */
  end(r) {
    if (!this.#points.length) return
    this.#text.textContent = `At most ${r.peak_bytes == null ? "an unknown amount of memory" : bytes(r.peak_bytes)}; ${r.cpu_ms == null ? "processor time unknown" : `${ms(r.cpu_ms)} of processor time`} in ${ms(r.wall_ms)}.`
  }
}
