//go:build linux

package cgroup

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// helperEnv names the mode in which the test binary impersonates a program.
const helperEnv = "GLOVEBOX_CGROUP_HELPER"

// init keeps the main thread to the main goroutine: a thread that enters a group
// must never be the main one, whose death is the death of all.
func init() { runtime.LockOSThread() }

// helpers are the programs. Each gets its arguments and returns its exit code.
var helpers = map[string]func(args []string) int{
	"wait":     helperWait,
	"alloc":    helperAlloc,
	"fork":     helperFork,
	"spin":     helperSpin,
	"hold":     helperHold,
	"user":     helperUser,
	"members":  helperMembers,
	"launcher": helperLauncher,
	"touch":    helperTouch,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		f, ok := helpers[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no helper", name)
			os.Exit(99)
		}
		os.Exit(f(os.Args[1:]))
	}
	testenv.Deselect()
	os.Exit(m.Run())
}

// helperWait says that it is there and waits for the end of its input.
func helperWait([]string) int {
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// helperAlloc touches so many MiB, says so, and waits.
func helperAlloc(args []string) int {
	mb, _ := strconv.Atoi(args[0])
	var keep [][]byte
	for range min(mb, 512) {
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return 3
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		keep = append(keep, b)
	}
	code := helperWait(nil)
	runtime.KeepAlive(keep)
	return code
}

// helperFork starts so many waiting children, at most 64, and says how many it got.
func helperFork(args []string) int {
	n, _ := strconv.Atoi(args[0])
	got := 0
	for range min(n, 64) {
		p, err := os.StartProcess("/proc/self/exe", []string{"child"}, &os.ProcAttr{
			Env: []string{helperEnv + "=wait"}, Files: []*os.File{os.Stdin, nil, nil}})
		if err != nil {
			break
		}
		got++
		_ = p.Release()
	}
	fmt.Println(got)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// helperSpin burns so many milliseconds of CPU time, at most ten seconds by the clock.
func helperSpin(args []string) int {
	ms, _ := strconv.Atoi(args[0])
	end := time.Now().Add(10 * time.Second)
	for time.Now().Before(end) {
		var ru unix.Rusage
		if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
			return 3
		}
		if time.Duration(ru.Utime.Nano()+ru.Stime.Nano()) >= time.Duration(ms)*time.Millisecond {
			break
		}
	}
	return helperWait(nil)
}

// helperTouch reads a file, whose pages are charged to this process's group if nobody
// has read it before, and waits.
func helperTouch(args []string) int {
	if _, err := os.ReadFile(args[0]); err != nil {
		fmt.Println(err)
		return 3
	}
	return helperWait(nil)
}

// helperMembers prints its own /proc/self/cgroup as its first act.
func helperMembers([]string) int {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 3
	}
	line, _ := json.Marshal(string(text))
	fmt.Println(string(line))
	return 0
}

// helperHold opens a parent, makes a group with a waiting child in it, prints their
// names and waits; it is killed in between.
func helperHold([]string) int {
	h, err := Find()
	if err != nil {
		fmt.Println("error", err)
		return 3
	}
	p, err := h.Open()
	if err != nil {
		fmt.Println("error", err)
		return 3
	}
	g, err := p.NewGroup()
	if err != nil {
		fmt.Println("error", err)
		return 3
	}
	c := &child{name: "wait", stdin: os.Stdin}
	if err := c.start(p, g); err != nil {
		fmt.Println("error", err)
		return 3
	}
	if _, err := c.line(); err != nil {
		fmt.Println("error", err)
		return 3
	}
	fmt.Println(p.Name())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// helperUser walks through a whole life as whoever it is run as and prints what it saw
// as one line.
func helperUser([]string) int {
	say := func(s string) int { fmt.Println(strings.ReplaceAll(s, "\n", " ")); return 0 }
	h, err := Find()
	if err != nil {
		return say("find: " + err.Error())
	}
	if n, err := h.Sweep(); err != nil || n != 0 {
		return say(fmt.Sprint("sweep: ", n, err))
	}
	p, err := h.Open()
	if err != nil {
		return say("open: " + err.Error())
	}
	g, err := p.NewGroup()
	if err != nil {
		return say("group: " + err.Error())
	}
	l := Limits{MemoryBytes: 64 << 20, Tasks: 30, CPUPercent: 100}
	if err := g.SetLimits(l); err != nil {
		return say("limits: " + err.Error())
	}
	c := &child{name: "wait"}
	if err := c.start(p, g); err != nil {
		return say("start: " + err.Error())
	}
	if _, err := c.line(); err != nil {
		return say("child: " + err.Error())
	}
	if err := c.member(g); err != nil {
		return say("member: " + err.Error())
	}
	if err := g.CheckLimits(l); err != nil {
		return say("check: " + err.Error())
	}
	c.end()
	if err := g.Remove(); err != nil {
		return say("remove: " + err.Error())
	}
	if err := p.Close(); err != nil {
		return say("close: " + err.Error())
	}
	return say("good " + h.Describe())
}

// helperLauncher waits for a line, starts a process in the group that its descriptors
// from 3 on lead to, and prints what that process read about itself.
func helperLauncher(args []string) int {
	say := func(v ...any) int { fmt.Println(strings.ReplaceAll(fmt.Sprint(v...), "\n", " ")); return 0 }
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return 3
	}
	n, _ := strconv.Atoi(args[1])
	var entry, home []*os.File
	for i := range n {
		entry = append(entry, os.NewFile(uintptr(3+i), "entry"))
		home = append(home, os.NewFile(uintptr(3+n+i), "home"))
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperEnv+"=members")
	if args[0] == "unified" {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: 3, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWCGROUP}
		out, err := cmd.Output()
		if err != nil {
			return say("start: ", err)
		}
		return say(string(out))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	var out []byte
	err := onThread(func() error {
		if err := enter(entry); err != nil {
			return err
		}
		var err error
		out, err = cmd.Output()
		return errors.Join(err, enter(home))
	})
	if err != nil {
		return say("start: ", err)
	}
	return say(string(out))
}

// child is a helper that runs in a group from birth.
type child struct {
	name   string
	args   []string
	stdin  *os.File            // instead of a pipe of its own
	attr   syscall.SysProcAttr // what else to ask for
	files  []*os.File          // descriptors from 3 on
	cmd    *exec.Cmd
	in     io.Closer
	out    *bufio.Reader
	stderr strings.Builder
	done   bool
}

// start starts the helper in the group, or where this process is if the group is nil.
func (c *child) start(p *Parent, g *Group) error {
	c.cmd = exec.Command("/proc/self/exe", c.args...)
	c.cmd.Env = append(os.Environ(), helperEnv+"="+c.name, "GORACE=atexit_sleep_ms=0")
	c.cmd.SysProcAttr = &c.attr
	c.cmd.ExtraFiles = c.files
	c.cmd.Stderr = &c.stderr
	if c.stdin != nil {
		c.cmd.Stdin = c.stdin
	} else {
		in, err := c.cmd.StdinPipe()
		if err != nil {
			return err
		}
		c.in = in
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.out = bufio.NewReader(out)
	if g == nil {
		return c.cmd.Start()
	}
	files, err := g.EntryFiles()
	if err != nil {
		return err
	}
	if g.Unified() {
		c.attr.UseCgroupFD, c.attr.CgroupFD = true, int(files[0].Fd())
		return c.cmd.Start()
	}
	home, err := p.HomeFiles()
	if err != nil {
		return err
	}
	return onThread(func() error {
		if err := enter(files); err != nil {
			return err
		}
		err := c.cmd.Start()
		if back := enter(home); err == nil {
			err = back
		}
		return err
	})
}

// onThread runs f on a thread of its own, which ends with it and is never the main one.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the runtime ends the thread
		done <- f()
	}()
	return <-done
}

// enter moves the calling thread into the groups.
func enter(files []*os.File) error {
	for _, f := range files {
		if _, err := f.Write([]byte("0")); err != nil {
			return err
		}
	}
	return nil
}

// line reads the helper's next line.
func (c *child) line() (string, error) {
	s, err := c.out.ReadString('\n')
	return strings.TrimSuffix(s, "\n"), err
}

// member asks for the evidence that the helper is in the group.
func (c *child) member(g *Group) error {
	dir, err := os.Open(fmt.Sprintf("/proc/%d", c.cmd.Process.Pid))
	if err != nil {
		return err
	}
	defer dir.Close()
	return g.Member(int(dir.Fd()))
}

// end closes the helper's input and waits for it.
func (c *child) end() {
	if c.done || c.cmd == nil || c.cmd.Process == nil {
		return
	}
	c.done = true
	if c.in != nil {
		_ = c.in.Close()
	}
	timer := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, c.out)
	_ = c.cmd.Wait()
}

// run starts a helper in the group and ends it with the test.
func run(t *testing.T, p *Parent, g *Group, name string, args ...string) *child {
	t.Helper()
	c := &child{name: name, args: args}
	if err := c.start(p, g); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(c.end)
	return c
}

// openHost opens this machine's groups for one test, which must leave nothing.
func openHost(t *testing.T) *Parent {
	t.Helper()
	h, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	dirs := p.dirs()
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for _, d := range dirs {
			if _, err := os.Stat(d); !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", d, err)
			}
		}
	})
	return p
}

// dirs lists the parent's directories.
func (p *Parent) dirs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, s := range p.seats {
		out = append(out, s.dir)
	}
	return out
}

// newGroup makes a group for one test.
func newGroup(t *testing.T, p *Parent, l Limits) *Group {
	t.Helper()
	g, err := p.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := g.SetLimits(l); err != nil {
		t.Fatal(err)
	}
	if err := g.CheckLimits(l); err != nil {
		t.Fatal(err)
	}
	return g
}

// read reads the counters.
func read(t *testing.T, g *Group) Counters {
	t.Helper()
	c, err := g.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
