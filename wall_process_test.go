package glovebox_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// initC tries to look into every thread of PID 1: the numbers below its own.
// Each way prints the answers it got, "OK" alone if one was let in.
const initC = wallC + `
static int seen[200];
static void tell(const char *way) {
	char sep = ' ';
	printf("%s", way);
	if (seen[0]) printf(" OK"); else for (int e = 1; e < 200; e++) if (seen[e]) { printf("%c%s", sep, strerrorname_np(e)); sep = '|'; }
	printf("\n"); fflush(stdout);
	memset(seen, 0, sizeof seen);
}
static void note(long r) { seen[r < 0 ? errno : 0] = 1; if (r > 2) close(r); }
#define EACH(way, format, call) for (int n = 1; n < getpid(); n++) { sprintf(p, format, n); note(call); } tell(way);
int main(void) {
	char p[64], b[64];
	EACH("mem-rw", "/proc/%d/mem", open(p, O_RDWR))
	EACH("mem-r", "/proc/%d/mem", open(p, O_RDONLY))
	EACH("mem-w", "/proc/%d/mem", open(p, O_WRONLY))
	EACH("environ", "/proc/%d/environ", open(p, O_RDONLY))
	EACH("maps", "/proc/%d/maps", open(p, O_RDONLY))
	EACH("auxv", "/proc/%d/auxv", open(p, O_RDONLY))
	EACH("root", "/proc/%d/root/", open(p, O_RDONLY | O_DIRECTORY))
	EACH("root-path", "/proc/%d/root", open(p, O_PATH))
	EACH("cwd", "/proc/%d/cwd", open(p, O_PATH))
	EACH("exe", "/proc/%d/exe", open(p, O_RDONLY))
	EACH("exe-exec", "/proc/%d/exe", access(p, X_OK))
	EACH("exe-link", "/proc/%d/exe", readlink(p, b, sizeof b))
	EACH("fd", "/proc/%d/fd", open(p, O_RDONLY | O_DIRECTORY))
	EACH("control", "/proc/%d/fd/3", open(p, O_PATH))
	EACH("fdinfo", "/proc/%d/fdinfo", open(p, O_RDONLY | O_DIRECTORY))
	EACH("map_files", "/proc/%d/map_files", open(p, O_RDONLY | O_DIRECTORY))
	EACH("task", "/proc/1/task/%d/mem", open(p, O_RDWR))
	EACH("ns", "/proc/%d/ns/mnt", open(p, O_RDONLY))
	EACH("stack", "/proc/%d/syscall", open(p, O_RDONLY))
	return 0;
}`

// No part of PID 1 can be opened by a guest, by the number of any of its
// threads: with everything on they are not even there; without hidepid they
// are there and refused, with Landlock off too; and with init left dumpable
// the sealed thread, which has the guest's ids, is open to it.
//
// proves H-1 O-01
// proves part of O-26
func TestWallProcessInitIsClosed(t *testing.T) {
	prog := cProgram(t, initC)
	for _, c := range []struct {
		off  []string
		want string
	}{
		{nil, "ENOENT"},
		{[]string{"landlock"}, "ENOENT"},
		{[]string{"hidepid"}, "EPERM EACCES ENOENT"},
		{[]string{"hidepid", "landlock"}, "EPERM EACCES ENOENT"},
	} {
		b := box(t)
		if c.off != nil {
			b = without(t, c.off...)
		}
		got := answers(run(t, b, prog).Stdout)
		if len(got) != 19 {
			t.Fatalf("without %v: %d answers: %v", c.off, len(got), got)
		}
		for way, a := range got {
			for _, e := range strings.Split(a, "|") {
				if !slices.Contains(strings.Fields(c.want), e) {
					t.Errorf("without %v: %s answered %s, want %s", c.off, way, a, c.want)
				}
			}
			if c.off != nil && c.off[0] == "hidepid" && a == "ENOENT" && way != "control" {
				t.Errorf("without %v: %s saw no process at all", c.off, way)
			}
		}
	}
	open := answers(run(t, without(t, "dumpable"), prog).Stdout)
	for _, way := range []string{"mem-r", "environ", "maps", "fd", "control", "root-path", "exe"} {
		if open[way] != "OK" {
			t.Errorf("control without dumpable: %s answered %q, want OK", way, open[way])
		}
	}
	// Writing is stopped by one layer more: proc is mounted read-only.
	for _, way := range []string{"mem-rw", "mem-w"} {
		if !strings.Contains(open[way], "EROFS") {
			t.Errorf("control without dumpable: %s answered %q, want EROFS among it", way, open[way])
		}
	}
}

// From outside, every thread of PID 1 is under the filter, without privileges
// to gain, without capability and without signal handler, and its program is a
// sealed file in memory that is not the guest's.
//
// proves part of H-1 O-23 O-27
func TestWallProcessInitFromOutside(t *testing.T) {
	l := pause(t, box(t), cProgram(t, wallC+`int main(){ready();}`))
	defer l.release()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", l.init))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("tasks of init: %v %v", tasks, err)
	}
	for _, task := range append(tasks, fmt.Sprintf("/proc/%d/status", l.guest)) {
		status := readFile(t, task)
		for field, want := range map[string]string{"Seccomp": "2", "NoNewPrivs": "1", "CapEff": strings.Repeat("0", 16),
			"CapPrm": strings.Repeat("0", 16), "CapInh": strings.Repeat("0", 16), "CapAmb": strings.Repeat("0", 16), "SigCgt": strings.Repeat("0", 16)} {
			if got := statusField(status, field); got != want {
				t.Errorf("%s: %s is %s, want %s", task, field, got, want)
			}
		}
	}
	exe := fmt.Sprintf("/proc/%d/exe", l.init)
	if to, err := os.Readlink(exe); err != nil || !strings.Contains(to, "memfd:glovebox-init") {
		t.Errorf("init's program is %q, %v", to, err)
	}
	f, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if want := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE; err != nil || seals&want != want {
		t.Errorf("seals of init's program: %#x, %v", seals, err)
	}
	if to, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", l.guest)); err != nil || to != "/box/prog" {
		t.Errorf("the guest's program is %q, %v", to, err)
	}
}

// exeC looks at its own program and tries to overwrite it while it runs.
const exeC = wallC + `
int main(int argc, char **argv) {
	char b[256];
	int n = readlink("/proc/self/exe", b, sizeof b - 1);
	b[n < 0 ? 0 : n] = 0;
	printf("self %s\n", b);
	say("write-self", open("/proc/self/exe", O_WRONLY));
	say("truncate-self", truncate("/proc/self/exe", 0));
	say("write-init", open("/proc/1/exe", O_WRONLY));
	say("exec-init", execl("/proc/1/exe", "glovebox-init", "init", (char *)0));
	return 0;
}`

// /proc/self/exe of a guest is its own program; that of init it can neither
// write nor run, nor where it is visible.
//
// proves part of O-23
func TestWallProcessPrograms(t *testing.T) {
	prog := cProgram(t, exeC)
	compare(t, prog, []outcome{
		{"self", "/box/prog", "/box/prog"}, {"write-self", "ETXTBSY", "ETXTBSY"}, {"truncate-self", "ETXTBSY", "ETXTBSY"},
		{"write-init", "ENOENT", "EACCES|EPERM"}, {"exec-init", "ENOENT", "EACCES|EPERM"},
	}, "hidepid")
}

// fdC lists the descriptors that it has when main starts.
const fdC = wallC + `
int main(void) {
	for (int fd = 0; fd < 70000; fd++) if (fcntl(fd, F_GETFD) >= 0) printf("fd-%d OK\n", fd);
	ready();
	return 0;
}`

// A guest has the descriptors 0, 1 and 2 at its first instruction, says the
// guest and says the host; each is a pipe.
//
// proves O-23
// proves part of H-3
func TestWallProcessDescriptors(t *testing.T) {
	prog := cProgram(t, fdC)
	descriptors(t, box(t), "C", prog)
	descriptors(t, box(t), "python", python("import os\nfor fd in range(70000):\n    try: os.fstat(fd); print(f'fd-{fd} OK')\n    except OSError: pass\n"+
		"print('ready', flush=True)\nos.read(0, 1)\n"))
	o := options()
	o.Armed = 1
	armed, err := glovebox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer armed.Close()
	for range 20 {
		awaitSealed(t)
		if descriptors(t, armed, "armed", prog).Warm {
			return
		}
	}
	t.Error("no cell had been armed")
}

// descriptors compares the descriptors that a guest sees with those that the
// host sees of it.
func descriptors(t *testing.T, b *glovebox.Box, name string, prog glovebox.Program) *glovebox.Result {
	t.Helper()
	l := pause(t, b, prog)
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", l.guest))
	if err != nil {
		t.Fatal(err)
	}
	var inside, outside []string
	for _, e := range entries {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", l.guest, e.Name()))
		if !strings.HasPrefix(to, "pipe:") {
			t.Errorf("%s: descriptor %s is %s", name, e.Name(), to)
		}
		outside = append(outside, "fd-"+e.Name())
	}
	r := l.release()
	for fd := range answers(r.Stdout) {
		inside = append(inside, fd)
	}
	slices.Sort(inside)
	want := []string{"fd-0", "fd-1", "fd-2"}
	if !slices.Equal(inside, want) || !slices.Equal(outside, want) {
		t.Errorf("%s: the guest sees %v, the host %v", name, inside, outside)
	}
	return r
}

// What the embedding program holds open without close-on-exec, at any number,
// does not reach a guest. With close_range left out in launcher and init the
// attestation refuses the cell where it is asked for its probes, and the guest
// gets the descriptors where it is not.
//
// proves H-8
func TestWallProcessInherited(t *testing.T) {
	got := answers(asChild(t, "inherit", nil, "LISTEN_FDS=3"))
	if got["sealed"] != "0,1,2" {
		t.Errorf("the guest has %s", got["sealed"])
	}
	for _, fd := range []string{",50,", ",99,", ",4096,"} {
		if !strings.Contains(got["control"]+",", fd) {
			t.Errorf("control: the guest has %.60s…, want %s among them", got["control"], fd)
		}
	}
}

func childInherit() error {
	dir, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	socket, err := ln.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	event, err := unix.Eventfd(0, 0)
	if err != nil {
		return err
	}
	for fd := 3; fd <= 4096; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			continue // in use
		}
		if err := unix.Dup2([]int{dir, int(socket.Fd()), event}[fd%3], fd); err != nil {
			return err
		}
	}
	prog := python("import os\nfound = []\nfor fd in range(9000):\n    try: os.fstat(fd); found.append(str(fd))\n    except OSError: pass\nprint(','.join(found))\n")
	for _, c := range []struct {
		name string
		o    glovebox.Options
	}{{"sealed", options()}, {"control", glovebox.SandboxOffUnsafeForNegativeControlsOnly(options(), "close_range")}} {
		r, err := childRun(c.o, prog, nil)
		if err != nil {
			return err
		}
		fmt.Println(c.name, strings.TrimSpace(r.Stdout))
	}
	return nil
}

// markC is a library that says, wherever it is loaded, in which process.
const markC = `#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void mark(void) { printf("loaded %s\n", getpid() > 1 ? "guest" : "init"); fflush(stdout); }`

// The guest's environment and arguments are its own alone: launcher and init
// run with an empty environment and fixed arguments, whatever the program and
// the embedding process have in theirs.
//
// proves H-25
func TestWallProcessEnvironment(t *testing.T) {
	t.Setenv("GLOVEBOX_WALL_SECRET", "of the host")
	prog := binary(testenv.C(t, wallC+`int main(){printf("secret %s\n", getenv("GLOVEBOX_WALL_SECRET")); ready();}`))
	lib := binary(testenv.C(t, markC, "-shared", "-fPIC")).Files[0]
	lib.Name = "mark.so"
	prog.Files = append(prog.Files, lib)
	prog.Args = []string{"an argument"}
	prog.Env = map[string]string{"LD_PRELOAD": "/box/mark.so", "GODEBUG": "gctrace=1", "GOTRACEBACK": "crash", "GOGC": "1", "GCONV_PATH": "/box"}
	for _, c := range []struct {
		name string
		box  *glovebox.Box
	}{{"sealed", box(t)}, {"control", without(t, "environ")}} {
		l := pause(t, c.box, prog)
		for name, pid := range map[string]int{"launcher": testenv.Parent(l.init), "init": l.init} {
			// An ordinary user may not even look: the process is not dumpable.
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if (err == nil) != asRoot {
				t.Errorf("%s: reading the environment of %s: %v", c.name, name, err)
			}
			if c.name == "sealed" && len(env) != 0 || c.name == "control" && asRoot && !strings.Contains(string(env), "GLOVEBOX_WALL_SECRET=of the host") {
				t.Errorf("%s: the environment of %s is %q", c.name, name, env)
			}
			if argv := readFile(t, fmt.Sprintf("/proc/%d/cmdline", pid)); argv != "glovebox-init\x00"+name+"\x00" {
				t.Errorf("%s: the arguments of %s are %q", c.name, name, argv)
			}
		}
		r := l.release()
		if r.Stdout != "loaded guest\nsecret (null)\nready\n" || r.Stderr != "" {
			t.Errorf("%s: output %q %q", c.name, r.Stdout, r.Stderr)
		}
	}
}

// siblingC makes 1,000 children in each odd form of clone, the first of which
// would be its siblings, and exits 3.
const siblingC = wallC + `
static void many(const char *name, unsigned long flags) {
	int made = 0, last = 0;
	for (int i = 0; i < 1000; i++) {
		long r = syscall(SYS_clone, flags, 0, 0, 0, 0);
		if (r == 0) syscall(SYS_exit_group, 0);
		if (r > 0) { made++; continue; }
		last = errno;
		if (last != EAGAIN) break;
		while (waitpid(-1, 0, __WALL) > 0) {}
		sched_yield();
	}
	while (waitpid(-1, 0, __WALL) > 0) {}
	printf("%s %s\n", name, made ? "made" : strerrorname_np(last)); fflush(stdout);
}
int main(void) {
	int fd;
	signal(SIGUSR1, SIG_IGN);
	many("parent", CLONE_PARENT | SIGCHLD);
	many("parent-silent", CLONE_PARENT);
	many("ptrace", CLONE_PTRACE | SIGCHLD);
	many("untraced", CLONE_UNTRACED | SIGCHLD);
	many("silent", 0);
	many("other-signal", SIGUSR1);
	many("io", CLONE_IO | SIGCHLD);
	return 3;
}`

// A guest cannot give init children of its own making, and init does not take
// the end of another process for the guest's: it exits 3 though 1,000 siblings
// exit 0 where the filter lets them be.
//
// proves part of H-32 O-20
func TestWallProcessSiblings(t *testing.T) {
	prog := cProgram(t, siblingC)
	for _, c := range []struct {
		name, want string
		box        *glovebox.Box
	}{{"sealed", "EPERM", box(t)}, {"control without seccomp", "made", without(t, "seccomp")}} {
		r := run(t, c.box, prog)
		if r.ExitCode == nil || *r.ExitCode != 3 {
			t.Errorf("%s: %s %s, exit %v", c.name, r.Verdict, r.Signal, r.ExitCode)
		}
		got := answers(r.Stdout)
		if len(got) != 7 {
			t.Errorf("%s: %q", c.name, r.Stdout)
		}
		for name, a := range got {
			if a != c.want {
				t.Errorf("%s: %s %s", c.name, name, a)
			}
		}
	}
}

// The end of a guest is that of its process, whichever of its threads ends
// first or replaces it.
//
// proves part of H-32
func TestWallProcessLeaders(t *testing.T) {
	const src = wallC + `#include <pthread.h>
static void *ends(void *x) { struct timespec s = {0, 5000000}; nanosleep(&s, 0); exit(3); }
static void *execs(void *x) { execl("/bin/sh", "sh", "-c", "exit 3", (char *)0); return 0; }
int main(int argc, char **argv) {
	pthread_t t;
	if (pthread_create(&t, 0, argv[1][0] == 'l' ? ends : execs, 0)) return 9;
	if (argv[1][0] == 'l') pthread_exit(0);
	pthread_join(t, 0);
	return 0;
}`
	prog := cProgram(t, src, "-pthread")
	for _, how := range []string{"leader first", "exec from a thread"} {
		prog.Args = []string{how}
		if r := run(t, box(t), prog); r.ExitCode == nil || *r.ExitCode != 3 {
			t.Errorf("%s: %s %s, exit %v", how, r.Verdict, r.Signal, r.ExitCode)
		}
	}
}

// signalC sends every signal to PID 1 and to each of its threads, in every way
// that the filter allows.
const signalC = wallC + `
int main(void) {
	siginfo_t info = {.si_code = SI_QUEUE};
	for (int s = 1; s <= 64; s++) {
		if (s == 32 || s == 33) continue;
		kill(1, s);
		syscall(SYS_rt_sigqueueinfo, 1, s, &info);
		for (int tid = 1; tid < getpid(); tid++) {
			syscall(SYS_tgkill, 1, tid, s);
			syscall(SYS_tkill, tid, s);
			syscall(SYS_rt_tgsigqueueinfo, 1, tid, s, &info);
		}
		int fd = syscall(434, 1, 0);
		if (fd >= 0) { syscall(424, fd, s, 0, 0); close(fd); }
	}
	say("own", fcntl(0, F_SETOWN, 1));
	say("sig", fcntl(0, F_SETSIG, SIGTERM));
	printf("lived OK\n");
	return 5;
}`

// PID 1 outlives all signals, to the process and to its threads, with Landlock
// off too. With init's handlers left in place and Landlock off it dies of one.
//
// proves O-26
func TestWallProcessSignals(t *testing.T) {
	prog := cProgram(t, signalC)
	for _, off := range [][]string{nil, {"landlock"}} {
		b := box(t)
		if off != nil {
			b = without(t, off...)
		}
		r := run(t, b, prog)
		if r.ExitCode == nil || *r.ExitCode != 5 || answers(r.Stdout)["own"] != "EPERM" {
			t.Errorf("without %v: %s %s %v %q", off, r.Verdict, r.Message, r.ExitCode, r.Stdout)
		}
	}
	b := without(t, "landlock", "signals")
	r, err := b.Run(t.Context(), prog)
	if err != nil {
		t.Fatal(err)
	}
	if r.ExitCode != nil {
		t.Errorf("control: init lived, exit %d", *r.ExitCode)
	}
}

// scanC looks for a process of a certain name, in /proc and by every number.
const scanC = wallC + `
int main(void) {
	int found = 0, others = 0, listed = 0;
	for (int n = 1; n < 33000; n++) {
		char p[64], name[64] = "";
		sprintf(p, "/proc/%d/comm", n);
		int fd = open(p, O_RDONLY);
		if (fd >= 0) { if (read(fd, name, 63) > 0 && !strncmp(name, "bystander", 9)) found = n; close(fd); }
		if (n > 32 && n != getpid() && (kill(n, 0) == 0 || errno != ESRCH)) others++;
	}
	DIR *d = opendir("/proc");
	for (struct dirent *e; (e = readdir(d)); ) if (atoi(e->d_name) > 0 && atoi(e->d_name) != getpid()) listed++;
	printf("found %s\nlisted %s\nhigh %s\n", found ? "yes" : "none", listed ? "yes" : "none", others ? "yes" : "none");
	if (found) {
		char p[64];
		say("kill", kill(found, 0));
		sprintf(p, "/proc/%d/mem", found);
		say("mem", open(p, O_RDONLY));
		sprintf(p, "/proc/%d/environ", found);
		say("environ", open(p, O_RDONLY));
	}
	return 0;
}`

// Another process does not exist for a guest: not in /proc, not by any number.
// With pid namespace and hidepid off it finds the program of another cell, and
// Landlock keeps it from that; with Landlock off too the ids of its own do, as
// root, and an ordinary user's cells, which share his, are open to each other.
//
// proves part of O-01 O-02 H-16
func TestWallProcessOthers(t *testing.T) {
	bystander := cProgram(t, wallC+`int main(){prctl(PR_SET_NAME, "bystander"); ready();}`)
	prog := cProgram(t, scanC)
	ids := map[string]string{"found": "yes", "kill": "OK", "mem": "OK", "environ": "OK"}
	if asRoot {
		ids = map[string]string{"found": "yes", "kill": "EPERM", "mem": "EACCES", "environ": "EACCES"}
	}
	for _, c := range []struct {
		name string
		box  *glovebox.Box
		want map[string]string
	}{
		{"sealed", box(t), map[string]string{"found": "none", "listed": "none", "high": "none"}},
		{"control", without(t, "pid", "hidepid"), map[string]string{"found": "yes", "listed": "yes", "kill": "EPERM", "mem": "EACCES", "environ": "EACCES"}},
		{"ids alone", without(t, "pid", "hidepid", "landlock"), ids},
	} {
		l := pause(t, c.box, bystander)
		got := answers(run(t, c.box, prog).Stdout)
		if err := syscall.Kill(l.guest, 0); err != nil {
			t.Errorf("%s: the other guest: %v", c.name, err)
		}
		l.release()
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got[name], want)
			}
		}
	}
}

// A cell has no terminal that could be written to: none is its controlling
// one, and it leads a session of its own.
//
// proves part of O-24
func TestWallProcessTerminal(t *testing.T) {
	l := pause(t, box(t), cProgram(t, wallC+`int main(){
	say("tty", open("/dev/tty", O_RDWR));
	say("console", open("/dev/console", O_RDWR));
	say("ptmx", open("/dev/ptmx", O_RDWR));
	say("ctty", ioctl(0, TIOCSCTTY, 1));
	printf("session %s\n", getsid(0) == getpid() ? "own" : "shared");
	ready();
}`))
	stat := readFile(t, fmt.Sprintf("/proc/%d/stat", l.guest))
	f := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	got := answers(l.release().Stdout)
	for name, want := range map[string]string{"tty": "ENOENT", "console": "ENOENT", "ptmx": "ENOENT", "ctty": "ENOTTY", "session": "own"} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	if f[4] != "0" || f[5] != "-1" {
		t.Errorf("the host sees terminal %s, foreground %s", f[4], f[5])
	}
}
