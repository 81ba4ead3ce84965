//go:build browser

package browser_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// sequences are what programs print, in the pieces in which it comes, and what the
// screen has then: lines, each with its runs of text, as "classes|text".
var sequences = []struct {
	name   string
	pieces []string
	want   string
}{
	{"plain", []string{"one\ntwo\r\nthree"}, "[|one] [|two] [|three]"},
	{"empty lines", []string{"\n\na"}, "[] [] [|a]"},
	{"colours", []string{"\x1b[31mred\x1b[0m plain \x1b[1;92mbold"}, "[fg-1|red | plain  fg-10 bold|bold]"},
	{"attributes", []string{"\x1b[2;3;4mx\x1b[22;23;24my"}, "[faint italic underline|x |y]"},
	{"cut anywhere", []string{"a\x1b", "[3", "2", "mgreen\x1b[", "0mb"}, "[|a fg-2|green |b]"},
	{"background", []string{"\x1b[41;37mx\x1b[49my"}, "[bg-1|x fg-7|y]"},
	{"inverse", []string{"\x1b[7mx\x1b[27m \x1b[32;7my"}, "[bg-fore|x |  bg-2|y]"},
	{"256 colours", []string{"\x1b[38;5;196mx\x1b[38;5;12my\x1b[48;5;244mz"}, "[fg-9|x fg-12|y bg-8|z]"},
	{"true colours", []string{"\x1b[38;2;255;0;0mx\x1b[0m\x1b[38:2:0:0:255my"}, "[fg-9|x fg-12|y]"},
	{"black on black", []string{"\x1b[30;40mx"}, "[bg-0|x]"},
	{"concealed", []string{"\x1b[8mx"}, "[|x]"},
	{"unknown parameters", []string{"\x1b[5;21;53;999mx\x1b[>4;1my\x1b[?25lz"}, "[|xyz]"},
	{"cursor", []string{"a\x1b[999999999C\x1b[2J\x1b[10;10Hb"}, "[|ab]"},
	{"title and clipboard", []string{"a\x1b]0;title\x07b\x1b]52;c;eA==\x1b\\c"}, "[|abc]"},
	{"link", []string{"\x1b]8;;javascript:alert(1)\x1b\\text\x1b]8;;\x1b\\"}, "[|text]"},
	{"device strings", []string{"a\x1bPq#0\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d\x1bXz\x1b\\e"}, "[|abcde]"},
	{"charset, reset", []string{"a\x1b(0b\x1bcc\x1b7d"}, "[|abcd]"},
	{"no end", []string{"\x1b]0;" + strings.Repeat("x", 300) + "\nnext"}, "[|␛]0;" + strings.Repeat("x", 300) + "] [|next]"},
	{"held at the end", []string{"a\x1b[3"}, "[|a␛[3]"},
	{"controls", []string{"a\x00\x07\x08\x7f\u009bb"}, "[|a␀␇␈␡<U+009B>b]"},
	{"tab", []string{"a\tb"}, "[|a\tb]"},
	{"direction", []string{"\u202ea\u2066b\u200fc\u061cd"}, "[|<U+202E>a<U+2066>b<U+200F>c<U+061C>d]"},
	{"unseen", []string{"a\u200bb\ufeffc\u2060d\u2028e\U000e0041f\u00adg"}, "[|a<U+200B>b<U+FEFF>c<U+2060>d<U+2028>e<U+E0041>f<U+00AD>g]"},
	{"emoji and scripts", []string{"👩\u200d💻 عربي कि e\u0301"}, "[|👩\u200d💻 عربي कि e\u0301]"},
	{"progress", []string{"10%\r", "20%\r100%\nx"}, "[|100%] [|x]"},
	{"return, then an end of line", []string{"a\r", "\nb"}, "[|a] [|b]"},
	{"HTML", []string{"<b onclick=x>&amp;"}, "[|<b onclick=x>&amp;]"},
	{"long line", []string{strings.Repeat("a", 4001)}, "[|" + strings.Repeat("a", 4000) + "] [|a]"},
}

// shown makes the text form of what a Screen has.
const shown = `(async (text) => {
	const { Screen } = await import("/assets/screen.js")
	const box = document.body.appendChild(document.createElement("div"))
	const s = new Screen(box)
	for (const p of text) { s.write("stdout", p); s.flush() }
	s.end()
	const out = [...box.children].map(l => "[" + [...l.childNodes].map(n => (n.className ?? "") + "|" + n.textContent).join(" ") + "]").join(" ")
	box.remove()
	return out
})(%s)`

// Of what a terminal would obey the page obeys colours, of a fixed set in which none
// hides its text; the rest is dropped or shown. A sequence may be cut anywhere, and none
// makes more than a few cells.
//
// proves part of H-70 X-27
func TestScreenOnChromium(t *testing.T) {
	p := visit(t, open(t, bare), "/v1")
	check := func(name string, pieces []string, want string) {
		data, err := json.Marshal(pieces)
		if err != nil {
			t.Fatal(err)
		}
		if got := value[string](p, fmt.Sprintf(shown, data)); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	for _, c := range sequences {
		check(c.name, c.pieces, c.want)
		if whole := strings.Join(c.pieces, ""); len(whole) < 200 {
			check(c.name+", one by one", strings.Split(whole, ""), c.want)
		}
	}
	p.clean()
}

// However much a program prints, and in however many colours, the page keeps so much of
// it, the newest, and says that it does.
//
// proves part of H-70
func TestScreenIsBoundedOnChromium(t *testing.T) {
	p := visit(t, open(t, bare), "/v1")
	type size struct {
		Nodes, Text int
		Last, Note  string
	}
	got := value[size](p, `(async () => {
		const { Screen } = await import("/assets/screen.js")
		const box = document.body.appendChild(document.createElement("div"))
		const s = new Screen(box)
		for (let i = 0; i < 60; i++) {
			s.write("stdout", "\n".repeat(5000) + "x".repeat(20000) + "\n")
			s.write("stderr", "\x1b[31ma\x1b[32mb".repeat(4000))
			s.flush()
		}
		s.write("stdout", "the last")
		s.flush()
		return { Nodes: box.querySelectorAll("*").length, Text: box.textContent.length, Last: box.lastChild.textContent, Note: box.firstChild.textContent }
	})()`)
	if got.Nodes > 11_000 || got.Nodes < 1000 || got.Text > 310_000 || got.Last != "the last" || !strings.Contains(got.Note, "earlier lines not shown") {
		t.Errorf("%+v", got)
	}
}
