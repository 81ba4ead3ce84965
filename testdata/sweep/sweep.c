// sweep makes system calls and tells what comes of each: one child process a call.
//
//	sweep SECCOMP NUMBER...
//
// It first reads its own confinement from the kernel and makes no call unless that is whole: no capability, no way
// to gain any, a namespace of its own whose PID 1 started it, the group and files of nobody else; and a filter or
// none, as SECCOMP ("2" or "0") says. Then each line is a number and two answers, for arguments that are all zero
// and all ones: OK, an errno's number, exit-N, signal-N, hangs. The children have no descriptors and no memory at the
// addresses that they name, so no call has anything to work on.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct answer {
	volatile int begun, came;
	volatile long value;
};

static struct answer *page;

#if defined(__x86_64__)
static inline __attribute__((always_inline)) long call(long nr, long a) {
	long r;
	register long r10 __asm__("r10") = a, r8 __asm__("r8") = a, r9 __asm__("r9") = a;
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(a), "d"(a), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return r;
}
#define NO_STACK() __asm__ volatile("xor %%esp, %%esp\n\tmov %0, %%eax\n\tsyscall\n\tud2" :: "i"(SYS_rt_sigreturn))
#elif defined(__aarch64__)
static inline __attribute__((always_inline)) long call(long nr, long a) {
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = a, x2 __asm__("x2") = a, x3 __asm__("x3") = a, x4 __asm__("x4") = a, x5 __asm__("x5") = a;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}
#define NO_STACK() __asm__ volatile("mov x8, %0\n\tmov x0, #0\n\tmov sp, x0\n\tsvc 0\n\tbrk 1" :: "i"(SYS_rt_sigreturn))
#endif

// child makes the call and ends. It calls no function after it: vfork comes back twice on one stack, and a mode that
// a call has set may allow little more than to exit.
static __attribute__((noinline, noreturn)) void child(long nr, long a) {
	long self = call(SYS_getpid, 0);
	call(SYS_close, 0), call(SYS_close, 1), call(SYS_close, 2);
	page->begun = 1;
	if (nr == SYS_rt_sigreturn) NO_STACK(); // what it restores comes from the stack, so that there is none
	long r = call(nr, a);
	if (r != 0 || call(SYS_getpid, 0) == self) { // not in the child of a fork
		page->value = r;
		page->came = 1;
	}
	for (;;) call(SYS_exit, 0);
}

// state is the letter of a process in /proc, 0 if it cannot be read.
static char state(pid_t pid) {
	char path[64], text[512], *at;
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0) close(fd);
	if (n <= 0) return 0;
	text[n] = 0;
	at = strrchr(text, ')');
	return at && at[1] ? at[2] : 0;
}

static void one(long nr, long a, char *out, size_t size) {
	memset(page, 0, sizeof *page);
	pid_t pid = fork();
	if (pid < 0) { snprintf(out, size, "no-fork-%d", errno); return; }
	if (pid == 0) child(nr, a);
	int status = 0, asleep = 0, hangs = 0;
	pid_t got;
	for (int i = 0; (got = waitpid(pid, &status, WNOHANG)) == 0; i++) {
		struct timespec t = {0, i < 20 ? 100000 : 5000000};
		nanosleep(&t, 0);
		// A call that is asleep in the kernel, looked at again and again, will not come back.
		asleep = page->begun && !page->came && state(pid) == 'S' ? asleep + 1 : 0;
		if (i > 1000 || asleep > 50) {
			hangs = 1;
			kill(pid, SIGKILL);
			got = waitpid(pid, &status, 0);
			break;
		}
	}
	if (got != pid) snprintf(out, size, "no-wait-%d", errno);
	else if (hangs) snprintf(out, size, "hangs");
	else if (page->came && page->value < 0 && page->value > -4096) snprintf(out, size, "%ld", -page->value);
	else if (page->came) snprintf(out, size, "OK");
	else if (WIFSIGNALED(status)) snprintf(out, size, "signal-%d", WTERMSIG(status));
	else snprintf(out, size, "exit-%d", WEXITSTATUS(status));
}

// need ends the program unless its status has a line that begins with these words.
static void need(const char *status, const char *line) {
	char with[128];
	snprintf(with, sizeof with, "\n%s\n", line);
	if (strstr(status, with)) return;
	printf("not confined: no line %s in\n%s", line, status);
	exit(9);
}

int main(int argc, char **argv) {
	static char status[8192];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, status, sizeof status - 1) <= 0 || argc < 3) { printf("not confined: no status\n"); return 9; }
	close(fd);
	char seccomp[32];
	snprintf(seccomp, sizeof seccomp, "Seccomp:\t%s", argv[1]);
	need(status, seccomp);
	need(status, "NoNewPrivs:\t1");
	const char *sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
	for (int i = 0; i < 5; i++) {
		char line[64];
		snprintf(line, sizeof line, "%s:\t0000000000000000", sets[i]);
		need(status, line);
	}
	if (getppid() != 1 || access("/root", F_OK) == 0 || access("/sys/kernel", F_OK) == 0 || access("/var/lib", F_OK) == 0) { printf("not confined: a root or processes of the host\n"); return 9; }
	page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) return 8;
	printf("confined\n");
	fflush(stdout);
	for (int i = 2; i < argc; i++) {
		char zero[32], ones[32];
		long nr = strtol(argv[i], 0, 0);
		one(nr, 0, zero, sizeof zero);
		one(nr, -1, ones, sizeof ones);
		printf("%ld %s %s\n", nr, zero, ones);
		fflush(stdout);
	}
	printf("done\n");
	return 0;
}
