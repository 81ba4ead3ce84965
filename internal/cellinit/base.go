package cellinit

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// staging is where the root of all cells is mounted while it is built; any
// directory does, and nobody else sees this mount namespace.
const staging = "/tmp"

// Directories of the root that are no guest's business: workDir is where init
// mounts its own small files for a moment; commonDir has what the cells' procs
// show in common: "e", an empty file, "d", an empty directory, and below "f" files
// with made-up content.
const (
	workDir   = ".glovebox"
	commonDir = ".proc"
)

// baseSize bounds the root's own tmpfs in bytes: a few generated files.
const baseSize = "1048576"

// buildBase makes the root that each cell gets a copy of with its mount
// namespace, and leaves the host's behind. Everything in it is read-only, so
// that cells share nothing through it but what they could read anyway. Mount
// targets are opened below the new root without following links and mounted by
// descriptor.
func buildBase(m *cellproto.Launch) error {
	ops, off := m.Ops, m.Off
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	trees, err := openSources(ops, off)
	if err != nil {
		return err
	}
	// Asked for while the host's proc can be seen, which is what the kernel wants.
	proc, err := newProc("")
	if err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	defer unix.Close(proc)
	root, err := newRoot()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for i := range ops {
		if err := op(root, &ops[i], trees[i]); err != nil {
			return fmt.Errorf("%s: %w", ops[i].Path, err)
		}
	}
	if err := unix.Mkdirat(root, workDir, 0o700); err != nil {
		return err
	}
	if err := writeCommon(root, m.StandIns); err != nil {
		return fmt.Errorf("files of proc: %w", err)
	}
	var want unix.Stat_t
	if err := unix.Fstat(proc, &want); err != nil {
		return err
	}
	if err := mountAt(proc, root, "proc", &want); err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	if err := setReadOnly(root, staging, off); err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	return pivot(root)
}

func writeCommon(root int, files []cellproto.StandIn) error {
	for _, d := range []string{"", "/d", "/f"} {
		if err := unix.Mkdirat(root, commonDir+d, 0o755); err != nil {
			return err
		}
	}
	dir, err := beneath(root, commonDir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := writeNew(dir, "e", 0o444, nil); err != nil {
		return err
	}
	for i := range files {
		path := "f/" + files[i].Path
		if err := mkdirs(dir, path); err != nil {
			return err
		}
		if err := writeNew(dir, path, 0o444, files[i].Data); err != nil {
			return fmt.Errorf("%s: %w", files[i].Path, err)
		}
	}
	return nil
}

// newProc returns a descriptor of a detached proc of the own pid namespace.
func newProc(hidepid string) (int, error) {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	if hidepid != "" {
		if err := unix.FsconfigSetString(fs, "hidepid", hidepid); err != nil {
			return -1, fmt.Errorf("hidepid: %w", err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("make: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, fmt.Errorf("a new proc is refused (are paths of the host's covered?): %w", err)
	}
	return fd, nil
}

// openSources clones every tree of the host that the root will show, before
// anything covers it. A bind is private, read-only, nosuid and nodev with all
// its submounts; the kernel refuses to loosen a submount from outside.
func openSources(ops []cellproto.Op, off []string) ([]int, error) {
	fds := make([]int, len(ops))
	for i := range ops {
		o := &ops[i]
		fds[i] = -1
		if o.Kind != cellproto.OpBind && o.Kind != cellproto.OpDevice {
			continue
		}
		flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
		if o.Kind == cellproto.OpBind {
			flags |= unix.AT_RECURSIVE
		}
		fd, err := cloneTree(o.Source, flags)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", o.Source, err)
		}
		if o.Kind == cellproto.OpBind {
			attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | nosuid(off),
				Propagation: unix.MS_PRIVATE}
			err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|recursive(off), &attr)
			if err != nil && !errors.Is(err, unix.ENOSYS) { // before 5.12 remountReadOnly does it
				return nil, fmt.Errorf("read-only %s: %w", o.Source, err)
			}
		}
		fds[i] = fd
	}
	return fds, nil
}

// cloneTree clones the tree at a path of the host, of which no part may be a link:
// what was looked at when the host chose it must be what is shown.
func cloneTree(path string, flags uint) (int, error) {
	at, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC, // without O_NOFOLLOW, which would open a last link as such
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	return unix.OpenTree(at, "", flags|unix.AT_EMPTY_PATH)
}

// newRoot mounts an empty tmpfs at the staging place and returns a descriptor.
func newRoot() (int, error) {
	fd, err := newTmpfs(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
		"size", baseSize, "nr_inodes", "512", "mode", "0755")
	if err != nil {
		return -1, err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, staging, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return -1, fmt.Errorf("mount the new root: %w", err)
	}
	return fd, nil
}

// op carries one step out below the new root.
func op(root int, o *cellproto.Op, tree int) error {
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
		return attach(dir, name, o, tree)
	}
	return fmt.Errorf("unknown step %d", o.Kind)
}

// attach mounts a cloned tree at a fresh target of the right kind and checks
// that what stands there afterwards is what was cloned.
func attach(dir int, name string, o *cellproto.Op, tree int) error {
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
