package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
)

// makeDocument makes the OpenAPI document of routes. Nothing of it is written by hand
// twice: paths, parameters and answers are those of the table, schemas those of the
// structs, and their descriptions the comments of package api.
func makeDocument(t *testing.T, routes []*route) []byte {
	t.Helper()
	s := newSchemas(t)
	paths := map[string]map[string]any{}
	for _, rt := range routes {
		p := strings.ReplaceAll(rt.path, "...}", "}")
		if paths[p] == nil {
			paths[p] = map[string]any{}
		}
		paths[p][strings.ToLower(rt.method)] = operation(t, s, rt)
	}
	s.answer(api.ErrorBody{})
	doc := map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "Glovebox", "version": api.Version, "summary": "Runs untrusted code in sealed cells",
			"description": "Every refusal is an ErrorBody, or a page for who accepts text/html; its code is one of a closed set, each with one status. A 429 or 503 has Retry-After. " +
				"Unknown fields and unknown parameters of a query are refused. A body is application/json, in UTF-8, says its length and is not compressed. " +
				"Every answer has Glovebox-Request-Id, which names the request in the service's log, X-Content-Type-Options: nosniff, X-Frame-Options: DENY, " +
				"a Content-Security-Policy that allows nothing, and Cache-Control: no-store. The Host must be one of the service's names, and a page of another " +
				"origin may not call it unless the operator allows that origin (CORS, without credentials of the browser).",
			"license": map[string]any{"name": license, "identifier": license}},
		"servers": []any{map[string]any{"url": "/"}},
		"paths":   paths,
		"components": map[string]any{"schemas": s.components, "responses": s.refusals, "headers": map[string]any{requestID: map[string]any{
			"description": "names the request in the service's log", "required": true, "schema": map[string]any{"type": "string", "pattern": "^[0-9a-f]{16}$"}}}, "securitySchemes": map[string]any{
			"key":      map[string]any{"type": "http", "scheme": "bearer", "description": "An API key, gbk_ and 64 of 0-9 a-f; on a private installation its token will do too."},
			"operator": map[string]any{"type": "http", "scheme": "bearer", "description": "The operator's token."},
			"owner":    map[string]any{"type": "apiKey", "in": "header", "name": OwnerHeader, "description": "The owner_token of the answer that accepted the run. It is never part of a URL; on a WebSocket it is in the first message."},
		}},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	license   = "Apache-2.0"
	requestID = "Glovebox-Request-Id"
)

func operation(t *testing.T, s *schemas, rt *route) map[string]any {
	d := rt.doc
	if d.id == "" || d.summary == "" || len(d.answers) == 0 || rt.handle == nil {
		t.Errorf("%s %s: no id, summary, answers or handler", rt.method, rt.path)
	}
	op := map[string]any{"operationId": d.id, "summary": d.summary, "responses": responses(s, rt)}
	if d.text != "" {
		op["description"] = d.text
	}
	nobody, key, owner := map[string]any{}, map[string]any{"key": []any{}}, map[string]any{"owner": []any{}}
	switch {
	case rt.open:
		op["security"] = []any{nobody}
	case rt.operator:
		op["security"] = []any{map[string]any{"operator": []any{}}}
	case rt.owner:
		op["security"] = []any{owner, map[string]any{"owner": []any{}, "key": []any{}}}
	default:
		op["security"] = []any{nobody, key}
	}
	if params := parameters(t, rt); len(params) > 0 {
		op["parameters"] = params
	}
	if rt.body != nil {
		op["requestBody"] = map[string]any{"required": true, "content": map[string]any{"application/json": map[string]any{"schema": s.request(rt.body())}}}
	}
	if d.sends != nil || d.takes != nil {
		m := map[string]any{}
		if d.sends != nil {
			m["fromServer"] = s.answer(d.sends)
		}
		if d.takes != nil {
			m["fromClient"] = s.request(d.takes)
		}
		op["x-messages"] = m
	}
	return op
}

// forms are the exact forms of parameters.
var forms = map[string]map[string]any{
	"key_id":          {"type": "string", "pattern": "^k[0-9a-f]{32}$"},
	"id":              {"type": "string", "pattern": "^[0-9a-f]{32}$"},
	"name":            {"type": "string", "minLength": 1},
	"after":           {"type": "integer", "minimum": 0},
	"wait":            {"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`},
	IdempotencyHeader: {"type": "string", "pattern": "^[A-Za-z0-9_-]{16,64}$"},
	"Last-Event-ID":   {"type": "string", "minLength": 1},
}

var pathTexts = map[string]string{
	"id":     "the id of the answer that accepted it",
	"key_id": "the key's public name",
	"name":   "the file's name below /box; its slashes stay slashes",
}

func parameters(t *testing.T, rt *route) []any {
	var out []any
	for _, part := range strings.Split(rt.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			if forms[name] == nil || pathTexts[name] == "" {
				t.Errorf("%s: the parameter %s has no form or no text", rt.path, name)
			}
			out = append(out, map[string]any{"name": name, "in": "path", "required": true, "description": pathTexts[name], "schema": forms[name]})
		}
	}
	for _, p := range rt.doc.params {
		if forms[p.name] == nil {
			t.Errorf("%s: the parameter %s has no form", rt.path, p.name)
		}
		out = append(out, map[string]any{"name": p.name, "in": p.in, "description": p.text, "schema": forms[p.name]})
	}
	return out
}

func responses(s *schemas, rt *route) map[string]any {
	out := map[string]any{}
	for status, v := range rt.doc.answers {
		r := map[string]any{"description": http.StatusText(status), "headers": heads(rt.doc.heads[status])}
		media := rt.doc.media
		switch {
		case status == http.StatusNoContent:
		case media != "" && v != nil: // by Accept
			r["content"] = map[string]any{media: map[string]any{"schema": rawSchema(media)}, "application/json": map[string]any{"schema": s.answer(v)}}
		case media != "":
			content := map[string]any{}
			for m := range strings.SplitSeq(media, ", ") {
				content[m] = map[string]any{"schema": rawSchema(m)}
			}
			r["content"] = content
		case v != nil:
			r["content"] = map[string]any{"application/json": map[string]any{"schema": s.answer(v)}}
		}
		out[strconv.Itoa(status)] = r
	}
	by := map[int][]api.Code{}
	for _, c := range rt.codes() {
		if !slices.Contains(by[c.HTTPStatus()], c) {
			by[c.HTTPStatus()] = append(by[c.HTTPStatus()], c)
		}
	}
	for status, codes := range by {
		if out[strconv.Itoa(status)] != nil {
			panic(fmt.Sprintf("%s %s: %d is an answer and a refusal", rt.method, rt.path, status))
		}
		slices.Sort(codes)
		var texts, names []string
		for _, c := range codes {
			texts = append(texts, string(c)+": "+s.codes[string(c)])
			names = append(names, string(c))
		}
		name := strconv.Itoa(status) + "." + strings.Join(names, ".")
		s.refusals[name] = map[string]any{"description": strings.Join(texts, "; "), "headers": heads(errorHeads[status]), "x-codes": names,
			"content": map[string]any{"application/json": map[string]any{"schema": s.answer(api.ErrorBody{})}}}
		out[strconv.Itoa(status)] = map[string]any{"$ref": "#/components/responses/" + name}
	}
	return out
}

// errorHeads are headers of refusals.
var errorHeads = map[int]map[string]string{
	401: {"WWW-Authenticate": "Bearer"},
	426: {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"},
	405: {"Allow": "the methods of the path"},
	409: {"Retry-After": "seconds until the request may be made again, where that could help"},
	429: {"Retry-After": "seconds until the request may be made again"},
	503: {"Retry-After": "seconds until the request may be made again"},
}

func heads(texts map[string]string) map[string]any {
	out := map[string]any{requestID: map[string]any{"$ref": "#/components/headers/" + requestID}}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		schema := map[string]any{"type": "string"}
		if name == "Retry-After" {
			schema = map[string]any{"type": "integer", "minimum": 1}
		}
		out[name] = map[string]any{"description": texts[name], "schema": schema}
	}
	return out
}

func rawSchema(media string) map[string]any {
	if media == "application/octet-stream" {
		return map[string]any{} // bytes, of OpenAPI 3.1
	}
	return map[string]any{"type": "string"}
}
