package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Children are the processes that a process has started, zombies among them, as the
// kernel tells: see proc_pid_task(5). There are none of a process that is gone.
func Children(pid int) []int {
	var all []int
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, _ := os.ReadDir(dir)
	for _, thread := range threads {
		b, _ := os.ReadFile(filepath.Join(dir, thread.Name(), "children"))
		for _, s := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(s); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// Descendants are its children, theirs, and so on.
func Descendants(pid int) []int {
	all := Children(pid)
	for i := 0; i < len(all); i++ {
		all = append(all, Children(all[i])...)
	}
	return all
}

// OpenProcess returns a pidfd, which cannot come to mean another process, and closes
// it after the test. It is negative when the process has been reaped.
func OpenProcess(t testing.TB, pid int) (pidfd int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1
	}
	if err != nil {
		t.Fatalf("pidfd of %d: %v", pid, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// HoldDescendant returns a pidfd of a process that comes from this one: nobody else
// is signalled by it, whatever has happened to the number. The caller closes it. It
// is negative when there is no such process any more.
func HoldDescendant(pid int) (pidfd int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	for at := pid; at != os.Getpid(); at = Parent(at) {
		if at <= 1 {
			unix.Close(fd)
			return -1
		}
	}
	if unix.PidfdSendSignal(fd, 0, nil, 0) != nil { // the number may have been another's before
		unix.Close(fd)
		return -1
	}
	return fd
}

// Parent is the process that a process belongs to, 0 if it is gone.
func Parent(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[1])
	return n
}

// EndsWithin waits, at most that long, for the process behind a pidfd to end.
func EndsWithin(pidfd int, atMost time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for end := time.Now().Add(atMost); ; {
		left := max(time.Until(end), 0)
		if n, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond)); err == nil && n == 1 {
			return true
		}
		if left == 0 {
			return false
		}
	}
}

// CPUTime is the processor time of all threads of a process, dead ones among them.
// It is an error when the process has been reaped. See clock_getcpuclockid(3).
func CPUTime(pid int) (time.Duration, error) {
	const sched = 2
	var ts unix.Timespec
	err := unix.ClockGettime(^int32(pid)<<3|sched, &ts)
	return time.Duration(ts.Nano()), err
}
