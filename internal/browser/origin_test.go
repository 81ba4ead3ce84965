//go:build browser

package browser_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/service"
)

// attempts are what a page of another site tries at a service, and what came of each:
// true if it got something.
const attempts = `(async service => {
	const body = JSON.stringify({ language: "bash", source: "true" })
	const got = {}
	const tried = async (name, f) => { try { got[name] = await f() } catch { got[name] = false } }
	const json = { method: "POST", body, headers: { "Content-Type": "application/json" } }
	await tried("read", () => fetch(service + "/v1/status").then(r => r.ok))
	await tried("submit", () => fetch(service + "/v1/runs?wait=20s", json).then(r => r.ok))
	await tried("submit as text", () => fetch(service + "/v1/runs", { method: "POST", body }).then(r => r.ok))
	await tried("submit, opaque", () => fetch(service + "/v1/runs", { method: "POST", body, mode: "no-cors" }).then(() => false))
	await tried("frame", () => new Promise(ok => {
		const f = document.body.appendChild(document.createElement("iframe"))
		f.onload = () => { try { ok(f.contentDocument !== null && f.contentDocument.body.children.length > 0) } catch { ok(false) } }
		f.src = service + "/"
	}))
	const run = got.submit && await (await fetch(service + "/v1/runs?wait=20s", json)).json()
	const id = run ? run.id : "0123456789abcdef0123456789abcdef"
	await tried("stream", () => new Promise(ok => { const w = new WebSocket(service.replace("http", "ws") + "/v1/runs/" + id + "/stream"); w.onopen = () => ok(true); w.onerror = () => ok(false) }))
	await tried("events", () => new Promise(ok => { const e = new EventSource(service + "/v1/runs/" + id + "/events"); e.onopen = () => { e.close(); ok(true) }; e.onerror = () => { e.close(); ok(false) } }))
	return got
})(%q)`

// A page of another origin gets nothing from a service and starts nothing, unless its
// origin is listed; then it may do what any client may, and still frames nothing.
//
// proves part of X-26
func TestOtherOriginsOnChromium(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!doctype html><title>other</title><body></body>")
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	p := visit(t, l.Addr().String(), "/")

	strict := open(t)
	for what, got := range value[map[string]bool](p, fmt.Sprintf(attempts, "http://"+strict)) {
		if got {
			t.Errorf("another origin got something by: %s", what)
		}
	}
	accepted := `fetch("/metrics", { headers: { Accept: "application/json" } }).then(r => r.json()).then(m => (m.families.glovebox_runs_accepted_total?.samples ?? []).reduce((n, s) => n + s.value, 0))`
	if n := value[int](visit(t, strict, "/v1"), accepted); n != 0 {
		t.Errorf("%d runs were accepted", n)
	}

	listed := open(t, func(o *service.Options) { o.Server.Origins = []string{"http://" + l.Addr().String()} })
	got := value[map[string]bool](p, fmt.Sprintf(attempts, "http://"+listed))
	for what, ok := range got {
		if want := what != "frame" && what != "submit as text" && what != "submit, opaque"; ok != want {
			t.Errorf("control: a listed origin and %s: %v", what, ok)
		}
	}
}
