package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/server"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// ours is the origin that the common service allows beside its own.
const ours = "https://pages.example"

// operator is the operator's token of the common service.
const operator = "operator-0123456789abcdef"

func TestMain(m *testing.M) {
	testenv.Deselect()
	code := m.Run()
	if s, err := common(); err == nil {
		if err := s.Close(); err != nil {
			println("close:", err.Error())
			code = 1
		}
		_ = os.RemoveAll(s.dir)
	}
	os.Exit(code)
}

// site is a real service on loopback, and what its log said of each request.
type site struct {
	*service.Service
	addr, url, dir string
	doc            *openapi3.T
	lines          *lines
}

// common is one service for all tests that change nothing about it.
var common = sync.OnceValues(func() (*site, error) {
	dir, err := os.MkdirTemp("", "glovebox-server-")
	if err != nil {
		return nil, err
	}
	return open(service.Options{Dir: dir + "/data", Server: server.Options{Origins: []string{ours}}, Admission: admission.Options{OperatorToken: operator}}, dir)
})

func shared(t testing.TB) *site {
	t.Helper()
	s, err := common()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// alone is a service for one test.
func alone(t testing.TB, o service.Options) *site {
	t.Helper()
	dir := t.TempDir()
	o.Dir = dir + "/data"
	s, err := open(o, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func open(o service.Options, dir string) (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{addr: l.Addr().String(), url: "http://" + l.Addr().String(), dir: dir, lines: newLines()}
	o.Listeners, o.Box.InitPath, o.Log = []net.Listener{l}, testenv.Init(), slog.New(s.lines)
	o.Box.CacheDir = testenv.Cache()
	if s.doc, err = openapi3.NewLoader().LoadFromData(server.Document()); err != nil {
		return nil, err
	}
	s.Service, err = service.Open(context.Background(), o)
	return s, err
}

// lines keeps what the log says of requests, by their ids.
type lines struct {
	slog.Handler
	mu     sync.Mutex
	more   *sync.Cond
	routes map[string]string
}

func newLines() *lines {
	l := &lines{Handler: slog.DiscardHandler, routes: map[string]string{}}
	l.more = sync.NewCond(&l.mu)
	return l
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "request" {
		return nil
	}
	var id, route string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "id":
			id = a.Value.String()
		case "route":
			route = a.Value.String()
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes[id] = route
	l.more.Broadcast()
	return nil
}

// route is which route a request took, "none" if none did. The line may come after
// the answer.
func (l *lines) route(id string) string {
	defer time.AfterFunc(10*time.Second, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, ok := l.routes[id]; !ok {
			l.routes[id] = "no line in the log"
		}
		l.more.Broadcast()
	}).Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.routes[id] == "" {
		l.more.Wait()
	}
	return l.routes[id]
}

// answer is one that was read to its end.
type answer struct {
	*http.Response
	body  []byte
	route string // that the service took
}

// code is the machine-readable reason of a refusal, or "".
func (a *answer) code() api.Code {
	var e api.ErrorBody
	_ = json.Unmarshal(a.body, &e)
	return e.Error.Code
}

// run decodes a run.
func (a *answer) run(t testing.TB) (r api.Run) {
	t.Helper()
	if err := json.Unmarshal(a.body, &r); err != nil {
		t.Fatalf("%d %.300s: %v", a.StatusCode, a.body, err)
	}
	return r
}

// ask makes a request and holds the answer against the document.
func (s *site) ask(t testing.TB, method, path string, body any, head ...string) *answer {
	t.Helper()
	var text io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		text = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, s.url+path, text)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	return s.check(t, method+" "+path, res)
}

// check reads an answer and holds it against the document.
func (s *site) check(t testing.TB, what string, res *http.Response) *answer {
	t.Helper()
	defer res.Body.Close()
	a := &answer{Response: res}
	var err error
	if res.StatusCode != http.StatusSwitchingProtocols {
		if a.body, err = io.ReadAll(res.Body); err != nil {
			t.Fatalf("%s: %d: %v", what, res.StatusCode, err)
		}
	}
	a.route = s.lines.route(res.Header.Get("Glovebox-Request-Id"))
	if err := conforms(s.doc, a.route, res.StatusCode, res.Header, a.body); err != nil {
		t.Errorf("%s (%s): %d %.300s: %v", what, a.route, res.StatusCode, a.body, err)
	}
	return a
}

// general are headers of every answer.
var general = map[string]string{
	"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Content-Security-Policy": "", "Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
}

// pages are the routes that are no part of the interface.
var pages = func() map[string]bool {
	m := map[string]bool{}
	for _, e := range server.Everything() {
		m[e.Pattern()] = true
	}
	for _, e := range server.Endpoints() {
		delete(m, e.Pattern())
	}
	return m
}()

// common to HTTP, or of CORS, which the document's text describes.
var plumbing = map[string]bool{"Date": true, "Content-Length": true, "Content-Type": true, "Connection": true, "Transfer-Encoding": true, "Vary": true, "X-Accel-Buffering": true}

// conforms tells whether an answer is one that the document has.
func conforms(doc *openapi3.T, route string, status int, head http.Header, body []byte) error {
	for name, want := range general {
		if got := head.Get(name); got == "" || want != "" && got != want && !(pages[route] && name == "Cache-Control") {
			return fmt.Errorf("%s: %q", name, got)
		}
	}
	if csp := head.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
		return fmt.Errorf("content security policy %q", csp)
	}
	if pages[route] {
		return nil
	}
	if route == "none" { // answers that belong to no path
		return visit(doc.Components.Schemas["ErrorBody"], body)
	}
	method, path, _ := strings.Cut(route, " ")
	item := doc.Paths.Value(strings.ReplaceAll(path, "...}", "}"))
	if item == nil || item.GetOperation(method) == nil {
		return fmt.Errorf("the document has no %s", route)
	}
	ref := item.GetOperation(method).Responses.Value(strconv.Itoa(status))
	if ref == nil {
		return fmt.Errorf("the document has no answer with this status")
	}
	r := ref.Value
	if err := conformsHeaders(r.Headers, head); err != nil {
		return err
	}
	if len(r.Content) == 0 {
		if len(body) != 0 {
			return fmt.Errorf("a body that the document does not have")
		}
		return nil
	}
	media := r.Content.Get(head.Get("Content-Type"))
	if media == nil {
		return fmt.Errorf("Content-Type %q is not in the document", head.Get("Content-Type"))
	}
	if !strings.HasPrefix(head.Get("Content-Type"), "application/json") {
		return nil
	}
	if codes, _ := r.Extensions["x-codes"].([]any); len(codes) > 0 {
		var e api.ErrorBody
		if err := json.Unmarshal(body, &e); err != nil || !strings.Contains(fmt.Sprint(codes)+" ", string(e.Error.Code)) || e.Error.Code.HTTPStatus() != status {
			return fmt.Errorf("the code %q is not among %v", e.Error.Code, codes)
		}
	}
	return visit(media.Schema, body)
}

func conformsHeaders(known openapi3.Headers, head http.Header) error {
	told := map[string]bool{}
	for name, h := range known {
		told[http.CanonicalHeaderKey(name)] = true
		got := head.Get(name)
		if got == "" && h.Value.Required {
			return fmt.Errorf("no header %s", name)
		}
		var v any = got
		if h.Value.Schema.Value.Type.Is("integer") {
			v, _ = strconv.ParseFloat(got, 64)
		}
		if got != "" {
			if err := h.Value.Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
	}
	for name := range head {
		if !told[name] && general[name] == "" && !plumbing[name] && name != "Content-Security-Policy" && !strings.HasPrefix(name, "Access-Control-") {
			return fmt.Errorf("the header %s is not in the document", name)
		}
	}
	return nil
}

func visit(schema *openapi3.SchemaRef, body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.MultiErrors())
}
