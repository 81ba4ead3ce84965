//go:build browser

package browser_test

import (
	"strings"
	"testing"
)

// The first visit: the example of the first language runs, its output is told apart
// and coloured, its picture is shown, and what was proved before is said in words.
//
// proves part of X-22
func TestFirstVisitOnChromium(t *testing.T) {
	p := visit(t, open(t), "/").ready()
	if s := p.text("#host"); !strings.Contains(s, "sealed") {
		t.Errorf("the status is %q", s)
	}
	p.picture("first-visit")
	p.run()
	p.ended("It ran to its end.")
	p.sees("#screen .line.stdout .fg-6.bold", "step 1")
	p.sees("#screen .line.stderr", "a picture is ready")
	p.until(`document.querySelector(".picture img")?.naturalWidth === 320`)
	p.sees(".evidence summary", "Every layer held")
	p.picture("run")
	p.click(".evidence summary")
	p.sees(".evidence .layers", "seccomp")
	p.picture("evidence")
	p.clean()
}

// asks is a program that goes on only when it is told to, so that nothing is a matter
// of time.
const asks = `import sys
print("one", flush=True)
for line in sys.stdin:
    print("heard", line.strip(), flush=True)
print("the end", file=sys.stderr)
`

// Output is there while the program runs, what is typed gets to it, in order, and the
// end of its input too.
//
// proves part of X-22 X-16
func TestTypingOnChromium(t *testing.T) {
	p := visit(t, open(t), "/").ready()
	p.program("python", "main.py", asks)
	p.click("#input summary")
	p.click("#interactive")
	p.run()
	p.sees("#screen", "one")
	if s := p.text("#state"); s != "Running" {
		t.Errorf("while it runs the page says %q", s)
	}
	p.picture("typing")
	for _, word := range []string{"alpha", "beta <b>"} {
		p.until(`document.activeElement.id === "line"`)
		p.keys(word + "\r")
		p.sees("#screen", "heard "+word)
	}
	p.click("#eof")
	p.ended("It ran to its end.")
	if s := p.stdout(); s != "one\nheard alpha\nheard beta <b>\n" {
		t.Errorf("standard output is shown as %q", s)
	}
	p.clean()
}

// A run is canceled, and says so; the next one is none the worse.
//
// proves part of X-22
func TestCancelOnChromium(t *testing.T) {
	p := visit(t, open(t), "/").ready()
	p.program("bash", "main.sh", "echo begun; sleep 50")
	p.run()
	p.sees("#screen", "begun")
	p.click("#cancel")
	p.ended("It was canceled.")
	p.program("bash", "main.sh", "cat; echo \"$1 $NAME\" >&2; exit 3", "more.txt", "x")
	p.set("#args", "first\n")
	p.set("#env", "NAME=value=2")
	p.set("#stdin", "from before\n")
	p.run()
	p.ended("exit status 3")
	p.sees("#screen .stdout", "from before")
	p.sees("#screen .stderr", "first value=2")
	p.click(`[data-show="stderr"]`)
	if s := p.text("#screen"); strings.Contains(s, "from before") {
		t.Errorf("of standard error alone the page shows %q", s)
	}
	p.clean()
}

// Every end is told in words that a person understands, and what was compiled says what
// the compiler said.
//
// proves part of X-22
func TestVerdictsOnChromium(t *testing.T) {
	p := visit(t, open(t), "/").ready()
	for _, c := range []struct{ language, file, source, limit, value, says string }{
		{"bash", "main.sh", "sleep 50", "wall_ms", "0.3", "Stopped: its time was up (300 ms)."},
		{"python", "main.py", "x = bytearray(900 << 20)", "memory_bytes", "64", "Stopped: it wanted more memory than it may have (64 MiB)."},
		{"bash", "main.sh", "kill -SEGV $$", "", "", "ended by the signal SIGSEGV"},
		{"c", "main.c", "int main(void) { return wrong; }", "", "", "The compiler refused it."},
		{"python", "main.py", "import ctypes; ctypes.CDLL(None).syscall(101, 0, 0, 0, 0)", "", "", "Stopped: it called ptrace"},
	} {
		p.program(c.language, c.file, c.source)
		if c.limit != "" {
			p.click("#bounds summary")
			p.set("#limit-"+c.limit, c.value)
		}
		p.run()
		p.ended(c.says)
	}
	p.program("c", "main.c", "int main(void) { return wrong; }")
	p.run()
	p.ended("The compiler refused it.")
	p.sees("#screen .stderr", "wrong")
	p.program("bash", "main.sh", "true")
	p.click("#bounds summary")
	p.set("#limit-wall_ms", "0.3")
	p.picture("limits")
	p.clean()
}
