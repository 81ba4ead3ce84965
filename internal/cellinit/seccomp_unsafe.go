package cellinit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// installFilter loads a program on every thread. With notify it returns the
// listener of the kill class, which is born in this process, is closed on exec
// and thus never in a guest; without, -1.
func installFilter(program []byte, notify bool) (int, error) {
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_TSYNC)
	if notify {
		flags |= unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	}
	r, err := loadFilter(program, flags)
	if err != nil {
		return -1, err
	}
	if !notify {
		if r != 0 {
			return -1, fmt.Errorf("thread %d cannot be brought under the filter", r)
		}
		return -1, nil
	}
	return r, nil
}

func loadFilter(program []byte, flags uintptr) (int, error) {
	if len(program) == 0 || len(program)%8 != 0 || len(program) > 4096*8 {
		return -1, errors.New("filter of a wrong length")
	}
	prog := unix.SockFprog{Len: uint16(len(program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	r, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return -1, fmt.Errorf("load: %w", errno)
	}
	return int(r), nil
}

// seccompNotif is struct seccomp_notif of linux/seccomp.h.
type seccompNotif struct {
	ID    uint64
	PID   uint32
	Flags uint32
	NR    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

const seccompIoctlNotifRecv = 0xc0502100

// denied waits for one call of the kill class, reports its number and ends the
// cell. The call is never answered: there is nothing to continue. Its caller is
// killed before this process ends, since the end of the listener would answer
// ENOSYS and let it run on for a moment. A caller that a signal took out of its
// call meanwhile has made it all the same; the number is not known then.
func (c *cell) denied(listener int) {
	var n seccompNotif
	errno := unix.EINTR
	for errno == unix.EINTR {
		_, _, errno = syscall.Syscall(unix.SYS_IOCTL, uintptr(listener), seccompIoctlNotifRecv, uintptr(unsafe.Pointer(&n)))
	}
	c.write.Lock()     // for good: how the guest dies now is nothing to report
	if !c.off("pid") { // else the namespace is not the cell's
		_ = unix.Kill(-1, unix.SIGKILL)
	}
	if errno == unix.ENOENT {
		n.NR = -1
	}
	if errno == 0 || errno == unix.ENOENT {
		d := cellproto.Denied{Arch: uint64(n.Arch), Number: uint64(uint32(n.NR))}
		_ = cellproto.WriteFrame(fdWriter(FDControl), cellproto.TypeDenied, d.Encode())
	}
	os.Exit(0)
}

// seccompResp is struct seccomp_notif_resp.
type seccompResp struct {
	ID    uint64
	Val   int64
	Error int32
	Flags uint32
}

const (
	seccompIoctlNotifSend     = 0xc0182101
	seccompIoctlNotifSetFlags = 0x40082104

	notifContinue   = 1      // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	notifSyncWake   = 1      // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
	waitKillableBit = 1 << 5 // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
)

// installWatch loads a program on this thread alone and returns its listener.
// Where the kernel can, a call that the listener has seen waits for its answer
// whatever signal comes, and the two hand the processor to each other.
func installWatch(program []byte) (int, error) {
	fd, err := loadFilter(program, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|waitKillableBit)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.19
		fd, err = loadFilter(program, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	return fd, err
}

// instructions reads a program as the kernel would.
func instructions(program []byte) []unix.SockFilter {
	out := make([]unix.SockFilter, len(program)/8)
	for i := range out {
		out[i] = *(*unix.SockFilter)(unsafe.Pointer(&program[8*i]))
	}
	return out
}
