//go:build linux

package matrix

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed is an archive entry as the test reads it back.
type listed struct {
	Name, Mode, Body string
}

// list reads an archive by the format's description, without the writer.
func list(t *testing.T, archive []byte) []listed {
	t.Helper()
	if len(archive)%512 != 0 {
		t.Errorf("the archive has %d bytes, no multiple of 512", len(archive))
	}
	var all []listed
	for at := 0; at < len(archive); {
		if string(archive[at:at+6]) != "070701" {
			t.Fatalf("no header at %d: %q", at, archive[at:at+6])
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(archive[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		mode, size, nameSize := field(1), field(6), field(11)
		name := string(archive[at+110 : at+110+nameSize-1])
		if name == trailer {
			return all
		}
		body := (at + 110 + nameSize + 3) &^ 3
		all = append(all, listed{name, strconv.FormatInt(int64(mode), 8), string(archive[body : body+size])})
		at = (body + size + 3) &^ 3
	}
	t.Fatal("the archive has no end")
	return nil
}

// A folder that a tree has keeps its permissions when another is laid over it.
func TestAddTreeKeepsFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "var", "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree := NewTree()
	if err := tree.AddTree(dir, "/"); err != nil {
		t.Fatal(err)
	}
	if mode := tree.files["/var/tmp"].mode; mode&0o7777 != 0o1777 {
		t.Errorf("/var/tmp has mode %o", mode)
	}
}

func TestTreeAsArchive(t *testing.T) {
	src := t.TempDir()
	for name, perm := range map[string]os.FileMode{"tool": 0o755, "deep/er/data": 0o600} {
		at := filepath.Join(src, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("contents of "+name), perm); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(src, "tool"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("tool", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	tree := &Tree{files: map[string]entry{}}
	if err := tree.AddTree(src, "/lib/x"); err != nil {
		t.Fatal(err)
	}
	tree.AddBytes("/a", []byte("12345"), 0o644)
	var b bytes.Buffer
	c := newCPIOWriter(&b)
	if err := tree.writeTo(c, "/root"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	want := []listed{
		{"root/a", "100644", "12345"},
		{"root/usr", "40755", ""},
		{"root/usr/lib", "40755", ""},
		{"root/usr/lib/x", "40755", ""},
		{"root/usr/lib/x/deep", "40755", ""},
		{"root/usr/lib/x/deep/er", "40755", ""},
		{"root/usr/lib/x/deep/er/data", "100600", "contents of deep/er/data"},
		{"root/usr/lib/x/link", "120777", "tool"},
		{"root/usr/lib/x/tool", "104755", "contents of tool"},
	}
	if diff := cmp.Diff(want, list(t, b.Bytes())); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestArchiveRefusesAShortBody(t *testing.T) {
	c := newCPIOWriter(io.Discard)
	err := c.Add(header{Name: "f", Mode: modeRegular, Size: 9}, strings.NewReader("short"))
	if err == nil || !strings.Contains(err.Error(), "5 bytes instead of 9") {
		t.Errorf("got %v", err)
	}
}

func TestNewTreeLeadsIntoUsr(t *testing.T) {
	tree := NewTree()
	tree.AddBytes("/bin/tool", []byte("x"), 0o755)
	if _, ok := tree.files["/usr/bin/tool"]; !ok {
		t.Error("/bin/tool is not in /usr/bin")
	}
	if e := tree.files["/bin"]; e.mode&modeSymlink != modeSymlink {
		t.Errorf("/bin has mode %o", e.mode)
	}
	if e := tree.files["/tmp"]; e.mode != modeDir|0o1777 {
		t.Errorf("/tmp has mode %o", e.mode)
	}
}

func TestBinaryBringsItsLibraries(t *testing.T) {
	const bash = "/bin/bash"
	if _, err := os.Stat(bash); err != nil {
		t.Fatal("this host has no", bash)
	}
	tree := NewTree()
	if err := tree.AddBinaryWithLibs(bash); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for name := range tree.files {
		base := filepath.Base(name)
		for _, part := range []string{"bash", "libc.so", "ld-linux"} {
			found[part] = found[part] || strings.HasPrefix(base, part)
		}
	}
	if diff := cmp.Diff(map[string]bool{"bash": true, "libc.so": true, "ld-linux": true}, found); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
