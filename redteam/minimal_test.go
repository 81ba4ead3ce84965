package redteam

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/landlock"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// opened loads all attacks and opens a runner for them, until the test ends.
// The programs are compiled once for all tests.
func opened(t *testing.T) ([]*attack, *runner) {
	t.Helper()
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	r, err := open(testenv.Init(), cell.Require)
	if err != nil {
		t.Fatal(err)
	}
	r.compiled = &compiledOnce
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	return all, r
}

var compiledOnce sync.Map

func init() { compiledBefore = &compiledOnce }

// Where a file names several layers, each of them is enough: with one of them
// back in place the control does not get through any more. A layer that is named
// without need would hide that another one does not stop the attack.
//
// proves part of T-01 T-04
func TestEachNamedLayerIsEnough(t *testing.T) {
	all, r := opened(t)
	tried := 0
	for _, a := range all {
		if len(a.layers) < 2 || a.unfit() != "" {
			continue
		}
		b, err := r.build(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range a.layers {
			if l == "landlock" && a.abi > landlock.ABI() {
				continue // this kernel's does not speak of it
			}
			some := *a
			some.off = slices.DeleteFunc(slices.Clone(a.off), func(o string) bool { return parts[o] == l })
			h, err := r.without(&some)
			if err != nil {
				t.Errorf("%s without %s: %v", a.id(), strings.Join(some.off, ", "), err)
				continue
			}
			tried++
			if _, err := r.run(t.Context(), h, a, b, &a.control); err == nil {
				t.Errorf("%s gets through without %s: %s does not stop it", a.id(), strings.Join(some.off, ", "), l)
			}
		}
	}
	t.Logf("%d controls with one layer back", tried)
	if tried < 20 {
		t.Error("that is less than there are")
	}
}
