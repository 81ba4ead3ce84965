// Command soak runs what takes too long for every day, one part after the other:
// the long loops (tests with the build tag soak and Soak in their name), every
// mutation, and each fuzz target for a time.
//
//	soak [-only loops|mutations|fuzz] [-fuzz 10m] [PACKAGE]…
//
// It tells before each part how many are to come, goes on after a part that fails,
// and ends with a table of all and "N passed, M failed"; the status is 1 if one
// failed or none ran.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// part is one command and what became of it.
type part struct {
	name string
	args []string // of go
	took time.Duration
	err  error
}

func main() {
	only := flag.String("only", "", "loops, mutations or fuzz; all when empty")
	fuzz := flag.Duration("fuzz", 10*time.Minute, "how long each fuzz target runs")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	parts, err := plan(*only, *fuzz, packages)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	failed := 0
	for i, p := range parts {
		fmt.Printf("=== %d of %d: %s\n", i+1, len(parts), p.name)
		begin := time.Now()
		cmd := exec.Command("go", p.args...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		p.err, p.took = cmd.Run(), time.Since(begin)
		if p.err != nil {
			failed++
		}
	}
	fmt.Printf("\n%s\n", time.Now().Format(time.DateOnly))
	for _, p := range parts {
		said := "passed"
		if p.err != nil {
			said = "FAILED: " + p.err.Error()
		}
		fmt.Printf("%8.0f s  %-60s %s\n", p.took.Seconds(), p.name, said)
	}
	fmt.Printf("%d passed, %d failed\n", len(parts)-failed, failed)
	if failed > 0 || len(parts) == 0 {
		os.Exit(1)
	}
}

// plan lists the parts.
func plan(only string, fuzz time.Duration, packages []string) ([]*part, error) {
	var parts []*part
	switch only {
	case "", "loops", "mutations", "fuzz":
	default:
		return nil, fmt.Errorf("there is no part %q", only)
	}
	if only == "" || only == "loops" {
		// One package at a time, else nothing is shown before its end.
		parts = append(parts, &part{name: "loops", args: append(
			[]string{"test", "-tags", "soak", "-p", "1", "-count=1", "-run", "Soak", "-timeout", "120m", "-v"}, packages...)})
	}
	if only == "" || only == "mutations" {
		parts = append(parts, &part{name: "mutations", args: []string{"run", "./internal/mutations/run"}})
	}
	if only == "" || only == "fuzz" {
		targets, err := targets(packages)
		if err != nil {
			return nil, err
		}
		fmt.Printf("%d fuzz targets for %v each: %v\n", len(targets), fuzz, time.Duration(len(targets))*fuzz)
		for _, t := range targets {
			parts = append(parts, &part{name: t[0] + " " + t[1], args: []string{"test", "-run", "^$", "-fuzz", "^" + t[1] + "$", "-fuzztime", fuzz.String(), t[0]}})
		}
	}
	return parts, nil
}

// targets are the fuzz targets of the packages, each with its package.
func targets(packages []string) ([][2]string, error) {
	list, err := output(append([]string{"list"}, packages...)...)
	if err != nil {
		return nil, err
	}
	var all [][2]string
	for _, pkg := range strings.Fields(list) {
		names, err := output("test", "-list", "^Fuzz", pkg)
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", pkg, err, names)
		}
		for _, name := range strings.Fields(names) {
			if strings.HasPrefix(name, "Fuzz") {
				all = append(all, [2]string{pkg, name})
			}
		}
	}
	return all, nil
}

func output(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
