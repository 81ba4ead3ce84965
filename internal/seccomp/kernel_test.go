package seccomp

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childMode is the variable that turns this test binary into a process to be sealed.
const childMode = "GLOVEBOX_SECCOMP_CHILD"

func TestMain(m *testing.M) {
	words := strings.Fields(os.Getenv(childMode))
	if len(words) == 0 {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	sealed := words[1] == "sealed"
	switch words[0] {
	case "probe":
		childProbe(sealed)
	case "call":
		nr, _ := strconv.Atoi(words[2])
		childCall(sealed, uintptr(nr))
	case "listen":
		childListen()
	case "load":
		childLoad()
	}
	os.Exit(0)
}

// child runs this binary in a mode. The environment holds nothing of the test run; under the race detector
// a process would wait a second before its exit, which GORACE turns off.
func child(t testing.TB, mode string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{childMode + "=" + mode, "GORACE=atexit_sleep_ms=0"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if err != nil && errs.Len() > 0 {
		t.Logf("%s: %s", mode, errs.String())
	}
	return out.String(), err
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// install puts the host's language filter on this thread and returns the listener if one was asked for.
func install(notify bool) int {
	a, _ := Host()
	p, err := Load("language", Options{})
	must(err)
	prog, err := p.Compile(a, notify)
	must(err)
	must(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	return attach(prog, notify)
}

func attach(prog []unix.SockFilter, notify bool) int {
	flags := uintptr(0)
	if notify {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	f := &unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	fd, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, reflect.ValueOf(f).Pointer())
	runtime.KeepAlive(f)
	if errno != 0 {
		must(errno)
	}
	return int(fd)
}

// noCore keeps a child that is about to be killed from leaving a core.
func noCore() {
	must(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	must(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}

// probe is a call that harms nobody even if it is let through: a bad descriptor, a null pointer, an
// impossible flag.
type probe struct {
	call string
	args [6]uintptr
	want unix.Errno
}

const none = ^uintptr(0) // no descriptor

var probes = []probe{
	{"unshare", [6]uintptr{unix.CLONE_NEWUSER | unix.CLONE_SIGHAND}, unix.EPERM},
	{"clone", [6]uintptr{unix.CLONE_NEWUSER | unix.CLONE_FS | uintptr(unix.SIGCHLD)}, unix.EPERM},
	{"clone", [6]uintptr{unix.CLONE_NEWNS | unix.CLONE_FS | uintptr(unix.SIGCHLD)}, unix.EPERM},
	{"clone", [6]uintptr{unix.CLONE_PARENT | unix.CLONE_SIGHAND}, unix.EPERM},
	{"clone3", [6]uintptr{}, unix.ENOSYS},
	{"socket", [6]uintptr{unix.AF_INET, unix.SOCK_STREAM}, unix.EAFNOSUPPORT},
	{"socket", [6]uintptr{unix.AF_INET6, unix.SOCK_DGRAM}, unix.EAFNOSUPPORT},
	{"socket", [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW}, unix.EAFNOSUPPORT},
	{"socket", [6]uintptr{unix.AF_UNIX, unix.SOCK_STREAM}, unix.EACCES},
	{"socketpair", [6]uintptr{unix.AF_UNIX, unix.SOCK_DGRAM}, unix.EACCES},
	{"bind", [6]uintptr{none}, unix.EACCES},
	{"connect", [6]uintptr{none}, unix.EACCES},
	{"listen", [6]uintptr{none}, unix.EACCES},
	{"accept4", [6]uintptr{none}, unix.EACCES},
	{"setsockopt", [6]uintptr{none}, unix.EPERM},
	{"sendto", [6]uintptr{none, 0, 0, unix.MSG_OOB}, unix.EOPNOTSUPP},
	{"sendto", [6]uintptr{none, 0, 0, 0, 1 << 32, 16}, unix.EACCES},
	{"recvmsg", [6]uintptr{none, 0, unix.MSG_OOB}, unix.EOPNOTSUPP},
	{"sendmmsg", [6]uintptr{none}, unix.ENOSYS},
	{"ioctl", [6]uintptr{none, unix.TIOCSTI}, unix.EPERM},
	{"ioctl", [6]uintptr{none, unix.TIOCSTI | 1<<32}, unix.EPERM},
	{"ioctl", [6]uintptr{none, unix.TIOCSTI | 1<<63}, unix.EPERM},
	{"ioctl", [6]uintptr{none, 0x541c}, unix.EPERM},
	{"ioctl", [6]uintptr{none, unix.TCGETS | 1<<32}, unix.ENOTTY},
	{"fcntl", [6]uintptr{none, unix.F_SETLEASE}, unix.EPERM},
	{"fcntl", [6]uintptr{none, unix.F_NOTIFY}, unix.EPERM},
	{"fcntl", [6]uintptr{none, unix.F_SETOWN}, unix.EPERM},
	{"fcntl", [6]uintptr{none, unix.F_SETPIPE_SZ}, unix.EPERM},
	{"fcntl", [6]uintptr{none, unix.F_SETPIPE_SZ | 1<<32}, unix.EPERM},
	{"prctl", [6]uintptr{unix.PR_SET_KEEPCAPS, 2}, unix.EPERM},
	{"prctl", [6]uintptr{unix.PR_CAP_AMBIENT, 99}, unix.EPERM},
	{"prctl", [6]uintptr{unix.PR_SET_SECCOMP, 99}, unix.EPERM},
	{"prctl", [6]uintptr{13}, unix.EINVAL}, // PR_GET_TIMING
	{"personality", [6]uintptr{0x0040000}, unix.EPERM},
	{"shmget", [6]uintptr{0x6776626f, 4096}, unix.EPERM},
	{"semget", [6]uintptr{0x6776626f}, unix.EPERM},
	{"msgget", [6]uintptr{0x6776626f}, unix.EPERM},
	{"keyctl", [6]uintptr{9999}, unix.EPERM},
	{"add_key", [6]uintptr{}, unix.EPERM},
	{"perf_event_open", [6]uintptr{}, unix.EACCES},
	{"io_uring_setup", [6]uintptr{}, unix.ENOSYS},
	{"kcmp", [6]uintptr{0x7ffffff0, 0x7ffffff0}, unix.EPERM},
	{"chroot", [6]uintptr{}, unix.EPERM},
	{"clock_settime", [6]uintptr{9999}, unix.EPERM},
	{"name_to_handle_at", [6]uintptr{none}, unix.EPERM},
	{"inotify_init1", [6]uintptr{0x7fffffff}, unix.ENOSYS},
	{"splice", [6]uintptr{none, 0, none, 0, 1}, unix.EINVAL},
	{"tee", [6]uintptr{none, none, 1}, unix.EINVAL},
	{"mincore", [6]uintptr{1, 1}, unix.ENOSYS},
	{"readahead", [6]uintptr{none}, unix.EINVAL},
	{"fadvise64", [6]uintptr{none, 0, 0, unix.FADV_DONTNEED}, unix.EINVAL},
	{"madvise", [6]uintptr{0, 0, unix.MADV_COLD}, unix.EINVAL},
	{"preadv2", [6]uintptr{none, 0, 0, 0, 0, unix.RWF_NOWAIT}, unix.EOPNOTSUPP},
	{"mknodat", [6]uintptr{none, 0, unix.S_IFCHR}, unix.EPERM},
	{"mmap", [6]uintptr{0, 0, 0, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB, none}, unix.ENOMEM},
	{"memfd_create", [6]uintptr{0, unix.MFD_HUGETLB}, unix.EINVAL},
	{"prlimit64", [6]uintptr{0, unix.RLIMIT_CORE, 1}, unix.EPERM},
	{"prlimit64", [6]uintptr{0x7ffffff0, unix.RLIMIT_NOFILE}, unix.EPERM},
	{"get_robust_list", [6]uintptr{0x7ffffff0}, unix.EPERM},
	{"setpriority", [6]uintptr{unix.PRIO_USER, 0x7ffffff0}, unix.EPERM},
	{"ioprio_get", [6]uintptr{99}, unix.EPERM},
	{"setxattr", [6]uintptr{}, unix.EOPNOTSUPP},
	{"seccomp", [6]uintptr{99}, unix.ENOSYS},
	{"syncfs", [6]uintptr{none}, unix.EPERM},
}

// passing are calls that the filter lets through; the answer is the kernel's own.
var passing = []probe{
	{"socketpair", [6]uintptr{unix.AF_UNIX, unix.SOCK_STREAM}, unix.EFAULT},
	{"ioctl", [6]uintptr{none, unix.TCGETS}, unix.EBADF},
	{"fcntl", [6]uintptr{none, unix.F_GETFD}, unix.EBADF},
	{"sendto", [6]uintptr{none, 0, 0, unix.MSG_NOSIGNAL}, unix.EBADF},
	{"getsockopt", [6]uintptr{none}, unix.EBADF},
	{"prctl", [6]uintptr{unix.PR_SET_PDEATHSIG, 9999}, unix.EINVAL},
	{"mknodat", [6]uintptr{none, 0, unix.S_IFIFO}, unix.EFAULT},
	{"memfd_create", [6]uintptr{0, unix.MFD_CLOEXEC}, unix.EFAULT},
	{"prlimit64", [6]uintptr{0, unix.RLIMIT_NOFILE, 1}, unix.EFAULT},
	{"personality", [6]uintptr{0xffffffff}, 0},
	{"umask", [6]uintptr{0o22}, 0},
	{"getrandom", [6]uintptr{1, 8}, unix.EFAULT},
	{"close_range", [6]uintptr{9, 1}, unix.EINVAL},
}

func childProbe(sealed bool) {
	if sealed {
		install(false)
	}
	a, _ := Host()
	for _, p := range slices.Concat(probes, passing) {
		nr, _ := Number(a, p.call)
		_, _, errno := syscall.RawSyscall6(uintptr(nr), p.args[0], p.args[1], p.args[2], p.args[3], p.args[4], p.args[5])
		fmt.Println(int(errno))
	}
}

// On this kernel the loaded filter refuses with the promised errno, and the same call without it gets
// another answer; what is allowed gets the kernel's own answer both times.
//
// proves O-03 O-04 O-07 O-16 O-20 O-21 O-22 O-24 H-10 H-38
func TestKernelRefuses(t *testing.T) {
	with, err := child(t, "probe sealed")
	if err != nil {
		t.Fatal(err)
	}
	without, err := child(t, "probe open")
	if err != nil {
		t.Fatal(err)
	}
	in, out := strings.Fields(with), strings.Fields(without)
	if len(in) != len(probes)+len(passing) || len(out) != len(in) {
		t.Fatalf("%d and %d answers", len(in), len(out))
	}
	for i, p := range slices.Concat(probes, passing) {
		want := strconv.Itoa(int(p.want))
		if in[i] != want {
			t.Errorf("%s%#x: errno %s, want %v", p.call, p.args, in[i], p.want)
		}
		if refused := i < len(probes); refused == (out[i] == want) {
			t.Errorf("%s%#x without filter: errno %s", p.call, p.args, out[i])
		}
	}
}

// The interpreter answers the very calls that the kernel was asked as the kernel did: so what the other tests
// learn from it, the order of its bytes included, holds for the kernel's own.
//
// proves part of T-08 T-20
func TestInterpreterIsTheKernel(t *testing.T) {
	a, _ := Host()
	m := compile(t, load(t, "language", Options{}), a, false)
	for i, p := range slices.Concat(probes, passing) {
		nr, _ := Number(a, p.call)
		var args [6]uint64
		for j, v := range p.args {
			args[j] = uint64(v)
		}
		want := value(Answer{Kind: Allow}, false)
		if i < len(probes) {
			want = value(Answer{Kind: Refuse, Errno: p.want}, false)
		}
		if got := m.run(t, a.audit(), nr, args); got != want {
			t.Errorf("%s%#x: the kernel says %v, the interpreter %s", p.call, p.args, p.want, spoken(got))
		}
	}
}

func childCall(sealed bool, nr uintptr) {
	noCore()
	if sealed {
		install(false)
	}
	_, _, errno := syscall.RawSyscall6(nr, none, 0, 0, 0, 0, 0)
	fmt.Println("back", int(errno))
}

// A call of the kill class, an x32 call included, ends the process with SIGSYS; without the filter the
// same call comes back.
//
// proves O-12 O-19
func TestKernelKills(t *testing.T) {
	a, _ := Host()
	numbers := map[string]int{}
	for _, n := range []string{"ptrace", "bpf", "setns", "mount", "process_vm_readv", "open_by_handle_at", "pidfd_getfd", "init_module"} {
		numbers[n], _ = Number(a, n)
	}
	if a == X86_64 {
		numbers["x32 getpid"] = x32Bit | 39
		numbers["x32 ptrace"] = x32Bit | 521
	}
	for name, nr := range numbers {
		out, err := child(t, fmt.Sprintf("call sealed %d", nr))
		var exit *exec.ExitError
		if !asExit(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGSYS || out != "" {
			t.Errorf("%s: %v, %q", name, err, out)
		}
		if out, err := child(t, fmt.Sprintf("call open %d", nr)); err != nil || !strings.HasPrefix(out, "back") {
			t.Errorf("%s without filter: %v, %q", name, err, out)
		}
	}
	// A negative number is no x32 call: it answers as in a kernel without filter.
	if out, err := child(t, "call sealed -1"); err != nil || out != fmt.Sprintf("back %d\n", int(unix.ENOSYS)) {
		t.Errorf("number -1: %v, %q", err, out)
	}
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

// childListen seals one thread with a listener; another thread answers, itself unsealed.
func childListen() {
	listener := make(chan int)
	done := make(chan string)
	go func() {
		runtime.LockOSThread()
		fd := uintptr(<-listener)
		n := &[10]uint64{} // struct seccomp_notif: id, pid and flags, nr and arch, ip, args
		_, _, errno := syscall.Syscall(unix.SYS_IOCTL, fd, uintptr(constants["SECCOMP_IOCTL_NOTIF_RECV"]), reflect.ValueOf(n).Pointer())
		if errno != 0 {
			must(errno)
		}
		refusal := -int32(unix.EPERM)
		r := &[3]uint64{n[0], 0, uint64(uint32(refusal))} // struct seccomp_notif_resp: id, value, errno and flags
		_, _, errno = syscall.Syscall(unix.SYS_IOCTL, fd, uintptr(constants["SECCOMP_IOCTL_NOTIF_SEND"]), reflect.ValueOf(r).Pointer())
		if errno != 0 {
			must(errno)
		}
		done <- Describe(uint32(n[2]>>32), int32(n[2])) + fmt.Sprint(" ", n[4])
	}()
	listener <- install(true)
	a, _ := Host()
	nr, _ := Number(a, "ptrace")
	_, _, errno := syscall.Syscall(uintptr(nr), 77, 0, 0)
	fmt.Println(<-done, int(errno))
}

// With a listener a kill-class call is held, reported with its number, and answered by the listener.
//
// proves O-12
func TestKernelReports(t *testing.T) {
	out, err := child(t, "listen sealed")
	if want := fmt.Sprintf("ptrace 77 %d\n", int(unix.EPERM)); err != nil || out != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// childLoad loads the filter on thread after thread and prints the nanoseconds of each.
func childLoad() {
	a, _ := Host()
	p, err := Load("language", Options{})
	must(err)
	prog, err := p.Compile(a, true)
	must(err)
	for range 20 {
		took := make(chan time.Duration)
		go func() {
			runtime.LockOSThread() // never unlocked: the sealed thread ends with the goroutine
			must(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
			start := time.Now()
			attach(prog, false)
			took <- time.Since(start)
		}()
		fmt.Println((<-took).Nanoseconds())
	}
}

// BenchmarkLoad reports the median time that the kernel takes for the filter, twenty threads a process.
func BenchmarkLoad(b *testing.B) {
	var all []int
	for range b.N {
		out, err := child(b, "load sealed")
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range strings.Fields(out) {
			n, err := strconv.Atoi(f)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, n)
		}
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2])/1000, "µs/load")
}
