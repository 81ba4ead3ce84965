package patience

import (
	"testing"
	"time"
)

// The time between two looks counts to a quarter of the TTL, a clock that is set
// changes nothing, and whatever is new begins it again.
//
// proves part of H-60
func TestLook(t *testing.T) {
	base := time.Now()
	type look struct {
		after time.Duration
		seen  int
		want  bool
	}
	for name, looks := range map[string][]look{
		"four quarters":           {{0, 1, false}, {25, 1, false}, {25, 1, false}, {25, 1, false}, {24, 1, false}, {1, 1, true}},
		"stopped for an hour":     {{0, 1, false}, {3600_000, 1, false}, {3600_000, 1, false}, {3600_000, 1, false}, {1, 2, false}},
		"four times an hour":      {{0, 1, false}, {3600_000, 1, false}, {3600_000, 1, false}, {3600_000, 1, false}, {3600_000, 1, true}},
		"new at the last moment":  {{0, 1, false}, {25, 1, false}, {25, 1, false}, {25, 1, false}, {25, 2, false}, {25, 2, false}},
		"a clock that goes back":  {{0, 1, false}, {-3600_000, 1, false}, {25, 1, false}, {25, 1, false}, {25, 1, false}, {25, 1, true}},
		"zero is something seen":  {{0, 0, false}, {25, 0, false}},
		"back to what it was":     {{0, 1, false}, {25, 1, false}, {25, 1, false}, {25, 2, false}, {25, 1, false}, {25, 1, false}},
		"many short looks in all": {{0, 1, false}, {20, 1, false}, {20, 1, false}, {20, 1, false}, {20, 1, false}, {20, 1, true}},
	} {
		p := Patience[int]{TTL: 100 * time.Millisecond}
		at := base
		for i, l := range looks {
			at = at.Add(l.after * time.Millisecond)
			if got := p.look(l.seen, at); got != l.want {
				t.Errorf("%s: look %d says %v after %v", name, i, got, p.Quiet())
			}
		}
	}
	// The readings that Look takes have a monotonic part: Round takes it off.
	if now := time.Now(); now == now.Round(0) {
		t.Error("time.Now has no monotonic reading")
	}
}
