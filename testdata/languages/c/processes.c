// Processes: fork and exec in all forms, pipes, waiting, shared memory and
// semaphores with names, mappings, masks, groups of processes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int ended(pid_t pid) {
	int status;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void start(void) {
	pid_t pid = fork();
	if (pid == 0) execlp("sh", "sh", "-c", "exit 3", (char *)0);
	printf("fork and exec %d\n", ended(pid));
	pid = vfork();
	if (pid == 0) { execl("/bin/true", "true", (char *)0); _exit(1); }
	printf("vfork %d\n", ended(pid));

	posix_spawnattr_t attr;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_RESETIDS | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "spawned", O_WRONLY | O_CREAT | O_TRUNC, 0666);
	char *argv[] = {"sh", "-c", "echo spawned; exit 4", 0};
	int err = posix_spawnp(&pid, "sh", &actions, &attr, argv, environ);
	printf("posix_spawn %s %d\n", strerror(err), ended(pid));
	char line[100] = "";
	FILE *f = popen("cat spawned", "r");
	printf("popen %s", fgets(line, sizeof line, f));
	printf("pclose %d, system %d\n", pclose(f), WEXITSTATUS(system("exit 5")));
	pid = fork();
	if (pid == 0) { setpgid(0, 0); for (;;) pause(); }
	setpgid(pid, pid);
	kill(-pid, SIGTERM);
	printf("group %d\n", ended(pid));
	int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);
	pid = fork();
	if (pid == 0) { fexecve(fd, (char *[]){"true", 0}, environ); _exit(1); }
	printf("fexecve %d\n", ended(pid));
	pid = fork();
	if (pid == 0) abort();
	printf("abort %d\n", ended(pid));
	printf("own ids %d %d\n", setuid(getuid()), setgid(getgid()));
}

static void share(void) {
	int *counter = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sem_t *sem = sem_open("/lock", O_CREAT | O_EXCL, 0600, 1);
	int fd = shm_open("/shared", O_CREAT | O_RDWR, 0600);
	if (sem == SEM_FAILED || fd < 0 || ftruncate(fd, 4096)) printf("%s\n", strerror(errno));
	int *named = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pid_t pid[4];
	for (int i = 0; i < 4; i++)
		if ((pid[i] = fork()) == 0) {
			for (int k = 0; k < 1000; k++) { sem_wait(sem); ++*counter; ++*named; sem_post(sem); }
			_exit(0);
		}
	for (int i = 0; i < 4; i++) ended(pid[i]);
	printf("shared %d %d\n", *counter, *named);
	printf("unlink %d %d\n", sem_unlink("/lock"), shm_unlink("/shared"));
	int mem = memfd_create("m", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	printf("memfd %d\n", ftruncate(mem, 100) == 0 && fcntl(mem, F_ADD_SEALS, F_SEAL_GROW) == 0 && ftruncate(mem, 200) < 0);
	char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	code[0] = (char)0xc3;
	printf("made executable %d\n", mprotect(code, 4096, PROT_READ | PROT_EXEC));
	struct stat st;
	umask(027);
	close(open("masked", O_CREAT | O_WRONLY, 0666));
	stat("masked", &st);
	printf("umask %o\n", st.st_mode & 0777);
	char *file = mmap(0, 4096, PROT_READ, MAP_PRIVATE, open("spawned", O_RDONLY), 0);
	printf("mapped file %.7s\n", file);
	void *grown = mremap(counter, 4096, 8192, MREMAP_MAYMOVE);
	printf("mremap %d\n", grown != MAP_FAILED);
}

static void events(void) {
	int p[2], pair[2];
	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) perror("pipe");
	int ev = eventfd(0, EFD_CLOEXEC), ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN, .data.fd = pair[1]};
	epoll_ctl(ep, EPOLL_CTL_ADD, pair[1], &e);
	char buf[10] = "";
	if (send(pair[0], "text", 4, MSG_NOSIGNAL) != 4) perror("send");
	int found = epoll_wait(ep, &e, 1, 5000);
	ssize_t got = recv(pair[1], buf, sizeof buf, 0);
	printf("epoll %d %d %zd %s\n", found, e.data.fd == pair[1], got, buf);
	struct pollfd fds[] = {{p[0], POLLIN, 0}, {ev, POLLIN, 0}};
	eventfd_write(ev, 5);
	int n = poll(fds, 2, 5000);
	printf("poll %d %d %d\n", n, fds[0].revents, fds[1].revents);
	printf("nonblocking %d\n", read(p[0], buf, 1) < 0 && errno == EAGAIN);
	struct rlimit l;
	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = 20;
	n = setrlimit(RLIMIT_NOFILE, &l);
	printf("limit %d %d\n", n, dup2(0, 25));
	struct rusage u;
	printf("usage %d\n", getrusage(RUSAGE_CHILDREN, &u));
}

int main(void) {
	setvbuf(stdout, 0, _IOLBF, 0);
	start();
	share();
	events();
	return 0;
}
