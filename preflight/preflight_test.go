package preflight

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// short is what a check says, without the sentences.
func short(r Result) string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Rule))
	}
	return strings.Join(out, ", ")
}

// Each common mistake is found where it stands, and what only looks like one is not.
// Long because of its table.
//
// proves P-04
func TestCheck(t *testing.T) {
	for source, want := range map[string]string{
		"import a from 'b'": "1:1 import",
		"import 'b'":        "1:1 import",
		"import {a} from 'b'; import * as c from 'd'":  "1:1 import, 1:22 import",
		"export const a = 1":                           "1:1 import",
		"1\nexport default 2":                          "2:1 import",
		"export {a}":                                   "1:1 import",
		"import.meta.url":                              "1:1 import",
		"x = import('a')":                              "1:5 dynamic-import",
		"a.import('b'); ({ import: 1, export() {} })":  "",
		"const fs = require('fs')":                     "1:12 require",
		"require('node:child_process')":                "1:1 require, 1:9 child_process",
		"a.require('b'); ({ require(x) {} })":          "",
		"class A { require() {} }":                     "",
		"await fetch('https://x')":                     "1:7 fetch",
		"fetch?.('x')":                                 "1:1 fetch",
		"tools.fetch('x')":                             "",
		"const fetch = tools.get; fetch('x')":          "",
		"fetch('x'); function fetch() {}":              "",
		"const { fetch } = tools; fetch('x')":          "",
		"const { a: fetch } = tools; fetch('x')":       "",
		"const { fetch: a } = tools; fetch('x')":       "1:29 fetch",
		"function f(fetch) { fetch('x') }":             "",
		"fetch => fetch('x')":                          "",
		"f = { fetch: 1 }; 'fetch(x)'; `fetch(x)`":     "",
		"// fetch(x)\n/* fetch(x) */ /fetch(x)/":       "",
		"`${fetch('x')}`":                              "1:4 fetch",
		"`${`${fetch('x')}`}`":                         "1:7 fetch",
		"a / fetch('x') / b":                           "1:5 fetch",
		"a = b\n/fetch('x')/g":                         "2:2 fetch",
		"if (a) /fetch('x')/g":                         "",
		"\uFEFFé = '𝒳'; fetch(1)":                      "1:12 fetch",
		"\r\n\u2028  fetch(1)":                         "3:3 fetch",
		"#!/usr/bin/env node\nfetch(1)":                "2:1 fetch",
		"<!-- fetch(1)\n--> fetch(2)\nfetch(3)":        "3:1 fetch",
		"f\\u0065tch(1)":                               "1:1 fetch",
		"new XMLHttpRequest()":                         "1:5 xmlhttprequest",
		"class A extends WebSocket {}":                 "1:17 websocket",
		"typeof WebSocket === 'undefined'":             "",
		"({ WebSocket })":                              "1:4 websocket",
		"({ WebSocket: 1 })":                           "",
		"process.env.HOME":                             "1:1 process",
		"process?.exit(1); process['env']":             "1:1 process, 1:19 process",
		"typeof process.env":                           "1:8 process",
		"typeof process; process; a.process.env":       "",
		"process('x'); Deno(); tools.process.a":        "",
		"Deno.readFile('x')":                           "1:1 deno",
		"child_process.exec('x')":                      "1:1 child_process",
		"globalThis.fetch('x')":                        "1:12 fetch",
		"globalThis.process":                           "1:12 process",
		"globalThis['fetch']":                          "1:12 fetch",
		"globalThis?.['f\\x65tch']":                    "1:14 fetch",
		"window.WebSocket; self.fetch; global.process": "1:8 websocket, 1:24 fetch, 1:38 process",
		"globalThis.a.fetch; b.globalThis.c":           "",
		"globalThis.fetch = tools.get; fetch(1)":       "",
		"a.__proto__ = b":                              "1:3 proto",
		"({ __proto__: a, '__proto__': b })":           "1:4 proto, 1:18 proto",
		"a['__proto__']; x = ['__proto__']":            "1:3 proto",
		"return_['__proto__']":                         "1:9 proto",
		"() => { return ['__proto__'] }":               "",
		"'__proto__' in a":                             "",
		"a.constructor.constructor('b')":               "1:15 constructor-chain",
		"(() => {}).constructor['constructor']('b')":   "1:24 constructor-chain",
		"a['constructor']['constructor']":              "1:18 constructor-chain",
		"a.constructor; b.constructor(c).constructor":  "",
		"eval('1')":                                    "1:1 eval",
		"globalThis.eval('1'); a.eval('1')":            "1:12 eval",
		"new Function('1'); Function('2')":             "1:5 new-function, 1:20 new-function",
		"new Function":                                 "1:5 new-function",
		"x instanceof Function; eval":                  "",
		"let s = 'a\nfetch(1)":                         "1:9 syntax, 2:1 fetch",
		"f(":                                           "1:2 syntax",
		"":                                             "",
	} {
		if diff := cmp.Diff(want, short(Check(source, Options{}))); diff != "" {
			t.Errorf("%q: %s", source, diff)
		}
	}
}

// Each severity and sentence: one for each rule, and nothing else has one.
//
// proves part of P-04
func TestFinding(t *testing.T) {
	for id, want := range map[string]Severity{
		"import": Error, "dynamic-import": Error, "require": Error, "fetch": Error, "xmlhttprequest": Error, "websocket": Error, "process": Error, "deno": Error, "absent": Error,
		"child_process": Error, "proto": Warning, "constructor-chain": Warning, "eval": Note, "new-function": Note, "syntax": Error, "limit": Error,
	} {
		source := map[string]string{
			"import": "import 'a'", "dynamic-import": "import('a')", "require": "require(1)", "fetch": "fetch(1)", "xmlhttprequest": "XMLHttpRequest", "websocket": "WebSocket",
			"process": "process.a", "deno": "Deno.a", "absent": "structuredClone(1)", "child_process": "child_process", "proto": "a.__proto__", "constructor-chain": "a.constructor.constructor",
			"eval": "eval(1)", "new-function": "Function(1)", "syntax": "(", "limit": strings.Repeat("(", 20_000),
		}[id]
		r := Check(source, Options{})
		if len(r.Findings) != 1 || r.Findings[0].Rule != id || r.Findings[0].Severity != want || r.OK() != (want != Error) {
			t.Errorf("%s: %+v", id, r)
			continue
		}
		if m := r.Findings[0].Message; !strings.HasSuffix(m, ".") || strings.Count(m, ". ") > 0 || len(m) > 160 {
			t.Errorf("%s: %q is no sentence", id, m)
		}
		if !slices.Contains(Rules(), id) {
			t.Errorf("%s is no rule", id)
		}
	}
	if len(Rules()) != 17 { // and top-level, which only Options.Script has found
		t.Error(Rules())
	}
	r := Check("  fetch(1)", Options{})
	if got := r.String(); got != "1:3 error [fetch] fetch() does not exist here; bind a function of the host that gets what is needed.\n" {
		t.Error(got)
	}
}

func TestOptions(t *testing.T) {
	const source = "import a from 'b'; import('c'); eval('d'); new Function(); fetch('e'); x <!-- y"
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "1:1 import, 1:20 dynamic-import, 1:33 eval, 1:48 new-function, 1:60 fetch"},
		{Options{AllowImport: true}, "1:20 dynamic-import, 1:33 eval, 1:48 new-function, 1:60 fetch"},
		{Options{AllowDynamicImport: true}, "1:1 import, 1:33 eval, 1:48 new-function, 1:60 fetch"},
		{Options{IgnoreEval: true}, "1:1 import, 1:20 dynamic-import, 1:60 fetch"},
		{Options{Bound: []string{"fetch"}}, "1:1 import, 1:20 dynamic-import, 1:33 eval, 1:48 new-function"},
		{Options{MaxFindings: 1}, "1:1 import"},
		{Options{MaxFindings: -1}, ""},
	} {
		if got := short(Check(source, c.o)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
	if r := Check(source, Options{MaxFindings: -1}); r.More != 5 || r.OK() {
		t.Errorf("%+v", r)
	}
	if r := Check("fetch(1) <!-- fetch(2)", Options{AllowImport: true}); short(r) != "1:1 fetch, 1:15 fetch" {
		t.Error(short(r)) // in a module it is no comment
	}
}

// However many findings, a hundred are kept and the rest counted.
//
// proves part of H-48
func TestMany(t *testing.T) {
	r := Check(strings.Repeat("fetch(1);\n", 1_000_000), Options{})
	if len(r.Findings) != MaxFindings || r.More != 1_000_000-MaxFindings || r.OK() || r.Findings[99].Line != 100 {
		t.Errorf("%d findings and %d more", len(r.Findings), r.More)
	}
	r = Check(strings.Repeat("fetch(1);", 100_000)+"function fetch() {} require(1)", Options{})
	if r.OK() {
		t.Error("what was found behind the bound is lost")
	}
	if s := r.String(); strings.Count(s, "\n") != len(r.Findings)+1 {
		t.Error(s)
	}
}

// The table of the manual has each rule with its severity.
//
// proves part of P-04
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../docs/preflight.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if !strings.Contains(string(text), fmt.Sprintf("| `%s` | %s |", r.id, r.severity)) {
			t.Errorf("docs/preflight.md has no row for %s, %s", r.id, r.severity)
		}
	}
	for _, id := range PolicyRules() {
		if !strings.Contains(string(text), "`"+id+"`") {
			t.Errorf("docs/preflight.md does not name %s", id)
		}
	}
}

// Whatever the text, findings lie in it, in order, and are bounded.
//
// proves part of T-13 H-48
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"fetch(1)", "import a from 'b'", "`${a.constructor.constructor}`", "({__proto__: 1})", "globalThis['fetch']", "'\n(", "let {fetch} = a"} {
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, source string, module bool) {
		for _, r := range []Result{Check(source, Options{AllowImport: module}), Check(source, Options{Script: true}), strict.Check(source)} {
			lines := 1 + strings.Count(source, "\n") + strings.Count(source, "\r") + strings.Count(source, "\u2028") + strings.Count(source, "\u2029")
			last := Finding{}
			for _, x := range r.Findings {
				if x.Line < 1 || x.Line > lines || x.Column < 1 || x.Column > len(source)+1 || !slices.Contains(Rules(), x.Rule) && !slices.Contains(PolicyRules(), x.Rule) {
					t.Fatalf("%+v", x)
				}
				if x.Line < last.Line || x.Line == last.Line && x.Column < last.Column {
					t.Fatalf("%+v after %+v", x, last)
				}
				last = x
			}
			if len(r.Findings) > MaxFindings {
				t.Fatal(len(r.Findings))
			}
		}
	})
}

// A megabyte takes less than a second of a processor, whatever else the machine
// does and with the race detector; the benchmark says what it takes.
//
// proves part of H-48
func TestMegabyte(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	text, begin := megabyte(), spent()
	if r := Check(text, Options{AllowImport: true}); len(r.Findings) != 0 {
		t.Error(r)
	}
	if took := spent() - begin; took > time.Second {
		t.Errorf("%v", took)
	}
}

func megabyte() string {
	const part = "export async function load(url, { retries = 3 } = {}) {\n\tfor (let i = 0; i < retries; i++) {\n\t\tconst text = `${url}?try=${i}`; // and again\n" +
		"\t\tif (/^https?:/.test(text)) return await tools.get(text).then(r => r.items.map(x => ({ ...x, price: x.price / 100 })));\n\t}\n\treturn null;\n}\n"
	return strings.Repeat(part, 1<<20/len(part))
}

func BenchmarkCheck(b *testing.B) {
	text := megabyte()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Check(text, Options{AllowImport: true})
	}
}
