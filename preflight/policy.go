package preflight

import (
	"slices"

	"github.com/glovebox-dev/glovebox/internal/jstoken"
)

// Policy says what a caller does not want to see in a text. The zero value
// allows all that is JavaScript. Where in doubt it refuses: text whose tokens
// cannot be told for certain is not let through.
//
// It reads names as they are written, escapes included. A name that is put
// together at run time it cannot see; DenyComputed refuses the ways to use one
// as a property, js.Options.StrictEval as code.
type Policy struct {
	// Names are variables that may not be mentioned or declared.
	Names []string
	// Members are properties that may not be mentioned: behind a point, as a
	// string in brackets, or as a key of an object or pattern. Methods and fields
	// of classes may have these names.
	Members []string
	// DenyImport refuses import and export in every form.
	DenyImport bool
	// DenyEval refuses what makes code of text: eval, Function and every property
	// named eval, Function or constructor.
	DenyEval bool
	// DenyComputed refuses properties in brackets other than plain strings and
	// numbers, such as a[b]; as keys too.
	DenyComputed bool
	// Module says that the text is a module, Await that the top level of a script
	// may await. What is said here has to be what the engine is told.
	Module, Await bool
}

// PolicyRules are the rules of findings of a Policy. All are errors.
func PolicyRules() []string {
	return []string{"name", "member", "import", "eval", "computed", "syntax", "limit"}
}

// Check reads a text and reports what the policy does not want, all as errors,
// at most MaxFindings. The text is refused unless the result is OK.
func (p Policy) Check(source string) Result {
	c := policyChecker{p: p}
	c.window = newWindow()
	t := jstoken.New(source, jstoken.Options{Module: p.Module, Await: p.Await})
	for {
		tok := t.Next()
		c.shift(&tok)
		c.look()
		if tok.Kind == jstoken.EOF {
			c.shift(&tok)
			c.look()
			break
		}
	}
	if problem := t.Problem(); problem != nil {
		c.problem(problem)
	}
	return c.result()
}

// policyChecker is a checker with other rules. Its chain of members is not used.
type policyChecker struct {
	checker
	p Policy
}

func (c *policyChecker) deny(at *jstoken.Token, rule, text string) {
	c.report(at, Error, rule, "", text)
}

// look looks at one token and its neighbours.
func (c *policyChecker) look() {
	t := c.now
	square := c.last.Is("[") && (c.last.AfterOperand || c.last.InObject) // it asks for a property
	closed := c.next.Is("]")
	switch {
	case t.Kind == jstoken.Name:
		c.policyName()
	case t.Kind == jstoken.String && t.Role == jstoken.Key && t.InObject,
		square && closed && (t.Kind == jstoken.String || t.Kind == jstoken.Template && t.Text[0] == '`'):
		c.property(jstoken.Unquote(t.Text))
		return
	case square && closed && t.Kind == jstoken.Number:
		return
	}
	if square && c.p.DenyComputed && !t.Is("]") {
		c.deny(c.last, "computed", "a property that is computed is not allowed; write its name.")
	}
}

// policyName looks at a name in any role.
func (c *policyChecker) policyName() {
	t := c.now
	switch t.Role {
	case jstoken.Member:
		c.property(t.Name)
		return
	case jstoken.Key:
		if !t.InObject {
			return
		}
		c.property(t.Name)
		if c.next.Is(":") || c.next.Is("(") {
			return
		}
	case jstoken.Label:
		return
	}
	switch {
	case slices.Contains(c.p.Names, t.Name):
		c.deny(t, "name", "the name "+t.Name+" is not allowed.")
	case c.p.DenyEval && (t.Name == "eval" || t.Name == "Function") && t.Role == jstoken.Word:
		c.deny(t, "eval", t.Name+" makes code of text, which is not allowed.")
	case c.p.DenyImport && (t.IsWord("import") || t.IsWord("export")):
		c.deny(t, "import", t.Name+" is not allowed.")
	}
}

// property looks at the name of a property.
func (c *policyChecker) property(name string) {
	switch {
	case slices.Contains(c.p.Members, name):
		c.deny(c.now, "member", "the property "+name+" is not allowed.")
	case c.p.DenyEval && (name == "eval" || name == "Function" || name == "constructor"):
		c.deny(c.now, "eval", "the property "+name+" leads to code made of text, which is not allowed.")
	}
}
