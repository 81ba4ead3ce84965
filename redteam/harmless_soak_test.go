//go:build soak

package redteam

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// In a machine of its own, the battery without any layer and without a cell, and
// what notices harm: the tests that say OnVM. It takes some minutes, since the
// processor is emulated.
func TestSoakHarmless(t *testing.T) {
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = testenv.Root()
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(at("programs"), 0o755); err != nil {
		t.Fatal(err)
	}
	run("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", at("init"), "./cmd/glovebox-init")
	run("go", "test", "-c", "-o", at("test"), "./redteam")
	run(at("test"), "-test.run", "TestCompiled", "-redteam.programs", at("programs"))
	out := run("go", "run", "./matrix/cmd/vm", "-kernel", "6.1", "-cgroup", "v2", "-userland", "bookworm", "-packages", "python3", "-dir", "/tmp",
		"-timeout", "20m", "-env", "GLOVEBOX_TEST_INIT=/opt/init", "-add", at("init")+":/opt/init", "-add", at("programs")+":/opt/programs",
		"-add", at("test")+":/opt/test", "--", "/bin/sh", "-c", "/opt/test -test.v -test.run OnVM -redteam.programs /opt/programs")
	t.Log(out)
	if n := strings.Count(out, "--- PASS: Test"); n != 3 {
		t.Errorf("%d tests passed in the machine, want 3", n)
	}
}
