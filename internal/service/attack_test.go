package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// The folder with the secret is this user's alone, also when the queue is elsewhere.
//
// proves part of H-71 H-74
func TestAttackFolderOfSecret(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []os.FileMode{0o777, 0o770, 0o750, 0o777 | os.ModeSticky} {
		open := filepath.Join(dir, mode.String())
		if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := service.Open(t.Context(), service.Options{Dir: open, Queue: queue.Options{URL: "nats://127.0.0.1:1", Insecure: true}}); !errors.Is(err, queue.ErrFolder) {
			t.Errorf("%v: %v", mode, err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "own"), 0o700), os.Symlink("own", link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{link: true, filepath.Join(dir, "own"): false} {
		if _, err := service.Open(t.Context(), service.Options{Dir: path, Queue: queue.Options{URL: "nats://127.0.0.1:1", Insecure: true}}); err == nil || errors.Is(err, queue.ErrFolder) != want {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
}
