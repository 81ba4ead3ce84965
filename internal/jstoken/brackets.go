package jstoken

// punct places an operator or bracket.
func (t *Tokenizer) punct(tok *Token) {
	before := t.prev
	t.prev = *tok // so that frames know where they were opened
	f := t.top()
	switch tok.Name {
	case "{":
		t.openBrace(&before)
	case "}":
		t.closeBrace()
	case "(":
		t.openParen(&before)
	case ")":
		t.closeParen()
	case "[":
		t.openBracket(tok, &before)
	case "]":
		t.close(bracket)
		t.pos = afterOperand
		if t.keyed() {
			t.pos = atOperand
		}
	case ";":
		t.semicolon()
	case ",":
		t.popArrows()
		if f = t.top(); f.kind == object || f.kind == clause {
			t.nextKey()
			return
		}
		t.pos = atOperand
	case ":":
		t.colon()
	case "?":
		f.tern++
		t.pos = atOperand
	case "=>":
		t.arrow, t.arrowFn, t.pos = true, 0, atOperand
		if before.Is(")") && t.groupAsync || before.Kind == Name && t.asyncWord {
			t.arrowFn = fnAsync
		}
	case "++", "--":
		if t.pos != afterOperand || tok.Newline { // before its operand
			t.pos = atOperand
		}
	case "*", "=", "...":
		t.mark(tok, &before)
	case ".", "?.":
		if before.IsWord("import") {
			t.module = 0
		}
		t.pos = atOperand
	default:
		t.pos = atOperand
	}
}

func (t *Tokenizer) openBracket(tok, before *Token) {
	f := t.top()
	switch {
	case t.keyed():
		t.prev = *before
		t.keyFlags(tok.Newline)
		tok.Role, tok.InObject, tok.AfterOperand = Key, f.kind != class_, false
		t.prev = *tok
	case before.Is("?."):
		tok.AfterOperand = true
	case t.declares(before):
		f.flags |= isDeclaring
		tok.AfterOperand = false
	}
	t.push(bracket, 0)
	t.pos = atOperand
}

// mark places what has a meaning of its own before or behind a key.
func (t *Tokenizer) mark(tok, before *Token) {
	f := t.top()
	switch {
	case f.kind == funcHead && tok.Name == "*":
		f.flags |= fnGen
	case !t.keyed():
	case tok.Name == "*":
		f.flags |= fnGen
		t.prev = *before
		t.keyFlags(tok.Newline)
		t.prev = *tok
	default:
		f.state = inValue
		if f.kind == class_ {
			t.fn = 0
		}
	}
	t.pos = atOperand
}

// openBrace decides what a brace opens.
func (t *Tokenizer) openBrace(before *Token) {
	f := t.top()
	fn := f.flags & (fnAsync | fnGen)
	switch {
	case before.Is("=>"):
		t.push(arrowBody, 0)
		t.fn = t.arrowFn
		t.pos = atStatement
	case f.kind == funcHead:
		f.kind, f.state = funcBody, inKey
		t.fn = fn
		t.pos = atStatement
	case f.kind == classHead && t.pos == afterOperand:
		f.kind, f.state = class_, inKey
		t.nextKey()
	case (f.kind == object || f.kind == class_) && f.state == atBody:
		t.push(methodBody, 0)
		t.fn = fn
		t.pos = atStatement
	case f.kind == class_ && f.state == inKey: // static {
		t.push(methodBody, 0)
		t.fn = fnAsync // await is no name there
		t.pos = atStatement
	case before.IsWord("import"), before.IsWord("export"), before.IsWord("with"), t.module == len(t.stack) && before.Is(","):
		t.push(clause, 0)
		t.pos = atOperand
	case t.declares(before):
		f.flags |= isDeclaring
		t.push(object, isPattern)
		t.pos = atOperand
	case t.pos == atOperand:
		t.push(object, t.pattern(before))
		t.pos = atOperand
	default:
		t.push(block, 0)
		t.pos = atStatement
	}
}

// pattern tells whether an object is a pattern of declared names.
func (t *Tokenizer) pattern(before *Token) uint8 {
	f := t.top()
	if f.kind == object && before.Is(":") && f.tern == 0 {
		return f.flags & isPattern
	}
	if (f.kind == params || f.kind == methodParams) && inAny(before, "(", ",") {
		return isPattern
	}
	return 0
}

// close takes the frame away that a bracket closes, or says that none is open.
func (t *Tokenizer) close(kinds ...kind) (f frame, ok bool) {
	t.popSoft()
	f = *t.top()
	for _, k := range kinds {
		if f.kind == k {
			return t.pop(), true
		}
	}
	t.failAt(t.prev.Line, t.prev.Col, "it closes nothing that is open")
	return frame{}, false
}

func (t *Tokenizer) closeBrace() {
	f, ok := t.close(block, object, clause, class_, funcBody, arrowBody, methodBody)
	switch {
	case !ok:
		t.pos = atStatement
	case f.kind == object:
		t.pos = afterOperand
	case f.kind == arrowBody:
		t.pos = afterBody
	case f.kind == methodBody:
		if t.top().kind == class_ {
			t.nextKey()
			return
		}
		t.top().state = inValue
		t.pos = afterOperand
	case (f.kind == funcBody || f.kind == class_) && f.flags&isDecl == 0:
		t.pos = afterOperand
	default:
		t.pos = atStatement
	}
}

func (t *Tokenizer) openParen(before *Token) {
	f := t.top()
	switch {
	case t.keyed():
		fn := f.flags & (fnAsync | fnGen)
		t.push(methodParams, 0)
		t.fn = fn
	case f.kind == funcHead && f.state == inKey:
		fn := f.flags & (fnAsync | fnGen)
		t.push(params, 0)
		t.fn = fn
	case t.was.head != program:
		flags := uint8(0)
		if t.was.headFor {
			flags = isFor
		}
		t.push(t.was.head, flags)
	default:
		if before.IsWord("import") {
			t.module = 0
		}
		flags := uint8(0)
		if before.IsWord("async") && !t.prev.Newline {
			flags = fnAsync
		}
		t.push(group, flags)
	}
	t.pos = atOperand
}

func (t *Tokenizer) closeParen() {
	f, ok := t.close(group, headParen, headBlock, params, methodParams)
	t.groupAsync = ok && f.kind == group && f.flags&fnAsync != 0
	switch {
	case !ok, f.kind == group:
		t.pos = afterOperand
	case f.kind == headParen, f.kind == headBlock:
		t.pos, t.next.single = atStatement, true
	default:
		t.top().state = atBody
		t.pos = atOperand
	}
}

func (t *Tokenizer) semicolon() {
	t.popArrows()
	f := t.top()
	f.tern, t.module = 0, 0
	f.flags &^= isDeclaring
	switch {
	case f.kind.statements():
		t.pos = atStatement
	case f.kind == class_:
		t.nextKey()
	default:
		t.pos = atOperand
	}
}

func (t *Tokenizer) colon() {
	for t.top().kind == arrowExpr && t.top().tern == 0 {
		t.pop()
	}
	f := t.top()
	switch {
	case f.tern > 0:
		f.tern--
		t.pos = atOperand
	case (f.kind == object || f.kind == clause) && f.state == inKey:
		f.state = inValue
		t.pos = atOperand
	case f.kind.statements(): // of a label, case or default
		t.pos, t.next.single = atStatement, f.flags&isCase == 0
		f.flags &^= isCase
	default:
		t.pos = atOperand
	}
}
