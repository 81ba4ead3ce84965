package js_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// judge is a gate that notes what it is asked, and denies what has the word DENY.
type judge struct {
	mu   sync.Mutex
	seen []string // KIND NAME SOURCE
}

func (j *judge) gate(_ context.Context, source []byte, info gate.Info) gate.Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	if info.Language != "javascript" {
		return gate.Verdict{}
	}
	j.seen = append(j.seen, fmt.Sprintf("%s %s %s", info.Kind, info.Name, source))
	return gate.Verdict{Allow: !strings.Contains(string(source), "DENY"), Reason: "the word"}
}

// asked returns what was asked since the last time.
func (j *judge) asked() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	seen := j.seen
	j.seen = nil
	return seen
}

// isDenied tells an error that means that nothing has run.
func isDenied(err error) bool {
	_, ok := err.(*gate.Denied)
	return ok
}

// The gate gets the bytes that the engine will parse, whatever brings them, and
// once each.
//
// proves part of H-57
func TestGateSees(t *testing.T) {
	var j judge
	more := map[string]string{"far": "export { b } from 'b'; import d from 'data' with { type: 'json' }; export default d.d", "data": `{ "d": 4 }`, "b": "export const b = 2"}
	rt := open(t, js.Options{Gate: j.gate, Modules: map[string]string{"near": "export const a = 1", "json": "[1]"},
		Resolve: func(_ context.Context, specifier, _ string) (string, string, error) {
			return specifier, more[specifier], nil
		}})
	if diff := cmp.Diff([]string{"json json [1]", "module near export const a = 1"}, j.asked()); diff != "" {
		t.Error(diff)
	}
	code, err := rt.Transform(ctx, js.Source{Name: "a.ts", Code: "enum A { x = 5 }\nexport default <number>A.x", Syntax: js.TypeScript})
	if err != nil {
		t.Fatal(err)
	}
	if seen := j.asked(); seen != nil {
		t.Errorf("asked before anything is to run: %q", seen)
	}
	for _, c := range []struct {
		s      js.Script
		value  string
		asked  []string
		starts bool
	}{
		{js.Script{Code: "1"}, "1", []string{"script eval 1"}, false},
		{js.Script{Code: "\ufeff2 // \u2028", Name: "n"}, "2", []string{"script n \ufeff2 // \u2028"}, false},
		{js.Script{Code: "3", Name: "s"}, "3", []string{"script s 3"}, true},
		{js.Script{Code: code, Module: true}, `{"default":5}`, []string{"module eval " + code}, false},
		{js.Script{Code: "import { a } from 'near'; export default a", Module: true}, `{"default":1}`, []string{"module eval import { a } from 'near'; export default a"}, false},
		{js.Script{Code: "import('far').then(m => m.default)"}, "4",
			[]string{"script eval import('far').then(m => m.default)", "module far " + more["far"], "module b " + more["b"], "json data " + more["data"]}, false},
		{js.Script{Code: "await 0; return n + 1", Name: "f", Feed: &js.Feed{Inputs: map[string]any{"n": 5}}}, "6", []string{"feed f await 0; return n + 1"}, false},
		{js.Script{Code: "n", Feed: &js.Feed{}}, "5", []string{"feed eval n"}, true},
		{js.Script{Code: "import('far').then(m => m.b)"}, "2", []string{"script eval import('far').then(m => m.b)"}, true},
	} {
		var v js.Value
		if c.starts {
			step, err := rt.Start(ctx, c.s)
			if err != nil {
				t.Fatal(err)
			}
			v = step.Value
		} else if v, _, err = rt.Run(ctx, c.s); err != nil {
			t.Fatal(err)
		}
		if got, _ := v.MarshalJSON(); string(got) != c.value {
			t.Errorf("%s: %s", c.s.Code, got)
		}
		if diff := cmp.Diff(c.asked, j.asked()); diff != "" {
			t.Error(diff)
		}
	}
}

// What the gate denies does not run, and the runtime goes on. A module that is
// denied is an error of the guest's, and the host is told.
//
// proves part of H-57
func TestGateDenies(t *testing.T) {
	var j judge
	ran := 0
	rt := open(t, js.Options{Gate: j.gate, Resolve: func(_ context.Context, specifier, _ string) (string, string, error) {
		return specifier, map[string]string{"good": "export default 1", "bad": "ran('DENY')", "bad.json": `"DENY"`, "through": "import 'bad'; ran()"}[specifier], nil
	}})
	if err := rt.Bind(ctx, "ran", func() { ran++ }); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Eval(ctx, "ran('DENY')"); !isDenied(err) {
		t.Error(err)
	}
	if _, err := rt.EvalModule(ctx, "ran('DENY')"); !isDenied(err) {
		t.Error(err)
	}
	if _, err := rt.Execute(ctx, js.Script{Code: "ran('DENY')"}); !isDenied(err) {
		t.Error(err)
	}
	for _, f := range []*js.Feed{nil, {}} {
		if _, err := rt.Start(ctx, js.Script{Code: "ran('DENY')", Feed: f}); !isDenied(err) {
			t.Error(err)
		}
	}
	for _, code := range []string{"import 'bad'", "import 'through'", "import x from 'bad.json' with { type: 'json' }", "export default await import('bad')"} {
		_, err := rt.EvalModule(ctx, code)
		var d *gate.Denied
		if js.KindOf(err) != js.Thrown || !errors.As(err, &d) || d.Reason != "the word" || strings.Contains(err.Error(), "word") {
			t.Errorf("%s: %v", code, err)
		}
	}
	if got := text(t, rt, "import('bad').catch(e => e.name + ': ' + e.message)"); got != `"TypeError: the host's gate does not let this module pass"` {
		t.Error(got)
	}
	if _, err := rt.Eval(ctx, "throw 1"); errors.As(err, new(*gate.Denied)) {
		t.Error("an earlier denial is in an error")
	}
	if ran != 0 {
		t.Errorf("what was denied ran %d times", ran)
	}
	if got := text(t, rt, "ran(); import('good').then(m => m.default)"); got != "1" || ran != 1 { // the control
		t.Errorf("%s, %d", got, ran)
	}
	_, err := js.New(ctx, js.Options{Gate: j.gate, InitPath: testenv.Init(), WorkerPath: testenv.Worker(), Modules: map[string]string{"a": "1", "b": "DENY"}})
	if !isDenied(err) {
		t.Error(err)
	}
}

// textCode makes code of text in every way that the language has. The value is
// "ran" where it ran.
var textCode = []string{
	"eval('\"ran\"')",
	"(0, eval)('\"ran\"')",
	"globalThis['ev' + 'al']('\"ran\"')",
	"Reflect.apply(eval, null, ['\"ran\"'])",
	"[`\"ran\"`].map(eval)[0]",
	"new Function('return \"ran\"')()",
	"Function('return \"ran\"')()",
	"(() => {}).constructor('return \"ran\"')()",
	"Reflect.construct(Function, ['return \"ran\"'])()",
	"new (class extends Function {})('return \"ran\"')()",
	"(async () => {}).constructor('return \"ran\"')()",
	"(function* () {}).constructor('yield \"ran\"')().next().value",
	"(async function* () {}).constructor('yield \"ran\"')().next().then(r => r.value)",
	"[].map.constructor('return \"ran\"')()",
	"['return \"ran\"'].map(s => Function(s))[0]()",
	"'return \"ran\"'.replace(/.*/, (s) => Function(s)())",
	"JSON.parse('[\"return 1\"]', (k, v) => typeof v === 'string' ? Function('return \"ran\"')() : v)[0]",
	"globalThis.x = 0; setTimeout(() => { x = eval('\"ran\"') }, 0); new Promise(r => setTimeout(() => r(x), 5))",
}

// Beside a gate no code comes of text: eval, the constructors of functions, and
// what only looks like a source. The control is the same without a gate.
//
// proves part of H-57 G-18
func TestGateAndTextAsCode(t *testing.T) {
	var j judge
	gated, open_ := open(t, js.Options{Gate: j.gate}), open(t, js.Options{})
	for _, code := range textCode {
		if v, err := open_.Eval(ctx, code); err != nil || v.Any() != "ran" {
			t.Errorf("%s: without a gate %v, %v", code, v, err)
		}
		if v, err := gated.Eval(ctx, code); err == nil && v.Any() == "ran" {
			t.Errorf("%s: it ran", code)
		}
	}
	// What no runtime has, gate or not.
	for _, code := range []string{
		"globalThis.x = 0; setTimeout('x = \"ran\"', 0); new Promise(r => setTimeout(() => r(x), 5))",
		"globalThis.x = 0; setInterval('x = \"ran\"', 1); new Promise(r => setTimeout(() => r(x), 5))",
		"globalThis.x = 0; setTimeout({ toString: () => 'x = \"ran\"' }, 0); new Promise(r => setTimeout(() => r(x), 5))",
		"new ShadowRealm().evaluate('\"ran\"')",
		"import('data:text/javascript,export default \"ran\"').then(m => m.default)",
		"new Worker('data:text/javascript,1') && 'ran'",
		"WebAssembly && 'ran'",
		"importScripts('a') || 'ran'",
		"require('vm').runInThisContext('\"ran\"')",
		"document.write('<script>1</script>') || 'ran'",
	} {
		for _, rt := range []*js.Runtime{gated, open_} {
			if v, err := rt.Eval(ctx, code); err == nil && v.Any() == "ran" {
				t.Errorf("%s: it ran", code)
			}
		}
	}
	// In modules too, whose code stays under eval's rule for as long as it lives.
	if _, err := gated.EvalModule(ctx, "export default eval('1')"); js.KindOf(err) != js.Thrown {
		t.Error(err)
	}
}

// The modules that were judged are those that workers get.
//
// proves part of H-57
func TestGateModulesAreCopied(t *testing.T) {
	var j judge
	modules := map[string]string{"a": "export default 1"}
	p, err := js.NewPool(ctx, js.Options{Gate: j.gate, InitPath: testenv.Init(), WorkerPath: testenv.Worker(), Modules: modules}, js.PoolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	maps.Copy(modules, map[string]string{"a": "export default 'DENY'", "b": "export default 'DENY'"})
	for range 2 { // the first worker was started with the pool
		rt, err := p.Checkout(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, rt, "import('a').then(m => m.default)"); got != "1" {
			t.Error(got)
		}
		if got := kind(t, rt, "import('b')"); got != js.Thrown {
			t.Error(got)
		}
		rt.Close()
	}
}

// A script that was admitted is not judged again for as long as it is the same
// and runs where it was admitted. Long because of the ways to change one.
//
// proves part of H-57
func TestAdmit(t *testing.T) {
	var j, other judge
	pool := func(o js.Options) *js.Pool {
		o.InitPath, o.WorkerPath = testenv.Init(), testenv.Worker()
		p, err := js.NewPool(ctx, o, js.PoolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	p := pool(js.Options{Gate: j.gate})
	rt, err := p.Checkout(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Admit(ctx, js.Script{Code: "1"})
	if err != nil || len(j.asked()) != 1 {
		t.Fatal(err)
	}
	asked := func(s js.Script, want int) {
		t.Helper()
		if _, _, err := rt.Run(ctx, s); err != nil {
			t.Error(err)
		}
		if n := len(j.asked()); n != want {
			t.Errorf("%+v: asked %d times, want %d", s, n, want)
		}
	}
	asked(s, 0)
	asked(s, 0)
	if _, err := rt.Start(ctx, s); err != nil || len(j.asked()) != 0 {
		t.Error(err)
	}
	for _, change := range []func(*js.Script){
		func(s *js.Script) { s.Code = "2" }, func(s *js.Script) { s.Name = "x" }, func(s *js.Script) { s.Module = true },
	} {
		changed := s
		change(&changed)
		asked(changed, 1)
	}
	s.TimeoutMS = 100
	asked(s, 0)
	swapped := s
	swapped.Code = "'DENY'"
	if _, _, err := rt.Run(ctx, swapped); !isDenied(err) {
		t.Error(err)
	}
	j.asked()
	elsewhere, err := pool(js.Options{Gate: other.gate}).Admit(ctx, js.Script{Code: "1"})
	if err != nil {
		t.Fatal(err)
	}
	asked(elsewhere, 1)
	if s, err = pool(js.Options{}).Admit(ctx, js.Script{Code: "1"}); err != nil {
		t.Fatal(err)
	}
	asked(s, 1)
	denied, err := p.Admit(ctx, js.Script{Code: "'DENY'"})
	if !isDenied(err) {
		t.Error(err)
	}
	if _, _, err := rt.Run(ctx, denied); !isDenied(err) {
		t.Error(err)
	}
	if _, err := p.Admit(ctx, js.Script{Code: "1", TimeoutMS: -1}); !errors.As(err, new(*api.FieldError)) {
		t.Error(err)
	}
}

// What a gate takes is bounded, also for a module that a guest waits for.
//
// proves part of H-57
func TestGateBlocks(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	rt := open(t, js.Options{GateTimeout: 50 * time.Millisecond, Resolve: func(context.Context, string, string) (string, string, error) { return "slow", "SLOW", nil },
		Gate: func(ctx context.Context, source []byte, _ gate.Info) gate.Verdict {
			switch {
			case strings.Contains(string(source), "PANIC"):
				panic("no")
			case strings.Contains(string(source), "SLOW"):
				<-end
			}
			return gate.Verdict{Allow: true}
		}})
	for _, code := range []string{"'SLOW'", "'PANIC'"} {
		if _, err := rt.Eval(ctx, code); !isDenied(err) || !errors.Is(err, gate.ErrNoVerdict) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if got := text(t, rt, "import('a').catch(e => e.name)"); got != `"TypeError"` {
		t.Error(got)
	}
	if got := text(t, rt, "1"); got != "1" {
		t.Error(got)
	}
}

// What cannot be held together is refused.
func TestGateOptions(t *testing.T) {
	yes := func(context.Context, []byte, gate.Info) gate.Verdict { return gate.Verdict{Allow: true} }
	for field, o := range map[string]js.Options{
		"allow": {Gate: yes, Allow: []string{"WebAssembly"}}, "gate_timeout": {Gate: yes, GateTimeout: -1}, " gate_timeout": {Gate: yes, GateTimeout: gate.MaxTimeout + 1},
	} {
		o.InitPath, o.WorkerPath = testenv.Init(), testenv.Worker()
		var wrong *api.FieldError
		if _, err := js.New(ctx, o); !errors.As(err, &wrong) || wrong.Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	rt := open(t, js.Options{Gate: yes, Allow: []string{"WeakRef", "Atomics"}})
	if got := text(t, rt, "typeof WeakRef"); got != `"function"` {
		t.Error(got)
	}
}

// Whose session it is reaches the gate by the context, for modules too.
func TestGateSession(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	rt := open(t, js.Options{Resolve: func(context.Context, string, string) (string, string, error) { return "m", "export default 1", nil },
		Gate: func(_ context.Context, _ []byte, i gate.Info) gate.Verdict {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, i.Owner+"/"+i.Session)
			return gate.Verdict{Allow: true}
		}})
	if _, err := rt.Eval(gate.WithSession(ctx, "ann", "s"), "import('m').then(m => m.default)"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, []string{"ann/s", "ann/s"}) {
		t.Error(seen)
	}
}
