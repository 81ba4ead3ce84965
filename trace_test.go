package glovebox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// trace runs a program under a trace.
func trace(t testing.TB, b *glovebox.Box, p glovebox.Program, learn bool) (*glovebox.Result, *glovebox.Trace) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	var got glovebox.Trace
	r, err := b.Run(ctx, p, glovebox.WithTrace(&got, glovebox.Tracing{Learn: learn, Allowed: true}))
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict == "setup_failed" {
		t.Fatalf("setup_failed at %s: %s", r.Stage, r.Message)
	}
	return r, &got
}

// tracedCalls are the calls of the program, "NAME ANSWER ERRNO" and their count.
func tracedCalls(t testing.TB, tr *glovebox.Trace) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for _, s := range tr.Steps {
		if s.Step != "run" {
			continue
		}
		if !s.Exact {
			t.Error("the counts are not exact")
		}
		for _, c := range s.Calls {
			out[strings.TrimSpace(c.Call+" "+c.Answer+" "+c.Errno)] = c.Count
			if c.Answer != api.TraceAllowed && c.Reason == "" {
				t.Errorf("%s: no reason", c.Call)
			}
		}
	}
	return out
}

// learntHere are the learnable calls of refusedC, by the name that it gives them.
var learntHere = map[string]string{"landlock": "landlock_create_ruleset", "memfd_secret": "memfd_secret", "splice": "splice", "vmsplice": "vmsplice"}

// deniedHere are calls of refusedC that no trace lets through.
var deniedHere = map[string]string{
	"kcmp": "EPERM", "clone3": "ENOSYS", "io_uring_setup": "ENOSYS", "io_uring_enter": "ENOSYS", "io_uring_register": "ENOSYS",
	"userfaultfd": "EPERM", "keyctl": "EPERM", "add_key": "EPERM", "request_key": "EPERM", "perf_event_open": "EACCES",
	"name_to_handle_at": "EPERM", "fanotify_init": "EPERM", "inotify_init1": "ENOSYS", "personality": "EPERM", "syslog": "EPERM",
	"chroot": "EPERM", "clock_settime": "EPERM", "settimeofday": "EPERM", "sethostname": "EPERM", "seccomp": "ENOSYS", "statmount": "ENOSYS",
	"mincore": "ENOSYS", "cachestat": "ENOSYS", "readahead": "EINVAL", "move_pages": "EPERM", "ioprio_get": "EPERM", "syncfs": "EPERM",
	"fcntl": "EPERM", "ioctl": "EPERM", "prctl": "EPERM", "unshare": "EPERM", "madvise": "EINVAL",
}

// A program that fires the list of what is always denied gets under a trace the errno that it gets without, call by
// call, and hears of each that it cannot be learnt; only the calls of the learnable list reach the kernel, and without
// learning not even those. The control is the same trace with the judge off, which lets everything through.
//
// proves H-19
func TestTraceRefused(t *testing.T) {
	prog := cProgram(t, refusedC)
	control := without(t, "judge")
	for _, c := range []struct {
		name  string
		box   *glovebox.Box
		learn bool
		want  func(outcome) string
	}{
		{"strict", box(t), false, func(o outcome) string { return o.sealed }},
		{"learning", box(t), true, func(o outcome) string {
			if learntHere[o.name] != "" {
				return o.control
			}
			return o.sealed
		}},
		{"control", control, true, func(o outcome) string { return o.control }},
	} {
		r, tr := trace(t, c.box, prog, c.learn)
		got := answers(r.Stdout)
		for _, o := range refused {
			if want := c.want(o); !slices.Contains(strings.Split(want, "|"), got[o.name]) {
				t.Errorf("%s: %s answered %q, want %s", c.name, o.name, got[o.name], want)
			}
		}
		calls := tracedCalls(t, tr)
		if c.box == control {
			if calls["unshare learnable"] != 1 {
				t.Errorf("control: %v", calls)
			}
			continue
		}
		for name, errno := range deniedHere {
			if calls[name+" refused "+errno] == 0 {
				t.Errorf("%s: %s is not told as refused with %s", c.name, name, errno)
			}
			if calls[name+" learnable"] != 0 || slices.Contains(tr.Additions, name) {
				t.Errorf("%s: %s is told as learnable", c.name, name)
			}
		}
		var want []string
		for _, name := range learntHere {
			want = append(want, name)
		}
		slices.Sort(want)
		if !slices.Equal(tr.Additions, want) {
			t.Errorf("%s: additions %v, want %v", c.name, tr.Additions, want)
		}
	}
}

// Each call of the kill class ends a traced cell as it ends any other, and is told as what it is. The control lets it
// through.
//
// proves H-19
// proves part of O-12
func TestTraceKillClass(t *testing.T) {
	prog := binary(testenv.C(t, killC))
	control := without(t, "judge")
	for _, k := range killed {
		prog.Args = []string{k.name}
		r, tr := trace(t, box(t), prog, true)
		if r.Verdict != "denied" || r.Syscall != k.name || r.Stdout != "" || tracedCalls(t, tr)[k.name+" killed"] != 1 || len(tr.Additions) > 0 {
			t.Errorf("%s: verdict %s %q, output %q, %v", k.name, r.Verdict, r.Syscall, r.Stdout, tr)
		}
		r, _ = trace(t, control, prog, true)
		if got := answers(r.Stdout)[k.name]; r.Verdict != "ok" || !strings.Contains("|"+k.control+"|", "|"+got+"|") {
			t.Errorf("%s, control: verdict %s, answer %s, want %s", k.name, r.Verdict, got, k.control)
		}
	}
	prog = binary(testenv.C(t, foreignC))
	for _, entry := range []string{"i386", "x32"} {
		prog.Args = []string{entry}
		r, tr := trace(t, box(t), prog, true)
		if calls := tracedCalls(t, tr); r.Verdict != "denied" || r.Stdout != "before OK\n" || calls[r.Syscall+" killed"] != 1 {
			t.Errorf("%s: verdict %s %q, output %q, %v", entry, r.Verdict, r.Syscall, r.Stdout, calls)
		}
	}
}

// A traced guest cannot get away with a call of the kill class by interrupting it, nor by making it first of all.
//
// proves part of H-19
func TestTraceKillInterrupted(t *testing.T) {
	prog := cProgram(t, racedC, "-pthread")
	for range 3 {
		if r, _ := trace(t, box(t), prog, true); r.Verdict != "denied" || r.Stdout != "" {
			t.Errorf("verdict %s %s, call %q, output %q", r.Verdict, r.Message, r.Syscall, r.Stdout)
		}
	}
	prog = binary(testenv.C(t, `void _start(void) { long r; __asm__ volatile("syscall" : "=a"(r) : "a"(101), "D"(0x4206L), "S"(1L), "d"(0L) : "rcx", "r11", "memory"); for (;;); }`,
		"-static", "-nostdlib"))
	for range 20 {
		r, tr := trace(t, box(t), prog, true)
		if calls := tracedCalls(t, tr); r.Verdict != "denied" || r.Syscall != "ptrace" || len(calls) != 2 || calls["ptrace killed"] != 1 {
			t.Fatalf("verdict %s %s, call %q, %v", r.Verdict, r.Message, r.Syscall, calls)
		}
	}
}

// floodC makes calls without end, or of very many numbers.
const floodC = wallC + `
int main(int argc, char **argv) {
	if (!strcmp(argv[1], "numbers")) {
		for (long n = 600; n < 60600; n++) syscall(n);
		printf("done\n");
		return 0;
	}
	for (;;) syscall(SYS_kcmp, 0, 0, 99, 0, 0);
}`

// A program that makes refused calls by the hundred thousand, or calls of sixty thousand numbers, is stopped by its
// limits like any other, and the report of it stays small.
//
// proves H-19
func TestTraceVolume(t *testing.T) {
	prog := cProgram(t, floodC)
	prog.Args = []string{"forever"}
	prog.Limits.WallMS = 3000
	begin := time.Now()
	r, tr := trace(t, box(t), prog, true)
	if took := time.Since(begin); r.Verdict != "timeout" || took > 8*time.Second {
		t.Errorf("verdict %s after %v", r.Verdict, took)
	}
	text, err := json.Marshal(tr)
	if err != nil || len(text) > 16<<10 {
		t.Errorf("a report of %d bytes: %v", len(text), err)
	}
	many := int64(0)
	for _, c := range tr.Steps[0].Calls {
		if c.Call == "kcmp" && c.Errno == "EPERM" {
			many = c.Count
		}
	}
	if tr.Steps[0].Exact || many < 10_000 {
		t.Errorf("exact %v, %d calls", tr.Steps[0].Exact, many)
	}
	t.Logf("at least %d calls in 3 s, a report of %d bytes", many, len(text))

	prog.Args, prog.Limits.WallMS = []string{"numbers"}, 60_000
	r, tr = trace(t, box(t), prog, true)
	text, err = json.Marshal(tr)
	if err != nil || r.Stdout != "done\n" || len(text) > 256<<10 {
		t.Errorf("%s %q, a report of %d bytes: %v", r.Verdict, r.Stdout, len(text), err)
	}
	if calls := tracedCalls(t, tr); len(calls) != 1024 || calls["other refused"] < 50_000 {
		t.Errorf("%d kinds of calls, %d of the rest", len(calls), calls["other refused"])
	}
}

// Every call is counted, once, from the guest's exec on: none of init's, and none of a search through PATH.
//
// proves part of O-13
func TestTraceCountsExactly(t *testing.T) {
	prog := binary(testenv.C(t, `
static long call(long n) { long r; __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(0L) : "rcx", "r11", "memory"); return r; }
void _start(void) { for (int i = 0; i < 1000; i++) call(110); for (int i = 0; i < 3; i++) call(9999); call(231); }`, "-static", "-nostdlib"))
	for _, learn := range []bool{false, true} {
		_, tr := trace(t, box(t), prog, learn)
		want := map[string]int64{"execve allowed": 1, "getppid allowed": 1000, "9999 refused ENOSYS": 3, "exit_group allowed": 1}
		if got := tracedCalls(t, tr); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("learn %v: %v, want %v", learn, got, want)
		}
		if tr.Profile != "language" || len(tr.Steps) != 1 || len(tr.Additions) != 0 {
			t.Errorf("learn %v: %+v", learn, tr)
		}
	}
	_, tr := trace(t, box(t), glovebox.Program{Command: []string{"true"}}, true) // behind two directories of PATH
	if got := tracedCalls(t, tr); got["execve allowed"] != 1 || got["setsid allowed"] != 0 || got["dup3 allowed"] != 0 {
		t.Errorf("%v", got)
	}
}

// A traced compiler has a step of its own.
func TestTraceCompiler(t *testing.T) {
	r, tr := trace(t, box(t), glovebox.Program{Language: "c", Source: "int main(void) { return 7; }"}, false)
	if r.ExitCode == nil || *r.ExitCode != 7 || len(tr.Steps) != 2 || tr.Steps[0].Step != "compile" || tr.Steps[1].Step != "run" || !tr.Steps[0].Exact {
		t.Errorf("%s %+v", r.Verdict, tr)
	}
}

// What a trace says could be added suffices once it is added.
//
// proves part of O-13
func TestTraceAdditions(t *testing.T) {
	prog := cProgram(t, wallC+`int main(void) {
		int a[2], b[2];
		if (pipe(a) || pipe(b) || write(a[1], "x", 1) != 1) return 2;
		say("splice", syscall(SYS_splice, a[0], 0, b[1], 0, 1, 0));
		return 0; }`)
	run := func(b *glovebox.Box, learn bool) (string, *glovebox.Trace) {
		r, tr := trace(t, b, prog, learn)
		return r.Stdout, tr
	}
	if out, tr := run(box(t), false); out != "splice 22\n" || !slices.Equal(tr.Additions, []string{"splice"}) {
		t.Errorf("strict: %q, %+v", out, tr)
	}
	out, tr := run(box(t), true)
	if out != "splice OK\n" || !slices.Equal(tr.Additions, []string{"splice"}) {
		t.Fatalf("learning: %q, %+v", out, tr)
	}
	o := options()
	o.Profiles = map[string][]string{tr.Profile: tr.Additions}
	wider, err := glovebox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer wider.Close()
	if out, tr := run(wider, false); out != "splice OK\n" || len(tr.Additions) != 0 || tracedCalls(t, tr)["splice allowed"] != 1 {
		t.Errorf("with the addition: %q, %+v", out, tr)
	}
}

// signalsPy has threads, processes and a timer that interrupts them a thousand times a second.
const signalsPy = `
import os, signal, subprocess, sys, threading
n = 0
def tick(*a):
    global n
    n += 1
signal.signal(signal.SIGALRM, tick)
signal.siginterrupt(signal.SIGALRM, sys.argv[1] == "interrupt")
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
lock, sums = threading.Lock(), []
def work():
    for i in range(300):
        fd = os.open("/usr", os.O_RDONLY); os.close(fd)
        with lock: sums.append(1)
ts = [threading.Thread(target=work) for _ in range(4)]
[x.start() for x in ts]; [x.join() for x in ts]
out = [subprocess.run(["echo", str(i)], capture_output=True, text=True).stdout for i in range(5)]
while n < 20: os.getppid()
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(sums), "".join(out).split())
`

// A trace takes nothing from a program but time: signals in the middle of calls, threads, and processes work; a trace of
// refused calls alone even where a signal interrupts what it meets.
//
// proves part of O-13
func TestTraceTransparent(t *testing.T) {
	for _, c := range []struct {
		arg string
		how glovebox.Tracing
	}{{"restart", glovebox.Tracing{Learn: true, Allowed: true}}, {"restart", glovebox.Tracing{Learn: true}}, {"interrupt", glovebox.Tracing{Learn: true}}} {
		p, tr := python(signalsPy), glovebox.Trace{}
		p.Args = []string{c.arg}
		for range 5 {
			r, err := box(t).Run(t.Context(), p, glovebox.WithTrace(&tr, c.how))
			if want := "1200 ['0', '1', '2', '3', '4']\n"; err != nil || r.Verdict != "ok" || r.Stdout != want || r.Stderr != "" {
				t.Fatalf("%v: %v %s %q %q", c, err, r.Verdict, r.Stdout, r.Stderr)
			}
			calls := tracedCalls(t, &tr)
			if calls["clone3 refused ENOSYS"] == 0 || c.how.Allowed != (calls["openat allowed"] > 0) {
				t.Errorf("%v: %v", c, calls)
			}
		}
	}
}

// A trace that is canceled ends at once and tells what it has; one of a command that is not there tells that nothing ran.
func TestTraceEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var tr glovebox.Trace
	p := python("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
	r, err := box(t).Run(ctx, p, glovebox.WithTrace(&tr, glovebox.Tracing{Learn: true, Allowed: true}), glovebox.WithEvents(func(e glovebox.Event) {
		if e.Type == "chunk" {
			cancel()
		}
	}))
	if err != nil || r.Verdict != "canceled" || len(tr.Steps) != 1 || tr.Steps[0].Exact || len(tr.Steps[0].Calls) < 10 {
		t.Errorf("%v, %+v, %+v", err, r, tr)
	}
	r, none := trace(t, box(t), glovebox.Program{Command: []string{"no-such-command"}}, true)
	if r.ExitCode == nil || *r.ExitCode != 127 || len(none.Steps) != 1 || len(none.Steps[0].Calls) != 0 {
		t.Errorf("%+v, %+v", r, none)
	}
}

// Where another layer is missing nothing is traced, although programs run there.
//
// proves H-19
func TestTraceNeedsEveryLayer(t *testing.T) {
	b := without(t, "landlock")
	if r := run(t, b, glovebox.Program{Command: []string{"true"}}); r.Verdict != "ok" {
		t.Fatal(r.Verdict)
	}
	var tr glovebox.Trace
	var missing *glovebox.SandboxError
	_, err := b.Run(t.Context(), glovebox.Program{Command: []string{"true"}}, glovebox.WithTrace(&tr, glovebox.Tracing{Learn: true, Allowed: true}))
	if !errors.As(err, &missing) || !strings.Contains(missing.Reason, "landlock") || len(tr.Steps) > 0 {
		t.Errorf("%v, %+v", err, tr)
	}
}
