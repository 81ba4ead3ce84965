package cell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Shown has the folders of packages and what a language names, each once and as
// what it is; no device, nothing of /proc, nothing that does not exist.
func TestShown(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, absent := filepath.Join(dir, "file"), filepath.Join(dir, "absent")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := Shown([]string{file, absent, "/usr/share/doc", "/proc/version"})
	for _, want := range []string{"/usr/bin", "/usr/lib", "/usr/share", "/etc/alternatives", file} {
		if n := len(got) - len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s == want })); n != 1 {
			t.Errorf("%s is there %d times in %q", want, n, got)
		}
	}
	for _, path := range got {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || real != path || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") || path == "/usr/share/doc" {
			t.Errorf("%s is among them; it leads to %q, %v", path, real, err)
		}
	}
	if before := Shown(nil); slices.Contains(before, file) {
		t.Errorf("control: %s is shown without having been named", file)
	}
}
