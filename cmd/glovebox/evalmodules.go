package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/js"
)

// Bounds of a folder of modules.
const (
	mostModules     = 1024
	mostModuleBytes = 15 << 20
	mostModuleDepth = 16
)

// moduleFiles are the ends of names of files that are modules; typed of those that
// are made JavaScript first.
var (
	moduleFiles = []string{".js", ".mjs", ".json", ".ts", ".mts", ".tsx", ".jsx"}
	typed       = map[string]js.Syntax{".ts": js.TypeScript, ".mts": js.TypeScript, ".tsx": js.TSX, ".jsx": js.JSX}
)

// folderModules reads the modules of a folder: regular files below it, named by
// their paths. A link among them is refused, other files are not looked at.
func folderModules(dir string) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, usagef("--modules: %s: %s", dir, cause(err))
	}
	defer root.Close()
	modules, size, seen := map[string]string{}, 0, 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > 100*mostModules {
			return fmt.Errorf("more than %d files", 100*mostModules)
		}
		if d.IsDir() {
			if strings.Count(name, "/") >= mostModuleDepth {
				return fmt.Errorf("%s is deeper than %d folders", name, mostModuleDepth)
			}
			return nil
		}
		if !slices.Contains(moduleFiles, path.Ext(name)) {
			return nil
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is a link, or no regular file", name)
		}
		source, err := readModule(root, name, mostModuleBytes-size)
		if err != nil {
			return err
		}
		if size += len(source); len(modules) == mostModules {
			return fmt.Errorf("more than %d modules", mostModules)
		}
		modules[name] = source
		return nil
	})
	if err != nil {
		return nil, usagef("--modules: %s", err)
	}
	return modules, nil
}

// readModule reads a regular file of at most so many bytes.
func readModule(root *os.Root, name string, most int) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s is a link, or no regular file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("the modules have more than %d bytes", mostModuleBytes)
	}
	return string(text), err
}

// transformer makes JavaScript of files, by the ends of their names.
type transformer struct {
	factory, fragment string
	rt                *js.Runtime
}

func (t *transformer) transform(ctx context.Context, name, code string) (string, error) {
	s := js.Source{Name: name, Code: code, Syntax: typed[path.Ext(name)]}
	switch s.Syntax {
	case "":
		return code, nil
	case js.TSX, js.JSX:
		s.Factory, s.Fragment = t.factory, t.fragment
	}
	return t.rt.Transform(ctx, s)
}

// resolver gives the modules of a folder that have to be transformed, and takes
// them out of those that are given as they are. It is nil if there are none.
func (t *transformer) resolver(modules map[string]string) js.Resolver {
	sources := map[string]string{}
	for name, source := range modules {
		if typed[path.Ext(name)] != "" {
			sources[name] = source
			delete(modules, name)
		}
	}
	if len(sources) == 0 {
		return nil
	}
	return func(ctx context.Context, specifier, referrer string) (string, string, error) {
		name := specifier
		if strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
			name = path.Join(path.Dir(referrer), name)
		}
		source, ok := sources[name]
		if !ok {
			return "", "", &js.GuestError{Message: fmt.Sprintf("there is no module %q", specifier)}
		}
		code, err := t.transform(ctx, name, source)
		if bad := new(api.FieldError); js.KindOf(err) == js.SyntaxError || errors.As(err, &bad) {
			err = &js.GuestError{Message: name + ": " + err.Error()}
		} else if err != nil { // the guest is told nothing of it
			fmt.Fprintln(os.Stderr, "glovebox: "+termtext.String(name+": "+err.Error()))
		}
		return name, code, err
	}
}

// entryName is what a module of a file is called: its path below the folder of
// modules, so that it finds those beside it, or else the last part of its path.
func entryName(file, dir string) string {
	if dir != "" {
		a, err1 := filepath.Abs(dir)
		b, err2 := filepath.Abs(file)
		if rel, err := filepath.Rel(a, b); err == nil && err1 == nil && err2 == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.Base(file)
}
