package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// TestCodeMode: the program prints what a loop over the same file comes to, and its
// tool is called as often as its budget says.
//
// proves part of T-15
func TestCodeMode(t *testing.T) {
	file, err := os.ReadFile("orders.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(file, &rows); err != nil {
		t.Fatal(err)
	}
	north, open, cents := 0, 0, 0.0
	for _, r := range rows {
		if r["region"] == "north" {
			north++
			if r["paid"] == false {
				open++
				cents += r["cents"].(float64)
			}
		}
	}
	out := testenv.Output(t, testenv.Built(t, "./examples/codemode"))
	for _, want := range []string{
		fmt.Sprintf("\nresult: {\"open\":%d,\"cents\":%.0f}\n", open, cents),
		"\nerror: js: ToolError: tool_budget: all 10 calls are used up\n",
		fmt.Sprintf("\nresult: \"looked %d times\"\n", 10-north),
		fmt.Sprintf("\nusage: %d feeds, %d calls, ", len(answers), 10+2), // and one each of list and sum
		"\n  function get(id: string): Promise<{\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}
