package agent

import (
	"context"
	"slices"
	"testing"

	esbuild "github.com/evanw/esbuild/pkg/api"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// newGuest is a runtime of this tree's worker.
func newGuest(t *testing.T, o js.Options) *js.Runtime {
	t.Helper()
	o.InitPath, o.WorkerPath = testenv.Init(), testenv.Worker()
	rt, err := js.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// TestGuestGlobals: every name that a guest's world has, and what objects inherit,
// is refused as a tool's, and no other name for the sake of one.
//
// proves part of S-10
func TestGuestGlobals(t *testing.T) {
	rt := newGuest(t, js.Options{Allow: []string{"WebAssembly", "Atomics", "WeakRef"}})
	v, err := rt.Eval(t.Context(), `[Object.getOwnPropertyNames(globalThis), Object.getOwnPropertyNames(Object.prototype)]`)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	if err := v.Decode(&all); err != nil || len(all[0]) < 60 || len(all[1]) < 10 {
		t.Fatalf("%d and %d names, %v", len(all[0]), len(all[1]), err)
	}
	for i, names := range all {
		for _, name := range names {
			if checkName(name) == "" || i == 1 && checkName("a."+name) == "" {
				t.Errorf("%s can be a tool's name", name)
			}
		}
	}
	for _, list := range []struct {
		what       string
		here, real []string
	}{{"globals", globals, all[0]}, {"inherited", inherited, all[1]}} {
		for _, name := range list.here {
			if !slices.Contains(list.real, name) {
				t.Errorf("%s has %s, which no guest has", list.what, name)
			}
		}
	}
}

// TestWords: each word of the language is refused by the compilers of both
// languages too, somewhere; what is a word at some places alone can be the name of
// a tool, of a namespace and of a parameter.
//
// proves part of S-10
func TestWords(t *testing.T) {
	rt := newGuest(t, js.Options{})
	for _, w := range words {
		_, asFunction := rt.EvalModule(t.Context(), "function "+w+"() {}")
		_, later := rt.Eval(t.Context(), "async () => "+w+".x")
		r := esbuild.Transform("namespace "+w+" { export function x() {} }", esbuild.TransformOptions{Loader: esbuild.LoaderTS})
		if asFunction == nil && js.KindOf(later) != js.SyntaxError && len(r.Errors) == 0 && w != "undefined" {
			t.Errorf("%s is a name like others", w)
		}
	}
	for _, w := range typeWords {
		if slices.Contains(words, w) {
			t.Errorf("%s is there twice", w)
		}
		exactly(t, catalogOf(t, Tool{Name: w, Func: func(int) {}, Params: []string{w}}))
		exactly(t, catalogOf(t, Tool{Name: w + "." + w, Func: func(int) {}, Params: []string{w}}))
		if err := rt.Bind(t.Context(), w, func() int { return 7 }); err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{w + "()", w + "() + 0", "(function (" + w + ") { 'use strict'; return " + w + "() })(" + w + ")"} {
			if v, err := rt.Eval(t.Context(), code); err != nil || v.Any() != 7.0 {
				t.Errorf("%s: %v, %v", code, v, err)
			}
		}
	}
}

// TestFromGuest: a guest fetches, and calls a tool through its set, and is told
// of refusals what it may know.
func TestFromGuest(t *testing.T) {
	s := newSite(t, nil)
	f := newFetcher(t, FetchOptions{Rules: []FetchRule{{Origin: s.origin("api.test"), Paths: []string{"/v1/"}, Methods: []string{"GET", "POST"}}}})
	set := catalogOf(t, Tool{Name: "add", Func: func(a, b int) int { return a + b }, MaxCalls: 2}).NewToolSet()
	rt := newGuest(t, js.Options{})
	if err := rt.BindAsync(t.Context(), "http_fetch", f.Fetch); err != nil {
		t.Fatal(err)
	}
	if err := rt.BindAsync(t.Context(), "add", js.Func(func(ctx context.Context, args []js.Value) (any, error) {
		call, err := set.Admit("add", args)
		if err != nil {
			return nil, err
		}
		return call.Run(ctx)
	})); err != nil {
		t.Fatal(err)
	}
	base := s.origin("api.test")
	for code, want := range map[string]string{
		`http_fetch("` + base + `/v1/x").then(r => [r.status, r.url, r.body, r.bytes])`:                        `[200,"` + base + `/v1/x","",null]`,
		`http_fetch("` + base + `/v1/y", {method: "post", body: "b"}).then(r => r.status)`:                     `200`,
		`http_fetch("` + base + `/v1/y", {method: "POST", cache: "no-store"}).catch(e => [e.name, e.message])`: `["TypeError","argument 2: args[1].cache: agent.FetchInit has no such field"]`,
		`http_fetch("` + base + `/admin").catch(e => [e.name, e.message])`:                                     `["FetchError","denied: its origin does not allow this path"]`,
		`http_fetch("http://169.254.169.254/").catch(e => e.message)`:                                          `"denied: no rule has this origin"`,
		`(async () => { const out = [await add(1, 2)]; try { await add(1) } catch (e) { out.push(e.message) }
			out.push(await add(3, 4)); try { await add(5, 6) } catch (e) { out.push(e.name, e.message) } return out })()`: `[3,"tool_arguments: argument 2 is missing",7,"ToolError","tool_budget: all 2 calls are used up"]`,
	} {
		v, err := rt.Eval(t.Context(), code)
		if err != nil {
			t.Errorf("%s: %v", code, err)
			continue
		}
		if got, err := v.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", code, got, err, want)
		}
	}
	if got := len(s.requests()); got != 2 {
		t.Errorf("%d requests arrived", got)
	}
}
