//go:build soak

package agent

import "testing"

// TestSoakSessionKills: 200 sessions, and sixty kills.
func TestSoakSessionKills(t *testing.T) { surviveCrowd(t, 200, 60) }
