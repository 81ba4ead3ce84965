package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// parent is the name of the only group below which anything is made.
const parent = "glovebox"

// wanted are the controllers that a cell needs.
var wanted = []string{"memory", "pids", "cpu", "cpuacct"}

// groups are the control groups of one run.
type groups struct {
	v1   []string    // a directory for each v1 hierarchy
	fd   *os.File    // of the v2 group that the command is born in, or nil
	tops []string    // the trees to remove, v1 and v2
	made []string    // parents that were made here, removed when empty
	undo []switchOff // v2 controllers that were switched on here
}

type switchOff struct{ dir, controller string }

// hierarchy is one mounted cgroup file system and where the own group is in it.
type hierarchy struct {
	mount, own  string // directories
	controllers []string
	v2          bool
}

// makeGroups makes and delegates a group in each hierarchy that has a wanted
// controller. What was made before an error is in the result too.
func makeGroups(uid, gid int, forceV2 bool) (*groups, error) {
	g := &groups{}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return g, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return g, err
	}
	for _, h := range hierarchies(string(mountinfo), string(own)) {
		name := fmt.Sprintf("user-%d", os.Getpid())
		switch {
		case h.v2 && (forceV2 || intersects(wanted, words(h.mount, "cgroup.controllers"))):
			err = g.makeV2(h, name, uid, gid)
		case !h.v2 && !forceV2 && intersects(wanted, h.controllers):
			err = g.makeV1(h, name, uid, gid)
		}
		if err != nil {
			return g, err
		}
	}
	if len(g.tops) == 0 {
		return g, errors.New("no control group hierarchy with memory, pids or cpu is mounted")
	}
	return g, nil
}

// hierarchies reads the two files of the process that say what is mounted where
// and which groups are its own.
func hierarchies(mountinfo, own string) []hierarchy {
	paths := map[string]string{} // controller, or "" for v2, to path
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, c := range strings.Split(parts[1], ",") {
			paths[c] = parts[2]
		}
	}
	var out []hierarchy
	seen := map[string]bool{}
	for line := range strings.Lines(mountinfo) {
		left, right, _ := strings.Cut(line, " - ")
		before, after := strings.Fields(left), strings.Fields(right)
		if len(before) < 5 || len(after) < 3 || !strings.HasPrefix(after[0], "cgroup") || seen[before[2]] {
			continue
		}
		h := hierarchy{mount: before[4], controllers: strings.Split(after[2], ","), v2: after[0] == "cgroup2"}
		key := ""
		if !h.v2 {
			for _, c := range h.controllers {
				if _, ok := paths[c]; ok {
					key = c
				}
			}
		}
		path, ok := paths[key]
		rel, err := filepath.Rel(before[3], path)
		if !ok || err != nil || strings.HasPrefix(rel, "..") || (key == "" && !h.v2) {
			continue // the own group cannot be seen here
		}
		seen[before[2]] = true
		h.own = filepath.Join(h.mount, rel)
		out = append(out, h)
	}
	return out
}

// makeV1 makes one group and gives the user its directory and files.
func (g *groups) makeV1(h hierarchy, name string, uid, gid int) error {
	dir := filepath.Join(h.own, parent)
	if err := g.mkParent(dir); err != nil {
		return err
	}
	if slices.Contains(h.controllers, "memory") {
		// The default since 5.11; refused where the group above has it already.
		_ = write(filepath.Join(dir, "memory.use_hierarchy"), "1")
	}
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	g.tops, g.v1 = append(g.tops, dir), append(g.v1, dir)
	return chownAll(dir, uid, gid)
}

// makeV2 makes a group for the user's groups, with the controllers switched on
// for those below, and in it the group "run" that the command is born in: a group
// that passes controllers on holds no process itself.
func (g *groups) makeV2(h hierarchy, name string, uid, gid int) error {
	host, err := g.hostV2(h)
	if err != nil {
		return err
	}
	dir := filepath.Join(host, parent)
	if err := g.mkParent(dir); err != nil {
		return err
	}
	top := filepath.Join(dir, name)
	if err := errors.Join(switchOn(dir, nil), os.Mkdir(top, 0o755)); err != nil {
		return err
	}
	g.tops = append(g.tops, top)
	run := filepath.Join(top, "run")
	if err := errors.Join(switchOn(top, nil), os.Mkdir(run, 0o755)); err != nil {
		return err
	}
	// Only these files of the top are the user's, so that he cannot lift its
	// limits: Documentation/admin-guide/cgroup-v2.rst, "Delegation".
	for _, f := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(top, f), uid, gid); err != nil {
			return err
		}
	}
	if err := chownAll(run, uid, gid); err != nil {
		return err
	}
	g.fd, err = os.OpenFile(run, unix.O_PATH|unix.O_DIRECTORY, 0)
	return err
}

// hostV2 walks up from the own group to one that can pass on its controllers:
// one with processes of its own cannot, except the root.
func (g *groups) hostV2(h hierarchy) (string, error) {
	for dir := h.own; ; dir = filepath.Dir(dir) {
		err := switchOn(dir, func(c string) { g.undo = append(g.undo, switchOff{dir, c}) })
		if err == nil {
			return dir, nil
		}
		if dir == h.mount || !strings.HasPrefix(dir, h.mount) {
			return "", fmt.Errorf("no group from %s upwards can pass on its controllers: %w", h.own, err)
		}
	}
}

// switchOn lets a v2 group pass on those wanted controllers that it has.
func switchOn(dir string, did func(controller string)) error {
	on := words(dir, "cgroup.subtree_control")
	for _, c := range words(dir, "cgroup.controllers") {
		if !slices.Contains(wanted, c) || slices.Contains(on, c) {
			continue
		}
		if err := write(filepath.Join(dir, "cgroup.subtree_control"), "+"+c); err != nil {
			return err
		}
		if did != nil {
			did(c)
		}
	}
	return nil
}

// mkParent makes the parent, or tidies one that is there: the empty groups of a
// run that was killed.
func (g *groups) mkParent(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		g.made = append(g.made, dir)
		return nil
	}
	old, _ := filepath.Glob(filepath.Join(dir, "user-*"))
	for _, name := range old {
		pid := strings.TrimPrefix(filepath.Base(name), "user-")
		if _, gone := os.Stat("/proc/" + pid); errors.Is(gone, fs.ErrNotExist) {
			_ = rmTree(name) // refused while a process is in it
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// enter puts the calling thread, and no other, into the v1 groups.
func (g *groups) enter() error {
	for _, dir := range g.v1 {
		if err := write(filepath.Join(dir, "tasks"), strconv.Itoa(unix.Gettid())); err != nil {
			return err
		}
	}
	return nil
}

// remove kills what is left in the groups and removes them. A group stays busy
// for a moment after its last process, so it tries for some seconds.
func (g *groups) remove() error {
	if g.fd != nil {
		g.fd.Close()
	}
	var err error
	for _, top := range g.tops {
		err = fs.ErrInvalid
		for try := 0; try < 250 && err != nil; try++ {
			killTree(top)
			if err = rmTree(top); err != nil {
				time.Sleep(20 * time.Millisecond)
			}
		}
		if err != nil {
			err = fmt.Errorf("cannot remove %s: %w", top, err)
			break
		}
	}
	for _, dir := range g.made {
		_ = os.Remove(dir) // somebody else may be in it by now
	}
	for _, u := range g.undo {
		_ = write(filepath.Join(u.dir, "cgroup.subtree_control"), "-"+u.controller) // refused while in use
	}
	return err
}

// rmTree removes a group and those below it, the deepest first.
func rmTree(top string) error {
	entries, err := os.ReadDir(top)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, rmTree(filepath.Join(top, e.Name())))
		}
	}
	return errors.Join(err, unix.Rmdir(top))
}

// killTree kills the processes in a group that was made here. The number read
// from the group only finds a process; what is killed is the one behind the
// pidfd, after its own membership was read.
func killTree(top string) {
	_ = filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // a group that has gone is no error
		}
		for _, word := range words(name, "cgroup.procs") {
			pid, err := strconv.Atoi(word)
			if err != nil || pid == os.Getpid() {
				continue
			}
			kill(pid, filepath.Join(parent, filepath.Base(top)))
		}
		return nil
	})
}

func kill(pid int, group string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	member, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err == nil && strings.Contains(string(member)+"/", "/"+group) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may have ended just now
	}
}

func chownAll(dir string, uid, gid int) error {
	entries, err := os.ReadDir(dir)
	err = errors.Join(err, os.Chown(dir, uid, gid))
	for _, e := range entries {
		if !e.IsDir() {
			err = errors.Join(err, os.Chown(filepath.Join(dir, e.Name()), uid, gid))
		}
	}
	return err
}

// words are the words of a small file; none if it cannot be read.
func words(dir, file string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(b))
}

func intersects(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// write writes to a control file, which must exist.
func write(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
