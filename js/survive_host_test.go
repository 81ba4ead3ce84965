package js_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

func quoted(s string) string { b, _ := json.Marshal(s); return string(b) }

// Fifty runtimes at once, hostile ones among them, each come to their own end and
// disturb nobody; nothing of them is left.
//
// proves G-11
func TestFiftyRuntimes(t *testing.T) {
	before := len(testenv.Descendants(os.Getpid()))
	p, err := js.NewPool(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker(),
		Limits: js.Limits{TimeoutMS: 60_000, HardMS: 120_000, CPUMS: 240_000, MemoryBytes: 64 << 20}}, js.PoolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	programs := [][2]string{
		{"let n = 0; for (let i = 0; i < 20000; i++) n += i; n", "199990000"}, {"const k = []; for (;;) k.push('x'.repeat(1 << 20) + k.length)", "memory_limit"}, {"(() => { const k = []; try { for (;;) k.push(new Uint8Array(1 << 20)) } catch (e) { return e.name } })()", `"RangeError"`},
		{"Object.prototype.mine = 1; Array.prototype.map = null; 'spoilt'", `"spoilt"`}, {"typeof mine + typeof [].map", `"undefinedfunction"`}, {"new Array(2 ** 32 - 1).fill(0)", "memory_limit"}, {"throw new TypeError('x')", "thrown TypeError"},
		{"new Promise(() => {})", "never_settles Error"}, {"'x'.repeat(1 << 20).length", "1048576"}, {"(function f() { f() })()", "thrown RangeError"},
	}
	var all, ready sync.WaitGroup
	ready.Add(50)
	for i := range 50 {
		all.Go(func() {
			rt, err := p.Checkout(ctx)
			ready.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer rt.Close()
			ready.Wait() // all fifty live
			program := programs[i%len(programs)]
			if got := caseEval(t, rt, program[0]); got != program[1] {
				t.Errorf("%s: %s, not %s", program[0], got, program[1])
			}
		})
	}
	all.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if after := len(testenv.Descendants(os.Getpid())); after != before {
		t.Errorf("%d processes became %d", before, after)
	}
}

// Children of the host that start and end meanwhile have their own exit codes, and
// runtimes theirs.
func TestHostChildren(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 60_000}})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 10 {
				err := exec.Command("/bin/sh", "-c", fmt.Sprintf("exit %d", i)).Run()
				code := 0
				if exit, ok := err.(*exec.ExitError); ok {
					code = exit.ExitCode()
				} else if err != nil {
					code = -1
				}
				if code != i {
					t.Errorf("exit code %d, not %d: %v", code, i, err)
				}
			}
		})
	}
	for range 4 {
		if got := text(t, open(t, js.Options{}), "6 * 7"); got != "42" {
			t.Error(got)
		}
		if got := text(t, rt, "(() => { let s = 0; for (let i = 0; i < 1e5; i++) s += i; return s })()"); got != "4999950000" {
			t.Error(got)
		}
	}
	all.Wait()
}

// workerOf is the worker among the processes that come from this one.
func workerOf(t *testing.T, pid int) int {
	t.Helper()
	for _, p := range testenv.Descendants(pid) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
		if strings.Contains(string(b), "interpreter\x00nowasm") {
			return p
		}
	}
	t.Fatal("there is no worker")
	return 0
}

// A worker that is killed from outside ends its evaluation at once with its own
// kind, and the runtime after it is fine.
func TestWorkerKilled(t *testing.T) {
	for _, name := range []string{"while it runs", "while it is idle", "while the host answers"} {
		rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 60_000}})
		kill := func() {
			fd := testenv.HoldDescendant(workerOf(t, os.Getpid()))
			defer unix.Close(fd)
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
				t.Error(err)
			}
			if !testenv.EndsWithin(fd, 10*time.Second) {
				t.Error("it lives")
			}
		}
		began := make(chan struct{}, 1)
		if err := rt.Bind(ctx, "began", func() {
			if name == "while the host answers" {
				kill()
			}
			began <- struct{}{}
		}); err != nil {
			t.Fatal(err)
		}
		if name == "while it is idle" {
			kill()
		} else if name == "while it runs" {
			go func() { <-began; kill() }()
		}
		begin := time.Now()
		_, err := rt.Eval(ctx, "began(); for (;;) ;")
		if js.KindOf(err) != js.Crashed || time.Since(begin) > 10*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(begin))
		}
		if _, err := rt.Eval(ctx, "1"); js.KindOf(err) != js.Closed {
			t.Errorf("%s, afterwards: %v", name, err)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := text(t, open(t, js.Options{}), "1"); got != "1" {
		t.Error(got)
	}
}

// hostChild names what this test binary does instead of running tests.
const hostChild = "GLOVEBOX_TEST_JS_HOST"

// hostMain is a host whose guest runs for ever; it says when it does.
func hostMain() int {
	rt, err := js.New(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker(), Limits: js.Limits{TimeoutMS: 600_000}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := rt.Bind(ctx, "began", func() { fmt.Println("began") }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, err = rt.Eval(context.Background(), "began(); for (;;) ;")
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// With its host, killed while a guest runs, dies every process that belonged to it.
func TestHostKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hostChild+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "began\n" {
		t.Errorf("%q, %v", line, err)
	}
	workerOf(t, cmd.Process.Pid)
	var fds []int
	for _, pid := range testenv.Descendants(cmd.Process.Pid) {
		fds = append(fds, testenv.OpenProcess(t, pid))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if len(fds) < 3 {
		t.Errorf("%d processes: launcher, init and worker were expected", len(fds))
	}
	for _, fd := range fds {
		if fd >= 0 && !testenv.EndsWithin(fd, 10*time.Second) {
			t.Error("a process outlives its host")
		}
	}
}
