package cellinit

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ifreqFlags is the part of struct ifreq that SIOCSIFFLAGS reads.
type ifreqFlags struct {
	name  [unix.IFNAMSIZ]byte
	flags uint16
	_     [22]byte
}

// loopbackUp brings lo up in the cell's own network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r := ifreqFlags{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(r.name[:], "lo")
	if _, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return fmt.Errorf("lo up: %w", errno)
	}
	return nil
}
