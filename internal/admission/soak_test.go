//go:build soak

package admission

import (
	"testing"
	"time"
)

// Two hundred thousand keys, and clients that submit a run each within an hour, take no
// more of the heap than the store's index of 4,096 parts.
//
// proves part of X-09
func TestSoakMany(t *testing.T) {
	const count = 200_000
	inOneHour(5 * time.Minute)
	before, full := manyKeys(t, count)
	t.Logf("keys: heap before %d KiB, after %d KiB", before>>10, full>>10)
	if full-before > 8<<20 {
		t.Error("it grows")
	}
	before, full = manyQuotas(t, count)
	t.Logf("clients: heap before %d KiB, after %d KiB", before>>10, full>>10)
	if full-before > 8<<20 {
		t.Error("it grows")
	}
}
