// Signals and jumps: handlers with an alternate stack, a fault that is survived,
// timers, masks, sigwait, queued values.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf back;
static jmp_buf plain;
static volatile sig_atomic_t alarms;
static volatile int value;

static void fault(int sig, siginfo_t *info, void *ctx) { (void)ctx; siglongjmp(back, sig == SIGSEGV && info->si_addr == (void *)8 ? 1 : 2); }
static void alarmed(int sig) { (void)sig; alarms++; }
static void queued(int sig, siginfo_t *info, void *ctx) { (void)sig; (void)ctx; value = info->si_value.sival_int; }

static void deeper(int n) { if (n == 0) longjmp(plain, 7); deeper(n - 1); }

int main(void) {
	stack_t alt = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
	sigaltstack(&alt, 0);
	struct sigaction sa = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	sigaction(SIGSEGV, &sa, 0);
	int r = sigsetjmp(back, 1);
	if (r == 0) *(volatile int *)8 = 1;
	printf("fault survived %d\n", r);
	r = setjmp(plain);
	if (r == 0) deeper(100);
	printf("longjmp %d\n", r);

	signal(SIGALRM, alarmed);
	struct itimerval every = {{0, 10000}, {0, 10000}};
	setitimer(ITIMER_REAL, &every, 0);
	while (alarms < 5) pause();
	struct itimerval off = {{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &off, 0);
	printf("alarms %d\n", alarms >= 5);

	sa.sa_sigaction = queued;
	sigaction(SIGUSR1, &sa, 0);
	sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 42});
	printf("queued %d\n", value);

	sigset_t set, pending;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, 0);
	raise(SIGUSR2);
	sigpending(&pending);
	printf("pending %d\n", sigismember(&pending, SIGUSR2));
	int sig;
	sigwait(&set, &sig);
	printf("sigwait %s\n", strsignal(sig));
	int fd = signalfd(-1, &set, SFD_CLOEXEC);
	raise(SIGUSR2);
	struct signalfd_siginfo info;
	ssize_t got = read(fd, &info, sizeof info);
	printf("signalfd %d %d\n", got == sizeof info, info.ssi_signo == SIGUSR2);
	timer_t timer;
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
	timer_create(CLOCK_MONOTONIC, &ev, &timer);
	struct itimerspec soon = {.it_value = {0, 1000000}};
	timer_settime(timer, 0, &soon, 0);
	struct timespec limit = {5, 0};
	printf("timer %d\n", sigtimedwait(&set, 0, &limit) == SIGRTMIN);
	fflush(stdout);
	signal(SIGABRT, SIG_IGN);
	raise(SIGABRT);
	puts("ignored");
	return 0;
}
