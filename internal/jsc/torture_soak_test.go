//go:build soak

package jsc

import "testing"

// TestSoakTorture is TestTorture at length: ten million host calls, and forty
// thousand with a collection at every slow allocation.
func TestSoakTorture(t *testing.T) {
	tortureAll(t, 20, 500_000, 50)
	tortureAll(t, 4, 10_000, 1)
}
