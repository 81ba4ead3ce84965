//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// openAttempts bounds the retries against other instances that come and go.
const openAttempts = 16

// instances numbers the parents of this process.
var instances atomic.Uint64

// Parent is this instance's own directory, one in each tree, in which its groups
// are made. It is safe for concurrent use.
type Parent struct {
	host *Host
	name string
	uid  atomic.Int64 // owner of what a launcher must write to; -1: nobody else
	gid  atomic.Int64
	next atomic.Uint64

	live     atomic.Int64 // groups made and not removed
	removals atomic.Int64
	crowd    atomic.Bool // the last look found too many removed groups
	slow     atomic.Bool // v1: force_empty was found to be slow
	atOpen   int64       // v1: memory groups of the machine at Open

	mu     sync.Mutex
	seats  []seat
	home   []*os.File
	closed bool
}

// seat is the instance directory in one tree. The descriptor holds a lock for as
// long as this process lives, which is how Sweep knows.
type seat struct {
	tree  *hierarchy
	dir   string
	fd    int
	moved bool // this process was moved out of the ancestor
}

// Open makes <ancestor>/glovebox/<instance> in every tree and, on v2, passes the
// controllers down to it. Call it before the launcher is started: on v2 it may move
// this process into the leaf "glovebox-host", which works only while it is alone.
// The error is an *UnavailableError where another way of starting would help.
func (h *Host) Open() (*Parent, error) {
	self, err := h.sys.identify(h.sys.pid)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	p := &Parent{host: h}
	p.uid.Store(-1)
	p.gid.Store(-1)
	for range openAttempts {
		p.name = instanceName(self, instances.Add(1))
		err = p.build()
		if err == nil {
			if !h.unified() {
				p.atOpen = h.memoryGroups()
			}
			return p, nil
		}
		p.dismantle()
		if !errors.Is(err, errAgain) {
			break
		}
	}
	return nil, err
}

// errAgain means that another instance was in the way for a moment.
var errAgain = errors.New("cgroup: another instance interfered")

// build makes the instance directory in every tree.
func (p *Parent) build() error {
	for _, t := range p.host.trees {
		s, err := p.host.seat(t, p.name)
		p.seats = append(p.seats, s)
		if err != nil {
			return err
		}
	}
	return nil
}

// seat makes and locks the instance directory in one tree. Even with an error the
// seat says what must be undone.
func (h *Host) seat(t *hierarchy, name string) (seat, error) {
	s := seat{tree: t, dir: filepath.Join(t.base(), name), fd: -1}
	var err error
	if t.moveSelf {
		if s.moved, err = h.stepAside(t); err != nil {
			return s, err
		}
	}
	if t.unified {
		if err := h.passDown(t.dir, t.controllers); err != nil {
			return s, unavailable(t, "controllers cannot be passed down", err)
		}
	}
	if err := h.sys.mkdir(t.base(), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return s, unavailable(t, "making "+t.base(), err)
	}
	if t.unified {
		if err := h.passDown(t.base(), t.controllers); err != nil {
			return s, again(unavailable(t, "controllers cannot be passed down", err))
		}
	}
	if err := h.sys.mkdir(s.dir, 0o700); err != nil {
		return s, again(unavailable(t, "making "+s.dir, err))
	}
	if s.fd, err = lockDir(s.dir); err != nil {
		_ = h.sys.rmdir(s.dir)
		return s, again(err)
	}
	if t.unified {
		if err := h.passDown(s.dir, t.controllers); err != nil {
			return s, again(err)
		}
	}
	return s, nil
}

// unavailable wraps a failure to make a directory.
func unavailable(t *hierarchy, what string, err error) error {
	remedy := remedyDelegate
	if !t.unified {
		remedy = fmt.Sprintf("as root, until the next boot: `mkdir -p %s && chown %d %s`", t.base(), os.Geteuid(), t.base())
	}
	return &UnavailableError{Controller: t.controllers[0], Reason: what, Remedy: remedy, Err: err}
}

// again marks the errors that come from another instance's removal of what this one
// just made.
func again(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENODEV, unix.EEXIST, unix.EWOULDBLOCK} {
		if errors.Is(err, e) {
			return errors.Join(errAgain, err)
		}
	}
	return err
}

// lockDir opens the directory and locks it, and makes sure that it is still there:
// before the lock, a sweep might have taken it for a leftover.
func lockDir(dir string) (int, error) {
	fd, err := openAt(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "flock", Path: dir, Err: err}
	}
	var held, there unix.Stat_t
	if err := unix.Fstat(fd, &held); err == nil {
		err = unix.Stat(dir, &there)
		if err == nil && held.Ino == there.Ino && held.Dev == there.Dev {
			return fd, nil
		}
	}
	unix.Close(fd)
	return -1, &os.PathError{Op: "lock", Path: dir, Err: unix.ENOENT}
}

// passDown adds the controllers to a group's subtree_control, those that are missing.
func (h *Host) passDown(dir string, controllers []string) error {
	on, err := readFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	var add []string
	for _, c := range controllers {
		if !slices.Contains(strings.Fields(on), c) {
			add = append(add, "+"+c)
		}
	}
	if len(add) == 0 {
		return nil
	}
	return writeAt(unix.AT_FDCWD, filepath.Join(dir, "cgroup.subtree_control"), strings.Join(add, " "))
}

// stepAside moves this process, and only it, from its own group into the leaf below
// it, so that the group may pass controllers on. It refuses if any other process is
// a member. It reports whether the process was moved.
func (h *Host) stepAside(t *hierarchy) (bool, error) {
	pids, err := members(t.dir)
	if err != nil {
		return false, unavailable(t, "reading the members of "+t.dir, err)
	}
	if len(pids) == 0 {
		return false, nil // an earlier Open has moved it
	}
	if !slices.Equal(pids, []int{h.sys.pid}) {
		return false, &UnavailableError{Controller: t.controllers[0], Reason: "other processes are direct members of " + t.dir, Remedy: remedyAlone}
	}
	leaf := filepath.Join(t.dir, hostLeaf)
	if err := h.sys.mkdir(leaf, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return false, unavailable(t, "making "+leaf, err)
	}
	if err := writeAt(unix.AT_FDCWD, filepath.Join(leaf, "cgroup.procs"), "0"); err != nil {
		_ = h.sys.rmdir(leaf)
		return false, unavailable(t, "moving this process into "+leaf, err)
	}
	return true, nil
}

// stepBack undoes stepAside, as far as it can be undone: nothing else may use the
// group's controllers by then.
func (h *Host) stepBack(t *hierarchy) error {
	if h.sys.exists(t.base()) {
		return nil // another instance of this process is still open
	}
	var drop []string
	for _, c := range t.controllers {
		drop = append(drop, "-"+c)
	}
	err := writeAt(unix.AT_FDCWD, filepath.Join(t.dir, "cgroup.subtree_control"), strings.Join(drop, " "))
	if err != nil {
		return err
	}
	if err := writeAt(unix.AT_FDCWD, filepath.Join(t.dir, "cgroup.procs"), "0"); err != nil {
		return err
	}
	return h.sys.rmdir(filepath.Join(t.dir, hostLeaf))
}

// Name is the name of the instance's directory, the same in every tree.
func (p *Parent) Name() string { return p.name }

// Host is what the parent was opened from.
func (p *Parent) Host() *Host { return p.host }

// Close removes the instance's directory and, when it is empty and this user's,
// "glovebox". Groups that were not removed are removed first; one that still has
// members is an error, and Close may be called again. It is idempotent, and that
// another instance is alive is no error.
func (p *Parent) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, f := range p.home {
		_ = f.Close()
	}
	p.home = nil
	return p.dismantle()
}

// dismantle removes what the seats say was made. Seats that could not be removed stay
// for the next try.
func (p *Parent) dismantle() error {
	var left []seat
	var errs []error
	for _, s := range p.seats {
		if s.fd >= 0 {
			if err := p.host.sys.clearTree(s.dir, removeWait); err != nil {
				left, errs = append(left, s), append(errs, err)
				continue
			}
			_ = unix.Close(s.fd)
		}
		p.host.dropBase(s.tree)
		if s.moved {
			_ = p.host.stepBack(s.tree) // best effort: the group is ours and stays usable
		}
	}
	p.seats = left
	return errors.Join(errs...)
}

// dropBase removes "glovebox" if it is empty. One that an administrator made for this
// user stays.
func (h *Host) dropBase(t *hierarchy) {
	if uid, err := h.sys.owner(t.base()); err == nil && uid == os.Geteuid() {
		_ = h.sys.rmdir(t.base())
	}
}

// SetOwner lets a launcher that runs under another uid clone into the groups made
// from now on: it gives it, on v2, the cgroup.procs of the instance (the common
// ancestor of launcher and cell) and of each group. The limits stay out of its
// reach. The ids are those of this process's user namespace. On v1 it does nothing,
// since the entry descriptors carry the right of their opener.
func (p *Parent) SetOwner(uid, gid int) error {
	if !p.host.unified() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return os.ErrClosed
	}
	if err := unix.Fchownat(p.seats[0].fd, "cgroup.procs", uid, gid, 0); err != nil {
		return fmt.Errorf("cgroup: chown cgroup.procs: %w", err)
	}
	p.uid.Store(int64(uid))
	p.gid.Store(int64(gid))
	return nil
}

// AddLauncher puts a child that this process just started, and has not yet waited
// for, into the leaf <instance>/launcher. On v2 a process may clone into a group
// only if it may write to the cgroup.procs of the nearest common ancestor; from that
// leaf this is the instance. On v1 it does nothing.
func (p *Parent) AddLauncher(pid int) error {
	if !p.host.unified() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return os.ErrClosed
	}
	leaf := filepath.Join(p.seats[0].dir, "launcher")
	if err := p.host.sys.mkdir(leaf, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return unavailable(p.seats[0].tree, "making "+leaf, err)
	}
	err := writeAt(p.seats[0].fd, "launcher/cgroup.procs", strconv.Itoa(pid))
	if err != nil {
		return fmt.Errorf("cgroup: launcher: %w", err)
	}
	return nil
}

// HomeFiles gives, on v1, one descriptor of the instance's own tasks file in each
// tree. A launcher thread that has started a cell writes "0" to each to leave the
// cell's group, which cannot be removed while the thread is in it. The parent owns
// the files; Close closes them. On v2 there are none, since no thread ever enters.
func (p *Parent) HomeFiles() ([]*os.File, error) {
	if p.host.unified() {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, os.ErrClosed
	}
	if p.home != nil {
		return slices.Clone(p.home), nil
	}
	var files []*os.File
	for _, s := range p.seats {
		fd, err := openAt(s.fd, "tasks", unix.O_WRONLY)
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, fmt.Errorf("cgroup: open tasks of %s: %w", s.dir, err)
		}
		files = append(files, os.NewFile(uintptr(fd), filepath.Join(s.dir, "tasks")))
	}
	p.home = files
	return slices.Clone(files), nil
}
