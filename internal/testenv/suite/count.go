package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// count adds up the results of go test.
type count struct{ passed, failed int }

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// read reads the events of a whole run. It prints a line for each package and,
// before it, what its failed tests said. Only tests are counted, not their
// parts, and a package that fails without one of them.
func (c *count) read(events io.Reader, out io.Writer) error {
	p := printer{out: out, said: map[string]*strings.Builder{}, failedIn: map[string]bool{}, tests: map[string]int{}}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(out, "%s", line) // not an event: something that go itself says
			} else {
				p.take(e, c)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type printer struct {
	out      io.Writer
	said     map[string]*strings.Builder // package and top test to output
	failedIn map[string]bool             // packages with a counted failure
	tests    map[string]int              // of each package that runs
}

func (p *printer) take(e event, c *count) {
	top, _, part := strings.Cut(e.Test, "/")
	key := e.Package + " " + top
	switch e.Action {
	case "build-output":
		fmt.Fprint(p.out, e.Output)
	case "output":
		if p.said[key] == nil {
			p.said[key] = &strings.Builder{}
		}
		p.said[key].WriteString(e.Output)
	case "skip":
		if e.Test != "" {
			fmt.Fprintf(p.out, "--- SKIPPED, which counts as failed: %s.%s\n", e.Package, e.Test)
			c.failed++
			p.failedIn[e.Package] = true
		}
	case "pass", "fail":
		switch {
		case e.Test == "":
			p.endPackage(e, c)
		case part:
		case e.Action == "pass":
			c.passed++
			p.tests[e.Package]++
		default:
			c.failed++
			p.failedIn[e.Package] = true
			fmt.Fprint(p.out, p.said[key])
		}
		if e.Test == "" || !part {
			delete(p.said, key)
		}
	}
}

func (p *printer) endPackage(e event, c *count) {
	if e.Action == "fail" {
		if !p.failedIn[e.Package] {
			c.failed++
			p.printAll(e.Package)
		}
		fmt.Fprintf(p.out, "FAIL  %s  %.1f s\n", e.Package, e.Elapsed)
	} else if n := p.tests[e.Package]; n > 0 || p.failedIn[e.Package] {
		fmt.Fprintf(p.out, "ok    %s  %d tests  %.1f s\n", e.Package, n, e.Elapsed)
	}
	delete(p.tests, e.Package)
}

// printAll prints what a package said that died in the middle of a test.
func (p *printer) printAll(pkg string) {
	for key, text := range p.said {
		if strings.HasPrefix(key, pkg+" ") {
			fmt.Fprint(p.out, text)
		}
	}
}
