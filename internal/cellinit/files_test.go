package cellinit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// A file of a program is written below its folder, through no link and over nothing
// that is there. The control is a name that is free.
//
// proves part of H-7
func TestFilesOverNothing(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for name, to := range map[string]string{"link": filepath.Join(outside, "new"), "dir": outside} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "there"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	box, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(box)
	c := &cell{box: box, prog: -1, piece: -1}
	for name, want := range map[string]error{
		"there": unix.EEXIST, "link": unix.EEXIST, "dir/new": unix.ELOOP, "../new": unix.EXDEV, "a/../../new": unix.EXDEV,
		filepath.Join(outside, "new"): unix.ENOENT, "made/for/it/new": nil,
	} {
		err := c.writePiece(&cellproto.Piece{Name: name, Mode: 0o644, Data: []byte("new")})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if c.piece >= 0 {
			t.Errorf("%s stays open", name)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "there")); string(b) != "old" {
		t.Errorf("the file that was there: %q", b)
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("outside: %v", left)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "made/for/it/new")); string(b) != "new" {
		t.Errorf("control: %q, %v", b, err)
	}
}
