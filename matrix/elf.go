//go:build linux

package matrix

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// AddBinaryWithLibs takes a program of the host along, under the name that it
// has there, with its interpreter and the shared libraries that it names. What
// a program loads later by itself, such as the modules of a language, is to be
// added with AddTree.
func (t *Tree) AddBinaryWithLibs(name string) error {
	name, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	return t.addELF(name, map[string]bool{})
}

// AddLibs adds the shared libraries that a file of the host needs, such as a
// module that AddTree took along, and not the file.
func (t *Tree) AddLibs(name string) error {
	return t.needs(name, map[string]bool{})
}

// AddTreeWithLibs is AddTree and, for each shared library in the folder,
// AddLibs: what an interpreted language needs for its modules.
func (t *Tree) AddTreeWithLibs(src, dst string) error {
	if err := t.AddTree(src, dst); err != nil {
		return err
	}
	seen := map[string]bool{}
	return filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !isLibrary(p) {
			return err
		}
		return t.needs(p, seen)
	})
}

// isLibrary goes by the name: lib.so or lib.so.1.
func isLibrary(name string) bool {
	base := filepath.Base(name)
	return strings.HasSuffix(base, ".so") || strings.Contains(base, ".so.")
}

// addELF adds a program or library and what it needs.
func (t *Tree) addELF(name string, seen map[string]bool) error {
	if seen[name] {
		return nil
	}
	seen[name] = true
	if err := t.AddFile(name, name); err != nil {
		return err
	}
	return t.needs(name, seen)
}

// needs adds what an ELF file needs. A file of another kind needs nothing, but
// for the interpreter of a script.
func (t *Tree) needs(name string, seen map[string]bool) error {
	f, err := elf.Open(name)
	var format *elf.FormatError
	if errors.As(err, &format) {
		return t.scriptNeeds(name, seen)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text := make([]byte, p.Filesz)
		if _, err := p.ReadAt(text, 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := t.addELF(strings.TrimRight(string(text), "\x00"), seen); err != nil {
			return err
		}
	}
	libs, err := f.DynString(elf.DT_NEEDED)
	if err != nil {
		return nil // a static program
	}
	if len(libs) == 0 {
		return nil
	}
	dirs, err := libraryDirs(f, name)
	if err != nil {
		return err
	}
	for _, lib := range libs {
		at, err := findLibrary(f, lib, dirs)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := t.addELF(at, seen); err != nil {
			return err
		}
	}
	return nil
}

// scriptNeeds adds the interpreter in a script's first line.
func (t *Tree) scriptNeeds(name string, seen map[string]bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	line, _ := bufio.NewReader(f).ReadString('\n')
	rest, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		return nil
	}
	for _, w := range words {
		if strings.HasPrefix(w, "/") {
			if err := t.addELF(w, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// libraryDirs are the folders where the loader looks for a file's libraries:
// those that the file names, and those of the loader's cache.
func libraryDirs(f *elf.File, name string) ([]string, error) {
	var dirs []string
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, err := f.DynString(tag)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			origin := filepath.Dir(name)
			for d := range strings.SplitSeq(p, ":") {
				d = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(d)
				dirs = append(dirs, d)
			}
		}
	}
	cached, err := cachedDirs()
	return append(dirs, cached...), err
}

// cachedDirs are the folders of the libraries in ld.so.cache, as ldconfig
// prints it, and the loader's own.
func cachedDirs() ([]string, error) {
	dirs := []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}
	seen := map[string]bool{}
	for _, ldconfig := range []string{"/usr/sbin/ldconfig", "/sbin/ldconfig"} {
		out, err := exec.Command(ldconfig, "-p").Output()
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(out)) {
			if _, at, ok := strings.Cut(line, "=> "); ok {
				d := filepath.Dir(strings.TrimSpace(at))
				if !seen[d] {
					seen[d] = true
					dirs = append(dirs, d)
				}
			}
		}
		return dirs, nil
	}
	return dirs, nil
}

// findLibrary looks for a library of the same class and machine as f.
func findLibrary(f *elf.File, lib string, dirs []string) (string, error) {
	if strings.Contains(lib, "/") {
		return lib, nil
	}
	for _, d := range dirs {
		at := filepath.Join(d, lib)
		l, err := elf.Open(at)
		if err != nil {
			continue
		}
		same := l.Class == f.Class && l.Machine == f.Machine
		l.Close()
		if same {
			return at, nil
		}
	}
	return "", fmt.Errorf("library %s is not found", lib)
}
