package glovebox_test

import (
	"strings"
	"testing"
)

// Calls whose refusal breaks programs in quiet ways work in a cell, each by name.
//
// proves O-22
func TestWallBenignCalls(t *testing.T) {
	p := cProgram(t, wallC+`
#include <sys/random.h>
#include <linux/membarrier.h>
int main(void) {
	int pair[2], v; socklen_t n = sizeof v; struct sockaddr_un a; struct rlimit l; cpu_set_t cpus; char b[8];
	uid_t u = getuid(); gid_t g = getgid();
	say("umask", umask(027) == 022 && umask(022) == 027 ? 0 : -1);
	say("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	say("getsockopt", getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &v, &n) == 0 && v == SOCK_STREAM ? 0 : -1);
	n = sizeof a;
	say("getsockname", getsockname(pair[0], (struct sockaddr *)&a, &n) == 0 && a.sun_family == AF_UNIX ? 0 : -1);
	say("setuid", setuid(u)); say("setgid", setgid(g)); say("setresuid", setresuid(u, u, u)); say("setresgid", setresgid(g, g, g));
	say("setreuid", setreuid(u, u)); say("setregid", setregid(g, g));
	say("sched_getaffinity", sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 0 ? 0 : -1);
	say("rseq", syscall(SYS_rseq, 0, 0, 0, 0) == -1 && errno != ENOSYS && errno != EPERM ? 0 : -1);
	say("membarrier", syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0));
	say("prlimit64-get", prlimit(0, RLIMIT_NOFILE, 0, &l));
	l.rlim_cur = l.rlim_max - 1;
	say("prlimit64-set", prlimit(0, RLIMIT_NOFILE, &l, 0));
	say("memfd_create", memfd_create("m", MFD_CLOEXEC));
	say("getrandom", getrandom(b, sizeof b, 0) == sizeof b ? 0 : -1);
}`)
	r := run(t, box(t), p)
	got := answers(r.Stdout)
	calls := "umask socketpair getsockopt getsockname setuid setgid setresuid setresgid setreuid setregid sched_getaffinity rseq membarrier prlimit64-get prlimit64-set memfd_create getrandom"
	for name := range strings.FieldsSeq(calls) {
		if got[name] != "OK" {
			t.Errorf("%s: %q", name, got[name])
		}
	}
	if r.Verdict != "ok" {
		t.Errorf("%s %s", r.Verdict, r.Syscall)
	}
}
