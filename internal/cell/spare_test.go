package cell

import "testing"

// Once armed, init has every thread that its runtime could still want: those
// that are somebody's own (main, the runtime's monitor, the one that makes
// threads, the sealed one, the two with the guest's ids) and four that are
// anybody's. Without a control group one more would be refused by RLIMIT_NPROC,
// which is init's too, and end the cell without a word.
//
// proves part of O-10
func TestInitHasItsThreads(t *testing.T) {
	const owned, spare = 6, 4
	h := openHost(t, 0)
	for range 5 {
		c, err := h.arm(defaultKind(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := c.witness.Tasks(); n < owned+spare {
			t.Errorf("%d threads of %d", n, owned+spare)
		}
		c.destroy()
	}
}
