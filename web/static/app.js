// The page on which programs are written and run.

import { get, key, said } from "./api.js"
import { artifacts, save } from "./artifacts.js"
import { $, el, fill, ms, visible } from "./dom.js"
import { examples } from "./examples.js"
import { Files, openEditor } from "./files.js"
import { showHost } from "./host.js"
import { Limits } from "./limits.js"
import { Run } from "./run.js"
import { Screen } from "./screen.js"
import { Usage } from "./usage.js"
import { evidence, facts, kind, notes, sentence } from "./verdict.js"

const DRAFT = "glovebox.draft"
const LAST = "glovebox.run"

const screen = new Screen($("screen"))
const usage = new Usage($("curves"))
let languages = []
let files, limits
let run = null // the one that is shown
let clock = 0

const language = () => languages.find(l => l.name === $("language").value)

// ---- the program

/** lines are those of a text field, without empty ones. */
const lines = id => $(id).value.split("\n").filter(l => l !== "")

function submission() {
  const s = { language: $("language").value, files: files.list, limits: limits.value(), interactive: $("interactive").checked }
  const args = lines("args"), env = lines("env"), patterns = $("artifacts").value.split(/\s+/).filter(Boolean)
  if (args.length) s.args = args
  if (env.length) s.env = Object.fromEntries(env.map(l => l.includes("=") ? [l.slice(0, l.indexOf("=")), l.slice(l.indexOf("=") + 1)] : [l, ""]))
  if ($("stdin").value) s.stdin = base64($("stdin").value)
  if (patterns.length) s.artifacts = patterns
  if ($("loopback").checked) s.network = "loopback"
  if (!Object.keys(s.limits).length) delete s.limits
  return s
}

function base64(text) {
  let out = ""
  for (const b of new TextEncoder().encode(text)) out += String.fromCharCode(b)
  return btoa(out)
}

function example() {
  const l = language()
  files.set([{ name: l.file, content: examples[l.name] ?? "" }])
}

let saving = 0
function keepDraft() {
  clearTimeout(saving)
  saving = setTimeout(() => {
    const draft = { language: $("language").value, files: files.list, args: $("args").value, env: $("env").value, stdin: $("stdin").value, interactive: $("interactive").checked, limits: limits.value() }
    try {
      localStorage.setItem(DRAFT, JSON.stringify(draft))
    } catch {
      // it is too long to be kept
    }
  }, 300)
}

/** putDraft shows what was written here before; false if nothing of use was. */
function putDraft() {
  let d
  try {
    d = JSON.parse(localStorage.getItem(DRAFT))
  } catch {
    return false
  }
  if (!d?.files?.length || !languages.some(l => l.name === d.language)) return false
  $("language").value = d.language
  for (const id of ["args", "env", "stdin"]) $(id).value = d[id] ?? ""
  $("interactive").checked = d.interactive === true
  limits.set(d.limits)
  files.set(d.files)
  return true
}

/** changeLanguage changes the example with it, and leaves what somebody wrote. */
function changeLanguage(before) {
  const untouched = files.list.length === 1 && files.list[0].content.trim() === (examples[before] ?? "").trim()
  limits.defaults(language().limits)
  if (untouched) example()
  keepDraft()
}

// ---- the run

let phase = ""
function say(state, tone = "") {
  phase = state
  $("state").textContent = state
  $("state").className = tone
}

/** link says that the connection is lost, or that it is there again. */
function link(state) {
  $("state").textContent = state === "lost" ? "The connection is lost; trying again…" : phase
  $("state").className = state === "lost" ? "bad" : ""
}

function complain(text) {
  $("problem").textContent = text
  $("problem").hidden = !text
}

/** busy shows what can be done while a run is under way, or not. */
function busy(is) {
  $("run").disabled = is
  $("cancel").hidden = !is
  $("cancel").disabled = false
  if (!is) $("typing").hidden = true
  clearInterval(clock)
  if (!is) $("clock").textContent = ""
}

async function start() {
  complain("")
  if (!$("program").reportValidity()) return
  const s = submission()
  run?.leave()
  busy(true)
  say("Sending…")
  try {
    await watch(await Run.submit(s), s)
  } catch (e) {
    busy(false)
    say("It was not run", "bad")
    complain(said(e))
  }
}

/** watch shows a run from its start, also one that is long over. */
async function watch(it, s) {
  run = it
  sessionStorage.setItem(LAST, JSON.stringify({ id: run.id, token: run.token, interactive: s.interactive, limits: s.limits }))
  screen.clear()
  usage.clear()
  fill($("downloads"))
  $("verdict").hidden = true
  busy(true)
  try {
    for await (const frame of run.frames(state => run === it && link(state))) {
      if (run !== it) return
      take(frame, it, s)
    }
  } catch (e) {
    if (run !== it) return
    busy(false)
    say("The run cannot be watched", "bad")
    complain(said(e))
  }
}

function take(frame, it, s) {
  switch (frame.type) {
    case "queued": return say(frame.position ? `Waiting: ${frame.position} before it` : "Waiting for a cell")
    case "compiling": return say("Compiling…")
    case "compiled":
      screen.write("stderr", frame.compile?.stderr)
      return screen.write("stdout", frame.compile?.stdout)
    case "started": return begun(s)
    case "chunk":
      return screen.write(frame.stream, frame.base64 ? decode(frame.base64) : frame.data)
    case "stats": return usage.add(frame)
    case "finished": return ended(frame.result, it, s)
    case "error":
      busy(false)
      say("The run cannot be watched", "bad")
      complain(visible(frame.message))
  }
}

function begun(s) {
  say("Running")
  const from = performance.now()
  clock = setInterval(() => { $("clock").textContent = `${((performance.now() - from) / 1000).toFixed(1)} s` }, 100)
  if (s.interactive) {
    $("typing").hidden = false
    $("line").disabled = $("eof").disabled = false
    $("line").focus()
  }
}

const decode = text => new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(atob(text), c => c.charCodeAt(0)))

function ended(r, it, s) {
  busy(false)
  screen.end()
  usage.end(r)
  const asked = { ...language()?.limits, ...s.limits }
  say(sentence(r, asked), kind(r))
  fill($("verdict"), facts(r), notes(r), artifacts(r), evidence(r))
  $("verdict").hidden = false
  fill($("downloads"), ...["stdout", "stderr"].filter(n => r[n]).map(n => el("button", {
    type: "button", title: `Everything that was kept of ${n}, as a file`, onclick: () => saveStream(r, n),
  }, `↓ ${n}`)))
}

function saveStream(r, name) {
  const raw = r[`${name}_base64`]
  save(new Blob([raw ? Uint8Array.from(atob(raw), c => c.charCodeAt(0)) : r[name]]), `${name}.txt`)
}

// ---- what a visitor does

async function typed(text, close) {
  complain("")
  try {
    screen.write("stdin", text)
    await run.type(text, close)
  } catch (e) {
    complain(said(e))
  }
}

function listen() {
  $("program").addEventListener("submit", e => { e.preventDefault(); start() })
  $("example").addEventListener("click", example)
  $("cancel").addEventListener("click", () => {
    $("cancel").disabled = true
    run?.cancel().catch(e => { $("cancel").disabled = false; complain(said(e)) })
  })
  let before = $("language").value
  $("language").addEventListener("change", () => { changeLanguage(before); before = $("language").value })
  for (const id of ["args", "env", "stdin", "interactive", "limits"]) $(id).addEventListener("input", keepDraft)
  $("typing").addEventListener("submit", e => {
    e.preventDefault()
    const text = $("line").value + "\n"
    $("line").value = ""
    typed(text)
  })
  $("eof").addEventListener("click", () => { $("line").disabled = $("eof").disabled = true; typed("", true) })
  for (const b of document.querySelectorAll("[data-show]")) b.addEventListener("click", () => {
    for (const o of document.querySelectorAll("[data-show]")) o.setAttribute("aria-pressed", String(o === b))
    $("screen").dataset.only = b.dataset.show
  })
  document.addEventListener("keydown", e => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !$("run").disabled) { e.preventDefault(); start() }
  })
}

/** resume shows the run that this tab showed before it was loaded again. */
function resume() {
  let last
  try {
    last = JSON.parse(sessionStorage.getItem(LAST))
  } catch {
    return
  }
  if (last?.id) watch(new Run(last.id, last.token), last)
}

async function begin() {
  try {
    const [list, info] = await Promise.all([get("/v1/languages"), get("/v1/limits")])
    languages = list.languages.filter(l => l.installed)
    limits = new Limits(fill($("limits")), info)
  } catch (e) {
    if (e.code === "unauthorized") $("access").open = true
    return complain(said(e))
  }
  showHost()
  if (!languages.length) return complain("This host has no language that programs could be written in. glovebox languages says what is missing.")
  fill($("language"), ...languages.map(l => el("option", { value: l.name }, visible(l.title))))
  if (languages.some(l => l.name === "python")) $("language").value = "python"
  complain("")
  const editor = await openEditor(fill($("editor")), text => files?.typed(text))
  files = new Files($("files"), editor, keepDraft)
  if (!putDraft()) example()
  limits.defaults(language().limits)
  $("language").disabled = $("run").disabled = false
  listen()
  resume()
}

$("key").value = key.get()
$("key").addEventListener("change", () => { key.set($("key").value.trim()); if (!languages.length) begin() })
begin()
