package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/ledger"
)

// outside and inside are what makes a cell: the host's side, and the program that
// is inside of every cell.
const (
	outside = "./internal/cell"
	inside  = "./cmd/glovebox-init"
)

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir     string
	Standard            bool
	GoFiles, EmbedFiles []string
	Module              *struct {
		Path, Version string
		Main          bool
	}
}

// trusted counts the lines of the packages that a cell depends on, and names the
// modules that are linked into glovebox-init. It looks at what is compiled for
// Linux on amd64, so that it says the same on every machine.
func trusted(root string) ([]ledger.Package, []string, error) {
	within, err := dependencies(root, inside)
	if err != nil {
		return nil, nil, err
	}
	all, err := dependencies(root, outside, inside)
	if err != nil {
		return nil, nil, err
	}
	var code []ledger.Package
	var modules []string
	for _, p := range all {
		isInside := slices.ContainsFunc(within, func(w listed) bool { return w.ImportPath == p.ImportPath })
		switch {
		case p.Standard || p.Module == nil:
		case p.Module.Main:
			c := ledger.Package{Path: strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"), Inside: isInside}
			for _, f := range p.GoFiles {
				src, err := os.ReadFile(filepath.Join(p.Dir, f))
				if err != nil {
					return nil, nil, err
				}
				c.Lines += ledger.CodeLines(src)
			}
			for _, f := range p.EmbedFiles {
				src, err := os.ReadFile(filepath.Join(p.Dir, f))
				if err != nil {
					return nil, nil, err
				}
				c.Data += dataLines(src)
			}
			code = append(code, c)
		case isInside:
			modules = append(modules, p.Module.Path+" "+p.Module.Version)
		}
	}
	slices.SortFunc(code, func(a, b ledger.Package) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(modules)
	return code, slices.Compact(modules), nil
}

// dataLines counts the lines of a file of data that are neither empty nor a
// remark.
func dataLines(src []byte) int {
	n := 0
	for line := range bytes.Lines(src) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			n++
		}
	}
	return n
}

// dependencies are all packages that these are made of, themselves included.
func dependencies(root string, packages ...string) ([]listed, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,EmbedFiles,Module"}, packages...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var out []listed
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var p listed
		switch err := d.Decode(&p); err {
		case nil:
			out = append(out, p)
		case io.EOF:
			return out, nil
		default:
			return nil, err
		}
	}
}
