package strays

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Deselect()
	os.Exit(m.Run())
}

// nobody is who a program of root's cells is.
var nobody = reader{uid: -1}

// host is a made-up host.
type host struct {
	*testing.T
	root string
}

// newHost makes a host whose folders are merged into /usr.
func newHost(t *testing.T) host {
	t.Helper()
	h := host{t, t.TempDir()}
	for _, d := range []string{"/usr/bin", "/usr/lib", "/usr/share", "/var/lib/dpkg/info"} {
		h.dir(d, 0o755)
	}
	h.link("/bin", "usr/bin")
	h.link("/lib", "/usr/lib") // from the host's own root, not that of the test's machine
	return h
}

func (h host) check(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h host) dir(path string, mode fs.FileMode) {
	h.Helper()
	h.check(os.MkdirAll(h.root+path, 0o755))
	h.check(os.Chmod(h.root+path, mode))
}

// file makes files with one mode, and the folders that they lie in.
func (h host) file(mode fs.FileMode, paths ...string) {
	h.Helper()
	for _, p := range paths {
		h.check(os.MkdirAll(filepath.Dir(h.root+p), 0o755))
		h.check(os.WriteFile(h.root+p, nil, 0o600))
		h.check(os.Chmod(h.root+p, mode))
	}
}

func (h host) link(path, to string) {
	h.Helper()
	h.check(os.Symlink(to, h.root+path))
}

// text writes lines into a file.
func (h host) text(path string, lines ...string) {
	h.Helper()
	h.check(os.MkdirAll(filepath.Dir(h.root+path), 0o755))
	h.check(os.WriteFile(h.root+path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// lists says what a package owns.
func (h host) lists(name string, files ...string) {
	h.Helper()
	h.text(listDir+"/"+name+".list", append([]string{"/."}, files...)...)
}

// finds compares what is found in the three folders of /usr.
func (h host) finds(want ...string) {
	h.Helper()
	got, err := find(h.Context(), h.root, []string{"/usr/bin", "/usr/lib", "/usr/share"}, usual, nobody)
	if err != nil {
		h.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		h.Errorf("found (-want +got):\n%s", d)
	}
}

// What no package owns and others can read is found, whatever its name is, and
// nothing else: no file that is owned, closed, or behind a closed folder, no link,
// and nothing behind one.
//
// proves part of H-27
func TestFind(t *testing.T) {
	h := newHost(t)
	h.lists("tool", "/usr", "/usr/bin", "/usr/bin/tool", "/usr/share/tool", "/usr/share/tool/owned")
	h.file(0o755, "/usr/bin/tool", "/usr/bin/left")
	h.file(0o644, "/usr/share/tool/owned", "/usr/share/tool/left", "/usr/share/tool/owned2")
	h.file(0o004, "/usr/share/tool/odd")
	h.file(0o600, "/usr/share/tool/closed")
	h.file(0o640, "/usr/share/tool/group")
	h.file(0o711, "/usr/bin/run-only")
	hostile := []string{"/usr/share/x/\x1b[2Jesc", "/usr/share/x/-rf", "/usr/share/x/a\nb", "/usr/share/x/no\xffutf8", "/usr/share/x/\u202ebidi"}
	h.file(0o644, hostile...)
	h.file(0o644, "/usr/share/private/in", "/usr/share/private/deep/in", "/usr/share/entered/in")
	h.dir("/usr/share/private", 0o754)
	h.dir("/usr/share/entered", 0o755)
	h.file(0o644, "/srv/secret", "/srv/dir/secret", "/usr/local/left")
	h.link("/usr/share/a-link", "/srv/secret")
	h.link("/usr/share/dir-link", "../../srv/dir")
	h.check(syscall.Mkfifo(h.root+"/usr/share/fifo", 0o644))
	want := append([]string{"/usr/bin/left", "/usr/share/entered/in", "/usr/share/tool/left", "/usr/share/tool/odd", "/usr/share/tool/owned2"}, hostile...)
	slices.Sort(want)
	h.finds(want...)
}

// A shown path may be one file, a folder below another that is shown, not there, or
// in a folder that is closed: a cell has a folder of its own in the place of that.
func TestFindShown(t *testing.T) {
	h := newHost(t)
	h.lists("tool", "/etc/tool/owned")
	h.file(0o644, "/etc/tool/one", "/etc/tool/owned", "/etc/tool/other", "/usr/share/sub/x")
	h.dir("/etc/tool", 0o700)
	h.link("/usr/share/link", "sub")
	shown := []string{"/etc/tool/owned", "/etc/tool/one", "/nothing", "/usr/share/sub", "/usr/share", "/usr/share/link"}
	got, err := Find(t.Context(), h.root+"/", shown)
	if want := []string{"/etc/tool/one", "/usr/share/sub/x"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("found %q, %v; want %q", got, err, want)
	}
}

// A package owns what its list says under another name, when that leads there by
// links: on a merged system, and through a folder's link of another package.
func TestFindAliases(t *testing.T) {
	h := newHost(t)
	h.lists("old", "/bin/old", "/lib/sub/old.so", "/usr/share/doc/alias/copyright", "/usr/share/loop/x", "/usr/share/loop2/x")
	h.lists("odd", "relative", "/usr/share/../share/dots", "/usr//share/slashes", "")
	h.link("/usr/share/loop", "loop2")
	h.link("/usr/share/loop2", "loop")
	h.file(0o644, "/usr/bin/old", "/usr/bin/new", "/usr/lib/sub/old.so", "/usr/lib/old", "/usr/share/doc/real/copyright", "/usr/share/doc/real/left")
	h.file(0o644, "/usr/share/dots", "/usr/share/slashes")
	h.link("/usr/share/doc/alias", "real")
	h.finds("/usr/bin/new", "/usr/lib/old", "/usr/share/doc/real/left", "/usr/share/dots", "/usr/share/slashes")

	// The control: where /bin is a folder of its own, its file is another.
	h.check(os.Remove(h.root + "/bin"))
	h.file(0o755, "/bin/old")
	h.finds("/usr/bin/new", "/usr/bin/old", "/usr/lib/old", "/usr/share/doc/real/left", "/usr/share/dots", "/usr/share/slashes")
}

// A diverted file is owned under its other name, and the name itself by the package
// that wanted it; where that was an administrator, by none.
func TestFindDiversions(t *testing.T) {
	h := newHost(t)
	h.text(diversions,
		"/bin/sh", "/bin/sh.distrib", "dash",
		"/usr/bin/perf", "/usr/bin/perf.wrapper", "linux-perf",
		"/usr/bin/ours", "/usr/bin/ours.real", ":")
	h.lists("dash", "/bin/sh")
	h.lists("bash", "/bin/sh")
	h.lists("linux-perf:amd64", "/usr/bin/perf")
	h.lists("ours", "/usr/bin/ours")
	h.file(0o755, "/usr/bin/sh", "/usr/bin/sh.distrib", "/usr/bin/perf", "/usr/bin/perf.wrapper", "/usr/bin/ours", "/usr/bin/ours.real")
	h.finds("/usr/bin/ours", "/usr/bin/perf.wrapper")

	h.text(diversions, "/bin/sh", "/bin/sh.distrib")
	if got, err := find(t.Context(), h.root, nil, usual, nobody); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("half a diversion: %q, %v", got, err)
	}
}

// What packages registered with ucf is theirs.
func TestFindRegistered(t *testing.T) {
	h := newHost(t)
	h.lists("php")
	if got, err := Find(t.Context(), h.root, []string{"/usr/share"}); err != nil || got == nil || len(got) > 0 {
		t.Errorf("found %#v, %v; want an empty list", got, err)
	}
	h.text(registry, "php8.2-common \t /usr/share/php/made.ini", "no file", "")
	h.file(0o644, "/usr/share/php/made.ini", "/usr/share/php/left.ini")
	h.finds("/usr/share/php/left.ini")
}

// A host without dpkg's lists is not known. Lists that cannot be read are another
// error: neither says that nothing was found.
func TestUnknown(t *testing.T) {
	h := host{t, t.TempDir()}
	h.file(0o644, "/usr/share/left")
	fails := func(what string, unknown bool) {
		t.Helper()
		got, err := find(t.Context(), h.root, []string{"/usr/share"}, usual, nobody)
		if err == nil || errors.Is(err, ErrUnknown) != unknown || got != nil {
			t.Errorf("%s: found %q, error %v", what, got, err)
		}
	}
	fails("no dpkg", true)
	h.file(0o644, listDir+"/format")
	fails("no lists", true)
	list := h.root + listDir + "/tool.list"
	h.dir(listDir+"/tool.list", 0o755)
	fails("a folder for a list", false)
	h.check(os.Remove(list))
	h.check(syscall.Mkfifo(list, 0o644))
	fails("a pipe for a list", false)
	h.check(os.Remove(list))
	h.link(listDir+"/tool.list", "format")
	fails("a link for a list", false)
	h.check(os.Remove(list))
	h.lists("tool", "/"+strings.Repeat("x", maxLine))
	fails("a line without end", false)
	h.lists("tool")
	h.finds("/usr/share/left")
}

// Each bound ends the search with an error and without a list; one more would have
// been enough.
func TestBounds(t *testing.T) {
	h := newHost(t)
	h.lists("tool", "/usr/share/a") // two lines of 14 bytes
	h.file(0o644, "/usr/share/d/1", "/usr/share/d/2", "/usr/share/d/3")
	share := []string{"/usr/share"}
	for _, c := range []struct {
		shown []string
		most  bounds
		files int // -1 for too many
	}{
		{share, bounds{entries: 4, bytes: 14}, 3}, // d and three files
		{share, bounds{entries: 3, bytes: 14}, -1},
		{share, bounds{entries: 4, bytes: 13}, -1},
		{nil, bounds{entries: 2, bytes: 14}, 0}, // two lines
		{nil, bounds{entries: 1, bytes: 14}, -1},
	} {
		got, err := find(t.Context(), h.root, c.shown, c.most, nobody)
		if errors.Is(err, ErrTooMany) != (c.files < 0) || (err == nil) != (c.files >= 0) || len(got) != max(c.files, 0) {
			t.Errorf("%q, %+v: %q, %v; want %d files", c.shown, c.most, got, err, c.files)
		}
	}
}

// ending is a context that ends at the n-th look at it.
type ending struct {
	context.Context
	left *int
}

func (e ending) Err() error {
	if *e.left--; *e.left < 0 {
		return context.Canceled
	}
	return nil
}

// Whenever the context ends, the search does, with its error and without a list. It
// looks at the context for each list, and twice for each folder at least.
func TestCanceled(t *testing.T) {
	h := newHost(t)
	h.text(diversions, "/a", "/b", ":")
	h.lists("tool", "/usr/share/a")
	h.file(0o644, "/usr/share/d/1", "/usr/share/d/e/2")
	for looks := range 100 {
		left := looks
		got, err := find(ending{t.Context(), &left}, h.root, []string{"/usr/share"}, usual, nobody)
		if err == nil {
			if len(got) != 2 || looks < 2+3*2 {
				t.Errorf("found %q with %d looks at the context", got, looks)
			}
			return
		}
		if !errors.Is(err, context.Canceled) || got != nil {
			t.Fatalf("found %q, %v", got, err)
		}
	}
	t.Error("the search never ended")
}

// An ordinary user's programs read what that user can. The first of owner, group and
// others that fits decides alone.
func TestReader(t *testing.T) {
	h := newHost(t)
	owner, member := reader{uid: os.Geteuid()}, reader{uid: -1, groups: []int{os.Getegid()}}
	for _, c := range []struct {
		mode       fs.FileMode
		who        reader
		reads, may bool
	}{
		{0o400, owner, true, false}, {0o044, owner, false, false}, {0o100, owner, false, true},
		{0o040, member, true, false}, {0o404, member, false, false}, {0o010, member, false, true},
		{0o004, nobody, true, false}, {0o440, nobody, false, false}, {0o001, nobody, false, true},
	} {
		h.file(c.mode, "/usr/share/x")
		info, err := os.Lstat(h.root + "/usr/share/x")
		h.check(err)
		if c.who.may(info, read) != c.reads || c.who.may(info, enter) != c.may {
			t.Errorf("%v, %+v: reads %v, enters %v", c.mode, c.who, !c.reads, !c.may)
		}
		h.check(os.Remove(h.root + "/usr/share/x"))
	}
	if who := caller(); os.Geteuid() == 0 && (who.uid != -1 || who.groups != nil) || os.Geteuid() != 0 && who.uid != os.Geteuid() {
		t.Errorf("the caller's programs are %+v", who)
	}
}

// A folder that programs can enter and this user cannot list may hold what they
// can read: that is an error, not a shorter list.
func TestUnlistableAsUser(t *testing.T) {
	h := newHost(t)
	h.lists("tool")
	h.file(0o644, "/usr/share/d/left")
	h.dir("/usr/share/d", 0o311)
	defer h.dir("/usr/share/d", 0o755)
	if got, err := find(t.Context(), h.root, []string{"/usr/share"}, usual, nobody); !errors.Is(err, fs.ErrPermission) || got != nil {
		t.Errorf("found %q, %v", got, err)
	}
}
