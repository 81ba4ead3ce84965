package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
)

// once are packages whose tests run in the half as root alone, each with the reason
// why the id of the user cannot matter to them. An ordinary user runs them too.
var once = []struct{ pkg, reason string }{
	{"agent", "sessions over workers, which package js tests as both"},
	{"agent/store/natskv", "a server of its own on loopback"},
	{"api", "plain data"},
	{"client", "speaks HTTP with a service of its own, on loopback"},
	{"examples/approval", "runs what agent tests"},
	{"examples/codemode", "builds and runs what agent tests"},
	{"examples/mcpclient", "runs what internal/mcpserver tests"},
	{"examples/mcptools", "runs what agent tests"},
	{"examples/multitenant", "runs what agent tests"},
	{"examples/remote", "runs what client tests"},
	{"examples/sharedbudget", "runs what agent tests"},
	{"examples/typescript", "runs what agent tests"},
	{"internal/admission", "counts, in a store of its own"},
	{"internal/browser", "clicks in a browser; what the id of a user matters to is tested below it"},
	{"internal/budget", "counts; limits of the process are read, not used"},
	{"internal/config", "reads text and files of its own"},
	{"internal/credential", "hashes, and a file of its own"},
	{"internal/executor", "takes jobs and writes events; the cells are the library's"},
	{"internal/house", "reads sources"},
	{"internal/journal", "bytes, and a file of its own"},
	{"internal/jsc", "calls the engine in a process of its own, without a cell"},
	{"internal/jsonschema", "judges values in memory"},
	{"internal/jstoken", "reads text, and asks an engine in a cell what it makes of the same"},
	{"internal/keyring", "hashes"},
	{"internal/ledger", "reads sources"},
	{"internal/mcpserver", "messages; the cells and workers are the library's"},
	{"internal/mutations", "reads a list and sources"},
	{"internal/picture", "decodes bytes"},
	{"internal/queue", "a store of its own, in a folder of its own and on loopback"},
	{"internal/script", "rewrites text"},
	{"internal/server", "HTTP on loopback; the cells are the library's"},
	{"internal/service", "the service's parts together; cmd/glovebox serves as an ordinary user too"},
	{"internal/strictjson", "decodes text"},
	{"internal/supply", "reads lists and binaries"},
	{"internal/telemetry", "counts, and files of its own"},
	{"internal/termtext", "filters text"},
	{"internal/testenv/soak", "makes command lines"},
	{"internal/testenv/suite", "reads text"},
	{"internal/transform", "rewrites text"},
	{"internal/units", "reads text"},
	{"internal/webhook", "HTTP on loopback, and a store of its own"},
	{"internal/wire", "encodes and decodes values, in a process of little memory too"},
	{"internal/worker/bootstrap", "code inside the engine, in a process of its own, without a cell"},
	{"preflight", "reads text, and asks an engine in a cell what it makes of the same"},
	{"web", "reads sources"},
}

// unit is a package as go list tells it.
type unit struct {
	ImportPath, Dir, Name              string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// units are the packages that go's patterns stand for, by import path.
func units(patterns ...string) (map[string]*unit, error) {
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Name,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}, patterns...)...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	all := map[string]*unit{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var u unit
		if err := d.Decode(&u); err != nil {
			return nil, err
		}
		all[u.ImportPath] = &u
	}
	return all, nil
}

// calm finds packages in which nothing runs beside anything else: no go statement,
// lock or timer is in them and their tests, nor in what these use of the module.
// The race detector has nothing to see there and costs a multiple of the time.
func calm(all map[string]*unit) ([]string, error) {
	busy := map[string]bool{} // of what others import of it
	var look func(path string) (bool, error)
	look = func(path string) (bool, error) {
		u, ours := all[path]
		if !ours {
			return !standard(path), nil
		}
		if b, known := busy[path]; known {
			return b, nil
		}
		busy[path] = false // imports make no circles
		b, err := u.moves(u.GoFiles, u.Imports, look)
		busy[path] = b
		return b, err
	}
	var out []string
	for path, u := range all {
		lib, err := look(path)
		if err != nil {
			return nil, err
		}
		tests, err := u.moves(append(u.TestGoFiles, u.XTestGoFiles...), append(u.TestImports, u.XTestImports...), look)
		if err != nil {
			return nil, err
		}
		if !lib && !tests {
			out = append(out, path)
		}
	}
	return out, nil
}

// harmless are modules that start nothing.
var harmless = []string{"github.com/google/go-cmp", "golang.org/x/sys", "golang.org/x/text"}

// standard tells whether an import from outside the module starts nothing by itself.
func standard(path string) bool {
	for _, h := range harmless {
		if strings.HasPrefix(path, h) {
			return true
		}
	}
	return !strings.Contains(strings.Split(path, "/")[0], ".") && !strings.HasPrefix(path, "net/http") && path != "sync" && path != "sync/atomic"
}

// moves tells whether files of a package, or what they import, run things beside
// each other.
func (u *unit) moves(files, imports []string, look func(string) (bool, error)) (bool, error) {
	for _, i := range imports {
		if i == u.ImportPath {
			continue // of its own tests
		}
		if b, err := look(i); b || err != nil {
			return b, err
		}
	}
	for _, name := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(u.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		if concurrent(tree) {
			return true, nil
		}
	}
	return false, nil
}

// concurrent tells whether a file starts what runs beside it.
func concurrent(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr: // t.Parallel, time.AfterFunc, context.AfterFunc, b.RunParallel
			found = found || n.Sel.Name == "Parallel" || n.Sel.Name == "AfterFunc" || n.Sel.Name == "RunParallel"
		}
		return !found
	})
	return found
}
