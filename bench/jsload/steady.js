// Before a job: time stands still and chance is always the same, so that every engine comes to the same bytes.
(function () {
  "use strict"
  const Native = Date, at = Date.UTC(2026, 0, 1)
  globalThis.Date = class Date extends Native {
    constructor(...parts) {
      if (parts.length === 0) super(at)
      else super(...parts)
    }
    static now() { return at }
  }
  let state = 1
  Math.random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    return (state >>> 8) / 16777216
  }
})()
