package script

// maxDepth is how deeply statements and expressions may be nested. A level
// takes less than 4 KiB of stack, measured with the worst that is known.
const maxDepth = 4000

// function is the function, or what is like one, that the parser is in.
type function struct {
	top       bool // the source itself
	async     bool
	generator bool
	plain     bool // has an arguments object and a new.target of its own, or may not name them
}

// ident is a name in the place of a value.
type ident struct {
	name     string
	from, to int
	call     bool // it is called, or a template's tag
	short    bool // a property by its name alone
	start    bool // the first token of a statement in a list
	assigned bool
	bound    bool // it has turned out to be a parameter
}

// shape is what an expression could be besides a value: names, a target of an
// assignment, the parameters of an arrow function.
type shape struct {
	names []*ident
	lone  bool // one name and nothing else
	arrow bool // an arrow function, behind which there is no operator
}

// parser reads one source. It makes no tree: what is of use to modules and
// feeds is noted as it comes by. It takes all of the language and more: what is
// no program although it looks like one the engine refuses.
type parser struct {
	lexer
	depth  int
	fn     function
	blocks int // blocks around, inside of the function
	scopes
	found
	last   int  // where the token before this one ends
	start  int  // where the expression statement begins that is read; -1 otherwise
	strict bool // of a module: yield and let are no names
	waits  bool // await is an operator at the top
	// constant says that what is declared now is a const.
	constant bool
}

// bailout carries an error out of the parser.
type bailout struct{ err error }

// advance goes to the next token.
func (p *parser) advance() {
	p.last = p.tok.to
	p.next()
}

func (p *parser) is(s string) bool { return p.tok.is(s) }

// take goes past a punctuator or keyword if it is there.
func (p *parser) take(s string) bool {
	if p.is(s) {
		p.advance()
		return true
	}
	return false
}

func (p *parser) want(s string) {
	if !p.take(s) {
		p.unexpected()
	}
}

func (p *parser) unexpected() {
	if p.tok.kind == end {
		p.fail(p.tok.from, "the end comes too early")
	}
	p.fail(p.tok.from, "unexpected "+short(p.src[p.tok.from:p.tok.to]))
}

// peek returns the token after this one.
func (p *parser) peek() token {
	pos, tok := p.pos, p.tok
	p.next()
	next := p.tok
	p.pos, p.tok = pos, tok
	return next
}

// down counts a level; call it with defer p.up().
func (p *parser) down() {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.tok.from, "nested too deeply")
	}
}

func (p *parser) up() { p.depth-- }

// semicolon ends a statement, by a rule of its own where there is none.
func (p *parser) semicolon() {
	if !p.take(";") && !p.is("}") && p.tok.kind != end && !p.tok.nl {
		p.unexpected()
	}
}

// inside reads something in another function, its blocks counted from none.
func (p *parser) inside(f function, read func()) {
	fn, blocks, start := p.fn, p.blocks, p.start
	p.fn, p.blocks, p.start = f, 0, -1
	read()
	p.fn, p.blocks, p.start = fn, blocks, start
}

// block reads statements in braces, in a scope of its own.
func (p *parser) block() {
	p.want("{")
	p.blocks++
	p.open(false)
	p.list("}")
	p.close()
	p.blocks--
	p.want("}")
}

// list reads statements up to a token.
func (p *parser) list(until string) {
	for !p.is(until) && p.tok.kind != end {
		p.statement(true)
	}
}

// statement reads one; inList says that it stands among others, and so may be a
// declaration.
func (p *parser) statement(inList bool) {
	p.down()
	defer p.up()
	t := &p.tok
	if inList && p.fn.top && p.blocks == 0 {
		p.noteStatement()
	}
	if t.kind == name && !t.escaped {
		if read, ok := statements[t.text]; ok {
			read(p)
			return
		}
		if p.contextual(inList) {
			return
		}
	}
	switch {
	case p.is("{"):
		p.block()
	case p.take(";"):
	default:
		p.expressionStatement(inList)
	}
}

// statements are those that their keyword tells.
var statements map[string]func(*parser)

func init() {
	statements = map[string]func(*parser){
		"var": (*parser).declaration, "const": (*parser).declaration, "function": (*parser).functionStatement, "class": (*parser).classStatement,
		"if": (*parser).ifStatement, "for": (*parser).forStatement, "while": (*parser).whileStatement, "with": (*parser).whileStatement, "do": (*parser).doStatement,
		"return": (*parser).returnStatement, "throw": (*parser).throwStatement, "break": (*parser).jump, "continue": (*parser).jump,
		"switch": (*parser).switchStatement, "try": (*parser).tryStatement, "debugger": (*parser).debugger, "export": (*parser).exportStatement,
	}
}

// contextual reads a statement that begins with a word which may also be a name.
func (p *parser) contextual(inList bool) bool {
	t := p.tok
	switch t.text {
	case "let":
		next := p.peek()
		if next.kind == name && next.text != "in" && next.text != "instanceof" && (inList || !next.nl) || next.is("[") || next.is("{") && (inList || !next.nl) {
			p.declaration()
			return true
		}
	case "async":
		if next := p.peek(); next.is("function") && !next.nl {
			p.functionStatement()
			return true
		}
	case "import":
		if next := p.peek(); !next.is("(") && !next.is(".") {
			p.importStatement()
			return true
		}
	}
	if reserved[t.text] || t.text == "await" && p.awaits() {
		return false
	}
	if next := p.peek(); next.is(":") {
		p.advance()
		p.advance()
		p.statement(false)
		return true
	}
	return false
}

// reserved are words that are never names.
var reserved = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range []string{"break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do", "else", "enum", "export", "extends",
		"false", "finally", "for", "function", "if", "import", "in", "instanceof", "new", "null", "return", "super", "switch", "this", "throw", "true", "try",
		"typeof", "var", "void", "while", "with"} {
		m[w] = true
	}
	return m
}()

func (p *parser) expressionStatement(inList bool) {
	from := p.tok.from
	p.start = -1
	if inList {
		p.start = from
	}
	p.expression(true)
	p.start = -1
	to := p.last
	p.semicolon()
	if p.fn.top && p.blocks == 0 && inList {
		p.noteExpression(from, to)
	}
}

func (p *parser) ifStatement() {
	for {
		p.advance()
		p.condition()
		p.statement(false)
		if !p.take("else") {
			return
		}
		if !p.is("if") {
			p.statement(false)
			return
		}
	}
}

// condition reads an expression in parentheses.
func (p *parser) condition() {
	p.want("(")
	p.expression(true)
	p.want(")")
}

func (p *parser) whileStatement() {
	p.advance()
	p.condition()
	p.statement(false)
}

func (p *parser) doStatement() {
	p.advance()
	p.statement(false)
	p.want("while")
	p.condition()
	p.take(";")
}

func (p *parser) returnStatement() {
	if p.fn.top {
		p.noteReturn()
	}
	p.advance()
	if !p.is(";") && !p.is("}") && p.tok.kind != end && !p.tok.nl {
		p.expression(true)
	}
	p.semicolon()
}

func (p *parser) throwStatement() {
	p.advance()
	if p.tok.nl {
		p.unexpected()
	}
	p.expression(true)
	p.semicolon()
}

func (p *parser) debugger() {
	p.advance()
	p.semicolon()
}

// jump reads break and continue.
func (p *parser) jump() {
	p.advance()
	if p.tok.kind == name && !p.tok.nl && !reserved[p.tok.text] {
		p.advance()
	}
	p.semicolon()
}

func (p *parser) switchStatement() {
	p.advance()
	p.condition()
	p.want("{")
	p.blocks++
	p.open(false)
	for !p.is("}") {
		if !p.take("default") {
			p.want("case")
			p.expression(true)
		}
		p.want(":")
		for !p.is("}") && !p.is("case") && !p.is("default") && p.tok.kind != end {
			p.statement(true)
		}
	}
	p.close()
	p.blocks--
	p.advance()
}

func (p *parser) tryStatement() {
	p.advance()
	p.block()
	if p.take("catch") {
		p.blocks++
		p.open(false)
		if p.take("(") {
			p.binding(declareCatch)
			p.want(")")
		}
		p.block()
		p.close()
		p.blocks--
	}
	if p.take("finally") {
		p.block()
	}
}

// forStatement reads all kinds of for.
func (p *parser) forStatement() {
	p.advance()
	if p.is("await") {
		p.noteAwait()
		p.advance()
	}
	p.want("(")
	p.blocks++
	p.open(false)
	p.forHead()
	p.want(")")
	p.statement(false)
	p.close()
	p.blocks--
}

// forHead reads what is in the parentheses.
func (p *parser) forHead() {
	if !p.is(";") {
		if p.forDeclares() {
			p.declarationList(true)
		} else {
			s := p.expression(false)
			if p.is("of") || p.is("in") {
				p.assign(s)
			}
		}
		if p.take("of") {
			p.assignment(true)
			return
		}
		if p.take("in") {
			p.expression(true)
			return
		}
	}
	p.want(";")
	if !p.is(";") {
		p.expression(true)
	}
	p.want(";")
	if !p.is(")") {
		p.expression(true)
	}
}

// forDeclares tells a declaration in the head of a for.
func (p *parser) forDeclares() bool {
	if p.is("var") || p.is("const") {
		return true
	}
	if !p.is("let") {
		return false
	}
	next := p.peek()
	return next.kind == name && next.text != "in" && next.text != "instanceof" || next.is("[") || next.is("{")
}

// declaration reads var, let and const.
func (p *parser) declaration() {
	p.declarationList(false)
	to := p.last
	p.semicolon()
	p.endDeclaration(to)
}

// declarationList reads the keyword and the declarators.
func (p *parser) declarationList(loop bool) {
	how := declareLexical
	if p.is("var") {
		how = declareVar
	}
	around := p.constant
	p.constant = p.is("const")
	p.beginDeclaration(how, loop)
	p.advance()
	for {
		p.binding(how)
		if p.take("=") {
			p.assignment(!loop)
		}
		if !p.take(",") {
			p.constant = around
			return
		}
	}
}

// binding reads a name or a pattern of names that are declared.
func (p *parser) binding(how declare) {
	p.down()
	defer p.up()
	switch {
	case p.is("["):
		p.advance()
		for !p.is("]") {
			if p.take(",") {
				continue
			}
			p.take("...")
			p.bindingElement(how)
			if !p.is("]") {
				p.want(",")
			}
		}
		p.advance()
	case p.is("{"):
		p.advance()
		for !p.is("}") {
			p.bindingProperty(how)
			if !p.is("}") {
				p.want(",")
			}
		}
		p.advance()
	default:
		p.bindingName(how)
	}
}

func (p *parser) bindingElement(how declare) {
	p.binding(how)
	if p.take("=") {
		p.assignment(true)
	}
}

func (p *parser) bindingProperty(how declare) {
	if p.take("...") {
		p.binding(how)
		return
	}
	if p.tok.kind == name {
		if next := p.peek(); !next.is(":") {
			p.bindingElement(how)
			return
		}
	}
	p.propertyName()
	p.want(":")
	p.bindingElement(how)
}

// bindingName reads a name that is declared.
func (p *parser) bindingName(how declare) {
	if p.tok.kind != name || reserved[p.tok.text] {
		p.unexpected()
	}
	p.declare(p.tok.text, how)
	p.advance()
}
