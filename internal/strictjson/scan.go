package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of single parts of a text, in bytes.
const (
	maxKey    = 256 << 10 // as written, with its escapes
	maxNumber = 1000
)

// next moves to the next byte that is no space and returns it, 0 at the end.
func (w *walk) next() byte {
	for ; w.pos < len(w.data); w.pos++ {
		switch c := w.data[w.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// syntax is the failure of what stands at the current place.
func (w *walk) syntax() *failure {
	if w.pos >= len(w.data) {
		return refuse("is not JSON: it ends too early")
	}
	return refuse("is not JSON: %s at byte %d is out of place", quote(string(w.data[w.pos:w.pos+1])), w.pos)
}

// word reads one of null, true and false.
func (w *walk) word(s string) *failure {
	for i := range len(s) {
		if w.pos >= len(w.data) || w.data[w.pos] != s[i] {
			return w.syntax()
		}
		w.pos++
	}
	return nil
}

// text reads a string and returns what stands between its quotes, as written.
func (w *walk) text() (raw []byte, f *failure) {
	start := w.pos + 1
	for i := start; i < len(w.data); i++ {
		switch c := w.data[i]; {
		case c == '"':
			w.pos = i + 1
			if raw = w.data[start:i]; !utf8.Valid(raw) {
				return nil, refuse("is not UTF-8")
			}
			return raw, nil
		case c == '\\':
			_, n := unescape(w.data[i:])
			if n == 0 {
				w.pos = i
				return nil, refuse("has an escape at byte %d that JSON does not know, or half of a surrogate pair", i)
			}
			i += n - 1
		case c < ' ':
			w.pos = i
			return nil, w.syntax()
		}
	}
	w.pos = len(w.data)
	return nil, w.syntax()
}

// unescape reads the escape that b begins with: the character and the number of
// bytes, 0 when there is no such escape or it is half of a surrogate pair.
func unescape(b []byte) (r rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, n = hex4(b)
		if n == 0 || !utf16.IsSurrogate(r) {
			return r, n
		}
		low, m := hex4(b[n:])
		if r = utf16.DecodeRune(r, low); m == 0 || r == unicode.ReplacementChar {
			return 0, 0
		}
		return r, n + m
	}
	return 0, 0
}

// hex4 reads \uXXXX.
func hex4(b []byte) (r rune, n int) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, 0
	}
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, 0
		}
		r = r<<4 | rune(c)
	}
	return r, 6
}

// unquote returns the string that is written as raw, which text has read.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return string(raw) // cannot be: text has read it
	}
	return s
}

// base64Form reports whether a string, as written, is standard base64 in one
// line, padded, with no bit set beyond its last byte.
func base64Form(raw []byte) bool {
	count, pads, last := 0, 0, byte(0)
	for i := 0; i < len(raw); count++ {
		r, n := rune(raw[i]), 1
		if r == '\\' {
			r, n = unescape(raw[i:])
		}
		i += n
		if r == '=' {
			pads++
			continue
		}
		v := sextet(r)
		if v > 63 || pads > 0 {
			return false
		}
		last = v
	}
	switch {
	case count%4 != 0, pads > 2:
		return false
	case pads == 2:
		return last&15 == 0
	case pads == 1:
		return last&3 == 0
	}
	return true
}

// sextet is the value of a character of base64, 255 for another.
func sextet(r rune) byte {
	switch {
	case 'A' <= r && r <= 'Z':
		return byte(r - 'A')
	case 'a' <= r && r <= 'z':
		return byte(r-'a') + 26
	case '0' <= r && r <= '9':
		return byte(r-'0') + 52
	case r == '+':
		return 62
	case r == '/':
		return 63
	}
	return 255
}

// number reads a number and holds it against the range of its kind.
func (w *walk) number(k *kind) *failure {
	start := w.pos
	if w.peek() == '-' {
		w.pos++
	}
	whole := w.pos
	if !w.digits() || w.data[whole] == '0' && w.pos > whole+1 {
		return w.syntax()
	}
	if w.peek() == '.' {
		if w.pos++; !w.digits() {
			return w.syntax()
		}
	}
	if c := w.peek(); c == 'e' || c == 'E' {
		w.pos++
		if c := w.peek(); c == '+' || c == '-' {
			w.pos++
		}
		if !w.digits() {
			return w.syntax()
		}
	}
	raw := w.data[start:w.pos]
	if len(raw) > maxNumber {
		return refuse("must have at most %d digits", maxNumber)
	}
	if why := misfit(k, string(raw)); why != "" {
		f := refuse("%s", why)
		f.value = cut(string(raw), maxPart)
		return f
	}
	return nil
}

// misfit says why a number is none of a kind's values, or "".
func misfit(k *kind, s string) string {
	switch k.class {
	case integer:
		bits := k.typ.Bits()
		if _, err := strconv.ParseInt(s, 10, bits); err != nil {
			return fmt.Sprintf("must be a whole number from %d to %d", int64(-1)<<(bits-1), int64(1)<<(bits-1)-1)
		}
	case unsigned:
		bits := k.typ.Bits()
		if _, err := strconv.ParseUint(s, 10, bits); err != nil {
			return fmt.Sprintf("must be a whole number from 0 to %d", ^uint64(0)>>(64-bits))
		}
	case float, free:
		bits := 64
		if k.typ != nil && k.typ.Kind() == reflect.Float32 {
			bits = 32
		}
		if _, err := strconv.ParseFloat(s, bits); err != nil {
			return "is too large"
		}
	}
	return ""
}

// peek is the byte at the current place, 0 at the end.
func (w *walk) peek() byte {
	if w.pos < len(w.data) {
		return w.data[w.pos]
	}
	return 0
}

// digits reads at least one digit.
func (w *walk) digits() bool {
	i := w.pos
	for i < len(w.data) && '0' <= w.data[i] && w.data[i] <= '9' {
		i++
	}
	some := i > w.pos
	w.pos = i
	return some
}
