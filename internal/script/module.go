package script

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Request is a module that another one asks for.
type Request struct {
	Specifier string
	Type      string // "" or "json", by the attribute of that name
	Line      int    // from 1
	Column    int
}

// Import is a name that a module has from another one.
type Import struct {
	Request   int    // of Module.Requests
	Name      string // what the other module calls it
	Namespace bool   // all of the other module in one object; Name is empty
	Local     string
}

// Export is a name that a module gives: of its own, or of another module.
type Export struct {
	Name      string
	Local     string // of its own; the rest is zero then
	Fixed     bool   // it has its one value once the module has run
	Request   int    // of Module.Requests, -1 for an export of its own
	Import    string // what the other module calls it
	Namespace bool   // all of the other module in one object
}

// Module is a parsed module.
type Module struct {
	Requests []Request // each once, in the order of their first mention
	Imports  []Import
	Exports  []Export // without those of Stars
	Stars    []int    // requests whose exports are given on, but "default"
	Await    bool     // it awaits at its top
	Meta     bool     // it reads import.meta

	src   string
	opts  Options
	edits []edit
	names map[string]bool // that begin with $
}

// bounds of one module, so that what is made of it stays in proportion.
const maxNames = 1 << 16

// ParseModule parses the source of a module. The error is an *Error or
// ErrStopped.
func ParseModule(src string, o Options) (*Module, error) {
	m := &Module{src: src, opts: o}
	p := &parser{lexer: lexer{src: src, idents: map[string]bool{}}, strict: true}
	p.module = m
	err := p.run(o, func() {
		p.list("")
		m.finish(p)
	})
	if err != nil {
		return nil, err
	}
	m.Await, m.names = p.found.awaits, p.idents
	for _, at := range p.imports {
		m.edits = append(m.edits, edit{at, at, "\x00."}) // the name is chosen later
	}
	if strings.HasPrefix(src, "#!") {
		m.edits = append(m.edits, edit{0, 2, "//"})
	}
	return m, nil
}

// finish checks what can be told at the end alone.
func (m *Module) finish(p *parser) {
	if len(m.Imports)+len(m.Exports)+len(m.Stars)+len(m.Requests) > maxNames {
		p.fail(0, "too many imports and exports")
	}
	imported := map[string]Import{}
	for _, i := range m.Imports {
		imported[i.Local] = i
	}
	seen := map[string]bool{}
	for i := range m.Exports {
		e := &m.Exports[i]
		if seen[e.Name] {
			p.fail(len(p.src), "two exports of the name "+short(e.Name))
		}
		seen[e.Name] = true
		if e.Request >= 0 {
			continue
		}
		if from, ok := imported[e.Local]; ok { // what it has from another module it gives on
			*e = Export{Name: e.Name, Request: from.Request, Import: from.Name, Namespace: from.Namespace}
			continue
		}
		if _, ok := p.names[e.Local]; !ok && e.Local != defaultLocal {
			p.fail(len(p.src), "an export of "+short(e.Local)+", which is not declared")
		}
		e.Fixed = !p.assigned[e.Local] && !p.evals
	}
}

// defaultLocal stands for the name that a value has which is exported without.
const defaultLocal = "*default*"

// request returns the number of a request, an old one if there was the same.
func (p *parser) request(at token, specifier, kind string) int {
	m := p.module
	for i, r := range m.Requests {
		if r.Specifier == specifier && r.Type == kind {
			return i
		}
	}
	if len(m.Requests) >= 1024 {
		p.fail(at.from, "too many modules are asked for")
	}
	line, column := p.place(at.from)
	m.Requests = append(m.Requests, Request{specifier, kind, line, column})
	return len(m.Requests) - 1
}

// atTop refuses an import or export that is in something.
func (p *parser) atTop() {
	if p.module == nil || !p.fn.top || p.blocks > 0 || p.depth > 1 {
		p.unexpected()
	}
}

// erase replaces a part of the source by a semicolon and white space; lines stay
// where they are.
func (p *parser) erase(from, to int) {
	if from >= to {
		return
	}
	p.module.edits = append(p.module.edits, edit{from, to, ";" + blank(p.src[from+1:to])})
}

// blank is white space of the same lines and columns.
func blank(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\u2028', '\u2029':
			return r
		}
		return ' '
	}, s)
}

// importStatement reads a declaration of imports.
func (p *parser) importStatement() {
	p.atTop()
	from := p.tok.from
	p.advance()
	var all []Import
	if p.tok.kind != text {
		if p.tok.kind == name {
			all = append(all, Import{Name: "default", Local: p.imported(p.tok)})
			p.advance()
			if p.take(",") {
				all = p.importList(all)
			}
		} else {
			all = p.importList(all)
		}
		p.want("from")
	}
	r := p.from()
	for _, i := range all {
		i.Request = r
		p.module.Imports = append(p.module.Imports, i)
	}
	p.erase(from, p.last)
}

// imported declares a name that an import has.
func (p *parser) imported(t token) string {
	switch t.text {
	case "eval", "arguments", "let", "await", "yield", "static":
		p.fail(t.from, "an import cannot be called "+t.text)
	}
	if t.kind != name || reserved[t.text] {
		p.fail(t.from, "unexpected "+short(p.src[t.from:t.to]))
	}
	p.declare(t.text, declareLexical)
	return t.text
}

// importList reads * as x, or names in braces.
func (p *parser) importList(all []Import) []Import {
	if p.take("*") {
		p.want("as")
		all = append(all, Import{Namespace: true, Local: p.imported(p.tok)})
		p.advance()
		return all
	}
	p.want("{")
	for !p.is("}") {
		t := p.tok
		i := Import{Name: p.exportName()}
		if p.take("as") {
			t = p.tok
			p.advance()
		}
		i.Local = p.imported(t)
		all = append(all, i)
		if !p.is("}") {
			p.want(",")
		}
	}
	p.advance()
	return all
}

// exportName reads a name or string that names an export.
func (p *parser) exportName() string {
	t := p.tok
	switch t.kind {
	case name:
		p.advance()
		return t.text
	case text:
		p.advance()
		if s, ok := p.cooked(t); ok {
			return s
		}
		p.fail(t.from, "a name that is no Unicode text")
	}
	p.unexpected()
	return ""
}

// from reads the specifier and the attributes of an import, up to its end.
func (p *parser) from() int {
	at := p.tok
	if at.kind != text {
		p.unexpected()
	}
	specifier, ok := p.cooked(at)
	if !ok {
		p.fail(at.from, "a specifier that is no Unicode text")
	}
	p.advance()
	kind := ""
	if p.take("with") {
		kind = p.attributes()
	}
	p.semicolon()
	return p.request(at, specifier, kind)
}

// attributes reads those of an import. There is one kind, and one value of it.
func (p *parser) attributes() (kind string) {
	p.want("{")
	seen := false
	for !p.is("}") {
		at := p.tok
		key := p.exportName()
		p.want(":")
		value, ok := "", false
		if p.tok.kind == text {
			value, ok = p.cooked(p.tok)
		}
		if !ok || key != "type" || value != "json" || seen {
			p.fail(at.from, "the only attribute of an import is type, and its only value \"json\"")
		}
		seen, kind = true, value
		p.advance()
		if !p.is("}") {
			p.want(",")
		}
	}
	p.advance()
	return kind
}

// exportStatement reads a declaration of exports.
func (p *parser) exportStatement() {
	p.atTop()
	from := p.tok.from
	p.advance()
	m := p.module
	switch {
	case p.take("default"):
		p.exportDefault(from)
	case p.take("*"):
		e := Export{Namespace: true}
		if p.take("as") {
			e.Name = p.exportName()
			p.want("from")
			e.Request = p.from()
			m.Exports = append(m.Exports, e)
		} else {
			p.want("from")
			if r := p.from(); !slices.Contains(m.Stars, r) {
				m.Stars = append(m.Stars, r)
			}
		}
		p.erase(from, p.last)
	case p.is("{"):
		p.exportList()
		p.erase(from, p.last)
	default:
		p.exportDeclaration(from)
	}
}

// exportList reads export { … } with or without a module behind it.
func (p *parser) exportList() {
	p.want("{")
	var all []Export
	var odd *token // a name that must be another module's
	for !p.is("}") {
		t := p.tok
		e := Export{Local: p.exportName(), Request: -1}
		e.Name = e.Local
		if (t.kind != name || reserved[t.text]) && odd == nil {
			odd = &t
		}
		if p.take("as") {
			e.Name = p.exportName()
		}
		all = append(all, e)
		if !p.is("}") {
			p.want(",")
		}
	}
	p.advance()
	if p.take("from") {
		r := p.from()
		for i := range all {
			all[i] = Export{Name: all[i].Name, Request: r, Import: all[i].Local}
		}
	} else {
		if odd != nil {
			p.fail(odd.from, "an export of what is no name")
		}
		p.semicolon()
	}
	p.module.Exports = append(p.module.Exports, all...)
}

// exportDeclaration reads export before a declaration.
func (p *parser) exportDeclaration(from int) {
	if !p.is("var") && !p.is("let") && !p.is("const") && !p.is("function") && !p.is("class") && !p.is("async") {
		p.unexpected()
	}
	p.erase(from, p.tok.from)
	var names []string
	p.exports = &names
	switch {
	case p.is("let"):
		p.declaration()
	case p.is("async"):
		if next := p.peek(); !next.is("function") || next.nl {
			p.unexpected()
		}
		p.functionStatement()
	default:
		statements[p.tok.text](p)
	}
	p.exports = nil
	for _, n := range names {
		p.module.Exports = append(p.module.Exports, Export{Name: n, Local: n, Request: -1})
	}
}

// exportDefault reads what is behind export default.
func (p *parser) exportDefault(from int) {
	m := p.module
	local := defaultLocal
	next := p.peek()
	isFunction := p.is("function") || p.is("async") && next.is("function") && !next.nl
	switch {
	case isFunction:
		local = p.defaultFunction(from)
	case p.is("class") && next.kind == name && !next.is("extends"):
		local = next.text
		p.erase(from, p.tok.from)
		p.classStatement()
	default:
		m.edits = append(m.edits, edit{from, p.tok.from, ";const \x00d={default:" + newlines(p.src[from:p.tok.from])})
		isClass := p.take("class") // a declaration all the same: nothing goes on behind it
		if isClass {
			p.classRest(false)
		} else {
			p.assignment(true)
		}
		m.edits = append(m.edits, edit{p.last, p.last, "}.default;"})
		if !isClass {
			p.semicolon()
		}
	}
	m.Exports = append(m.Exports, Export{Name: "default", Local: local, Request: -1})
}

// defaultFunction reads export default function, with or without a name.
func (p *parser) defaultFunction(from int) string {
	p.erase(from, p.tok.from)
	f := function{plain: true, async: p.take("async")}
	p.advance()
	star := p.is("*")
	at, next := p.tok.from, p.tok
	if star {
		at, next = p.tok.to, p.peek()
	}
	if next.kind == name {
		p.functionRest(f, true)
		return next.text
	}
	p.module.edits = append(p.module.edits, edit{at, at, " \x00d"})
	p.functionRest(f, false)
	return defaultLocal
}

// newlines are the ends of lines in a part of the source.
func newlines(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\u2028', '\u2029':
			return r
		}
		return -1
	}, s)
}

// Wrapped returns the module as the source of a function, to be evaluated as a
// script and called once with one argument, an object of the linker's:
//
//   - It has a property for each import, which is read before the body runs;
//     for those in live each time that the body reads it.
//   - Its method export is called first, with a function for each export of the
//     module's own, in the order of Exports, which returns its value.
//   - Its method import is import(…), and has import.meta.
//   - Await is false: the function is a generator; it has called export when
//     it yields, and goes on with the body. Await is true: it is asynchronous, and
//     awaits the property yield in between.
//
// Lines are those of the module. The error is ErrStopped.
func (m *Module) Wrapped(live map[string]bool) (string, error) {
	id := "$"
	for n := 0; m.names[id] || m.names[id+"d"]; n++ {
		id = fmt.Sprintf("$%d", n)
	}
	edits := slices.Clone(m.edits)
	if len(live) > 0 {
		more, err := m.references(id, live)
		if err != nil {
			return "", err
		}
		edits = append(edits, more...)
	}
	var b strings.Builder
	if m.Await {
		b.WriteString("(async function(" + id + "){\"use strict\";" + id + ".export(")
	} else {
		b.WriteString("(function*(" + id + "){\"use strict\";" + id + ".export(")
	}
	for _, e := range m.Exports {
		if e.Request < 0 {
			b.WriteString("()=>" + strings.Replace(e.Local, defaultLocal, id+"d", 1) + ",")
		}
	}
	b.WriteString(");")
	if m.Await {
		b.WriteString("await " + id + ".yield;")
	} else {
		b.WriteString("yield;")
	}
	pattern := ""
	for _, i := range m.Imports {
		if !live[i.Local] {
			pattern += i.Local + ","
		}
	}
	if pattern != "" {
		b.WriteString("const {" + pattern + "}=" + id + ";")
	}
	for i := range edits {
		edits[i].text = strings.ReplaceAll(edits[i].text, "\x00", id)
	}
	b.WriteString(apply(m.src, edits))
	b.WriteString("\n})")
	return b.String(), nil
}

// Forget lets go of the source. Wrapped cannot be called afterwards.
func (m *Module) Forget() { m.src, m.edits = "", nil }

// references are the edits for imports that are read anew each time.
func (m *Module) references(id string, live map[string]bool) ([]edit, error) {
	p := &parser{lexer: lexer{src: m.src}, strict: true}
	p.module = &Module{}
	p.interest = live
	if err := p.run(m.opts, func() { p.list("") }); err != nil {
		return nil, err
	}
	var edits []edit
	for _, r := range p.outer {
		if r.bound {
			continue
		}
		value := id + "." + r.name
		switch {
		case r.short && r.name == "__proto__":
			value = `["__proto__"]:` + value
		case r.short:
			value = r.name + ":" + value
		case r.call && r.start:
			value = ";(0," + value + ")" // what is before it might end without a semicolon
		case r.call:
			value = "(0," + value + ")"
		}
		edits = append(edits, edit{r.from, r.to, value})
	}
	return edits, nil
}

// apply makes the edits.
func apply(src string, edits []edit) string {
	// At one place what is put in comes before what is replaced.
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(a.from-b.from, min(a.to-a.from, 1)-min(b.to-b.from, 1))
	})
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(src[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(src[at:])
	return b.String()
}
