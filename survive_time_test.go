package glovebox_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// Programs that use up time.
const (
	loopForever = surviveC + `int main(){volatile long i=0;for(;;)i++;}`
	// Nothing of it can be caught, blocked or waited out.
	loopStubborn = surviveC + `int main(){
		sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0);
		for(int s=1;s<65;s++) signal(s, SIG_IGN);
		volatile long i=0;for(;;)i++;}`
	loopThreads = surviveC + `static void*f(void*p){volatile long i=0;for(;;)i++;}
		int main(){pthread_t t;for(int i=0;i<7;i++)want(!pthread_create(&t,0,f,0),"thread");f(0);}`
	loopProcesses = surviveC + `int main(){for(int i=0;i<7;i++)if(!fork())break;volatile long i=0;for(;;)i++;}`
	loopOrphans   = surviveC + `int main(){for(int i=0;i<7;i++)if(!fork()){setsid();if(!fork())for(volatile long i=0;;i++);_exit(0);}
		while(wait(0)>0);volatile long i=0;for(;;)i++;}`
	sleepForever = surviveC + `int main(){for(;;)pause();}`
	spinClock    = surviveC + `int main(){struct timespec t;for(;;)clock_gettime(CLOCK_PROCESS_CPUTIME_ID,&t);}`
)

// An endless loop is ended at its processor time, whoever of the cell burns it
// and whatever it ignores; limits below a second hold to less than 200 ms more.
//
// proves part of X-03 X-04
func TestSurviveLoops(t *testing.T) {
	for _, c := range []struct {
		name, source string
		cpu, percent int64
	}{
		{"one", loopForever, 200, 0},
		{"floor", loopForever, 10, 0},
		{"fifty", spinClock, 50, 0},
		{"stubborn", loopStubborn, 200, 0},
		{"threads on two cores", loopThreads, 200, 200},
		{"processes", loopProcesses, 200, 0},
		{"orphans", loopOrphans, 200, 0},
		{"a slice of a core", loopForever, 100, 20},
	} {
		p := limited(cProgram(t, c.source, "-pthread"), glovebox.Limits{CPUMS: c.cpu, CPUPercent: c.percent})
		r := timely(t, box(t), p)
		// On a machine that others keep busy the host may have to wait for its turn.
		for try := 0; try < 3 && r.CPUMS != nil && *r.CPUMS >= float64(c.cpu+200); try++ {
			r = timely(t, box(t), p)
		}
		if wantEnd(t, c.name, r, "timeout cpu") && (*r.CPUMS < float64(c.cpu) || *r.CPUMS >= float64(c.cpu+200)) {
			t.Errorf("%s: used %.1f ms, limit %d", c.name, *r.CPUMS, c.cpu)
		}
		if r.ExitCode != nil {
			t.Errorf("%s: exit code %d of a guest that did not exit", c.name, *r.ExitCode)
		}
	}
}

// Without the group that counts processor time the same loop goes on to the
// wall limit.
func TestSurviveLoopsControl(t *testing.T) {
	r := timely(t, without(t, "cgroup", "sample"), limited(cProgram(t, loopForever), glovebox.Limits{CPUMS: 200, WallMS: 700}))
	wantEnd(t, "control", r, "timeout wall")
}

// A program that waits is ended at its wall limit and has used no processor;
// the same program with an end of its own ends as it likes.
//
// proves part of X-03
func TestSurviveSleep(t *testing.T) {
	for _, wall := range []int64{50, 300} {
		r := timely(t, box(t), limited(cProgram(t, sleepForever), glovebox.Limits{WallMS: wall}))
		if wantEnd(t, "sleep", r, "timeout wall") && (*r.CPUMS > 100 || r.WallMS < float64(wall)) {
			t.Errorf("sleep: %.1f ms of processor, %.1f of %d ms", *r.CPUMS, r.WallMS, wall)
		}
	}
	r := timely(t, box(t), limited(cProgram(t, surviveC+`int main(){usleep(100000);return 4;}`), glovebox.Limits{WallMS: 5000}))
	if wantEnd(t, "control", r, "error 4") && r.WallMS < 100 {
		t.Errorf("control: %.1f ms", r.WallMS)
	}
}

// A caller's function that does not come back slows nothing but the output: the
// deadlines hold and the caller can still cancel.
//
// proves part of X-03
func TestSurviveSlowCallback(t *testing.T) {
	say := surviveC + `int main(){puts("go");fflush(stdout);volatile long i=0;for(;;)i++;}`
	for _, c := range []struct {
		name   string
		limits glovebox.Limits
		cancel bool
		want   string
	}{
		{"cpu", glovebox.Limits{CPUMS: 200}, false, "timeout cpu"},
		{"wall", glovebox.Limits{WallMS: 300}, false, "timeout wall"},
		{"cancel", glovebox.Limits{}, true, "canceled"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		inside, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		p := limited(cProgram(t, say), c.limits)
		p.Env = map[string]string{"MARK": "slow-" + c.name}
		r, err := box(t).Start(ctx, p, glovebox.WithEvents(func(e glovebox.Event) {
			if e.Type == "chunk" && strings.Contains(e.Data, "go") {
				once.Do(func() { close(inside) })
				<-release
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		<-inside
		fd := testenv.OpenProcess(t, guestOf("slow-"+c.name))
		if c.cancel {
			cancel()
		}
		if !testenv.EndsWithin(fd, time.Second) {
			t.Errorf("%s: the guest runs on while the caller is busy", c.name)
		}
		close(release)
		res, err := r.Wait()
		if err != nil {
			t.Fatal(err)
		}
		wantEnd(t, c.name, res, c.want)
	}
}
