package agent

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/termtext"
)

// The bounds of what is shown of a stranger's text, in bytes.
const (
	maxToolDoc    = 1024 // of a tool
	maxFieldDoc   = 200  // of a property
	maxDocLines   = 24
	maxShownTools = 64 << 10 // declarations in one text
)

// cutText shortens s to at most limit bytes, with an ellipsis within them.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := limit - len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// shown is a stranger's name in an error: quoted in ASCII, and cut.
func shown(name string) string { return strconv.QuoteToASCII(cutText(name, 100)) }

// docLines makes lines for a comment of a stranger's text: nothing in them ends
// the comment, a fence of Markdown or a line, hides or turns round, and there
// are not many.
func docLines(s string, limit int) []string {
	s = termtext.Plain(cutText(s, 4*limit))
	s = strings.NewReplacer("*/", "* /", "/*", "/ *", "`", "'", "\t", " ", "<!--", "< !--", "-->", "-- >").Replace(s)
	s = cutText(s, limit)
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if strings.HasPrefix(line, "@") { // no tag of an editor
			line = "- " + line
		}
		if out = append(out, line); len(out) == maxDocLines {
			break
		}
	}
	return out
}

// quoteTS writes a string literal of JavaScript in plain ASCII, without a
// backtick.
func quoteTS(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7f && r != '`' && r != '<' && r != '/':
			b.WriteRune(r)
		default:
			for _, u := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

// propertyTS writes the name of a property, quoted unless it is an identifier.
func propertyTS(name string) string {
	plain := name != "" && len(name) <= 64
	for i := range len(name) {
		c := name[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$'
		plain = plain && (letter || i > 0 && c >= '0' && c <= '9')
	}
	if plain {
		return name
	}
	return quoteTS(name)
}
