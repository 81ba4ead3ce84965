package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Built returns the path of a program of this repository, built as its users
// build it, with glovebox, glovebox-init and glovebox-js beside it.
func Built(t testing.TB, pkg string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	for name, path := range map[string]string{"glovebox": Command(), "glovebox-init": Init(), "glovebox-js": Worker()} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Output runs a program to its end and returns what it wrote to stdout; with a
// status that is not 0 the test fails, and shows stderr.
func Output(t testing.TB, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	out, err := cmd.Output()
	if err != nil {
		text := ""
		if exit, ok := err.(*exec.ExitError); ok {
			text = string(exit.Stderr)
		}
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, text)
	}
	return string(out)
}
