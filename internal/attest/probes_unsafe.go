package attest

import (
	"bytes"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused is what a probe answers that reads a fact instead of calling for an
// errno: the fact is as it must be.
const refused = unix.EPERM

// inetSocket is the one probe that a cell with a loopback network does not refuse.
const inetSocket = "inet-socket"

// The table. An errno alone does not name a layer: each probe is chosen so
// that its answer differs with its layer off, and the negative controls run
// exactly that. Calls of the kill class are not probed, they would end the
// cell; their refusal is the business of the filter's own tests.
var table = []Probe{
	{"open-root-dir", "landlock", []unix.Errno{unix.EACCES}, openProbe("/", unix.O_RDONLY|unix.O_DIRECTORY)},
	{"tmpfile-usr", "root", []unix.Errno{unix.EROFS}, openProbe("/usr", unix.O_WRONLY|unix.O_TMPFILE)},
	{"host-sys", "root", []unix.Errno{unix.ENOENT}, statProbe("/sys")},
	{"host-boot-id", "proc", []unix.Errno{unix.ENOENT}, statProbe("/proc/sys/kernel/random/boot_id")},
	{"host-interrupts", "proc", []unix.Errno{refused}, emptyProbe("/proc/interrupts")},
	{"pid-is-first", "namespaces", []unix.Errno{refused}, pidProbe},
	{"cgroup-is-root", "cgroup_ns", []unix.Errno{refused}, cgroupProbe},
	{"become-root", "privileges", []unix.Errno{unix.EPERM, unix.EINVAL}, call(unix.SYS_SETRESUID, 0, 0, 0)},
	{"gain-capability", "privileges", []unix.Errno{refused}, capabilityProbe},
	{"no-new-privs", "privileges", []unix.Errno{refused}, noNewPrivsProbe},
	{"dumpable", "dumpable", []unix.Errno{refused}, dumpableProbe},
	{"descriptors", "close_range", []unix.Errno{refused}, descriptorsProbe},
	{"raise-core", "rlimits", []unix.Errno{unix.EPERM}, coreProbe},
	{inetSocket, "seccomp", []unix.Errno{unix.EAFNOSUPPORT, unix.EPERM, unix.EACCES}, call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0)},
	{"unix-socket", "seccomp", []unix.Errno{unix.EAFNOSUPPORT, unix.EPERM, unix.EACCES}, call(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0)},
	{"netlink-socket", "seccomp", []unix.Errno{unix.EAFNOSUPPORT}, call(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, 0)},
	{"unshare-user", "seccomp", []unix.Errno{unix.EPERM}, call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_SIGHAND, 0, 0)},
	{"shmget", "seccomp", []unix.Errno{unix.EPERM, unix.ENOSYS}, call(unix.SYS_SHMGET, 0x6776626f, 4096, 0)},
	{"clone3", "seccomp", []unix.Errno{unix.ENOSYS}, call(unix.SYS_CLONE3, 0, 0, 0)},
	{"io-uring", "seccomp", []unix.Errno{unix.EPERM, unix.ENOSYS}, call(unix.SYS_IO_URING_SETUP, 0, 0, 0)},
	{"tiocsti", "seccomp", []unix.Errno{unix.EPERM}, call(unix.SYS_IOCTL, ^uintptr(0), unix.TIOCSTI, 0)},
	{"set-pipe-size", "seccomp", []unix.Errno{unix.EPERM, unix.EINVAL}, call(unix.SYS_FCNTL, ^uintptr(0), unix.F_SETPIPE_SZ, 0)},
}

// Table returns the probes; for documents and tests.
func Table() []Probe { return table }

func call(nr, a, b, c uintptr) func() unix.Errno {
	return func() unix.Errno {
		r, _, errno := syscall.RawSyscall6(nr, a, b, c, 0, 0, 0)
		if errno == 0 && nr == unix.SYS_SOCKET {
			unix.Close(int(r))
		}
		return errno
	}
}

func openProbe(path string, flags int) func() unix.Errno {
	return func() unix.Errno {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return toErrno(err)
	}
}

func statProbe(path string) func() unix.Errno {
	return func() unix.Errno {
		var st unix.Stat_t
		return toErrno(unix.Stat(path, &st))
	}
}

// emptyProbe wants a file of the host to be covered or absent.
func emptyProbe(path string) func() unix.Errno {
	return func() unix.Errno {
		var b [1]byte
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return refused
		}
		defer unix.Close(fd)
		if n, err := unix.Read(fd, b[:]); err == nil && n > 0 {
			return 0
		}
		return refused
	}
}

func pidProbe() unix.Errno {
	if unix.Getpid() == 1 && unix.Getppid() == 0 {
		return refused
	}
	return 0
}

// cgroupProbe wants every line of the own groups to read "/".
func cgroupProbe() unix.Errno {
	buf := make([]byte, 8192)
	fd, err := unix.Open("/proc/thread-self/cgroup", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return toErrno(err)
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	switch {
	case err != nil:
		return toErrno(err)
	case n == len(buf) || !onlyRoots(buf[:n]):
		return 0
	}
	return refused
}

// onlyRoots tells whether each line of a list of control groups names a root. The
// list of a kernel on which no hierarchy was ever mounted is empty, and names none
// of the host's.
func onlyRoots(list []byte) bool {
	for line := range bytes.Lines(list) {
		if !bytes.HasSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte(":/")) {
			return false
		}
	}
	return true
}

// capabilityProbe reads the sets of this thread and asks for one more.
func capabilityProbe() unix.Errno {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if _, _, errno := syscall.RawSyscall(unix.SYS_CAPGET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data[0])), 0); errno != 0 {
		return errno
	}
	for _, d := range data {
		if d.Effective|d.Permitted|d.Inheritable != 0 {
			return 0
		}
	}
	return refused
}

func noNewPrivsProbe() unix.Errno {
	if v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || v != 1 {
		return 0
	}
	return refused
}

func dumpableProbe() unix.Errno {
	if v, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || v != 0 {
		return 0
	}
	return refused
}

// descriptorsProbe wants every descriptor but 0, 1 and 2 to close at the exec.
func descriptorsProbe() unix.Errno {
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return toErrno(err)
	}
	defer unix.Close(dir)
	buf := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil {
			return toErrno(err)
		}
		if n == 0 {
			return refused
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			fd, err := strconv.Atoi(name)
			if err != nil {
				return unix.EINVAL
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); fd > 2 && (err != nil || flags&unix.FD_CLOEXEC == 0) {
				return 0
			}
		}
	}
}

func coreProbe() unix.Errno {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		return toErrno(err)
	}
	if now.Max > 1 {
		return 0
	}
	more := unix.Rlimit{Cur: now.Cur, Max: now.Max + 1}
	_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&more)), 0, 0, 0)
	return errno
}

func toErrno(err error) unix.Errno {
	if e, ok := err.(unix.Errno); ok {
		return e
	}
	return 0
}
