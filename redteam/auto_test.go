package redteam

import (
	"slices"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/cell"
)

// What is said of an attack under auto is so: without its layer, and with all that
// stands in for it left as it is, it gets through, or does not where something
// is said to stop it.
//
// proves part of T-03 T-04
func TestStandIns(t *testing.T) {
	all, r := opened(t)
	for _, a := range all {
		if len(a.layers) != 1 || a.unfit() != "" {
			continue
		}
		layer := a.layers[0]
		i := slices.IndexFunc(cell.Losses(), func(l cell.Loss) bool { return l.Layer == layer })
		switch {
		case i < 0 || !cell.Losses()[i].Runs || layer == "rlimits":
			continue // auto does not run without it, or lacks a part of it that none of these is about
		case slices.Equal(a.off, a.layers) && StandIn(a.id()) == "":
			continue // its control is this very thing
		}
		b, err := r.build(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		some := *a
		some.off = []string{layer}
		h, err := r.without(&some)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.run(t.Context(), h, a, b, &a.control)
		switch StandIn(a.id()) {
		case "":
			if err != nil {
				t.Errorf("%s without %s alone: %v", a.id(), layer, err)
			}
		case samples: // it is a race
		default:
			if err == nil {
				t.Errorf("%s gets through without %s alone", a.id(), layer)
			}
		}
	}
	for _, l := range layers {
		// What is init's own is there in every mode.
		if !slices.Contains([]string{"init", "collector"}, l) && !slices.ContainsFunc(cell.Losses(), func(x cell.Loss) bool { return x.Layer == l }) {
			t.Errorf("the layer %s is not in the table of what auto lets go", l)
		}
	}
	for name := range standIns {
		if !slices.ContainsFunc(all, func(a *attack) bool { return a.id() == name && slices.Equal(a.layers, []string{"cgroup"}) }) {
			t.Errorf("%s is no attack that the control group alone stops", name)
		}
	}
}
