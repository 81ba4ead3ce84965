package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// TestMCPToolsAsRoot: the total is the one that Go makes of the same goods, and a
// call that its schema refuses never reaches the server.
//
// proves part of T-15
func TestMCPToolsAsRoot(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("MCPTOOLS_LOG", log)
	out := testenv.Output(t, testenv.Built(t, "./examples/mcptools"))
	total := 0
	for _, g := range goods {
		total += g.cents * g.east
	}
	_, line, ok := strings.Cut(out, "\nresult: ")
	var got struct {
		Total   int
		Refused string
	}
	if !ok || json.Unmarshal([]byte(line), &got) != nil || got.Total != total || !strings.HasPrefix(got.Refused, "tool_arguments: ") {
		t.Errorf("not %d:\n%s", total, out)
	}
	if !strings.Contains(out, `function stock(args: {`) || !strings.Contains(out, `warehouse: "east" | "west";`) {
		t.Errorf("no declaration of stock:\n%s", out)
	}
	asked, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(asked), "\n"); lines != 2*len(goods) || strings.Contains(string(asked), "moon") {
		t.Errorf("the server was asked:\n%s", asked)
	}
}
