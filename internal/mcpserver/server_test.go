package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// The version of the SDK is not below the one in which what is known against it is
// mended: GO-2026-4569 (1.3.1), GO-2026-5771 (1.4.0), GO-2026-4770 and GO-2026-4773 (1.4.1).
//
// proves part of H-67
// proves part of H-54
func TestSDKVersion(t *testing.T) {
	mod, err := os.ReadFile(testenv.Root() + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\tgithub\.com/modelcontextprotocol/go-sdk v(\S+)$`).FindStringSubmatch(string(mod))
	if m == nil {
		t.Fatal("go.mod names no version")
	}
	if !atLeast(m[1], "1.4.1") {
		t.Errorf("%s is below 1.4.1", m[1])
	}
	for v, want := range map[string]bool{"1.4.1": true, "1.4.0": false, "1.10.0": true, "2.0.0": true, "1.3.9": false, "1.4.1-pre.1": false, "1.5.0-pre.1": true, "x": false} {
		if got := atLeast(v, "1.4.1"); got != want {
			t.Errorf("control: %s: %v", v, got)
		}
	}
}

// atLeast compares versions; a release before another is below it.
func atLeast(v, least string) bool {
	core, pre, isPre := strings.Cut(v, "-")
	_ = pre
	a, b := numbers(core), numbers(least)
	if a == nil {
		return false
	}
	if c := slices.Compare(a, b); c != 0 {
		return c > 0
	}
	return !isPre
}

func numbers(v string) []int {
	var out []int
	for s := range strings.SplitSeq(v, ".") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// jsonNames are the names of a struct's fields.
func jsonNames(t reflect.Type, audience string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		if audience == "" || slices.Contains(strings.Split(f.Tag.Get("for"), ","), audience) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// What run_code takes is what a client may set of a Program, and the schema that a
// model reads has the same names and bounds.
//
// proves part of H-5
func TestSchemas(t *testing.T) {
	s := server(t)
	args := jsonNames(reflect.TypeFor[runArgs](), "")
	want := append(jsonNames(reflect.TypeFor[api.Program](), api.AudienceClient), "stdin_encoding")
	slices.Sort(want)
	if !slices.Equal(args, want) {
		t.Errorf("run_code takes %v, a client may set %v", args, want)
	}
	members := func(schema any, path ...any) []string {
		m, _ := at(schema, append(path, "properties")...).(obj)
		return slices.Sorted(maps.Keys(m))
	}
	tools, err := local(t, s).ListTools(minute(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]any{}
	for _, tool := range tools.Tools {
		schemas[tool.Name] = tool.InputSchema
	}
	for path, typ := range map[string]reflect.Type{"": reflect.TypeFor[runArgs](), "files": reflect.TypeFor[api.File](), "limits": reflect.TypeFor[api.Limits]()} {
		var p []any
		if path != "" {
			p = []any{"properties", path}
		}
		if path == "files" {
			p = append(p, "items")
		}
		if got := members(schemas["run_code"], p...); !slices.Equal(got, jsonNames(typ, "")) {
			t.Errorf("run_code %s: %v", path, got)
		}
	}
	if got := members(schemas["check_code"]); !slices.Equal(got, jsonNames(reflect.TypeFor[checkArgs](), "")) {
		t.Errorf("check_code: %v", got)
	}
	if at(schemas["run_code"], "properties", "limits", "properties", "wall_ms", "maximum") != 60_000.0 || len(tools.Tools) != len(s.tools()) {
		t.Errorf("%v", schemas)
	}
	for _, tool := range s.tools() {
		schema := &jsonschema.Schema{}
		if err := schema.UnmarshalJSON(encode(tool.tool.InputSchema)); err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Resolve(nil); err != nil {
			t.Errorf("%s: %v", tool.tool.Name, err)
		}
	}
}

// check_code gives each finding its place, and runs nothing.
func TestCheckCode(t *testing.T) {
	cs := local(t, server(t))
	got, r := callTool(t, cs, "check_code", obj{"source": "const a = 1\nfetch('x'); eval('1'); import('y')"})
	if got["ok"] != false || at(got, "findings", 0, "line") != 2.0 || at(got, "findings", 0, "severity") != "error" || r.IsError {
		t.Errorf("%v", got)
	}
	if got, _ := callTool(t, cs, "check_code", obj{"source": "fetch('x'); eval('1'); import('y')", "bound": []string{"fetch"}, "allow_dynamic_import": true, "report_eval": false}); got["ok"] != true || len(got["findings"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	if got, _ := callTool(t, cs, "check_code", obj{"source": "export const a = 1", "allow_import": true, "max": 1}); got["ok"] != true {
		t.Errorf("%v", got)
	}
	for field, args := range map[string]obj{"source": {}, "max": {"source": "x", "max": maxFindings + 1}, "Bound": {"source": "x", "Bound": []string{}}} {
		if got, r := callTool(t, cs, "check_code", args); !r.IsError || at(got, "error", "code") != "bad_arguments" || !strings.Contains(at(got, "error", "message").(string), field) {
			t.Errorf("%s: %v", field, got)
		}
	}
	if _, r := callTool(t, cs, "sandbox_status", obj{"x": 1}); !r.IsError {
		t.Error("sandbox_status took an argument")
	}
}

// Where no cell can be sealed the tools name the reason, sandbox_status works, and the
// server says at its end that nothing could be run.
func TestUnavailable(t *testing.T) {
	o := options()
	o.Box.InitPath = "/bin/true"
	s := newServer(t, o)
	cs := local(t, s)
	got, r := callTool(t, cs, "run_code", obj{"language": "bash", "source": "true"})
	message, _ := at(got, "error", "message").(string)
	if !r.IsError || at(got, "error", "code") != "sandbox_unavailable" || !strings.Contains(message, "self_test") || at(got, "error", "remedy", 0) == nil {
		t.Errorf("%v", got)
	}
	status, r := callTool(t, cs, "sandbox_status", obj{})
	if r.IsError || status["available"] != false || status["complete"] != false || at(status, "languages", 0, "name") != "bash" {
		t.Errorf("%v", status)
	}
	if got, _ := callTool(t, cs, "check_code", obj{"source": "1"}); got["ok"] != true {
		t.Errorf("%v", got)
	}
	if err := s.Unopened(); !errors.Is(err, glovebox.ErrSandboxUnavailable) {
		t.Errorf("%v", err)
	}
	if _, err := server(t).Box(minute(t)); err != nil || server(t).Unopened() != nil {
		t.Errorf("control: %v, %v", err, server(t).Unopened())
	}
	// Over HTTP the reason stays here.
	far := remote(t, listen(t, s, HTTPOptions{Tokens: tokens(t)}), tokenA, nil)
	if status, _ := callTool(t, far, "sandbox_status", obj{}); strings.Contains(string(encode(status)), "launcher") || status["available"] != false {
		t.Errorf("%v", status)
	}
	if got, _ := callTool(t, far, "run_code", obj{"language": "bash", "source": "true"}); strings.Contains(string(encode(got)), "launcher") || at(got, "error", "code") != "sandbox_unavailable" {
		t.Errorf("%v", got)
	}
}

// A host that is mended serves without a new start.
func TestMended(t *testing.T) {
	o := options()
	o.Box.InitPath = "/bin/true"
	s := newServer(t, o)
	if _, err := s.Box(minute(t)); !errors.Is(err, glovebox.ErrSandboxUnavailable) {
		t.Fatalf("%v", err)
	}
	s.o.Box.InitPath = testenv.Init() // no attempt is on its way
	if _, err := s.Box(minute(t)); err == nil {
		t.Error("it tried again at once")
	}
	s.box.mu.Lock()
	s.box.tried = time.Now().Add(-2 * reopen)
	s.box.mu.Unlock()
	if _, err := s.Box(minute(t)); err != nil || s.Unopened() != nil {
		t.Errorf("%v, %v", err, s.Unopened())
	}
}

// Options that cannot be meant are refused by name.
func TestOptions(t *testing.T) {
	for field, o := range map[string]Options{"InFlight": {InFlight: -1}, "Sessions": {Sessions: -1}, "ArtifactBytes": {ArtifactBytes: -1}, "ArtifactTime": {ArtifactTime: -1}} {
		var e *glovebox.FieldError
		if _, err := New(o); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Artifacts make room for newer ones, go with their time, and are found by their whole
// address alone.
//
// proves part of H-82
func TestArtifacts(t *testing.T) {
	var s artifacts
	s.init(100, time.Minute)
	now := time.Now()
	s.now = func() time.Time { return now }
	put := func(n int) string {
		uri, ok := s.put(artifact{data: make([]byte, n)})
		if !ok {
			return ""
		}
		return uri
	}
	a, b := put(60), put(40)
	if s.get(a) == nil || s.get(b) == nil || put(101) != "" || s.get(a) == nil {
		t.Error("what fits is not there, or what does not pushed it out")
	}
	c := put(1)
	if s.get(a) != nil || s.get(b) == nil || s.get(c) == nil || s.size != 41 {
		t.Errorf("%d bytes", s.size)
	}
	for _, wrong := range []string{"", artifactPrefix, b[:len(b)-1], strings.ToLower(b), b + "/", " " + b, "glovebox://artifact/../" + b} {
		if s.get(wrong) != nil {
			t.Errorf("%q leads somewhere", wrong)
		}
	}
	if id := strings.TrimPrefix(b, artifactPrefix); len(id) < 26 || b == c {
		t.Errorf("%q and %q", b, c)
	}
	now = now.Add(2 * time.Minute)
	if s.get(b) != nil || len(s.all()) != 0 || s.size != 0 {
		t.Error("they outlive their time")
	}
	for range maxArtifacts + 5 {
		put(0)
	}
	if n := len(s.all()); n != maxArtifacts || len(s.byURI) != n {
		t.Errorf("%d", n)
	}
}

// A tool that panics is one call that failed.
func TestPanic(t *testing.T) {
	c := newClient(server(t), principal{name: "panic", local: true})
	h := c.handler(tool{tool: &mcp.Tool{Name: "bad"}, call: func(context.Context, *client, *mcp.CallToolRequest, json.RawMessage) (*mcp.CallToolResult, error) {
		panic("secret\x1b[31m")
	}})
	r, err := h(minute(t), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}, Session: nil})
	if err != nil || !r.IsError || strings.Contains(r.Content[0].(*mcp.TextContent).Text, "secret") {
		t.Errorf("%+v %v", r, err)
	}
}
