package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// TestMCPClientAsRoot: the words that a Python program in a cell has counted are
// those that Go counts.
//
// proves part of T-15
func TestMCPClientAsRoot(t *testing.T) {
	out := testenv.Output(t, testenv.Built(t, "./examples/mcpclient"))
	want := map[string]int{}
	for _, w := range strings.Fields(text) {
		want[w]++
	}
	_, counts, ok := strings.Cut(out, "\ncounts.json: ")
	var got map[string]int
	if !ok || json.Unmarshal([]byte(counts), &got) != nil {
		t.Fatal(out)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if said := fmt.Sprintf("verdict: ok\nstdout: %q\n", fmt.Sprintln(len(strings.Fields(text)), "words")); !strings.Contains(out, said) || !strings.Contains(out, "tool: run_code: ") {
		t.Error(out)
	}
}
