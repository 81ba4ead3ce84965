//go:build soak

package admission

import "testing"

// Two hundred thousand keys are found, listed, and take no more of the heap than the
// store's index of them.
//
// proves part of X-09
func TestSoakKeys(t *testing.T) {
	const count = 200_000
	before, full := manyKeys(t, count)
	t.Logf("heap before %d KiB, after %d KiB: %d bytes a key", before>>10, full>>10, (full-before)/count)
	if full-before > 128<<20 {
		t.Error("it grows")
	}
}
