package js_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/js"
)

// stacks evaluates in many ways what shows a stack, and fails where a frame or
// text of ours is in it.
var stacks = map[string]string{
	"a module's top":        "export const s = new Error().stack",
	"after an await":        "await null; export const s = new Error().stack",
	"a dependency's top":    "import { s } from 'top'; export { s }",
	"a dynamic import":      "export const s = (await import('top')).s + (await import('top2')).s",
	"a poisoned then":       "export let s = ''; Object.defineProperty(Object.prototype, 'then', { configurable: true, get() { s += new Error().stack } }); await null; await import('top'); await {}; delete Object.prototype.then",
	"a species":             "export let s = ''; class P extends Promise { static get [Symbol.species]() { s += new Error().stack; return Promise } }; await new P(r => r()); const c = Object.getOwnPropertyDescriptor(Promise.prototype, 'constructor'); Object.defineProperty(Promise.prototype, 'constructor', { configurable: true, get() { s += new Error().stack; return Promise } }); await import('top2'); await new Promise(r => setTimeout(r)); await 1; Object.defineProperty(Promise.prototype, 'constructor', c)",
	"a cyclic name":         "import { s } from 'cyclic1'; export { s }",
	"a source of functions": "export const s = [import('top').constructor, import.meta.url, (() => import('top')).toString(), Object.getOwnPropertyDescriptor(await import('live'), 'x').get, eval('$.import'), eval('$.export'), eval('Object.getOwnPropertyDescriptor($, \"yield\").get')].join('\\n')",
	"the callers":           "import { callers } from 'live'; function f() { try { return callers(f) } catch (e) { return e.name } } export const s = String(f())",
	"a rejected import":     "export const s = await import('nothing').catch(e => e.stack + Object.getOwnPropertyNames(e) + e.message)",
	"a bad specifier":       "export const s = await import({ toString() { throw new Error().stack } }).catch(e => e.stack + e.message)",
	"an attribute's getter": "let s = ''; await import('top', { get with() { s += new Error().stack; return {} } }).catch(e => { s += e.stack }); await import('top', new Proxy({}, { getOwnPropertyDescriptor() { s += new Error().stack } })).catch(e => { s += e.stack }); export { s }",
	"setters of prototypes": "export let s = ''; for (const k of ['0', '1', 'value', 'get', 'set', 'key', 'with', 'type', 'resolve', 'reject', 'name', 'link', 'getters', 'body']) for (const p of [Object.prototype, Array.prototype, Function.prototype]) if (!Object.hasOwn(p, k)) Object.defineProperty(p, k, { __proto__: null, configurable: true, set() { s += new Error().stack }, get() { s += new Error().stack } }); await import('top3').catch(e => { s += e.message }); for (const k of ['0', '1', 'value', 'get', 'set', 'key', 'with', 'type', 'resolve', 'reject', 'link', 'getters', 'body']) for (const p of [Object.prototype, Array.prototype, Function.prototype]) delete p[k]",
	"a timer's callback":    "export let s = ''; const f = () => { s += new Error().stack }; Object.defineProperty(f, 'length', { get() { s += new Error().stack; return 0 } }); Object.defineProperty(f, 'name', { get() { s += new Error().stack; return 'f' } }); await new Promise(r => { setTimeout(f, 1); setTimeout(r, 2) })",
}

// What a guest sees of stacks and sources from modules, imports and promises has
// nothing of the bridge in it.
//
// proves part of G-07 G-09
func TestModuleStacks(t *testing.T) {
	modules := map[string]string{
		"top": "export const s = new Error().stack", "top2": "await null; export const s = new Error().stack", "top3": "import 'top'; import 'live'; export * as x from 'top2'",
		"cyclic1": "export let s = ''; import { early } from 'cyclic2'; export let late = 1; s += early", "cyclic2": "import { late } from 'cyclic1'; export let early = ''; try { late } catch (e) { early = e.stack + e.message }",
		"live": "export let x = 1; x = 2; export function callers(f) { return String(f.caller) + f.arguments }",
	}
	for name, code := range stacks {
		rt := open(t, js.Options{Modules: modules})
		got := module(t, rt, code)
		if !strings.HasPrefix(got, "{") || strings.Contains(got, "glovebox") || strings.Contains(got, "bootstrap") || strings.Contains(got, "reader") || strings.Contains(got, "modules[") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// What the bridge does with promises, timers and answers of the host runs no
// code of the guest above a frame of its own.
//
// proves part of G-09
func TestPromiseStacks(t *testing.T) {
	const poison = `var s = ''; const note = () => { s += new Error().stack + '|' }
function on(object, key, value) { Object.defineProperty(object, key, { __proto__: null, configurable: true, get() { note(); return value }, set() { note() } }) }
`
	for name, c := range map[string][2]string{
		"an own species":      {"class P extends Promise { static get [Symbol.species]() { note(); return Promise } }", "new P(r => r(1))"},
		"a constructor":       {"on(Promise.prototype, 'constructor', Promise)", "Promise.resolve(1)"},
		"a then":              {"on(Object.prototype, 'then', undefined)", "object()"},
		"a then of a result":  {"on(Object.prototype, 'then', undefined)", "({ a: 1 })"},
		"a timer's length":    {"const f = () => note(); on(f, 'length', 0); on(f, 'name', 'f'); setTimeout(f, 1); setInterval(f, 1)", "new Promise(r => setTimeout(r, 3))"},
		"the length of apply": {"on(Reflect.apply, 'length', 0); on(Function.prototype.bind, 'length', 0); on(Function.prototype.call, 'length', 0)", "new Promise(r => setTimeout(r, 3))"},
		"a bound name":        {"on(Function.prototype, 'name', ''); on(Array.prototype, '0', 1); setTimeout(note, 1, 1, 2)", "new Promise(r => setTimeout(r, 3))"},
	} {
		rt := open(t, js.Options{})
		if err := rt.BindAsync(ctx, "object", func() map[string]int { return map[string]int{"a": 1} }); err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{poison + c[0], c[1]} {
			if _, err := rt.Eval(ctx, code); err != nil && js.KindOf(err) != js.Unsupported {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := text(t, rt, "s"); strings.Contains(got, "glovebox") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A guest with a used-up stack sees no object of another realm, and the runtime
// goes on.
//
// proves part of G-07
func TestModuleDeepStack(t *testing.T) {
	rt := open(t, js.Options{Modules: map[string]string{"a": "export let x = 1; x = 2"}, Limits: js.Limits{TimeoutMS: 60_000}})
	got := module(t, rt, `import * as ns from 'a'
let found = null, calls = 0, left = 0
function look(...pad) { if (left-- <= 0) return; try { calls++; const p = import('a'); if (!(p instanceof Promise)) found ??= 'no promise'; p.catch(e => { if (!(e instanceof Error)) found ??= 'late ' + e }) } catch (e) { if (!(e instanceof Error)) found ??= 'early ' + e } }
function go(n) { const pad = Array(n).fill(0); (function rec() { try { rec() } catch (e) { look(...pad); return } look(...pad) })() }
for (let i = 0; i < 40 && !found; i++) { left = 5; go(i); await new Promise(r => setTimeout(r)) }
export const r = [found, calls > 20, (await import('a')) === ns]`)
	if got != `{"r":[null,true,true]}` {
		t.Error(got)
	}
}

// However modules are connected, it ends within the limits, and the runtime goes
// on.
//
// proves part of G-10
func TestModuleGraphs(t *testing.T) {
	deep, wide, stars := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range 900 {
		deep[fmt.Sprint("m", i)] = fmt.Sprintf("import { x as y } from 'm%d'; export const x = y + 1", i+1)
		stars[fmt.Sprint("s", i)] = fmt.Sprintf("export * from 's%d'; export * from 's%d'; export { x as y%d } from 's%d'", i+1, i+2, i, i+1)
		wide[fmt.Sprint("w", i)] = fmt.Sprintf("import * as a from 'w%d'; import * as b from 'w%d'; export { a, b }; export const n%d = 1", (i*7+1)%900, (i*13+5)%900, i)
	}
	deep["m900"] = "export const x = 0"
	stars["s900"], stars["s901"] = "export const x = 1", "export const x = 2"
	for _, c := range []struct {
		modules    map[string]string
		code, want string
	}{
		{deep, "import { x } from 'm0'; export { x }", `{"x":900}`},
		{stars, "import { x } from 's0'; export { x }", `syntax_error SyntaxError: s898: s899 has no export "x", or two of that name`},
		{wide, "import { n0 } from 'w0'; import * as all from 'w0'; export const r = [n0, all.a.n1, all.a.b.a !== undefined]", `{"r":[1,1,true]}`},
	} {
		rt := open(t, js.Options{Modules: c.modules, Limits: js.Limits{TimeoutMS: 60_000}})
		begin := time.Now()
		if got := module(t, rt, c.code); got != c.want {
			t.Errorf("%.60s: %s", c.code, got)
		}
		t.Logf("%.40s: %v", c.code, time.Since(begin))
		if got := text(t, rt, "1"); got != "1" {
			t.Error(got)
		}
	}
}

// More than there may be of modules is refused, and so are more imports at one
// time; a source that is long holds the deadline.
//
// proves part of G-10
func TestModuleLimits(t *testing.T) {
	resolve := func(_ context.Context, specifier, _ string) (string, string, error) {
		if specifier == "long" {
			return specifier, "[" + strings.Repeat("a,\n", 5<<20) + "]", nil
		}
		return specifier, "export default 1", nil
	}
	rt := open(t, js.Options{Resolve: resolve, Limits: js.Limits{TimeoutMS: 60_000, InFlight: 4}})
	if got := module(t, rt, "let n = 0, why; try { for (; n < 2000; n++) await import('x' + n) } catch (e) { why = e.name } export const r = [n, why]"); got != `{"r":[1024,"RangeError"]}` {
		t.Error(got)
	}
	if got := module(t, rt, "export const r = await Promise.all(Array.from({ length: 9 }, () => import('x1').then(() => 1, e => e.name)))"); !strings.Contains(got, "RangeError") || !strings.Contains(got, "1,1,1") {
		t.Error(got)
	}
	slow := open(t, js.Options{Resolve: resolve, Limits: js.Limits{TimeoutMS: 100, HardMS: 30_000, CPUMS: 60_000}})
	if got := module(t, slow, "export default 1"); got != `{"default":1}` {
		t.Error(got)
	}
	if got := module(t, slow, "import 'long'"); !strings.HasPrefix(got, "timeout") {
		t.Error(got)
	}
	if got := text(t, slow, "1"); got != "1" {
		t.Error(got)
	}
	calls := open(t, js.Options{Resolve: resolve, Limits: js.Limits{HostCalls: 3}})
	if got := module(t, calls, "export const r = []; for (let i = 0; i < 5; i++) r.push(await import('x' + i).then(() => 1, e => e.name))"); got != `{"r":[1,1,1,"RangeError","RangeError"]}` {
		t.Error(got)
	}
	waits := open(t, js.Options{Resolve: func(ctx context.Context, _, _ string) (string, string, error) {
		<-ctx.Done()
		return "", "", ctx.Err()
	}, Limits: js.Limits{HostWaitMS: 300}})
	if got := module(t, waits, "import 'x'"); !strings.HasPrefix(got, "host_wait") {
		t.Error(got)
	}
}

// Modules run where code from strings does not, in every engine's mode.
//
// proves part of G-18
func TestModulesStrictEval(t *testing.T) {
	for _, jit := range []js.JIT{"", js.Baseline, js.Full} {
		rt := open(t, js.Options{Modules: map[string]string{"a": "export let n = 0; export const inc = () => ++n"}, StrictEval: true, JIT: jit})
		got := module(t, rt, "import { n, inc } from 'a'; let e; try { eval('1') } catch (x) { e = x.name } for (let i = 0; i < 20000; i++) inc(); export const r = [n, e, (await import('a')).n]")
		if got != `{"r":[20000,"EvalError",20000]}` {
			t.Errorf("%q: %s", jit, got)
		}
	}
}

// A module that was stopped is not run again, and what imports it says why. What
// an evaluation leaves to do stays for the next.
func TestModulesStopped(t *testing.T) {
	rt := open(t, js.Options{Modules: map[string]string{"loop": "for (;;) ;", "late": "await new Promise(r => globalThis.go = r); export default 'late'"}, Limits: js.Limits{TimeoutMS: 300, HardMS: 30_000}})
	if got := module(t, rt, "import 'loop'"); !strings.HasPrefix(got, "timeout") {
		t.Error(got)
	}
	if got := module(t, rt, "import 'loop'"); got != "thrown Error: the module was stopped while it ran" {
		t.Error(got)
	}
	if got := module(t, rt, "import 'late'"); !strings.HasPrefix(got, "never_settles") {
		t.Error(got)
	}
	if got := text(t, rt, "go(); import('late').then(m => m.default)"); got != `"late"` {
		t.Error(got)
	}
}

// The case of the dynamic import: nothing but what the host gives is loaded.
func TestNothingToImport(t *testing.T) {
	for _, o := range []js.Options{{}, {Modules: map[string]string{"a": ""}}, {StrictEval: true}} {
		rt := open(t, o)
		got := text(t, rt, `(async () => { const r = []
for (const m of ['fs', 'node:child_process', 'node:sqlite', './x.js', '/etc/passwd', 'file:///etc/passwd', 'data:text/javascript,export default 1', 'https://example.com/x.js', 'std', 'os', 'qjs:os']) {
  try { await import(m); r.push(m) } catch (e) { if (!(e instanceof TypeError || e instanceof Error)) r.push('odd') } }
return r })()`)
		if got != "[]" {
			t.Error(got)
		}
	}
}
