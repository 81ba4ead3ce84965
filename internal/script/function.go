package script

// functionRest reads a function from behind its keyword: a statement, whose
// name is declared around it, or an expression, whose name it sees itself.
func (p *parser) functionRest(f function, statement bool) {
	p.down()
	defer p.up()
	f.generator = p.take("*")
	own := p.tok
	named := own.kind == name && (!reserved[own.text] || own.escaped)
	if named {
		p.advance()
	}
	if statement && named {
		p.declare(own.text, declareFunction)
	}
	p.open(true)
	if !statement && named {
		p.declare(own.text, declareInner)
	}
	p.method(f)
	p.close()
}

// method reads parameters and body.
func (p *parser) method(f function) {
	p.down()
	defer p.up()
	p.inside(f, func() {
		p.open(true)
		p.want("(")
		for !p.is(")") {
			p.take("...")
			p.bindingElement(declareInner)
			if !p.take(",") {
				break
			}
		}
		p.want(")")
		p.body()
		p.close()
	})
}

// body reads the statements of a function.
func (p *parser) body() {
	p.want("{")
	p.open(true)
	p.list("}")
	p.close()
	p.want("}")
}

// functionStatement reads a declaration of a function.
func (p *parser) functionStatement() {
	f := function{plain: true, async: p.take("async")}
	p.advance()
	p.functionRest(f, true)
}

// classStatement reads a declaration of a class.
func (p *parser) classStatement() {
	from := p.tok.from
	p.advance()
	own := p.classRest(true)
	p.noteClass(own, from, p.last)
}

// classRest reads a class from behind its keyword, and returns its name.
func (p *parser) classRest(statement bool) (own string) {
	p.down()
	defer p.up()
	named := p.tok.kind == name && !p.is("extends") && !p.is("{")
	if named {
		own = p.tok.text
		if statement {
			p.declare(own, declareLexical)
		}
		p.advance()
	}
	p.open(false)
	if named {
		p.declare(own, declareInner)
	}
	if p.take("extends") {
		p.subscripts(p.primary(), true)
	}
	p.want("{")
	for !p.is("}") {
		if !p.take(";") {
			p.member()
		}
	}
	p.close()
	p.advance()
	return own
}

// member reads one of a class.
func (p *parser) member() {
	if p.is("static") {
		next := p.peek()
		if next.is("{") {
			p.advance()
			p.inside(function{plain: true}, p.body)
			return
		}
		if !endsKey(next) {
			p.advance()
		}
	}
	f, _ := p.modifiers()
	p.propertyName()
	if p.is("(") {
		p.method(f)
		return
	}
	if p.take("=") {
		p.inside(function{plain: true}, func() {
			p.open(true)
			p.assignment(true)
			p.close()
		})
	}
	p.semicolon()
}
