// Package mutations has a list of ways to break the wall, each with the test
// that must notice. A test that stays green when the guard that it is about is
// gone proves nothing; the list makes that visible. The command in run applies
// one mutation at a time to a copy of the tree and runs its test.
package mutations

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed list.txt
var list string

// Mutation is one guard taken away.
type Mutation struct {
	Name string
	// File is relative to the module. Old is in it exactly once; New takes its
	// place.
	File, Old, New string
	// Package and Test are what must fail then, as go test takes them.
	Package, Test string
	// Slow is a test that takes too long for a choice by chance in every run of CI.
	Slow bool
}

// All returns the list.
func All() ([]Mutation, error) { return Parse(list) }

// Parse reads a list. A mutation is a few lines, and an empty one behind it:
//
//	NAME
//	file FILE
//	- the text as it is, from its first character that is no space
//	+ what takes its place; none, or an empty one, takes the text away
//	test PACKAGE TEST
//	slow
//
// The last line is for a test that takes more than some ten seconds.
// Several - or + lines are one text; from the second on they keep their
// spaces. # begins a remark.
func Parse(text string) ([]Mutation, error) {
	var out []Mutation
	names := map[string]bool{}
	for _, block := range strings.Split(text, "\n\n") {
		var m Mutation
		var from, to []string
		for _, line := range strings.Split(strings.Trim(block, "\n"), "\n") {
			word, rest, _ := strings.Cut(line, " ")
			switch {
			case line == "" || line[0] == '#':
			case word == "-":
				from = append(from, rest)
			case word == "+":
				to = append(to, rest)
			case m.Name == "":
				m.Name = line
			case word == "file":
				m.File = rest
			case line == "slow":
				m.Slow = true
			case word == "test":
				m.Package, m.Test, _ = strings.Cut(rest, " ")
			default:
				return nil, fmt.Errorf("mutation %q: line %q", m.Name, line)
			}
		}
		if m.Name == "" {
			continue // remarks only
		}
		m.Old, m.New = strings.Join(from, "\n"), strings.Join(to, "\n")
		if m.File == "" || m.Old == "" || m.Old == m.New || m.Test == "" || names[m.Name] {
			return nil, fmt.Errorf("mutation %q is not whole, changes nothing, or is there twice", m.Name)
		}
		names[m.Name] = true
		out = append(out, m)
	}
	return out, nil
}

// Apply returns the text of the file with the guard taken away.
func (m Mutation) Apply(text string) (string, error) {
	if n := strings.Count(text, m.Old); n != 1 {
		return "", fmt.Errorf("mutation %q: its text is in %s %d times", m.Name, m.File, n)
	}
	return strings.Replace(text, m.Old, m.New, 1), nil
}
