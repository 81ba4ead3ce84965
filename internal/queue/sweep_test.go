package queue

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// onDisk counts how often a text is in the files below a folder.
func onDisk(t *testing.T, dir string, text []byte) int {
	t.Helper()
	n := 0
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		n += bytes.Count(b, text)
		return err
	}))
	return n
}

// proves part of H-74 X-09
func TestErased(t *testing.T) {
	const secret = "planted-secret-0123456789"
	for _, c := range []struct {
		name  string
		sweep bool
		key   string
		want  bool // it is on the disk
	}{
		{"swept", true, "", false},
		{"control: not swept", false, "", true},
		{"encrypted, not swept", false, "0123456789abcdef0123456789abcdef", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Dir: t.TempDir() + "/queue", MinFree: 1, EncryptionKey: c.key}
			q, err := Open(t.Context(), o)
			must(t, err)
			ctx := t.Context()
			must(t, q.Submit(ctx, Job{ID: "r", Client: "c", Program: []byte(secret), Note: []byte(secret)}))
			large := bytes.Repeat([]byte(secret), 30_000)
			must(t, q.Submit(ctx, Job{ID: "large", Client: "c", Program: large}))
			for range 2 {
				d := take(t, q)
				must(t, d.Begin(ctx, []byte(secret)))
				must(t, d.Publish(ctx, "chunk", []byte(secret)))
				must(t, d.Finish(ctx, large, nil))
			}
			b := bucket(t, q, "keys", BucketOptions{TTL: time.Hour})
			_, err = b.Create(ctx, "k", []byte(secret), 0)
			must(t, err)
			submit(t, q, "c", "later") // something that stays, behind it
			if c.sweep {
				must(t, q.sweep(ctx, time.Now().Add(25*time.Hour)))
				if _, err := q.Result(ctx, "r"); !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
			} else if result, err := q.Result(ctx, "r"); err != nil || !bytes.Equal(result, large) {
				t.Error("the result is not there before the sweep:", err)
			}
			must(t, q.Close())
			if n := onDisk(t, o.Dir, []byte(secret)); (n > 0) != c.want {
				t.Errorf("%d times on the disk", n)
			}
		})
	}
}

// proves part of H-74
func TestForget(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	submit(t, q, "c", "r")
	submit(t, q, "c", "other")
	if err := q.Forget(ctx, "r"); !errors.Is(err, ErrRunning) {
		t.Error(err)
	}
	for range 2 {
		d := take(t, q)
		must(t, q.Runs().Put(ctx, d.Job.ID, "artifact/a", bytes.NewReader([]byte("text"))))
		must(t, d.Finish(ctx, []byte("ok"), nil))
	}
	must(t, q.Forget(ctx, "r"))
	if _, err := q.Runs().Get(ctx, "r", "artifact/a"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	o, err := q.Runs().Get(ctx, "other", "artifact/a")
	must(t, err)
	if text, err := o.Bytes(100); err != nil || string(text) != "text" {
		t.Error(string(text), err)
	}
}
