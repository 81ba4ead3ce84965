package cellinit

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/attest"
)

// Kernels before 5.12 have no mount_setattr. There the whole new root is walked
// once, by the kernel's own list of mounts, and each is made read-only by the
// older call, which changes one mount only.

// remountFlags are the options of mountinfo that a remount must repeat: in a
// user namespace the kernel refuses to loosen those that came from outside.
var remountFlags = map[string]uintptr{
	"nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
}

// remountReadOnly makes every mount at a path and below it read-only and nosuid,
// and all but the devices nodev.
func remountReadOnly(path string) error {
	path = strings.TrimSuffix(path, "/")
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		f := strings.Fields(line)
		if len(f) < 6 || f[4] != path && !strings.HasPrefix(f[4], path+"/") {
			continue
		}
		flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID)
		for _, o := range strings.Split(f[5], ",") {
			flags |= remountFlags[o]
		}
		if !strings.HasPrefix(f[4], path+"/dev/") {
			flags |= unix.MS_NODEV
		}
		if err := unix.Mount("", attest.Unescape(f[4]), "", flags, ""); err != nil {
			return fmt.Errorf("%s: %w", f[4], err)
		}
	}
	return nil
}

// restrictOld gives one mount of the disk what mount_setattr would.
func restrictOld(point string, attr uint64) error {
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_NOSUID | unix.MS_NODEV)
	if attr&unix.MOUNT_ATTR_NOEXEC != 0 {
		flags |= unix.MS_NOEXEC
	}
	if attr&unix.MOUNT_ATTR_RDONLY != 0 {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount("", point, "", flags, "")
}
