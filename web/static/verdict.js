// A result in words that a person understands.

import { bytes, el, guest, ms, plural, visible } from "./dom.js"

/** kind is "good", "bad" or "stopped", for the colour. */
export function kind(r) {
  if (r.verdict === "ok") return "good"
  return ["error", "compile_error", "setup_failed", "interrupted"].includes(r.verdict) ? "bad" : "stopped"
}

/** sentence says how a run ended. */
export function sentence(r, limits = {}) {
  const limit = (name, unit) => limits[name] ? ` (${unit(limits[name])})` : ""
  switch (r.verdict) {
    case "ok": return "It ran to its end."
    case "error":
      if (r.signal) return `It was ended by the signal ${visible(r.signal)}, by its own doing.`
      if (r.exit_code === 127) return "It ended with exit status 127: a program was not found."
      return `It ended with exit status ${r.exit_code ?? "unknown"}.`
    case "timeout":
      return r.cause === "cpu" ? `Stopped: it used all of its processor time${limit("cpu_ms", ms)}.` : `Stopped: its time was up${limit("wall_ms", ms)}.`
    case "memory_limit": return `Stopped: it wanted more memory than it may have${limit("memory_bytes", bytes)}.`
    case "output_limit": return `Stopped: it wrote more to ${r.cause === "stderr" ? "standard error" : "standard output"} than it may${limit(`${r.cause}_bytes`, bytes)}.`
    case "compile_error": return r.cause === "memory" ? "The compiler wanted more memory than it may have." : "The compiler refused it."
    case "denied": return `Stopped: it called ${visible(r.syscall || "something")} of the kernel, which no program here may.`
    case "canceled": return "It was canceled."
    case "interrupted": return "The service was interrupted while it ran. It is not run again by itself."
    case "setup_failed": return `Glovebox could not run it${r.stage ? `, at the step "${visible(r.stage)}"` : ""}. That is not the program's doing.`
  }
  return `It ended: ${visible(r.verdict)}.`
}

/** facts are the numbers of a result. */
export function facts(r) {
  const rows = r.verdict === "compile_error" ? [] : [["Time", ms(r.wall_ms)]]
  if (r.cpu_ms != null) rows.push(["Processor", ms(r.cpu_ms)])
  if (r.peak_bytes != null) rows.push(["Most memory", bytes(r.peak_bytes)])
  if (r.oom_kills) rows.push(["Killed for memory", plural(r.oom_kills, "process", "processes")])
  if (r.pids_max_hits) rows.push(["Refused new processes", String(r.pids_max_hits)])
  if (r.compile) rows.push(["Compiler", ms(r.compile.wall_ms)])
  rows.push(["Waited", ms(r.queue_ms)], ["Cell", r.warm ? "was ready" : `made in ${ms(r.setup_ms)}`])
  return el("dl", { className: "facts" }, ...rows.map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))))
}

// What is said of a pattern that nothing is like; that is no news.
const NOTHING = "there is no such file"

/** notes are what else has to be said. */
export function notes(r) {
  const all = []
  if (r.message && r.verdict !== "compile_error") all.push(visible(r.message))
  if (r.truncated?.stdout) all.push("Standard output is longer than its limit; the rest is lost.")
  if (r.truncated?.stderr) all.push("Standard error is longer than its limit; the rest is lost.")
  for (const w of r.warnings ?? []) all.push(visible(w))
  for (const a of (r.refused_artifacts ?? []).filter(a => !(a.name.includes("*") && a.reason === NOTHING))) all.push(el("span", {}, "Not given back: ", guest(a.name), ` (${visible(a.reason)})`))
  return all.length ? el("ul", { className: "notes" }, ...all.map(n => el("li", {}, n))) : null
}

// What each layer does. Two of them are told and not demanded.
const LAYERS = {
  namespaces: "It sees nobody else: its own processes, network, users and mounts",
  root: "It sees an almost empty disk",
  proc: "It sees its own processes and nothing of the machine in /proc",
  landlock: "The kernel lets it open only what it was given",
  seccomp: "The kernel answers only the calls that a program needs",
  cgroup: "Memory, processor and processes of all of it are bounded together",
  rlimits: "Each of its processes is bounded too",
  privileges: "It has no privilege and can win none",
  self_test: "Before it began, forbidden things were tried from inside",
  time: "Its clocks tell nothing of the machine",
  speculation: "The processor's guards against speculation are on",
  resource_probes: "The kernel counts what it uses",
  termination: "It can be ended at any moment",
}
const OPTIONAL = new Set(["time", "speculation"])

/** demanded are the layers without which nothing runs. */
export const demanded = layers => layers.filter(l => !OPTIONAL.has(l.name))

/** layers is the table of protections; of what holds the reason, or how it is mended. */
export function layers(list) {
  return el("table", { className: "layers" },
    el("thead", {}, el("tr", {}, ...["Layer", "What it does", "Here"].map(t => el("th", { scope: "col" }, t)))),
    el("tbody", {}, ...list.map(l => el("tr", { className: l.applied ? "held" : OPTIONAL.has(l.name) ? "" : "missing" },
      el("th", { scope: "row" }, visible(l.name)),
      el("td", {}, LAYERS[l.name] ?? "", l.detail ? el("div", { className: "hint" }, visible(l.detail)) : "", l.remedy ? el("div", { className: "remedy" }, visible(l.remedy)) : ""),
      el("td", {}, l.applied ? "✓ holds" : OPTIONAL.has(l.name) ? "– not here" : "✗ missing")))))
}

/** evidence says what was proved before the program's first instruction. */
export function evidence(r) {
  const e = r.evidence
  if (!e?.layers?.length) return null
  const all = demanded(e.layers), held = all.filter(l => l.applied).length
  const whole = held === all.length ? "Every layer held" : `${held} of ${all.length} layers held`
  return el("details", { className: "evidence" },
    el("summary", {}, `${whole}: ${plural(e.probes, "forbidden thing")} tried from inside and refused before the program began.`),
    layers(e.layers),
    el("p", { className: "hint" }, `Kernel ${visible(e.kernel)}, profile ${visible(e.profile)}, policy ${visible(e.policy_hash).slice(0, 16)}, attested ${ms(e.attested_ms)} before.`))
}
