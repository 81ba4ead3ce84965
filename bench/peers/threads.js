// Guests in node's worker_threads, measured by their own process: {"do", "n", "code"} in, {"ns": [...]} out. The threads
// share the process: a context of node:vm and a thread are no wall.
import { createInterface } from "node:readline"
import { isMainThread, MessageChannel, parentPort, receiveMessageOnPort, Worker, workerData } from "node:worker_threads"
import { createContext, runInContext } from "node:vm"

if (isMainThread) host()
else guest()

// guest evaluates what it is sent. A call of the host waits on shared memory until the answer has been posted.
function guest() {
  const { bell, port } = workerData
  const call = (argument) => {
    Atomics.store(bell, 0, 0)
    parentPort.postMessage({ call: argument })
    Atomics.wait(bell, 0, 0)
    return receiveMessageOnPort(port).message
  }
  const context = createContext({ inc: call, take: call })
  parentPort.on("message", (code) => parentPort.postMessage({ value: runInContext(code, context) }))
}

function start() {
  const { port1, port2 } = new MessageChannel(), bell = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(new URL(import.meta.url), { workerData: { bell, port: port2 }, transferList: [port2] })
  let done
  worker.on("message", (m) => {
    if ("value" in m) return done(m.value)
    port1.postMessage(typeof m.call === "number" ? m.call + 1 : 1)
    Atomics.store(bell, 0, 1)
    Atomics.notify(bell, 0)
  })
  worker.on("error", (e) => { throw e })
  const run = (code) => new Promise((resolve) => { done = resolve; worker.postMessage(code) })
  return { run, end: () => { port1.close(); return worker.terminate() } }
}

async function host() {
  const one = start(), idle = []
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: what, n, code } = JSON.parse(line), ns = []
    for (let i = 0; i < n; i++) {
      const begin = process.hrtime.bigint()
      const other = what === "eval" ? undefined : start()
      await (other ?? one).run(code)
      ns.push(Number(process.hrtime.bigint() - begin))
      if (what === "cold") await other.end()
      if (what === "idle") idle.push(other)
    }
    console.log(JSON.stringify({ ns }))
  }
  process.exit()
}
