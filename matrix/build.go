//go:build linux

package matrix

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// module is the import path that the guest is built from.
const module = "github.com/glovebox-dev/glovebox"

// The programs of this package that run in a machine.
const (
	guestPackage = module + "/matrix/guest"
	probePackage = module + "/matrix/probe"
)

// BuildStatic compiles a program of this module for an architecture, without
// C, and returns its path. The Go build cache makes a second call cheap.
func BuildStatic(ctx context.Context, pkg, arch string, flags ...string) (string, error) {
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", "OUT"}, flags...)
	return compile(ctx, arch, path.Base(pkg), append(args, pkg)...)
}

// BuildTest compiles the tests of a package of this module without C and
// returns the path of the test program.
func BuildTest(ctx context.Context, pkg, arch string, flags ...string) (string, error) {
	args := append([]string{"test", "-c", "-o", "OUT"}, flags...)
	return compile(ctx, arch, path.Base(pkg)+".test", append(args, pkg)...)
}

// compile runs the go command with OUT replaced by a file of the cache.
func compile(ctx context.Context, arch, name string, args ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(cache, "bin"+suffix(arch), name)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, out+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	fresh := out + ".new" // renamed at the end: another process may be reading the old one
	for i := range args {
		if args[i] == "OUT" {
			args[i] = fresh
		}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, lastLines(string(text), 12))
	}
	return out, os.Rename(fresh, out)
}
