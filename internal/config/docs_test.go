package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/config"
)

var update = flag.Bool("update", false, "write the table of docs/serve.md")

// docs/serve.md has the table of settings that the program has.
func TestDocumented(t *testing.T) {
	const path, begin, end = "../../docs/serve.md", "-update` -->\n", "<!-- end -->\n"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/serve.md has no place for the table")
	}
	if want := config.Markdown(); table != want {
		if !*update {
			t.Fatalf("docs/serve.md is out of date: go test ./internal/config -run Documented -update")
		}
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
