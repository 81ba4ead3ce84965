//go:build browser

package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// The cases that concern what a page makes of output: floods, one endless line, bytes
// that are no text, what frames and terminals are made of.
//
// proves part of X-22 X-27
func TestCasesOnChromium(t *testing.T) {
	p := visit(t, open(t), "/").ready()
	for _, c := range []struct {
		file, says string
		want       []string // lines of the screen
	}{
		{"047-flood-stdout.py", "Stopped: it wrote more to standard output than it may (1.0 MiB).", []string{"earlier lines not shown"}},
		{"050-bad-utf8.py", "It ran to its end.", []string{"\ufffd\ufffdok"}},
		{"053-huge-line.py", "Stopped: it wrote more to standard output", []string{"earlier lines not shown", "LLLL"}},
		{"054-nul-bytes.sh", "It ran to its end.", []string{"a␀b␀"}},
		{"055-ansi-osc52.sh", "It ran to its end.", []string{"red"}},
		{"059-odd-unicode.py", "It ran to its end.", []string{"<U+FEFF>bom <U+2028> sep <U+2029> end", " surrogate", `data: {"type":"exit","code":0}`}},
	} {
		t.Run(c.file, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(testenv.Root(), "testdata", "cases", c.file))
			if err != nil {
				t.Fatal(err)
			}
			language := "python"
			if strings.HasSuffix(c.file, ".sh") {
				language = "bash"
			}
			p.program(language, c.file, string(source))
			p.run()
			p.ended(c.says)
			for _, line := range c.want {
				p.sees("#screen > *", line)
			}
			if n := value[int](p, `document.getElementById("screen").textContent.length`); n > 310_000 {
				t.Errorf("the page keeps %d characters", n)
			}
			if s := p.text("#screen"); strings.ContainsAny(s, "\x00\x1b\x07\u2028\u2029\ufeff") || strings.Contains(s, "[2J") || strings.Contains(s, "cm0gLXJmIH4=") {
				t.Errorf("the screen has what nobody should see: %q", s)
			}
		})
	}
	p.clean()
}
