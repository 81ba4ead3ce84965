// Nine small pieces of work, each of which leans on one thing of an engine. Each gives a number that is the same
// everywhere. micro(now) runs each once to warm up and then three times, and gives the least time of each in ms.
(function () {
  "use strict"

  // A plain generator of whole numbers below 2^31.
  function numbers(seed) {
    let state = seed | 0
    return () => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff)
  }

  const work = {
    // Calls of a function that calls itself.
    calls() {
      const queens = (all, columns, left, right) => {
        let count = columns === all ? 1 : 0
        for (let free = all & ~(columns | left | right); free !== 0; free &= free - 1) {
          const bit = free & -free
          count += queens(all, columns | bit, ((left | bit) << 1) & all, (right | bit) >> 1)
        }
        return count
      }
      return queens(2047, 0, 0, 0)
    },
    // Floating point in plain arrays.
    floats() {
      const n = 120, a = [], b = []
      for (let i = 0; i < n * n; i++) {
        a.push((i % 17) / 16)
        b.push((i % 13) / 8)
      }
      let trace = 0
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < n; j++) {
          let sum = 0
          for (let k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j]
          if (i === j) trace += sum
        }
      }
      return trace
    },
    // Sorting objects by a function.
    sort() {
      const next = numbers(1), list = []
      for (let i = 0; i < 40000; i++) list.push({ key: next(), at: i })
      list.sort((x, y) => x.key - y.key)
      return list[0].at + list[20000].at
    },
    // Pieces of text: joined, split, counted in an object.
    text() {
      const next = numbers(2)
      let all = ""
      for (let i = 0; i < 60000; i++) all += "word" + (next() % 700) + " "
      const counts = {}
      for (const word of all.split(" ")) counts[word] = (counts[word] || 0) + 1
      return Object.keys(counts).map((k) => k.toUpperCase() + counts[k]).sort().join().length
    },
    // JSON there and back.
    json() {
      const rows = []
      for (let i = 0; i < 1500; i++) rows.push({ id: i, name: "row " + i, price: i / 4, tags: ["one", "two", String(i)], ok: i % 3 === 0 })
      let length = 0
      for (let i = 0; i < 8; i++) length += JSON.stringify(JSON.parse(JSON.stringify(rows))).length
      return length
    },
    // Regular expressions.
    regexp() {
      let log = ""
      for (let i = 0; i < 3000; i++) log += `2026-01-${String(1 + i % 28).padStart(2, "0")} host${i % 9} GET /page/${i}?q=${i * 7} 200\n`
      let sum = 0
      for (let i = 0; i < 6; i++) for (const m of log.matchAll(/^(\d+)-\d+-(\d+) \w+ GET ([^?\s]+)\?q=(\d+) 200$/gm)) sum += Number(m[4]) + m[3].length
      return sum
    },
    // Typed arrays.
    bytes() {
      const n = 1000000, sieve = new Uint8Array(n)
      for (let i = 2; i * i < n; i++) if (sieve[i] === 0) for (let j = i * i; j < n; j += i) sieve[j] = 1
      let primes = 0
      for (let i = 2; i < n; i++) primes += 1 - sieve[i]
      return primes
    },
    // Small objects of classes, of which most die young.
    objects() {
      class Vector {
        constructor(x, y, z) {
          this.x = x
          this.y = y
          this.z = z
        }
        plus(v) { return new Vector(this.x + v.x, this.y + v.y, this.z + v.z) }
        times(n) { return new Vector(this.x * n, this.y * n, this.z * n) }
      }
      class Turned extends Vector {
        plus(v) { return new Vector(this.y + v.z, this.z + v.x, this.x + v.y) }
      }
      let at = new Vector(0, 0, 0)
      const steps = [new Vector(1, 2, 3), new Turned(3, 2, 1)]
      for (let i = 0; i < 120000; i++) at = steps[i & 1].plus(at).times(0.5)
      return Math.round(1000 * (at.x + at.y + at.z))
    },
    // Closures, generators and destructuring.
    closures() {
      function* upTo(n) { for (let i = 0; i < n; i++) yield [i, i * i] }
      const all = []
      for (const [i, square] of upTo(60000)) all.push({ i, square })
      const adders = [1, 2, 3].map((by) => ({ square, ...rest }) => ({ ...rest, sum: square + by }))
      return adders.reduce((sum, add) => sum + all.slice(0, 20000).map(add).filter(({ i }) => i % 2 === 0).reduce((s, r) => s + r.sum % 1000, 0), 0)
    },
  }

  globalThis.micro = (now) => {
    const took = {}, results = []
    for (const name of Object.keys(work)) {
      results.push(work[name]())
      took[name] = Infinity
      for (let i = 0; i < 3; i++) {
        const begin = now()
        work[name]()
        took[name] = Math.min(took[name], now() - begin)
      }
    }
    return JSON.stringify({ took, results })
  }
})()
