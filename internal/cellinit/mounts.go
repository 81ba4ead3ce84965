package cellinit

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// newTmpfs returns a descriptor of a detached tmpfs.
func newTmpfs(attr int, options ...string) (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen tmpfs: %w", err)
	}
	defer unix.Close(fs)
	for i := 0; i+1 < len(options); i += 2 {
		if err := unix.FsconfigSetString(fs, options[i], options[i+1]); err != nil {
			return -1, fmt.Errorf("tmpfs option %s=%s: %w", options[i], options[i+1], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("make tmpfs: %w", err)
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
}

// mountAt moves a detached tree onto dir/name without following a link and
// verifies device and inode behind the name.
func mountAt(tree, dir int, name string, want *unix.Stat_t) error {
	target, err := beneath(dir, name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if err := unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	var got unix.Stat_t
	if err := unix.Fstatat(dir, name, &got, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if got.Dev != want.Dev || got.Ino != want.Ino || got.Mode&unix.S_IFMT != want.Mode&unix.S_IFMT {
		return errors.New("something else appeared at the mount point")
	}
	return nil
}

// beneath opens a path below dir: no links, no dot-dot, nothing outside.
func beneath(dir int, path string, flags uint64) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC, // without O_NOFOLLOW, which would open a last link as such
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// parent opens the directory that a path lies in, which must exist.
func parent(root int, path string) (dir int, name string, err error) {
	i := strings.LastIndexByte(path, '/')
	where := "."
	if i >= 0 {
		where = path[:i]
	}
	dir, err = beneath(root, where, unix.O_PATH|unix.O_DIRECTORY)
	return dir, path[i+1:], err
}

func writeNew(dir int, name string, mode uint32, data []byte) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = fdWriter(fd).Write(data)
	return err
}

// nosuid and recursive are the flags of that name, but for negative controls.
func nosuid(off []string) uint64 {
	if has(off, "nosuid") {
		return 0
	}
	return unix.MOUNT_ATTR_NOSUID
}

func recursive(off []string) uint {
	if has(off, "recursive") {
		return 0
	}
	return unix.AT_RECURSIVE
}

// setReadOnly makes everything mounted at root and below it, which is at path,
// read-only, private and nosuid.
func setReadOnly(root int, path string, off []string) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | nosuid(off), Propagation: unix.MS_PRIVATE}
	err := unix.MountSetattr(root, "", unix.AT_EMPTY_PATH|recursive(off), &attr)
	if errors.Is(err, unix.ENOSYS) {
		return remountReadOnly(path)
	}
	return err
}
