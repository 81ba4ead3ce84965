// Package warm keeps the caches of compilers that are filled once, when Glovebox
// is installed, from nothing but the language's own installation, and that cells
// only read. Nothing that a guest wrote is ever in one.
//
// A cache is a folder of its own: "files", which cells see; "digests", the name and
// SHA-256 of each of its files; and "seen", which says in what state the files were
// when their digests were last compared.
package warm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxDigests bounds the list of digests in bytes.
const maxDigests = 16 << 20

// Key names what a cache was filled by: another program, or another way of
// filling, is another cache.
func Key(program string, fill []string, env map[string]string) (string, error) {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Stat(real, &st); err != nil {
		return "", err
	}
	d := sha256.New()
	fmt.Fprintf(d, "%s %d %d %d.%d %q %q", real, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, fill, env) // maps are printed in order
	return hex.EncodeToString(d.Sum(nil))[:16], nil
}

// Cache is one cache of a folder of caches.
type Cache struct{ dir string }

// At is the cache of a language in a folder of caches, whether it is there or not.
func At(folder, language, key string) Cache {
	return Cache{filepath.Join(folder, language+"-"+key)}
}

// Files is the folder that cells see.
func (c Cache) Files() string { return filepath.Join(c.dir, "files") }

// Exists tells whether the cache was filled, and by somebody to be trusted: the
// folder belongs to root or this user and nobody else may write to it, or put
// another in its place.
func (c Cache) Exists() bool {
	return trusted(filepath.Dir(c.dir)) == nil && trusted(c.dir) == nil && trusted(c.Files()) == nil && firm(filepath.Dir(c.dir)) == nil
}

// firm wants a folder that nobody but root and this user can put another in the
// place of: in each that it lies in others may write at most to what is their own.
func firm(folder string) error {
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return err
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return err
		}
		if st.Uid != 0 && int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
			return fmt.Errorf("somebody else may move what lies in %s", dir)
		}
		if dir == "/" {
			return nil
		}
	}
}

func trusted(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a folder", dir)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, neither to root nor to this user", dir, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s may be written by others (mode %#o)", dir, st.Mode&0o777)
	}
	return nil
}

// Verify compares the files with their digests, or, when they are in the very
// state in which that was done before, just sees that they are.
func (c Cache) Verify() error {
	if !c.Exists() {
		return errors.New("the cache belongs to somebody else, or others may write to it")
	}
	state, err := c.state()
	if err != nil {
		return err
	}
	if seen, err := os.ReadFile(filepath.Join(c.dir, "seen")); err == nil && bytes.Equal(seen, state) {
		return nil
	}
	want, err := os.ReadFile(filepath.Join(c.dir, "digests"))
	if err != nil {
		return err
	}
	got, err := c.digests()
	if err != nil {
		return err
	}
	if len(want) > maxDigests || !bytes.Equal(got, want) {
		return errors.New("the files are not those that the cache was filled with")
	}
	// A user of root's cache cannot write this, and compares every time.
	_ = replace(filepath.Join(c.dir, "seen"), state)
	return nil
}

// walk calls f for each file, in order; whatever else it finds is an error.
func (c Cache) walk(f func(name string, st *unix.Stat_t) error) error {
	return filepath.WalkDir(c.Files(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case st.Mode&0o022 != 0 && kind != unix.S_IFLNK, kind != unix.S_IFDIR && kind != unix.S_IFREG:
			return fmt.Errorf("%s is neither a file nor a folder, or others may write to it", path)
		case kind == unix.S_IFDIR:
			return nil
		}
		rel, err := filepath.Rel(c.Files(), path)
		if err != nil {
			return err
		}
		return f(rel, &st)
	})
}

// state is a digest of what the kernel says of each file. A file cannot be
// changed, or replaced, without a new time of change.
func (c Cache) state() ([]byte, error) {
	d := sha256.New()
	err := c.walk(func(name string, st *unix.Stat_t) error {
		_, err := fmt.Fprintf(d, "%q %d %d %d %d %o %d.%d %d.%d\n", name, st.Dev, st.Ino, st.Size, st.Uid, st.Mode,
			st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
		return err
	})
	return []byte(hex.EncodeToString(d.Sum(nil)) + "\n"), err
}

func (c Cache) digests() ([]byte, error) {
	var b bytes.Buffer
	err := c.walk(func(name string, _ *unix.Stat_t) error {
		f, err := os.Open(filepath.Join(c.Files(), name))
		if err != nil {
			return err
		}
		defer f.Close()
		d := sha256.New()
		if _, err := io.Copy(d, f); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x %q\n", d.Sum(nil), name)
		return nil
	})
	return b.Bytes(), err
}

// Fill makes the cache from names and contents, in the place of what was there. It
// is all there or not at all. Caches of the same language for other programs are
// removed: nobody will ask for them again.
func (c Cache) Fill(files map[string][]byte) error {
	folder := filepath.Dir(c.dir)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := errors.Join(trusted(folder), firm(folder)); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(folder, ".filling-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	made := Cache{tmp}
	for name, data := range files {
		path := filepath.Join(made.Files(), name)
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q is no name of a file", name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o444); err != nil {
			return err
		}
	}
	if err := made.open(); err != nil {
		return err
	}
	list, err := made.digests()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, "digests"), list, 0o444); err != nil {
		return err
	}
	if err := c.removeOthers(folder); err != nil {
		return err
	}
	return os.Rename(tmp, c.dir)
}

// open gives everything the mode that cells need, whose users are others: the umask
// may have taken it away.
func (c Cache) open() error {
	return filepath.WalkDir(c.Files(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o444)
		if e.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

// removeOthers removes the caches of the same language for whatever program. The
// name of a language may begin like that of another.
func (c Cache) removeOthers(folder string) error {
	language := filepath.Base(c.dir)
	language = language[:strings.LastIndexByte(language, '-')+1]
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if key, ok := strings.CutPrefix(e.Name(), language); ok && !strings.Contains(key, "-") {
			if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func replace(path string, data []byte) error {
	tmp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
