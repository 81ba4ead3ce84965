package glovebox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// ipcC tries System V objects and POSIX queues; what it makes it removes. The
// segment has a key that the test can look for on the host.
const ipcC = wallC + `
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
int main(void) {
	struct mq_attr a = {.mq_maxmsg = 1, .mq_msgsize = 8};
	int id = shmget(0x77616c6c, 4096, IPC_CREAT | 0666), s, q;
	say("shmget", id);
	say("shmat", (long)shmat(id, 0, 0) == -1 ? -1 : 0);
	say("semget", s = semget(IPC_PRIVATE, 1, 0600));
	say("msgget", q = msgget(IPC_PRIVATE, 0600));
	say("mq_open", mq_open("/wall", O_CREAT | O_RDWR, 0600, &a));
	say("mq_unlink", mq_unlink("/wall"));
	if (s >= 0) semctl(s, 0, IPC_RMID);
	if (q >= 0) msgctl(q, IPC_RMID, 0);
	ready();
	if (id >= 0) shmctl(id, IPC_RMID, 0);
	return 0;
}`

// System V objects and POSIX queues are refused. With the filter off they are
// the cell's own, and the host sees none; with the IPC namespace off as well
// the segment stands in the host's table.
//
// proves O-16
func TestWallIPCSystemV(t *testing.T) {
	prog := cProgram(t, ipcC, "-lrt")
	const key = 0x77616c6c
	inHost := func() bool { return strings.Contains(readFile(t, "/proc/sysvipc/shm"), fmt.Sprintf("%d ", key)) }
	for _, c := range []struct {
		off    []string
		want   string // of the System V calls
		queue  string
		inHost bool
	}{
		{nil, "EPERM", "EPERM", false},
		{[]string{"seccomp"}, "OK", "EMFILE", false},            // queues: the resource limit of 0 is a second layer
		{[]string{"seccomp", "rlimits"}, "OK", "EACCES", false}, // and Landlock a third, since a queue is a file
		{[]string{"seccomp", "rlimits", "landlock"}, "OK", "OK", false},
		{[]string{"seccomp", "ipc"}, "OK", "EMFILE", true},
	} {
		b := box(t)
		if c.off != nil {
			b = without(t, c.off...)
		}
		if inHost() {
			t.Fatal("the host has the segment before the test")
		}
		l := pause(t, b, prog)
		if inHost() != c.inHost {
			t.Errorf("without %v: the host has the segment: %v", c.off, !c.inHost)
		}
		got := answers(l.release().Stdout)
		for _, name := range []string{"shmget", "shmat", "semget", "msgget"} {
			if got[name] != c.want {
				t.Errorf("without %v: %s answered %q, want %s", c.off, name, got[name], c.want)
			}
		}
		if got["mq_open"] != c.queue {
			t.Errorf("without %v: mq_open answered %q, want %s", c.off, got["mq_open"], c.queue)
		}
	}
	if inHost() {
		t.Error("the control left its segment")
	}
}

// sharedC works on an inode that every cell and the host share.
const sharedC = wallC + `
#include <sys/inotify.h>
int main(void) {
	int fd = open("/usr/bin/env", O_RDONLY), dir = open("/usr/share", O_RDONLY), n, events = 0;
	char b[4096];
	struct f_owner_ex own = {F_OWNER_PID, getpid()};
	say("lease-read", fcntl(fd, F_SETLEASE, F_RDLCK));
	say("lease-high", syscall(SYS_fcntl, fd, F_SETLEASE | (1UL << 32), F_RDLCK));
	say("notify", fcntl(dir, F_NOTIFY, DN_ACCESS | DN_MULTISHOT));
	say("setown", fcntl(fd, F_SETOWN, getpid()));
	say("setown-ex", fcntl(fd, F_SETOWN_EX, &own));
	say("setsig", fcntl(fd, F_SETSIG, SIGURG));
	say("async", fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_ASYNC));
	say("fioasync", ioctl(0, FIOASYNC, &(int){1}));
	say("siocspgrp", ioctl(0, FIOSETOWN, &(int){1}));
	say("write-lock", fcntl(fd, F_SETLK, &(struct flock){F_WRLCK}));
	say("watch", n = inotify_init1(IN_NONBLOCK));
	say("watch-file", inotify_add_watch(n, "/usr/bin/env", IN_OPEN));
	ready();
	if (n >= 0 && read(n, b, sizeof b) > 0) events = 1;
	printf("event %s\n", events ? "seen" : "none");
	return 0;
}`

// Leases, watches and signals of descriptors on a shared inode are refused, and
// no event of the host arrives; without the filter a guest sees that the host
// opens a file.
//
// proves part of H-23
func TestWallIPCSharedInodes(t *testing.T) {
	prog := cProgram(t, sharedC)
	for _, c := range []struct {
		name string
		box  *glovebox.Box
		want map[string]string
	}{
		{"sealed", box(t), map[string]string{"lease-read": "EPERM", "lease-high": "EPERM", "notify": "EPERM", "setown": "EPERM", "setown-ex": "EPERM",
			"setsig": "EPERM", "async": "EPERM", "fioasync": "ENOTTY", "siocspgrp": "ENOTTY", "write-lock": "EBADF",
			"watch": "ENOSYS", "watch-file": "ENOSYS", "event": "none"}},
		{"control", without(t, "seccomp"), map[string]string{"lease-read": "EACCES", "lease-high": "EACCES", "notify": "OK", "setown": "OK", "setown-ex": "OK",
			"setsig": "OK", "async": "OK", "fioasync": "OK", "siocspgrp": "ENOTTY", "write-lock": "EBADF",
			"watch": "OK", "watch-file": "OK", "event": "seen"}},
	} {
		l := pause(t, c.box, prog)
		readFile(t, "/usr/bin/env")
		got := answers(l.release().Stdout)
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s: %s answered %q, want %s", c.name, name, got[name], want)
			}
		}
	}
}

// A lock on a file of the host that is shown crosses the wall: the kernel has
// no rule for it. The lock ends with the cell, and the evidence of every run
// names the channel.
//
// proves H-23
func TestWallIPCLocksAreNamed(t *testing.T) {
	const file = "/usr/bin/env"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	try := func() error {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		}
		return err
	}
	l := pause(t, box(t), cProgram(t, wallC+`int main(){say("flock", flock(open("/usr/bin/env", O_RDONLY), LOCK_EX)); ready();}`))
	if err := try(); err != unix.EWOULDBLOCK {
		t.Errorf("the host's lock while the guest holds it: %v", err)
	}
	r := l.release()
	if err := try(); err != nil {
		t.Errorf("the host's lock after the cell: %v", err)
	}
	named := false
	for _, layer := range r.Evidence.Layers {
		named = named || strings.Contains(layer.Detail, "open: locks on the files of the host")
	}
	if !named {
		t.Errorf("no layer names the open channel: %+v", r.Evidence.Layers)
	}
}

// coreC makes children that end in each way that dumps core, tells whether the
// kernel did, and tries to raise the limit.
const coreC = wallC + `
static void child(const char *name, void (*f)(void)) {
	int ws;
	pid_t p = fork();
	if (p == 0) { f(); _exit(0); }
	waitpid(p, &ws, 0);
	printf("%s %s\n", name, !WIFSIGNALED(ws) ? "lived" : WCOREDUMP(ws) ? "dumped" : "clean"); fflush(stdout);
}
static void segv(void) { *(volatile int *)0 = 1; }
static void quit(void) { raise(SIGQUIT); }
static void ill(void) { __builtin_trap(); }
static void big(void) { prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); abort(); }
int main(void) {
	struct rlimit l = {0};
	getrlimit(RLIMIT_CORE, &l);
	printf("hard %lu\n", (unsigned long)l.rlim_max);
	struct rlimit more = {l.rlim_max, l.rlim_max + 1}, same = l;
	say("raise", setrlimit(RLIMIT_CORE, &more));
	say("raise-soft", syscall(SYS_prlimit64, 0, RLIMIT_CORE, &same, 0));
	say("raise-parent", syscall(SYS_prlimit64, getppid(), RLIMIT_CORE, &more, 0));
	child("abort", abort); child("segv", segv); child("quit", quit); child("ill", ill); child("dumpable", big);
	const char *dirs[] = {"/box", "/tmp", "/", "."};
	for (int i = 0; i < 4; i++) {
		DIR *d = opendir(dirs[i]);
		for (struct dirent *e; d && (e = readdir(d)); ) if (strstr(e->d_name, "core")) printf("file %s\n", e->d_name);
	}
	return 0;
}`

// No way to die leaves a core: the kernel dumps none, no file appears in the
// cell or on the host, and the limit cannot be raised.
//
// proves part of H-12
func TestWallIPCCores(t *testing.T) {
	hard := "0"
	if pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern"); err != nil || strings.HasPrefix(string(pattern), "|") {
		hard = "EPERM" // the number 1
	}
	before := cores(t)
	r := run(t, box(t), cProgram(t, coreC))
	got := answers(r.Stdout)
	for name, want := range map[string]string{"hard": hard, "raise": "EPERM", "raise-soft": "EPERM", "raise-parent": "EPERM",
		"abort": "clean", "segv": "clean", "quit": "clean", "ill": "clean", "dumpable": "clean", "file": ""} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	kill := cProgram(t, killC)
	kill.Args = []string{"ptrace"}
	if r := run(t, box(t), kill); r.Verdict != "denied" {
		t.Errorf("verdict %s", r.Verdict)
	}
	if r := run(t, without(t, "notify"), kill); r.Signal != "SIGSYS" {
		t.Errorf("signal %s", r.Signal)
	}
	if after := cores(t); after != before {
		t.Errorf("cores on the host: %s, before: %s", after, before)
	}
}

// cores lists what looks like a core where the host would put one.
func cores(t *testing.T) string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"/core*", "/tmp/core*", "/var/tmp/core*", "/var/lib/systemd/coredump/*", "core*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return strings.Join(all, " ")
}
