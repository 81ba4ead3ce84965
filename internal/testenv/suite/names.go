package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

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
