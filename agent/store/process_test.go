package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/testenv/storetest"
)

const processTTL = 100 * time.Millisecond

func TestMain(m *testing.M) {
	storetest.Child(func(place string) (store.Store, error) {
		return store.NewFile(place, store.FileOptions{TTL: processTTL, NoSync: os.Getenv("GLOVEBOX_TEST_STORE_NOSYNC") != ""})
	})
	os.Exit(m.Run())
}

func newFile(t *testing.T) (store.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sessions")
	s, err := store.NewFile(dir, store.FileOptions{TTL: processTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

// Processes end by SIGKILL at random points of commits, 200 times, each session
// twice: every record that was said to be committed is there, and at most one more;
// and the session is free at once.
//
// proves part of H-60
func TestFileKilled(t *testing.T) {
	s, dir := newFile(t)
	storetest.Kills(t, s, dir, 200, false)
}

// Two processes, one stopped before, within and after each kind of step for longer
// than the TTL: it is replaced, and then told what came of its step. Nothing that it
// does afterwards shows.
//
// proves part of H-60
func TestFileStopped(t *testing.T) {
	s, dir := newFile(t)
	storetest.Stops(t, s, dir, 72, processTTL)
}

// A file that cannot grow, as on a disk that is full, is an error, the lease holds,
// and the journal is what it was.
func TestFileFull(t *testing.T) {
	s, dir := newFile(t)
	if err := storetest.Full(t, s, dir); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "tmp", "*"))
	if err := errors.Join(err); err != nil || len(left) > 0 {
		t.Fatal(fmt.Sprint(left), err)
	}
}
