//go:build soak

package glovebox_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// The thousand runs of 197, and all runs of the files that are run many times, of
// which TestCases does a fifth.
func TestSoakCases(t *testing.T) {
	before := caseGroups(t, box(t))
	b, err := glovebox.New(options())
	if err != nil {
		t.Fatal(err)
	}
	caseMixed(&caseBox{t, b}, 1000)
	many := 0
	for i := range caseTable {
		e := &caseTable[i]
		if e.times == 0 {
			continue
		}
		many++
		file, err := os.ReadFile(filepath.Join(caseDir, e.file))
		if err != nil {
			t.Fatal(err)
		}
		e.repeat(&caseBox{t, b}, string(file), e.times)
	}
	if many == 0 {
		t.Error("no file is run many times")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if after := caseGroups(t, box(t)); len(after) != len(before) {
		t.Errorf("control groups %v, before %v", after, before)
	}
}
