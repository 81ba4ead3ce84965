package agent

import (
	"cmp"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/termtext"
)

// The functions of discovery.
const (
	searchName   = catalogSpace + ".search"
	describeName = catalogSpace + ".describe"
)

// maxFound is how many tools a search returns.
const maxFound = 20

// Found is what a search says of a tool.
type Found struct {
	Name    string `json:"name"`
	Summary string `json:"summary"` // the first line of its description, made safe to show
}

// Description is what the guest gets of one tool.
type Description struct {
	Name        string `json:"name"`
	Declaration string `json:"declaration"` // in TypeScript
}

var tsString = &tsType{word: "string"}

// discovery declares the functions of discovery.
func (p *tsPrinter) discovery() {
	found := &tsType{kind: tsArray, parts: []*tsType{{kind: tsObject, fields: []tsField{{name: "name", typ: tsString}, {name: "summary", typ: tsString}}}}}
	one := &tsType{kind: tsObject, fields: []tsField{{name: "name", typ: tsString}, {name: "declaration", typ: tsString}}}
	p.function(1, p.prefix(1), "describe", "Declares a function; from then on it can be called.", []tsParam{{name: "name", typ: tsString}}, one)
	p.function(1, p.prefix(1), "search", "Finds functions by words of their names and descriptions.", []tsParam{{name: "query", typ: tsString}}, found)
}

// The bounds of a search: a guest may make many.
const (
	maxQueryWords = 8
	maxSearched   = 1 << 10 // bytes of a description
)

// findable is what a search looks at.
type findable struct{ name, doc, summary string }

func newFindable(t Tool) findable {
	doc := termtext.Plain(cutText(t.Description, maxSearched))
	line, _, _ := strings.Cut(doc, "\n")
	return findable{strings.ToLower(t.Name), strings.ToLower(doc), cutText(line, maxFieldDoc)}
}

// search finds the tools, lazy or not, that have most of the first eight words
// of a query, at most 20. It loads and runs nothing.
func (c *Catalog) search(query string) []Found {
	words := strings.Fields(strings.ToLower(cutText(query, 400)))
	words = words[:min(len(words), maxQueryWords)]
	type scored struct {
		tool  *boundTool
		score int
	}
	var all []scored
	for _, b := range c.tools {
		s := scored{tool: b}
		for _, w := range words {
			switch {
			case strings.Contains(b.find.name, w):
				s.score += 3
			case strings.Contains(b.find.doc, w):
				s.score++
			}
		}
		if s.score > 0 || len(words) == 0 {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	out := []Found{}
	for _, s := range all[:min(len(all), maxFound)] {
		out = append(out, Found{s.tool.Name, s.tool.find.summary})
	}
	return out
}
