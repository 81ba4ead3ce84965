//go:build soak

package js_test

import "testing"

// All rows of the tables of memory, of which make test takes one in five.
//
// proves part of G-06 G-15
func TestSoakUncharged(t *testing.T) {
	bombsUncharged(t, 1)
	uncharged(t, 1)
}
