package cellinit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// Targets below a root are opened without following anything out of it: a link
// in any place, a dot-dot and a leading slash are refused, each with the
// kernel's own errno. The control opens the same names the plain way.
//
// proves part of H-7
func TestBeneathFollowsNothing(t *testing.T) {
	dir := t.TempDir()
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(canary, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"proc": canary, "dev": "../../", "etc/passwd": "/etc/passwd", "self": "etc"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for path, want := range map[string]error{
		"proc": unix.ELOOP, "dev/null": unix.ELOOP, "etc/passwd": unix.ELOOP, "self": unix.ELOOP, "self/x": unix.ELOOP,
		"../x": unix.EXDEV, "etc/../../x": unix.EXDEV, "/etc": unix.EXDEV, "etc": nil,
	} {
		fd, err := beneath(root, path, unix.O_PATH)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			unix.Close(fd)
		}
	}
	fd, err := unix.Openat(root, "proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Errorf("control: the plain call does not follow the link: %v", err)
	}
	unix.Close(fd)
}

// A step of a plan whose place is a link is refused, and nothing appears where
// the link points.
//
// proves part of H-7
func TestStepsThroughLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{"etc", "dev"} {
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for _, o := range []cellproto.Op{
		{Kind: cellproto.OpDir, Path: "etc/x", Mode: 0o755},
		{Kind: cellproto.OpFile, Path: "etc/hosts", Mode: 0o644},
		{Kind: cellproto.OpSymlink, Path: "dev/fd", Source: "/proc/self/fd"},
		{Kind: cellproto.OpFile, Path: "etc", Mode: 0o644},
	} {
		if err := op(root, &o, -1); err == nil {
			t.Errorf("%s was made through a link", o.Path)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("outside: %v", left)
	}
}
