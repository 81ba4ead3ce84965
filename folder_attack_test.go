package glovebox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// A folder that becomes a link to somewhere else while its program waits for a
// cell is not shown: what was looked at is what is bound, or nothing.
//
// proves part of H-4
func TestFolderSwapped(t *testing.T) {
	o := options()
	o.MaxCells = 1
	b, err := glovebox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	top, err := os.MkdirTemp("/var/tmp", "glovebox-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	if err := errors.Join(os.Chmod(top, 0o755), os.MkdirAll(filepath.Join(top, "a/b"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"a", "a/b"} { // the folder's parent, the folder itself
		last, runs := "", make(chan string, 8)
		first, err := b.Start(t.Context(), glovebox.Program{Command: []string{"/bin/cat"}}, glovebox.WithStdinPipe(),
			glovebox.WithEvents(func(e glovebox.Event) { runs <- e.Type }))
		if err != nil {
			t.Fatal(err)
		}
		<-runs
		waiting, err := b.Start(t.Context(), glovebox.Program{Command: []string{"/bin/ls", "/data"}}, glovebox.WithFolder(filepath.Join(top, "a/b"), "/data"),
			glovebox.WithEvents(func(e glovebox.Event) { last = e.Type }))
		if err != nil {
			t.Fatal(err)
		}
		at, old := filepath.Join(top, part), filepath.Join(top, "old")
		to := "/sys"
		if part == "a" {
			to = top + "/c"
			if err := os.MkdirAll(filepath.Join(to, "b/kernel"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Rename(at, old), os.Symlink(to, at), first.Stdin().Close()); err != nil {
			t.Fatal(err)
		}
		finished(t, first)
		if r := finished(t, waiting); r.Verdict != "setup_failed" || strings.Contains(r.Stdout, "kernel") || !strings.Contains(r.Message, "too many levels of symbolic links") {
			t.Errorf("%s: %s %q, it sees %q", part, r.Verdict, r.Message, r.Stdout)
		}
		if last != "finished" {
			t.Errorf("%s: the last event is %q", part, last)
		}
		if err := errors.Join(os.Remove(at), os.Rename(old, at)); err != nil {
			t.Fatal(err)
		}
	}
}
