// node node.js FILE... CALL: runs scripts as a page would, one after the other, and prints what the call's promise comes to.
const { readFileSync } = require("fs"), { runInThisContext } = require("vm")
const clock = performance, files = process.argv.slice(2), call = files.pop()
for (const filename of files) runInThisContext(readFileSync(filename, "utf8"), { filename })
Promise.resolve(runInThisContext(call)(() => clock.now())).then(console.log, (e) => {
  console.error(e)
  process.exitCode = 1
})
