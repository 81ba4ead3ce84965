package cellinit

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// staging is where the new root is mounted while it is built; any directory
// does, and nobody else sees this mount namespace.
const staging = "/tmp"

// rootSize bounds the root's own tmpfs in bytes: a few generated files.
const rootSize = "1048576"

// build makes the cell's root and leaves the host's behind. Mount targets are
// opened below the new root without following links and mounted by descriptor.
func (c *cell) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return stage("root", fmt.Errorf("private mounts: %w", err))
	}
	if !c.off("uts") {
		if err := c.names(); err != nil {
			return stage("names", err)
		}
	}
	if c.arm.Loopback && !c.off("net") {
		if err := loopbackUp(); err != nil {
			return stage("loopback", err)
		}
	}
	if c.off("root") {
		return stage("box", c.controlBox())
	}
	trees, err := c.openSources()
	if err != nil {
		return stage("root", err)
	}
	root, err := c.newRoot()
	if err != nil {
		return stage("root", err)
	}
	defer unix.Close(root)
	for i := range c.arm.Ops {
		if err := c.op(root, &c.arm.Ops[i], trees[i]); err != nil {
			return stage("root", fmt.Errorf("%s: %w", c.arm.Ops[i].Path, err))
		}
	}
	c.step("root")
	if err := c.proc(root); err != nil {
		return stage("proc", err)
	}
	c.step("proc")
	if err := c.setReadOnly(root); err != nil {
		return stage("root", fmt.Errorf("read-only: %w", err))
	}
	if err := c.disk(root); err != nil {
		return stage("disk", err)
	}
	if err := pivot(root); err != nil {
		return stage("root", err)
	}
	c.applied("root", true, "own tmpfs, pivot_root, host detached")
	c.step("pivot")
	return stage("box", c.openBox())
}

func (c *cell) names() error {
	if err := unix.Sethostname([]byte(c.arm.Hostname)); err != nil {
		return err
	}
	return unix.Setdomainname([]byte("(none)"))
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

// openSources clones every tree of the host that the root will show, before
// anything covers it. A bind is private, read-only, nosuid and nodev with all
// its submounts; the kernel refuses to loosen a submount from outside.
func (c *cell) openSources() ([]int, error) {
	fds := make([]int, len(c.arm.Ops))
	for i := range c.arm.Ops {
		o := &c.arm.Ops[i]
		fds[i] = -1
		if o.Kind != cellproto.OpBind && o.Kind != cellproto.OpDevice {
			continue
		}
		flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
		if o.Kind == cellproto.OpBind {
			flags |= unix.AT_RECURSIVE
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, o.Source, flags)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", o.Source, err)
		}
		if o.Kind == cellproto.OpBind {
			attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | c.nosuid(),
				Propagation: unix.MS_PRIVATE}
			err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|c.recursive(), &attr)
			if err != nil && !errors.Is(err, unix.ENOSYS) { // before 5.12 remountReadOnly does it
				return nil, fmt.Errorf("read-only %s: %w", o.Source, err)
			}
		}
		fds[i] = fd
	}
	return fds, nil
}

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

// newRoot mounts an empty tmpfs and returns a descriptor of it.
func (c *cell) newRoot() (int, error) {
	fd, err := newTmpfs(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
		"size", rootSize, "nr_inodes", "512", "mode", "0755")
	if err != nil {
		return -1, err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, staging, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return -1, fmt.Errorf("mount the new root: %w", err)
	}
	return fd, nil
}

// op carries one step out below the new root.
func (c *cell) op(root int, o *cellproto.Op, tree int) error {
	dir, name, err := parent(root, o.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	switch o.Kind {
	case cellproto.OpDir:
		err := unix.Mkdirat(dir, name, uint32(o.Mode))
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		return err
	case cellproto.OpSymlink:
		return unix.Symlinkat(o.Source, dir, name)
	case cellproto.OpFile:
		return writeNew(dir, name, uint32(o.Mode), o.Data)
	case cellproto.OpBind, cellproto.OpDevice:
		defer unix.Close(tree)
		return c.attach(dir, name, o, tree)
	}
	return fmt.Errorf("unknown step %d", o.Kind)
}

// attach mounts a cloned tree at a fresh target of the right kind and checks
// that what stands there afterwards is what was cloned.
func (c *cell) attach(dir int, name string, o *cellproto.Op, tree int) error {
	var want unix.Stat_t
	if err := unix.Fstat(tree, &want); err != nil {
		return err
	}
	if want.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := unix.Mkdirat(dir, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	} else if err := writeNew(dir, name, 0o644, nil); err != nil {
		return err
	}
	if o.Kind == cellproto.OpDevice {
		if want.Mode&unix.S_IFMT != unix.S_IFCHR || want.Rdev != o.Mode {
			return fmt.Errorf("%s is not the device it should be", o.Source)
		}
	}
	return mountAt(tree, dir, name, &want)
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
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
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
func (c *cell) nosuid() uint64 {
	if c.off("nosuid") {
		return 0
	}
	return unix.MOUNT_ATTR_NOSUID
}

func (c *cell) recursive() uint {
	if c.off("recursive") {
		return 0
	}
	return unix.AT_RECURSIVE
}

// setReadOnly makes everything mounted so far read-only, private and nosuid.
func (c *cell) setReadOnly(root int) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | c.nosuid(), Propagation: unix.MS_PRIVATE}
	err := unix.MountSetattr(root, "", unix.AT_EMPTY_PATH|c.recursive(), &attr)
	if errors.Is(err, unix.ENOSYS) {
		return remountReadOnly()
	}
	return err
}

// disk mounts one size-limited tmpfs and shows three of its directories, so
// that /box, /tmp and /dev/shm share one limit of bytes and of files.
func (c *cell) disk(root int) error {
	fd, err := newTmpfs(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, "size", fmt.Sprint(c.arm.DiskBytes),
		"nr_inodes", fmt.Sprint(c.arm.DiskFiles+4), "mode", "0755")
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
	dirs := []struct {
		name, target string
		mode         uint32
		noexec       bool
	}{{"box", "box", 0o755, false}, {"tmp", "tmp", 0o777 | unix.S_ISVTX, false}, {"shm", "dev/shm", 0o777 | unix.S_ISVTX, true}}
	trees := make([]int, len(dirs))
	for i, d := range dirs {
		if trees[i], err = c.diskDir(fd, d.name, d.mode); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	if err := unix.Unmount(staging+"/box", unix.MNT_DETACH); err != nil {
		return err
	}
	for i, d := range dirs {
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
		if err == nil && d.noexec {
			err = setNoexec(root, d.target)
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

// setNoexec forbids running what lies in one mount of the new root.
func setNoexec(root int, path string) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOEXEC}
	err := unix.MountSetattr(root, path, unix.AT_SYMLINK_NOFOLLOW, &attr)
	if errors.Is(err, unix.ENOSYS) {
		return noexecOld(staging + "/" + path)
	}
	return err
}

// pivot makes the new root the only one.
func pivot(root int) error {
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the host: %w", err)
	}
	return unix.Chdir("/")
}
