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

// search finds the tools, lazy or not, that have most of the words of a query,
// at most 20. It loads and runs nothing.
func (c *Catalog) search(query string) []Found {
	words := strings.Fields(strings.ToLower(cutText(query, 400)))
	type scored struct {
		tool  *boundTool
		score int
	}
	var all []scored
	for _, b := range c.tools {
		s := scored{tool: b}
		name, doc := strings.ToLower(b.Name), strings.ToLower(cutText(b.Description, 4*maxToolDoc))
		for _, w := range words {
			switch {
			case strings.Contains(name, w):
				s.score += 3
			case strings.Contains(doc, w):
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
		line, _, _ := strings.Cut(termtext.Plain(cutText(s.tool.Description, maxToolDoc)), "\n")
		out = append(out, Found{s.tool.Name, cutText(line, maxFieldDoc)})
	}
	return out
}
