// Command gen writes docs/ledger.json and docs/security-report.md from the
// tests' comments, docs/scope.txt and docs/open.md. It runs at the repository's
// root.
//
//	go run ./internal/ledger/gen           write
//	go run ./internal/ledger/gen -prune    and take proved rows out of docs/open.md
//	go run ./internal/ledger/gen -check    write nothing, fail on what is stale or missing
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/internal/ledger"
)

func main() {
	prune := flag.Bool("prune", false, "take rows that a test proves out of docs/open.md")
	check := flag.Bool("check", false, "write nothing; fail if a file is stale or a claim has no place")
	flag.Parse()
	problems, err := run(".", *prune, *check)
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "ledger:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func run(root string, prune, check bool) ([]string, error) {
	l, problems, err := load(root)
	if err != nil {
		return problems, err
	}
	if prune {
		l.Prune()
	}
	problems = append(problems, l.Problems()...)
	files := []struct {
		name string
		text []byte
	}{{"docs/ledger.json", l.JSON()}, {"docs/security-report.md", l.Report()}}
	if prune {
		files = append(files, struct {
			name string
			text []byte
		}{"docs/open.md", l.OpenText()})
	}
	for _, f := range files {
		name := filepath.Join(root, f.name)
		if !check {
			if err := os.WriteFile(name, f.text, 0o644); err != nil {
				return problems, err
			}
			continue
		}
		if old, err := os.ReadFile(name); err != nil || !bytes.Equal(old, f.text) {
			problems = append(problems, f.name+" is stale: run make ledger")
		}
	}
	fmt.Printf("ledger: %d claims, %d ids proved, %d open\n", len(l.Scope), len(l.Proofs), len(l.Open))
	return problems, nil
}

func load(root string) (*ledger.Ledger, []string, error) {
	proofs, problems, err := ledger.Scan(os.DirFS(root))
	if err != nil {
		return nil, problems, err
	}
	scopeText, err := os.ReadFile(filepath.Join(root, "docs/scope.txt"))
	if err != nil {
		return nil, problems, err
	}
	openText, err := os.ReadFile(filepath.Join(root, "docs/open.md"))
	if err != nil {
		return nil, problems, err
	}
	scope, err := ledger.ParseScope(string(scopeText))
	if err != nil {
		return nil, problems, err
	}
	open, err := ledger.ParseOpen(string(openText))
	return &ledger.Ledger{Scope: scope, Proofs: proofs, Open: open}, problems, err
}
