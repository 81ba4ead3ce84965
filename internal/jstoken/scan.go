package jstoken

import (
	"strings"
	"unicode/utf8"
)

// Classes of ASCII characters.
const (
	isStart = 1 << iota // of a name
	isDigit
	isBlank
	isHex
)

var class = func() (c [256]uint8) {
	for b := 'a'; b <= 'z'; b++ {
		c[b], c[b-32] = isStart, isStart
	}
	for b := 'a'; b <= 'f'; b++ {
		c[b] |= isHex
		c[b-32] |= isHex
	}
	for b := '0'; b <= '9'; b++ {
		c[b] = isDigit | isHex
	}
	c['$'], c['_'] = isStart, isStart
	c[' '], c['\t'], c['\v'], c['\f'] = isBlank, isBlank, isBlank, isBlank
	return c
}()

// rest is what is still to be read, at most n bytes.
func (t *Tokenizer) rest(n int) string { return t.src[t.at:min(t.at+n, len(t.src))] }

// peek is the byte n further on, 0 beyond the end.
func (t *Tokenizer) peek(n int) byte {
	if t.at+n < len(t.src) {
		return t.src[t.at+n]
	}
	return 0
}

// wide decodes the character beyond ASCII at the current byte: its length in
// bytes and in UTF-16 units. Halves of pairs have three bytes.
func (t *Tokenizer) wide() (r rune, size, units int) {
	s := t.rest(4)
	if len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80 {
		return rune(s[0]&0x0f)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3, 1
	}
	r, size = utf8.DecodeRuneInString(s)
	if size == 4 {
		return r, 4, 2
	}
	return r, size, 1
}

// step goes over one character, which may end a line.
func (t *Tokenizer) step() {
	switch c := t.src[t.at]; {
	case c == '\n', c == '\r':
		t.at++
		if c == '\r' && t.peek(0) == '\n' {
			t.at++
		}
		t.nextLine()
	case c < utf8.RuneSelf:
		t.at++
	default:
		r, size, units := t.wide()
		t.at += size
		if r == '\u2028' || r == '\u2029' {
			t.nextLine()
			return
		}
		t.skew += size - units
	}
}

func (t *Tokenizer) nextLine() {
	t.line++
	t.lineStart, t.skew, t.newline = t.at, 0, true
}

// lineEnd tells whether a line ends at the current byte.
func (t *Tokenizer) lineEnd() bool {
	switch t.peek(0) {
	case '\n', '\r':
		return true
	case 0xe2:
		s := t.rest(3)
		return s == "\u2028" || s == "\u2029"
	}
	return false
}

// space tells whether a character beyond ASCII is a blank, and not a letter.
func space(r rune) bool {
	switch r {
	case 0xa0, 0xfeff, 0x1680, 0x202f, 0x205f, 0x3000, 0x2028, 0x2029:
		return true
	}
	return r >= 0x2000 && r <= 0x200a
}

// blanks goes over blanks, ends of lines and comments.
func (t *Tokenizer) blanks() {
	for t.at < len(t.src) && !t.stopped {
		c := t.src[t.at]
		switch {
		case class[c]&isBlank != 0:
			t.at++
		case c == '\n', c == '\r':
			t.step()
		case c >= utf8.RuneSelf:
			if r, _, _ := t.wide(); !space(r) {
				return
			}
			t.step()
		case c == '/' && t.peek(1) == '/':
			t.lineComment()
		case c == '/' && t.peek(1) == '*':
			t.blockComment()
		case c == '<' && !t.opts.Module && t.rest(4) == "<!--":
			t.lineComment()
		case c == '-' && !t.opts.Module && t.newline && t.rest(3) == "-->":
			t.lineComment()
		default:
			return
		}
	}
}

// lineComment goes up to the end of the line.
func (t *Tokenizer) lineComment() {
	for t.at < len(t.src) {
		c := t.src[t.at]
		if c == '\n' || c == '\r' || c == 0xe2 && t.lineEnd() {
			return
		}
		if c < utf8.RuneSelf {
			t.at++
		} else {
			t.step()
		}
	}
}

func (t *Tokenizer) blockComment() {
	line, col := t.line, t.col(t.at)
	for t.at += 2; t.at < len(t.src); {
		switch c := t.src[t.at]; {
		case c == '*' && t.peek(1) == '/':
			t.at += 2
			return
		case c < utf8.RuneSelf && c != '\n' && c != '\r':
			t.at++
		default:
			t.step()
		}
	}
	t.failAt(line, col, "the comment is never closed")
}

// scan reads the token that begins at the current byte.
func (t *Tokenizer) scan(tok *Token) {
	c := t.src[t.at]
	switch {
	case class[c]&isStart != 0, c >= utf8.RuneSelf, c == '\\':
		tok.Kind = Name
		t.name(tok)
	case class[c]&isDigit != 0, c == '.' && class[t.peek(1)]&isDigit != 0:
		tok.Kind = Number
		t.number()
	case c == '"', c == '\'':
		tok.Kind = String
		t.text(c)
	case c == '`':
		tok.Kind = Template
		t.at++
		t.template(tok)
	case c == '}' && t.closesTemplate():
		tok.Kind = Template
		t.at++
		t.template(tok)
	case c == '/' && t.operandMayBegin():
		tok.Kind = Regexp
		t.regexp()
	case c == '#':
		tok.Kind = PrivateName
		t.at++
		t.name(tok)
		if tok.Name == "" {
			t.fail("# is no name")
		}
	default:
		tok.Kind = Punct
		n := operator(t.rest(4))
		if n == 0 {
			tok.Kind = Invalid
			t.fail("this character has no meaning here")
			n = 1
		}
		t.at += n
	}
}

// name reads a name, which may be empty if none begins here.
func (t *Tokenizer) name(tok *Token) {
	begin, from := t.at, t.at
	var cooked strings.Builder
	for t.at < len(t.src) {
		switch c := t.src[t.at]; {
		case class[c]&(isStart|isDigit) != 0:
			t.at++
		case c >= utf8.RuneSelf:
			if r, _, _ := t.wide(); space(r) {
				tok.Name = cookedName(&cooked, t.src[from:t.at])
				return
			}
			t.step()
		case c == '\\':
			cooked.WriteString(t.src[from:t.at])
			tok.Escaped = true
			r, n := unicodeEscape(t.src[t.at:])
			if n == 0 || r < utf8.RuneSelf && class[r]&(isStart|isDigit) == 0 {
				t.fail("this is no escape that a name may have")
				n = max(n, 1)
			} else {
				cooked.WriteRune(r)
			}
			t.at += n
			from = t.at
		default:
			tok.Name = cookedName(&cooked, t.src[from:t.at])
			return
		}
	}
	if begin < t.at {
		tok.Name = cookedName(&cooked, t.src[from:t.at])
	}
}

func cookedName(cooked *strings.Builder, rest string) string {
	if cooked.Len() == 0 {
		return rest
	}
	cooked.WriteString(rest)
	return cooked.String()
}

// number reads a number, which a name may not follow directly.
func (t *Tokenizer) number() {
	digits := func(of uint8) {
		for c := t.peek(0); c == '_' || class[c]&of != 0; c = t.peek(0) {
			t.at++
		}
	}
	switch prefix := t.peek(1) | 0x20; {
	case t.peek(0) == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b'):
		t.at += 2
		digits(isHex)
	case t.octal():
		digits(isDigit)
	default:
		digits(isDigit)
		if t.peek(0) == '.' {
			t.at++
			digits(isDigit)
		}
		if t.peek(0)|0x20 == 'e' {
			t.at++
			if c := t.peek(0); c == '+' || c == '-' {
				t.at++
			}
			digits(isDigit)
		}
	}
	if t.peek(0) == 'n' {
		t.at++
	}
	if c := t.peek(0); class[c]&(isStart|isDigit) != 0 || c == '\\' {
		t.fail("a name follows a number directly")
	}
}

// octal tells whether a number of the old form 017 begins here. After such a
// one a point is not its own.
func (t *Tokenizer) octal() bool {
	if t.peek(0) != '0' || class[t.peek(1)]&isDigit == 0 {
		return false
	}
	for n := 1; ; n++ {
		c := t.peek(n)
		if class[c]&isDigit == 0 {
			return true
		}
		if c > '7' {
			return false
		}
	}
}

// text reads a string.
func (t *Tokenizer) text(quote byte) {
	line, col := t.line, t.col(t.at)
	for t.at++; t.at < len(t.src); {
		switch c := t.src[t.at]; {
		case c == quote:
			t.at++
			return
		case c == '\n', c == '\r':
			t.failAt(line, col, "the string is not closed on its line")
			return
		case c == '\\':
			if t.at++; t.at < len(t.src) {
				t.inside()
			}
		case c < utf8.RuneSelf:
			t.at++
		default: // U+2028 and U+2029 end no line in a string, for the engine
			_, size, units := t.wide()
			t.at += size
			t.skew += size - units
		}
	}
	t.failAt(line, col, "the string is never closed")
}

// inside steps over a character inside of a token: a line that ends there is
// none before the next token.
func (t *Tokenizer) inside() {
	t.step()
	t.newline = false
}

// template reads the piece of a template behind its ` or }.
func (t *Tokenizer) template(tok *Token) {
	t.substitutes = false
	for t.at < len(t.src) {
		switch c := t.src[t.at]; {
		case c == '`':
			t.at++
			return
		case c == '$' && t.peek(1) == '{':
			t.at += 2
			t.substitutes = true
			return
		case c == '\\':
			if t.at++; t.at < len(t.src) {
				t.inside()
			}
		case c < utf8.RuneSelf && c != '\n' && c != '\r':
			t.at++
		default:
			t.inside()
		}
	}
	t.failAt(tok.Line, tok.Col, "the template is never closed")
}

// regexp reads a regular expression with its flags.
func (t *Tokenizer) regexp() {
	line, col := t.line, t.col(t.at)
	in := false // a class, in which a slash is nothing special
	for t.at++; t.at < len(t.src) && !t.lineEnd(); {
		c := t.src[t.at]
		switch {
		case c == '\\':
			if t.at++; t.at >= len(t.src) || t.lineEnd() {
				continue
			}
			t.step()
			continue
		case c == '[':
			in = true
		case c == ']':
			in = false
		case c == '/' && !in:
			t.at++
			var flags Token
			t.name(&flags)
			return
		}
		t.step()
	}
	t.failAt(line, col, "the regular expression is not closed on its line")
}

// operators, longest first for each first character.
var operators = [128][]string{
	'{': {"{"}, '}': {"}"}, '(': {"("}, ')': {")"}, '[': {"["}, ']': {"]"}, ';': {";"}, ',': {","}, '~': {"~"}, ':': {":"},
	'.': {"...", "."}, '?': {"??=", "??", "?.", "?"}, '<': {"<<=", "<<", "<=", "<"}, '>': {">>>=", ">>>", ">>=", ">>", ">=", ">"},
	'=': {"===", "==", "=>", "="}, '!': {"!==", "!=", "!"}, '+': {"++", "+=", "+"}, '-': {"--", "-=", "-"},
	'*': {"**=", "**", "*=", "*"}, '%': {"%=", "%"}, '&': {"&&=", "&&", "&=", "&"}, '|': {"||=", "||", "|=", "|"},
	'^': {"^=", "^"}, '/': {"/=", "/"},
}

// operator is the length of the operator at the beginning of s, 0 for none.
func operator(s string) int {
	for _, op := range operators[s[0]&0x7f] {
		if len(s) < len(op) || s[:len(op)] != op {
			continue
		}
		if op == "?." && len(s) > 2 && class[s[2]]&isDigit != 0 { // a ? .5 : b
			continue
		}
		return len(op)
	}
	return 0
}
