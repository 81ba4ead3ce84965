// Package termtext makes text of a stranger safe to show on a terminal.
//
// Newline, tab and colours pass. Any other control sequence (cursor, title,
// clipboard, reports, device strings) does not reach the terminal: one that is
// whole is dropped, and what only looks like one, like every other control
// character, is shown: "^[" for ESC, "<U+009B>" for a control of the upper
// range. Characters that reorder or hide text are shown in the same way, and
// bytes that are not UTF-8 become U+FFFD.
//
// See ECMA-48 and https://invisible-island.net/xterm/ctlseqs/ctlseqs.html.
package termtext

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSequence bounds a control sequence, and so what a Writer holds back.
const maxSequence = 256

const (
	esc = 0x1b
	del = 0x7f
)

// Reset is what Close writes to end a colour.
const Reset = "\x1b[0m"

// Writer makes safe what is written to it. A sequence may be cut anywhere
// between two calls. It is not safe for concurrent use.
type Writer struct {
	w       io.Writer
	held    []byte // a begun sequence or character
	out     bytes.Buffer
	colored bool // a colour was set and not yet reset
}

// NewWriter returns a Writer in front of w. Close it, or the last bytes may be
// missing and the colour may stay.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write passes p on, made safe. It returns len(p) unless w fails.
func (t *Writer) Write(p []byte) (int, error) {
	data := append(t.held, p...)
	rest := t.filter(data, false)
	t.held = append([]byte(nil), rest...)
	if err := t.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close shows what was held back and ends the colour. It does not close w.
func (t *Writer) Close() error {
	t.filter(t.held, true)
	t.held = nil
	if t.colored {
		t.out.WriteString(Reset)
		t.colored = false
	}
	return t.flush()
}

func (t *Writer) flush() error {
	defer t.out.Reset()
	if t.out.Len() == 0 {
		return nil
	}
	_, err := t.w.Write(t.out.Bytes())
	return err
}

// String returns s made safe and without colours, for text within a sentence:
// newline and tab are shown too.
func String(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x20 || r == del:
			b.WriteString(caret(byte(r)))
		case hidden(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// JSON returns the JSON text b with every character that a terminal could obey,
// or that hides or reorders text, as an escape. Its value stays the same.
func JSON(b []byte) []byte {
	if bytes.IndexFunc(b, risky) < 0 {
		return b
	}
	var out bytes.Buffer
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case !risky(r):
			out.Write(b[:n])
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out.Bytes()
}

func risky(r rune) bool { return r == del || hidden(r) }

// hidden reports whether a character above ASCII is a control, reorders text,
// breaks lines, or is invisible. Joiners are neither: scripts and emoji need
// them, and some format characters have a shape of their own.
func hidden(r rune) bool {
	switch {
	case r < 0x80, r == '\u200c', r == '\u200d':
		return false
	case r < 0xa0, r == '\u2028', r == '\u2029':
		return true
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// filter appends what is safe of p to out and returns what cannot be judged
// without more; nothing, when this is the end.
func (t *Writer) filter(p []byte, end bool) (rest []byte) {
	for len(p) > 0 {
		c := p[0]
		switch {
		case c == '\n' || c == '\t' || c >= 0x20 && c < del:
			n := plain(p)
			t.out.Write(p[:n])
			p = p[n:]
		case c == '\r':
			if len(p) == 1 && !end {
				return p
			}
			if len(p) == 1 || p[1] != '\n' { // at the end of a line it changes nothing
				t.out.WriteString(caret(c))
			}
			p = p[1:]
		case c == esc:
			n, s := sequence(p)
			if s == begun && !end {
				return p
			}
			if n = t.sequence(p, n, s); n == 0 {
				t.out.WriteString(caret(c))
				n = 1
			}
			p = p[n:]
		case c < utf8.RuneSelf:
			t.out.WriteString(caret(c))
			p = p[1:]
		default:
			if !end && !utf8.FullRune(p) {
				return p
			}
			p = p[t.character(p):]
		}
	}
	return nil
}

// plain is the number of bytes at the start of p that need no look.
func plain(p []byte) int {
	for i, c := range p {
		if c != '\n' && c != '\t' && (c < 0x20 || c >= del) {
			return i
		}
	}
	return len(p)
}

// character writes the character at the start of p and returns its size.
func (t *Writer) character(p []byte) int {
	r, n := utf8.DecodeRune(p)
	switch {
	case r == utf8.RuneError && n == 1:
		t.out.WriteString("\ufffd")
	case hidden(r):
		fmt.Fprintf(&t.out, "<U+%04X>", r)
	default:
		t.out.Write(p[:n])
	}
	return n
}

// sequence writes a whole sequence if it is a colour and drops it otherwise;
// it returns how much of p is dealt with.
func (t *Writer) sequence(p []byte, n int, s state) int {
	if s != whole {
		return 0
	}
	if isColor(p[:n]) {
		t.out.Write(p[:n])
		t.colored = !isReset(p[:n])
	}
	return n
}

// caret shows a control character of the lower range as "^X".
func caret(c byte) string { return string([]byte{'^', c ^ 0x40}) }
