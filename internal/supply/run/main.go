// Command run looks at what Glovebox is made of. It runs at the repository's root
// and needs the go command.
//
//	go run ./internal/supply/run -write        docs/licenses.md
//	go run ./internal/supply/run -check        licences, sums, pinned tools; needs no network
//	go run ./internal/supply/run -sbom FILE PROGRAM...   a list of parts, SPDX 2.3
//	go run ./internal/supply/run -vulns        known vulnerabilities; needs the network
//	go run ./internal/supply/run -engine       is a newer JavaScript engine out? needs the network
package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/supply"
)

func main() {
	write := flag.Bool("write", false, "write "+licenses)
	check := flag.Bool("check", false, "check licences, sums and pinned tools, and write nothing")
	sbom := flag.String("sbom", "", "write the list of parts of these programs to this `file`")
	vulns := flag.Bool("vulns", false, "look for known vulnerabilities")
	watch := flag.Bool("engine", false, "compare this host's JavaScript engine with the newest stable release")
	fail := flag.Bool("fail-newer", false, "with -engine: a newer one is an error, for a job that watches")
	flag.Parse()
	var err error
	switch {
	case *sbom != "":
		err = bill(*sbom, flag.Args())
	case *vulns:
		err = vulnerabilities()
	case *watch:
		err = engine(*fail)
	case *check:
		err = checkAll()
	case *write:
		err = writeLicenses()
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "supply:", err)
		os.Exit(1)
	}
}

const licenses = "docs/licenses.md"

// programs are what is built and shipped.
var programs = []string{"glovebox", "glovebox-init", "glovebox-js"}

// golang runs the go command and returns what it prints.
func golang(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, &stderr)
	}
	return string(out), nil
}

// modules lists what is linked into the programs, and, if it is wanted, what tests
// and tools use besides, with the licence of each.
func modules(all bool) ([]supply.Module, error) {
	const format = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"
	found := map[string]*supply.Module{}
	list := func(program string, args ...string) error {
		out, err := golang(append([]string{"list", "-deps", "-f", format}, args...)...)
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) != 3 {
				continue
			}
			m := found[f[0]]
			if m == nil {
				m = &supply.Module{Path: f[0], Version: f[1], Dir: f[2]}
				found[f[0]] = m
			}
			if program != "" && !slices.Contains(m.In, program) {
				m.In = append(m.In, program)
			}
		}
		return nil
	}
	for _, p := range programs {
		if err := list(p, "./cmd/"+p); err != nil {
			return nil, err
		}
	}
	if all {
		if err := list("", "-test", "./..."); err != nil {
			return nil, err
		}
	}
	apache, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	known, err := supply.NewLicences(string(apache))
	if err != nil {
		return nil, err
	}
	var out []supply.Module
	var errs []error
	for _, m := range found {
		errs = append(errs, known.Find(m))
		out = append(out, *m)
	}
	return out, errors.Join(errs...)
}

func writeLicenses() error {
	all, err := modules(true)
	if err != nil {
		return err
	}
	return os.WriteFile(licenses, []byte(supply.Table(all)), 0o644)
}

// checkAll is the part of it that needs no network.
func checkAll() error {
	all, err := modules(true)
	if err != nil {
		return err
	}
	var errs []error
	if now, err := os.ReadFile(licenses); err != nil || string(now) != supply.Table(all) {
		errs = append(errs, errors.New(licenses+" is stale: run make ledger"))
	}
	sums, err := os.Open("go.sum")
	if err != nil {
		return err
	}
	defer sums.Close()
	has, err := supply.Sums(sums)
	if err != nil {
		return err
	}
	for _, m := range all {
		if !has[m.Path+" "+m.Version] {
			errs = append(errs, fmt.Errorf("%s %s has not both sums in go.sum", m.Path, m.Version))
		}
	}
	if _, err := golang("mod", "verify"); err != nil {
		errs = append(errs, err)
	}
	for _, name := range []string{"Makefile", ".ci/run"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, u := range supply.Unpinned(name, string(text)) {
			errs = append(errs, errors.New(u))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("supply: %d modules, their licences and sums as they should be\n", len(all))
	return nil
}

// bill writes the list of parts of some built programs. SOURCE_DATE_EPOCH, if it
// is set, is the time of it, so that the same build gives the same list.
func bill(name string, paths []string) error {
	created := time.Now()
	if v := os.Getenv("SOURCE_DATE_EPOCH"); v != "" {
		s, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		created = time.Unix(s, 0)
	}
	linked, err := modules(false)
	if err != nil {
		return err
	}
	var built []supply.Program
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		info, err := buildinfo.Read(bytes.NewReader(b))
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		built = append(built, supply.Program{Name: filepath.Base(p), Bytes: b, Info: info})
	}
	d := supply.Bill(built, func(module string) string {
		if module == "std" {
			return "BSD-3-Clause"
		}
		i := slices.IndexFunc(linked, func(m supply.Module) bool { return m.Path == module })
		if i < 0 {
			return ""
		}
		return linked[i].Licence
	}, created)
	if err := d.Validate(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
