package glovebox_test

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// killC makes the call that its argument names. Each is harmless if it should
// work: bad descriptors, null pointers, signal 0, numbers that mean nothing.
const killC = wallC + `
#define K(name, ...) if (!strcmp(argv[1], name)) { say(name, syscall(__VA_ARGS__)); return 0; }
int main(int argc, char **argv) {
	K("pidfd_getfd", 438, -1, 0, 0)
	K("setns", SYS_setns, -1, 0)
	K("ptrace", SYS_ptrace, 0x4206, 1, 0, 0)
	K("process_vm_readv", SYS_process_vm_readv, 1, 0, 0, 0, 0, 0)
	K("process_vm_writev", SYS_process_vm_writev, 1, 0, 0, 0, 0, 0)
	K("acct", SYS_acct, "/nonexistent")
	K("modify_ldt", SYS_modify_ldt, 99, 0, 0)
	K("open_by_handle_at", SYS_open_by_handle_at, -1, 0, 0)
	K("bpf", SYS_bpf, 9999, 0, 0)
	K("mount", SYS_mount, "none", "/nonexistent", "tmpfs", 0, 0)
	K("umount2", SYS_umount2, "/nonexistent", 0)
	K("pivot_root", SYS_pivot_root, "/nonexistent", "/nonexistent")
	K("fsopen", 430, "nosuchfs", 0)
	K("fsconfig", 431, -1, 0, 0, 0, 0)
	K("fsmount", 432, -1, 0, 0)
	K("fspick", 433, -1, "", 0)
	K("open_tree", 428, -1, "", 0)
	K("open_tree_attr", 467, -1, "", 0, 0, 0)
	K("move_mount", 429, -1, "", -1, "", 0)
	K("mount_setattr", 442, -1, "", 0, 0, 0)
	K("quotactl", SYS_quotactl, 0, 0, 0, 0)
	K("quotactl_fd", 443, -1, 0, 0, 0)
	K("swapon", SYS_swapon, "/nonexistent", 0)
	K("swapoff", SYS_swapoff, "/nonexistent")
	K("reboot", SYS_reboot, 0, 0, 0, 0)
	K("kexec_load", SYS_kexec_load, 0, 0, 0, 0xffffffffUL)
	K("kexec_file_load", SYS_kexec_file_load, -1, -1, 0, 0, 0)
	K("init_module", SYS_init_module, 0, 0, 0)
	K("finit_module", SYS_finit_module, -1, 0, 0)
	K("delete_module", SYS_delete_module, 0, 0)
	K("iopl", SYS_iopl, 9)
	K("ioperm", SYS_ioperm, 0, 0, 0)
	return 99;
}`

// killed are the calls of the kill class and what the kernel itself says to
// them where the filter is off. EPERM there comes from the missing
// capabilities, a second layer that stays on.
var killed = []struct{ name, control string }{
	{"pidfd_getfd", "EBADF"}, {"setns", "EBADF"}, {"ptrace", "EPERM"}, {"process_vm_readv", "OK"},
	{"process_vm_writev", "OK"}, {"acct", "EPERM"}, {"modify_ldt", "OK|ENOSYS"}, {"open_by_handle_at", "EPERM|EFAULT"},
	{"bpf", "EPERM|EINVAL"}, {"mount", "ENOENT"}, {"umount2", "ENOENT"}, {"pivot_root", "EPERM"}, {"fsopen", "EPERM"},
	{"fsconfig", "EINVAL"}, {"fsmount", "EPERM"}, {"fspick", "EPERM"}, {"open_tree", "ENOENT|EBADF"}, {"open_tree_attr", "ENOENT|EINVAL"},
	{"move_mount", "EPERM"}, {"mount_setattr", "EINVAL"}, {"quotactl", "ENODEV"}, {"quotactl_fd", "EBADF"},
	{"swapon", "EPERM"}, {"swapoff", "EPERM"}, {"reboot", "EPERM"}, {"kexec_load", "EPERM|ENOSYS"}, {"kexec_file_load", "EPERM|ENOSYS"},
	{"init_module", "EPERM|ENOSYS"}, {"finit_module", "EPERM|ENOSYS"}, {"delete_module", "EPERM|ENOSYS"}, {"iopl", "EINVAL|ENOSYS"}, {"ioperm", "EINVAL|ENOSYS"},
}

// A call of the kill class ends the cell with its name as the verdict; the same
// program without the filter lives on and hears what the kernel says.
//
// proves O-12 O-21
func TestWallKernelKillClass(t *testing.T) {
	prog := binary(testenv.C(t, killC))
	control := without(t, "seccomp")
	for _, k := range killed {
		prog.Args = []string{k.name}
		r := run(t, box(t), prog)
		if r.Verdict != "denied" || r.Syscall != k.name || r.Stdout != "" || r.ExitCode != nil {
			t.Errorf("%s: verdict %s, call %q, output %q, exit %v", k.name, r.Verdict, r.Syscall, r.Stdout, r.ExitCode)
		}
		r = run(t, control, prog)
		if got := answers(r.Stdout)[k.name]; r.Verdict != "ok" || !strings.Contains("|"+k.control+"|", "|"+got+"|") {
			t.Errorf("%s without seccomp: verdict %s, answer %s, want %s", k.name, r.Verdict, got, k.control)
		}
	}
}

// Where the kill class cannot be reported, it kills all the same, and the call
// is not named.
//
// proves part of O-12 H-9
func TestWallKernelKillWithoutReporter(t *testing.T) {
	prog := binary(testenv.C(t, killC))
	prog.Args = []string{"ptrace"}
	r := run(t, without(t, "notify"), prog)
	if r.Stdout != "" || r.Signal != "SIGSYS" {
		t.Errorf("verdict %s, signal %s, output %q", r.Verdict, r.Signal, r.Stdout)
	}
}

// foreignC makes a call through another entry of the machine: getpid of i386
// (number 20) through int 0x80, and of x32.
const foreignC = wallC + `
int main(int argc, char **argv) {
	long r = -1;
	printf("before OK\n"); fflush(stdout);
	if (!strcmp(argv[1], "i386")) __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	else r = syscall(0x40000000 + SYS_getpid);
	printf("after %s\n", r > 0 ? "OK" : "none");
	return 0;
}`

// The other entries of an x86 machine are closed: a call through one ends the
// cell. Without the filter the program comes past it.
//
// proves O-19
func TestWallKernelForeignEntries(t *testing.T) {
	prog := binary(testenv.C(t, foreignC))
	control := without(t, "seccomp")
	for _, entry := range []string{"i386", "x32"} {
		prog.Args = []string{entry}
		r := run(t, box(t), prog)
		if r.Verdict != "denied" || !strings.Contains(r.Syscall, entry) || r.Stdout != "before OK\n" {
			t.Errorf("%s: verdict %s, call %q, output %q", entry, r.Verdict, r.Syscall, r.Stdout)
		}
		// Kernels built without an entry answer ENOSYS or SIGSEGV; never a verdict.
		r = run(t, control, prog)
		if r.Verdict == "denied" || r.Verdict == "ok" && !strings.HasPrefix(r.Stdout, "before OK\nafter ") || r.Verdict == "error" && r.Signal != "SIGSEGV" {
			t.Errorf("%s without seccomp: %s %s %q", entry, r.Verdict, r.Signal, r.Stdout)
		}
	}
}

// refusedC fires what is refused by errno.
const refusedC = wallC + `
#define S(name, ...) say(name, syscall(__VA_ARGS__));
int main(void) {
	char buf[64] = {0};
	int p[2], pair[2];
	if (pipe(p) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
	S("kcmp", SYS_kcmp, getpid(), getpid(), 99, 0, 0)
	S("clone3", 435, 0, 0)
	S("io_uring_setup", 425, 0, 0)
	S("io_uring_enter", 426, -1, 0, 0, 0, 0, 0)
	S("io_uring_register", 427, -1, 99, 0, 0)
	S("userfaultfd", SYS_userfaultfd, 1)
	S("keyctl", SYS_keyctl, 9999, 0, 0, 0, 0)
	S("add_key", SYS_add_key, 0, 0, 0, 0, 0)
	S("request_key", SYS_request_key, 0, 0, 0, 0)
	S("perf_event_open", SYS_perf_event_open, 0, 0, -1, -1, 0)
	S("name_to_handle_at", SYS_name_to_handle_at, -1, "", 0, 0, 0)
	S("fanotify_init", SYS_fanotify_init, 0x200, 0)
	S("inotify_init1", SYS_inotify_init1, 0)
	S("personality-query", SYS_personality, 0xffffffffUL)
	S("personality-norandom", SYS_personality, 0x0040000UL)
	S("personality-readexec", SYS_personality, 0x0400000UL)
	S("syslog", SYS_syslog, 10, 0, 0)
	S("chroot", SYS_chroot, "/nonexistent")
	S("clock_settime", SYS_clock_settime, 9999, 0)
	S("settimeofday", SYS_settimeofday, 0, 1)
	S("sethostname", SYS_sethostname, 0, -1)
	S("seccomp", SYS_seccomp, 99, 0, 0)
	S("landlock", 444, 0, 0, 1)
	S("statmount", 457, 0, 0, 0, 0)
	S("mincore", SYS_mincore, 1, 1, 0)
	S("cachestat", 451, -1, 0, 0, 0)
	S("readahead", SYS_readahead, -1, 0, 0)
	S("preadv2-nowait", SYS_preadv2, -1, 0, 0, 0, 0, 8)
	S("fadvise-dontneed", SYS_fadvise64, -1, 0, 0, 4)
	void *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE, open("/usr/bin/env", O_RDONLY), 0);
	S("madvise-cold", SYS_madvise, page, 4096, 20)
	S("madvise-pageout", SYS_madvise, page, 4096, 21)
	S("madvise-populate", SYS_madvise, page, 4096, 22)
	S("splice", SYS_splice, -1, 0, -1, 0, 1, 0)
	S("vmsplice", SYS_vmsplice, p[1], 0, 0, 0)
	S("move_pages", SYS_move_pages, 0, 0, 0, 0, 0, 0)
	S("memfd_secret", 447, 0xffff)
	S("get_robust_list", SYS_get_robust_list, getpid(), buf, buf)
	S("ioprio_get", SYS_ioprio_get, 1, 0)
	S("getpriority-user", SYS_getpriority, 2, 0)
	S("sync", SYS_syncfs, 1)
	S("pipe-size", SYS_fcntl, p[0], F_SETPIPE_SZ, 8192)
	S("tiocsti", SYS_ioctl, 0, TIOCSTI, buf)
	S("tiocsti-high", SYS_ioctl, 0, TIOCSTI | (1UL << 32), buf)
	S("tioclinux", SYS_ioctl, 0, 0x541cUL, buf)
	S("tioclinux-high", SYS_ioctl, 0, 0x541cUL | (1UL << 32), buf)
	S("siocgifconf", SYS_ioctl, pair[0], 0x8912, buf)
	S("set-mm", SYS_prctl, PR_SET_MM, 15, buf, 0, 0)
	S("set-mm-high", SYS_prctl, PR_SET_MM | (1UL << 32), 15, buf, 0, 0)
	S("set-ptracer", SYS_prctl, 0x59616d61, 1, 0, 0, 0)
	S("keepcaps", SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0)
	S("unshare-user", SYS_unshare, CLONE_NEWUSER)
	return 0;
}`

// refused are the answers of the list; the control's are the kernel's own. Where
// both are EPERM the missing capability is a second layer, which stays on.
var refused = []outcome{
	{"preadv2-nowait", "EOPNOTSUPP|ENOTSUP", "EBADF"}, {"fadvise-dontneed", "EINVAL", "EBADF"}, {"madvise-cold", "EINVAL", "OK"},
	{"madvise-pageout", "EINVAL", "OK"}, {"madvise-populate", "EINVAL", "OK"},
	{"kcmp", "EPERM", "EINVAL"}, {"clone3", "ENOSYS", "EINVAL"}, {"unshare-user", "EPERM", "OK"}, {"add_key", "EPERM", "EFAULT"},
	{"cachestat", "ENOSYS", "EBADF"}, {"chroot", "EPERM", "ENOENT"}, {"clock_settime", "EPERM", "EINVAL"}, {"fanotify_init", "EPERM", "OK"},
	{"get_robust_list", "EPERM", "OK"}, {"getpriority-user", "EPERM", "OK"}, {"inotify_init1", "ENOSYS", "OK"}, {"io_uring_enter", "ENOSYS", "EBADF"},
	{"io_uring_register", "ENOSYS", "EINVAL"}, {"io_uring_setup", "ENOSYS", "EFAULT"}, {"ioprio_get", "EPERM", "OK"}, {"keepcaps", "EPERM", "EPERM"},
	{"keyctl", "EPERM", "ENOTSUP"}, {"landlock", "ENOSYS", "OK"}, {"memfd_secret", "ENOSYS", "EINVAL"}, {"mincore", "ENOSYS", "EINVAL"},
	{"move_pages", "EPERM", "OK"}, {"name_to_handle_at", "EPERM", "ENOENT"}, {"perf_event_open", "EACCES", "EFAULT"}, {"personality-norandom", "EPERM", "OK"},
	{"personality-query", "OK", "OK"}, {"personality-readexec", "EPERM", "OK"}, {"pipe-size", "EPERM", "OK"}, {"readahead", "EINVAL", "EBADF"},
	{"request_key", "EPERM", "EFAULT"}, {"seccomp", "ENOSYS", "EINVAL"}, {"set-mm", "EPERM", "OK"}, {"set-mm-high", "EPERM", "OK"},
	{"set-ptracer", "EPERM", "EINVAL"}, {"sethostname", "EPERM", "EPERM"}, {"settimeofday", "EPERM", "EFAULT"}, {"siocgifconf", "ENOTTY", "OK"},
	{"splice", "EINVAL", "EBADF"}, {"statmount", "ENOSYS", "EFAULT"}, {"sync", "EPERM", "OK"}, {"syslog", "EPERM", "EPERM"},
	{"tioclinux", "EPERM", "ENOTTY"}, {"tioclinux-high", "EPERM", "ENOTTY"}, {"tiocsti", "EPERM", "ENOTTY"}, {"tiocsti-high", "EPERM", "ENOTTY"},
	{"userfaultfd", "EPERM", "OK"}, {"vmsplice", "EINVAL", "OK"},
}

// Each call of the denied list that must not kill is refused with the errno
// that its callers know how to live with, whatever the upper half of a 32-bit
// argument holds; without the filter the kernel itself answers.
//
// proves O-07 O-24 H-38
// proves part of O-04 O-06 O-20 O-21 H-10 H-40
func TestWallKernelRefused(t *testing.T) {
	compare(t, cProgram(t, refusedC), refused, "seccomp")
}

// racedC makes a call of the kill class again and again while another thread
// interrupts it with signals, and jumps out of it.
const racedC = wallC + `
#include <pthread.h>
#include <setjmp.h>
static sigjmp_buf back;
static pid_t target;
static void out(int s) { siglongjmp(back, 1); }
static void *spam(void *x) { for (;;) syscall(SYS_tgkill, getpid(), target, SIGUSR1); }
int main(void) {
	pthread_t t;
	volatile int n = 0;
	struct sigaction a = {.sa_handler = out, .sa_flags = SA_NODEFER};
	sigaction(SIGUSR1, &a, 0);
	target = syscall(SYS_gettid);
	sigsetjmp(back, 1);
	if (n == 0) { n = 1; pthread_create(&t, 0, spam, 0); }
	while (n < 2000000) { n++; syscall(SYS_ptrace, 0x4206, 1, 0, 0); }
	printf("free\n");
	return 0;
}`

// A guest cannot get away with a call of the kill class by interrupting it.
//
// proves part of O-12
func TestWallKernelKillInterrupted(t *testing.T) {
	prog := cProgram(t, racedC, "-pthread")
	for range 5 {
		if r := run(t, box(t), prog); r.Verdict != "denied" || r.Stdout != "" {
			t.Errorf("verdict %s %s, call %q, output %q", r.Verdict, r.Message, r.Syscall, r.Stdout)
		}
	}
}

// A call of the kill class as the first thing that a guest does is the guest's
// doing, and never a failure to set it up.
//
// proves part of O-12
func TestWallKernelKillAtOnce(t *testing.T) {
	prog := binary(testenv.C(t, `void _start(void) { long r; __asm__ volatile("syscall" : "=a"(r) : "a"(101), "D"(0x4206L), "S"(1L), "d"(0L) : "rcx", "r11", "memory"); for (;;); }`,
		"-static", "-nostdlib"))
	for range 40 {
		if r := run(t, box(t), prog); r.Verdict != "denied" || r.Syscall != "ptrace" {
			t.Fatalf("verdict %s %s, call %q", r.Verdict, r.Message, r.Syscall)
		}
	}
}

// cloneC makes a process, and itself, with each namespace flag.
const cloneC = wallC + `
static struct { const char *name; unsigned long flag; } all[] = {{"cgroup", CLONE_NEWCGROUP}, {"uts", CLONE_NEWUTS}, {"ipc", CLONE_NEWIPC},
	{"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET}, {"mount", CLONE_NEWNS}, {"time", 0x80}, {"user", CLONE_NEWUSER}};
static long try(int use_clone, unsigned long flags) {
	if (!use_clone) {
		pid_t p = fork();
		int ws;
		if (p == 0) _exit(unshare(flags) ? errno : 0);
		waitpid(p, &ws, 0);
		if (WIFSIGNALED(ws)) { errno = EINTR; return -1; }
		errno = WEXITSTATUS(ws);
		return errno ? -1 : 0;
	}
	long r = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (r == 0) syscall(SYS_exit_group, 0);
	if (r > 0) waitpid(r, 0, 0);
	return r;
}
int main(void) {
	char name[64];
	for (int i = 0; i < 8; i++) for (int c = 0; c < 2; c++) for (int user = 0; user < 2; user++) {
		if (c && all[i].flag == 0x80) continue;
		sprintf(name, "%s-%s%s", c ? "clone" : "unshare", all[i].name, user ? "-in-user" : "");
		say(name, try(c, all[i].flag | (user ? CLONE_NEWUSER : 0)));
	}
	say("clone3", syscall(435, (unsigned long[11]){CLONE_NEWUSER, 0, 0, 0, SIGCHLD}, 88));
	say("setns-high", syscall(SYS_clone, (1UL << 32) | SIGCHLD, 0, 0, 0, 0));
	return 0;
}`

// No namespace can be made by clone, unshare or clone3, alone or inside a user
// namespace. Without the filter the kernel makes each inside a user namespace,
// and refuses it alone for want of a capability.
//
// proves part of O-20 O-21 H-32
func TestWallKernelNamespaces(t *testing.T) {
	var table []outcome
	for _, ns := range []string{"cgroup", "uts", "ipc", "pid", "net", "mount", "time", "user"} {
		for _, call := range []string{"clone", "unshare"} {
			if ns == "time" && call == "clone" {
				continue
			}
			alone := "EPERM"
			if ns == "user" {
				alone = "OK"
			}
			table = append(table, outcome{call + "-" + ns, "EPERM", alone}, outcome{call + "-" + ns + "-in-user", "EPERM", "OK"})
		}
	}
	table = append(table, outcome{"clone3", "ENOSYS", "OK"}, outcome{"setns-high", "EPERM", "OK"})
	compare(t, cProgram(t, cloneC), table, "seccomp")
}

// threadsC starts threads and processes the way libc does.
const threadsC = wallC + `
#include <pthread.h>
#include <spawn.h>
extern char **environ;
static void *f(void *x) { return x; }
int main(void) {
	pthread_t t;
	void *v = 0;
	pid_t p;
	int ws = 1;
	char *argv[] = {"sh", "-c", "exit 0", 0};
	printf("thread %s\n", pthread_create(&t, 0, f, &t) == 0 && pthread_join(t, &v) == 0 && v == &t ? "OK" : "failed");
	printf("spawn %s\n", posix_spawn(&p, "/bin/sh", 0, 0, argv, environ) == 0 && waitpid(p, &ws, 0) == p && ws == 0 ? "OK" : "failed");
	printf("system %s\n", system("true") == 0 ? "OK" : "failed");
	FILE *o = popen("echo", "r");
	printf("popen %s\n", o && fgetc(o) == '\n' && pclose(o) == 0 ? "OK" : "failed");
	say("clone3", syscall(435, 0, 0));
	return 0;
}`

// clone3 is not there, and libc goes on with clone: threads, posix_spawn,
// system and popen work.
//
// proves O-20
func TestWallKernelFallback(t *testing.T) {
	for _, flags := range [][]string{{"-pthread"}, {"-pthread", "-static"}} {
		got := answers(run(t, box(t), cProgram(t, threadsC, flags...)).Stdout)
		for name, want := range map[string]string{"thread": "OK", "spawn": "OK", "system": "OK", "popen": "OK", "clone3": "ENOSYS"} {
			if got[name] != want {
				t.Errorf("%v: %s answered %q, want %s", flags, name, got[name], want)
			}
		}
	}
}
