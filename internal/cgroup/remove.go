package cgroup

import (
	"errors"
	"os"
	"sync"
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
// nothing. So a parent keeps the pages of some groups, and of a few more as time goes by
// (the kernel frees them when it needs memory), and drops those of all others.
const (
	keepBurst = 64
	keepEvery = time.Minute
)

// keeper is the allowance of one parent. The zero value is a full one.
type keeper struct {
	mu   sync.Mutex
	used int
	last time.Time // when used was last brought up to date
}

// take reports whether one more removed group may keep its file pages.
func (k *keeper) take(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := now.Sub(k.last) / keepEvery; n > 0 {
		k.used = max(0, k.used-int(min(n, keepBurst)))
		k.last = now
	}
	if k.used >= keepBurst {
		return false
	}
	k.used++
	return true
}

// dropCharges settles what is still charged to a group that has lost its members. A
// failure only means that the kernel keeps the removed group a while longer.
func (p *Parent) dropCharges(pt *part) {
	key, file, value := "cache", "memory.force_empty", "0"
	if pt.tree.unified {
		key, file = "file", "memory.high" // lowering it reclaims at once, on every kernel
	}
	stat, err := readAt(pt.fd, "memory.stat")
	if err != nil {
		return
	}
	if pages, ok := field([]byte(stat), key); !ok || pages == 0 || p.keeper.take(time.Now()) {
		return
	}
	_ = writeAt(pt.fd, file, value)
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
