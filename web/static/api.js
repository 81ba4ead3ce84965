// Calls of the service, and its refusals in words.

const KEY = "glovebox.key"

/** key is the visitor's key, kept for this tab. */
export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: v => v ? sessionStorage.setItem(KEY, v) : sessionStorage.removeItem(KEY),
}

/** Refusal is an answer that is an error, or that no answer came. */
export class Refusal extends Error {
  constructor(status, error) {
    super(error.message)
    Object.assign(this, { status, code: error.code, field: error.field, retryAfter: error.retry_after_ms ?? 0 })
  }

  /** words are what a person is told. */
  words() {
    const said = this.field ? this.message : this.message.charAt(0).toUpperCase() + this.message.slice(1)
    const when = this.retryAfter > 0 ? ` Try again in ${seconds(this.retryAfter)}.` : ""
    switch (this.code) {
      case "unreachable": return "The service does not answer. Is it running, and is there a network?"
      case "unauthorized": return `${said}. Type it in below "Key".`
      case "quota": return `Your hourly quota is used up.${when} A key has a larger one.`
      case "in_flight": return `You have as many runs under way as you may.${when || " Wait for one to end."}`
      case "backlog": case "busy": return `The service has all hands full.${when}`
    }
    return `${said}.${when}`
  }
}

function seconds(ms) {
  const s = Math.ceil(ms / 1000)
  return s < 90 ? `${s} s` : `${Math.ceil(s / 60)} minutes`
}

/** call asks the service and returns its answer, if that is none of its errors. */
export async function call(method, path, { body, owner, accept, after, signal, headers = {} } = {}) {
  headers = { ...headers }
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`
  if (owner) headers["Glovebox-Owner"] = owner
  if (accept) headers.Accept = accept
  if (after) headers["Last-Event-ID"] = String(after)
  if (body !== undefined) headers["Content-Type"] = "application/json"
  let answer
  try {
    answer = await fetch(path, {
      method, headers, signal, credentials: "omit", redirect: "error",
      body: body === undefined ? undefined : JSON.stringify(body),
    })
  } catch (e) {
    if (signal?.aborted) throw e
    throw new Refusal(0, { code: "unreachable", message: "no answer" })
  }
  if (answer.ok) return answer
  const said = await answer.json().catch(() => null)
  throw new Refusal(answer.status, said?.error ?? { code: "internal", message: `the service answered with ${answer.status}` })
}

/** get is the JSON of a path. */
export const get = async (path, options) => (await call("GET", path, options)).json()

/** said is any error in words. */
export const said = e => e instanceof Refusal ? e.words() : String(e?.message ?? e)
