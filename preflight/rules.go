package preflight

import (
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/jstoken"
)

// rule is what is said of one thing that a worker has not.
type rule struct {
	id       string
	severity Severity
	text     string
}

// rules, in the order of Rules.
var rules = []rule{
	{"import", Error, "import and export work in modules that the host gives a runtime, and this text is read as a script; put all code into one text."},
	{"dynamic-import", Error, "import() finds only modules that the host gave the runtime; put all code into one text."},
	{"require", Error, "require() does not exist here; put the code of a package into the text, or bind a function of the host."},
	{"fetch", Error, "fetch() does not exist here; bind a function of the host that gets what is needed."},
	{"xmlhttprequest", Error, "XMLHttpRequest does not exist here; bind a function of the host that gets what is needed."},
	{"websocket", Error, "WebSocket does not exist here; bind a function of the host that sends and receives."},
	{"process", Error, "process does not exist here; hand over what is needed of environment and arguments as a value."},
	{"deno", Error, "Deno does not exist here; bind a function of the host instead."},
	{"child_process", Error, "child_process does not exist here; no program can be started, so bind a function of the host instead."},
	{"absent", Error, "exists in browsers or Node.js and not here; bind a function of the host, or write what it does."}, // behind the name
	{"top-level", Error, "await and return at the top work in modules and in feeds of a session; put the code into an async function and call it."},
	{"proto", Warning, "__proto__ changes what an object inherits from; Object.create and Object.getPrototypeOf say so openly."},
	{"constructor-chain", Warning, ".constructor.constructor is the constructor of functions, which makes code of text; write what is meant."},
	{"eval", Note, "eval() throws where the runtime has StrictEval; write the code out."},
	{"new-function", Note, "the constructor of functions throws where the runtime has StrictEval; write the function out."},
	{"syntax", Error, ""},
	{"limit", Error, ""},
}

// Rules are the names of all rules.
func Rules() []string {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.id
	}
	return ids
}

// absent are names of other hosts, and whether a name is reported wherever it is
// read (true), or only where it is called or asked for a property.
var absent = map[string]struct {
	rule       string
	everywhere bool
	call       bool // else a property
}{
	"require":        {"require", false, true},
	"fetch":          {"fetch", false, true},
	"XMLHttpRequest": {"xmlhttprequest", true, false},
	"WebSocket":      {"websocket", true, false},
	"process":        {"process", false, false},
	"Deno":           {"deno", false, false},
	"child_process":  {"child_process", true, false},
}

// others are further names that browsers and Node.js have and a guest has not, as
// an evaluation in one has shown. They are reported where they are called, made
// with new, or asked for a property.
var others = func() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(otherNames) {
		names[name] = true
	}
	return names
}()

const otherNames = "AbortController AbortSignal Blob BroadcastChannel Buffer Bun CustomEvent DOMParser Event EventSource EventTarget File FileReader FormData Headers " +
	"MessageChannel ReadableStream Request Response SharedArrayBuffer SharedWorker TextDecoder TextEncoder TransformStream URL URLSearchParams Worker WritableStream " +
	"alert atob btoa cancelAnimationFrame clearImmediate crypto document importScripts indexedDB localStorage navigator performance postMessage queueMicrotask " +
	"reportError requestAnimationFrame requestIdleCallback sessionStorage setImmediate structuredClone"

// globals are names of the global object, here or on other hosts.
var globals = []string{"globalThis", "window", "self", "global"}

// operators are words behind which a bracket begins an array.
var operators = []string{
	"await", "case", "default", "delete", "do", "else", "extends", "in", "instanceof", "new", "of", "return", "throw", "typeof", "void", "yield",
	"const", "let", "var",
}

// window is the last tokens: the one that is looked at is the second, so that
// what follows it is known.
type window struct {
	next, now, last, before *jstoken.Token
	chain                   chain
	params                  []string // names behind the last opening parenthesis
}

func newWindow() window {
	t := new([4]jstoken.Token)
	return window{next: &t[0], now: &t[1], last: &t[2], before: &t[3]}
}

// shift lets the next token in.
func (w *window) shift(tok *jstoken.Token) {
	w.next, w.now, w.last, w.before = w.before, w.next, w.now, w.last
	*w.next = *tok
}

// chain is what was written before a name: a.b["c"].
type chain struct {
	root    string    // the variable it begins with, "" for none
	members [2]string // the last two, the newest first
	pending string    // the string behind an opening bracket
}

// token takes the next token and looks at the one before it.
func (c *checker) token(tok *jstoken.Token) {
	c.shift(tok)
	if c.now.Kind == jstoken.Name && (c.now.Declares && !(c.now.Role == jstoken.Key && c.next.Is(":")) || c.next.Is("=>")) {
		c.declared[c.now.Name] = true
	}
	c.arrow()
	c.follow()
	switch c.now.Kind {
	case jstoken.Name:
		c.name()
	case jstoken.String:
		c.text()
	}
	if c.now.Is("]") && c.chain.root != "" || c.now.Role == jstoken.Member {
		c.member()
	}
	if tok.Kind == jstoken.EOF && c.now.Kind != jstoken.EOF {
		c.token(tok) // the last one
	}
}

// arrow notes the parameters of an arrow function in parentheses, those of which
// have none inside: only what follows the parentheses tells that they are some.
func (c *checker) arrow() {
	t := c.now
	switch {
	case t.Is("("):
		c.params = c.params[:0]
	case t.Kind == jstoken.Name && t.Role == jstoken.Word && (c.last.Is("(") || c.last.Is(",") || c.last.Is("...")) && len(c.params) < 64:
		c.params = append(c.params, t.Name)
	case t.Is(")"):
		if c.next.Is("=>") {
			for _, name := range c.params {
				c.declared[name] = true
			}
		}
		c.params = c.params[:0]
	}
}

// follow keeps the chain of members.
func (c *checker) follow() {
	t := c.now
	switch {
	case t.Kind == jstoken.Name && t.Role == jstoken.Member:
		c.chain.members = [2]string{t.Name, c.chain.members[0]}
	case t.Kind == jstoken.Name && slices.Contains(operators, t.Name):
		c.chain = chain{}
	case t.Kind == jstoken.Name:
		c.chain = chain{root: t.Name}
	case t.Is("."), t.Is("?."), t.Is("["):
	case t.Kind == jstoken.String && c.last.Is("[") && c.next.Is("]"):
		c.chain.pending = jstoken.Unquote(t.Text)
	case t.Is("]") && c.last.Kind == jstoken.String && c.chain.pending != "":
		c.chain.members = [2]string{c.chain.pending, c.chain.members[0]}
		c.chain.pending = ""
	default:
		c.chain = chain{}
		if t.Is(")") || t.Is("]") || t.Is("}") {
			c.chain.root = "()" // something that has members
		}
	}
}

// say reports a rule at a token.
func (c *checker) say(at *jstoken.Token, id, name string) {
	r := rules[slices.IndexFunc(rules, func(r rule) bool { return r.id == id })]
	c.report(at, r.severity, r.id, name, r.text)
}

// miss reports a name of others.
func (c *checker) miss(at *jstoken.Token, name string) {
	r := rules[slices.IndexFunc(rules, func(r rule) bool { return r.id == "absent" })]
	c.report(at, r.severity, r.id, name, name+" "+r.text)
}

// operand tells whether something follows that an await could wait for.
func (c *checker) operand() bool {
	switch c.next.Kind {
	case jstoken.Name, jstoken.Number, jstoken.String, jstoken.Template, jstoken.Regexp:
		return !c.next.IsWord("in") && !c.next.IsWord("instanceof") && !c.next.IsWord("of")
	}
	return c.next.Is("(") || c.next.Is("[") || c.next.Is("{")
}

// called tells whether what is looked at is called.
func (c *checker) called() bool { return c.next.Is("(") || c.next.Is("?.") }

// name looks at a word, or at a key.
func (c *checker) name() {
	t := c.now
	if t.Role == jstoken.Key {
		if t.Name == "__proto__" {
			c.say(t, "proto", "")
		}
		if !t.InObject || t.Declares || !(c.next.Is(",") || c.next.Is("}") || c.next.Is("=")) {
			return
		}
	} else if t.Role != jstoken.Word {
		return
	}
	if a, ok := absent[t.Name]; ok && !t.Declares {
		property := c.next.Is(".") || c.next.Is("?.") || c.next.Is("[")
		asked := c.last.IsWord("typeof") && !property // whether it exists
		if a.everywhere && !asked || a.call && c.called() || !a.call && property {
			c.say(t, a.rule, t.Name)
		}
		return
	}
	switch {
	case others[t.Name]:
		property := c.next.Is(".") || c.next.Is("[") || c.next.Is("?.")
		if !t.Declares && (c.next.Is("(") || property || c.last.IsWord("new") || c.last.IsWord("extends")) {
			c.miss(t, t.Name)
		}
	case c.o.Script && t.AtTop && (t.IsWord("return") || t.IsWord("await") && c.operand()):
		c.say(t, "top-level", "")
	case t.Name == "__proto__":
		c.say(t, "proto", "")
	case t.Name == "eval" && c.called() && !c.o.IgnoreEval:
		c.say(t, "eval", "eval")
	case t.Name == "Function" && (c.called() || c.last.IsWord("new")) && !c.o.IgnoreEval:
		c.say(t, "new-function", "Function")
	case t.IsWord("import") && c.next.Is("("):
		if !c.o.AllowDynamicImport {
			c.say(t, "dynamic-import", "")
		}
	case t.IsWord("import"), t.IsWord("export"):
		if !c.o.AllowImport {
			c.say(t, "import", "")
		}
	}
}

// text looks at a string where it names a property or a module.
func (c *checker) text() {
	t := c.now
	value := jstoken.Unquote(t.Text)
	switch {
	case t.Role == jstoken.Key && value == "__proto__":
		c.say(t, "proto", "")
	case (c.last.IsWord("from") || c.last.IsWord("import") || c.last.Is("(") && (c.before.IsWord("require") || c.before.IsWord("import"))) &&
		strings.TrimPrefix(value, "node:") == "child_process":
		c.say(t, "child_process", "")
	}
}

// member looks at the name of a property behind a point or in brackets.
func (c *checker) member() {
	at, name := c.now, c.chain.members[0]
	if at.Is("]") {
		if c.last.Kind != jstoken.String {
			return
		}
		at = c.last
	}
	switch {
	case name == "__proto__":
		c.say(at, "proto", "")
	case name == "constructor" && c.chain.members[1] == "constructor":
		c.say(at, "constructor-chain", "")
	case c.chain.members[1] != "" || !slices.Contains(globals, c.chain.root):
	case name == "eval" && c.called() && !c.o.IgnoreEval:
		c.say(at, "eval", "")
	case name == "Function" && c.called() && !c.o.IgnoreEval:
		c.say(at, "new-function", "")
	default:
		a, ok := absent[name]
		other := others[name]
		switch {
		case (ok || other) && c.next.Is("="):
			c.declared[name] = true
		case ok:
			c.say(at, a.rule, name)
		case other:
			c.miss(at, name)
		}
	}
}
