// The fields of the limits: what holds when a field is empty is the language's default.

import { bytes, el, ms } from "./dom.js"

const MIB = 1 << 20

// name, words, unit of the field, what one unit is in the interface's, for a person
const FIELDS = [
  ["wall_ms", "Time", "s", 1000, ms],
  ["cpu_ms", "Processor time", "s", 1000, ms],
  ["memory_bytes", "Memory", "MiB", MIB, bytes],
  ["pids", "Processes", "", 1, String],
  ["stdout_bytes", "Output", "MiB", MIB, bytes],
  ["disk_bytes", "Disk", "MiB", MIB, bytes],
]

/** Limits are the fields in a box. */
export class Limits {
  #fields

  constructor(box, info) {
    this.#fields = FIELDS.map(([name, words, unit, size, shown]) => {
      const low = info.floors[name] ?? 0, high = info.ceilings[name] ?? 0
      const field = el("input", { id: `limit-${name}`, type: "number", min: low / size, max: high / size, step: "any", inputMode: "decimal", title: `from ${shown(low)} to ${shown(high)}` })
      box.append(el("label", {}, unit ? `${words}, ${unit} ` : `${words} `, field))
      return { name, size, field }
    })
  }

  /** defaults shows what holds for a language. */
  defaults(limits) {
    for (const { name, size, field } of this.#fields) field.placeholder = String(Math.round(100 * (limits[name] ?? 0) / size) / 100)
  }

  /** value is what was asked for, without what was left to the defaults. */
  value() {
    const v = {}
    for (const { name, size, field } of this.#fields) if (field.value !== "") v[name] = Math.round(Number(field.value) * size)
    return v
  }

  /** set puts back what value once was. */
  set(v = {}) {
    for (const { name, size, field } of this.#fields) field.value = v[name] ? String(v[name] / size) : ""
  }
}
