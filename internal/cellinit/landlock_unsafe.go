package cellinit

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// ruleset makes a Landlock ruleset of paths in the cell's root. A path that is
// not there gets no rule, which allows nothing.
func ruleset(l *cellproto.Landlock) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: l.HandledFS, Handled_access_net: l.HandledNet, Scoped: l.Scoped}
	// The kernel takes older, shorter forms of the structure.
	size := uintptr(24)
	switch {
	case l.Scoped == 0 && l.HandledNet == 0:
		size = 8
	case l.Scoped == 0:
		size = 16
	}
	r, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("create ruleset: %w", errno)
	}
	fd := int(r)
	unix.CloseOnExec(fd)
	for _, rule := range l.Rules {
		if err := addRule(fd, rule); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("rule for %s: %w", rule.Path, err)
		}
	}
	return fd, nil
}

func addRule(fd int, rule cellproto.LandlockRule) error {
	p, err := unix.Open(rule.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(p)
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rule.Access, Parent_fd: int32(p)}
	_, _, errno := syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
