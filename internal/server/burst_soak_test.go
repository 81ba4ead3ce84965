//go:build soak

package server_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// Case 141 in all of its five languages.
func TestSoakCase141AsRoot(t *testing.T) {
	s := alone(t, service.Options{Admission: admission.Options{InFlight: 64, WaitsPerClient: 64}})
	if refused := s.burst(t, 50, slices.Sorted(maps.Keys(hello))); len(refused) != 0 {
		t.Errorf("of fifty some were refused: %v", refused)
	}
}
