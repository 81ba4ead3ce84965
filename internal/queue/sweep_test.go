package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// onDisk counts how often a text is in the files below a folder.
func onDisk(t *testing.T, dir string, text []byte) int {
	t.Helper()
	n := 0
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		n += bytes.Count(b, text)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the server is about to give files up
		}
		return err
	}))
	return n
}

// It is long because secrets go wherever there is something stored.
//
// proves part of H-74 X-09
func TestGoneFromDisk(t *testing.T) {
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
			o := Options{Dir: t.TempDir() + "/queue", MinFree: 1, EncryptionKey: c.key, Retention: time.Second}
			q, err := Open(t.Context(), o)
			must(t, err)
			q.agedMu.Lock() // the sweep in the background waits
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
			q.agedMu.Unlock()
			b := bucket(t, q, "keys", BucketOptions{TTL: time.Second})
			_, err = b.Create(ctx, "k", []byte(secret), 0)
			must(t, err)
			if result, err := q.Result(ctx, "r"); err != nil || !bytes.Equal(result, large) {
				t.Error("the result is not there before its time:", err)
			}
			q.agedMu.Lock()
			if !c.sweep {
				defer q.agedMu.Unlock()
			} else {
				for _, a := range q.aged {
					if a.size > 0 {
						must(t, q.fill(ctx, a))
					}
				}
				q.agedMu.Unlock()
			}
			// Something younger is always there, behind it.
			n := 0
			eventually(t, func() bool {
				n++
				id := fmt.Sprintf("later-%d", n)
				submit(t, q, "c", id)
				d := take(t, q)
				must(t, d.Finish(ctx, nil, nil))
				must(t, q.Runs().Put(ctx, id, "a", strings.NewReader(id)))
				_, err := b.Create(ctx, id, nil, 0)
				must(t, err)
				_, err = q.Result(ctx, "r")
				return errors.Is(err, ErrNotFound)
			})
			if c.want {
				if onDisk(t, o.Dir, []byte(secret)) == 0 {
					t.Error("it is gone without a sweep, so that nothing is proved")
				}
				return
			}
			eventually(t, func() bool { return onDisk(t, o.Dir, []byte(secret)) == 0 })
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
