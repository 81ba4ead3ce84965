package server_test

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// smallWindow makes a socket's receive buffer the smallest.
func smallWindow(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	if err != nil {
		return err
	}
	return set
}
