package preflight

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// strict is a policy that denies whatever it can.
var strict = Policy{Names: []string{"globalThis", "Reflect"}, Members: []string{"__proto__", "prototype"}, DenyImport: true, DenyEval: true, DenyComputed: true}

// What the policy denies is found in every way to write it, and nothing else. Long because of its table.
//
// proves part of H-48
func TestPolicy(t *testing.T) {
	for source, want := range map[string]string{
		"eval('1')":                                  "1:1 eval",
		"x = eval":                                   "1:5 eval",
		"(0, eval)('1')":                             "1:5 eval",
		"ev\\u0061l; \\u{65}val":                     "1:1 eval, 1:12 eval",
		"({ eval })":                                 "1:4 eval",
		"({ eval } = a)":                             "1:4 eval",
		"a.eval; a?.Function":                        "1:3 eval, 1:12 eval",
		"a.constructor":                              "1:3 eval",
		"a['constructor']; a[`constructor`]":         "1:3 eval, 1:21 eval",
		"a['con\\x73tructor']":                       "1:3 eval",
		"a['con\\\nstructor']":                       "1:3 eval",
		"const { constructor: F } = () => {}":        "1:9 eval",
		"({ 'constructor': F } = a)":                 "1:4 eval",
		"({ ['constructor']: F } = a)":               "1:5 eval",
		"({ [b]: F } = a)":                           "1:4 computed",
		"class A { constructor() {} }":               "",
		"class A { eval() {} 'constructor'() {} }":   "",
		"`${eval('1')}`":                             "1:4 eval",
		"`a${`b${eval}`}`":                           "1:9 eval",
		"a\n/eval/g":                                 "2:2 eval",
		"(a) / eval / b":                             "1:7 eval",
		"if (a) /eval/.test(b)":                      "",
		"x = {} / eval / 1":                          "1:10 eval",
		"{}\n/eval/.test(b)":                         "",
		"'eval'; `eval`; // eval\n/* eval */":        "",
		"<!-- eval\n--> eval\neval":                  "3:1 eval",
		"a --> eval":                                 "1:7 eval",
		"#!eval\neval":                               "2:1 eval",
		"// a\u2028eval":                             "2:1 eval",
		"'\u2028'; eval":                             "1:6 eval",
		"// a\reval":                                 "2:1 eval",
		"\ufeffeval":                                 "1:2 eval",
		"x: eval":                                    "1:4 eval",
		"eval: for (;;) break eval":                  "1:1 eval",
		"globalThis; a.globalThis":                   "1:1 name",
		"function Reflect() {}":                      "1:10 name",
		"a.prototype; a.__proto__; ({__proto__: b})": "1:3 member, 1:16 member, 1:29 member",
		"import a from 'b'":                          "1:1 import",
		"import('a'); import.meta; export default 1": "1:1 import, 1:14 import, 1:27 import",
		"a[b]; a['b']; a[0]; a[`b`]":                 "1:2 computed",
		"a['b' + 'c']; a[0 + b]; a[`b${c}`]":         "1:2 computed, 1:16 computed, 1:26 computed",
		"a?.[b]; a()[b]; a[0][b]":                    "1:4 computed, 1:12 computed, 1:21 computed",
		"x = [a, [b]]; f([c], [d]); return_ = []":    "",
		"for (const [a] of [b]) ; let [c] = [d]":     "",
		"() => { return [a] }":                       "",
		"if (a) let\nb / eval / c":                   "2:1 syntax",
		"x = 'eval":                                  "1:5 syntax",
		"f(eval":                                     "1:2 syntax, 1:3 eval",
		"x @ eval":                                   "1:3 syntax, 1:5 eval",
		"":                                           "",
	} {
		r := strict.Check(source)
		if diff := cmp.Diff(want, short(r)); diff != "" {
			t.Errorf("%q: %s", source, diff)
		}
		if r.OK() != (want == "") {
			t.Errorf("%q: OK is %v", source, r.OK())
		}
		if r := (Policy{}).Check(source); !strings.Contains(want, "syntax") && len(r.Findings) > 0 { // the control
			t.Errorf("%q: no policy denies %s", source, r)
		}
	}
	if r := (Policy{DenyEval: true, Module: true}).Check("a <!-- eval"); short(r) != "1:8 eval" {
		t.Error(short(r)) // in a module it is no comment
	}
	if r := (Policy{DenyEval: true, Await: true}).Check("await / eval / 1"); !r.OK() {
		t.Error(short(r))
	}
	if r := (Policy{DenyEval: true}).Check("await / eval / 1"); short(r) != "1:9 eval" {
		t.Error(short(r))
	}
	if r := (Policy{}).Check(strings.Repeat("[", 20_000)); short(r) != "1:10002 limit" || r.OK() {
		t.Error(short(r))
	}
}

func BenchmarkPolicy(b *testing.B) {
	text := megabyte()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Policy{DenyEval: true, DenyComputed: true, Module: true}.Check(text)
	}
}
