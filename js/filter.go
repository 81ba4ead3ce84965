package js

import (
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/termtext"
)

// clean is the one filter of text that a guest wrote and that people read:
// console, errors, [Value.String]. It takes away every control character but tab
// and newline, and what reorders or hides text (see termtext.Plain), and cuts
// what is longer than limit bytes, with an ellipsis within them. Values
// themselves never pass through it: data stays as it is.
func clean(s string, limit int) string {
	// What is far behind the limit is not even looked at. Text that is taken away
	// may be most of it, so that some more than limit is.
	if more := 4*limit + utf8.UTFMax; len(s) > more {
		s = s[:more]
		return end(termtext.Plain(s), limit)
	}
	if s = termtext.Plain(s); len(s) > limit {
		return end(s, limit)
	}
	return s
}

// cut shortens s to at most limit bytes, with an ellipsis if it was longer.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return end(s, limit)
}

const ellipsis = "…"

// end cuts s so that it ends with an ellipsis within limit bytes.
func end(s string, limit int) string {
	n := max(limit-len(ellipsis), 0)
	if n >= len(s) {
		return s + ellipsis
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]) + ellipsis
}
