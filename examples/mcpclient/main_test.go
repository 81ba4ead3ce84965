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
// those that Go counts, and a JavaScript session comes to the same most frequent one.
//
// proves part of T-15
func TestMCPClientAsRoot(t *testing.T) {
	out := testenv.Output(t, testenv.Built(t, "./examples/mcpclient"))
	want := map[string]int{}
	for _, w := range strings.Fields(text) {
		want[w]++
	}
	_, rest, _ := strings.Cut(out, "\ncounts.json: ")
	counts, rest, ok := strings.Cut(rest, "\n")
	var got map[string]int
	if !ok || json.Unmarshal([]byte(counts), &got) != nil {
		t.Fatal(out)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	most := ""
	for w, n := range want {
		if n > want[most] {
			most = w
		}
	}
	if said := fmt.Sprintf("words: %d\nmost often: %q\n", len(want), most); rest != said {
		t.Errorf("%q, not %q", rest, said)
	}
	if said := fmt.Sprintf("verdict: ok\nstdout: %q\n", fmt.Sprintln(len(strings.Fields(text)), "words")); !strings.Contains(out, said) || !strings.Contains(out, "tool: run_code: ") {
		t.Error(out)
	}
}
