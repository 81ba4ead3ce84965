package glovebox_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// The list has no file that a package owns and none that Python's packages made,
// is sorted, and each file on it is there and can be read.
//
// proves part of H-27
func TestUnownedFiles(t *testing.T) {
	found, err := glovebox.UnownedFiles(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(found) || len(slices.Compact(slices.Clone(found))) != len(found) {
		t.Error("the list is not sorted, or has a file twice")
	}
	for _, path := range found {
		if path == "/usr/bin/env" || path == "/bin/sh" || path == "/usr/share/base-passwd/passwd.master" || path == "/etc/ld.so.cache" {
			t.Errorf("%s is a package's", path)
		}
		if st, err := os.Lstat(path); err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
			t.Errorf("%s is no file: %v", path, err)
		}
	}
}

// What a language asks cells to show is looked at too. An ordinary user's own files
// count, since his programs can read them; root's do not.
//
// proves part of H-27
func TestUnownedFilesOfALanguage(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "glovebox-test-") // no language may name /tmp
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, mine, closed := filepath.Join(dir, "canary"), filepath.Join(dir, "mine"), filepath.Join(dir, "closed")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(file, nil, 0o644), os.WriteFile(mine, nil, 0o600), os.WriteFile(closed, nil, 0)); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Languages = []string{languageFile(t, `"paths": ["`+dir+`"]`)}
	for _, with := range []bool{true, false} {
		found, err := glovebox.UnownedFiles(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]bool{file: with, mine: with && !asRoot, closed: false} {
			if got := slices.Contains(found, path); got != want {
				t.Errorf("the language is there: %v; %s is listed: %v", with, path, got)
			}
		}
		o.Languages = nil
	}
}

// Options that a Box would refuse are refused, and a context that has ended ends it.
func TestUnownedFilesErrors(t *testing.T) {
	var field *glovebox.FieldError
	o := options()
	o.Sandbox = "never"
	if found, err := glovebox.UnownedFiles(t.Context(), o); !errors.As(err, &field) || found != nil {
		t.Errorf("bad options: %d files, %v", len(found), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := glovebox.UnownedFiles(ctx, options()); !errors.Is(err, context.Canceled) || found != nil {
		t.Errorf("canceled: %d files, %v", len(found), err)
	}
}

// What somebody leaves where packages are can be read by a program, and is listed;
// with a mode that closes it, it is neither.
//
// proves part of H-27
func TestUnownedFilesAsRoot(t *testing.T) {
	dir, err := os.MkdirTemp("/usr/share", "glovebox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(dir, "canary")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(file, []byte("tweet"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[fs.FileMode]bool{0o644: true, 0o600: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		found, err := glovebox.UnownedFiles(t.Context(), options())
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, box(t), python(fmt.Sprintf("print(open(%q).read())", file)))
		reads := r.Stdout == "tweet\n"
		if listed := slices.Contains(found, file); listed != want || reads != want {
			t.Errorf("mode %v: listed %v, a program reads it %v; want both %v (%s)", mode, listed, reads, want, strings.TrimSpace(r.Stderr))
		}
	}
}
