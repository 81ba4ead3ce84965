// After a job: runs it once and gives its time in ms by the clock now, the length of what it made, and a digest of that.
async function measure(now) {
  const begin = now()
  const made = await job.run()
  const took = now() - begin
  const unit = typeof made === "string" ? (i) => made.charCodeAt(i) : (i) => made[i]
  let digest = 0x811c9dc5
  for (let i = 0; i < made.length; i++) digest = Math.imul(digest ^ unit(i), 0x01000193)
  return JSON.stringify({ took, size: made.length, digest: (digest >>> 0).toString(16).padStart(8, "0") })
}
