package script

import (
	"strings"
	"testing"
)

// What a feed declares that is no property of the global object is known by
// name, whether the feed is rewritten or not.
func TestLexical(t *testing.T) {
	for src, want := range map[string]string{
		"1": "", "var a; function b() {}": "", "let a, b = 1; const { c, d: [e = 2, ...f], ...g } = x; class H {}": "a b c! e! f! g! H",
		"const { p = () => { let q }, r } = x, s = function () { var t }, u = 1; let v": "p! r! s! u! v", "const w = class { m() { let y } }; class X {}": "w! X", "let a = () => { const b = 1 }, c": "a c", "l\\u0065t\nx": "",
		"let \\u0061b": "ab", "{ let a } for (let b of c) ; if (1) { const d = 1 } function f() { let e } () => { class G {} }": "", "for (var i;;) { let j }": "",
		"let await1 = 1; let\nz": "await1 z", "let let1; switch (1) { case 1: let q }": "let1", "try { let a } catch (e) { let b }": "", "x = class Y {}": "",
	} {
		for _, tail := range []string{"", "\nawait 0"} {
			f, err := Feed(src+tail, "", Options{})
			var got []string
			for _, l := range f.Lexical {
				if l.Const {
					l.Name += "!"
				}
				got = append(got, l.Name)
			}
			want := want
			if f.Call { // a constant can be assigned to there
				want = strings.ReplaceAll(want, "!", "")
			}
			if err != nil || strings.Join(got, " ") != want || f.Call != (tail != "") {
				t.Errorf("%q: %q, %v, %v", src+tail, got, f.Call, err)
			}
		}
	}
}

// One name is one, and nothing that goes on behind it.
func TestIdentifier(t *testing.T) {
	for text, want := range map[string]bool{"a": true, "$": true, "_1": true, "é": true, "𝒳": true, "let": true, "async": true, "": false, " a": false, "a ": false, "a=1": false, "a,b": false, "a/**/": false, "//\na": false,
		"if": false, "1a": false, "\\u0061": false, "a\u200b": false, "#a": false, "a;b": false, "@": false, "`a`": false, "\"a\"": false, "a\nb": false, "\xff": false, "a\xff": false, "/a": false} {
		if Identifier(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
