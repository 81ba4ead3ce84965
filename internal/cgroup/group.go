//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRemoved is the error of every method of a Group after Remove.
var ErrRemoved = errors.New("cgroup: the group was removed")

// removeWait is how long Remove and Close wait for the last member to be gone.
const removeWait = 2 * time.Second

// part is the group's directory in one tree.
type part struct {
	tree *hierarchy
	dir  string // file system path
	path string // as /proc/<pid>/cgroup names it
	fd   int    // the directory, -1 after removal
}

// Group is the control group of one cell. It is used once: its counters start at
// zero and nobody else is ever charged to it. It is safe for concurrent use.
type Group struct {
	parent *Parent

	mu        sync.Mutex
	parts     []part // what is left to remove
	counters  [numCounters]int
	entry     []*os.File
	inherited bool // v1: an ancestor's CPU quota is tighter than the one asked for
	live      bool // counted by the parent
	removed   bool // Remove was called
}

// NewGroup makes a fresh group, without limits. One mkdir on v2, one for each tree on
// v1. The caller must call Remove.
func (p *Parent) NewGroup() (*Group, error) {
	p.mu.Lock()
	seats, closed := slices.Clone(p.seats), p.closed
	p.mu.Unlock()
	if closed {
		return nil, os.ErrClosed
	}
	name := "c" + strconv.FormatUint(p.next.Add(1), 10)
	g := &Group{parent: p}
	for i := range g.counters {
		g.counters[i] = fdUnopened
	}
	for _, s := range seats {
		pt := part{tree: s.tree, dir: filepath.Join(s.dir, name), fd: -1,
			path: joinGroup(joinGroup(joinGroup(s.tree.path, baseName), p.name), name)}
		err := p.host.sys.mkdir(pt.dir, 0o700)
		if err == nil {
			g.parts = append(g.parts, pt)
			pt.fd, err = openAt(unix.AT_FDCWD, pt.dir, unix.O_RDONLY|unix.O_DIRECTORY)
			g.parts[len(g.parts)-1].fd = pt.fd
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cgroup: making %s: %w", pt.dir, err), g.Remove())
		}
	}
	if uid := p.uid.Load(); uid >= 0 && p.host.unified() {
		if err := unix.Fchownat(g.parts[0].fd, "cgroup.procs", int(uid), int(p.gid.Load()), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("cgroup: chown cgroup.procs: %w", err), g.Remove())
		}
	}
	g.live = true
	p.live.Add(1)
	return g, nil
}

// Unified tells what EntryFiles gives: true for one directory descriptor for
// CLONE_INTO_CGROUP, false for tasks files.
func (g *Group) Unified() bool { return g.parent.host.unified() }

// Name is the last element of the group's path, unique within the parent.
func (g *Group) Name() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.parts) == 0 {
		return ""
	}
	return filepath.Base(g.parts[0].dir)
}

// EntryFiles gives what a launcher needs to start a process inside the group. On v2 it
// is one directory descriptor, for SysProcAttr.CgroupFD. On v1 there is one
// descriptor of each tree's tasks file, open for writing: a locked thread writes "0"
// to each and then forks. The kernel judges by the credentials of the opener, so they
// may be handed to an unprivileged launcher (on v1; on v2 see Parent.SetOwner).
//
// While the launcher's thread is in a v1 group it counts as one of its tasks. It must
// leave (Parent.HomeFiles, or the next group) or end before Remove can succeed.
//
// The group owns the files: the caller does not close them, and Remove does.
func (g *Group) EntryFiles() ([]*os.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return nil, ErrRemoved
	}
	if g.entry != nil {
		return slices.Clone(g.entry), nil
	}
	var files []*os.File
	for _, pt := range g.parts {
		name, flags := "tasks", unix.O_WRONLY
		if pt.tree.unified {
			name, flags = ".", unix.O_RDONLY|unix.O_DIRECTORY
		}
		fd, err := openAt(pt.fd, name, flags)
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, fmt.Errorf("cgroup: open %s of %s: %w", name, pt.dir, err)
		}
		files = append(files, os.NewFile(uintptr(fd), filepath.Join(pt.dir, name)))
	}
	g.entry = files
	return slices.Clone(files), nil
}

// Member is evidence from outside that a process is in the group, in every tree. The
// argument is an open descriptor of its /proc/<pid> directory, so that no number can
// have come to mean somebody else. The process must not have been waited for; on v1
// the kernel reports an exited one as outside. nil means member.
func (g *Group) Member(procDirFD int) error {
	text, err := readAt(procDirFD, "cgroup")
	if err != nil {
		return fmt.Errorf("cgroup: membership: %w", err)
	}
	entries, err := parseEntries(text)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return ErrRemoved
	}
	for _, pt := range g.parts {
		at := slices.IndexFunc(entries, func(e entry) bool {
			return e.unified == pt.tree.unified && e.key == pt.tree.key
		})
		if at < 0 {
			return fmt.Errorf("cgroup: membership: no line for %v", pt.tree.controllers)
		}
		if entries[at].path != pt.path {
			return fmt.Errorf("cgroup: membership: %v is %s, not %s", pt.tree.controllers, entries[at].path, pt.path)
		}
	}
	return nil
}

// Kill ends every process in the group at once by cgroup.kill. It reports false
// where the kernel has no such file: v1, and v2 before Linux 5.14. There the caller
// ends the cell by the pidfd of its first process; this package never signals a
// process number.
//
// The bound of CPU is lifted: a process needs CPU time to end, and those of a small
// share would wait for it for seconds.
func (g *Group) Kill() (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.removed {
		return false, ErrRemoved
	}
	var err error
	unified := g.parent.host.unified()
	if unified {
		err = writeAt(g.parts[0].fd, "cgroup.kill", "1")
	}
	g.liftCPU()
	if !unified || errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// liftCPU raises the bound of CPU to all processors, for longer than any period;
// without it the end takes longer. It is not taken away: that switches the
// kernel's accounting of bounds off and on again, cell by cell, and a machine
// with 5.10 stood still in the middle of it.
func (g *Group) liftCPU() {
	pt := g.find("cpu")
	if pt == nil || pt.fd < 0 {
		return
	}
	all := strconv.Itoa(100_000 * runtime.NumCPU()) // microseconds
	if pt.tree.unified {
		_ = writeAt(pt.fd, "cpu.max", all)
	} else {
		_ = writeAt(pt.fd, "cpu.cfs_quota_us", all)
	}
}

// Remove closes every descriptor of the group and removes its directories. It waits
// up to two seconds for the last member to be gone. What is left after that is an
// error; Remove may then be called again. It is idempotent.
func (g *Group) Remove() error { return g.remove(removeWait) }

// remove is Remove with another wait.
func (g *Group) remove(wait time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removed = true
	for i, fd := range g.counters {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		g.counters[i] = fdAbsent
	}
	for _, f := range g.entry {
		_ = f.Close()
	}
	g.entry = nil
	deadline := time.Now().Add(wait)
	var left []part
	var errs []error
	for _, pt := range g.parts {
		if pt.fd >= 0 && pt.tree.has("memory") && g.parent.crowded() && pt.awaitEmpty(deadline) {
			g.parent.dropCharges(&pt)
		}
		if err := g.parent.host.sys.rmdirWait(pt.dir, deadline); err != nil {
			left, errs = append(left, pt), append(errs, err)
			continue
		}
		if pt.fd >= 0 {
			_ = unix.Close(pt.fd)
		}
	}
	if g.live && len(left) == 0 {
		g.live = false
		g.parent.live.Add(-1)
	}
	g.parts = left
	return errors.Join(errs...)
}
