// One run: from the program to its end.

import { call, get, Refusal } from "./api.js"
import { follow } from "./stream.js"

/** Run is a run that was accepted. */
export class Run {
  #typing = Promise.resolve()
  #end = new AbortController()

  constructor(id, token) {
    this.id = id
    this.token = token
  }

  /** submit sends a program; an answer that got lost does not make two runs of it. */
  static async submit(submission) {
    const headers = { "Idempotency-Key": crypto.getRandomValues(new Uint8Array(16)).reduce((t, b) => t + b.toString(16).padStart(2, "0"), "") }
    for (let tries = 0; ; tries++) {
      try {
        const run = await (await call("POST", "/v1/runs", { body: submission, headers })).json()
        return new Run(run.id, run.owner_token)
      } catch (e) {
        if (!(e instanceof Refusal && e.code === "unreachable") || tries === 2) throw e
      }
    }
  }

  /** frames are what happens; state hears whether the stream is "live" or "lost". */
  frames(state) { return follow(this.id, { signal: this.#end.signal, state }) }

  /** leave ends the stream and not the run. */
  leave() { this.#end.abort() }

  /** type sends standard input, in order, again while the program has not begun. */
  type(data, close = false) {
    return this.#typing = this.#typing.catch(() => {}).then(async () => {
      for (let tries = 0; ; tries++) {
        try {
          return await call("POST", `/v1/runs/${this.id}/stdin`, { body: { data, close }, owner: this.token, signal: this.#end.signal })
        } catch (e) {
          if (!(e instanceof Refusal) || !e.retryAfter || tries === 20) throw e
          await new Promise(resolve => setTimeout(resolve, e.retryAfter))
        }
      }
    })
  }

  /** cancel ends the run. */
  cancel() { return call("DELETE", `/v1/runs/${this.id}`, { owner: this.token }) }

  /** result is the whole result, of a run that has ended. */
  async result() { return (await get(`/v1/runs/${this.id}`)).result }
}
