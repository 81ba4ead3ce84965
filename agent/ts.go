package agent

import (
	"fmt"
	"slices"
	"strings"
)

// tsType is a type of TypeScript. Every text in it is either one of ours or is
// written through quoteTS, propertyTS or docLines: nothing else is printed.
type tsType struct {
	kind   tsKind
	word   string    // tsWord and tsLiteral: as it is printed
	parts  []*tsType // tsUnion, tsAll, tsTuple, tsArray and tsRecord (one), tsRest of a tuple in rest
	rest   *tsType   // of a tuple
	fields []tsField // tsObject
	name   string    // what it would like to be called
}

type tsField struct {
	name     string
	doc      string
	typ      *tsType
	optional bool
}

type tsKind byte

const (
	tsWord    tsKind = iota // unknown, string, Date …
	tsLiteral               // "a", 1, true
	tsArray                 // Array<…>
	tsTuple                 // […, ...Array<…>]
	tsRecord                // Record<string, …>
	tsObject                // { … }
	tsUnion                 // … | …
	tsAll                   // … & …
)

var tsUnknown = &tsType{word: "unknown"}

// compound reports whether a type is worth a name of its own.
func (t *tsType) compound() bool { return t.kind >= tsArray }

func (t *tsType) children() []*tsType {
	out := slices.Clone(t.parts)
	if t.rest != nil {
		out = append(out, t.rest)
	}
	for _, f := range t.fields {
		out = append(out, f.typ)
	}
	return out
}

// tsNamer gives names to types that occur more than once or within themselves,
// so that what is printed is never larger than what there is.
type tsNamer struct {
	names map[*tsType]string
	order []*tsType
	used  map[string]bool
}

func newNamer(roots []*tsType) *tsNamer {
	n := &tsNamer{names: map[*tsType]string{}, used: map[string]bool{}}
	seen := map[*tsType]bool{}
	var visit func(t *tsType)
	visit = func(t *tsType) {
		if !t.compound() {
			return
		}
		if seen[t] {
			n.name(t)
			return
		}
		seen[t] = true
		for _, c := range t.children() {
			visit(c)
		}
	}
	for _, r := range roots {
		visit(r)
	}
	return n
}

// typeName tells whether a type can be called so.
func typeName(s string) bool { return checkName(s) == "" && !slices.Contains(typeWords, s) }

func (n *tsNamer) name(t *tsType) {
	if n.names[t] != "" {
		return
	}
	var b strings.Builder
	for _, r := range cutText(t.name, 40) {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || b.Len() > 0 && r >= '0' && r <= '9' {
			b.WriteRune(r)
		}
	}
	base := b.String()
	if base == "" || !typeName(base) {
		base = "T" + strings.TrimLeft(base, "_")
	}
	name := base
	for i := 2; n.used[strings.ToLower(name)] || !typeName(name); i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	n.used[strings.ToLower(name)] = true
	n.names[t] = name
	n.order = append(n.order, t)
}

// tsPrinter writes declarations.
type tsPrinter struct {
	strings.Builder
	namer *tsNamer
	// bodies gives each function an empty body and leaves out "declare", so that
	// the text is a program: tests compare what it does.
	bodies bool
	// quiet leaves out what strangers wrote.
	quiet bool
}

func (p *tsPrinter) line(depth int, format string, args ...any) {
	p.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(p, format, args...)
	p.WriteByte('\n')
}

// doc writes a comment.
func (p *tsPrinter) doc(depth int, text string, limit int) {
	if p.quiet {
		return
	}
	switch lines := docLines(text, limit); len(lines) {
	case 0:
	case 1:
		p.line(depth, "/** %s */", lines[0])
	default:
		p.line(depth, "/**")
		for _, l := range lines {
			p.line(depth, " * %s", l)
		}
		p.line(depth, " */")
	}
}

// use writes a type where it is used: by its name, if it has one.
func (p *tsPrinter) use(t *tsType, depth int) {
	if name := p.namer.names[t]; name != "" {
		p.WriteString(name)
		return
	}
	p.body(t, depth)
}

func (p *tsPrinter) body(t *tsType, depth int) {
	switch t.kind {
	case tsArray:
		p.generic("Array<", t.parts[0], depth)
	case tsRecord:
		p.generic("Record<string, ", t.parts[0], depth)
	case tsTuple:
		p.tuple(t, depth)
	case tsUnion, tsAll:
		p.joined(t, depth)
	case tsObject:
		p.object(t, depth)
	default:
		p.WriteString(t.word)
	}
}

func (p *tsPrinter) generic(open string, t *tsType, depth int) {
	p.WriteString(open)
	p.use(t, depth)
	p.WriteByte('>')
}

func (p *tsPrinter) tuple(t *tsType, depth int) {
	p.WriteByte('[')
	for i, e := range t.parts {
		if i > 0 {
			p.WriteString(", ")
		}
		p.use(e, depth)
		p.WriteByte('?')
	}
	if t.rest != nil {
		p.WriteString(", ...")
		p.generic("Array<", t.rest, depth)
	}
	p.WriteByte(']')
}

// joined writes a union or an intersection, its compound parts in parentheses.
func (p *tsPrinter) joined(t *tsType, depth int) {
	between := " | "
	if t.kind == tsAll {
		between = " & "
	}
	for i, e := range t.parts {
		if i > 0 {
			p.WriteString(between)
		}
		if inner := e.kind == tsUnion || e.kind == tsAll; inner && len(e.parts) > 1 && p.namer.names[e] == "" {
			p.WriteByte('(')
			p.use(e, depth)
			p.WriteByte(')')
			continue
		}
		p.use(e, depth)
	}
}

func (p *tsPrinter) object(t *tsType, depth int) {
	if len(t.fields) == 0 {
		p.WriteString("{}")
		return
	}
	p.WriteString("{\n")
	for _, f := range t.fields {
		p.doc(depth+1, f.doc, maxFieldDoc)
		mark := ""
		if f.optional {
			mark = "?"
		}
		p.WriteString(strings.Repeat("  ", depth+1) + propertyTS(f.name) + mark + ": ")
		p.use(f.typ, depth+1)
		p.WriteString(";\n")
	}
	p.WriteString(strings.Repeat("  ", depth) + "}")
}

// types writes the types that have names.
func (p *tsPrinter) types() {
	for _, t := range p.namer.order {
		word := "type " + p.namer.names[t] + " = "
		p.WriteString(word)
		p.body(t, 0)
		p.WriteString(";\n")
	}
}

// tsParam is one parameter of a function.
type tsParam struct {
	name     string
	typ      *tsType
	optional bool
	rest     bool
}

// function writes one function.
func (p *tsPrinter) function(depth int, prefix, name, doc string, params []tsParam, result *tsType) {
	p.doc(depth, doc, maxToolDoc)
	p.WriteString(strings.Repeat("  ", depth) + prefix + "function " + name + "(")
	for i, a := range params {
		if i > 0 {
			p.WriteString(", ")
		}
		switch {
		case a.rest:
			p.WriteString("..." + a.name + ": ")
			p.generic("Array<", a.typ, depth)
			continue
		case a.optional:
			p.WriteString(a.name + "?: ")
		default:
			p.WriteString(a.name + ": ")
		}
		p.use(a.typ, depth)
	}
	p.WriteString("): ")
	p.generic("Promise<", result, depth)
	if p.bodies {
		p.WriteString(" { throw 0 }\n")
		return
	}
	p.WriteString(";\n")
}
