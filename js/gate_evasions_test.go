package js_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/js"
	"github.com/glovebox-dev/glovebox/preflight"
)

// mode is a way in which a source reaches the engine.
type mode struct {
	name    string
	syntax  js.Syntax
	module  bool
	feed    bool
	sources []string
}

// exprs puts evasions behind something; typed modes want their value used.
func exprs(before string) []string {
	var out []string
	for _, e := range evasions {
		out = append(out, before+e)
	}
	return out
}

func modes() []mode {
	const factory = "const h = (f) => f; <a />;\n"
	tsx := []string{}
	for _, s := range tsEvasions {
		if !strings.Contains(s, "<any>") { // which is a tag there
			tsx = append(tsx, factory+s)
		}
	}
	return []mode{
		{"script", "", false, false, slices.Concat(exprs(""), scriptEvasions)},
		{"module", "", true, false, slices.Concat(exprs(""), moduleEvasions)},
		{"feed", "", false, true, slices.Concat(exprs(""), feedEvasions)},
		{"ts", js.TypeScript, true, false, slices.Concat(exprs(""), tsEvasions)},
		{"tsx", js.TSX, true, false, slices.Concat(exprs(factory), tsx, jsxEvasions, pragmas)},
		{"jsx", js.JSX, true, false, slices.Concat(exprs(factory), jsxEvasions, pragmas)},
	}
}

// naive transforms a source as a host would that takes the transformer as it is.
func naive(t *testing.T, source string, syntax js.Syntax) string {
	t.Helper()
	loader := map[js.Syntax]api.Loader{"": api.LoaderJS, js.TypeScript: api.LoaderTS, js.TSX: api.LoaderTSX, js.JSX: api.LoaderJSX}[syntax]
	if syntax == "" {
		return source
	}
	r := api.Transform(source, api.TransformOptions{Loader: loader, JSXFactory: "h", JSXFragment: "Fragment", Target: api.ES2022})
	if len(r.Errors) > 0 {
		t.Fatalf("%s: %s", source, r.Errors[0].Text)
	}
	return string(r.Code)
}

func (m *mode) script(code string) js.Script {
	s := js.Script{Code: code, Module: m.module}
	if m.feed {
		s.Feed = &js.Feed{}
	}
	return s
}

// Some eighty sources of each language mode evade a reader of sources in all ways
// that we know, against a policy that forbids eval and its like: none runs, since
// the gate denies it or the worker refuses to make code of text. The control is
// the same without a gate, where each of them runs.
//
// proves part of H-57
func TestGateEvasionsAsRoot(t *testing.T) {
	policy := gate.Policy(preflight.Policy{DenyEval: true})
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if len(m.sources) < 80 {
				t.Errorf("%d sources", len(m.sources))
			}
			hits := 0
			hit := func() { hits++ }
			gated, bare := open(t, js.Options{Gate: policy}), open(t, js.Options{})
			for _, rt := range []*js.Runtime{gated, bare} {
				if err := rt.Bind(ctx, "hit", hit); err != nil {
					t.Fatal(err)
				}
			}
			ends := map[string]int{}
			for _, source := range m.sources {
				hits = 0
				end, err := m.try(gated, source)
				if ends[end]++; hits > 0 || end == "ran" {
					t.Errorf("%q ran: %v", source, err)
				}
				hits = 0
				if _, _, err := bare.Run(ctx, m.script(naive(t, source, m.syntax))); hits == 0 {
					t.Errorf("%q: without a gate it did not run either: %v", source, err)
				}
			}
			t.Log(m.name, len(m.sources), "sources:", ends)
			if ends["denied"] < len(m.sources)*3/4 {
				t.Errorf("the gate denied %d of %d", ends["denied"], len(m.sources))
			}
		})
	}
}

// try says how a source ends behind the gate: "no source" where the transform
// refuses it, "denied" by the gate, "refused" by the worker.
func (m *mode) try(rt *js.Runtime, source string) (string, error) {
	code := source
	if m.syntax != "" {
		s := js.Source{Name: "a." + string(m.syntax), Code: source, Syntax: m.syntax}
		if m.syntax != js.TypeScript {
			s.Factory = "h"
		}
		var err error
		if code, err = rt.Transform(ctx, s); err != nil {
			return "no source", err
		}
	}
	_, _, err := rt.Run(ctx, m.script(code))
	var failed *js.Error
	switch {
	case isDenied(err):
		return "denied", err
	case errors.As(err, &failed) && failed.Name == "EvalError":
		return "refused", err
	case err != nil:
		return "error", fmt.Errorf("%w", err)
	}
	return "ran", nil
}

// The control of the order: a policy that is asked before the transform sees
// nothing in a comment that chooses what markup calls, and the source runs. Asked
// behind it, it sees the call.
//
// proves part of H-57
func TestGateBeforeTransform(t *testing.T) {
	policy := preflight.Policy{DenyEval: true}
	rt := open(t, js.Options{})
	hits := 0
	if err := rt.Bind(ctx, "hit", func() { hits++ }); err != nil {
		t.Fatal(err)
	}
	for _, source := range pragmas {
		if r := policy.Check(source); !r.OK() {
			t.Errorf("%s: the policy sees %s", source, r)
		}
		code := naive(t, source, js.JSX)
		if r := policy.Check(code); r.OK() {
			t.Errorf("%s: the policy does not see what runs: %s", source, code)
		}
		hits = 0
		if _, _, err := rt.Run(ctx, js.Script{Code: code, Module: true}); err != nil || hits == 0 {
			t.Errorf("%s: %v, hit %d times", source, err, hits)
		}
		if _, err := rt.Transform(ctx, js.Source{Code: source, Syntax: js.JSX, Factory: "h"}); js.KindOf(err) != js.SyntaxError {
			t.Errorf("%s: the transform takes it: %v", source, err)
		}
	}
}
