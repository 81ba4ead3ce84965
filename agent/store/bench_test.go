package store_test

import (
	"path/filepath"
	"testing"

	"github.com/glovebox-dev/glovebox/agent/store"
)

// BenchmarkAppend commits records of 200 bytes, with a head of 300.
func BenchmarkAppend(b *testing.B) {
	file := func(o store.FileOptions) func(*testing.B) store.Store {
		return func(b *testing.B) store.Store {
			s, err := store.NewFile(filepath.Join(b.TempDir(), "s"), o)
			if err != nil {
				b.Fatal(err)
			}
			return s
		}
	}
	for _, c := range []struct {
		name string
		open func(*testing.B) store.Store
	}{
		{"memory", func(*testing.B) store.Store { return store.NewMemory() }},
		{"file without sync", file(store.FileOptions{NoSync: true})},
		{"file", file(store.FileOptions{})},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := c.open(b)
			defer s.Close()
			l, err := s.Acquire(b.Context(), store.Key{Owner: "o", ID: "i"}, store.AcquireOptions{Create: true})
			if err != nil {
				b.Fatal(err)
			}
			frames, head := make([]byte, 200), make([]byte, 300)
			for b.Loop() {
				if err := l.Append(b.Context(), frames, head); err != nil {
					b.Fatal(err)
				}
			}
			if err := l.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkTurn takes a session of 100 records, loads it and gives it back.
func BenchmarkTurn(b *testing.B) {
	s, err := store.NewFile(filepath.Join(b.TempDir(), "s"), store.FileOptions{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	k := store.Key{Owner: "o", ID: "i"}
	l, err := s.Acquire(b.Context(), k, store.AcquireOptions{Create: true})
	for range 100 {
		if err == nil {
			err = l.Append(b.Context(), make([]byte, 200), make([]byte, 300))
		}
	}
	if err == nil {
		err = l.Release(b.Context())
	}
	for b.Loop() {
		if err != nil {
			b.Fatal(err)
		}
		if l, err = s.Acquire(b.Context(), k, store.AcquireOptions{}); err == nil {
			_, err = l.Load(b.Context())
			_ = l.Release(b.Context())
		}
	}
}
