// Package testenv is what the tests of several packages share: where the
// repository is, a built glovebox-init, programs in C compiled for a test.
package testenv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// Root is the top folder of the repository. A test binary that does not know where
// it was built looks above the folder in which go test starts it.
func Root() string {
	if _, file, _, _ := runtime.Caller(0); filepath.IsAbs(file) {
		return filepath.Dir(filepath.Dir(filepath.Dir(file)))
	}
	return rootAbove
}

// rootAbove is looked for at the start, since tests change their folder.
var rootAbove = func() string {
	dir, _ := os.Getwd()
	for ; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return dir
}()

// Init returns the path of a glovebox-init of the present sources: the one
// that GLOVEBOX_TEST_INIT names, or one built now. A test binary is not its
// own, since under the race detector it is linked with cgo.
func Init() string {
	path, err := initOnce()
	if err != nil {
		panic(err)
	}
	return path
}

// Cache is the folder of filled compilers' caches that tests use: what
// GLOVEBOX_TEST_CACHE names, or the repository's own. Empty caches only make
// tests slow.
func Cache() string {
	if dir := os.Getenv("GLOVEBOX_TEST_CACHE"); dir != "" {
		return dir
	}
	return filepath.Join(Root(), ".cache", "warm")
}

// Command returns the path of a glovebox of the present sources, as Init does.
func Command() string {
	path, err := commandOnce()
	if err != nil {
		panic(err)
	}
	return path
}

var commandOnce = sync.OnceValues(func() (string, error) { return program("GLOVEBOX_TEST_COMMAND", "glovebox", "./cmd/glovebox") })

var initOnce = sync.OnceValues(func() (string, error) { return program("GLOVEBOX_TEST_INIT", "glovebox-init", "./cmd/glovebox-init") })

// Worker returns the path of a glovebox-js of the present sources, as Init does.
func Worker() string {
	path, err := workerOnce()
	if err != nil {
		panic(err)
	}
	return path
}

var workerOnce = sync.OnceValues(func() (string, error) { return program("GLOVEBOX_TEST_WORKER", "glovebox-js", "./cmd/glovebox-js") })

// Liar returns the path of a worker that lies, as its script says, of the
// present sources: see internal/testenv/liar.
func Liar() string {
	path, err := liarOnce()
	if err != nil {
		panic(err)
	}
	return path
}

var liarOnce = sync.OnceValues(func() (string, error) { return program("GLOVEBOX_TEST_LIAR", "liar", "./internal/testenv/liar") })

// program is what the variable names, or the package's program, built now.
func program(variable, name, pkg string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		return path, nil
	}
	path := filepath.Join(Root(), "bin", name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// C compiles a program for the guest and returns its bytes. Flags follow the
// file name; the same text is compiled once a test binary.
func C(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	sum := sha256.Sum256(fmt.Append(nil, source, flags))
	key := hex.EncodeToString(sum[:8])
	compiled.Lock()
	defer compiled.Unlock()
	if b, ok := compiled.m[key]; ok {
		return b
	}
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "main.c"), filepath.Join(dir, "main")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O1", "-w", "-o", bin, src}, flags...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	b, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	compiled.m[key] = b
	return b
}

var compiled = struct {
	sync.Mutex
	m map[string][]byte
}{m: map[string][]byte{}}
