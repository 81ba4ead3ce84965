package script

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// ErrStopped is the error of a parse that Options.Stop has ended.
var ErrStopped = errors.New("script: stopped")

// Error is a source that is no program of its kind.
type Error struct {
	Line, Column int // from 1, the column in UTF-16 units
	Message      string
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Options of a parse. The zero value sets nothing.
type Options struct {
	// Stop is asked every thousand tokens or so; true ends the parse with ErrStopped.
	Stop func() bool
}

// fail ends the parse with an error at a position.
func (l *lexer) fail(at int, message string) {
	line, column := l.place(at)
	panic(bailout{&Error{line, column, fmt.Sprintf("%s (line %d, column %d)", message, line, column)}})
}

// place is the line and the column of a position.
func (l *lexer) place(at int) (line, column int) {
	at = min(at, len(l.src))
	if at < l.lineAt {
		l.lineAt, l.lines, l.lineStart = 0, 0, 0
	}
	for i := l.lineAt; i < at; i++ {
		switch c := l.src[i]; {
		case c == '\r' && l.at(i+1) == '\n':
		case c == '\n' || c == '\r':
			l.lines, l.lineStart = l.lines+1, i+1
		case lineSeparator(l.src[i:]):
			l.lines, l.lineStart = l.lines+1, i+3
		}
	}
	l.lineAt = at
	return l.lines + 1, 1 + len(utf16.Encode([]rune(l.src[min(l.lineStart, at):at])))
}

// short is a piece of the source for an error.
func short(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > 20 {
		s = string(r[:20]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// run parses a whole source and returns what went wrong.
func (p *parser) run(o Options, read func()) (err error) {
	p.stop = o.Stop
	p.start = -1
	defer func() {
		if r := recover(); r != nil {
			b, ours := r.(bailout)
			if !ours {
				panic(r)
			}
			err = b.err
		}
	}()
	p.fn.top = true
	p.next()
	p.open(true)
	read()
	if p.tok.kind != end {
		p.unexpected()
	}
	p.close()
	return nil
}

// declare is how a name comes to be.
type declare int

const (
	declareVar      declare = iota // in the function around it
	declareLexical                 // let, const, class: in the block around it
	declareFunction                // likewise, and hoisted
	declareInner                   // a parameter, or what a function or class calls itself
	declareCatch
)

// scope has the names of a block or function that matter, and those that were
// mentioned in it without being found yet.
type scope struct {
	up       *scope
	function bool
	declared map[string]bool
	refs     map[string][]*ident
}

// scopes find out where names belong, for those in interest; without it they do
// nothing.
type scopes struct {
	interest map[string]bool
	scope    *scope
	outer    []*ident // mentioned, and of no inner scope
}

func (p *scopes) open(isFunction bool) {
	if p.interest != nil {
		p.scope = &scope{up: p.scope, function: isFunction}
	}
}

// close gives what was not found to the scope around.
func (p *scopes) close() {
	s := p.scope
	if s == nil {
		return
	}
	p.scope = s.up
	for n := range s.declared {
		if s.up != nil { // what the source itself declares are the names of interest
			delete(s.refs, n)
		}
	}
	if s.up == nil {
		for _, ids := range s.refs {
			p.outer = append(p.outer, ids...)
		}
		return
	}
	if len(s.refs) > len(s.up.refs) {
		s.refs, s.up.refs = s.up.refs, s.refs
	}
	for n, ids := range s.refs {
		up := s.up.refs[n]
		if len(up) < len(ids) {
			up, ids = ids, up
		}
		s.up.refs[n] = append(up, ids...)
	}
}

func (p *scopes) put(n string, isVar bool) {
	if p.scope == nil || !p.interest[n] {
		return
	}
	s := p.scope
	for isVar && !s.function && s.up != nil {
		s = s.up
	}
	if s.declared == nil {
		s.declared = map[string]bool{}
	}
	s.declared[n] = true
}

// refer notes a name that stands for a value.
func (p *parser) refer(id *ident) {
	if p.scope == nil || !p.interest[id.name] {
		return
	}
	if p.scope.refs == nil {
		p.scope.refs = map[string][]*ident{}
	}
	p.scope.refs[id.name] = append(p.scope.refs[id.name], id)
}

// bind makes parameters of names.
func (p *parser) bind(names []*ident) {
	for _, id := range names {
		id.bound = true
		p.put(id.name, false)
	}
}

// found is what a source has that modules and feeds must know of.
type found struct {
	evals    bool            // eval is called by its name
	awaits   bool            // at the top
	returns  bool            // likewise
	imports  []int           // where import( and import.meta stand
	assigned map[string]bool // names that are assigned to, wherever
	names    map[string]declare
	feed     *feed
	module   *Module
	exports  *[]string // names declared at the top, while an export declares them
}

// declare notes a name that is declared here.
func (p *parser) declare(n string, how declare) {
	p.put(n, how == declareVar)
	if !p.fn.top || how == declareInner || how == declareCatch || p.blocks > 0 && how != declareVar {
		return
	}
	if p.names == nil {
		p.names = map[string]declare{}
	}
	old, again := p.names[n]
	if again && p.strict && (how != declareVar || old != declareVar) {
		p.fail(p.tok.from, "two declarations of "+short(n))
	}
	p.names[n] = how
	if p.exports != nil && p.blocks == 0 {
		*p.exports = append(*p.exports, n)
	}
	if p.feed != nil {
		p.feed.declare(n, how, again, p.constant)
	}
}

func (p *parser) noteAssigned(n string) {
	if p.assigned == nil {
		p.assigned = map[string]bool{}
	}
	p.assigned[n] = true
}

func (p *parser) noteAwait() {
	if p.fn.top {
		p.found.awaits = true
	}
}

func (p *parser) noteReturn() {
	if p.strict {
		p.unexpected()
	}
	p.returns = true
}

// importCall reads import(…) or import.meta up to what follows as for any value.
func (p *parser) importCall() {
	at := p.tok.from
	p.advance()
	if p.is("(") {
		p.imports = append(p.imports, at)
		return
	}
	p.want(".")
	if !p.is("meta") || p.module == nil {
		p.unexpected()
	}
	p.imports = append(p.imports, at)
	p.module.Meta = true
	p.advance()
}

// edit replaces a part of the source. Several at one place are made in their
// order.
type edit struct {
	from, to int
	text     string
}
