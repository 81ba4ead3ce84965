// A process that evaluates what it reads, for `node --jitless` and Deno: one line of JSON in, one out. The guest's code
// runs in a context of node:vm, which is no wall. Reads and writes block, as is quickest for one caller.
import { readSync, writeSync } from "node:fs"
import { createContext, runInContext } from "node:vm"

const chunk = Buffer.alloc(1 << 16)
let rest = ""

function read() {
  for (;;) {
    const end = rest.indexOf("\n")
    if (end >= 0) {
      const line = rest.slice(0, end)
      rest = rest.slice(end + 1)
      return JSON.parse(line)
    }
    const n = readSync(0, chunk)
    if (n === 0) return undefined
    rest += chunk.toString("latin1", 0, n) // what is sent is ASCII
  }
}

function write(message) {
  const bytes = Buffer.from(JSON.stringify(message) + "\n")
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at)
}

// A call of the host: what it is called with goes out, and nothing else happens until the answer is there.
function call(argument) {
  write({ call: argument })
  return read().answer
}

const context = createContext({ inc: call, take: call })
for (let m = read(); m !== undefined; m = read()) write({ value: runInContext(m.code, context) })
