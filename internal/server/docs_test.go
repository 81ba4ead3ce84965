package server_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// Every command of docs/http.md works, and prints what stands below it.
func TestDocsAsRootOnCurl(t *testing.T) {
	s := shared(t)
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```\n```text\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if n := strings.Count(string(text), "```sh"); n != len(blocks) || n == 0 {
		t.Fatalf("%d of %d commands say what they print", len(blocks), n)
	}
	for _, b := range blocks {
		cmd := exec.Command("/bin/sh", "-euc", b[1])
		cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "URL=" + s.url}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", b[1], err, out)
		}
		for want := range strings.Lines(b[2]) {
			if !strings.Contains(string(out), strings.TrimSuffix(want, "\n")) {
				t.Errorf("%s: no %q in %.3000s", b[1], want, out)
			}
		}
	}
}
