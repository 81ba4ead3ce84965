//go:build linux

package worker

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/seccomp"
)

// seal puts every thread of this process, whoever has made it, under the filter
// of the sealed profile, on top of the one that the cell has already.
func seal() error {
	policy, err := seccomp.Load("sealed", seccomp.Options{})
	if err != nil {
		return err
	}
	arch, ok := seccomp.Host()
	if !ok {
		return errors.New("no system call table for this machine")
	}
	program, err := policy.Compile(arch, false)
	if err != nil {
		return err
	}
	code := seccomp.Encode(program)
	prog := unix.SockFprog{Len: uint16(len(code) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(unsafe.SliceData(code)))}
	// A thread that cannot be taken along is the answer, as its number.
	tid, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	if tid != 0 {
		return fmt.Errorf("thread %d has a filter of its own", tid)
	}
	return nil
}

// forbidden are calls that a sealed worker may not make. Each is harmless if it
// should get through: bad descriptors, null pointers, signal 0.
var forbidden = []struct {
	name string
	call [7]uintptr
}{
	{"openat", [7]uintptr{unix.SYS_OPENAT, ^uintptr(0), 0, unix.O_RDONLY}},
	{"readlinkat", [7]uintptr{unix.SYS_READLINKAT, ^uintptr(0), 0, 0, 0}},
	{"execve", [7]uintptr{unix.SYS_EXECVE, 0, 0, 0}},
	{"socket", [7]uintptr{unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0}},
	{"sendmsg", [7]uintptr{unix.SYS_SENDMSG, channel, 0, 0}},
	{"recvmsg", [7]uintptr{unix.SYS_RECVMSG, channel, 0, 0}},
	{"kill", [7]uintptr{unix.SYS_KILL, 1, 0}},
	{"shmget", [7]uintptr{unix.SYS_SHMGET, 0x6776626f, 4096, 0}},
	{"mmap executable", [7]uintptr{unix.SYS_MMAP, 0, 4096, unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, ^uintptr(0), 0}},
	{"mprotect executable", [7]uintptr{unix.SYS_MPROTECT, 0, 0, unix.PROT_READ | unix.PROT_EXEC}},
	{"clone of a process", [7]uintptr{unix.SYS_CLONE, unix.CLONE_NEWUSER | unix.CLONE_FS, 0, 0, 0, 0}},
	{"unshare", [7]uintptr{unix.SYS_UNSHARE, unix.CLONE_NEWUSER | unix.CLONE_SIGHAND, 0}},
	{"rt_sigaction", [7]uintptr{unix.SYS_RT_SIGACTION, 0, 0, 0, 0}},
}

// probe tries them all; the first that is not refused as the filter refuses is
// the error.
func probe() error {
	for _, f := range forbidden {
		c := f.call
		_, _, errno := unix.RawSyscall6(c[0], c[1], c[2], c[3], c[4], c[5], c[6])
		if errno != unix.EPERM {
			return fmt.Errorf("%s answered %v", f.name, errno)
		}
	}
	return nil
}
