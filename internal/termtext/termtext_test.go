package termtext

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// corpus is what programs have used against terminals, and what they use them
// for, with what may be shown of it.
var corpus = []struct{ name, in, want string }{
	{"plain text", "hello, wörld\t日本\n", "hello, wörld\t日本\n"},
	{"color", "\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"},
	{"color of 256 and of all", "\x1b[1;38;5;208mx\x1b[48;2;1;2;3my\x1b[4:3mz\x1b[m", "\x1b[1;38;5;208mx\x1b[48;2;1;2;3my\x1b[4:3mz\x1b[m"},
	{"color left on", "\x1b[31mred\n", "\x1b[31mred\n" + Reset},
	{"grep", "\x1b[01;31m\x1b[Kfound\x1b[m\x1b[K\n", "\x1b[01;31mfound\x1b[m\n"},
	{"tput sgr0", "a\x1b(B\x1b[mb", "a\x1b[mb"},
	{"line end of other systems", "a\r\nb\r\n", "a\nb\n"},
	{"overwriting a line", "rm -rf /\rharmless\n", "rm -rf /^Mharmless\n"},
	{"backspace", "evil\b\b\b\bgood", "evil^H^H^H^Hgood"},
	{"bell, null, delete", "\a\x00\x7f", "^G^@^?"},
	{"vertical tab, form feed, shift out", "\v\f\x0e", "^K^L^N"},
	{"end of guarded text", "\x1a\x1c\x1d\x1e\x1f", "^Z^\\^]^^^_"},
	{"cursor and erase", "\x1b[2J\x1b[1;1H\x1b[1000000000Chere", "here"},
	{"alternate screen, cursor off", "\x1b[?1049h\x1b[?25lx", "x"},
	{"reset of the terminal", "\x1bcx", "x"},
	{"save, restore, line down", "\x1b7\x1b8\x1bDx", "x"},
	{"title", "\x1b]0;your bank\ax", "x"},
	{"title report", "\x1b[21tx", "x"},
	{"device status report", "\x1b[6n\x1b[c\x1b[>c\x1b[=cx", "x"},
	{"clipboard", "\x1b]52;c;cm0gLXJmIC8=\ax", "x"},
	{"clipboard, other end", "\x1b]52;c;cm0gLXJmIC8=\x1b\\x", "x"},
	{"hyperlink", "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"},
	{"status request", "\x1bP$q\"p\x1b\\x", "x"},
	{"sixel", "\x1bPq#0;2;0;0;0#0~~@@\x1b\\x", "x"},
	{"application command, privacy, start of string", "\x1b_Gf=24;AAAA\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\ok", "ok"},
	{"key modifiers look like a color", "\x1b[>4;1mx\x1b[?4mx\x1b[>4;2 mx", "xxx"},
	{"intermediate before m", "\x1b[1 mx", "x"},
	{"8 bit introducer, as a character", "\u009b31mx\u009d0;t\u009c", "<U+009B>31mx<U+009D>0;t<U+009C>"},
	{"8 bit introducer, as a byte", "\x9b31mx\x9d0;t\x9c", "\ufffd31mx\ufffd0;t\ufffd"},
	{"color without an end", "x\x1b[31", "x^[[31"},
	{"title without an end", "x\x1b]0;title\nnext line", "x^[]0;title\nnext line"},
	{"escape at the end", "x\x1b", "x^["},
	{"two escapes", "\x1b\x1b[31mx\x1b[0m", "^[\x1b[31mx\x1b[0m"},
	{"control within a sequence", "\x1b[3\x071mx", "^[[3^G1mx"},
	{"escape within a sequence", "\x1b[3\x1b[1mx\x1b[0m", "^[[3\x1b[1mx\x1b[0m"},
	{"string in a string", "\x1b]0;a\x1b]52;c;QQ==\ab", "^[]0;ab"},
	{"too long a color", "\x1b[" + strings.Repeat("1;", 200) + "mx", "^[[" + strings.Repeat("1;", 200) + "mx"},
	{"too long a clipboard", "\x1b]52;c;" + strings.Repeat("A", 300) + "\ax", "^[]52;c;" + strings.Repeat("A", 300) + "^Gx"},
	{"not UTF-8", "a\xffb\xc3(\xed\xa0\x80", "a\ufffdb\ufffd(\ufffd\ufffd\ufffd"},
	{"cut character at the end", "a\xe6\x97", "a\ufffd\ufffd"},
	{"overlong escape", "\xc0\x9b[31m", "\ufffd\ufffd[31m"},
	{"text from right to left", "user\u202enimda\u202c \u2066x\u2069\u200f", "user<U+202E>nimda<U+202C> <U+2066>x<U+2069><U+200F>"},
	{"invisible letters", "a\u200b\ufeff\U000e0041\u00ad", "a<U+200B><U+FEFF><U+E0041><U+00AD>"},
	{"line separators", "a\u2028b\u2029c\u0085d", "a<U+2028>b<U+2029>c<U+0085>d"},
	{"joined emoji, Persian, Arabic number sign", "👩\u200d👩\u200d👧 می\u200cخواهم \u0600", "👩\u200d👩\u200d👧 می\u200cخواهم \u0600"},
}

// filter sends parts through one Writer.
func filter(t testing.TB, parts ...[]byte) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, p := range parts {
		if n, err := w.Write(p); n != len(p) || err != nil {
			t.Fatalf("Write = %d, %v; want %d, nil", n, err, len(p))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestCorpus(t *testing.T) {
	for _, c := range corpus {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, filter(t, []byte(c.in))); diff != "" {
				t.Errorf("whole: -want +got\n%s", diff)
			}
			// Cut at every place, and into single bytes, it is the same.
			var single [][]byte
			for i := range len(c.in) {
				single = append(single, []byte(c.in[i:i+1]))
				if got := filter(t, []byte(c.in[:i]), []byte(c.in[i:])); got != c.want {
					t.Errorf("cut after %d bytes: %q, want %q", i, got, c.want)
				}
			}
			if got := filter(t, single...); got != c.want {
				t.Errorf("byte by byte: %q, want %q", got, c.want)
			}
		})
	}
}

// A real terminal gets exactly what the corpus says. The control: without the
// Writer it gets the sequences themselves.
func TestCorpusOnTerminal(t *testing.T) {
	safe, raw := testenv.NewPTY(t, 80), testenv.NewPTY(t, 80)
	var want, dangerous strings.Builder
	for _, c := range corpus {
		w := NewWriter(safe.TTY)
		if _, err := w.Write([]byte(c.in)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := raw.TTY.WriteString(c.in); err != nil {
			t.Fatal(err)
		}
		want.WriteString(c.want)
		dangerous.WriteString(c.in)
	}
	if diff := cmp.Diff(want.String(), safe.Shown()); diff != "" {
		t.Errorf("behind the Writer: -want +got\n%s", diff)
	}
	if got := raw.Shown(); got != dangerous.String() || !strings.Contains(got, "\x1b]52;c;") {
		t.Errorf("the control shows %q: the terminal of the test is none", got)
	}
}

// Nothing that could be shown at once is held back.
func TestHeldBack(t *testing.T) {
	for in, want := range map[string]string{
		"text":       "text",
		"a\x1b[31":   "a",
		"a\x1b]0;t":  "a",
		"a\r":        "a",
		"a\xe6\x97":  "a",
		"a\x1b[31mb": "a\x1b[31mb",
	} {
		var out bytes.Buffer
		if _, err := NewWriter(&out).Write([]byte(in)); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%q shows %q at once, want %q", in, out.String(), want)
		}
	}
}

type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteError(t *testing.T) {
	w := NewWriter(full{})
	if _, err := w.Write([]byte("x")); !errors.Is(err, errFull) {
		t.Errorf("Write: %v, want %v", err, errFull)
	}
	if _, err := w.Write([]byte("\x1b[")); err != nil {
		t.Errorf("Write of what is held back: %v, want nil", err)
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close: %v, want %v", err, errFull)
	}
}

func TestString(t *testing.T) {
	in := "a\nb\tc\x1b[31m\u009b\u202e\xffé"
	if got, want := String(in), "a^Jb^Ic^[[31m<U+009B><U+202E>\ufffdé"; got != want {
		t.Errorf("String(%q) = %q, want %q", in, got, want)
	}
}

func TestJSON(t *testing.T) {
	in := "a\x1b\x7f\u009b\u202e\U000e0041\u2028é👩\u200d👧\""
	text, err := json.Marshal(map[string]string{"k": in})
	if err != nil {
		t.Fatal(err)
	}
	safe := JSON(text)
	if i := bytes.IndexFunc(safe, func(r rune) bool { return r < 0x20 || risky(r) }); i >= 0 {
		t.Errorf("%q holds a risky character at %d", safe, i)
	}
	var back map[string]string
	if err := json.Unmarshal(safe, &back); err != nil || back["k"] != in {
		t.Errorf("%s reads back as %q, %v; want %q", safe, back["k"], err, in)
	}
	if !strings.Contains(string(safe), `\udb40\udc41`) || !strings.Contains(string(safe), "é👩") {
		t.Errorf("%s: only what is risky is to be an escape", safe)
	}
}

var (
	colors  = regexp.MustCompile(`\x1b\[[0-9;:]*m`)
	unclean = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{200b}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2060}-\x{206f}\x{feff}\x{e0000}-\x{e007f}]`)
)

// Whatever the input and wherever it is cut, what comes out is text and colours.
func FuzzWriter(f *testing.F) {
	for i, c := range corpus {
		f.Add([]byte(c.in), i)
	}
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		whole := filter(t, in)
		if !utf8.ValidString(whole) {
			t.Errorf("%q gives %q, which is not UTF-8", in, whole)
		}
		if found := unclean.FindString(colors.ReplaceAllString(whole, "")); found != "" {
			t.Errorf("%q gives %q with %q", in, whole, found)
		}
		at = int(uint(at) % uint(len(in)+1))
		if cut := filter(t, in[:at], in[at:]); cut != whole {
			t.Errorf("%q cut after %d bytes gives %q, whole %q", in, at, cut, whole)
		}
	})
}
