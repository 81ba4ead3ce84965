package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Bounds of a folder of modules.
const (
	mostModules     = 1024
	mostModuleBytes = 15 << 20
	mostModuleDepth = 16
)

// moduleFiles are the ends of names of files that are modules.
var moduleFiles = []string{".js", ".mjs", ".json"}

// folderModules reads the modules of a folder: regular files below it, named by
// their paths. A link among them is refused, other files are not looked at.
func folderModules(dir string) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, usagef("--modules: %s", err)
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
