// The service in numbers: as they are, and as they were since this tab looks.

import { get, said } from "./api.js"
import { $, bytes, el, fill, ms, visible } from "./dom.js"
import { showHost } from "./host.js"
import { layers } from "./verdict.js"

const EVERY = 2000
const KEPT = 900 // samples: half an hour
const HISTORY = "glovebox.history"
const LOGIN = "glovebox.metrics"

let history = []
try {
  history = JSON.parse(sessionStorage.getItem(HISTORY)) ?? []
} catch {
  // it begins anew
}

/** sum adds up the samples of a family that have these labels. */
function sum(metrics, name, labels = {}) {
  const family = metrics.families[name]
  if (!family) return null
  return family.samples.filter(s => Object.entries(labels).every(([k, v]) => s.labels?.[k] === v))
    .reduce((n, s) => n + (s.value ?? s.count ?? 0), 0)
}

/** half is the upper bound below which half of a histogram's observations lie. */
function half(metrics, name) {
  const family = metrics.families[name]
  if (!family) return null
  const at = new Map()
  let all = 0
  for (const s of family.samples) {
    all += s.count ?? 0
    for (const b of s.buckets ?? []) at.set(b.le, (at.get(b.le) ?? 0) + b.count)
  }
  if (!all) return null
  for (const [le, n] of [...at].sort((a, b) => a[0] - b[0])) if (2 * n >= all) return le
  return Infinity
}

async function metrics() {
  const login = sessionStorage.getItem(LOGIN)
  return get("/metrics", { accept: "application/json", headers: login ? { Authorization: `Basic ${login}` } : {} })
}

function tile(name, value, hint = "") {
  return el("dl", { className: "tile" }, el("dt", {}, name), el("dd", {}, value), hint && el("dd", { className: "hint" }, hint))
}

function show(status, m) {
  const tiles = [
    tile("Runs now", `${status.running} of ${status.slots}`, "running, and how many may"),
    tile("Waiting", String(m ? Math.max(0, sum(m, "glovebox_queue_waiting") ?? status.waiting) : status.waiting), `of ${status.backlog} that may`),
    tile("Up for", ms(status.uptime_ms), status.draining ? "about to end" : visible(status.version || "")),
  ]
  if (m) {
    const median = half(m, "glovebox_run_wall_seconds")
    tiles.push(
      tile("Runs accepted", String(sum(m, "glovebox_runs_accepted_total") ?? 0), "since the service began"),
      tile("Refused", String(sum(m, "glovebox_runs_refused_total") ?? 0), "submissions"),
      tile("Half of the runs take", median === null ? "–" : median === Infinity ? "long" : `≤ ${ms(median * 1000)}`),
      tile("Memory of the service", bytes(sum(m, "process_resident_memory_bytes") ?? 0)),
    )
  }
  fill($("tiles"), ...tiles)
}

function remember(status, m) {
  const now = { t: Date.now() / 1000, running: status.running, finished: m && sum(m, "glovebox_runs_finished_total"), memory: m && sum(m, "process_resident_memory_bytes") }
  if (history.length && now.finished !== null && now.finished < history.at(-1).finished) history = [] // another service
  history.push(now)
  history = history.slice(-KEPT)
  sessionStorage.setItem(HISTORY, JSON.stringify(history))
}

let charts = null
async function draw() {
  if (!("bundled" in document.body.dataset) || history.length < 2) return
  if (!charts) {
    const { chart } = await import("./curves.js")
    const make = (title, ...lines) => {
      const box = $("history").appendChild(el("section", {}, el("h2", {}, title)))
      return chart(box, lines, { time: true, height: 170 })
    }
    charts = {
      runs: make("Runs", { label: "Running", unit: "", color: "--curve-memory" }, { label: "Ended in a second", unit: "/s", color: "--curve-cpu" }),
      memory: make("Memory of the service", { label: "Memory", unit: "MiB", color: "--curve-memory" }),
    }
  }
  const t = history.map(h => h.t)
  const rate = history.map((h, i) => i && h.finished !== null ? Math.max(0, h.finished - history[i - 1].finished) / (h.t - history[i - 1].t) : null)
  charts.runs.set(t, history.map(h => h.running), rate)
  charts.memory.set(t, history.map(h => h.memory === null ? null : h.memory / 1048576))
}

function complain(text) {
  $("problem").textContent = text
  $("problem").hidden = !text
}

async function look() {
  let m = null
  try {
    m = await metrics()
    $("login").hidden = true
    complain("")
  } catch (e) {
    if (e.code !== "unauthorized") throw e
    sessionStorage.removeItem(LOGIN)
    $("login").hidden = false
  }
  const status = await get("/v1/status")
  show(status, m)
  remember(status, m)
  await draw()
}

async function watch() {
  for (;;) {
    if (!document.hidden) await look().catch(e => complain(said(e)))
    await new Promise(resolve => setTimeout(resolve, EVERY))
  }
}

$("login").addEventListener("submit", e => {
  e.preventDefault()
  const text = `${$("user").value}:${$("password").value}`
  sessionStorage.setItem(LOGIN, btoa(String.fromCharCode(...new TextEncoder().encode(text))))
  look().then(() => { if (!$("login").hidden) complain("That user and password are not right.") }, e => complain(said(e)))
})

showHost().then(status => {
  if (!status) return
  fill($("wall"), el("h2", {}, status.complete ? "This host enforces everything that is asked of it" : "This host does not enforce everything"),
    layers(status.layers), ...(status.warnings ?? []).map(w => el("p", { className: "hint" }, visible(w))),
    el("p", { className: "hint" }, `Kernel ${visible(status.kernel)}, ${visible(status.arch)}. glovebox status tells more, and how to mend what is missing.`))
})
watch()
