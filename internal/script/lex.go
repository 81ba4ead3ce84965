package script

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind uint8

const (
	end      kind = iota
	name          // identifiers and keywords
	private       // #name
	number        // BigInts too
	text          // a string
	template      // one piece, up to and with ${ or the closing `
	regexp
	punct
)

// token is one token of the source.
type token struct {
	kind    kind
	nl      bool // a line ends between the token before it and this one
	escaped bool // a name that is written with escapes, and so is no keyword
	from    int  // bytes from the start of the source
	to      int
	text    string // of a name what it means, of a punctuator itself
}

// is tells a punctuator, or a keyword.
func (t *token) is(s string) bool {
	return (t.kind == punct || t.kind == name && !t.escaped) && t.text == s
}

// lexer cuts a source into tokens. Whether a slash begins a regular expression,
// and a brace goes on with a template, is for the parser to say.
type lexer struct {
	src                      string
	pos                      int
	tok                      token
	html                     bool            // <!-- and --> begin comments, as in scripts; in modules they are refused
	idents                   map[string]bool // names that begin with $
	count                    int
	lineAt, lines, lineStart int         // up to where lines were counted, see place
	stop                     func() bool // asked now and then; true ends the parse
}

// enough is how many tokens are read between two questions of stop.
const enough = 1 << 10

// next reads the next token into l.tok.
func (l *lexer) next() {
	if l.count++; l.count%enough == 0 && l.stop != nil && l.stop() {
		panic(bailout{ErrStopped})
	}
	nl := l.space()
	l.tok = token{nl: nl, from: l.pos}
	l.scan()
	l.tok.to = l.pos
}

func (l *lexer) at(i int) byte {
	if i < len(l.src) {
		return l.src[i]
	}
	return 0
}

// space skips white space and comments, and says whether a line ended.
func (l *lexer) space() (nl bool) {
	start := l.pos == 0
	for {
		switch c := l.at(l.pos); {
		case c == '\n' || c == '\r':
			nl = true
			l.pos++
		case c == ' ' || c == '\t' || c == '\v' || c == '\f':
			l.pos++
		case c == '/' && l.at(l.pos+1) == '/':
			l.line()
		case c == '/' && l.at(l.pos+1) == '*':
			nl = l.block() || nl
		case c == '#' && l.pos == 0 && l.at(1) == '!':
			l.line()
		case c == '<' && strings.HasPrefix(l.src[l.pos:], "<!--"), c == '-' && (nl || start) && strings.HasPrefix(l.src[l.pos:], "-->"):
			if !l.html {
				l.fail(l.pos, "a comment like HTML's in a module")
			}
			l.line()
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(l.src[l.pos:])
			switch {
			case r == '\u2028' || r == '\u2029':
				nl = true
			case r == '\ufeff' || unicode.Is(unicode.Zs, r):
			default:
				return nl
			}
			l.pos += n
		default:
			return nl
		}
	}
}

// line skips to the end of the line.
func (l *lexer) line() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == '\n' || c == '\r' || c == 0xe2 && lineSeparator(l.src[l.pos:]):
			return
		}
		l.pos++
	}
}

// lineSeparator tells U+2028 and U+2029.
func lineSeparator(s string) bool {
	return len(s) > 2 && s[0] == 0xe2 && s[1] == 0x80 && (s[2] == 0xa8 || s[2] == 0xa9)
}

// block skips a comment and says whether a line ends in it.
func (l *lexer) block() bool {
	n := strings.Index(l.src[l.pos+2:], "*/")
	if n < 0 {
		l.fail(l.pos, "a comment without an end")
	}
	body := l.src[l.pos+2 : l.pos+2+n]
	l.pos += n + 4
	return strings.ContainsAny(body, "\n\r\u2028\u2029")
}

func (l *lexer) scan() {
	c := l.at(l.pos)
	switch {
	case l.pos >= len(l.src):
		l.tok.kind = end
	case identStart(rune(c)) || c == '\\':
		l.ident(name)
	case c >= utf8.RuneSelf:
		r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
		if !identStart(r) {
			l.fail(l.pos, "a character that begins nothing")
		}
		l.ident(name)
	case c == '#':
		l.pos++
		l.ident(private)
	case c >= '0' && c <= '9' || c == '.' && digit(l.at(l.pos+1)):
		l.number()
	case c == '"' || c == '\'':
		l.string(c)
	case c == '`':
		l.pos++
		l.template()
	default:
		l.punct()
	}
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func identStart(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '$'
	}
	return unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) || unicode.Is(unicode.Other_ID_Start, r)
}

func identPart(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return identStart(r) || r >= '0' && r <= '9'
	}
	return identStart(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r) || unicode.Is(unicode.Nd, r) || unicode.Is(unicode.Pc, r) ||
		unicode.Is(unicode.Other_ID_Continue, r) || r == '\u200c' || r == '\u200d'
}

// ident reads a name. Letters that are newer than the tables of Go are refused
// with the rest of what begins nothing.
func (l *lexer) ident(k kind) {
	from := l.pos
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		if c < utf8.RuneSelf {
			if !identPart(rune(c)) {
				break
			}
			l.pos++
			continue
		}
		r, n := utf8.DecodeRuneInString(l.src[l.pos:])
		if !identPart(r) {
			break
		}
		l.pos += n
	}
	l.tok.kind, l.tok.text = k, l.src[from:l.pos]
	if l.at(l.pos) == '\\' {
		l.escapedIdent(from)
	}
	if l.tok.text == "" {
		l.fail(from, "a name is missing")
	}
	if l.tok.text[0] == '$' && l.idents != nil {
		l.idents[l.tok.text] = true
	}
}

// escapedIdent reads the rest of a name that has escapes.
func (l *lexer) escapedIdent(from int) {
	var b strings.Builder
	b.WriteString(l.src[from:l.pos])
	for l.pos < len(l.src) {
		r, n := utf8.DecodeRuneInString(l.src[l.pos:])
		if r == '\\' {
			if l.at(l.pos+1) != 'u' {
				l.fail(l.pos, "an escape that is none")
			}
			r, n = l.unicodeEscape(l.pos + 1)
			n++
			if !identPart(r) {
				l.fail(l.pos, "an escape of what is no part of a name")
			}
		} else if !identPart(r) {
			break
		}
		b.WriteRune(r)
		l.pos += n
	}
	l.tok.text, l.tok.escaped = b.String(), true
}

// unicodeEscape reads uXXXX or u{X…} at a position, and returns its length.
func (l *lexer) unicodeEscape(at int) (rune, int) {
	digits, n := "", 5
	if l.at(at+1) == '{' {
		if e := strings.IndexByte(l.src[at:min(len(l.src), at+40)], '}'); e > 2 {
			digits, n = strings.TrimLeft(l.src[at+2:at+e], "0"), e+1
			digits = "0" + digits
		}
	} else if at+5 <= len(l.src) {
		digits = l.src[at+1 : at+5]
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || v > unicode.MaxRune {
		l.fail(at, "an escape that is none")
	}
	return rune(v), n
}

// number reads a number; what is wrong inside of it the engine says.
func (l *lexer) number() {
	l.tok.kind = number
	c, x := l.src[l.pos], l.at(l.pos+1)|0x20
	decimal := !(c == '0' && (x == 'x' || x == 'o' || x == 'b'))
	for l.pos < len(l.src) {
		c = l.src[l.pos]
		switch {
		case decimal && (c == 'e' || c == 'E') && (l.at(l.pos+1) == '+' || l.at(l.pos+1) == '-'):
			l.pos += 2
		case digit(c) || identPart(rune(c)) && c < utf8.RuneSelf:
			l.pos++
		case c == '.' && decimal:
			decimal = false
			l.pos++
			l.fraction()
			return
		default:
			return
		}
	}
}

// fraction reads what follows the point of a number.
func (l *lexer) fraction() {
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case (c == 'e' || c == 'E') && (l.at(l.pos+1) == '+' || l.at(l.pos+1) == '-'):
			l.pos += 2
		case c < utf8.RuneSelf && identPart(rune(c)):
			l.pos++
		default:
			return
		}
	}
}

func (l *lexer) string(quote byte) {
	l.tok.kind = text
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; c {
		case quote:
			l.pos++
			return
		case '\\':
			l.pos++
			if l.at(l.pos) == '\r' && l.at(l.pos+1) == '\n' {
				l.pos++
			}
		case '\n', '\r':
			l.fail(l.tok.from, "a string without an end")
		}
	}
	l.fail(l.tok.from, "a string without an end")
}

// template reads a piece of a template, from behind the ` or } that begins it.
func (l *lexer) template() {
	l.tok.kind = template
	for ; l.pos < len(l.src); l.pos++ {
		switch l.src[l.pos] {
		case '`':
			l.pos++
			return
		case '\\':
			l.pos++
		case '$':
			if l.at(l.pos+1) == '{' {
				l.pos += 2
				return
			}
		}
	}
	l.fail(l.tok.from, "a template without an end")
}

// more reads a template's next piece where the parser sees the brace that ends
// an expression in it.
func (l *lexer) more() {
	l.pos = l.tok.from + 1
	l.template()
	l.tok.to = l.pos
}

// regexp reads a regular expression where the parser sees a slash.
func (l *lexer) regexp() {
	l.tok.kind = regexp
	class := false
	for l.pos = l.tok.from + 1; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; {
		case c == '\n' || c == '\r' || lineSeparator(l.src[l.pos:]):
			l.fail(l.tok.from, "a regular expression without an end")
		case c == '\\':
			l.pos++
			if c := l.at(l.pos); c == '\n' || c == '\r' || l.pos < len(l.src) && lineSeparator(l.src[l.pos:]) {
				l.fail(l.tok.from, "a regular expression without an end")
			}
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			l.pos++
			for l.pos < len(l.src) && identPart(rune(l.src[l.pos])) && l.src[l.pos] < utf8.RuneSelf {
				l.pos++
			}
			l.tok.to = l.pos
			return
		}
	}
	l.fail(l.tok.from, "a regular expression without an end")
}

// puncts are the punctuators, the longest first among those that begin alike.
var puncts = [256][]string{}

func init() {
	for _, p := range strings.Fields(">>>= ... === !== **= <<= >>= >>> &&= ||= ??= => == != <= >= && || ?? ?. ++ -- += -= *= /= %= &= |= ^= << >> ** { } ( ) [ ] ; , < > + - * / % & | ^ ! ~ ? : = . @") {
		puncts[p[0]] = append(puncts[p[0]], p)
	}
}

func (l *lexer) punct() {
	for _, p := range puncts[l.src[l.pos]] {
		if strings.HasPrefix(l.src[l.pos:], p) && (p != "?." || !digit(l.at(l.pos+2))) {
			l.tok.kind, l.tok.text = punct, p
			l.pos += len(p)
			return
		}
	}
	l.fail(l.pos, "a character that begins nothing")
}

// cooked is what a string means; false for one that has half of a surrogate
// pair, or an escape that is none.
func (l *lexer) cooked(t token) (string, bool) {
	s := l.src[t.from+1 : t.to-1]
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	var high rune
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == '\\' {
			var ok bool
			if r, n, ok = l.stringEscape(t.from+1+i, t.to-1); !ok {
				return "", false
			}
		}
		i += n
		switch {
		case high != 0 && r >= 0xdc00 && r < 0xe000:
			r = 0x10000 + (high-0xd800)<<10 + (r - 0xdc00)
			high = 0
		case high != 0 || r >= 0xdc00 && r < 0xe000:
			return "", false
		case r >= 0xd800 && r < 0xdc00:
			high = r
			continue
		}
		if r >= 0 {
			b.WriteRune(r)
		}
	}
	return b.String(), high == 0
}

// stringEscape reads an escape in a string; -1 is one that stands for nothing.
func (l *lexer) stringEscape(at, limit int) (rune, int, bool) {
	c, n := utf8.DecodeRuneInString(l.src[at+1 : limit])
	switch c {
	case 'u':
		r, n := l.unicodeEscape(at + 1)
		return r, n + 1, true
	case 'x':
		v, err := strconv.ParseUint(l.src[min(at+2, limit):min(at+4, limit)], 16, 32)
		return rune(v), 4, err == nil
	case '\r':
		if l.at(at+2) == '\n' {
			n++
		}
		return -1, n + 1, true
	case '\n', '\u2028', '\u2029':
		return -1, n + 1, true
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return 0, 2, c == '0' && !digit(l.at(at+2))
	}
	if i := strings.IndexRune("btnvfr", c); i >= 0 {
		return rune("\b\t\n\v\f\r"[i]), 2, true
	}
	return c, n + 1, n > 0
}
