package seccomp

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update rewrites the files in testdata instead of comparing with them. Read the diff before you commit it: it
// is the whole effect of a change on every guest.
//
//	go test ./internal/seccomp -run Golden -update
var update = flag.Bool("update", false, "rewrite the golden files of the filter")

// golden compares a text with a file of testdata and names the first lines that differ.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is missing: run the test with -update and read what it writes", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(raw), "\n")
	shown := 0
	for i, line := range strings.Split(got, "\n") {
		there := "(end of file)"
		if i < len(want) {
			there = want[i]
		}
		if line != there && shown < 4 {
			shown++
			t.Errorf("%s:%d:\n  file    %s\n  program %s", file, i+1, there, line)
		}
	}
	if shown == 0 && got != string(raw) {
		t.Errorf("%s has %d lines, the program %d", file, len(want), strings.Count(got, "\n")+1)
	}
}

// profiles are the programs that have golden files, those with an equal text too.
func profiles(t testing.TB) []variant {
	t.Helper()
	var out []variant
	for _, p := range []struct {
		name, profile string
		opts          Options
	}{{"language", "language", Options{}}, {"compile", "compile", Options{}}, {"worker", "worker", Options{}}, {"sealed", "sealed", Options{}}, {"language-loopback", "language", Options{Loopback: true}}} {
		for _, a := range []Arch{X86_64, Aarch64} {
			out = append(out, variant{p.name + "." + a.String(), load(t, p.profile, p.opts), a, false})
		}
	}
	return out
}
