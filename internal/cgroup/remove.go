//go:build linux

package cgroup

import (
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The back-off between attempts where the kernel sends no event.
const (
	firstPause = 50 * time.Microsecond
	lastPause  = 20 * time.Millisecond
)

// A removed group stays in the kernel, unseen, for as long as file pages are charged to
// it: those that its processes were the first to read, say of an interpreter. Dropping
// them makes the next cell read them from the disk again; keeping them is harmless as
// long as such groups stay few, since a page is charged once and later readers of it pin
// nothing. So groups are left to the kernel, which frees them when it needs memory,
// until there are more than keepDying; from then on each one's pages are dropped before
// it is removed, until they are fewer again.
const (
	keepDying  = 128
	checkEvery = 16 // removals between two looks at the number
)

// crowded reports whether the kernel keeps too many removed groups.
func (p *Parent) crowded() bool {
	if p.removals.Add(1)%checkEvery == 0 {
		p.crowd.Store(p.dying() > keepDying)
	}
	return p.crowd.Load()
}

// dying estimates how many removed groups the kernel keeps. On v2 it counts those of
// this instance. v1 only gives a number for the whole machine with the living ones in
// it: there it is what has been added since Open. Groups of others then count too, which
// costs speed and nothing else. 0 if the kernel does not say.
func (p *Parent) dying() int64 {
	if p.host.unified() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.seats) == 0 {
			return 0
		}
		stat, err := readAt(p.seats[0].fd, "cgroup.stat")
		if err != nil {
			return 0
		}
		n, _ := field([]byte(stat), "nr_dying_descendants")
		return n
	}
	return p.host.memoryGroups() - p.atOpen - p.live.Load()
}

// memoryGroups is the number of memory groups of a v1 machine, removed ones included
// that the kernel still keeps.
func (h *Host) memoryGroups() int64 {
	text, err := h.sys.readProc("cgroups")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "memory" {
			n, _ := number([]byte(f[2]))
			return n
		}
	}
	return 0
}

// dropCharges takes what can be taken from a group that has lost its members, by asking
// for more than there is. A failure only means that the kernel keeps the removed group a
// while longer.
func (p *Parent) dropCharges(pt *part) {
	if !pt.tree.unified {
		p.dropV1(pt)
		return
	}
	current, err := readAt(pt.fd, "memory.current")
	if err != nil {
		return
	}
	err = writeAt(pt.fd, "memory.reclaim", strings.TrimSpace(current))
	if errors.Is(err, unix.ENOENT) { // before Linux 5.19
		_ = writeAt(pt.fd, "memory.high", "0")
	}
}

// slowDrop is more than force_empty takes on a kernel where it is usable.
const slowDrop = 200 * time.Millisecond

// dropV1 is dropCharges on v1. force_empty takes everything, but where a few bytes of
// kernel memory stay, Linux 5.10 goes on trying for more than a second; once that has
// happened the limit is lowered instead, which leaves pages that the kernel has not put
// on its lists by then.
func (p *Parent) dropV1(pt *part) {
	if p.slow.Load() {
		_ = writeAt(pt.fd, "memory.limit_in_bytes", "0")
		return
	}
	begin := time.Now()
	_ = writeAt(pt.fd, "memory.force_empty", "0")
	if time.Since(begin) > slowDrop {
		p.slow.Store(true)
	}
}

// rmdirWait removes an empty group, trying again until the deadline while the kernel
// says busy. A directory that is gone is a success.
func (s *system) rmdirWait(dir string, deadline time.Time) error {
	pause := firstPause
	for {
		err := s.rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		left := time.Until(deadline)
		if !(errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINTR)) || left <= 0 {
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		time.Sleep(min(pause, left))
		pause = min(2*pause, lastPause)
	}
}

// awaitEmpty waits for a group to lose its last member, on v2 for the kernel's event,
// on v1, which sends none, by looking again after a growing pause. It reports whether
// the group is empty.
func (pt *part) awaitEmpty(deadline time.Time) bool {
	if pt.tree.unified {
		return awaitEvent(pt.fd, deadline)
	}
	pause := firstPause
	for {
		tasks, err := readAt(pt.fd, "tasks")
		if err != nil || tasks == "" {
			return err == nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
		pause = min(2*pause, lastPause)
	}
}

// awaitEvent is awaitEmpty on v2.
func awaitEvent(dirfd int, deadline time.Time) bool {
	fd, err := openAt(dirfd, "cgroup.events", unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var buf [256]byte
	for range 1000 {
		n, err := preadFD(fd, buf[:])
		if err != nil {
			return false
		}
		if v, ok := field(buf[:n], "populated"); ok && v == 0 {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
		if _, err := unix.Poll(set, int(left/time.Millisecond)+1); err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
	return false
}
