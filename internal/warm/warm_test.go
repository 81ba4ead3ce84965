package warm

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Deselect()
	os.Exit(m.Run())
}

func filled(t *testing.T) (Cache, string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "caches")
	c := At(folder, "lang", "k1")
	if err := c.Fill(map[string][]byte{"a/b": []byte("one"), "c": []byte("two")}); err != nil {
		t.Fatal(err)
	}
	return c, folder
}

// A cache is what it was filled with; a change of any kind is found, the first
// comparison as well as the later, cheap one.
//
// proves part of H-28
func TestVerify(t *testing.T) {
	c, _ := filled(t)
	for range 2 {
		if err := c.Verify(); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(c.Files(), "a/b")
	for name, change := range map[string]func() error{
		"other content": func() error { return rewrite(file, "ONE") },
		"another file":  func() error { return os.WriteFile(filepath.Join(c.Files(), "d"), nil, 0o444) },
		"a link": func() error {
			return os.Symlink("/etc/passwd", filepath.Join(c.Files(), "e"))
		},
		"a file is gone":      func() error { return os.Remove(file) },
		"writable for others": func() error { return os.Chmod(filepath.Join(c.Files(), "c"), 0o646) },
	} {
		for _, seen := range []bool{true, false} {
			c, _ = filled(t)
			file = filepath.Join(c.Files(), "a/b")
			if seen {
				if err := c.Verify(); err != nil {
					t.Fatal(err)
				}
			}
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if c.Verify() == nil {
				t.Errorf("%s (compared before: %v) is not found", name, seen)
			}
		}
	}
	// The same content with a new time of change is compared and found good.
	c, _ = filled(t)
	if err := c.Verify(); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(filepath.Join(c.Files(), "a/b"), "one"); err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(); err != nil {
		t.Error(err)
	}
}

func rewrite(path, text string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o444)
}

// A folder that somebody else may write to counts for nothing.
func TestExists(t *testing.T) {
	c, folder := filled(t)
	if !c.Exists() || At(folder, "lang", "k2").Exists() {
		t.Error("exists")
	}
	for _, dir := range []string{folder, filepath.Dir(c.Files()), c.Files()} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if c.Exists() || c.Verify() == nil {
			t.Errorf("%s may be written by others", filepath.Base(dir))
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// A folder that somebody else can put another in the place of counts for nothing
// either; one in a folder like /tmp, where nobody moves what is another's, does.
func TestExistsBelowOthers(t *testing.T) {
	for mode, want := range map[os.FileMode]bool{0o755: true, 0o777: false, 0o775: false, 0o777 | os.ModeSticky: true} {
		above := filepath.Join(t.TempDir(), "above")
		c := At(filepath.Join(above, "caches"), "lang", "k1")
		if err := c.Fill(map[string][]byte{"a": []byte("one")}); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(above, mode); err != nil {
			t.Fatal(err)
		}
		if c.Exists() != want || (c.Verify() == nil) != want {
			t.Errorf("below a folder of mode %v: %v, want %v", mode, c.Exists(), want)
		}
	}
}

// Who owns a folder above can do that too.
func TestExistsBelowAnotherAsRoot(t *testing.T) {
	above := filepath.Join(t.TempDir(), "above")
	c := At(filepath.Join(above, "caches"), "lang", "k1")
	if err := c.Fill(map[string][]byte{"a": []byte("one")}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(above, 64901, 64901); err != nil {
		t.Fatal(err)
	}
	if c.Exists() || c.Verify() == nil {
		t.Error("another user's folder")
	}
}

// Filling again replaces, takes away what other programs of the language had, and
// leaves nothing half done.
func TestFill(t *testing.T) {
	c, folder := filled(t)
	other := At(folder, "lang", "k2")
	if err := other.Fill(map[string][]byte{"x": nil}); err != nil {
		t.Fatal(err)
	}
	if c.Exists() || !other.Exists() || other.Verify() != nil {
		t.Error("the former cache is still there, or the new one is not")
	}
	if err := other.Fill(map[string][]byte{"../x": nil}); err == nil || !other.Exists() {
		t.Error("a name that leads out")
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Filling one language's cache leaves that of another whose name begins alike; a
// folder is a name and no pattern, and a umask takes nothing from those who read.
func TestFillLeavesOthers(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "[a]*")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	former := syscall.Umask(0o077)
	defer syscall.Umask(former)
	for _, language := range []string{"go-two", "go", "go", "g"} {
		if err := At(folder, language, "0123456789abcdef").Fill(map[string][]byte{"a/b": nil}); err != nil {
			t.Fatal(err)
		}
	}
	for _, language := range []string{"go-two", "go", "g"} {
		c := At(folder, language, "0123456789abcdef")
		if err := c.Verify(); err != nil {
			t.Errorf("%s: %v", language, err)
		}
		for name, mode := range map[string]os.FileMode{"": 0o755, "a": 0o755, "a/b": 0o444} {
			if st, err := os.Stat(filepath.Join(c.Files(), name)); err != nil || st.Mode().Perm() != mode {
				t.Errorf("%s/%s: %v, %v, want mode %#o", language, name, st.Mode(), err, mode)
			}
		}
	}
}

// Another program, or another way of filling, is another cache.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("1"), 0o755); err != nil {
		t.Fatal(err)
	}
	first, err := Key(program, []string{"a", "b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if same, _ := Key(program, []string{"a", "b"}, nil); same != first {
		t.Error("the same key twice differs")
	}
	if other, _ := Key(program, []string{"a b"}, nil); other == first {
		t.Error("another way of filling has the same key")
	}
	if err := os.WriteFile(program+"2", []byte("2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(program+"2", program); err != nil {
		t.Fatal(err)
	}
	if other, _ := Key(program, []string{"a", "b"}, nil); other == first {
		t.Error("another program has the same key")
	}
	if _, err := Key(filepath.Join(dir, "none"), nil, nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
