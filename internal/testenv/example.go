package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Built returns the path of a program of this repository, built as its users
// build it, with glovebox-init and glovebox-js beside it; beside are further
// packages whose programs lie there too.
func Built(t testing.TB, pkg string, beside ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range append([]string{pkg}, beside...) {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(p)), p)
		cmd.Dir = Root()
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	for name, path := range map[string]string{"glovebox-init": Init(), "glovebox-js": Worker()} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, filepath.Base(pkg))
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
