package store_test

import (
	"testing"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/testenv/storetest"
)

// proves part of S-08 S-09 H-60
func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) func() store.Store { return store.NewMemory }, storetest.Options{})
}
