package jsload

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// The settings that jsc is given to be like a worker are those of the binding's
// source, all of them, but for the mode's own.
func TestSettings(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(testenv.Root(), "internal", "jsc", "options.go"))
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Clone(workers)
	for _, m := range modes {
		known = append(known, m...)
	}
	known = append(known, "JSC_useWasm=1") // only where WebAssembly was asked for
	found := regexp.MustCompile(`"(JSC_\w+=\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(found) < len(workers) {
		t.Fatalf("%d settings in the source, %d here", len(found), len(workers))
	}
	var all []string
	for _, f := range found {
		all = append(all, f[1])
		if !slices.Contains(known, f[1]) {
			t.Errorf("%s is a worker's, and not here", f[1])
		}
	}
	for _, w := range workers {
		if !slices.Contains(all, w) {
			t.Errorf("%s is here, and no worker's", w)
		}
	}
}
