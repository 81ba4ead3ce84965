package redteam

import (
	"slices"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/cell"
)

// A compiler's cell stops all that a program's cell stops, with the same
// answers: the attacks of the other groups are fired under its profile too. The
// profile does not know whose the cell is.
//
// proves part of H-27
func TestBatteryAsACompilerAsRoot(t *testing.T) {
	all, r := opened(t)
	fired := 0
	for _, a := range all {
		// A compiler has no network of its own to lose, and what is the compiler's
		// already has this profile.
		if a.profile != "" || a.source || a.loopback || slices.Contains(slow, a.id()) || a.unfit() != "" || r.lacks(a) != "" {
			continue
		}
		as := *a
		as.profile = cell.CompileProfile
		b, err := r.build(t.Context(), &as)
		if err != nil {
			t.Fatal(err)
		}
		fired++
		if _, err := r.run(t.Context(), r.whole, &as, b, &as.sealed); err != nil {
			t.Errorf("%s: %v", a.id(), err)
		}
	}
	t.Logf("%d attacks", fired)
	if fired < 100 {
		t.Error("that is less than there are")
	}
}

// slow attacks look at limits that do not depend on the profile, and take time.
var slow = []string{"exhaustion/share-of-processor", "classics/judge-time-in-children"}
