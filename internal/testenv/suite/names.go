package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// onVM is the name part of tests that change settings of the whole kernel, or
// need one that lacks something; .ci/run starts them in machines of their own.
const onVM = "OnVM"

// cgroupDeselect is the name part of the cgroup version that this host does not
// have for memory.
func cgroupDeselect() string {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return cgroupPart(string(mounts))
}

func cgroupPart(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		_, right, _ := strings.Cut(line, " - ")
		f := strings.Fields(right)
		if len(f) > 2 && f[0] == "cgroup" && strings.Contains(","+f[2]+",", ",memory,") {
			return "OnV2"
		}
	}
	return "OnV1"
}

// skipPattern is the argument of go test -skip for tests, and parts of tests,
// whose name has one of these in it.
func skipPattern(parts []string) string {
	all := make([]string, 0, 2*len(parts))
	for _, p := range parts {
		all = append(all, p, "/"+p)
	}
	return strings.Join(all, "|")
}

// named lists the tests below root whose name has one of these parts in it.
func named(root string, parts []string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == filepath.Join(root, "bin") || d.Name() == "vendor" || d.Name() == "testdata" || (d.Name()[0] == '.' && name != root)) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range tree.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			for _, p := range parts {
				if strings.Contains(f.Name.Name, p) {
					rel, err := filepath.Rel(root, filepath.Dir(name))
					if err != nil {
						return err
					}
					out = append(out, rel+"."+f.Name.Name)
					break
				}
			}
		}
		return nil
	})
	return out, err
}
