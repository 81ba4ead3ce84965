package cellinit

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// proc puts the proc of the cell's own pid namespace in the place of the
// launcher's, and then leaves of it what is on the list: made-up files in the
// place of those that would show the host, and an empty file or directory over
// everything unknown. There is no way back to another proc: without this mount
// there is no cell.
func (c *cell) proc(root int) error {
	hidepid := "invisible"
	if c.off("hidepid") {
		hidepid = ""
	}
	mnt, err := newProc(hidepid)
	if err != nil {
		return err
	}
	defer unix.Close(mnt)
	var want unix.Stat_t
	if err := unix.Fstat(mnt, &want); err != nil {
		return err
	}
	if err := unix.Unmount("/proc", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the launcher's: %w", err)
	}
	if err := mountAt(mnt, root, "proc", &want); err != nil {
		return err
	}
	if err := c.timeNamespace(root); err != nil {
		return fmt.Errorf("time namespace: %w", err)
	}
	if c.off("procmask") {
		return nil
	}
	return c.maskProc(root)
}

// timeNamespace gets the guest clocks that start at its hand-over. The offsets
// are written then, through a descriptor opened while this thread may, and
// through a mount of its own, since the cell's proc becomes read-only.
func (c *cell) timeNamespace(root int) error {
	if !c.arm.TimeNS || c.off("time") {
		c.applied("time", false, "this kernel cannot give a vforked child a time namespace (before 6.3)")
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		c.applied("time", false, "unshare: "+err.Error())
		return nil
	}
	proc, err := unix.OpenTree(root, "proc", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	// A process that is not dumpable may not open its own files of /proc for
	// writing. There is no guest yet, and nobody else in this namespace.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return err
	}
	fd, err := unix.Openat(proc, fmt.Sprintf("%d/timens_offsets", unix.Gettid()), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if !c.off("dumpable") {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("timens_offsets: %w", err)
	}
	c.timens = fd
	c.applied("time", true, "own time namespace, clocks start near zero")
	return nil
}

// maskProc covers what is not on the list. Links are left: those of proc lead
// back into it.
func (c *cell) maskProc(root int) error {
	proc, err := beneath(root, "proc", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	names, err := entries(proc)
	if err != nil {
		return err
	}
	masked := 0
	for _, e := range names {
		source := ""
		switch {
		case c.standIns[e.name] != 0:
			source = workDir + "/" + e.name
		case has(c.arm.ProcCommon, e.name):
			source = commonDir + "/f/" + e.name
		case has(c.arm.ProcKeep, e.name) || e.link || isNumber(e.name):
			continue
		case e.dir:
			source = commonDir + "/d"
		default:
			source = commonDir + "/e"
		}
		if err := cover(source, "/proc/"+e.name); err != nil {
			return fmt.Errorf("cover %s: %w", e.name, err)
		}
		masked++
	}
	c.applied("proc", true, fmt.Sprintf("own pid namespace, hidepid, %d entries covered", masked))
	return nil
}

// writeStandIns makes the files of proc that show this cell's own limits. They
// stay open for writing until the job has come.
func (c *cell) writeStandIns(dir int) error {
	for i := range c.arm.StandIns {
		s := &c.arm.StandIns[i]
		fd, err := unix.Openat(dir, s.Path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o444)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		c.standIns[s.Path] = fd
		if _, err := fdWriter(fd).Write(s.Data); err != nil {
			return err
		}
	}
	return nil
}

// closeStandIns lets go of the files once the job is written.
func (c *cell) closeStandIns() {
	for _, fd := range c.standIns {
		unix.Close(fd)
	}
	c.standIns = nil
}

// cover binds one of our own files over a path. By path, which costs half of
// what descriptors do for the fifty of them: no process but this one has ever
// been in this root.
func cover(source, path string) error {
	return unix.Mount("/"+source, path, "", unix.MS_BIND, "")
}

// mkdirs makes the directories that a relative path lies in.
func mkdirs(dir int, path string) error {
	for i, r := range path {
		if r != '/' || i == 0 {
			continue
		}
		if err := unix.Mkdirat(dir, path[:i], 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return nil
}

type entry struct {
	name      string
	dir, link bool
}

// entries lists a directory by getdents64, without the os package's files.
func entries(fd int) ([]entry, error) {
	var all []entry
	buf := make([]byte, 16<<10)
	for len(all) < 4096 {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return all, nil
		}
		for b := buf[:n]; len(b) > 19; {
			reclen := int(b[16]) | int(b[17])<<8
			if reclen < 20 || reclen > len(b) {
				return nil, errors.New("bad directory entry")
			}
			name, _, _ := strings.Cut(string(b[19:reclen]), "\x00")
			if name != "." && name != ".." {
				all = append(all, entry{name, b[18] == unix.DT_DIR, b[18] == unix.DT_LNK})
			}
			b = b[reclen:]
		}
	}
	return nil, errors.New("too many entries")
}

func isNumber(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
