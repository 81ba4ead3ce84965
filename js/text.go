package js

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// A string that came from JavaScript is WTF-8: UTF-8, and for half of a
// surrogate pair the three bytes it would have if it were a character.

// half returns the lone half of a surrogate pair at the start of s, 0 if there
// is none.
func half(s string) rune {
	if len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80 {
		return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f)
	}
	return 0
}

func appendHalf(b []byte, r rune) []byte {
	return append(b, 0xed, 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f))
}

// wtf8 makes a string of any Go string: two halves that meet become their
// character, every other byte that is not UTF-8 becomes U+FFFD.
func wtf8(s string) string {
	if wire.ValidWTF8(s) {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for len(s) > 0 {
		if r, n := utf8.DecodeRuneInString(s); r != utf8.RuneError || n > 1 {
			b, s = append(b, s[:n]...), s[n:]
			continue
		}
		r := half(s)
		if r == 0 {
			b, s = append(b, "\ufffd"...), s[1:]
			continue
		}
		s = s[3:]
		if pair := utf16.DecodeRune(r, half(s)); pair != utf8.RuneError {
			b, s = utf8.AppendRune(b, pair), s[3:]
			continue
		}
		b = appendHalf(b, r)
	}
	return string(b)
}

// appendNumber appends a number as JavaScript writes it; -0 keeps its sign.
func appendNumber(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	}
	if abs := math.Abs(f); abs == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-2] == '0' { // e-07
		b = append(b[:n-2], b[n-1])
	}
	return b
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. Halves of surrogate pairs become escapes,
// and so do the two line separators that JavaScript's parsers once tripped over.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for len(s) > 0 {
		n := 0
		for n < len(s) && s[n] >= 0x20 && s[n] < utf8.RuneSelf && s[n] != '"' && s[n] != '\\' {
			n++
		}
		b, s = append(b, s[:n]...), s[n:]
		if s == "" {
			break
		}
		if s[0] < utf8.RuneSelf {
			b, s = appendEscape(b, rune(s[0])), s[1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			if r = half(s); r != 0 {
				b, size = appendEscape(b, r), 3
			} else {
				b = append(b, "\ufffd"...)
			}
		case r == '\u2028' || r == '\u2029':
			b = appendEscape(b, r)
		default:
			b = append(b, s[:size]...)
		}
		s = s[size:]
	}
	return append(b, '"')
}

func appendEscape(b []byte, r rune) []byte {
	if i := strings.IndexRune("\"\\\b\f\n\r\t", r); i >= 0 {
		return append(b, '\\', `"\bfnrt`[i])
	}
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

func appendBase64(b, data []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, '"')
}

// dateText is a Date as toISOString writes it, or "Invalid Date".
func dateText(d wire.Date) string {
	t, ok := toTime(d)
	if !ok {
		return InvalidDate.String()
	}
	const rest = "-01-02T15:04:05.000Z"
	switch year := t.Year(); {
	case year < 0:
		return "-" + padded(-year) + t.Format(rest)
	case year > 9999:
		return "+" + padded(year) + t.Format(rest)
	}
	return t.Format(time.DateOnly[:4] + rest)
}

func padded(year int) string {
	s := strconv.Itoa(year)
	return strings.Repeat("0", max(6-len(s), 0)) + s
}
