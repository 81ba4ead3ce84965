package script

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// accepted are sources of all syntax that the engine takes.
var accepted = strings.Split(`async function* g() { for await (const x of y) yield* x }
class A { static { this.x = 1; var y } #p = 1; static #q() {} get #r() { return this.#p } has(o) { return #p in o } }
/[\p{L}--[a-z]]/v; /[/\]]/.test(a); x = /=/g;
/(?<year>\d{4})-(?:(?<year>x))/dgimsuy
a?.b?.[c]?.(d); a?.5:1; a ? .5 : 1
1_000n + 0xFFn + 0b1 + 0o7 + .5e-7 + 1.e+3 + 1..toString() + 0xe+1
a ??= b; a ||= c; a &&= d; a ** b; a >>>= 1
import('x', { with: { type: 'json' } })
x = async x => await x; async () => {}; async (a, b = 1) => {}; async(1, 2); async; async.x
({ async *f() {}, get [a]() { return 1 }, set b(v) {}, ...c, get: 1, set() {}, async: 2, 'x': 3, 4: 5, get, set, async })
`+"`a${`b${c}`}d` + `\\`${{ a: `}` }}`; tag`x${1}`.y`z`"+`
try {} catch {} finally {} try {} catch ({ message: m = 1 }) {}
label: for (;;) { continue label; break label }
let async; async = 1; async
new.target; function f() { return new.target }
a = b / c / d; a = (b) / c; if (a) /re/.exec(b); a[0] / 2; x++ / 2; ({}) / 1
for (let of of []) ; for (async of => 1;;) break; for (let i = 0, j; i < 1; i++) ; for (var x in y in z) ; for (const [a, b] of c) ;
class B extends (x, y) { static async *[z]() {} 'k' = 1; 5 = 2; static = 3; async = 4; get = 5; static get x() {} static static() {} set; async
b() {} }
var yield_ = 1, \u0061b = 2, \u{61}c = 3, 𝒳 = 4, ünï = 5
a
++b;
() => {}
/x/g.test(y)
x = () => ({}).y, z => { }, ({ a, b: [c = 1, ...d], ...e } = {}, [f, , g]) => a, (a, b) => c => d
[a, b.c, ...d[e]] = f; ({ a, b: c.d, e = 1, [f]: g } = h)
if (a) ; else if (b) c; else d
do x; while (y) z
switch (a) { case 1: case 2: b; break; default: c }
new a; new a(); new a.b(c).d; new new a()(); new (a())()
void typeof delete a.b, !~+-a, - - b
throw a
"use strict"
debugger; with (a) b; while (a) b
x = function* () { yield; yield* a; yield /re/; const b = yield c }
<!-- a comment
--> another
#!not at the start is refused elsewhere`, "\n")

func joined() []string {
	src := strings.Join(accepted[:len(accepted)-1], ";\n") + "\n() => {}\n/x/g.test(y)\na\n++b"
	return append(slices.Clone(accepted[:len(accepted)-1]), src)
}

// What the language has is read, each line by itself where it is whole and all
// of it together, with any end of line; as a script, a feed and, where it is one,
// a module.
func TestSyntax(t *testing.T) {
	partly := map[string]bool{}
	for _, s := range []string{"class B extends", "b() {} }", "a", "++b;", "/x/g.test(y)", "--> another"} {
		partly[s] = true
	}
	for _, s := range joined() {
		if partly[strings.SplitN(s, " (x", 2)[0]] {
			continue
		}
		for _, end := range []string{"\n", "\r\n", "\u2028"} {
			if _, err := Feed(strings.ReplaceAll(s, "\n", end), "i", Options{}); err != nil {
				t.Errorf("%.60q: %v", s, err)
			}
		}
		if _, err := ParseModule("export {};"+s, Options{}); err != nil && !strings.Contains(s, "<!--") && !strings.HasPrefix(s, "new.target") {
			t.Errorf("module %.60q: %v", s, err)
		}
	}
}

// proves part of G-10
func TestRefused(t *testing.T) {
	for _, s := range []string{
		"(", ")", "{", "}", "[", "a b", "let (", "'", "`", "`${", "/*", "/", "/[/", "1 +", "a.", "a?.", "if", "for (", "function", "class {", "x = {", "#", "@a", "\\", "\\u{110000}", "#!x\n#!y",
		"import a from", "import", "import('x'", "import.meta.", "import.foo", "new import('x')", "export", "export let", "export {", "export * as", "export { 1 }", "export { 'a' }", "export { if }",
		"import { if } from 'a'", "import { a as if } from 'a'", "import { 'a' } from 'a'", "import eval from 'a'", "import { default } from 'a'", "{ import 'a' }", "if (1) export {}", "() => { import 'a' }", "a: export {}",
		"export { a }", "export let a; export { b as a }", "export default 1; export default 2", "import a from 'a'; let a", "let a; let a", "let a; { var a }", "function f() {} function f() {}",
		"import { a, a } from 'a'", "import 'a' with { type: 'css' }", "import 'a' with { x: 'json' }", "import 'a' with { type: 'json', type: 'json' }", "import '\\ud800'", "export { a as '\\udc00' } from 'a'",
		"return", "arguments", "() => arguments", "({ arguments })", "new.target", "() => new.target", "yield", "yield 1", "delete a", "a <!-- b", "--> c", "import defer * as a from 'a'", "import source a from 'a'", "()", "(a, ...b)",
	} {
		_, err := ParseModule(s, Options{})
		var e *Error
		if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 {
			t.Errorf("%q: %v", s, err)
		}
	}
	// Their neighbours are fine.
	for _, s := range []string{"import('x')", "import.meta", "export { a }; let a", "export { a as 'x y' }; var a", "function f() { return arguments }", "class A { x = () => new.target }", "function* g() { yield }",
		"{ let a } let a", "{ var a } var a", "function f(a) { let b; { let b } }", "delete a.b", "export { if } from 'a'", "import { if as a } from 'a'", "(a, ...b) => 1", "import '\\ud83d\\ude00'"} {
		if _, err := ParseModule(s, Options{}); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// However deeply, long or twisted a source is, it ends soon and with an error of
// its own, and never with the stack.
//
// proves part of G-10
func TestDeep(t *testing.T) {
	const n = 2_000_000
	for _, s := range []string{"(", "[", "{", "!", "a=>", "a?b:", "(a=", "[{a:", "`${", "new ", "a=", "if(a)", "if(a);else ", "a:", "f(", "async(", "class{x=", "()=>{", "function f(){", "({a(){",
		"({[", "for(;;)", "a**", "await ", "while(a)", "try{", "switch(a){case ", "do ", "let [", "let {a:", "import a from 'a';", "a,", "a;", "a??", "-", "x\n", "/a/\n", "export {};", "class A extends ", "yield\n", "<!--\n"} {
		src := strings.Repeat(s, n/len(s))
		begin := time.Now()
		_, err1 := ParseModule(src, Options{})
		_, err2 := Feed(src, "i", Options{})
		var e *Error
		if err1 != nil && !errors.As(err1, &e) || err2 != nil && !errors.As(err2, &e) {
			t.Errorf("%q: %v, %v", s, err1, err2)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%q took %v", s, took)
		}
	}
	if _, err := Feed(strings.Repeat("(", 1000)+"1"+strings.Repeat(")", 1000), "i", Options{}); err != nil {
		t.Errorf("a thousand levels: %v", err)
	}
}

func TestStop(t *testing.T) {
	asked := 0
	_, err := ParseModule(strings.Repeat("a;", 1<<20), Options{Stop: func() bool { asked++; return asked == 3 }})
	if !errors.Is(err, ErrStopped) || asked != 3 {
		t.Errorf("%v after %d", err, asked)
	}
}

func TestModule(t *testing.T) {
	m, err := ParseModule("import a, { b as c, 'x y' as d } from './x'\nimport * as n from 'n'; import j from 'j' with { type: 'json' }\nexport { a, c as 'é', n }\n"+
		"export let q = 1, { r, s: [t = 2] } = z; q++\nexport * from './x'; export * as m from 'm'; export { default as u } from 'u'\nexport default class K {}\nexport async function* f() {}\nimport 'n'", Options{})
	if err != nil {
		t.Fatal(err)
	}
	requests := []Request{{"./x", "", 1, 39}, {"n", "", 2, 20}, {"j", "json", 2, 39}, {"m", "", 5, 41}, {"u", "", 5, 75}}
	imports := []Import{{0, "default", false, "a"}, {0, "b", false, "c"}, {0, "x y", false, "d"}, {1, "", true, "n"}, {2, "default", false, "j"}}
	exports := []Export{{Name: "a", Import: "default"}, {Name: "é", Import: "b"}, {Name: "n", Request: 1, Namespace: true}, {Name: "q", Local: "q", Request: -1},
		{Name: "r", Local: "r", Fixed: true, Request: -1}, {Name: "t", Local: "t", Fixed: true, Request: -1}, {Name: "m", Request: 3, Namespace: true}, {Name: "u", Request: 4, Import: "default"},
		{Name: "default", Local: "K", Fixed: true, Request: -1}, {Name: "f", Local: "f", Fixed: true, Request: -1}}
	if !reflect.DeepEqual(m.Requests, requests) || !reflect.DeepEqual(m.Imports, imports) || !reflect.DeepEqual(m.Exports, exports) || !reflect.DeepEqual(m.Stars, []int{0}) || m.Await || m.Meta {
		t.Errorf("%+v", m)
	}
}

// wrapped is what becomes of a module, between its first line and its last.
var wrapped = []struct{ src, want string }{
	{"import { a } from 'x'\na", "(function*($){\"use strict\";$.export();yield;const {a,}=$;;                    \na\n})"},
	{"await 1\nexport default 1", "(async function($){\"use strict\";$.export(()=>$d,);await $.yield;await 1\n;const $d={default:1}.default;\n})"},
	{"export\ndefault function() {}", "(function*($){\"use strict\";$.export(()=>$d,);yield;;     \n        function $d() {}\n})"},
	{"export default class {}[1]", "(function*($){\"use strict\";$.export(()=>$d,);yield;;const $d={default:class {}}.default;[1]\n})"},
	{"#!x\n$; import('y'); import.meta.url", "(function*($0){\"use strict\";$0.export();yield;//x\n$; $0.import('y'); $0.import.meta.url\n})"},
	{"export const a = 1 // é", "(function*($){\"use strict\";$.export(()=>a,);yield;;      const a = 1 // é\n})"},
}

func TestWrapped(t *testing.T) {
	for _, c := range wrapped {
		m, err := ParseModule(c.src, Options{})
		if err != nil {
			t.Errorf("%q: %v", c.src, err)
			continue
		}
		if got, err := m.Wrapped(nil); err != nil || got != c.want {
			t.Errorf("%q: %v\n%s\n%s", c.src, err, got, c.want)
		}
	}
}

// references are modules that read a from another module anew each time.
var references = []struct{ src, want string }{
	{"a; a.b; a(); x(a); x = a", "$.a; $.a.b; ;(0,$.a)(); x($.a); x = $.a"},
	{"x\na()", "x\n;(0,$.a)()"},
	{"if (x) a()", "if (x) (0,$.a)()"},
	{"new a; new a(); (a)(); a`x`; a?.()", "new $.a; new $.a(); ((0,$.a))(); ;(0,$.a)`x`; ;(0,$.a)?.()"},
	{"({ a }); ({ a: 1, b: a, [a]: 2, a() {} }); x.a; x?.a", "({ a:$.a }); ({ a: 1, b: $.a, [$.a]: 2, a() {} }); x.a; x?.a"},
	{"a => a; (a) => a; ({ a }) => a; ([x = a, a]) => a; (b = a) => a; async a => a; async (a) => a", "a => a; (a) => a; ({ a }) => a; ([x = a, a]) => a; (b = $.a) => $.a; async a => a; async (a) => a"},
	{"async(a); (a, b); (a)", "async($.a); ($.a, b); ($.a)"},
	{"function f(a) { a } function g() { a; { let a; a } var b = a }", "function f(a) { a } function g() { $.a; { let a; a } var b = $.a }"},
	{"function f() { a; { var a } } function h(b = a) { var a; a }", "function f() { a; { var a } } function h(b = $.a) { var a; a }"},
	{"for (let a of a) a; for (const x of a) a; try {} catch (a) { a } a: for (;;) break a", "for (let a of a) a; for (const x of $.a) $.a; try {} catch (a) { a } a: for (;;) break a"},
	{"(function a() { a }); (class a { x = a; [a] = 1 }); class B extends a { a = a; static { var a; a } m() { a } }", "(function a() { a }); (class a { x = a; [a] = 1 }); class B extends $.a { a = $.a; static { var a; a } m() { $.a } }"},
	{"a = 1; a++; [a] = x; ({ a } = x); ({ a = 2 } = x); ({ b: a } = x); for (a of x) ;", "$.a = 1; $.a++; [$.a] = x; ({ a:$.a } = x); ({ a:$.a = 2 } = x); ({ b: $.a } = x); for ($.a of x) ;"},
	{"`${a}` + `${a => a}`; typeof a; switch (a) { case a: let b = a }", "`${$.a}` + `${a => a}`; typeof $.a; switch ($.a) { case $.a: let b = $.a }"},
	{"switch (1) { case a: let a }", "switch (1) { case a: let a }"},
	{"\\u0061; \\u{61}()", "$.a; ;(0,$.a)()"},
}

func TestReferences(t *testing.T) {
	for _, c := range references {
		m, err := ParseModule("import { a } from 'x'\n"+c.src, Options{})
		if err != nil {
			t.Errorf("%q: %v", c.src, err)
			continue
		}
		got, err := m.Wrapped(map[string]bool{"a": true})
		_, got, _ = strings.Cut(got, "\n")
		if got = strings.TrimSuffix(got, "\n})"); err != nil || got != c.want {
			t.Errorf("%q: %v\n%s\n%s", c.src, err, got, c.want)
		}
	}
	m, err := ParseModule("import { __proto__ } from 'x'; ({ __proto__ })", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Wrapped(map[string]bool{"__proto__": true}); err != nil || !strings.Contains(got, `({ ["__proto__"]:$.__proto__ })`) {
		t.Errorf("%s, %v", got, err)
	}
}

var feeds = []struct {
	src, want string
	call      bool
}{
	{"let a = 1; a", "let a = 1; a", false},
	{"function f() { return 1 } async () => await 1", "function f() { return 1 } async () => await 1", false},
	{"import('x')", "$i('x')", false},
	{"$i; import('x')", "$i; import('x')", false},
	{"await 1", "(async($)=>{return (await 1)\n})", true},
	{"return 1", "(async($)=>{return 1\n})", true},
	{"const { a, b: [c] } = await x, d = 1\nc", "let a,c,d;(async($)=>{void( { a, b: [c] } = await x, d = 1)\nreturn (c)\n})", true},
	{"var x; for (var i of await y) { var z = 1 } for (let j of x) ;", "var x,i,z;(async($)=>{void( x); for (    i of await y) { void( z = 1) } for (let j of x) ;\n})", true},
	{"f(); function f() {} class A {}\n[await 1]", "var f;let A;(async($)=>{$.f=f;f(); function f() {} A=class A {};\nreturn ([await 1])\n})", true},
	{"'use strict'; await 1; x;;", "(async($)=>{\"use strict\";'use strict'; await 1; return (x);;\n})", true},
	{"for await (const x of y) $ = x", "(async($$)=>{for await (const x of y) $ = x\n})", true},
	{"#!a\nawait import('x') // c", "(async($)=>{//a\nreturn (await $i('x')) // c\n})", true},
	{"if (await 1) 2", "(async($)=>{if (await 1) 2\n})", true},
	{"await 1; let a = 1", "let a;(async($)=>{await 1; void( a = 1)\n})", true},
}

func TestFeed(t *testing.T) {
	for _, c := range feeds {
		got, err := Feed(c.src, "$i", Options{})
		if err != nil || got.Source != c.want || got.Call != c.call {
			t.Errorf("%q: %v, call %v\n%s\n%s", c.src, err, got.Call, got.Source, c.want)
		}
	}
}

// Imports touches nothing but import(…).
func TestImports(t *testing.T) {
	for src, want := range map[string]string{"1": "1", "'import(x)'": "'import(x)'", "a.import(b) + import(`c`)": "a.import(b) + $i(`c`)", "/import(x)/": "/import(x)/", "await; yield; let import_": "await; yield; let import_"} {
		if got, err := Imports(src, "$i", Options{}); err != nil || got != want {
			t.Errorf("%q: %q, %v", src, got, err)
		}
	}
}

// Whatever the source is, the parser comes to an end, lines stay lines, and what
// was made of a module has as many.
//
// proves part of T-13
func FuzzSource(f *testing.F) {
	for _, s := range joined() {
		f.Add(s)
	}
	for _, c := range wrapped {
		f.Add(c.src)
	}
	for _, c := range references {
		f.Add("import { a } from 'x'\n" + c.src)
	}
	for _, c := range feeds {
		f.Add(c.src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if m, err := ParseModule(src, Options{}); err == nil {
			live := map[string]bool{}
			for _, i := range m.Imports {
				live[i.Local] = true
			}
			for _, l := range []map[string]bool{nil, live} {
				out, err := m.Wrapped(l)
				if err != nil {
					t.Fatalf("%q: %v", src, err)
				}
				if a, b := strings.Count(src, "\n"), strings.Count(out, "\n"); b != a+1 {
					t.Fatalf("%q: %d lines became %d: %q", src, a, b, out)
				}
			}
		}
		if s, err := Feed(src, "$i", Options{}); err == nil {
			if a, b := strings.Count(src, "\n"), strings.Count(s.Source, "\n"); b != a && !s.Call || s.Call && b != a+1 {
				t.Fatalf("%q: %d lines became %d", src, a, b)
			}
		}
		_, _ = Imports(src, "$i", Options{})
	})
}
