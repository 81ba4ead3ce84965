package main

import (
	"slices"
	"testing"
	"time"
)

// The parts are the long loops, the mutations and every fuzz target, each of which is
// found by name; what there is not is refused.
func TestPlan(t *testing.T) {
	api := []string{"github.com/glovebox-dev/glovebox/api"}
	parts, err := plan("", time.Minute, api)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	for _, want := range []string{"loops", "mutations", "github.com/glovebox-dev/glovebox/api FuzzLimits"} {
		if !slices.Contains(names, want) {
			t.Errorf("%q is not among %q", want, names)
		}
	}
	if parts, err := plan("loops", time.Minute, api); err != nil || len(parts) != 1 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	if _, err := plan("all", time.Minute, api); err == nil {
		t.Error("a part that there is not is accepted")
	}
}
