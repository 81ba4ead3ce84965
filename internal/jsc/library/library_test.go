package library

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFind proves part of H-30: the engine is one of the fixed places' own
// files, with a build id and an identity.
//
// proves part of H-30
func TestFind(t *testing.T) {
	lib, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(lib.Path) || len(lib.BuildID) < 16 || lib.Inode == 0 || !strings.HasPrefix(lib.Soname, "libjavascriptcoregtk-") {
		t.Errorf("found %+v", lib)
	}
	if api := strings.TrimPrefix(lib.Soname, "libjavascriptcoregtk-")[:3]; !strings.HasPrefix(lib.Version, api+" (") {
		t.Errorf("version %q of %s", lib.Version, lib.Soname)
	}
	again, err := Inspect(lib.Path)
	if err != nil || !again.Same(lib) {
		t.Errorf("inspected %+v, %v", again, err)
	}
	again.BuildID = "0" + again.BuildID[1:] + "0"
	if again.Same(lib) {
		t.Error("another build id is the same file")
	}
}

// tree lays the engine's file and what leads to it below a root of the test's own.
func tree(t *testing.T, dir, soname string) (root, file string) {
	t.Helper()
	lib, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := os.ReadFile(lib.Path)
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	file = filepath.Join(root, dir, soname+".9")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, engine, 0o644),
		os.Symlink(filepath.Base(file), filepath.Join(root, dir, soname))); err != nil {
		t.Fatal(err)
	}
	return root, file
}

// TestFindRefuses proves part of H-30: a file, a link or a directory that
// another user owns or may write to is refused by name, and the same tree with
// the right owner and modes is not.
//
// proves part of H-30
func TestFindRefuses(t *testing.T) {
	owner := uint32(os.Getuid())
	dir := "usr/lib/" + triplet
	for _, c := range []struct {
		name   string
		change func(root, file string) error
		owner  uint32
		want   string
	}{
		{"as it is", func(string, string) error { return nil }, owner, ""},
		{"another owner", func(string, string) error { return nil }, owner + 1, "belongs to user"},
		{"group may write the file", func(_, file string) error { return os.Chmod(file, 0o664) }, owner, "written to by others"},
		{"all may write the file", func(_, file string) error { return os.Chmod(file, 0o646) }, owner, "written to by others"},
		{"all may write a directory", func(root, _ string) error { return os.Chmod(filepath.Join(root, "usr"), 0o777) }, owner, "written to by others"},
		{"a link out of the tree", func(root, file string) error {
			away := t.TempDir()
			return errors.Join(os.Chmod(away, 0o777), os.Rename(file, filepath.Join(away, "lib")), os.Symlink(filepath.Join(away, "lib"), file))
		}, owner, "written to by others"},
		{"no ELF file", func(_, file string) error { return os.WriteFile(file, bytes.Repeat([]byte("no engine "), 20), 0o644) }, owner, "bad magic number"},
		{"nothing there", func(root, file string) error {
			return os.Remove(filepath.Join(filepath.Dir(file), sonames[0]))
		}, owner, Package},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, file := tree(t, dir, sonames[0])
			if err := c.change(root, file); err != nil {
				t.Fatal(err)
			}
			lib, err := find(root, c.owner)
			if c.want == "" && (err != nil || lib.Path != file) {
				t.Errorf("%+v, %v", lib, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if (c.name == "nothing there") != errors.Is(err, ErrNotFound) {
				t.Errorf("ErrNotFound: %v", err)
			}
		})
	}
}

// TestFindOrder: 6.0 is taken before 4.1, 4.1 before 4.0, wherever they lie.
func TestFindOrder(t *testing.T) {
	root, _ := tree(t, "usr/lib", sonames[1])
	lib, err := find(root, uint32(os.Getuid()))
	if err != nil || filepath.Base(lib.Path) != sonames[1]+".9" {
		t.Fatalf("%+v, %v", lib, err)
	}
	if err := os.Symlink(sonames[1]+".9", filepath.Join(root, "usr/lib", sonames[2])); err != nil {
		t.Fatal(err)
	}
	if lib, err = find(root, uint32(os.Getuid())); err != nil || filepath.Base(lib.Path) != sonames[1]+".9" {
		t.Errorf("%+v, %v", lib, err)
	}
}

// TestFiles: the closure names the library, the loader and the C library, once
// each, and an executable without libraries only itself. That a process maps
// nothing else is looked at in the test of the engine.
func TestFiles(t *testing.T) {
	lib, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	files, err := lib.Files()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 || len(files) > 80 || !slices.IsSorted(files) || len(slices.Compact(slices.Clone(files))) != len(files) {
		t.Errorf("%d files: %s", len(files), files)
	}
	for _, want := range []string{lib.Path, "/libc.so.6", "/libicudata.so", "/ld-linux"} {
		if !slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("no %s in %s", want, files)
		}
	}
	if _, err := Closure(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent file has a closure")
	}
}

func BenchmarkFiles(b *testing.B) {
	lib, err := Find()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := lib.Files(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for b.Loop() {
		if _, err := Find(); err != nil {
			b.Fatal(err)
		}
	}
}
