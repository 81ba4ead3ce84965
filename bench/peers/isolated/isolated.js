// Guests in isolated-vm, measured by their own process: {"do", "n", "code"} in, {"ns": [...]} out. An isolate is a wall
// of V8's making inside the process. node isolated.js own: on a thread of its own; otherwise on the caller's.
const { createInterface } = require("node:readline")
const ivm = require("isolated-vm")
const own = process.argv[2] === "own"

async function start() {
  const isolate = new ivm.Isolate({ memoryLimit: 256 })
  const context = own ? await isolate.createContext() : isolate.createContextSync()
  const options = { arguments: { copy: true } }
  context.global.setSync("inc", new ivm.Callback((n) => n + 1))
  context.evalClosureSync("globalThis.take = (v) => $0.applySync(undefined, [v], $1)", [new ivm.Reference(() => 1), new ivm.ExternalCopy(options).copyInto()], {})
  const run = own ? (code) => context.eval(code, { copy: true }) : (code) => context.evalSync(code, { copy: true })
  return { run, end: () => isolate.dispose() }
}

async function host() {
  const one = await start(), idle = []
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: what, n, code } = JSON.parse(line), ns = []
    for (let i = 0; i < n; i++) {
      const begin = process.hrtime.bigint()
      const other = what === "eval" ? undefined : await start()
      if (own) await (other ?? one).run(code)
      else (other ?? one).run(code)
      ns.push(Number(process.hrtime.bigint() - begin))
      if (what === "cold") other.end()
      if (what === "idle") idle.push(other)
    }
    console.log(JSON.stringify({ ns }))
  }
  process.exit()
}

host()
