package wire

import (
	"unicode"
	"unicode/utf8"
)

// Specifier tells whether a text may be the specifier or the name of a module:
// UTF-8 of 1 to 1,024 bytes without control characters, and none that reorder
// text or have no shape. Both sides ask.
func Specifier(s string) bool {
	if s == "" || len(s) > maxName || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.Is(unicode.C, r) || r == '\u2028' || r == '\u2029' {
			return false
		}
	}
	return true
}
