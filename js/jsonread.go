package js

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// readJSON reads a JSON text (RFC 8259) that a Go type made of itself. Objects
// keep the order of their properties; a name twice is refused. Numbers are as
// number says.
func (e *encoder) readJSON(text []byte) (any, *fault) {
	if f := e.charge(len(text)); f != nil {
		return nil, f
	}
	r := &jsonReader{e: e, s: string(text)}
	v, f := r.value()
	if f != nil {
		return nil, f
	}
	if r.space(); r.at < len(r.s) {
		return nil, r.bad()
	}
	return v, nil
}

// number converts a number of JSON: whole numbers beyond 2^53-1 become BigInt,
// like the integers of Go; others the nearest float64. An empty one is 0, as in
// encoding/json.
func (e *encoder) number(s string) (any, *fault) {
	if s == "" {
		return 0.0, nil
	}
	if !isNumber(s) {
		return nil, faultf("%q is no number", cut(s, maxPiece))
	}
	v, err := strconv.ParseFloat(s, 64)
	if whole := !strings.ContainsAny(s, ".eE"); whole && (v > maxExact || v < -maxExact) {
		if len(s) > wire.MaxBigInt { // in decimal digits, safely below the limit
			return nil, exceeds("bigint", wire.MaxBigInt)
		}
		if n, ok := new(big.Int).SetString(s, 10); ok {
			return n, nil
		}
	}
	if err != nil {
		return nil, faultf("number %s is too large", cut(s, maxPiece))
	}
	return v, nil
}

// isNumber reports whether s is a number of JSON.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	digits := func() bool {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n > 0
	}
	if strings.HasPrefix(s, "0") {
		s = s[1:]
	} else if !digits() {
		return false
	}
	if strings.HasPrefix(s, ".") {
		if s = s[1:]; !digits() {
			return false
		}
	}
	if s != "" && s[0]|0x20 == 'e' {
		if s = s[1:]; s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return s == ""
}

type jsonReader struct {
	e  *encoder
	s  string
	at int
}

func (r *jsonReader) bad() *fault {
	if r.at >= len(r.s) {
		return faultf("the JSON ends early")
	}
	return faultf("no JSON at byte %d", r.at)
}

func (r *jsonReader) space() {
	for r.at < len(r.s) && strings.IndexByte(" \t\r\n", r.s[r.at]) >= 0 {
		r.at++
	}
}

// next skips space and returns the next byte, 0 at the end.
func (r *jsonReader) next() byte {
	r.space()
	if r.at < len(r.s) {
		return r.s[r.at]
	}
	return 0
}

// take skips a text that must come next.
func (r *jsonReader) take(s string) bool {
	if !strings.HasPrefix(r.s[r.at:], s) {
		return false
	}
	r.at += len(s)
	return true
}

func (r *jsonReader) value() (any, *fault) {
	if f := r.e.node(); f != nil {
		return nil, f
	}
	switch c := r.next(); {
	case c == '{':
		return r.object()
	case c == '[':
		return r.array()
	case c == '"':
		return r.str()
	case c == 'n' && r.take("null"):
		return nil, nil
	case c == 't' && r.take("true"):
		return true, nil
	case c == 'f' && r.take("false"):
		return false, nil
	case c == '-' || c >= '0' && c <= '9':
		start := r.at
		for r.at < len(r.s) && strings.IndexByte("+-.0123456789Ee", r.s[r.at]) >= 0 {
			r.at++
		}
		return r.e.number(r.s[start:r.at])
	}
	return nil, r.bad()
}

func (r *jsonReader) array() (any, *fault) {
	if f := r.e.enter(0); f != nil {
		return nil, f
	}
	defer r.e.leave()
	r.at++
	out := []any{}
	if r.next() == ']' {
		r.at++
		return out, nil
	}
	for {
		v, f := r.value()
		if f != nil {
			return nil, f.index(len(out))
		}
		if out = append(out, v); len(out) > r.e.maxElements {
			return nil, exceeds("elements", r.e.maxElements)
		}
		switch r.next() {
		case ',':
			r.at++
		case ']':
			r.at++
			return out, nil
		default:
			return nil, r.bad()
		}
	}
}

func (r *jsonReader) object() (any, *fault) {
	if f := r.e.enter(0); f != nil {
		return nil, f
	}
	defer r.e.leave()
	r.at++
	o := &wire.Object{}
	if r.next() == '}' {
		r.at++
		return o, nil
	}
	for {
		if r.next() != '"' {
			return nil, r.bad()
		}
		k, f := r.str()
		if f != nil {
			return nil, f
		}
		if r.next() != ':' {
			return nil, r.bad()
		}
		r.at++
		key := k.(string)
		v, f := r.value()
		if f != nil {
			return nil, f.key(key)
		}
		o.Keys, o.Values = append(o.Keys, key), append(o.Values, v)
		if len(o.Keys) > r.e.maxElements {
			return nil, exceeds("elements", r.e.maxElements)
		}
		switch r.next() {
		case ',':
			r.at++
		case '}':
			r.at++
			return o, distinct(o.Keys)
		default:
			return nil, r.bad()
		}
	}
}

// str reads a string. An escape may be half of a surrogate pair; what is not
// UTF-8 becomes U+FFFD.
func (r *jsonReader) str() (any, *fault) {
	r.at++
	start := r.at
	for r.at < len(r.s) && r.s[r.at] != '"' && r.s[r.at] != '\\' && r.s[r.at] >= 0x20 {
		r.at++
	}
	if r.at < len(r.s) && r.s[r.at] == '"' {
		r.at++
		return wtf8(r.s[start : r.at-1]), nil
	}
	b := []byte(r.s[start:r.at])
	for r.at < len(r.s) {
		switch c := r.s[r.at]; {
		case c == '"':
			r.at++
			return wtf8(string(b)), nil
		case c < 0x20:
			return nil, r.bad()
		case c != '\\':
			b = append(b, c)
			r.at++
		default:
			u, ok := r.escape()
			if !ok {
				return nil, r.bad()
			}
			if u >= 0xd800 && u < 0xe000 {
				b = appendHalf(b, u) // wtf8 joins two of them
			} else {
				b = utf8.AppendRune(b, u)
			}
		}
	}
	return nil, r.bad()
}

// escape reads an escape sequence, which begins here.
func (r *jsonReader) escape() (rune, bool) {
	r.at++
	if r.at >= len(r.s) {
		return 0, false
	}
	c := r.s[r.at]
	r.at++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), true
	}
	if c != 'u' || len(r.s)-r.at < 4 {
		return 0, false
	}
	u, err := strconv.ParseUint(r.s[r.at:r.at+4], 16, 16)
	if err != nil {
		return 0, false
	}
	r.at += 4
	return rune(u), true
}
