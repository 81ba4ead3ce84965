package cellinit

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// build finishes the root of one cell. The launcher's, of which this mount
// namespace has a private copy, is all there is already, the host is not in it;
// what is still to come is what no two cells may share: names, proc, and the
// three writable directories.
func (c *cell) build() error {
	if c.arm.Loopback && !c.off("net") {
		if err := loopbackUp(); err != nil {
			return stage("loopback", err)
		}
	}
	if c.off("root") {
		return stage("box", c.controlBox())
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return stage("root", err)
	}
	defer unix.Close(root)
	if err := c.ownFiles(root); err != nil {
		return stage("root", err)
	}
	c.step("own files")
	if err := c.proc(root); err != nil {
		return stage("proc", err)
	}
	if err := unix.Unmount("/"+workDir, unix.MNT_DETACH); err != nil {
		return stage("root", err)
	}
	if err := setReadOnly(root, "/", c.arm.Off); err != nil {
		return stage("root", fmt.Errorf("read-only: %w", err))
	}
	c.step("proc")
	if err := c.disk(root); err != nil {
		return stage("disk", err)
	}
	c.applied("root", true, "own tmpfs, host detached")
	return stage("box", c.openBox())
}

// ownFiles mounts a small tmpfs for the files that init makes up, and shows the
// cell's own passwd and group from it. It is unmounted before the guest comes:
// what was bound from it stays.
func (c *cell) ownFiles(root int) error {
	fd, err := newTmpfs(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
		"size", "262144", "nr_inodes", "128", "mode", "0755")
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.MoveMount(fd, "", root, workDir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount own files: %w", err)
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{"passwd", c.arm.Passwd}, {"group", c.arm.Group}} {
		if err := writeNew(fd, f.name, 0o444, f.data); err != nil {
			return err
		}
		if err := cover(workDir+"/"+f.name, "/etc/"+f.name); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return c.writeStandIns(fd)
}

func (c *cell) openBox() (err error) {
	c.box, err = unix.Open("/box", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return err
}

// controlBox is the place of /box in a negative control that keeps the host's
// root: a tmpfs of its own that covers a directory of the host for this cell.
func (c *cell) controlBox() error {
	fd, err := newTmpfs(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, "size", fmt.Sprint(c.arm.DiskBytes), "mode", "1777")
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, staging, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	c.box, err = unix.Open(staging, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// productDir is the name of /prog, in the root and on the disk.
const productDir = "prog"

// diskDirs are the directories of the disk and where they are shown.
var diskDirs = []struct {
	name, target string
	mode         uint32
	attr         uint64
}{
	{"box", "box", 0o755, 0},
	{"tmp", "tmp", 0o777 | unix.S_ISVTX, 0},
	{"shm", "dev/shm", 0o777 | unix.S_ISVTX, unix.MOUNT_ATTR_NOEXEC},
	{productDir, productDir, 0o755, unix.MOUNT_ATTR_RDONLY},
}

// disk mounts one size-limited tmpfs and shows four of its directories, so
// that /box, /tmp, /dev/shm and /prog share one limit of bytes and of files. /prog
// has a compiler's product, which only a compiler may write there; init writes
// it past the read-only mount.
func (c *cell) disk(root int) error {
	fd, err := newTmpfs(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, "size", fmt.Sprint(c.arm.DiskBytes),
		"nr_inodes", fmt.Sprint(c.arm.DiskFiles+5), "mode", "0755")
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// A tree cannot be cloned from a detached mount before 6.15, so it is
	// attached for a moment at the first of its own targets.
	hold, err := beneath(root, "box", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(hold)
	if err := unix.MoveMount(fd, "", hold, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return err
	}
	trees := make([]int, len(diskDirs))
	for i, d := range diskDirs {
		if trees[i], err = c.diskDir(fd, d.name, d.mode); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	if c.prog, err = unix.Openat(fd, productDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if err := unix.Unmount("/box", unix.MNT_DETACH); err != nil {
		return err
	}
	for i, d := range diskDirs {
		var want unix.Stat_t
		if err := unix.Fstat(trees[i], &want); err != nil {
			return err
		}
		dir, name, err := parent(root, d.target)
		if err != nil {
			return err
		}
		err = mountAt(trees[i], dir, name, &want)
		unix.Close(dir)
		unix.Close(trees[i])
		if err == nil && d.name == productDir && c.arm.Maker {
			d.attr = 0
		}
		if err == nil && d.attr != 0 {
			err = restrict(root, d.target, d.attr)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.target, err)
		}
	}
	c.step("disk")
	return nil
}

func (c *cell) diskDir(fs int, name string, mode uint32) (int, error) {
	if err := unix.Mkdirat(fs, name, mode); err != nil {
		return -1, err
	}
	if err := unix.Fchmodat(fs, name, mode, 0); err != nil {
		return -1, err
	}
	if err := unix.Fchownat(fs, name, int(c.arm.UID), int(c.arm.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	return unix.OpenTree(fs, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
}

// restrict gives one mount of the new root a further attribute.
func restrict(root int, path string, attr uint64) error {
	err := unix.MountSetattr(root, path, unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: attr})
	if errors.Is(err, unix.ENOSYS) {
		return restrictOld("/"+path, attr)
	}
	return err
}
