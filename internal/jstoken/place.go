package jstoken

import "slices"

// This file knows where in the grammar the next token stands. What is open is a
// stack of frames; brackets open and close them, and a few words and => open
// soft ones, which end with what they belong to.

// place is what may stand next.
type place uint8

const (
	atStatement  place = iota // a statement begins
	atOperand                 // an operand has to come
	afterOperand              // an operand has ended: a slash divides
	afterBody                 // something has ended that no operator can follow, so a slash begins the next statement
)

// kind says what a frame is.
type kind uint8

const (
	program kind = iota
	block
	object     // a literal or a pattern
	clause     // the braces of import, export and import attributes
	class_     // the body of a class
	funcBody   // of a function with that word
	arrowBody  // of an arrow function
	methodBody // of a method or static block
	template   // ${ }
	group      // parentheses of a call, a group or an arrow's parameters
	headParen  // of if, while, for, with
	headBlock  // of switch and catch
	params     // of a function
	methodParams
	bracket
	// Soft frames.
	arrowExpr // the body of an arrow function without braces
	funcHead  // from the word function to the brace
	classHead // from the word class to the brace
)

// state says where in an object or class the next token stands.
type state uint8

const (
	inKey   state = iota // a name of a property
	inValue              // behind its colon or =
	atBody               // behind the parameters of a method, or of a function
)

// Flags of frames and functions.
const (
	fnAsync     = 1 << iota
	fnGen       // generator
	fnTop       // outside of every function
	isDecl      // a function or class as a statement
	isPattern   // an object behind var, let or const
	isFor       // the head of for
	isDeclaring // a list behind var, let or const
	isCase      // case or default waits for its colon
)

// frame is one thing that is open: 12 bytes.
type frame struct {
	at    int32 // where it was opened
	tern  int32 // ? whose : is still to come
	kind  kind
	state state
	flags uint8
	fn    uint8 // of the function around it
}

// machine is the state between tokens.
type machine struct {
	stack []frame
	pos   place
	fn    uint8 // what kind of function this is: fnAsync, fnGen, fnTop

	prev      Token // the token before
	asyncWord bool  // the token before that, on the same line, was async
	asyncPos  place // what stood before async

	arrow       bool  // the token before was =>
	arrowFn     uint8 // what kind of function the arrow makes
	groupAsync  bool  // the group that was closed last followed async
	substitutes bool  // the piece of a template ended with ${
	module      int   // depth of the stack at which an import or export waits for its string
	next, was   hints // what this token says of the next one, and the one before said of this
}

// hints are what a word says of the token that follows it.
type hints struct {
	head     kind // a head has to come, headParen or headBlock; program for none
	headFor  bool // it is that of for
	jump     bool // break or continue: a label may come
	exported bool // export default: what comes is a statement
	let      bool // let, where it declares
	single   bool // a statement comes that is part of another: no declaration
}

func (t *Tokenizer) top() *frame { return &t.stack[len(t.stack)-1] }

func (t *Tokenizer) push(k kind, flags uint8) {
	if len(t.stack) > MaxDepth {
		t.stop("more than 10,000 brackets, functions or classes are open here")
		return
	}
	t.stack = append(t.stack, frame{at: int32(t.prev.Start), kind: k, flags: flags, fn: t.fn})
}

// pop takes the top frame away; the function around it is the current one again.
func (t *Tokenizer) pop() frame {
	f := *t.top()
	t.fn = f.fn
	t.stack = t.stack[:len(t.stack)-1]
	return f
}

// popSoft takes away the soft frames at the top.
func (t *Tokenizer) popSoft() {
	for t.top().kind >= arrowExpr {
		t.pop()
	}
}

// popArrows ends arrow functions without braces.
func (t *Tokenizer) popArrows() {
	for t.top().kind == arrowExpr {
		t.pop()
	}
}

// operandMayBegin tells whether a slash begins a regular expression.
func (t *Tokenizer) operandMayBegin() bool { return t.pos != afterOperand }

// ended tells whether an operand or body has ended, so that a word begins a new
// statement, as if a semicolon stood before it.
func (t *Tokenizer) ended() bool { return t.pos == afterOperand || t.pos == afterBody }

// closesTemplate tells whether a closing brace ends the ${ of a template, and ends it.
func (t *Tokenizer) closesTemplate() bool {
	i := len(t.stack) - 1
	for i > 0 && t.stack[i].kind >= arrowExpr {
		i--
	}
	if t.stack[i].kind != template {
		return false
	}
	t.popSoft()
	t.pop()
	return true
}

// statements tells whether a frame holds statements.
func (k kind) statements() bool {
	switch k {
	case program, block, funcBody, arrowBody, methodBody:
		return true
	}
	return false
}

// keyed tells whether the next token names a property.
func (t *Tokenizer) keyed() bool {
	f := t.top()
	return (f.kind == object || f.kind == clause || f.kind == class_) && f.state == inKey
}

// nextKey comes to the next property of the object or class at the top.
func (t *Tokenizer) nextKey() {
	f := t.top()
	f.state, f.tern = inKey, 0
	f.flags &^= fnAsync | fnGen
	t.fn = f.fn
	t.pos = atOperand
}

// unsure is said of the one thing that tokens cannot tell.
const unsure = "what let declares has to begin on the line of let here"

// place gives a token its role and moves on to what may come next.
func (t *Tokenizer) place(tok *Token) {
	if t.arrow {
		t.arrow = false
		if !tok.Is("{") {
			t.push(arrowExpr, 0)
			t.fn = t.arrowFn
		}
	}
	tok.AtTop = t.fn&fnTop != 0
	t.was, t.next = t.next, hints{}
	tok.AfterOperand = t.pos == afterOperand
	if t.was.let && t.was.single && tok.Newline && (tok.Kind == Name || tok.Is("{")) {
		// A name in if (a) let, a declaration in do b; while (a) let.
		t.failAt(tok.Line, tok.Col, unsure)
	}
	if tok.Newline && t.pos == atOperand && (t.prev.IsWord("return") || t.prev.IsWord("yield")) {
		t.pos = atStatement
	}
	if t.beginsAnew(tok) {
		t.popArrows()
		t.top().flags &^= isDeclaring
	}
	switch tok.Kind {
	case Name:
		t.placeName(tok)
		if t.was.headFor && tok.IsWord("await") {
			t.next = t.was
		}
	case PrivateName, String, Number:
		t.operand(tok)
	case Template:
		t.pos = afterOperand
		if t.substitutes {
			t.prev = *tok
			t.push(template, 0)
			t.pos = atOperand
		}
	case Regexp:
		t.pos = afterOperand
	case Punct:
		t.punct(tok)
	}
	t.asyncWord = t.prev.IsWord("async") && !tok.Newline
	t.prev = *tok
}

// operand places what is an operand or a key.
func (t *Tokenizer) operand(tok *Token) {
	f := t.top()
	member := t.prev.Is(".") || t.prev.Is("?.")
	if !member && f.kind == class_ && f.state == inValue && t.ended() {
		t.nextKey()
	}
	if !member && t.keyed() {
		t.key(tok)
		return
	}
	t.pos = afterOperand
	if tok.Kind == PrivateName && member {
		tok.Role = Member
	}
	if tok.Kind == String && t.module == len(t.stack) && (t.prev.IsWord("from") || t.prev.IsWord("import")) {
		t.module, t.pos = 0, atStatement
	}
}

// key places the name of a property.
func (t *Tokenizer) key(tok *Token) {
	f := t.top()
	tok.Role = Key
	tok.InObject = f.kind != class_
	tok.Declares = tok.Kind == Name && (f.flags&isPattern != 0 || f.kind == clause)
	t.keyFlags(tok.Newline)
	t.pos = atOperand
}

// keyFlags notes that the key is async, if that word stands before it.
func (t *Tokenizer) keyFlags(newline bool) {
	if !newline && t.prev.Kind == Name && t.prev.Role == Key && !t.prev.Escaped && t.prev.Name == "async" {
		t.top().flags |= fnAsync
	}
}

// placeName places a Name: by what stands before it, or by what it says.
func (t *Tokenizer) placeName(tok *Token) {
	f := t.top()
	operator := tok.Name == "in" || tok.Name == "instanceof"
	if t.prev.Is(".") || t.prev.Is("?.") {
		tok.Role = Member
		t.pos = afterOperand
		return
	}
	async := t.prev.IsWord("async") && !tok.Newline
	if f.kind == class_ && f.state == inValue && t.ended() && !operator && !async {
		t.nextKey()
	}
	switch {
	case t.keyed():
		t.key(tok)
	case f.kind == funcHead && f.state == inKey:
		tok.Declares = true
		t.pos = atOperand
	case f.kind == classHead && t.prev.IsWord("class") && tok.Name != "extends":
		tok.Declares = true
		t.pos = afterOperand
	case t.was.jump && !tok.Newline:
		tok.Role = Label
		t.pos = afterBody
	case tok.Escaped:
		t.variable(tok)
	default:
		t.word(tok)
	}
}

// variable places a name that is a reference or a declaration.
func (t *Tokenizer) variable(tok *Token) {
	f := t.top()
	switch {
	case t.declares(&t.prev), t.prev.Is(",") && f.flags&isDeclaring != 0:
		f.flags |= isDeclaring
		tok.Declares = true
		t.pos = afterBody // or =, but no operator
		return
	case t.prev.IsWord("import"):
		tok.Declares = true
	case f.kind == params || f.kind == methodParams:
		tok.Declares = t.prev.Is("(") || t.prev.Is(",") || t.prev.Is("...")
	case f.kind == object && f.flags&isPattern != 0:
		tok.Declares = t.prev.Is(":") || t.prev.Is("...")
	case t.module != 0 && t.prev.IsWord("as"):
		tok.Declares = true
	}
	t.pos = afterOperand
}

// declares tells whether names are declared behind this token.
func (t *Tokenizer) declares(before *Token) bool {
	return t.was.let || before.IsWord("var") || before.IsWord("const")
}

// beginsAnew tells whether a token begins a statement where something has ended,
// without a semicolon before it.
func (t *Tokenizer) beginsAnew(tok *Token) bool {
	if !t.ended() {
		return false
	}
	switch tok.Kind {
	case Name:
		return !tok.IsWord("in") && !tok.IsWord("instanceof") && (!tok.IsWord("of") || t.top().flags&isFor == 0)
	case PrivateName, Number, String, Regexp:
		return true
	case Template:
		return t.pos == afterBody
	case Punct:
		if t.pos == afterBody {
			return !inAny(tok, "=", ",", ";", ":", ")", "]", "}")
		}
		return inAny(tok, "{", "!", "~") || tok.Newline && inAny(tok, "++", "--")
	}
	return false
}

// word places a word that may be reserved.
func (t *Tokenizer) word(tok *Token) {
	statement := t.pos != atOperand || t.was.exported
	was := t.pos
	switch tok.Name {
	case "case":
		t.pos = atOperand
		t.top().flags |= isCase
	case "return", "throw", "typeof", "void", "delete", "new", "instanceof", "extends", "var", "const":
		t.pos = atOperand
	case "in":
		t.pos = atOperand
		if f := t.top(); f.flags&isFor != 0 {
			f.flags &^= isDeclaring
		}
	case "else", "do", "try", "finally":
		t.pos, t.next.single = atStatement, true
	case "debugger":
		t.pos = afterBody
	case "break", "continue":
		t.pos, t.next.jump = afterBody, true
	case "if", "while", "for", "with":
		t.pos, t.next.head, t.next.headFor = atOperand, headParen, tok.Name == "for"
	case "switch", "catch":
		t.pos, t.next.head = atStatement, headBlock
	case "function":
		t.function(tok, statement)
	case "class":
		t.prev = *tok
		t.push(classHead, declared(statement))
		t.pos = afterOperand
	case "import":
		t.pos, t.module = atOperand, len(t.stack)
	case "export":
		t.pos, t.module = atStatement, len(t.stack)
	case "default":
		t.pos = atOperand
		if t.next.exported = t.prev.IsWord("export"); !t.next.exported {
			t.top().flags |= isCase
		}
	case "of":
		t.variable(tok)
		if (was == afterOperand || was == afterBody) && t.top().flags&isFor != 0 {
			t.pos = atOperand
		}
	case "await", "yield":
		t.maybeOperator(tok)
	case "let":
		t.variable(tok)
		t.next.single = t.was.single
		t.next.let = statement || t.prev.Is("(") && t.top().flags&isFor != 0
	case "async":
		t.variable(tok)
		t.asyncPos, t.next.exported = was, t.was.exported
	default:
		t.variable(tok)
	}
	if tok.Name != "import" && tok.Name != "export" && was != afterOperand && t.module != 0 {
		t.leaveModule(tok.Name)
	}
}

// leaveModule ends the wait for a module's string where none can come.
func (t *Tokenizer) leaveModule(word string) {
	switch word {
	case "default", "var", "const", "let", "function", "class", "async":
		t.module = 0
	}
}

func declared(statement bool) uint8 {
	if statement {
		return isDecl
	}
	return 0
}

// function opens the head of a function.
func (t *Tokenizer) function(tok *Token, statement bool) {
	flags := uint8(0)
	if t.prev.IsWord("async") && !tok.Newline {
		flags = fnAsync
		statement = t.asyncPos != atOperand || t.was.exported
	}
	t.prev = *tok
	t.push(funcHead, flags|declared(statement))
	t.pos = atOperand
}

// maybeOperator places await and yield, which are names in other functions.
func (t *Tokenizer) maybeOperator(tok *Token) {
	operator := t.fn&fnGen != 0
	if tok.Name == "await" {
		operator = t.fn&fnAsync != 0 || t.opts.Module || t.fn&fnTop != 0 && t.opts.Await
	}
	t.variable(tok)
	if operator {
		t.pos = atOperand
	}
}

// inAny tells whether a token is one of some operators.
func inAny(tok *Token, puncts ...string) bool {
	return tok.Kind == Punct && slices.Contains(puncts, tok.Name)
}
