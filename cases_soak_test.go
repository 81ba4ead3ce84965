//go:build soak

package glovebox_test

import (
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// The thousand runs of 197, of which TestCases does a fifth.
func TestSoakCases(t *testing.T) {
	before := caseGroups(t, box(t))
	b, err := glovebox.New(options())
	if err != nil {
		t.Fatal(err)
	}
	caseMixed(&caseBox{t, b}, 1000)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if after := caseGroups(t, box(t)); len(after) != len(before) {
		t.Errorf("control groups %v, before %v", after, before)
	}
}
