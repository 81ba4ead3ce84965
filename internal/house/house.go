// Package house holds the rules of the house that no standard tool checks:
// short files and functions, tests that never skip, text that is finished and
// speaks of no one's own machine.
package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The longest a file and a function may be, in lines. One that is longer says
// why in its first comment, with "because".
const (
	MaxFile = 600
	MaxFunc = 60
)

// rule is a word or phrase that the text of the repository does not hold.
type rule struct {
	pattern *regexp.Regexp
	why     string
}

// The patterns are written so that this file does not match itself.
var rules = []rule{
	{regexp.MustCompile(`\b(TO[D]O|FI[X]ME|X[X]X|HA[C]K)\b`), "unfinished: do it, or open an issue"},
	{regexp.MustCompile(`(?i)\blorem[ ]ipsum\b|\bcoming[ ]soon\b|\bnot[ ]yet[ ]implemented\b`), "a placeholder"},
	{regexp.MustCompile(`(^|[^\w.])/(work|Users)/`), "a path of one developer's machine"},
	{regexp.MustCompile(`\bfarm[-]\w`), "a tool that is not part of the project"},
	{regexp.MustCompile(`\b(proxy|sum)\.golang\.org\b|\bregistry\.npmjs\.org\b|\bpypi\.org\b`), "the host of a package registry"},
	{regexp.MustCompile(`(?i)\bco-authored[-]by:|\bgenerated[ ]with[ ]`), "a signature of a tool"},
	{regexp.MustCompile(`(?m)^(<{7}|>{7}|={7})( |$)`), "a leftover of a merge"},
}

// Check returns one sentence for each broken rule in a file, whose name is
// relative to the repository's root. Files that are not text are left alone.
func Check(name string, src []byte) []string {
	if !utf8.Valid(src) || path.Base(name) == "LICENSE" || path.Base(name) == "go.sum" {
		return nil
	}
	found := checkText(name, string(src))
	if path.Ext(name) == ".go" {
		found = append(found, checkGo(name, src)...)
	}
	return found
}

func checkText(name, src string) []string {
	var found []string
	for _, r := range rules {
		for _, at := range r.pattern.FindAllStringIndex(src, -1) {
			line := 1 + strings.Count(src[:at[0]], "\n")
			found = append(found, fmt.Sprintf("%s:%d: %q: %s", name, line, strings.TrimSpace(src[at[0]:at[1]]), r.why))
		}
	}
	return found
}

// checkGo looks at the lengths of a Go file and its functions, and for calls
// that skip a test.
func checkGo(name string, src []byte) []string {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	if ast.IsGenerated(tree) {
		return nil
	}
	var found []string
	if n := strings.Count(string(src), "\n"); n > MaxFile && !(len(tree.Comments) > 0 && excused(tree.Comments[0])) {
		found = append(found, fmt.Sprintf("%s: %d lines, more than %d, and its first comment does not say because of what", name, n, MaxFile))
	}
	test := strings.HasSuffix(name, "_test.go")
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			from, to := fset.Position(n.Pos()).Line, fset.Position(n.End()).Line
			if size := to - from + 1; size > MaxFunc && !excused(n.Doc) {
				found = append(found, fmt.Sprintf("%s:%d: %s has %d lines, more than %d, and its comment does not say because of what",
					name, from, n.Name.Name, size, MaxFunc))
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && test && skips(sel) {
				found = append(found, fmt.Sprintf("%s:%d: a test never skips: deselect it by name (see CONTRIBUTING.md) or let it fail",
					name, fset.Position(sel.Sel.Pos()).Line))
			}
		}
		return true
	})
	return found
}

// excused reports whether a comment gives the reason for a length.
func excused(c *ast.CommentGroup) bool {
	return c != nil && regexp.MustCompile(`(?i)\blong\b[\s\S]*\bbecause\b`).MatchString(c.Text())
}

func skips(sel *ast.SelectorExpr) bool {
	switch sel.Sel.Name {
	case "Skip", "Skipf", "SkipNow":
		return true
	case "Short":
		x, ok := sel.X.(*ast.Ident)
		return ok && x.Name == "testing"
	}
	return false
}
