package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
)

// made is a store with a session of some records, closed, and its one file.
func made(t *testing.T) (dir, file string, data []byte, journal string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "s")
	s := newStops(t, dir)
	l := take(t, s, AcquireOptions{Create: true})
	for _, r := range []string{"one", "two", "three"} {
		if err := add(l, r); err != nil {
			t.Fatal(err)
		}
	}
	journal = journalOf(t, l)
	if err := errors.Join(l.Release(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "s", "*", "*", "g.*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if data, err = os.ReadFile(files[0]); err != nil {
		t.Fatal(err)
	}
	return dir, files[0], data, journal
}

// Each bit of a session's file is turned, and each length cut: the session is what
// it was, or it is refused. Room without bytes behind it, and the beginning of an
// entry, change nothing.
//
// proves part of H-59
func TestFileDamaged(t *testing.T) {
	dir, file, data, journal := made(t)
	s := newStops(t, dir)
	try := func(what string, i int, changed []byte, must bool) {
		t.Helper()
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := s.Acquire(t.Context(), stepKey, AcquireOptions{NoWait: true})
		if err != nil {
			if must || !errors.Is(err, ErrDamaged) {
				t.Errorf("%s %d: %v", what, i, err)
			}
			return
		}
		if got := journalOf(t, l); got != journal {
			t.Errorf("%s %d: the journal is %q", what, i, got)
		}
		_ = l.Release(t.Context())
		if now := l.(*fileLease).n; now != 1 { // a turned bit of the claim: it went on in another file
			_ = os.Remove(generationOf(file, now))
			_ = os.Remove(filepath.Join(filepath.Dir(file), ending(1)))
		}
	}
	for i := range data {
		for bit := range 8 {
			changed := append([]byte(nil), data...)
			changed[i] ^= 1 << bit
			try("bit", i*8+bit, changed, false)
		}
	}
	for n := range data {
		try("length", n, data[:n], false)
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
	}
	entry := entryHead(nil, entryCommit, 5, []byte("x"), []byte("torn"))
	for n := range len(entry) + 4 {
		try("torn", n, append(append([]byte(nil), data...), append(entry, "torn"...)[:n]...), true)
	}
	for _, n := range []int{1, 31, 32, 33, 100_000} {
		try("zeros", n, append(append([]byte(nil), data...), make([]byte, n)...), true)
	}
	try("as it was", 0, data, true)
}

func generationOf(file string, n uint64) string {
	return filepath.Join(filepath.Dir(file), generation(n))
}

// A folder that others may enter, a link in its place or below, and a file that is
// none, are refused; modes are 0700 and 0600.
func TestFileFolder(t *testing.T) {
	dir, file, data, _ := made(t)
	err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[info.IsDir()]; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"link":   func() error { return errors.Join(os.Rename(file, file+".x"), os.Symlink(file+".x", file)) },
		"folder": func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
		"other": func() error {
			return errors.Join(os.Remove(file), os.WriteFile(file, []byte(strings.Replace(string(data), "owner", "Owner", 1)), 0o600))
		},
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if l, err := newStops(t, dir).Acquire(t.Context(), stepKey, AcquireOptions{Create: true}); err == nil {
			t.Errorf("%s: a lease %d", name, l.Fence())
		}
	}
	open := t.TempDir() // mode 0755
	if _, err := NewFile(open, FileOptions{}); !isField(err) {
		t.Error("an open folder:", err)
	}
	link := filepath.Join(open, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFile(link, FileOptions{}); err == nil {
		t.Error("a link is taken for a folder")
	}
	if _, err := NewFile(dir, FileOptions{TTL: 1}); !isField(err) {
		t.Error("a TTL of a nanosecond:", err)
	}
}

func isField(err error) bool {
	_, ok := errors.AsType[*api.FieldError](err)
	return ok
}

// Names are hexadecimal digits, and no two keys have the same.
//
// proves part of S-09
func TestNames(t *testing.T) {
	seen := map[string]Key{}
	for _, k := range []Key{{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}, {"a", "b"}, {"b", "a"}, {"A", "b"}, {"é", "b"}, {"e\u0301", "b"}} {
		owner, session := k.Names()
		if strings.Trim(owner+session, "0123456789abcdef") != "" || len(owner) != 64 || len(session) != 64 || owner == session {
			t.Errorf("%q: %s %s", k, owner, session)
		}
		if other, ok := seen[session]; ok {
			t.Errorf("%q and %q have the same name", k, other)
		}
		seen[session] = k
	}
}
