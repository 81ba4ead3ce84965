package glovebox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// countTasks makes processes, or threads with the argument "t", until one is
// refused or 40 stand, all alive at once, and says how many tasks there were,
// its own included, and why it stopped.
const countTasks = surviveC + `
static void*hold(void*p){for(;;)pause();}
int main(int n, char**v){
	int made=1, why=0;
	pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, 64<<10);
	while(made<40){
		if(n>1){pthread_t t; if((why=pthread_create(&t,&a,hold,0))) break;}
		else{pid_t p=fork(); if(p<0){why=errno;break;} if(!p) for(;;)pause();}
		made++;
	}
	printf("%d %d\n",made,why);
	return 0;
}`

// A guest can have exactly as many processes and threads as its limit says,
// however often, and the kernel counts what it refuses. Without the group and
// the limit that stands in for it the same program gets all it asks for; with
// that limit alone it is bounded still, exactly where its uid is its own.
//
// proves O-10
func TestSurviveTasksExact(t *testing.T) {
	for _, kind := range []string{"processes", "threads"} {
		p := cProgram(t, countTasks, "-pthread")
		if kind == "threads" {
			p.Args = []string{"t"}
		}
		for _, pids := range []int64{1, 2, 10} {
			for range 5 {
				r := timely(t, box(t), limited(p, glovebox.Limits{Pids: pids}))
				if want := fmt.Sprintf("%d 11\n", pids); !wantEnd(t, kind, r, "ok 0") || r.Stdout != want || !atLeast(r.PidsMaxHits, 1) {
					t.Fatalf("%d %s: said %q, want %q; refused %s", pids, kind, r.Stdout, want, number(r.PidsMaxHits))
				}
			}
		}
		r := timely(t, without(t, "cgroup", "sample", "nproc"), limited(p, glovebox.Limits{Pids: 10}))
		if r.Stdout != "40 0\n" {
			t.Errorf("control, %s: %q", kind, r.Stdout)
		}
	}
}

// The bombs. Each tries for as long as it lives; the first process exits with
// 3 after a moment where the bomb does not need it.
var taskBombs = []struct {
	name, source, want string
	refused            bool // the kernel refuses some of it
}{
	{"fork bomb", `int main(){for(;;)fork();}`, "timeout", true},
	{"double fork", `int main(){for(;;){pid_t p=fork(); if(!p){setsid(); if(fork()) _exit(0); for(;;)fork();}}}`, "timeout", true},
	{"orphans of an ended guest", `int main(){for(int i=0;i<200;i++){pid_t p=fork(); if(!p){setsid(); for(;;)fork();}} _exit(3);}`, "error 3", true},
	{"hopper", `int main(){for(;;){pid_t p=fork(); if(p>0) _exit(3); if(p<0) continue;}}`, "error 3", false},
	{"hopper below the guest", `int main(){if(!fork())for(;;)if(fork()>0)_exit(0); usleep(200000); _exit(3);}`, "error 3", false},
	{"threads", `static void*f(void*p){pthread_t t;for(;;)pthread_create(&t,0,f,0);} int main(){f(0);}`, "timeout", true},
	{"vforks", `int main(){for(;;)vfork();}`, "timeout", true},
	{"execs", `int main(int n,char**v){for(;;){fork(); execv("/proc/self/exe",v);}}`, "timeout", true},
}

// Every kind of bomb, four at a time, ends in its verdict at its time, with the
// refusals counted, and init alive to the end: a guest that exited has its own exit
// code. TestSoakTaskBombs has each twenty times.
//
// proves part of O-10 X-03
func TestSurviveTaskBombs(t *testing.T) { bombTasks(t, 4) }

// bombTasks has each bomb so many times.
func bombTasks(t *testing.T, rounds int) {
	for _, c := range taskBombs {
		p := limited(cProgram(t, surviveC+c.source, "-pthread"), glovebox.Limits{Pids: 16, WallMS: 2000, CPUMS: 100})
		if strings.HasPrefix(c.want, "error") {
			p.Limits.WallMS, p.Limits.CPUMS = 5000, 5000
		}
		abreast(rounds, 4, func(i int) {
			r := timely(t, box(t), p)
			if got := ended(r); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s, round %d: %q %s %s", c.name, i, got, r.Message, clip(r.Stderr))
			}
			if c.refused && !atLeast(r.PidsMaxHits, 1) {
				t.Errorf("%s, round %d: nothing was refused", c.name, i)
			}
		})
	}
	// The box is as good as before.
	wantEnd(t, "after the bombs", run(t, box(t), glovebox.Program{Command: []string{"/bin/true"}}), "ok 0")
}

// What a guest starts does not outlive it, whoever holds its pipes.
//
// proves X-03
func TestSurviveDaemons(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"a daemon with the pipes", `int main(){puts("out");fflush(stdout);if(!fork()){setsid();if(!fork())for(;;)pause();_exit(0);}wait(0);return 0;}`, "ok 0"},
		{"a child that writes on", `int main(){puts("out");fflush(stdout);if(!fork()){signal(SIGPIPE,SIG_IGN);for(;;)usleep(1000),write(1,"",0);}return 0;}`, "ok 0"},
		{"a stopped child", `int main(){puts("out");fflush(stdout);pid_t p=fork();if(!p)for(;;)pause();kill(p,SIGSTOP);return 9;}`, "error 9"},
		{"a traced look-alike", `int main(){puts("out");fflush(stdout);if(!fork()){for(int s=1;s<65;s++)signal(s,SIG_IGN);for(;;)pause();}raise(SIGKILL);}`, "error SIGKILL"},
		{"closed descriptors", `int main(){puts("out");fflush(stdout);close(0);close(1);close(2);for(int i=0;i<20;i++)if(!fork())for(;;)pause();return 7;}`, "error 7"},
		{"all of it closed", `int main(){puts("out");fflush(stdout);syscall(SYS_close_range,0,~0U,0);return 8;}`, "error 8"},
		{"stopped at once", `int main(){puts("out");fflush(stdout);raise(SIGSTOP);}`, "timeout wall"},
		{"everything stopped", `int main(){puts("out");fflush(stdout);for(int i=0;i<9;i++)if(!fork()){setsid();for(;;)pause();}usleep(50000);kill(-1,SIGSTOP);kill(0,SIGSTOP);}`, "timeout wall"},
		{"pipes filled and held", `int main(){puts("out");fflush(stdout);if(!fork()){setsid();char b[4096]={0};fcntl(0,F_SETFL,O_NONBLOCK);for(;;)pause();}return 0;}`, "ok 0"},
	} {
		r := timely(t, box(t), limited(cProgram(t, surviveC+c.source), glovebox.Limits{WallMS: 1000}))
		wantEnd(t, c.name, r, c.want)
		if r.Stdout != "out\n" {
			t.Errorf("%s: kept %q", c.name, r.Stdout)
		}
		if c.want != "timeout wall" && r.WallMS > 900 {
			t.Errorf("%s: took %.0f ms", c.name, r.WallMS)
		}
	}
}
