package server_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/server"
)

// exercises ask for each route of the service once, by a real connection, in a way
// that it grants. A new route needs a line here; see TestEveryRouteAsRoot.
var exercises = map[string]func(*testing.T, *site) *answer{
	"POST /v1/runs": func(t *testing.T, s *site) *answer {
		return s.ask(t, "POST", "/v1/runs?wait=30s", api.Submission{Program: api.Program{Language: "bash", Source: "echo hi"}}, "Idempotency-Key", "0123456789abcdef")
	},
	"GET /v1/runs/{id}": func(t *testing.T, s *site) *answer {
		return s.ask(t, "GET", "/v1/runs/"+s.ended(t).ID, nil)
	},
	"GET /v1/runs/{id}/artifacts/{name...}": func(t *testing.T, s *site) *answer {
		return s.ask(t, "GET", s.ended(t).Result.Artifacts[0].URL, nil)
	},
	"GET /v1/runs/{id}/events": func(t *testing.T, s *site) *answer {
		return s.ask(t, "GET", "/v1/runs/"+s.ended(t).ID+"/events", nil)
	},
	"GET /v1/runs/{id}/stream": func(t *testing.T, s *site) *answer {
		return s.ask(t, "GET", "/v1/runs/"+s.ended(t).ID+"/stream", nil,
			"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAECAwQFBgcICQoLDA0ODw==")
	},
	"POST /v1/runs/{id}/stdin": func(t *testing.T, s *site) *answer {
		run := s.cat(t)
		return s.ask(t, "POST", "/v1/runs/"+run.ID+"/stdin", api.StdinBody{Data: "x", Close: true}, server.OwnerHeader, run.OwnerToken)
	},
	"POST /v1/runs/{id}/signal": func(t *testing.T, s *site) *answer {
		run := s.cat(t)
		return s.ask(t, "POST", "/v1/runs/"+run.ID+"/signal", api.SignalBody{Name: "SIGTERM"}, server.OwnerHeader, run.OwnerToken)
	},
	"DELETE /v1/runs/{id}": func(t *testing.T, s *site) *answer {
		run := s.cat(t)
		return s.ask(t, "DELETE", "/v1/runs/"+run.ID, nil, server.OwnerHeader, run.OwnerToken)
	},
	"POST /v1/keys": func(t *testing.T, s *site) *answer { return s.ask(t, "POST", "/v1/keys", nil) },
	"GET /v1/keys": func(t *testing.T, s *site) *answer {
		return s.ask(t, "GET", "/v1/keys", nil, "Authorization", "Bearer "+operator)
	},
	"GET /v1/keys/self": func(t *testing.T, s *site) *answer {
		return s.ask(t, "GET", "/v1/keys/self", nil, "Authorization", "Bearer "+s.key(t).Key)
	},
	"DELETE /v1/keys/self": func(t *testing.T, s *site) *answer {
		return s.ask(t, "DELETE", "/v1/keys/self", nil, "Authorization", "Bearer "+s.key(t).Key)
	},
	"DELETE /v1/keys/{key_id}": func(t *testing.T, s *site) *answer {
		return s.ask(t, "DELETE", "/v1/keys/"+s.key(t).ID, nil, "Authorization", "Bearer "+operator)
	},
	"GET /metrics": func(t *testing.T, s *site) *answer {
		if a := s.ask(t, "GET", "/metrics", nil); a.StatusCode != http.StatusOK {
			return a
		}
		return s.ask(t, "GET", "/metrics", nil, "Accept", "application/json")
	},
	"GET /v1/languages": get("/v1/languages"),
	"GET /v1/limits":    get("/v1/limits"),
	"GET /v1/status":    get("/v1/status"),
	"GET /healthz":      get("/healthz"),
	"GET /readyz":       get("/readyz"),
	"GET /openapi.json": get("/openapi.json"),
}

func get(path string) func(*testing.T, *site) *answer {
	return func(t *testing.T, s *site) *answer { return s.ask(t, "GET", path, nil) }
}

// key makes a key.
func (s *site) key(t testing.TB) (k api.KeyInfo) {
	t.Helper()
	if err := json.Unmarshal(s.ask(t, "POST", "/v1/keys", nil).body, &k); err != nil {
		t.Fatal(err)
	}
	return k
}

// ended is a run that has ended and left a file.
func (s *site) ended(t testing.TB) api.Run {
	t.Helper()
	a := s.ask(t, "POST", "/v1/runs?wait=30s", api.Submission{Program: api.Program{Language: "bash", Source: "mkdir d; echo left >'d/a b.txt'", Artifacts: []string{"d/*"}}})
	run := a.run(t)
	if run.State != api.RunFinished || len(run.Result.Artifacts) != 1 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return run
}

// cat is a run that waits for its standard input, and has begun.
func (s *site) cat(t testing.TB) api.Run {
	t.Helper()
	run := s.ask(t, "POST", "/v1/runs", api.Submission{Program: api.Program{Command: []string{"/bin/cat"}}, Interactive: true}).run(t)
	t.Cleanup(func() { s.ask(t, "DELETE", "/v1/runs/"+run.ID, nil, server.OwnerHeader, run.OwnerToken) })
	for { // bounded by the run's own limit of time
		switch a := s.ask(t, "POST", "/v1/runs/"+run.ID+"/stdin", api.StdinBody{Data: "one\n"}, server.OwnerHeader, run.OwnerToken); {
		case a.StatusCode == http.StatusAccepted:
			return run
		case a.StatusCode != http.StatusConflict || s.ask(t, "GET", "/v1/runs/"+run.ID, nil).run(t).State == api.RunFinished:
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
}

// Every route is in the document and every operation of the document is a route; each
// has a handler, each handler is of a route, and each is asked for here over a real
// connection and answers as the document says.
//
// proves part of X-26
func TestEveryRouteAsRoot(t *testing.T) {
	s := shared(t)
	asked := map[string]bool{}
	for _, e := range server.Endpoints() {
		t.Run(strings.ReplaceAll(e.Pattern(), "/", "_"), func(t *testing.T) {
			f := exercises[e.Pattern()]
			if f == nil {
				return // gaps says so
			}
			if a := f(t, s); a.route != e.Pattern() || !slices.Contains(e.Answers, a.StatusCode) {
				t.Errorf("took %s: %d %s", a.route, a.StatusCode, a.body)
			} else {
				asked[e.Pattern()] = true
			}
		})
	}
	for _, gap := range gaps(s.doc, server.Endpoints(), slices.Collect(maps.Keys(asked)), handlers(t)) {
		t.Error(gap)
	}
}

// gaps says what of a service lacks its counterpart.
func gaps(doc *openapi3.T, routes []server.Endpoint, asked, handlers []string) (out []string) {
	known, handled := map[string]bool{}, map[string]bool{}
	for _, e := range routes {
		known[e.Method+" "+strings.ReplaceAll(e.Path, "...}", "}")], handled[e.Handler] = true, true
		if item := doc.Paths.Value(strings.ReplaceAll(e.Path, "...}", "}")); item == nil || item.GetOperation(e.Method) == nil {
			out = append(out, fmt.Sprintf("%s is not in the document", e.Pattern()))
		}
		if !slices.Contains(asked, e.Pattern()) {
			out = append(out, fmt.Sprintf("%s has no test that asks for it and is granted; see exercises", e.Pattern()))
		}
		if !slices.Contains(handlers, e.Handler) {
			out = append(out, fmt.Sprintf("%s has no handler", e.Pattern()))
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if !known[method+" "+path] {
				out = append(out, fmt.Sprintf("%s %s of the document is no route", method, path))
			}
		}
	}
	for _, h := range handlers {
		if !handled[h] {
			out = append(out, fmt.Sprintf("the handler %s has no route", h))
		}
	}
	return out
}

// handlers are the methods of Server that have the form of a handler and are not
// called by others.
func handlers(t *testing.T) (out []string) {
	t.Helper()
	called := map[string]bool{}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && isHandler(f.Type) {
				out = append(out, f.Name.Name)
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if f, ok := c.Fun.(*ast.SelectorExpr); ok {
					called[f.Sel.Name] = true
				}
			}
			return true
		})
	}
	return slices.DeleteFunc(out, func(h string) bool { return called[h] })
}

func isHandler(f *ast.FuncType) bool {
	var params []string
	for _, p := range f.Params.List {
		for range max(1, len(p.Names)) {
			switch x := p.Type.(type) {
			case *ast.SelectorExpr:
				params = append(params, x.Sel.Name)
			case *ast.StarExpr:
				if id, ok := x.X.(*ast.Ident); ok {
					params = append(params, id.Name)
				}
			default:
				return false
			}
		}
	}
	return slices.Equal(params, []string{"ResponseWriter", "request"}) && f.Results.NumFields() == 1
}

// The control of TestEveryRoute: what is taken away is missed.
func TestGaps(t *testing.T) {
	load := func() *openapi3.T {
		doc, err := openapi3.NewLoader().LoadFromData(server.Document())
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	routes := server.Endpoints()
	asked, all := slices.Collect(maps.Keys(exercises)), handlers(t)
	if g := gaps(load(), routes, asked, all); len(g) != 0 {
		t.Fatal(g)
	}
	poor := load()
	poor.Paths.Delete("/v1/limits")
	for name, g := range map[string][]string{
		"a route that the document lacks": gaps(poor, routes, asked, all),
		"a path without a route":          gaps(load(), routes[1:], asked, slices.DeleteFunc(slices.Clone(all), func(h string) bool { return h == routes[0].Handler })),
		"a route without a test":          gaps(load(), routes, slices.DeleteFunc(slices.Clone(asked), func(p string) bool { return p == "GET /healthz" }), all),
		"a handler without a route":       gaps(load(), routes, asked, append(slices.Clone(all), "backDoor")),
		"a route without a handler":       gaps(load(), routes, asked, slices.DeleteFunc(slices.Clone(all), func(h string) bool { return h == "healthz" })),
	} {
		if len(g) != 1 {
			t.Errorf("%s: %v", name, g)
		}
	}
}
