// Package preflight reads JavaScript before it runs and says what will not work
// in a Glovebox worker: what every other host has and this one has not, each
// with its place and a sentence on what to do instead. It is for authors and
// models, who get a line instead of a ReferenceError.
//
//	result := preflight.Check(source, preflight.Options{})
//	if !result.OK() {
//		fmt.Print(result)
//	}
//
// It is no boundary, and nothing that holds a guest asks it. It knows tokens and
// no scopes, and a program that wants to pass it does: globalThis["fet" + "ch"],
// a string made at run time, another name for eval. What such a program meets is
// the worker, where these things do not exist. A clean result means that the
// text has none of the common mistakes.
//
// [Policy] is the same reading with another purpose: lists of names that a
// caller does not want to see in a text, refused where in doubt.
package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/jstoken"
)

// Severity says how much a finding weighs.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // it fails when it runs
	Warning Severity = "warning" // it works, and is seldom meant
	Note    Severity = "note"    // it works unless Options of the runtime say otherwise
)

// Finding is one thing at one place.
type Finding struct {
	Line     int      `json:"line"`   // from 1; lines end as in ECMAScript
	Column   int      `json:"column"` // from 1, in UTF-16 code units, as in the engine's stacks
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule"`    // one of Rules
	Message  string   `json:"message"` // one sentence
}

// String is "LINE:COL SEVERITY [RULE] SENTENCE".
func (f Finding) String() string {
	return fmt.Sprintf("%d:%d %s [%s] %s", f.Line, f.Column, f.Severity, f.Rule, f.Message)
}

// MaxFindings is how many findings a result has by default, and MaxSource the
// longest text in bytes.
const (
	MaxFindings = 100
	MaxSource   = jstoken.MaxSource
)

// Options of a check. The zero value reports everything.
type Options struct {
	// AllowImport is for modules: import and export are not reported, the top
	// level may await, and <!-- is no comment.
	AllowImport bool
	// AllowDynamicImport does not report import().
	AllowDynamicImport bool
	// Script is for texts that run as a script and are not fed to a session: await and
	// return at the top are reported. Beside AllowImport it means nothing.
	Script bool
	// IgnoreEval does not report eval and the constructor of functions.
	IgnoreEval bool
	// Bound are names that the host binds, such as "fetch": they are not reported.
	Bound []string
	// MaxFindings is how many findings are kept; 0 is the constant MaxFindings,
	// a negative number keeps none and counts all.
	MaxFindings int
}

// Result is what a check has found. The zero value is a clean one.
type Result struct {
	Findings []Finding `json:"findings"` // in order of their places
	More     int       `json:"more"`     // findings that were not kept
	errors   int
}

// OK tells whether there is no finding of severity error.
func (r Result) OK() bool { return r.errors == 0 }

// String has a line for each finding.
func (r Result) String() string {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(f.String() + "\n")
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", r.More)
	}
	return b.String()
}

// Check reads a script, or with AllowImport a module. Its time and memory are
// bounded by the text's length; it never fails: text that cannot be read has the
// finding "syntax" or "limit".
func Check(source string, o Options) Result {
	o.Script = o.Script && !o.AllowImport
	c := checker{o: o, window: newWindow(), declared: map[string]bool{}}
	for _, name := range o.Bound {
		c.declared[name] = true
	}
	t := jstoken.New(source, jstoken.Options{Module: o.AllowImport, Await: true})
	for {
		tok := t.Next()
		c.token(&tok)
		if tok.Kind == jstoken.EOF {
			break
		}
	}
	if p := t.Problem(); p != nil {
		c.problem(p)
	}
	return c.result()
}

// candidate is a finding that does not count if its name is declared somewhere.
type candidate struct {
	Finding
	name string // "" counts always
}

// checker holds a check while tokens come.
type checker struct {
	o        Options
	window   // the tokens around the one that is looked at
	found    []candidate
	dropped  int // findings above keep, whatever they are of
	declared map[string]bool
}

// keep bounds the candidates. Those that turn out to be declared make room in
// the result, so there are more of them than findings.
const keep = 10_000

func (c *checker) report(at *jstoken.Token, s Severity, rule, name, message string) {
	if len(c.found) == keep {
		c.dropped++
		return
	}
	c.found = append(c.found, candidate{Finding{at.Line, at.Col, s, rule, message}, name})
}

func (c *checker) problem(p *jstoken.Problem) {
	rule, text := "syntax", "the text is no JavaScript: "+p.Text+"."
	if p.Limit {
		rule, text = "limit", "the text is not read further: "+p.Text+"."
	}
	if len(c.found) == keep {
		c.found = c.found[:keep-1]
		c.dropped++
	}
	c.found = append(c.found, candidate{Finding: Finding{p.Line, p.Col, Error, rule, text}})
}

func (c *checker) result() Result {
	r := Result{Findings: []Finding{}, More: c.dropped}
	most := cmp.Or(c.o.MaxFindings, MaxFindings)
	slices.SortStableFunc(c.found, func(a, b candidate) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	for _, f := range c.found {
		if f.name != "" && c.declared[f.name] {
			continue
		}
		if f.Severity == Error {
			r.errors++
		}
		if len(r.Findings) < most {
			r.Findings = append(r.Findings, f.Finding)
		} else {
			r.More++
		}
	}
	if c.dropped > 0 {
		r.errors++ // nobody knows what they were
	}
	return r
}
