package jstoken_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/jstoken"
)

// list writes tokens as kind:text, with what roles and flags they have.
func list(text string, o jstoken.Options) (out []string, p *jstoken.Problem) {
	tz := jstoken.New(text, o)
	for {
		tok := tz.Next()
		if tok.Kind == jstoken.EOF {
			return out, tz.Problem()
		}
		s := [...]string{"", "name", "private", "number", "string", "template", "regexp", "punct", "invalid"}[tok.Kind] + ":" + tok.Text
		for _, f := range []struct {
			set  bool
			text string
		}{{tok.Role == jstoken.Member, ".member"}, {tok.Role == jstoken.Key, ".key"}, {tok.Role == jstoken.Label, ".label"}, {tok.Declares, ".declares"}, {tok.InObject, ".in"}, {tok.Escaped, "=" + tok.Name}} {
			if f.set {
				s += f.text
			}
		}
		out = append(out, s)
	}
}

// What a text is split into, with the role of each name.
//
// proves part of P-04
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // separated by blanks; ␣ is one
		o    jstoken.Options
	}{
		{"a.b?.c?.[d]", "name:a punct:. name:b.member punct:?. name:c.member punct:?. punct:[ name:d punct:]", jstoken.Options{}},
		{"a?.5:1", "name:a punct:? number:.5 punct:: number:1", jstoken.Options{}},
		{"x>>>=y**=z??=1", "name:x punct:>>>= name:y punct:**= name:z punct:??= number:1", jstoken.Options{}},
		{"0x1F 0b01 0o7 017 089.5 1_0n .5e-3 1. 1e+5", "number:0x1F number:0b01 number:0o7 number:017 number:089.5 number:1_0n number:.5e-3 number:1. number:1e+5", jstoken.Options{}},
		{"017.x", "number:017 punct:. name:x.member", jstoken.Options{}},
		{`"a\"b" 'c\
d'`, "string:\"a\\\"b\" string:'c\\\nd'", jstoken.Options{}},
		{"`a${b}c${{d}}e`", "template:`a${ name:b template:}c${ punct:{ name:d.key.in punct:} template:}e`", jstoken.Options{}},
		{"`\\`${`${1}`}$`", "template:`\\`${ template:`${ number:1 template:}` template:}$`", jstoken.Options{}},
		{"/[/]\\//gi.x", "regexp:/[/]\\//gi punct:. name:x.member", jstoken.Options{}},
		{"x = {a: b, c, get d() {}, 'e': 1, [f]: 2, ...g}", "name:x punct:= punct:{ name:a.key.in punct:: name:b punct:, name:c.key.in punct:, name:get.key.in name:d.key.in punct:( punct:) punct:{ punct:} punct:, string:'e'.key.in punct:: number:1 punct:, punct:[.key.in name:f punct:] punct:: number:2 punct:, punct:... name:g punct:}", jstoken.Options{}},
		{"class A extends B { c = d; #e() {} static f }", "name:class name:A.declares name:extends name:B punct:{ name:c.key punct:= name:d punct:; private:#e.key punct:( punct:) punct:{ punct:} name:static.key name:f.key punct:}", jstoken.Options{}},
		{"function f(a, {b, c: d}, ...e) {}", "name:function name:f.declares punct:( name:a.declares punct:, punct:{ name:b.key.declares.in punct:, name:c.key.declares.in punct:: name:d.declares punct:} punct:, punct:... name:e.declares punct:) punct:{ punct:}", jstoken.Options{}},
		{"let a = 1, b; const {c} = d", "name:let name:a.declares punct:= number:1 punct:, name:b.declares punct:; name:const punct:{ name:c.key.declares.in punct:} punct:= name:d", jstoken.Options{}},
		{"x: for (;;) break x", "name:x punct:: name:for punct:( punct:; punct:; punct:) name:break name:x.label", jstoken.Options{}},
		{`ev\u0061l(\u{65}val)`, `name:ev\u0061l=eval punct:( name:\u{65}val=eval punct:)`, jstoken.Options{}},
		{"é = 日本 + 𝒳", "name:é punct:= name:日本 punct:+ name:𝒳", jstoken.Options{}},
		{"a\u00a0b\ufeffc\u3000d", "name:a name:b name:c name:d", jstoken.Options{}},
		{"a // b\u2028c", "name:a name:c", jstoken.Options{}},
		{"a <!-- b\nc\n --> d\ne --> f", "name:a name:c name:e punct:-- punct:> name:f", jstoken.Options{}},
		{"a <!-- b", "name:a punct:< punct:! punct:-- name:b", jstoken.Options{Module: true}},
		{"await /a/ g", "name:await punct:/ name:a punct:/ name:g", jstoken.Options{}},
		{"await /a/ g", "name:await regexp:/a/ name:g", jstoken.Options{Await: true}},
		{"await /a/ g", "name:await regexp:/a/ name:g", jstoken.Options{Module: true}},
		{"function f() { await /a/ g }", "name:function name:f.declares punct:( punct:) punct:{ name:await punct:/ name:a punct:/ name:g punct:}", jstoken.Options{Await: true}},
		{"import a, {b as c} from 'd'\n/e/", "name:import name:a.declares punct:, punct:{ name:b.key.declares.in name:as.key.declares.in name:c.key.declares.in punct:} name:from string:'d' regexp:/e/", jstoken.Options{}},
		{"import 'a' with {type: 'b'}\n/c/", "name:import string:'a' name:with punct:{ name:type.key.declares.in punct:: string:'b' punct:} regexp:/c/", jstoken.Options{}},
		{"export {a}\n/b/", "name:export punct:{ name:a.key.declares.in punct:} regexp:/b/", jstoken.Options{}},
		{"export default {a}/b/c", "name:export name:default punct:{ name:a.key.in punct:} punct:/ name:b punct:/ name:c", jstoken.Options{}},
		{"export default function () {}\n/b/", "name:export name:default name:function punct:( punct:) punct:{ punct:} regexp:/b/", jstoken.Options{}},
		{"export class A {}\n/b/", "name:export name:class name:A.declares punct:{ punct:} regexp:/b/", jstoken.Options{}},
		{"export const a = 'b' / 2", "name:export name:const name:a.declares punct:= string:'b' punct:/ number:2", jstoken.Options{}},
		{"#!/bin/js 'x\na", "name:a", jstoken.Options{}},
	} {
		got, p := list(c.text, c.o)
		if p != nil {
			t.Errorf("%q: %+v", c.text, *p)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

// Text that is no JavaScript has a problem at its place, and the tokens go on to its end.
//
// proves part of P-04
func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		"a\n 'b\nc":        "2:2 the string is not closed on its line",
		"'b":               "1:1 the string is never closed",
		"'b\\":             "1:1 the string is never closed",
		"a\n`b${c}d":       "2:6 the template is never closed",
		"`b${c":            "1:1 it is never closed",
		"/* a":             "1:1 the comment is never closed",
		"x = /a\n/":        "1:5 the regular expression is not closed on its line",
		"x = /a[/]\n":      "1:5 the regular expression is not closed on its line",
		"x = /a\\\n/":      "1:5 the regular expression is not closed on its line",
		"a)":               "1:2 it closes nothing that is open",
		"(a]":              "1:3 it closes nothing that is open",
		"{(}":              "1:3 it closes nothing that is open",
		"a\n{b":            "2:1 it is never closed",
		"é (":              "1:3 it is never closed",
		"𝒳 (":              "1:4 it is never closed",
		"1a":               "1:2 a name follows a number directly",
		"3in a":            "1:2 a name follows a number directly",
		"a @ b":            "1:3 this character has no meaning here",
		"\x00":             "1:1 this character has no meaning here",
		"# a":              "1:2 # is no name",
		"\ufeff#!a":        "1:3 # is no name",
		`\u0020`:           "1:1 this is no escape that a name may have",
		`a\x61`:            "1:2 this is no escape that a name may have",
		`\u{110000}`:       "1:1 this is no escape that a name may have",
		"function":         "",
		"class A":          "",
		"a => ":            "",
		"\"\xff\xed\xa0\"": "",
	} {
		_, p := list(text, jstoken.Options{})
		got := ""
		if p != nil {
			got = fmt.Sprintf("%d:%d %s", p.Line, p.Col, p.Text)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Lines and columns are those that the engine's stacks have.
//
// proves part of P-04
func TestPositionsAsTheEngine(t *testing.T) {
	rt := engine(t)
	for _, before := range []string{
		"", "  ", "\t", "\n", "\r", "\r\n", "\n\r", "\u2028", "\u2029", "1;\u2028 ", "'\u2028'; ", "'é'; ", "'𝒳'; ", "'\\\n'; ", "'\\\r\n'; ", "'\\\u2029'; ",
		"`\n${1}\r\n`; ", "/* \u2028 𝒳 */ ", "// x\r", "/é[/]/; ", "'\xed\xa0\x80'; ", "'\xed\xa0\x80\xed\xb0\x80'; ", "`\u2028`; ", "`${`\u2029`}\u2028`; ", "/* \r */ ", "\ufeff\u3000", "var 日本 = 1; ", "<!-- x\n --> y\n  ", "é: ", "/\\𝒳/; ",
	} {
		text := before + "(function () { throw new Error() })()"
		v, err := rt.Eval(context.Background(), fmt.Sprintf("try { (0, eval)(%s) } catch (e) { e.line + ':' + e.column }", quote(text)))
		if err != nil {
			t.Fatalf("%q: %v", before, err)
		}
		var got string
		if err := v.Decode(&got); err != nil {
			t.Fatal(err)
		}
		tz := jstoken.New(text, jstoken.Options{})
		for tok := tz.Next(); tok.Kind != jstoken.EOF; tok = tz.Next() {
			if tok.IsWord("Error") {
				want := fmt.Sprintf("%d:%d", tok.Line, tok.Col+len("Error"))
				if got != want {
					t.Errorf("%q: the token ends at %s, the engine says %s", before, want, got)
				}
			}
		}
	}
}

// quote is a string of JavaScript for a text that need not be UTF-8.
func quote(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\u2028", `\u2028`, "\u2029", `\u2029`, "\xed\xa0\x80", `\ud800`, "\xed\xb0\x80", `\udc00`).Replace(s)
	return `"` + s + `"`
}

// Megabytes of what parsers fall over: an answer at once, and little memory.
//
// proves part of H-48
func TestHostileText(t *testing.T) {
	const size = jstoken.MaxSource - 16
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, text := range map[string]string{
		"parentheses": fill("("), "brackets": fill("["), "templates": fill("`${"), "objects": fill(`{"a":`), "html": fill("<!--"), "comments": fill("/*"),
		"classes": fill("/[[["), "arrows": fill("a=>"), "functions": fill("function f(){"), "heads": fill("function "), "class heads": fill("class A extends "),
		"closers": fill(")"), "ternaries": fill("a?"), "escapes": fill(`\u{`), "long escape": `\u{` + fill("0"), "quotes": fill(`"`), "bytes": fill("\xff"), "halves": fill("\xed\xa0\x80"),
		"slashes": "a" + fill("/"), "too long": fill("a") + strings.Repeat("b", 17), "async": fill("async "), "for": fill("for("), "lets": fill("let\n"), "old numbers": fill("0"),
	} {
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		begin := time.Now()
		tz := jstoken.New(text, jstoken.Options{})
		n := 0
		for tz.Next().Kind != jstoken.EOF {
			n++
		}
		took := time.Since(begin)
		runtime.ReadMemStats(&m1)
		if used := m1.TotalAlloc - m0.TotalAlloc; used > 64<<20 {
			t.Errorf("%s: %d MiB", name, used>>20)
		}
		if took > 20*time.Second {
			t.Errorf("%s: %v", name, took)
		}
		if tz.Held() > jstoken.MaxDepth+1 {
			t.Errorf("%s: %d frames", name, tz.Held())
		}
		t.Logf("%s: %d tokens, %v, %d KiB, %+v", name, n, took, (m1.TotalAlloc-m0.TotalAlloc)>>10, tz.Problem())
		if tok := tz.Next(); tok.Kind != jstoken.EOF {
			t.Errorf("%s: %v after the end", name, tok)
		}
	}
}

func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		`""`: "", `'a'`: "a", `"a\n\t\r\b\f\v\0"`: "a\n\t\r\b\f\v\x00", `"\x61\u0062\u{63}\144"`: "abcd", `"\'\"\\\q"`: `'"\q`, "'a\\\nb'": "ab", "'a\\\r\nb'": "ab", "'a\\\u2028b'": "ab",
		`"\ud835\udcb3"`: "𝒳", `"\ud835x"`: "\ufffdx", `"\400\8\377"`: " 08ÿ", `"a`: "a", `"a\`: `a\`, `"`: "", `"\u12"`: "u12", `"\xz"`: "xz",
	} {
		if got := jstoken.Unquote(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Whatever the text, tokens lie in it in order, their positions grow, and the
// memory is bounded.
//
// proves part of T-13 H-48
func FuzzTokens(f *testing.F) {
	for _, s := range slashes {
		f.Add(strings.Replace(s, "▮", asRegexp, 1), false)
	}
	f.Add("\xed\xa0\x80'\\u{12}`${`", true)
	f.Add("#!a\r\n<!--\u2028-->é\xff", false)
	f.Fuzz(func(t *testing.T, text string, module bool) {
		tz := jstoken.New(text, jstoken.Options{Module: module})
		last := jstoken.Token{Line: 1}
		for {
			tok := tz.Next()
			if tok.Start < last.End || tok.End > len(text) || tok.Text != text[tok.Start:tok.End] {
				t.Fatalf("%+v after %+v", tok, last)
			}
			if tok.Line < last.Line || tok.Line == last.Line && tok.Col < last.Col || tok.Col < 1 {
				t.Fatalf("%+v stands before %+v", tok, last)
			}
			if tok.Kind == jstoken.EOF {
				break
			}
			if tok.Start == tok.End || tok.Kind == jstoken.String && utf8.ValidString(tok.Text) && !utf8.ValidString(jstoken.Unquote(tok.Text)) {
				t.Fatalf("%+v", tok)
			}
			last = tok
		}
		if p := tz.Problem(); p != nil && (p.Line < 1 || p.Col < 1) {
			t.Fatalf("%+v", p)
		}
	})
}

// program1MiB is a megabyte of ordinary code.
func program1MiB() string {
	const part = "export async function load(url, { retries = 3 } = {}) {\n\tfor (let i = 0; i < retries; i++) {\n\t\tconst text = `${url}?try=${i}`; // and again\n" +
		"\t\tif (/^https?:/.test(text)) return await tools.get(text).then(r => r.items.map(x => ({ ...x, price: x.price / 100 })));\n\t}\n\treturn null;\n}\n"
	return strings.Repeat(part, 1<<20/len(part))
}

func BenchmarkTokens(b *testing.B) {
	text := program1MiB()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		for tz := jstoken.New(text, jstoken.Options{}); tz.Next().Kind != jstoken.EOF; {
		}
	}
}
