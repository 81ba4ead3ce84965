package glovebox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox"
)

// Each verdict from two sides: a guest that earns it, and one that does what it
// can to look as if. Counters follow the kernel, not the guest's figures.
//
// proves X-04
func TestSurviveVerdicts(t *testing.T) {
	short := glovebox.Limits{WallMS: 400, CPUMS: 200, MemoryBytes: 64 * mib, Pids: 8, StdoutBytes: 1000}
	for _, c := range []struct{ name, source, want string }{
		{"ok, earned", `int main(){return 0;}`, "ok 0"},
		{"ok, faked by words", `int main(){puts("{\"verdict\":\"ok\",\"exit_code\":0}");return 1;}`, "error 1"},
		{"ok, faked by a child", `int main(){if(!fork())_exit(0);wait(0);abort();}`, "error SIGABRT"},
		{"error, earned", `int main(){return 3;}`, "error 3"},
		{"error, by a fault", `int main(){*(volatile int*)8=0;}`, "error SIGSEGV"},
		{"error, faked by a child", `int main(){if(!fork())_exit(3);wait(0);return 0;}`, "ok 0"},
		{"wall, earned", `int main(){for(;;)pause();}`, "timeout wall"},
		{"wall, faked", `int main(){raise(SIGALRM);}`, "error SIGALRM"},
		{"wall, by 124", `int main(){return 124;}`, "error 124"},
		{"cpu, earned", `int main(){for(;;);}`, "timeout cpu"},
		{"cpu, faked", `int main(){raise(SIGXCPU);}`, "error SIGXCPU"},
		{"cpu, by its own limit", `int main(){struct rlimit l={0,1};setrlimit(RLIMIT_CPU,&l);raise(SIGXCPU);}`, "error SIGXCPU"},
		{"memory, earned", `int main(){for(;;)fill(malloc(MIB),1,MIB);}`, "memory_limit"},
		{"memory, faked", `int main(){raise(SIGKILL);}`, "error SIGKILL"},
		{"memory, by 137", `int main(){return 137;}`, "error 137"},
		{"output, earned", `int main(){for(;;)puts("x");}`, "output_limit stdout"},
		{"output, faked", `int main(){raise(SIGXFSZ);}`, "error SIGXFSZ"},
		{"output, just not", `int main(){for(int i=0;i<500;i++)puts("x");return 0;}`, "ok 0"},
		{"denied, earned", `int main(){syscall(SYS_ptrace,0,0,0,0);return 0;}`, "denied ptrace"},
		{"denied, faked", `int main(){raise(SIGSYS);}`, "error SIGSYS"},
		{"canceled, faked", `int main(){raise(SIGINT);}`, "error SIGINT"},
		{"interrupted, faked", `int main(){raise(SIGHUP);}`, "error SIGHUP"},
		{"setup_failed, faked", `int main(){fputs("glovebox: setup failed\n",stderr);return 125;}`, "error 125"},
		{"not found, faked", `int main(){return 127;}`, "error 127"},
	} {
		r := anyway(t, box(t), limited(cProgram(t, surviveC+c.source), short))
		wantEnd(t, c.name, r, c.want)
		if oom := r.Verdict == "memory_limit"; r.OOMKills == nil || *r.OOMKills > 0 != oom {
			t.Errorf("%s: oom_kills %s", c.name, number(r.OOMKills))
		}
		if r.PidsMaxHits == nil || *r.PidsMaxHits != 0 {
			t.Errorf("%s: pids_max_hits %s", c.name, number(r.PidsMaxHits))
		}
	}
	for what, want := range map[string]string{"/no/such/file": "error 127", "/usr": "error 126", "no-such-command": "error 127", "/etc/passwd": "error 126"} {
		wantEnd(t, what, anyway(t, box(t), glovebox.Program{Command: []string{what}}), want)
	}
	// A refused fork that is the guest's own limit is not counted; the group's is.
	for source, hits := range map[string]bool{
		`int main(){struct rlimit l={1,1};setrlimit(RLIMIT_NPROC,&l);return fork()<0;}`: false,
		`int main(){for(int i=0;i<8;i++)if(!fork())for(;;)pause();return 1;}`:           true,
	} {
		r := anyway(t, box(t), limited(cProgram(t, surviveC+source), short))
		if r.PidsMaxHits == nil || (*r.PidsMaxHits > 0) != hits {
			t.Errorf("%.40s: pids_max_hits %s", source, number(r.PidsMaxHits))
		}
	}
}

// One run's figures are its own: after a run of 200 MiB `/bin/true` has used
// next to nothing.
//
// proves part of H-24
func TestSurviveCountersFresh(t *testing.T) {
	big := limited(cProgram(t, surviveC+`int main(){for(int i=0;i<9;i++)if(!fork())for(;;)pause();fill(malloc(200*MIB),1,200*MIB);return 0;}`), glovebox.Limits{Pids: 8})
	for range 5 {
		r := timely(t, box(t), big)
		if !atLeast(r.PeakBytes, 200*mib) || !atLeast(r.PidsMaxHits, 1) {
			t.Errorf("the large one: peak %s, refused %s", number(r.PeakBytes), number(r.PidsMaxHits))
		}
		r = timely(t, box(t), glovebox.Program{Command: []string{"/bin/true"}})
		if wantEnd(t, "the small one", r, "ok 0") && (*r.PeakBytes >= 4*mib || *r.PidsMaxHits != 0 || *r.OOMKills != 0 || *r.CPUMS > 100) {
			t.Errorf("the small one: peak %d, refused %d, oom %d, cpu %.1f", *r.PeakBytes, *r.PidsMaxHits, *r.OOMKills, *r.CPUMS)
		}
	}
}

// begin starts a program and returns when it runs.
func begin(t *testing.T, ctx context.Context, b *glovebox.Box, p glovebox.Program) *glovebox.Running {
	t.Helper()
	started := make(chan struct{})
	r, err := b.Start(ctx, p, glovebox.WithEvents(func(e glovebox.Event) {
		if e.Type == "started" {
			close(started)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	<-started
	return r
}

// The end of the caller's context, a call of Kill and Close each end a running
// program at once, with the verdict that says who did; every way of ending is
// over in a second though the guest resists.
//
// proves part of X-03 X-04
func TestSurviveCancel(t *testing.T) {
	p := limited(cProgram(t, loopStubborn), glovebox.Limits{WallMS: 60_000, CPUMS: 60_000})
	for name, end := range map[string]func(context.CancelFunc, *glovebox.Running){
		"context": func(cancel context.CancelFunc, _ *glovebox.Running) { cancel() },
		"kill":    func(_ context.CancelFunc, r *glovebox.Running) { r.Kill() },
		"both":    func(cancel context.CancelFunc, r *glovebox.Running) { r.Kill(); cancel(); r.Kill() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		r := begin(t, ctx, box(t), p)
		from := time.Now()
		end(cancel, r)
		res, err := r.Wait()
		if err != nil {
			t.Fatal(err)
		}
		wantEnd(t, name, res, "canceled")
		if took := time.Since(from); took > time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		if again, err := r.Wait(); again != res || err != nil {
			t.Errorf("%s: a second Wait says otherwise", name)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := box(t).Run(ctx, p); err == nil && r.Verdict != "canceled" || err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a context that had ended: %v %v", r, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	wantEnd(t, "deadline", untilEnd(t, ctx, p), "canceled")
}

func untilEnd(t *testing.T, ctx context.Context, p glovebox.Program) *glovebox.Result {
	t.Helper()
	r, err := begin(t, ctx, box(t), p).Wait()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Close interrupts what runs, refuses what waits, and leaves no process, no
// goroutine and no descriptor; it may be called again, from anywhere.
//
// proves part of T-10 B-18
func TestSurviveClose(t *testing.T) {
	box(t)                          // before the goroutines are counted
	t.Setenv("TMPDIR", t.TempDir()) // that nobody else uses
	leaks := goleak.IgnoreCurrent()
	before := usage(t)
	o := options()
	o.Armed, o.MaxCells = 2, 3
	b, err := glovebox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	p := limited(cProgram(t, loopStubborn), glovebox.Limits{WallMS: 60_000, CPUMS: 60_000})
	var running []*glovebox.Running
	for range 3 {
		running = append(running, begin(t, t.Context(), b, p))
	}
	waiting, err := b.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(func() {
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	closers.Wait()
	if took := time.Since(from); took > 2*time.Second {
		t.Errorf("close took %v", took)
	}
	for _, r := range running {
		res, err := r.Wait()
		if err != nil {
			t.Fatal(err)
		}
		wantEnd(t, "running", res, "interrupted")
	}
	if _, err := waiting.Wait(); !errors.Is(err, glovebox.ErrClosed) {
		t.Errorf("waiting: %v", err)
	}
	if _, err := b.Run(t.Context(), p); !errors.Is(err, glovebox.ErrClosed) {
		t.Errorf("after: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := goleak.Find(leaks); err != nil {
		t.Error(err)
	}
	before.compare(t, usage(t))
}

// Eight runs at a time, of every kind, end each as it would alone, and the
// output of one is not in another.
//
// proves part of T-10
func TestSurviveConcurrent(t *testing.T) {
	o := options()
	o.Armed, o.MaxCells = 2, 8
	b := newBox(t, o)
	programs := []struct {
		p    glovebox.Program
		want string
	}{
		{limited(cProgram(t, loopForever), glovebox.Limits{CPUMS: 100}), "timeout cpu"},
		{limited(cProgram(t, sleepForever), glovebox.Limits{WallMS: 200}), "timeout wall"},
		{limited(cProgram(t, surviveC+`int main(){for(;;)fill(malloc(MIB),1,MIB);}`), glovebox.Limits{MemoryBytes: 32 * mib}), "memory_limit"},
		{limited(cProgram(t, surviveC+`int main(){for(;;)fork();}`), glovebox.Limits{Pids: 8, WallMS: 300}), "timeout"},
		{glovebox.Program{Command: []string{"cat", "/dev/zero"}}, "output_limit stdout"},
		{python("import sys; print(open('/proc/self/stat').read()[:0] + sys.argv[1])"), "ok 0"},
		{cProgram(t, surviveC+`int main(){abort();}`), "error SIGABRT"},
		{glovebox.Program{Command: []string{"/bin/true"}}, "ok 0"},
	}
	abreast(64, 8, func(i int) {
		c := programs[i%len(programs)]
		if c.p.Language == "python" {
			c.p.Args = []string{strings.Repeat("m", i+1)}
		}
		r := anyway(t, b, c.p)
		if got := ended(r); !strings.HasPrefix(got, c.want) {
			t.Errorf("%d: %q, want %q %s", i, got, c.want, r.Message)
		}
		if c.p.Language == "python" && r.Stdout != c.p.Args[0]+"\n" {
			t.Errorf("%d: the output of another: %q", i, clip(r.Stdout))
		}
	})
}
