//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds on what is read and listed.
const (
	maxProcFile = 1 << 20 // bytes of a /proc or control file
	maxListing  = 4096    // directory entries looked at in one pass
	maxDepth    = 64      // levels walked up from the own group
)

// system is the part of the machine that discovery looks at, replaceable in tests.
type system struct {
	root   string                                 // put before every absolute path; "" on a real host
	pid    int                                    // this process
	mkdir  func(path string, mode uint32) error   // as mkdir(2)
	rmdir  func(path string) error                // as rmdir(2)
	fsType func(path string, unified bool) error  // is this directory really a control group?
	access func(path string) error                // may this process write here?
	marked func(path string) bool                 // delegated by the service manager?
	owner  func(path string) (uid int, err error) // of a directory
}

// liveSystem is the machine this process runs on.
func liveSystem() *system {
	return &system{
		pid:    os.Getpid(),
		mkdir:  unix.Mkdir,
		rmdir:  unix.Rmdir,
		fsType: statfsType,
		access: func(path string) error { return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) },
		marked: delegateMark,
		owner:  dirOwner,
	}
}

// exists tells whether the path can be looked up.
func (s *system) exists(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil
}

// readProc reads a file below /proc.
func (s *system) readProc(name string) (string, error) {
	return readFile(filepath.Join(s.root, "/proc", name))
}

// statfsType checks that a path lies on the kind of file system the mount table
// promised: a mount put over it later would otherwise take our limits for files.
func statfsType(path string, unified bool) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return err
	}
	want := int64(unix.CGROUP_SUPER_MAGIC)
	if unified {
		want = unix.CGROUP2_SUPER_MAGIC
	}
	if int64(st.Type) != want {
		return fmt.Errorf("%s is covered by another file system", path)
	}
	return nil
}

// delegateMark tells whether systemd marked the group as delegated (Delegate=yes).
func delegateMark(path string) bool {
	var buf [8]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(path, name, buf[:]); err == nil && string(buf[:n]) == "1" {
			return true
		}
	}
	return false
}

// dirOwner gives the owner's uid as this process sees it.
func dirOwner(path string) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, err
	}
	return int(st.Uid), nil
}

// readFile reads a small file whole; one over the bound is an error.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProcFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxProcFile {
		return "", fmt.Errorf("%s: longer than %d bytes", path, maxProcFile)
	}
	return string(b), nil
}

// openAt opens name below the directory descriptor, close-on-exec.
func openAt(dirfd int, name string, flags int) (int, error) {
	for range 100 {
		fd, err := unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
	return -1, unix.EINTR
}

// writeAt writes the value to a control file in one write(2).
func writeAt(dirfd int, name, value string) error {
	fd, err := openAt(dirfd, name, unix.O_WRONLY)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for range 100 {
		_, err = unix.Write(fd, []byte(value))
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", value, name, err)
	}
	return nil
}

// readAt reads a small control file below the directory descriptor.
func readAt(dirfd int, name string) (string, error) {
	fd, err := openAt(dirfd, name, unix.O_RDONLY)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var buf [8192]byte
	n, err := preadFD(fd, buf[:])
	if err != nil {
		return "", &os.PathError{Op: "read", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

// preadFD reads from the start of the file.
func preadFD(fd int, buf []byte) (int, error) {
	for range 100 {
		n, err := unix.Pread(fd, buf, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
	return 0, unix.EINTR
}

// hasSwap tells whether any swap area is on.
func hasSwap(s *system) (bool, error) {
	text, err := s.readProc("swaps")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // a kernel without swap
	}
	if err != nil {
		return false, err
	}
	return strings.Count(strings.TrimSpace(text), "\n") > 0, nil
}

// identity names a running process for good: numbers are used again, start times
// and namespaces are not.
type identity struct {
	pid   int
	start string // field 22 of /proc/<pid>/stat, clock ticks since boot
	pidns string // inode of the pid namespace in which pid means something
}

// identify reads the identity of the process with the number.
func (s *system) identify(pid int) (identity, error) {
	stat, err := s.readProc(strconv.Itoa(pid) + "/stat")
	if err != nil {
		return identity{}, err
	}
	_, rest, ok := cutLast(stat, ")") // the name may hold anything
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return identity{}, fmt.Errorf("/proc/%d/stat: too few fields", pid)
	}
	return identity{pid: pid, start: fields[19], pidns: s.pidNamespace()}, nil
}

// pidNamespace gives the inode of this process's pid namespace, "0" if unknown.
func (s *system) pidNamespace() string {
	link, err := os.Readlink(filepath.Join(s.root, "/proc/self/ns/pid"))
	if err != nil {
		return "0"
	}
	_, rest, _ := strings.Cut(link, "[")
	if num, ok := strings.CutSuffix(rest, "]"); ok && num != "" {
		return num
	}
	return "0"
}

// cutLast is strings.Cut at the last occurrence.
func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
