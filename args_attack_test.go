package glovebox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// Arguments that are too large together are refused, or the kernel refuses them,
// which is the program's own 126. They never become a failure of Glovebox.
func TestArgumentsTogether(t *testing.T) {
	for _, is := range []struct {
		count   int
		refused bool
	}{{1, false}, {40, false}, {80, true}, {900, true}} {
		p := glovebox.Program{Command: []string{"/bin/true"}}
		for range is.count {
			p.Args = append(p.Args, strings.Repeat("x", 100<<10))
		}
		r, err := box(t).Run(t.Context(), p)
		var fe *glovebox.FieldError
		if is.refused {
			if !errors.As(err, &fe) || fe.Field != "args" || fe.Reason != "must have at most 4194304 bytes together" {
				t.Errorf("%d: %v, %+v", is.count, err, r)
			}
			continue
		}
		want := map[bool]int{true: 0, false: 126}[is.count == 1]
		if err != nil || r.Verdict != api.OK && r.Verdict != api.Error || *r.ExitCode != want {
			t.Errorf("%d: %v, %+v", is.count, err, r)
		}
	}
}
