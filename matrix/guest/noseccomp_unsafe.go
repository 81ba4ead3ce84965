//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noSeccomp is the name under which the guest, as a child of itself, puts on a
// filter that denies seccomp, changes to a user and becomes a program:
//
//	noseccomp UID PROGRAM ARGUMENT...
//
// It still shows in /proc/self/status that there is a filter.
const noSeccomp = "noseccomp"

// auditArch is how the kernel names the architecture of a call.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// withoutSeccomp is that child. It returns only with an error.
func withoutSeccomp(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("%s: %d arguments", noSeccomp, len(args))
	}
	uid, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the filter is this thread's
	if err := denySeccomp(); err != nil {
		return err
	}
	if uid != 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setgid(uid); err != nil {
			return err
		}
		if err := syscall.Setuid(uid); err != nil {
			return err
		}
	}
	return fmt.Errorf("start %s: %w", args[2], syscall.Exec(args[2], args[2:], os.Environ()))
}

// denySeccomp puts the filter on: seccomp(2) is answered with ENOSYS, and the
// two older operations of prctl(2) with EINVAL, as by a kernel built without.
// 32-bit calls are not looked at.
func denySeccomp() error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K

		nr, architecture, firstArg = 0, 4, 16 // offsets in struct seccomp_data
	)
	filter := []unix.SockFilter{
		{Code: load, K: architecture},
		{Code: equal, K: auditArch[runtime.GOARCH], Jf: 6},
		{Code: load, K: nr},
		{Code: equal, K: unix.SYS_SECCOMP, Jt: 5},
		{Code: equal, K: unix.SYS_PRCTL, Jf: 3},
		{Code: load, K: firstArg},
		{Code: equal, K: unix.PR_SET_SECCOMP, Jt: 3},
		{Code: equal, K: unix.PR_GET_SECCOMP, Jt: 2},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("deny seccomp: %w", err)
	}
	runtime.KeepAlive(filter)
	return nil
}
