package glovebox_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// asRoot tells which of the two users this run of the suite is.
var asRoot = os.Geteuid() == 0

// options are those of every test: the wall as users get it.
func options() glovebox.Options {
	return glovebox.Options{InitPath: testenv.Init(), Armed: -1, CacheDir: testenv.Cache()}
}

// shared is one Box for all tests that change nothing about it.
var shared = sync.OnceValues(func() (*glovebox.Box, error) { return glovebox.New(options()) })

func TestMain(m *testing.M) {
	testenv.Deselect()
	code := m.Run()
	if b, err := shared(); err == nil {
		if err := b.Close(); err != nil {
			println("close:", err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

// box returns the shared Box.
func box(t testing.TB) *glovebox.Box {
	t.Helper()
	b, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// without returns a Box whose cells lack the named layers: for the negative
// control of a test.
func without(t testing.TB, layers ...string) *glovebox.Box {
	t.Helper()
	b, err := glovebox.New(glovebox.SandboxOffUnsafeForNegativeControlsOnly(options(), layers...))
	if err != nil {
		t.Fatalf("control without %v: %v", layers, err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// run runs a program to its end; an error of Glovebox ends the test.
func run(t testing.TB, b *glovebox.Box, p glovebox.Program) *glovebox.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	if emulated() {
		p.Limits.WallMS, p.Limits.CPUMS = cmp.Or(p.Limits.WallMS, 60_000), cmp.Or(p.Limits.CPUMS, 60_000)
	}
	r, err := b.Run(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict == "setup_failed" {
		t.Fatalf("setup_failed at %s: %s", r.Stage, r.Message)
	}
	return r
}

// emulated tells whether this is a machine of the package matrix, on whose
// processor Python needs many seconds to start: tests that say nothing of time
// get more of it there.
var emulated = sync.OnceValue(func() bool {
	args, err := os.ReadFile("/proc/cmdline")
	return err == nil && slices.Contains(strings.Fields(string(args)), machineMark)
})

// python makes a program of a source.
func python(source string) glovebox.Program {
	return glovebox.Program{Language: "python", Source: source}
}

// cProgram compiles a source and makes a program of it.
func cProgram(t testing.TB, source string, flags ...string) glovebox.Program {
	t.Helper()
	return binary(testenv.C(t, source, flags...))
}

// binary makes a program that runs the given executable as ./prog.
func binary(b []byte) glovebox.Program {
	return glovebox.Program{Command: []string{"./prog"}, Files: []glovebox.File{
		{Name: "prog", Mode: 0o755, Encoding: "base64", Content: base64.StdEncoding.EncodeToString(b)}}}
}
