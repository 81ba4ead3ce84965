//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The tests of this file run as root on the machine's own groups and start children as
// an ordinary user.

// ordinary is a user that owns nothing.
const ordinary = 64987

// asUser starts the helper "user" in the group as the ordinary user and returns what it
// said.
func asUser(t *testing.T, p *Parent, g *Group) string {
	t.Helper()
	c := &child{name: "user", attr: syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}}
	if err := c.start(p, g); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	said, err := c.line()
	if err != nil {
		t.Fatal(err, c.stderr.String())
	}
	return said
}

// searchable lets the ordinary user look up paths through what is private to root.
func searchable(t *testing.T, p *Parent, g *Group) {
	t.Helper()
	dirs := p.dirs()
	for _, pt := range g.parts {
		dirs = append(dirs, pt.dir)
	}
	for _, d := range dirs {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUserDelegatedAsRoot gives an ordinary user its own group, as a service manager does:
// it finds it, uses it and leaves nothing in it.
//
// proves X-05
func TestUserDelegatedAsRoot(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, roomy)
	searchable(t, p, g)
	for _, pt := range g.parts {
		for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
			err := os.Chown(filepath.Join(pt.dir, name), ordinary, ordinary)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	said := asUser(t, p, g)
	if !strings.HasPrefix(said, "good ") || !strings.Contains(said, g.parts[0].dir+"/"+baseName) {
		t.Errorf("the user says %q", said)
	}
	for _, pt := range g.parts {
		left, err := subdirs(pt.dir)
		if err != nil || len(left) != 0 {
			t.Errorf("left in %s: %q, %v", pt.dir, left, err)
		}
	}
}

// TestUserNothingDelegatedAsRoot expects one clear error with a cure, and nothing made.
//
// proves X-05
func TestUserNothingDelegatedAsRoot(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, roomy)
	said := asUser(t, p, g)
	remedy := "chown"
	if g.Unified() {
		remedy = "Delegate=yes"
	}
	if !strings.HasPrefix(said, "find: cgroup: ") || !strings.Contains(said, remedy) {
		t.Errorf("the user says %q", said)
	}
}

// TestUserPremadeAsRoot follows the remedy for v1: one directory in each tree, given away by
// root, suffices there. On v2 it does not, since starting a process in it needs a right
// on the common ancestor too.
//
// proves X-05
func TestUserPremadeAsRoot(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, roomy)
	searchable(t, p, g)
	searchable(t, p, g)
	for _, pt := range g.parts {
		base := filepath.Join(pt.dir, baseName)
		if err := os.Mkdir(base, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // before the group is removed
			if err := unix.Rmdir(base); err != nil {
				t.Error("the user did not leave it as it was:", err)
			}
		})
		if err := os.Chown(base, ordinary, ordinary); err != nil {
			t.Fatal(err)
		}
	}
	said := asUser(t, p, g)
	if want := map[bool]string{false: "good ", true: "find: "}[g.Unified()]; !strings.HasPrefix(said, want) {
		t.Errorf("the user says %q", said)
	}
}

// TestLauncherAsRoot starts a cell from a launcher in a user namespace of its own, whose root
// is an ordinary user here. With the instance given to that user the cell is in its
// group from birth; on v2, without it, the kernel refuses.
//
// proves part of X-02
func TestLauncherAsRoot(t *testing.T) {
	for _, owned := range []bool{false, true} {
		p := openHost(t)
		if owned {
			if err := p.SetOwner(ordinary, ordinary); err != nil {
				t.Fatal(err)
			}
		}
		g := newGroup(t, p, roomy)
		said := launch(t, p, g)
		if !owned && g.Unified() {
			if !strings.HasPrefix(said, "start: ") || !strings.Contains(said, "permission denied") {
				t.Errorf("control: without a right on the group the launcher says %q", said)
			}
			continue
		}
		text, err := strconv.Unquote(strings.TrimSpace(said))
		if err != nil {
			t.Errorf("owned %v: the launcher says %q", owned, said)
			continue
		}
		entries, err := parseEntries(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, pt := range g.parts {
			want := pt.path
			if g.Unified() {
				want = "/" // it has a cgroup namespace rooted in its own group
			}
			if !slices.ContainsFunc(entries, func(e entry) bool { return e.key == pt.tree.key && e.path == want }) {
				t.Errorf("owned %v: not in %s: %q", owned, pt.path, text)
			}
		}
	}
}

// launch runs the helper "launcher" for the group and returns what it said.
func launch(t *testing.T, p *Parent, g *Group) string {
	t.Helper()
	files, err := g.EntryFiles()
	if err != nil {
		t.Fatal(err)
	}
	home, err := p.HomeFiles()
	if err != nil {
		t.Fatal(err)
	}
	one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: ordinary, Size: 1}}
	kind := map[bool]string{false: "tasks", true: "unified"}[g.Unified()]
	c := &child{name: "launcher", args: []string{kind, strconv.Itoa(len(home))}, files: append(files, home...),
		attr: syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: one, GidMappings: one,
			Credential: &syscall.Credential{NoSetGroups: true}}}
	if err := c.start(p, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	if err := p.AddLauncher(c.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.(interface{ Write([]byte) (int, error) }).Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	said, err := c.line()
	if err != nil {
		t.Fatal(err, c.stderr.String())
	}
	c.end()
	return said
}

// TestTighterAncestor bounds the instance's own directory to less CPU than a cell asks
// for. v1 refuses the wider bound below it; the group then goes without one, and says
// so again if the bound above is lifted.
func TestTighterAncestor(t *testing.T) {
	p := openHost(t)
	file, tight, lifted := "cpu.cfs_quota_us", "20000", "-1"
	if p.host.unified() {
		file, tight, lifted = "cpu.max", "20000 100000", "max 100000"
	}
	var above string
	for _, s := range p.seats {
		if s.tree.has("cpu") {
			above = filepath.Join(s.dir, file)
		}
	}
	set := func(v string) {
		if err := writeAt(unix.AT_FDCWD, above, v); err != nil {
			t.Fatal(err)
		}
	}
	set(tight)
	l := Limits{MemoryBytes: 64 << 20, Tasks: 10, CPUPercent: 50}
	g := newGroup(t, p, l)
	wantInherited := !p.host.unified()
	if g.inherited != wantInherited {
		t.Errorf("inherited: %v", g.inherited)
	}
	set(lifted)
	if err := g.CheckLimits(l); (err != nil) != wantInherited {
		t.Errorf("after the bound above was lifted: %v", err)
	}
}
