package script

import (
	"slices"
	"strings"
	"testing"
)

// What a feed declares that is no property of the global object is known by
// name, whether the feed is rewritten or not.
func TestLexical(t *testing.T) {
	for src, want := range map[string]string{
		"1": "", "var a; function b() {}": "", "let a, b = 1; const { c, d: [e = 2, ...f], ...g } = x; class H {}": "a b c e f g H", "l\\u0065t\nx": "",
		"let \\u0061b": "ab", "{ let a } for (let b of c) ; if (1) { const d = 1 } function f() { let e } () => { class G {} }": "", "for (var i;;) { let j }": "",
		"let await1 = 1; let\nz": "await1 z", "let let1; switch (1) { case 1: let q }": "let1", "try { let a } catch (e) { let b }": "", "x = class Y {}": "",
	} {
		for _, tail := range []string{"", "\nawait 0"} {
			f, err := Feed(src+tail, "", Options{})
			if got := strings.Join(f.Lexical, " "); err != nil || got != want || f.Call != (tail != "") {
				t.Errorf("%q: %q, %v, %v", src+tail, got, f.Call, err)
			}
			if !slices.Equal(f.Lexical, slices.Compact(slices.Clone(f.Lexical))) {
				t.Errorf("%q: %v", src, f.Lexical)
			}
		}
	}
}
