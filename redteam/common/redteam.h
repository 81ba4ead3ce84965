/* What every attack in C includes. say prints one line of evidence: the name of
 * what was tried and OK, or the name of its errno. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#define MIB (1L << 20)
static inline void say(const char *name, long r) {
	printf("%s %s\n", name, r < 0 ? strerrorname_np(errno) : "OK");
	fflush(stdout);
}
static inline void line(const char *text) { puts(text); fflush(stdout); }
static inline void fill(void *p, int c, long n) { memset(p, c, n); __asm__ volatile("" : : "r"(p) : "memory"); }
/* ready tells the runner that the attack may begin, and waits until it is over. */
static inline void ready(void) { char c; line("ready"); while (read(0, &c, 1) > 0) {} }
