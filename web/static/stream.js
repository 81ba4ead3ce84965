// A run as it happens. Server-sent events are read by fetch: unlike an EventSource or a
// WebSocket of a browser it can show a key, and a refusal comes with its reason.

import { call, get, Refusal } from "./api.js"

const PAUSES = [200, 500, 1000, 2000, 4000, 8000]
const TRIES = 30
const SILENCE = 40_000 // a stream has a sign of life each 15 s

/**
 * follow yields the frames of a run from the start until "finished" or "error". When
 * the stream breaks off it goes on behind the last frame; meanwhile it says so to state:
 * "live", or "lost" while it tries.
 */
export async function* follow(id, { signal, state = () => {} }) {
  let last = 0
  for (let tries = 0; ; tries++) {
    try {
      for await (const frame of read(id, last, signal, state)) {
        tries = 0
        if (frame.seq && frame.seq <= last) continue
        last = frame.seq || last
        yield frame
        if (frame.type === "finished" || frame.type === "error" && frame.code !== "draining") return
      }
    } catch (e) {
      if (signal.aborted || e instanceof Refusal && e.status >= 400 && e.status < 500 && e.status !== 429 || tries >= TRIES) throw e
    }
    signal.throwIfAborted()
    if (tries > 0) {
      const run = await get(`/v1/runs/${id}`, { signal }).catch(() => null)
      if (run?.state === "finished") {
        yield { type: "finished", result: run.result }
        return
      }
    }
    state("lost")
    await pause(PAUSES[Math.min(tries, PAUSES.length - 1)], signal)
  }
}

/** read yields the frames of one connection. */
async function* read(id, after, signal, state) {
  const quiet = new AbortController()
  const both = AbortSignal.any([signal, quiet.signal])
  let timer
  const alive = () => { clearTimeout(timer); timer = setTimeout(() => quiet.abort(), SILENCE) }
  try {
    alive()
    const answer = await call("GET", `/v1/runs/${id}/events`, { accept: "text/event-stream", after, signal: both })
    if (answer.status === 204) return
    state("live")
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    const rest = []
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      alive()
      const lines = value.split("\n")
      for (const [i, part] of lines.entries()) {
        rest.push(part)
        if (i === lines.length - 1) break
        const line = rest.splice(0).join("")
        if (line.startsWith("data: ")) yield JSON.parse(line.slice(6))
      }
    }
  } finally {
    clearTimeout(timer)
    quiet.abort()
  }
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const t = setTimeout(resolve, ms)
    signal.addEventListener("abort", () => { clearTimeout(t); reject(signal.reason) }, { once: true })
  })
}
