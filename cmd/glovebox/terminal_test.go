package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// attack prints what would move the cursor, set the title, fill the clipboard
// and ask the terminal to type, between words in colour.
const attack = `import os, sys
for part in (b"\033[31mred\033[0m ", b"\033[2J\033[H\033]0;title\a\033]52;c;cm0gLXJmIC8=\033\\", b"\033P$q\"p\033\\\033[6n\033c",
             b"\302\233", b"31m\xff ", b"over\rwritten\b ", "\u202etxt".encode(), b"\n", b"\033", b"]0;cut", b"\aend"):
    os.write(1, part)
    os.write(2, part)
`

const shownOfAttack = "\x1b[31mred\x1b[0m <U+009B>31m\ufffd over^Mwritten^H <U+202E>txt\nend"

// What a program prints reaches a terminal as text and colours. The control:
// the same program in a pipe is not changed.
func TestTerminalIsSafe(t *testing.T) {
	for stream, redirect := range map[string]string{"stdout": "2>/dev/null", "stderr": ">/dev/null"} {
		t.Run(stream, func(t *testing.T) {
			script := "python3 -c '" + strings.ReplaceAll(attack, "'", `'\''`) + "' " + redirect
			p, pty := terminal(t, 80, "run", "--wall", "30s", "--", "sh", "-c", script)
			p.ends(t, 0)
			text, sentence, ok := strings.Cut(pty.Shown(), "\nglovebox: ok after ")
			if !ok || text != shownOfAttack {
				t.Errorf("shown %q, want %q and a sentence", text, shownOfAttack)
			}
			if strings.Count(sentence, "\n") != 1 {
				t.Errorf("sentence %q, want one line", sentence)
			}
			p = prepare(t, "run", "--wall", "30s", "--", "sh", "-c", script)
			if stream == "stderr" {
				p.begin(t).ends(t, 0)
			} else {
				var out strings.Builder
				p.Stdout = &out
				p.begin(t).ends(t, 0)
				p.stderr = out
			}
			if got := p.stderr.String(); !strings.Contains(got, "\x1b]52;c;") || !strings.Contains(got, "\xc2\x9b31m\xff") {
				t.Errorf("a pipe gets %q and not what was printed", got)
			}
		})
	}
}

// The result as JSON is no way round it.
func TestTerminalIsSafeFromJSON(t *testing.T) {
	for _, flag := range []string{"--json", "--json=stream"} {
		p, pty := terminal(t, 80, "run", "--wall", "30s", flag, "-l", "python", "-e", attack)
		p.ends(t, 0)
		shown := pty.Shown()
		if i := strings.IndexFunc(shown, func(r rune) bool { return r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x202e }); i >= 0 {
			t.Errorf("%s: the terminal gets %q", flag, shown[i:min(i+20, len(shown))])
		}
		if !strings.Contains(shown, `\u001b]52;c;`) {
			t.Errorf("%s: %q does not tell what was printed", flag, shown)
		}
	}
}

// Control-C on the terminal cancels the run and does not end the launcher first.
func TestControlC(t *testing.T) {
	p, pty := terminal(t, 80, "run", "--wall", "60s", "--", "sh", "-c", "echo up; exec sleep 60")
	pty.Await(t, "up\n")
	pty.Type(t, "\x03")
	p.ends(t, 130)
	if got, want := pty.Shown(), "up\nglovebox: canceled: interrupted\n"; got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
}

// What is typed on a terminal is the program's only by request.
func TestTypedInput(t *testing.T) {
	p, pty := terminal(t, 80, "run", "--wall", "30s", "--", "cat")
	p.ends(t, 0)
	if got := pty.Shown(); !strings.HasPrefix(got, "glovebox: ok after ") {
		t.Errorf("shown %q, want only that it ended", got)
	}
	p, pty = terminal(t, 80, "run", "--wall", "30s", "-i", "-", "--", "sh", "-c", "echo ask; read x; echo got $x")
	pty.Await(t, "ask\n")
	pty.Type(t, "word\n")
	p.ends(t, 0)
	if got := pty.Shown(); !strings.HasPrefix(got, "ask\ngot word\nglovebox: ok after ") {
		t.Errorf("shown %q, want the answer to what was typed", got)
	}
}

// A person is told how it ended; a colour does not outlive the program.
func TestSentenceOnTerminal(t *testing.T) {
	p, pty := terminal(t, 80, "run", "--wall", "30s", "--", "sh", "-c", `printf '\033[31mred'; exit 3`)
	p.ends(t, 3)
	if got := pty.Shown(); !strings.HasPrefix(got, "\x1b[31mred\x1b[0m\nglovebox: error: exit status 3 after ") {
		t.Errorf("shown %q, want the colour ended and a sentence on a line of its own", got)
	}
}

// The table of the status is as wide as the terminal.
//
// proves part of P-01
func TestStatusOnTerminal(t *testing.T) {
	p, pty := terminal(t, 60, "status")
	p.ends(t, 0)
	lines := strings.Split(pty.Shown(), "\n")
	cut := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "complete: ") {
			break
		}
		if n := utf8.RuneCountInString(line); n > 60 && !strings.Contains(line, "remedy: ") {
			t.Errorf("%q has %d columns, more than 60", line, n)
		}
		if strings.HasSuffix(line, "…") {
			cut++
		}
	}
	if cut == 0 {
		t.Errorf("nothing was shortened:\n%s", strings.Join(lines, "\n"))
	}
}
