// Package jstoken splits JavaScript into tokens, as the engine would. It holds
// no tree and calls nothing recursively: what is open is a stack of at most
// MaxDepth small entries, and each byte of the text is read once.
//
// A slash divides or begins a regular expression, a brace opens a block or an
// object, and yield and await are words or operators, by what stands around
// them. The stack knows enough of the grammar to tell: statements and
// expressions, heads of if and for, functions of each kind, classes with their
// fields, templates, and semicolons that nobody wrote. For text that the engine
// takes, the tokens are the engine's. For text that it refuses they are only
// some tokens, and there need not be a Problem.
//
// Characters beyond ASCII that are no space count as letters: those that are
// none are refused by the engine, and no table of letters goes out of date here.
package jstoken

// MaxDepth is how many brackets, functions and classes may be open at once.
const MaxDepth = 10_000

// MaxSource is the longest text in bytes.
const MaxSource = 16 << 20

// Kind says what a token is.
type Kind uint8

// The kinds of tokens.
const (
	EOF         Kind = iota // the end, again and again
	Name                    // an identifier or a reserved word
	PrivateName             // #name
	Number                  // of any base, bigints too
	String                  // with its quotes
	Template                // a piece of a template: from ` or } up to ${ or `
	Regexp                  // with its flags
	Punct                   // an operator or bracket
	Invalid                 // what begins no token
)

// Role says what a Name, or a String, Number or bracket in its place, is used as.
type Role uint8

// The roles of names.
const (
	Word   Role = iota // a reserved word or a reference to a variable
	Member             // the name of a property after a point
	Key                // the name of a property in an object, a pattern or a class
	Label              // after break or continue
)

// Token is one token of a text.
type Token struct {
	Kind Kind
	Role Role
	// Newline tells that a line ended between the token before and this one.
	Newline bool
	// Declares tells that a Name is given a meaning here: as a function, class,
	// parameter, import, or variable, in simple forms. It is a hint.
	Declares bool
	// AfterOperand tells that an operand ended before this token: a bracket asks it
	// for a property.
	AfterOperand bool
	// InObject tells that a Key stands in an object or pattern, not in a class. A
	// Name there is a reference besides, unless a colon or parenthesis follows.
	InObject bool
	// AtTop tells that a token stands in no function and no class's code.
	AtTop bool
	// Escaped tells that a Name is written with \u. Such a one is no reserved word.
	Escaped    bool
	Start, End int // in bytes of the text
	// Line and Col begin with 1. Lines end as ECMAScript's do; columns count
	// UTF-16 code units, as the engine's do.
	Line, Col int
	Text      string // as it is written
	Name      string // of names, without escapes and #; of Punct the text; else ""
}

// Is tells whether the token is this operator or bracket.
func (t *Token) Is(punct string) bool { return t.Kind == Punct && t.Name == punct }

// IsWord tells whether the token is this word, used as such and written plainly.
func (t *Token) IsWord(word string) bool {
	return t.Kind == Name && t.Role == Word && !t.Escaped && t.Name == word
}

// Problem is why a text is no JavaScript, as far as tokens tell.
type Problem struct {
	Line, Col int
	Text      string // a short sentence without a full stop
	// Limit tells that the text is too long or too deep to be read further.
	Limit bool
}

// Options say what kind of text it is. The zero value is a script, in which
// await is a name outside of async functions.
type Options struct {
	// Module is for modules: <!-- and --> begin no comment, await is an operator.
	Module bool
	// Await makes await an operator at the top level of a script.
	Await bool
}

// Tokenizer reads one text. Make it with New.
type Tokenizer struct {
	src  string
	opts Options

	at        int // the next byte
	line      int
	lineStart int // the byte at which the line begins
	skew      int // bytes of this line that are no UTF-16 units of their own
	newline   bool
	stopped   bool
	problem   *Problem
	machine
}

// New returns a Tokenizer at the beginning of a text. In text that is not UTF-8
// halves of surrogate pairs are taken as three bytes, and every other byte as
// one U+FFFD.
func New(source string, opts Options) *Tokenizer {
	t := &Tokenizer{src: source, opts: opts, line: 1}
	t.stack = append(make([]frame, 0, 64), frame{kind: program})
	t.fn = fnTop
	t.newline = true
	if len(source) > MaxSource {
		t.stop("the text is longer than 16 MiB")
	}
	if len(source) > 1 && source[:2] == "#!" {
		t.lineComment()
	}
	return t
}

// Problem is the first one met so far, nil for none.
func (t *Tokenizer) Problem() *Problem { return t.problem }

// col is the column of a byte of the current line that skew is counted up to.
func (t *Tokenizer) col(at int) int { return at - t.lineStart - t.skew + 1 }

// fail records a problem at the current byte, if it is the first.
func (t *Tokenizer) fail(text string) { t.failAt(t.line, t.col(t.at), text) }

func (t *Tokenizer) failAt(line, col int, text string) {
	if t.problem == nil {
		t.problem = &Problem{Line: line, Col: col, Text: text}
	}
}

// stop ends the reading. A limit is worth more than what was found before.
func (t *Tokenizer) stop(text string) {
	if !t.stopped {
		t.problem = &Problem{Line: t.line, Col: t.col(t.at), Text: text, Limit: true}
	}
	t.stopped = true
}

// Next returns the next token. After the last it returns EOF, however often.
func (t *Tokenizer) Next() Token {
	t.blanks()
	tok := Token{Newline: t.newline, Start: t.at, End: t.at, Line: t.line, Col: t.col(t.at)}
	t.newline = false
	if t.stopped || t.at >= len(t.src) {
		t.end()
		tok.Start, tok.End = t.at, t.at
		return tok
	}
	t.scan(&tok)
	tok.End = t.at
	tok.Text = t.src[tok.Start:tok.End]
	if tok.Kind == Punct {
		tok.Name = tok.Text
	}
	t.place(&tok)
	return tok
}

// end looks at what is still open when the text is over.
func (t *Tokenizer) end() {
	if t.stopped {
		return
	}
	t.stopped = true
	t.popSoft()
	if f := t.top(); f.kind != program {
		line, col := t.position(int(f.at))
		t.failAt(line, col, "it is never closed")
	}
}

// position counts lines and columns up to a byte.
func (t *Tokenizer) position(at int) (line, col int) {
	u := &Tokenizer{src: t.src[:at], line: 1}
	for u.at < at {
		u.step()
	}
	return u.line, u.col(at)
}
