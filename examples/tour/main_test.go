package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// TestTour is the tour itself: every sample program ends as it should.
//
// proves part of T-15
func TestTour(t *testing.T) {
	bin := t.TempDir()
	for name, from := range map[string]string{"glovebox": testenv.Command(), "glovebox-init": testenv.Init()} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	wrong, err := tour(&out, filepath.Join(bin, "glovebox"), "..")
	if err != nil || wrong > 0 {
		t.Fatalf("%d programs did not end as they should, %v\n%s", wrong, err, &out)
	}
	t.Log(out.String())
}

// What a program prints cannot reach the terminal as it is.
func TestRemarkQuotes(t *testing.T) {
	one := int64(1)
	got := remark(&api.Result{Cause: "wall", OOMKills: &one, Stdout: "\x1b[31mred\nmore", Stderr: strings.Repeat("e", 200)})
	if want := `wall, 1 killed for memory, "\x1b[31mred", "` + strings.Repeat("e", 60) + `"`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
