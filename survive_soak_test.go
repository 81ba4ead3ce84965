//go:build soak

package glovebox_test

import (
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// Ten thousand cells leave the host as it was, dying groups included.
//
// proves part of H-44
func TestSoakWear(t *testing.T) { wearDown(t, 10_000) }

// Ten thousand cells of which something is killed leave the host as it was.
//
// proves part of H-44
func TestSoakKills(t *testing.T) { wearDownByKills(t, 10_000) }

// Twenty of each kind of bomb.
func TestSoakTaskBombs(t *testing.T) { bombTasks(t, 20) }

// A thousand boxes that come and go leave nothing.
func TestSoakBoxes(t *testing.T) {
	box(t)
	before := usage(t)
	for range 1000 {
		o := options()
		o.Armed = 1
		b := newBox(t, o)
		wantEnd(t, "true", anyway(t, b, glovebox.Program{Command: []string{"/bin/true"}}), "ok 0")
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	before.compare(t, usage(t))
}
