// Command gen writes docs/ledger.json and docs/security-report.md from the
// tests' comments, docs/scope.txt, docs/open.md, docs/findings.txt,
// docs/rejected.md, SECURITY.md, the red team's battery, the layers of a cell and
// the code itself. It runs at the repository's root and needs the go command.
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

	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/ledger"
	"github.com/glovebox-dev/glovebox/redteam"
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

// file is one that is written, or compared.
type file struct {
	name string
	text []byte
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
	r, err := report(root, l)
	if err != nil {
		return problems, err
	}
	files := []file{{"docs/ledger.json", l.JSON()}, {"docs/security-report.md", r.Text()}}
	if prune {
		files = append(files, file{"docs/open.md", l.OpenText()})
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

// texts reads files of the repository.
func texts(root string, names ...string) ([]string, error) {
	var out []string
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(root, n))
		if err != nil {
			return nil, err
		}
		out = append(out, string(b))
	}
	return out, nil
}

func load(root string) (*ledger.Ledger, []string, error) {
	proofs, tests, problems, err := ledger.Scan(os.DirFS(root))
	if err != nil {
		return nil, problems, err
	}
	t, err := texts(root, "docs/scope.txt", "docs/open.md")
	if err != nil {
		return nil, problems, err
	}
	scope, err := ledger.ParseScope(t[0])
	if err != nil {
		return nil, problems, err
	}
	open, err := ledger.ParseOpen(t[1])
	return &ledger.Ledger{Scope: scope, Proofs: proofs, Tests: tests, Open: open}, problems, err
}

// report gathers what stands beside the claims.
func report(root string, l *ledger.Ledger) (*ledger.Report, error) {
	r := &ledger.Report{Ledger: l}
	t, err := texts(root, "SECURITY.md", "CHANGELOG.md", "docs/findings.txt", "docs/rejected.md")
	if err != nil {
		return nil, err
	}
	if r.Never, err = ledger.NotPromised(t[0]); err != nil {
		return nil, err
	}
	if r.Findings, err = ledger.ParseFindings(t[2], t[1], func(test string) bool { return l.Tests[test] }); err != nil {
		return nil, err
	}
	if r.Rejected, err = ledger.ParseRejected(t[3]); err != nil {
		return nil, err
	}
	for _, a := range redteam.List("") {
		group, name := filepath.Split(a.Attack)
		r.Attacks = append(r.Attacks, ledger.Attack{Group: filepath.Clean(group), Name: name, Layers: a.Layers, StandIn: redteam.StandIn(a.Attack)})
	}
	for _, x := range cell.Losses() {
		r.Losses = append(r.Losses, ledger.Loss(x))
	}
	r.Code, r.Modules, err = trusted(root)
	return r, err
}
