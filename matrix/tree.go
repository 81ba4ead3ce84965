//go:build linux

package matrix

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Tree collects the files of a machine. Names are absolute paths in the
// machine, whose /bin, /sbin, /lib and /lib64 lead into /usr as on Debian.
// Everything belongs to root.
type Tree struct {
	files map[string]entry
}

// entry is one file: its contents come from src, or from data when src is
// empty. For a symbolic link data is its target.
type entry struct {
	mode uint32
	src  string
	data []byte
	size int64
	dev  [2]int
}

// merged are the names that lead into /usr.
var merged = []string{"bin", "sbin", "lib", "lib64"}

// NewTree returns a tree with a root file system that holds no program: the
// usual folders, and an /etc that knows root, the users that the guest adds,
// and nobody.
func NewTree() *Tree {
	t := &Tree{files: map[string]entry{}}
	for _, d := range []string{
		"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/share", "/usr/local/bin", "/etc", "/home", "/opt",
		"/proc", "/sys", "/dev", "/run", "/var/lib", "/var/tmp", "/mnt", "/srv",
	} {
		t.mkdir(d, 0o755)
	}
	for _, d := range merged {
		t.files["/"+d] = entry{mode: modeSymlink | 0o777, data: []byte("usr/" + d), size: 5}
	}
	t.mkdir("/root", 0o700)
	t.mkdir("/tmp", 0o777|fs.ModeSticky)
	t.mkdir("/var/tmp", 0o777|fs.ModeSticky)
	for name, text := range map[string]string{
		"passwd":        "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/u1000:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
		"subuid":        "user:100000:65536\n",
		"subgid":        "user:100000:65536\n",
		"hosts":         "127.0.0.1 localhost matrix\n::1 localhost\n",
		"hostname":      "matrix\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	} {
		t.AddBytes("/etc/"+name, []byte(text), 0o644)
	}
	return t
}

// AddBytes puts a file with these contents at dst.
func (t *Tree) AddBytes(dst string, data []byte, perm fs.FileMode) {
	dst = place(dst)
	t.parents(dst)
	t.files[dst] = entry{mode: modeRegular | unixPerm(perm), data: data, size: int64(len(data))}
}

// AddFile puts the host's file src, followed through symbolic links, at dst.
func (t *Tree) AddFile(dst, src string) error {
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", src)
	}
	dst = place(dst)
	t.parents(dst)
	t.files[dst] = entry{mode: modeRegular | unixPerm(info.Mode()), src: src, size: info.Size()}
	return nil
}

// AddSymlink puts a symbolic link to target at dst.
func (t *Tree) AddSymlink(dst, target string) {
	dst = place(dst)
	t.parents(dst)
	t.files[dst] = entry{mode: modeSymlink | 0o777, data: []byte(target), size: int64(len(target))}
}

// AddTree copies the host's folder src to dst, symbolic links as they are.
// Sockets, pipes, devices and what the caller may not read are left out.
func (t *Tree) AddTree(src, dst string) error {
	return filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		to := path.Join(dst, filepath.ToSlash(rel))
		switch {
		case d.IsDir():
			info, err := d.Info()
			if err != nil {
				return err
			}
			if !t.Has(to) { // what the tree has already stays, such as /tmp for everybody
				t.mkdir(to, info.Mode())
			}
		case slices.Contains(merged, strings.TrimPrefix(to, "/")):
			// the link into /usr, which is there
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			t.AddSymlink(to, target)
		case d.Type().IsRegular():
			return t.AddFile(to, p)
		}
		return nil
	})
}

// Has says whether there is a file of that absolute name.
func (t *Tree) Has(name string) bool {
	_, ok := t.files[place(name)]
	return ok && path.IsAbs(name)
}

// Size is the sum of the files' sizes in bytes.
func (t *Tree) Size() int64 {
	var n int64
	for _, e := range t.files {
		n += e.size
	}
	return n
}

// mkdir adds a folder and those above it.
func (t *Tree) mkdir(dst string, perm fs.FileMode) {
	dst = place(dst)
	if dst == "/" {
		return
	}
	t.parents(dst)
	t.files[dst] = entry{mode: modeDir | unixPerm(perm)}
}

// parents adds the folders above dst that are missing.
func (t *Tree) parents(dst string) {
	for dir := path.Dir(dst); dir != "/"; dir = path.Dir(dir) {
		if _, ok := t.files[dir]; ok {
			return
		}
		t.files[dir] = entry{mode: modeDir | 0o755}
	}
}

// writeTo adds the files to an archive, below prefix.
func (t *Tree) writeTo(c *cpioWriter, prefix string) error {
	names := make([]string, 0, len(t.files))
	for name := range t.files {
		names = append(names, name)
	}
	slices.Sort(names) // a folder comes before what it holds
	for _, name := range names {
		if err := t.files[name].writeTo(c, strings.TrimPrefix(path.Join(prefix, name), "/")); err != nil {
			return err
		}
	}
	return nil
}

// writeTo adds the file to an archive under name.
func (e entry) writeTo(c *cpioWriter, name string) error {
	h := header{Name: name, Mode: e.mode, RMajor: e.dev[0], RMinor: e.dev[1]}
	var body io.Reader = bytes.NewReader(e.data)
	h.Size = int64(len(e.data))
	if e.src != "" {
		f, err := os.Open(e.src)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		body, h.Size = f, info.Size()
	}
	return c.Add(h, body)
}

// place cleans a name and leads it into /usr where the machine's links do.
func place(name string) string {
	name = path.Clean("/" + name)
	for _, d := range merged {
		if rest, ok := strings.CutPrefix(name, "/"+d+"/"); ok {
			return "/usr/" + d + "/" + rest
		}
		if name == "/"+d {
			return "/usr/" + d
		}
	}
	return name
}

// unixPerm is the permission bits with set-id and sticky ones.
func unixPerm(m fs.FileMode) uint32 {
	p := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		p |= syscall.S_ISUID
	}
	if m&fs.ModeSetgid != 0 {
		p |= syscall.S_ISGID
	}
	if m&fs.ModeSticky != 0 {
		p |= syscall.S_ISVTX
	}
	return p
}
