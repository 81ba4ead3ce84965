package cellinit

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's struct: handler, flags, restorer, mask.
type sigaction struct{ handler, flags, restorer, mask uint64 }

// lastSignal is the highest number the kernel has.
const lastSignal = 64

// resetSignals gives every signal its default action, past the runtime's back.
func resetSignals() error {
	var act sigaction
	for n := uintptr(1); n <= lastSignal; n++ {
		if n == uintptr(unix.SIGKILL) || n == uintptr(unix.SIGSTOP) {
			continue
		}
		if _, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, n, uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0); errno != 0 {
			return fmt.Errorf("signal %d: %w", n, errno)
		}
	}
	return nil
}

// dropCapabilities empties the three sets of every thread.
func dropCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return fmt.Errorf("capset: %w", errno)
	}
	return nil
}
