// The OpenAPI document of the service, as a page.

import { get, said } from "./api.js"
import { $, el, fill, visible } from "./dom.js"
import { showHost } from "./host.js"

let schemas = {}

/** typeOf names the type of a schema; what is a schema of its own leads there. */
function typeOf(s) {
  if (!s || typeof s !== "object") return "anything"
  if (s.$ref) {
    const name = s.$ref.split("/").pop()
    return el("a", { href: `#schema-${name}` }, name)
  }
  const either = s.oneOf ?? s.anyOf ?? s.allOf
  if (either) return join(either.map(typeOf), s.allOf ? " and " : " or ")
  if (s.enum) return join(s.enum.map(v => el("code", {}, JSON.stringify(v))), " | ")
  if ("const" in s) return el("code", {}, JSON.stringify(s.const))
  if (s.type === "array") return el("span", {}, "list of ", typeOf(s.items))
  if (s.type === "object" && s.additionalProperties && typeof s.additionalProperties === "object") return el("span", {}, "names to ", typeOf(s.additionalProperties))
  const type = Array.isArray(s.type) ? s.type.join(" or ") : s.type ?? "anything"
  return s.format ? `${type} (${s.format})` : type
}

function join(parts, between) {
  const out = el("span")
  parts.forEach((p, i) => out.append(i ? between : "", p))
  return out
}

const table = (heads, rows) => rows.length === 0 ? null : el("table", {},
  el("thead", {}, el("tr", {}, ...heads.map(h => el("th", { scope: "col" }, h)))),
  el("tbody", {}, ...rows.map(r => el("tr", {}, ...r.map(c => el("td", {}, c ?? ""))))))

const deref = (doc, v) => v?.$ref ? v.$ref.slice(2).split("/").reduce((o, k) => o?.[k.replaceAll("~1", "/").replaceAll("~0", "~")], doc) : v

function operation(doc, path, verb, op) {
  const params = (op.parameters ?? []).map(p => deref(doc, p)).map(p => [el("code", {}, p.name), p.in, typeOf(p.schema), p.description])
  const body = Object.entries(deref(doc, op.requestBody)?.content ?? {}).map(([media, c]) => el("p", {}, "Body: ", el("code", {}, media), ", ", typeOf(c.schema)))
  const answers = Object.entries(op.responses ?? {}).map(([status, a]) => {
    const said = deref(doc, a)
    const content = Object.entries(said?.content ?? {}).map(([media, c]) => el("span", {}, el("code", {}, media), c.schema ? " " : "", c.schema ? typeOf(c.schema) : ""))
    return [status, content.length ? join(content, ", ") : "", said?.description]
  })
  return el("details", { id: op.operationId ?? "" },
    el("summary", {}, el("span", { className: "verb" }, verb.toUpperCase()), " ", el("code", {}, path), " — ", op.summary ?? ""),
    op.description ? el("p", {}, op.description) : null,
    ...body, table(["Parameter", "Where", "Type", ""], params), table(["Answer", "Content", ""], answers))
}

function schema(name, s) {
  const needed = new Set(s.required ?? [])
  const rows = Object.entries(s.properties ?? {}).map(([field, f]) => [el("code", {}, field), typeOf(f), needed.has(field) ? "always" : "", f.description])
  return el("details", { id: `schema-${name}` }, el("summary", {}, el("code", {}, name)),
    s.description ? el("p", {}, s.description) : null, rows.length ? table(["Field", "Type", "", ""], rows) : el("p", {}, typeOf(s)))
}

/** reveal opens what a link leads to. */
function reveal() {
  const at = location.hash && $(decodeURIComponent(location.hash.slice(1)))
  if (at instanceof HTMLDetailsElement) {
    at.open = true
    at.scrollIntoView()
  }
}

try {
  const doc = await get("/openapi.json")
  schemas = doc.components?.schemas ?? {}
  fill($("reference"),
    el("p", {}, visible(doc.info?.description ?? ""), " The document itself: ", el("a", { href: "/openapi.json" }, "/openapi.json"), ` (OpenAPI ${doc.openapi}).`),
    el("h2", {}, "Paths"),
    ...Object.entries(doc.paths).flatMap(([path, verbs]) => Object.entries(verbs).filter(([, op]) => op?.responses).map(([verb, op]) => operation(doc, path, verb, op))),
    el("h2", {}, "Types"), ...Object.entries(schemas).map(([name, s]) => schema(name, s)))
  addEventListener("hashchange", reveal)
  reveal()
} catch (e) {
  $("problem").textContent = said(e)
  $("problem").hidden = false
}
showHost()
