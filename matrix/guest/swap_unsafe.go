//go:build linux

package main

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// swapOn starts swapping to a device, for which x/sys has no function.
func swapOn(device string) error {
	name, err := unix.BytePtrFromString(device)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(name)), 0, 0); errno != 0 {
		return fmt.Errorf("swap on %s: %w", device, errno)
	}
	return nil
}
