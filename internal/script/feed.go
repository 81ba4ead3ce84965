package script

import "strings"

// feed is what a source has that stays for the next one.
type feed struct {
	order     []string // names that it declares at its top, in their order
	open      *edit    // a declaration that has not ended
	edits     []edit
	functions []string
	constants map[string]bool
	tail      *edit // the last statement, if it is an expression
	begun     bool  // there was a statement that is no directive
	strict    bool  // "use strict" is among the directives
}

func (f *feed) declare(n string, how declare, again, constant bool) {
	if !again {
		f.order = append(f.order, n)
	}
	if how == declareFunction {
		f.functions = append(f.functions, n)
	}
	if constant && how == declareLexical {
		if f.constants == nil {
			f.constants = map[string]bool{}
		}
		f.constants[n] = true
	}
}

// Script is a source that is evaluated in the global scope.
type Script struct {
	// Source is what the engine gets. Without Call it is evaluated as any script,
	// and its value is that of the script.
	Source string
	// Call says that the source's value is a function, to be called once with the
	// global object. It gives a promise of the value.
	Call bool
	// Lexical are the names that it declares at its top and that are no properties of
	// the global object: of let, const and class, each once, in their order.
	Lexical []Lexical
}

// Lexical is a name that let, const or class declares.
type Lexical struct {
	Name  string
	Const bool // it cannot be assigned to
}

// Feed makes one script of what is fed to a session: it may await and return at
// its top, what it declares there stays for the next, and it has the value of a
// last expression or what it returns. What neither awaits nor returns stays as
// it is. importer, if it is not empty, is the name of a function in the global
// scope that stands for import(…); a source that has that name keeps its
// import(…). The error is an *Error or ErrStopped.
//
// Where a script is rewritten: constants can be assigned to afterwards; let and
// class can be read before their line, as undefined; functions of its blocks stay
// in them; a last statement that is no expression has no value.
func Feed(src, importer string, o Options) (Script, error) {
	p := &parser{lexer: lexer{src: src, html: true, idents: map[string]bool{}}}
	p.feed, p.waits = &feed{}, true
	if err := p.run(o, func() { p.list("") }); err != nil {
		return Script{}, err
	}
	edits, call := p.importer(importer), p.found.awaits || p.returns
	s := Script{Call: call}
	for _, n := range p.feed.order {
		if p.names[n] == declareLexical {
			s.Lexical = append(s.Lexical, Lexical{n, !call && p.feed.constants[n]})
		}
	}
	if call {
		s.Source = p.feedSource(edits)
	} else {
		s.Source = apply(src, edits)
	}
	return s, nil
}

// Identifier tells whether a text is one name of the language, as a declaration
// has it, and nothing else.
func Identifier(text string) (is bool) {
	l := lexer{src: text, idents: map[string]bool{}}
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(bailout); !ours {
				panic(r)
			}
			is = false
		}
	}()
	l.next()
	return l.tok.kind == name && l.tok.from == 0 && l.tok.to == len(text) && l.tok.text == text && !reserved[text]
}

// Imports puts the importer of Feed in the place of import(…) and leaves the
// rest as it is. The error is an *Error or ErrStopped.
func Imports(src, importer string, o Options) (string, error) {
	if !strings.Contains(src, "import") {
		return src, nil
	}
	p := &parser{lexer: lexer{src: src, html: true, idents: map[string]bool{}}}
	if err := p.run(o, func() { p.list("") }); err != nil {
		return "", err
	}
	return apply(src, p.importer(importer)), nil
}

// importer are the edits of import(…).
func (p *parser) importer(importer string) (edits []edit) {
	if importer == "" || p.idents[importer] {
		return nil
	}
	for _, at := range p.imports {
		edits = append(edits, edit{at, at + len("import"), importer})
	}
	return edits
}

func (p *parser) feedSource(edits []edit) string {
	f := p.feed
	id := "$"
	for p.idents[id] {
		id += "$"
	}
	edits = append(edits, f.edits...)
	if t := f.tail; t != nil {
		edits = append(edits, edit{t.from, t.from, "return ("}, edit{t.to, t.to, ")"})
	}
	if strings.HasPrefix(p.src, "#!") {
		edits = append(edits, edit{0, 2, "//"})
	}
	var b strings.Builder
	vars, lets := "", ""
	for _, n := range f.order {
		if p.names[n] == declareLexical {
			lets += "," + n
		} else {
			vars += "," + n
		}
	}
	if vars != "" {
		b.WriteString("var " + vars[1:] + ";")
	}
	if lets != "" {
		b.WriteString("let " + lets[1:] + ";")
	}
	b.WriteString("(async(" + id + ")=>{")
	if f.strict {
		b.WriteString("\"use strict\";")
	}
	for _, n := range f.functions {
		b.WriteString(id + "." + n + "=" + n + ";")
	}
	b.WriteString(apply(p.src, edits))
	b.WriteString("\n})")
	return b.String()
}

// beginDeclaration is called at the keyword of a declaration.
func (p *parser) beginDeclaration(how declare, loop bool) {
	f := p.feed
	if f == nil || !p.fn.top || how != declareVar && (p.blocks > 0 || loop) {
		return
	}
	if loop {
		f.edits = append(f.edits, edit{p.tok.from, p.tok.to, blank(p.tok.text)})
		return
	}
	f.edits = append(f.edits, edit{p.tok.from, p.tok.to, "void("})
	f.open = &edit{}
}

// endDeclaration is called behind a declaration that is no loop's.
func (p *parser) endDeclaration(at int) {
	if f := p.feed; f != nil && p.fn.top && f.open != nil {
		f.edits = append(f.edits, edit{at, at, ")"})
		f.open = nil
	}
}

// noteClass is called behind the declaration of a class.
func (p *parser) noteClass(own string, from, to int) {
	if f := p.feed; f != nil && p.fn.top && p.blocks == 0 {
		f.edits = append(f.edits, edit{from, from, own + "="}, edit{to, to, ";"})
	}
}

// noteExpression is called behind an expression that is a statement of the
// source's own list.
func (p *parser) noteExpression(from, to int) {
	f := p.feed
	if f == nil {
		return
	}
	f.tail = &edit{from: from, to: to}
	if s := p.src[from:to]; len(s) < 2 || s[0] != '"' && s[0] != '\'' || s[len(s)-1] != s[0] {
		f.begun = true
	} else if !f.begun && s[1:len(s)-1] == "use strict" {
		f.strict = true
	}
}

// noteStatement is called before a statement of the source's own list.
func (p *parser) noteStatement() {
	f := p.feed
	if f == nil || p.is(";") {
		return
	}
	if p.tok.kind != text {
		f.begun = true
	}
	if !p.is("function") {
		f.tail = nil
	}
}
