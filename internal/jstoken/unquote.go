package jstoken

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// unicodeEscape reads \uXXXX or \u{X…} at the beginning of s. It returns the
// escape's length, 0 for none.
func unicodeEscape(s string) (r rune, n int) {
	if len(s) < 3 || s[0] != '\\' || s[1] != 'u' {
		return 0, 0
	}
	if s[2] != '{' {
		if len(s) < 6 {
			return 0, 0
		}
		v, err := strconv.ParseUint(s[2:6], 16, 32)
		if err != nil {
			return 0, 0
		}
		return rune(v), 6
	}
	for n = 3; n < len(s) && class[s[n]]&isHex != 0; n++ {
		if r = r<<4 | rune(hex(s[n])); r > utf8.MaxRune {
			return 0, 0
		}
	}
	if n == 3 || n == len(s) || s[n] != '}' {
		return 0, 0
	}
	return r, n + 1
}

func hex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// Unquote returns what a String token stands for. Halves of surrogate pairs that
// stand alone become U+FFFD.
func Unquote(text string) string {
	if len(text) < 2 {
		return ""
	}
	s := text[1:]
	if s[len(s)-1] == text[0] {
		s = s[:len(s)-1]
	}
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:i])
		r, n := escape(s[i:])
		if n == 0 { // the end of a line, which is left out
			n = lineEscape(s[i:])
		} else if hi := r; hi >= 0xd800 && hi < 0xdc00 {
			if lo, m := unicodeEscape(s[i+n:]); lo >= 0xdc00 && lo < 0xe000 {
				r, n = 0x10000+(hi-0xd800)<<10+(lo-0xdc00), n+m
			}
			b.WriteRune(r)
		} else {
			b.WriteRune(r)
		}
		s = s[i+n:]
	}
	return b.String()
}

// lineEscape is the length of a backslash and the end of a line.
func lineEscape(s string) int {
	switch {
	case strings.HasPrefix(s, "\\\r\n"):
		return 3
	case s[1] == '\n', s[1] == '\r':
		return 2
	}
	return 1 + len("\u2028")
}

// escape reads one escape at the beginning of s, at least two bytes. It returns
// its length, 0 for the end of a line.
func escape(s string) (r rune, n int) {
	switch c := s[1]; c {
	case '\n', '\r':
		return 0, 0
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'v':
		return '\v', 2
	case 'u':
		if r, n = unicodeEscape(s); n > 0 {
			return r, n
		}
	case 'x':
		if len(s) >= 4 && class[s[2]]&class[s[3]]&isHex != 0 {
			return rune(hex(s[2]))<<4 | rune(hex(s[3])), 4
		}
	case '0', '1', '2', '3', '4', '5', '6', '7':
		for n = 1; n < 4 && n < len(s) && s[n] >= '0' && s[n] <= '7' && r<<3 < 256; n++ {
			r = r<<3 | rune(s[n]-'0')
		}
		return r, n
	}
	if strings.HasPrefix(s[1:], "\u2028") || strings.HasPrefix(s[1:], "\u2029") {
		return 0, 0
	}
	r, n = utf8.DecodeRuneInString(s[1:])
	return r, n + 1
}
