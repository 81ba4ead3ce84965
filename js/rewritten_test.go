package js_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/script"
	"github.com/glovebox-dev/glovebox/preflight"
)

// noEval is the policy of the evasions.
var noEval = preflight.Policy{DenyEval: true}

// readAs is the policy's word on a text, in one way of reading it.
func readAs(source string, module, await bool) preflight.Result {
	p := noEval
	p.Module, p.Await = module, await
	return p.Check(source)
}

// evalIn is the first mention of eval and its like in a text.
func evalIn(source string) (preflight.Finding, bool) {
	list := readAs(source, false, false).Findings
	i := slices.IndexFunc(list, func(f preflight.Finding) bool { return f.Rule == "eval" })
	if i < 0 {
		return preflight.Finding{}, false
	}
	return list[i], true
}

// rewritten are the texts that a worker makes of a source that the policy allows,
// and gives the engine.
func rewritten(source string) []string {
	var out []string
	if readAs(source, false, false).OK() && readAs(source, false, true).OK() {
		if f, err := script.Feed(source, "$import$", script.Options{}); err == nil {
			out = append(out, f.Source)
		}
	}
	if readAs(source, false, false).OK() {
		if s, err := script.Imports(source, "$import$", script.Options{}); err == nil {
			out = append(out, s)
		}
	}
	if readAs(source, true, true).OK() {
		if m, err := script.ParseModule(source, script.Options{}); err == nil {
			live := map[string]bool{}
			for _, i := range m.Imports {
				live[i.Local] = true
			}
			for _, l := range []map[string]bool{nil, live} {
				if s, err := m.Wrapped(l); err == nil {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// hiddenEval are sources that have the word eval in texts, comments, templates and
// regular expressions alone, where a worker rewrites what stands beside it.
var hiddenEval = []string{
	"const a = 'eval', b = `eval ${1} eval`; await 0; return a // eval\n/* eval */ ",
	"import { a as e } from 'eval'; export { e }; e / 'eval' / 2", "import a from 'eval'; export default 'eval'; a / 2; /eval/.test(a)",
	"import(`eval`); import('eval').then(x => x / 'eval' / 1)", "return /[/]eval/ // eval", "await (1) / 2; /eval/", "export default class { eval() {} } /eval/",
	"import * as $ from 'a'; $.a; `${$}eval`; export * from 'eval'", "let {a, b = /eval/} = await 0; [a, b] = ['eval'];\nfunction f() { 'eval' } return", "var x = a\n++\nb; await 1; 'eval'",
	"import { a } from 'b'; ({ a, b: 'eval' }); ({ a } = { a: `eval` }); export let z = a", "#!eval\nawait 1", "await 1 <!-- eval\n--> eval\n", "\ufeffreturn '\u2028eval'",
}

// What a worker makes of a source on its way to the engine says no more than the
// source: no text, comment or template of it has become code. A name that the
// policy forbids and does not see in the source, it does not see in that either.
//
// proves part of H-57
func FuzzRewrittenSaysNoMore(f *testing.F) {
	for _, s := range slices.Concat(evasions, scriptEvasions, moduleEvasions, feedEvasions) {
		f.Add(s)
	}
	for _, s := range hiddenEval {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		for _, text := range rewritten(source) {
			if at, ok := evalIn(text); ok {
				t.Errorf("%q became %q: %s", source, text, at)
			}
		}
	})
}

// The control: each of the sources is rewritten, and what has lost its quotes and
// comments is found.
func TestRewrittenIsRead(t *testing.T) {
	bare := strings.NewReplacer("'", " ", "`", " ", "//", " ", "/*", " ", "*/", " ", "/", " ", "<!--", " ", "-->", " ", "#!", " ")
	for _, source := range hiddenEval {
		texts := rewritten(source)
		if !slices.ContainsFunc(texts, func(s string) bool { return s != source }) {
			t.Errorf("%q is not rewritten", source)
		}
		for _, text := range texts {
			if _, ok := evalIn(bare.Replace(text)); !ok {
				t.Errorf("%q: nothing is found in %q", source, bare.Replace(text))
			}
		}
	}
}
