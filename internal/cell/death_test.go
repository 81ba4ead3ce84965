package cell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// deathVar makes this test binary a host program that stops at one step of a
// cell's life, says so, and waits to be killed.
const deathVar = "GLOVEBOX_CELL_DEATH"

func init() {
	step := os.Getenv(deathVar)
	if step == "" {
		return
	}
	os.Unsetenv(deathVar)
	if err := dieAt(step); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// steps are where a host is killed. The number is how many processes must have
// come from it by then at the least: the launcher, init, the guest.
var steps = []struct {
	name      string
	processes int
}{
	{"launcher", 1}, {"prepared", 1}, {"arming", 2}, {"armed", 2}, {"handing over", 2},
	{"running", 3}, {"descendants", 12}, {"settling", 2}, {"ended", 1}, {"pool", 3},
}

// hold says that a step is reached and waits for ever; what was asked for first
// goes on beside it.
func hold(step string) {
	fmt.Println("at", step)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// dieAt goes through a cell's life up to a step. Layers after a "-" are off.
func dieAt(name string) error {
	step, off, _ := strings.Cut(name, "-")
	cfg := refuseConfig()
	if off != "" {
		cfg.Mode, cfg.ControlOff = Off, []string{off}
	}
	if step == "pool" {
		cfg.Armed, cfg.Reserve = 2, 2
	}
	h, err := Open(cfg)
	if err != nil {
		return err
	}
	limits, err := api.Limits{WallMS: 300}.Resolve(api.DefaultLimits(), cfg.Max)
	if err != nil {
		return err
	}
	job := &Job{Profile: DefaultProfile, Argv: []string{"/bin/sleep", "100"}, Limits: limits}
	switch step {
	case "running", "spinning", "descendants", "settling", "ended":
		return dieRunning(h, job, step)
	}
	return dieArming(h, job, step)
}

// dieArming holds before there is a guest.
func dieArming(h *Host, job *Job, step string) error {
	switch step {
	case "prepared":
		if _, err := h.prepare(); err != nil {
			return err
		}
	case "arming":
		for {
			c, err := h.arm(defaultKind(), nil)
			if err != nil {
				return err
			}
			go c.destroy()
			fmt.Println("at", step)
		}
	case "armed", "handing over":
		c, err := h.arm(defaultKind(), nil)
		if err != nil {
			return err
		}
		if step == "handing over" {
			if err := c.handOver(job.Limits, false); err != nil {
				return err
			}
		}
	case "pool":
		for len(h.pool.ready) < 2 {
			time.Sleep(time.Millisecond) // only the pool knows
		}
	}
	hold(step)
	return nil
}

// dieRunning holds once the guest runs, or has said something where it makes
// others first, or ends.
func dieRunning(h *Host, job *Job, step string) error {
	switch step {
	case "spinning":
		job.Argv, job.Limits.WallMS, job.Limits.CPUMS = []string{"/bin/sh", "-c", "echo; while :; do :; done"}, 60_000, 900
	case "descendants":
		job.Argv = []string{"/bin/sh", "-c", "trap '' TERM HUP INT; for i in 1 2 3 4 5; do (setsid sleep 100 &) ; sleep 100 & done; echo; wait"}
		job.Limits.WallMS = 60_000
	case "settling":
		for job.Limits.WallMS = 50; ; {
			fmt.Println("at", step)
			if _, err := h.Run(context.Background(), job, Streams{}); err != nil {
				return err
			}
		}
	case "ended":
		job.Argv = []string{"/bin/true"}
	}
	_, err := h.Run(context.Background(), job, Streams{Event: func(e api.Event) {
		if e.Type == "chunk" || e.Type == "started" && step == "running" {
			fmt.Println("at", step)
		}
	}})
	if err == nil {
		hold(step)
	}
	return err
}

// host is such a program, seen from the test.
type host struct {
	cmd   *exec.Cmd
	pidfd int
	said  chan string
}

func startHost(t *testing.T, step string) *host {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), deathVar+"="+step, "GLOVEBOX_TEST_INIT="+testenv.Init())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &host{cmd: cmd, said: make(chan string, 1), pidfd: testenv.OpenProcess(t, cmd.Process.Pid)}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	go func() {
		defer close(h.said)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case h.said <- lines.Text():
			default:
			}
		}
	}()
	return h
}

// await waits until the host has said that it is at its step.
func (h *host) await(t *testing.T) {
	t.Helper()
	select {
	case s, ok := <-h.said:
		if !ok || !strings.HasPrefix(s, "at ") {
			t.Fatalf("the host program said %q", s)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the host program does not come to its step")
	}
}

// family opens a handle of every process that comes from the host.
func (h *host) family(t *testing.T) map[int]int {
	t.Helper()
	all := map[int]int{}
	for _, pid := range testenv.Descendants(h.cmd.Process.Pid) {
		if fd := testenv.OpenProcess(t, pid); fd >= 0 {
			all[pid] = fd
		}
	}
	return all
}

// A host program that is killed at any step of a cell's life leaves no process
// behind: two seconds later launcher, init, guest and what the guest made are
// gone, as their handles tell, opened while they lived.
//
// proves O-15
func TestHostKilled(t *testing.T) {
	for _, s := range steps {
		for range map[bool]int{true: 3, false: 1}[s.name == "arming" || s.name == "settling"] {
			h := startHost(t, s.name)
			h.await(t)
			all := h.family(t)
			for try := 0; len(all) < s.processes && try < 200 && (s.name == "arming" || s.name == "settling"); try++ {
				h.await(t) // cells come and go: another moment of the step
				all = h.family(t)
			}
			if len(all) < s.processes {
				t.Errorf("%s: %d processes, want %d", s.name, len(all), s.processes)
			}
			if err := unix.PidfdSendSignal(h.pidfd, unix.SIGKILL, nil, 0); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(2 * time.Second)
			for pid, fd := range all {
				if !testenv.EndsWithin(fd, time.Until(deadline)) {
					t.Errorf("%s: process %d outlives its host", s.name, pid)
				}
			}
		}
	}
	// What was left of their groups the next host has swept away.
	h := openHost(t, 0)
	if r, err := h.Run(context.Background(), trueJob(t, h), Streams{}); err != nil || r.Verdict != api.OK {
		t.Errorf("after all of them: %v %+v", err, r)
	}
}

// A host program that is stopped does not keep its guests alive: the keeper
// inside ends the cell at the limit and a second, and the kernel's own limit
// ends one that burns its processor time. Without that keeper, or that limit,
// the cell lives on.
//
// proves part of H-18
func TestHostStopped(t *testing.T) {
	const wall = 300 * time.Millisecond
	for step, gone := range map[string]bool{"running": true, "running-deadline": false} {
		h := startHost(t, step)
		h.await(t)
		_, guest := h.guest(t)
		begin := h.stop(t)
		patience := map[bool]time.Duration{true: 30 * time.Second, false: wall + 2*grace}[gone]
		if is := testenv.EndsWithin(guest, patience); is != gone {
			t.Errorf("%s: the guest is gone: %v, after %v", step, is, time.Since(begin))
		}
		if took := time.Since(begin); gone && took < wall/2 {
			t.Errorf("%s: gone after %v: it was not the keeper", step, took)
		}
	}
	// Whatever share of the processor the guest gets: its own time decides.
	const limit = 2 * time.Second // 900 ms, a whole second more, rounded up
	for step, gone := range map[string]bool{"spinning": true, "spinning-rlimits": false} {
		h := startHost(t, step)
		h.await(t)
		pid, guest := h.guest(t)
		h.stop(t)
		used, is := time.Duration(0), false
		for begin := time.Now(); !is && used < limit+time.Second && time.Since(begin) < 50*time.Second; {
			is = testenv.EndsWithin(guest, 10*time.Millisecond)
			if now, err := testenv.CPUTime(pid); err == nil {
				used = now
			}
		}
		if is != gone || !is && used < limit || is && used > limit+time.Second/2 {
			t.Errorf("%s: the guest is gone: %v, after %v of processor time, limit %v", step, is, used, limit)
		}
	}
}

// stop stops the host program and returns when.
func (h *host) stop(t *testing.T) time.Time {
	t.Helper()
	if err := unix.PidfdSendSignal(h.pidfd, unix.SIGSTOP, nil, 0); err != nil {
		t.Fatal(err)
	}
	return time.Now()
}

// A cell whose control socket is closed is gone at once: armed, handed its
// limits, or running.
//
// proves H-18
func TestControlLost(t *testing.T) {
	h := openHost(t, 0)
	for _, handed := range []bool{false, true} {
		c, err := h.arm(defaultKind(), nil)
		if err == nil && handed {
			err = c.handOver(trueJob(t, h).Limits, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.control.Close()
		if !c.gone(time.Second) {
			t.Errorf("handed over %v: the cell lives on", handed)
		}
		c.destroy()
	}
	sleep := trueJob(t, h)
	sleep.Argv = []string{"/bin/sleep", "100"}
	c, _, err := (&run{h: h, job: sleep}).acquire()
	if err != nil {
		t.Fatal(err)
	}
	r := &run{h: h, job: sleep, c: c, ctx: context.Background()}
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	c.control.Close()
	if !c.gone(time.Second) {
		t.Error("running: the cell lives on")
	}
	r.watch()
	r.ended = time.Now()
	r.settle()
}

// guest is the youngest process, which has no child, and its handle.
func (h *host) guest(t *testing.T) (pid, pidfd int) {
	t.Helper()
	for pid, fd := range h.family(t) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if s := strings.TrimSpace(string(name)); len(testenv.Children(pid)) == 0 && (s == "sleep" || s == "sh") {
			return pid, fd
		}
	}
	t.Fatal("no guest")
	return 0, -1
}

// Threads of the host that end, a thousand of them, end no cell: the launcher
// hangs on a thread of its own.
//
// proves H-49
func TestThreadsThatEnd(t *testing.T) {
	h := openHost(t, 0)
	var cells []*cell
	for range 8 {
		c, err := h.arm(defaultKind(), nil)
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, c)
	}
	endThreads(1000)
	for i, c := range cells {
		if err := unix.PidfdSendSignal(c.pidfd, 0, nil, 0); err != nil || c.gone(0) {
			t.Errorf("cell %d died: %v", i, err)
		}
		if err := c.handOver(trueJob(t, h).Limits, false); err != nil {
			t.Errorf("cell %d: %v", i, err)
		}
		c.destroy()
	}
	if lost := h.launcher.lost(); lost != nil {
		t.Error(lost)
	}
	// Control: a child that a thread starts with the signal ends with it.
	if err := childOfThread(); !errors.Is(err, errKilled) {
		t.Errorf("control: %v", err)
	}
}
