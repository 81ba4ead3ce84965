package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/testenv/storetest"
)

// proves part of S-08 S-09 H-60
func TestFile(t *testing.T) {
	for name, o := range map[string]store.FileOptions{"with sync": {}, "without": {NoSync: true, TTL: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) func() store.Store {
				dir := filepath.Join(t.TempDir(), "sessions")
				return func() store.Store {
					s, err := store.NewFile(dir, o)
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
			}, storetest.Options{Shared: true})
		})
	}
}
