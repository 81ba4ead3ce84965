package script

// expression reads expressions with commas between them. in says whether the
// operator of that name is one here.
func (p *parser) expression(in bool) shape {
	s := p.assignment(in)
	for p.take(",") {
		p.assignment(in)
		s = shape{}
	}
	return s
}

// assigns are the operators that assign, besides =.
var assigns = map[string]bool{"+=": true, "-=": true, "*=": true, "/=": true, "%=": true, "**=": true, "<<=": true, ">>=": true, ">>>=": true,
	"&=": true, "|=": true, "^=": true, "&&=": true, "||=": true, "??=": true}

// assignment reads what may stand between commas.
func (p *parser) assignment(in bool) shape {
	p.down()
	defer p.up()
	if p.fn.generator && p.is("yield") {
		p.yield(in)
		return shape{}
	}
	s := p.operators(in)
	switch {
	case s.arrow || p.tok.kind != punct:
	case p.tok.text == "?":
		p.advance()
		p.assignment(true)
		p.want(":")
		p.assignment(in)
		return shape{}
	case p.tok.text == "=":
		p.assign(s)
		p.advance()
		p.assignment(in)
		return shape{names: s.names}
	case assigns[p.tok.text]:
		p.assign(s)
		p.advance()
		p.assignment(in)
		return shape{}
	}
	return s
}

func (p *parser) yield(in bool) {
	p.advance()
	if p.tok.nl || p.tok.kind == end || p.is(")") || p.is("]") || p.is("}") || p.is(",") || p.is(";") || p.is(":") || p.is("in") || p.is("of") {
		return
	}
	p.take("*")
	p.assignment(in)
}

// assign notes that names are assigned to.
func (p *parser) assign(s shape) {
	for _, id := range s.names {
		id.assigned = true
		p.noteAssigned(id.name)
	}
}

// binary are the operators between two values.
var binary = map[string]bool{"??": true, "||": true, "&&": true, "|": true, "^": true, "&": true, "==": true, "!=": true, "===": true, "!==": true,
	"<": true, ">": true, "<=": true, ">=": true, "<<": true, ">>": true, ">>>": true, "+": true, "-": true, "*": true, "/": true, "%": true, "**": true}

// operators reads values and operators between them: which binds more tightly
// does not matter here.
func (p *parser) operators(in bool) shape {
	s := p.unary()
	for !s.arrow {
		switch {
		case p.tok.kind == punct && binary[p.tok.text]:
		case p.is("instanceof"), in && p.is("in"):
		default:
			return s
		}
		p.advance()
		p.unary()
		s = shape{}
	}
	return s
}

func (p *parser) unary() shape {
	before := ""
	for p.prefix() {
		before = p.tok.text
		p.advance()
	}
	s := p.postfix()
	if before == "++" || before == "--" {
		p.assign(s)
	}
	if before == "delete" && s.lone && p.strict {
		p.fail(p.last, "delete of a name")
	}
	if before != "" {
		s.names, s.lone = nil, false
	}
	return s
}

// prefix tells an operator before its value.
func (p *parser) prefix() bool {
	switch p.tok.text {
	case "+", "-", "~", "!", "++", "--":
		return p.tok.kind == punct
	case "delete", "void", "typeof":
		return p.tok.kind == name && !p.tok.escaped
	case "await":
		if p.tok.kind == name && !p.tok.escaped && p.awaits() {
			p.noteAwait()
			return true
		}
	}
	return false
}

// awaits tells whether await is an operator here.
func (p *parser) awaits() bool { return p.fn.async || p.fn.top && p.waits || p.strict }

func (p *parser) postfix() shape {
	s := p.subscripts(p.primary(), true)
	if !s.arrow && (p.is("++") || p.is("--")) && !p.tok.nl {
		p.assign(s)
		p.advance()
		return shape{}
	}
	return s
}

// subscripts reads members, calls and templates behind a value.
func (p *parser) subscripts(s shape, calls bool) shape {
	for !s.arrow {
		switch {
		case p.tok.kind == template:
			p.called(s)
			p.template()
		case p.tok.kind != punct:
			return s
		case p.tok.text == ".":
			p.advance()
			p.memberName()
		case p.tok.text == "[":
			p.index()
		case p.tok.text == "(" && calls:
			p.called(s)
			p.arguments()
		case p.tok.text == "?." && calls:
			p.advance()
			switch {
			case p.is("("):
				p.called(s)
				p.arguments()
			case p.is("["):
				p.index()
			default:
				p.memberName()
			}
		default:
			return s
		}
		s = shape{}
	}
	return s
}

// called notes that a name is called, which then has no this.
func (p *parser) called(s shape) {
	if s.lone {
		s.names[0].call = true
		if s.names[0].name == "eval" {
			p.evals = true
		}
	}
}

func (p *parser) memberName() {
	if p.tok.kind != name && p.tok.kind != private {
		p.unexpected()
	}
	p.advance()
}

func (p *parser) index() {
	p.advance()
	p.expression(true)
	p.want("]")
}

func (p *parser) arguments() {
	p.want("(")
	for !p.is(")") {
		p.take("...")
		p.assignment(true)
		if !p.take(",") {
			break
		}
	}
	p.want(")")
}

// template reads a template and the expressions in it.
func (p *parser) template() {
	for p.src[p.tok.to-1] == '{' {
		p.advance()
		p.expression(true)
		if !p.is("}") {
			p.unexpected()
		}
		p.more()
	}
	p.advance()
}

// primary reads a value without operators.
func (p *parser) primary() shape {
	switch p.tok.kind {
	case number, text:
		p.advance()
	case template:
		p.template()
	case private: // #x in o
		p.advance()
		if !p.is("in") {
			p.unexpected()
		}
	case punct:
		return p.primaryPunct()
	case name:
		if p.tok.escaped {
			return p.name()
		}
		return p.primaryName()
	default:
		p.unexpected()
	}
	return shape{}
}

func (p *parser) primaryPunct() shape {
	switch p.tok.text {
	case "(":
		return p.paren()
	case "[":
		return p.array()
	case "{":
		return p.object()
	case "/", "/=":
		p.regexp()
		p.advance()
	default:
		p.unexpected()
	}
	return shape{}
}

func (p *parser) primaryName() shape {
	switch p.tok.text {
	case "this", "null", "true", "false", "super":
		p.advance()
	case "function":
		p.advance()
		p.functionRest(function{plain: true}, false)
	case "class":
		p.advance()
		p.classRest(false)
	case "new":
		p.construct()
	case "import":
		p.importCall()
	case "async":
		return p.asyncName()
	default:
		return p.name()
	}
	return shape{}
}

// name reads a name that stands for a value, or the arrow function that it is
// the parameter of.
func (p *parser) name() shape {
	t := p.tok
	if reserved[t.text] && !t.escaped || t.text == "yield" && p.strict {
		p.unexpected()
	}
	if t.text == "arguments" && p.strict && !p.fn.plain {
		p.fail(t.from, "a module has no arguments")
	}
	id := &ident{name: t.text, from: t.from, to: t.to, start: t.from == p.start}
	p.advance()
	if p.is("=>") && !p.tok.nl {
		p.open(false)
		p.bind([]*ident{id})
		p.arrow(false)
		p.close()
		return shape{arrow: true}
	}
	p.refer(id)
	return shape{names: []*ident{id}, lone: true}
}

// asyncName reads what begins with async: a function, an arrow function, a call
// of something of that name, or just that.
func (p *parser) asyncName() shape {
	next := p.peek()
	switch {
	case next.is("function") && !next.nl:
		p.advance()
		p.advance()
		p.functionRest(function{plain: true, async: true}, false)
		return shape{}
	case next.kind == name && !next.nl && !reserved[next.text]:
		p.advance()
		id := &ident{name: p.tok.text}
		p.advance()
		if !p.is("=>") || p.tok.nl {
			p.unexpected()
		}
		p.open(false)
		p.bind([]*ident{id})
		p.arrow(true)
		p.close()
		return shape{arrow: true}
	case next.is("(") && !next.nl:
		return p.asyncCall()
	}
	return p.name()
}

// asyncCall reads async(…), which has an arrow behind it or has not.
func (p *parser) asyncCall() shape {
	id := &ident{name: "async", from: p.tok.from, to: p.tok.to, start: p.tok.from == p.start, call: true}
	p.advance()
	p.open(false)
	names := p.elements()
	if p.is("=>") && !p.tok.nl {
		p.bind(names)
		p.arrow(true)
		p.close()
		return shape{arrow: true}
	}
	p.close()
	p.refer(id)
	return shape{}
}

// elements reads what is in parentheses and returns the names that are parameters
// if an arrow follows.
func (p *parser) elements() (names []*ident) {
	p.want("(")
	for !p.is(")") {
		p.take("...")
		names = append(names, p.assignment(true).names...)
		if !p.take(",") {
			break
		}
	}
	p.want(")")
	return names
}

// paren reads a value in parentheses, or an arrow function.
func (p *parser) paren() shape {
	p.down()
	defer p.up()
	p.advance()
	p.open(false)
	var all, s shape
	count, rest := 0, false
	for !p.is(")") {
		rest = p.take("...")
		s = p.assignment(true)
		all.names = append(all.names, s.names...)
		count++
		if !p.take(",") {
			break
		}
		s.lone = false
	}
	p.want(")")
	if p.is("=>") && !p.tok.nl {
		p.bind(all.names)
		p.arrow(false)
		p.close()
		return shape{arrow: true}
	}
	p.close()
	if count == 0 || rest {
		p.unexpected()
	}
	if count == 1 && s.lone {
		return s
	}
	return shape{}
}

// arrow reads the arrow and the body of an arrow function.
func (p *parser) arrow(async bool) {
	p.want("=>")
	f := function{async: async, plain: p.fn.plain}
	p.inside(f, func() {
		if p.is("{") {
			p.body()
			return
		}
		p.assignment(true)
	})
}

func (p *parser) array() shape {
	p.down()
	defer p.up()
	p.advance()
	var all shape
	for !p.is("]") {
		if p.take(",") {
			continue
		}
		p.take("...")
		all.names = append(all.names, p.assignment(true).names...)
		if !p.is("]") {
			p.want(",")
		}
	}
	p.advance()
	return all
}

func (p *parser) object() shape {
	p.down()
	defer p.up()
	p.advance()
	var all shape
	for !p.is("}") {
		all.names = append(all.names, p.property()...)
		if !p.is("}") {
			p.want(",")
		}
	}
	p.advance()
	return all
}

// endsKey tells what comes behind a word that is itself a key.
func endsKey(t token) bool {
	return t.kind == end || t.is("(") || t.is("=") || t.is(";") || t.is("}") || t.is(",") || t.is(":")
}

// property reads one of an object, and returns the names it would bind.
func (p *parser) property() []*ident {
	if p.take("...") {
		return p.assignment(true).names
	}
	f, word := p.modifiers()
	if p.tok.kind == name && !word {
		if next := p.peek(); next.is(",") || next.is("}") || next.is("=") {
			return p.shorthand()
		}
	}
	p.propertyName()
	if p.is("(") {
		p.method(f)
		return nil
	}
	p.want(":")
	return p.assignment(true).names
}

func (p *parser) shorthand() []*ident {
	t := p.tok
	if t.text == "arguments" && p.strict && !p.fn.plain {
		p.fail(t.from, "a module has no arguments")
	}
	id := &ident{name: t.text, from: t.from, to: t.to, short: true}
	p.refer(id)
	p.advance()
	if p.take("=") {
		p.assign(shape{names: []*ident{id}})
		p.assignment(true)
	}
	return []*ident{id}
}

// modifiers reads async, get, set and * before a key, and says whether there
// was one.
func (p *parser) modifiers() (f function, word bool) {
	f.plain = true
	if p.is("async") {
		if next := p.peek(); !endsKey(next) && !next.nl {
			p.advance()
			f.async, word = true, true
		}
	}
	if p.take("*") {
		f.generator, word = true, true
	}
	if !word && (p.is("get") || p.is("set")) {
		if next := p.peek(); !endsKey(next) && !next.is("*") {
			p.advance()
			word = true
		}
	}
	return f, word
}

// propertyName reads a key.
func (p *parser) propertyName() {
	switch {
	case p.is("["):
		p.advance()
		p.assignment(true)
		p.want("]")
	case p.tok.kind == name || p.tok.kind == text || p.tok.kind == number || p.tok.kind == private:
		p.advance()
	default:
		p.unexpected()
	}
}

// construct reads new and what belongs to it.
func (p *parser) construct() {
	p.down()
	defer p.up()
	p.advance()
	if p.is(".") {
		p.advance()
		if !p.is("target") || !p.fn.plain && p.strict {
			p.unexpected()
		}
		p.advance()
		return
	}
	var s shape
	switch {
	case p.is("new"):
		p.construct()
	case p.is("import"):
		if next := p.peek(); next.is("(") {
			p.unexpected()
		}
		fallthrough
	default:
		s = p.primary()
	}
	p.subscripts(s, false)
	if p.is("(") {
		p.arguments()
	}
}
