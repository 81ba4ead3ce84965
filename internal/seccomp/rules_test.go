package seccomp

import (
	"testing"

	"golang.org/x/sys/unix"
)

// claim is one sentence about a rule: this call with these arguments gets this answer.
type claim struct {
	call string
	args []uint64
	want string
}

const (
	high    = 1 << 32
	process = uint64(unix.SIGCHLD)
	thread  = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD
)

// hold checks claims against the compiled program of each ABI that has the call.
func hold(t *testing.T, opts Options, claims []claim) {
	t.Helper()
	p := load(t, "language", opts)
	for _, a := range []Arch{X86_64, Aarch64} {
		m := compile(t, p, a, false)
		for _, c := range claims {
			nr, ok := Number(a, c.call)
			if !ok {
				continue
			}
			var args [6]uint64
			copy(args[:], c.args)
			want, err := answer(fields(c.want))
			if err != nil {
				t.Fatal(err)
			}
			if got := m.run(t, a.audit(), nr, args); got != value(want, false) {
				t.Errorf("%s %s%#x: answers %#x, want %s", a, c.call, c.args, got, c.want)
			}
		}
	}
}

func fields(s string) []string {
	if s == "allow" || s == "kill" {
		return []string{s}
	}
	return []string{"errno", s}
}

// clone makes threads and processes; namespaces, foreign parents, tracers and pidfds are refused, alone
// and beside an allowed form, and clone3 sends libc back to clone.
//
// proves O-20 H-32
func TestClone(t *testing.T) {
	claims := []claim{
		{"clone", []uint64{process}, "allow"},
		{"clone", []uint64{process | unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID}, "allow"},          // fork of glibc
		{"clone", []uint64{process | unix.CLONE_VM | unix.CLONE_VFORK}, "allow"},                             // posix_spawn, Go
		{"clone", []uint64{thread | unix.CLONE_SYSVSEM}, "allow"},                                            // Go
		{"clone", []uint64{thread | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | 0x300000}, "allow"},             // glibc
		{"clone", []uint64{thread | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | 0x300000 | 0x400000}, "allow"},  // musl
		{"clone", []uint64{0}, "EPERM"},                                                                      // no exit signal
		{"clone", []uint64{uint64(unix.SIGUSR1)}, "EPERM"},                                                   // another exit signal
		{"clone", []uint64{process | unix.CLONE_VM}, "EPERM"},                                                // shared memory, own life
		{"clone", []uint64{process | unix.CLONE_FILES}, "EPERM"},                                             // shared descriptors
		{"clone", []uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_UNTRACED}, "EPERM"}, // leak sanitizer
		{"clone", []uint64{thread &^ unix.CLONE_SIGHAND}, "EPERM"},                                           // half a thread
		{"clone3", nil, "ENOSYS"}, {"clone3", []uint64{0x1000, 88}, "ENOSYS"}, {"unshare", []uint64{0}, "EPERM"},
	}
	bad := []uint64{unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER,
		unix.CLONE_NEWPID, unix.CLONE_NEWNET, unix.CLONE_NEWTIME, unix.CLONE_PARENT, unix.CLONE_PTRACE,
		unix.CLONE_UNTRACED, unix.CLONE_PIDFD, unix.CLONE_IO, unix.CLONE_CLEAR_SIGHAND, unix.CLONE_INTO_CGROUP, 1 << 63}
	for _, flag := range bad {
		for _, form := range []uint64{process, process | unix.CLONE_VM | unix.CLONE_VFORK, thread} {
			claims = append(claims, claim{"clone", []uint64{form | flag}, "EPERM"})
		}
		claims = append(claims, claim{"unshare", []uint64{flag}, "EPERM"})
	}
	hold(t, Options{}, claims)
}

// Sockets: only stream pairs can be made, nothing takes an address, and no out-of-band byte passes.
//
// proves O-03
func TestSockets(t *testing.T) {
	hold(t, Options{}, []claim{
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, "allow"},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM | 0x80800}, "allow"},
		{"socketpair", []uint64{unix.AF_UNIX | high, unix.SOCK_STREAM}, "EACCES"},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM | high}, "EACCES"},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, "EACCES"},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, "EACCES"},
		{"socketpair", []uint64{unix.AF_INET, unix.SOCK_STREAM}, "EACCES"},
		{"socketpair", []uint64{unix.AF_TIPC, unix.SOCK_STREAM}, "EACCES"},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, "EACCES"},
		{"socket", []uint64{unix.AF_UNIX | high, unix.SOCK_STREAM}, "EACCES"},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM}, "EAFNOSUPPORT"},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM}, "EAFNOSUPPORT"},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW}, "EAFNOSUPPORT"},
		{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, "EAFNOSUPPORT"},
		{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, "EAFNOSUPPORT"},
		{"socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, "EAFNOSUPPORT"},
		{"bind", nil, "EACCES"}, {"connect", nil, "EACCES"}, {"listen", nil, "EACCES"}, {"accept", nil, "EACCES"},
		{"accept4", nil, "EACCES"}, {"setsockopt", nil, "EPERM"}, {"sendmmsg", nil, "ENOSYS"}, {"recvmmsg", nil, "ENOSYS"},
		{"sendto", []uint64{3, 1, 1, unix.MSG_NOSIGNAL, 0, 0}, "allow"},
		{"sendto", []uint64{3, 1, 1, 0, 0x1000, 16}, "EACCES"},
		{"sendto", []uint64{3, 1, 1, 0, high, 16}, "EACCES"}, // an address whose low half is zero
		{"sendto", []uint64{3, 1, 1, unix.MSG_OOB, 0, 0}, "EOPNOTSUPP"},
		{"sendto", []uint64{3, 1, 1, unix.MSG_NOSIGNAL | high, 0, 0}, "EACCES"},
		{"recvfrom", []uint64{3, 1, 1, unix.MSG_OOB}, "EOPNOTSUPP"},
		{"recvfrom", []uint64{3, 1, 1, unix.MSG_PEEK}, "allow"},
		{"sendmsg", []uint64{3, 1, unix.MSG_OOB}, "EOPNOTSUPP"},
		{"sendmsg", []uint64{3, 1, unix.MSG_NOSIGNAL}, "allow"},
		{"sendmsg", []uint64{3, 1, unix.MSG_ZEROCOPY}, "EOPNOTSUPP"},
		{"sendmsg", []uint64{3, 1, unix.MSG_FASTOPEN}, "EOPNOTSUPP"},
		{"recvmsg", []uint64{3, 1, unix.MSG_CMSG_CLOEXEC}, "allow"},
		{"recvmsg", []uint64{3, 1, unix.MSG_OOB | unix.MSG_CMSG_CLOEXEC}, "EOPNOTSUPP"},
		{"recvmsg", []uint64{3, 1, unix.MSG_ERRQUEUE}, "EOPNOTSUPP"},
	})
}

// With loopback internet streams and datagrams exist, and nothing else does that did not before.
//
// proves O-03 O-21
func TestLoopbackSockets(t *testing.T) {
	hold(t, Options{Loopback: true}, []claim{
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, "allow"},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM | 0x80800, unix.IPPROTO_UDP}, "allow"},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, "EPROTONOSUPPORT"},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, "EPROTONOSUPPORT"},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, "EPROTONOSUPPORT"},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_RAW, 0}, "EPROTONOSUPPORT"},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, "EACCES"},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, 0}, "EAFNOSUPPORT"},
		{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, "EAFNOSUPPORT"},
		{"bind", nil, "allow"}, {"connect", nil, "allow"}, {"listen", nil, "allow"}, {"accept4", nil, "allow"},
		{"sendto", []uint64{3, 1, 1, 0, 0x1000, 16}, "allow"},
		{"sendto", []uint64{3, 1, 1, unix.MSG_OOB, 0x1000, 16}, "EOPNOTSUPP"},
		{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, "allow"},
		{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, "ENOPROTOOPT"},
		{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_BPF}, "ENOPROTOOPT"},
		{"setsockopt", []uint64{3, unix.IPPROTO_TCP, unix.TCP_NODELAY}, "allow"},
		{"setsockopt", []uint64{3, unix.IPPROTO_TCP, unix.TCP_ULP}, "ENOPROTOOPT"},
		{"setsockopt", []uint64{3, unix.IPPROTO_IP, 64}, "ENOPROTOOPT"}, // the firewall's tables
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, "EACCES"},
		{"clone", []uint64{process | unix.CLONE_NEWNET}, "EPERM"}, {"ptrace", nil, "kill"},
	})
	off, on := load(t, "language", Options{}), load(t, "language", Options{Loopback: true})
	may := map[string]bool{"socket": true, "bind": true, "connect": true, "listen": true, "accept": true, "accept4": true,
		"setsockopt": true, "sendto": true, "sendmmsg": true, "recvmmsg": true}
	for name, r := range on.rows {
		if r.canonical() != off.rows[name].canonical() && !may[name] {
			t.Errorf("loopback changes %s", name)
		}
	}
}

// prctl is a list: what names, reads or limits the process itself.
//
// proves O-04
func TestPrctl(t *testing.T) {
	hold(t, Options{}, []claim{
		{"prctl", []uint64{unix.PR_SET_NAME, 0x1000}, "allow"}, {"prctl", []uint64{unix.PR_SET_PDEATHSIG, 9}, "allow"},
		{"prctl", []uint64{unix.PR_SET_NO_NEW_PRIVS, 1}, "allow"}, {"prctl", []uint64{unix.PR_CAPBSET_READ, 1}, "allow"},
		{"prctl", []uint64{unix.PR_SET_DUMPABLE, 0}, "allow"}, {"prctl", []uint64{unix.PR_SET_DUMPABLE, 1}, "EINVAL"},
		{"prctl", []uint64{unix.PR_SET_DUMPABLE, high}, "EINVAL"}, {"prctl", []uint64{unix.PR_SET_NAME | high}, "EINVAL"},
		{"prctl", []uint64{unix.PR_SET_VMA, 0}, "allow"}, {"prctl", []uint64{unix.PR_SET_VMA, 1}, "EINVAL"},
		{"prctl", []uint64{unix.PR_SET_SECCOMP}, "EPERM"}, {"prctl", []uint64{unix.PR_SET_SECCOMP | high}, "EPERM"},
		{"prctl", []uint64{unix.PR_SET_MM}, "EPERM"}, {"prctl", []uint64{unix.PR_SET_PTRACER}, "EPERM"},
		{"prctl", []uint64{unix.PR_CAP_AMBIENT}, "EPERM"}, {"prctl", []uint64{unix.PR_CAPBSET_DROP}, "EPERM"},
		{"prctl", []uint64{unix.PR_SET_SECUREBITS}, "EPERM"}, {"prctl", []uint64{unix.PR_SET_KEEPCAPS, 1}, "EPERM"},
		{"prctl", []uint64{unix.PR_SET_CHILD_SUBREAPER, 1}, "EINVAL"}, {"prctl", []uint64{unix.PR_SET_TSC}, "EINVAL"},
		{"prctl", []uint64{unix.PR_SCHED_CORE}, "EINVAL"}, {"prctl", []uint64{unix.PR_SET_SPECULATION_CTRL}, "EINVAL"},
		{"prctl", []uint64{unix.PR_SET_MDWE}, "EINVAL"}, {"prctl", []uint64{99999}, "EINVAL"},
		{"arch_prctl", []uint64{0x1002, 0x1000}, "allow"}, {"arch_prctl", []uint64{0x1012, 0}, "EINVAL"},
		{"arch_prctl", []uint64{0x5001, 1}, "EINVAL"},
		{"personality", []uint64{0xffffffff}, "allow"}, {"personality", []uint64{0}, "EPERM"},
		{"personality", []uint64{0x0040000}, "EPERM"}, {"personality", []uint64{^uint64(0)}, "EPERM"},
	})
}

// Terminals cannot be injected into, by any spelling of the request.
//
// proves O-24 H-10
func TestTerminal(t *testing.T) {
	claims := []claim{
		{"ioctl", []uint64{0, unix.TCGETS}, "allow"}, {"ioctl", []uint64{0, unix.TIOCGWINSZ}, "allow"},
		{"ioctl", []uint64{0, unix.TIOCSTI}, "EPERM"}, {"ioctl", []uint64{0, 0x541c}, "EPERM"},
		{"ioctl", []uint64{0, unix.TIOCSCTTY}, "ENOTTY"}, {"ioctl", []uint64{0, 0x40049409}, "ENOTTY"},
		{"ioctl", []uint64{0, 0xc0502100}, "allow"}, {"ioctl", []uint64{0, 0xc0182101}, "allow"},
		{"ioctl", []uint64{0, 0x40082102}, "allow"}, {"ioctl", []uint64{0, 0x40182103}, "ENOTTY"}, // adds a descriptor
	}
	for bit := 32; bit < 64; bit++ {
		claims = append(claims,
			claim{"ioctl", []uint64{0, unix.TIOCSTI | 1<<bit}, "EPERM"},
			claim{"ioctl", []uint64{0, 0x541c | 1<<bit}, "EPERM"},
			claim{"ioctl", []uint64{0, unix.TCGETS | 1<<bit}, "ENOTTY"})
	}
	hold(t, Options{}, claims)
}

// Leases, watches, borrowed signals and large pipe buffers are refused; locks and duplicates work.
//
// proves O-07 H-10
func TestFcntl(t *testing.T) {
	claims := []claim{
		{"fcntl", []uint64{0, unix.F_DUPFD_CLOEXEC}, "allow"}, {"fcntl", []uint64{0, unix.F_SETLK}, "allow"},
		{"fcntl", []uint64{0, unix.F_OFD_SETLKW}, "allow"}, {"fcntl", []uint64{0, unix.F_GETPIPE_SZ}, "allow"},
		{"fcntl", []uint64{0, unix.F_SETFL, unix.O_NONBLOCK}, "allow"}, {"fcntl", []uint64{0, unix.F_SETFL, unix.O_ASYNC}, "EPERM"},
		{"fcntl", []uint64{0, 1036}, "EINVAL"}, {"fcntl", []uint64{0, unix.F_GETFD | high}, "EINVAL"},
	}
	for _, cmd := range []uint64{unix.F_SETLEASE, unix.F_NOTIFY, unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG, unix.F_SETPIPE_SZ} {
		claims = append(claims, claim{"fcntl", []uint64{0, cmd}, "EPERM"}, claim{"fcntl", []uint64{0, cmd | high}, "EPERM"})
	}
	hold(t, Options{}, claims)
}

// The page cache's state cannot be asked for.
//
// proves H-38
func TestPageCache(t *testing.T) {
	hold(t, Options{}, []claim{
		{"mincore", nil, "ENOSYS"}, {"cachestat", nil, "ENOSYS"}, {"readahead", nil, "EINVAL"},
		{"preadv2", []uint64{3, 1, 1, 0, 0, 0}, "allow"}, {"preadv2", []uint64{3, 1, 1, 0, 0, unix.RWF_NOWAIT}, "EOPNOTSUPP"},
		{"preadv2", []uint64{3, 1, 1, 0, 0, unix.RWF_SYNC | high}, "EOPNOTSUPP"},
		{"pwritev2", []uint64{3, 1, 1, 0, 0, unix.RWF_HIPRI}, "EOPNOTSUPP"},
		{"fadvise64", []uint64{3, 0, 0, unix.FADV_DONTNEED}, "EINVAL"}, {"fadvise64", []uint64{3, 0, 0, unix.FADV_SEQUENTIAL}, "allow"},
		{"madvise", []uint64{0, 0, unix.MADV_COLD}, "EINVAL"}, {"madvise", []uint64{0, 0, unix.MADV_PAGEOUT}, "EINVAL"},
		{"madvise", []uint64{0, 0, unix.MADV_DONTNEED}, "allow"}, {"madvise", []uint64{0, 0, unix.MADV_FREE}, "allow"},
		{"madvise", []uint64{0, 0, unix.MADV_MERGEABLE}, "EINVAL"}, {"madvise", []uint64{0, 0, unix.MADV_HWPOISON}, "EINVAL"},
	})
}

// Other argument rules: own limits only and never those of core files, no device nodes, no huge pages.
//
// proves H-10
func TestOtherRules(t *testing.T) {
	hold(t, Options{}, []claim{
		{"prlimit64", []uint64{0, unix.RLIMIT_NOFILE, 0x1000, 0}, "allow"}, {"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0, 0x1000}, "allow"},
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE, 0x1000, 0}, "EPERM"}, {"prlimit64", []uint64{0, unix.RLIMIT_CORE, high, 0}, "EPERM"},
		{"prlimit64", []uint64{0, unix.RLIMIT_CORE | high, 0x1000, 0}, "EPERM"},
		{"prlimit64", []uint64{1, unix.RLIMIT_NOFILE, 0, 0}, "EPERM"}, {"prlimit64", []uint64{high, unix.RLIMIT_NOFILE, 0, 0}, "EPERM"},
		{"setrlimit", []uint64{unix.RLIMIT_STACK}, "allow"}, {"setrlimit", []uint64{unix.RLIMIT_CORE}, "EPERM"},
		{"setrlimit", []uint64{unix.RLIMIT_CORE | high}, "EPERM"},
		{"mknod", []uint64{1, unix.S_IFIFO | 0o600}, "allow"}, {"mknod", []uint64{1, 0o600}, "allow"},
		{"mknod", []uint64{1, unix.S_IFCHR | 0o600}, "EPERM"}, {"mknod", []uint64{1, unix.S_IFSOCK}, "EPERM"},
		{"mknodat", []uint64{3, 1, unix.S_IFREG | 0o600}, "allow"}, {"mknodat", []uint64{3, 1, unix.S_IFBLK}, "EPERM"},
		{"mknodat", []uint64{3, 1, unix.S_IFIFO | 0x10000}, "EPERM"}, // the kernel's mode has 16 bits
		{"mmap", []uint64{0, 4096, unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_ANON}, "allow"},
		{"mmap", []uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB}, "ENOMEM"},
		{"memfd_create", []uint64{1, unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING}, "allow"},
		{"memfd_create", []uint64{1, unix.MFD_HUGETLB}, "EINVAL"},
		{"getpriority", []uint64{unix.PRIO_PROCESS, 0}, "allow"}, {"getpriority", []uint64{unix.PRIO_USER, 0}, "EPERM"},
		{"setpriority", []uint64{unix.PRIO_PROCESS, 0, 5}, "allow"}, {"setpriority", []uint64{unix.PRIO_PROCESS, 7, 5}, "EPERM"},
		{"setpriority", []uint64{unix.PRIO_USER, 0, 5}, "EPERM"}, {"get_robust_list", []uint64{0}, "allow"},
		{"get_robust_list", []uint64{1}, "EPERM"}, {"membarrier", []uint64{0}, "allow"}, {"membarrier", []uint64{1}, "EINVAL"},
	})
}

// A rule can refuse executable mappings, whatever the upper halves hold.
//
// proves H-10
func TestExecutableMappingsCanBeRefused(t *testing.T) {
	p := parsed(t, "mprotect if arg2:u64 none PROT_EXEC : allow ; else errno EPERM # no code is made at run time")
	for _, a := range []Arch{X86_64, Aarch64} {
		m, nr := compile(t, p, a, false), 0
		nr, _ = Number(a, "mprotect")
		for prot, want := range map[uint64]uint32{3: unix.SECCOMP_RET_ALLOW, 5: unix.SECCOMP_RET_ERRNO | 1, 5 | high: unix.SECCOMP_RET_ERRNO | 1} {
			if got := m.run(t, a.audit(), nr, [6]uint64{0, 4096, prot}); got != want {
				t.Errorf("%s: prot %#x answers %#x", a, prot, got)
			}
		}
	}
}

// The calls whose refusal breaks programs in quiet ways are allowed.
//
// proves O-22
func TestQuietCallsWork(t *testing.T) {
	names := []string{"umask", "getsockopt", "getsockname", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
		"setfsuid", "setfsgid", "sched_getaffinity", "sched_setaffinity", "rseq", "set_robust_list", "getrandom", "close_range",
		"getxattr", "lgetxattr", "listxattr", "sysinfo", "getpgid", "uname", "sigaltstack", "futex", "pidfd_open", "waitid"}
	var claims []claim
	for _, n := range names {
		claims = append(claims, claim{n, nil, "allow"}, claim{n, []uint64{1, 2, 3, 4, 5, 6}, "allow"})
	}
	claims = append(claims, claim{"prlimit64", []uint64{0, unix.RLIMIT_NOFILE, 0, 1}, "allow"},
		claim{"membarrier", nil, "allow"}, claim{"memfd_create", []uint64{1, unix.MFD_CLOEXEC}, "allow"})
	hold(t, Options{}, claims)
}

// What no legitimate program calls ends the cell, whatever the arguments.
//
// proves O-12
func TestKillClass(t *testing.T) {
	var claims []claim
	for _, n := range load(t, "language", Options{}).Killed() {
		claims = append(claims, claim{n, nil, "kill"}, claim{n, []uint64{1, high, 3, 4, 5, 6}, "kill"})
	}
	if len(claims) < 60 {
		t.Errorf("only %d calls are killed", len(claims)/2)
	}
	// Control: what programs try to find out what there is gets an errno instead.
	for _, n := range []string{"io_uring_setup", "userfaultfd", "perf_event_open", "unshare", "chroot", "keyctl", "seccomp",
		"landlock_create_ruleset", "syslog", "clone3", "socket", "inotify_init1", "pkey_alloc", "get_mempolicy"} {
		a := load(t, "language", Options{}).rows[n].last
		if a.Kind != Refuse {
			t.Errorf("%s: %v", n, a)
		}
	}
	hold(t, Options{}, claims)
}
