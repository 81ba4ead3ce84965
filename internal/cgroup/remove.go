package cgroup

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The back-off between attempts where the kernel sends no event.
const (
	firstPause = 50 * time.Microsecond
	lastPause  = 20 * time.Millisecond
)

// removePart removes one directory of a group.
func (s *system) removePart(pt *part, deadline time.Time) error {
	if pt.fd >= 0 && pt.tree.has("memory") {
		dropCharges(pt)
	}
	err := s.rmdirWait(pt.dir, pt.fd, deadline)
	if err == nil && pt.fd >= 0 {
		_ = unix.Close(pt.fd)
		pt.fd = -1
	}
	return err
}

// dropCharges asks the kernel to give up what is still charged to an empty v1 group,
// mostly file pages that its processes were the first to read. Left alone they would
// keep the removed group alive in the kernel. A failure only means that they do.
func dropCharges(pt *part) {
	if pt.tree.unified {
		return
	}
	usage, err := readAt(pt.fd, "memory.usage_in_bytes")
	if err == nil && usage != "0\n" {
		_ = writeAt(pt.fd, "memory.force_empty", "0")
	}
}

// rmdirWait removes an empty group. While the kernel says busy it waits until the
// deadline: on v2, with the directory's descriptor, for the event that the last
// member is gone; else by a short back-off. A directory that is gone is a success.
func (s *system) rmdirWait(dir string, fd int, deadline time.Time) error {
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
		if fd >= 0 && awaitEmpty(fd, left) {
			fd = -1 // told once; if it is still busy, go on by the clock
			continue
		}
		time.Sleep(min(pause, left))
		pause = min(2*pause, lastPause)
	}
}

// awaitEmpty waits for a v2 group to lose its last member. False: not a v2 group, or
// the time was up.
func awaitEmpty(dirfd int, wait time.Duration) bool {
	fd, err := openAt(dirfd, "cgroup.events", unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	deadline := time.Now().Add(wait)
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
