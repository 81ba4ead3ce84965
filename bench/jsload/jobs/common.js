// What the jobs share. Each job is a module whose function run does the work and returns text or bytes, from which the
// harness takes the time and a digest: the same in every engine.

// chance is a linear congruential generator: 0 to 1, and the same numbers for everyone.
export function chance(seed) {
  let state = BigInt(seed)
  return () => {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n)
    return Number(state >> 40n) / 16777216
  }
}

// between is a whole number from low to high, high left out.
export const between = (next, low, high) => low + Math.floor(next() * (high - low))

// rounded is JSON with so many digits behind the point: the last ones of sines and powers are each engine's own.
export const rounded = (value, digits) => JSON.stringify(value, (_, v) => (typeof v === "number" && !Number.isInteger(v) ? Number(v.toFixed(digits)) : v))
