//go:build soak

package service_test

import (
	"testing"
	"time"
)

// proves part of X-17 H-45
func TestSoakOverload(t *testing.T) { overload(t, time.Minute) }
