//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The tests of this file run on the control groups of the machine, whichever version
// it has, and need the right to make groups.

// roomy is enough for a helper.
var roomy = Limits{MemoryBytes: 256 << 20, Tasks: 64, CPUPercent: 200}

// TestMemberFromBirth starts a child in a group whose limits are written: what the child
// reads about itself as its first act, and what the parent reads from outside, is the
// group; this process stays where it was.
//
// proves part of X-02
func TestMemberFromBirth(t *testing.T) {
	before, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	p := openHost(t)
	g := newGroup(t, p, roomy)
	other := newGroup(t, p, roomy)

	first := run(t, p, g, "members")
	text, err := first.line()
	if err != nil {
		t.Fatal(err, first.stderr.String())
	}
	text, err = strconv.Unquote(text)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := parseEntries(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, pt := range g.parts {
		found := false
		for _, e := range entries {
			found = found || e.key == pt.tree.key && e.path == pt.path
		}
		if !found {
			t.Errorf("%v: not in %s at birth but in\n%s", pt.tree.controllers, pt.path, text)
		}
	}

	c := run(t, p, g, "wait")
	if _, err := c.line(); err != nil {
		t.Fatal(err)
	}
	if err := c.member(g); err != nil {
		t.Error(err)
	}
	if err := c.member(other); err == nil {
		t.Error("the child counts as a member of another group")
	}
	after, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if p.seats[0].moved {
		return // the one process that may be moved
	}
	if string(before) != string(after) {
		t.Errorf("this process was moved:\n%s\n%s", before, after)
	}
}

// TestNotMember asks for this process, which is outside, and for what is no process.
func TestNotMember(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, roomy)
	for _, name := range []string{"/proc/self", "/proc", t.TempDir()} {
		dir, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Member(int(dir.Fd())); err == nil {
			t.Errorf("%s counts as a member", name)
		}
		dir.Close()
	}
}

// TestOOMGroupOnV2 has one process over the limit: all of the cell go.
func TestOOMGroupOnV2(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, Limits{MemoryBytes: 48 << 20, Tasks: 64})
	quiet := run(t, p, g, "wait")
	if _, err := quiet.line(); err != nil { // it lives before there is one that takes it along
		t.Fatal(err)
	}
	bad := run(t, p, g, "alloc", "200")
	_, _ = bad.line()
	for _, c := range []*child{bad, quiet} {
		_ = c.cmd.Wait()
		c.done = true
		if st := c.cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != syscall.SIGKILL {
			t.Errorf("%s: %v", c.name, c.cmd.ProcessState)
		}
	}
	if oom := *read(t, g).OOMKills; oom < 2 {
		t.Errorf("%d kills", oom)
	}
}

// TestMemoryLimit asks for more than the limit: the kernel kills the child, and the
// counters say why. A child below the limit is let live.
//
// proves part of X-06
func TestMemoryLimit(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, Limits{MemoryBytes: 48 << 20, Tasks: 32})
	good := run(t, p, g, "alloc", "8")
	if s, err := good.line(); err != nil || s != "ready" {
		t.Fatalf("a child within its limit: %q, %v", s, err)
	}
	c := read(t, g)
	if c.OOMKills == nil || *c.OOMKills != 0 {
		t.Errorf("OOM kills before: %v", c.OOMKills)
	}
	if c.MemoryBytes == nil || *c.MemoryBytes < 8<<20 {
		t.Errorf("memory in use: %v", c.MemoryBytes)
	}
	good.end()

	bad := run(t, p, g, "alloc", "200")
	s, err := bad.line()
	bad.end()
	if err == nil {
		t.Fatalf("200 MiB in 48: said %q", s)
	}
	if st := bad.cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != syscall.SIGKILL {
		t.Errorf("ended by %v", bad.cmd.ProcessState)
	}
	c = read(t, g)
	if c.OOMKills == nil || *c.OOMKills < 1 {
		t.Errorf("OOM kills after: %v", c.OOMKills)
	}
	if c.PeakBytes != nil && (*c.PeakBytes < 40<<20 || *c.PeakBytes > 49<<20) {
		t.Errorf("peak %d bytes", *c.PeakBytes)
	}
}

// TestTaskLimit lets a child fork beyond the bound: the number of tasks never passes it
// and the refusals are counted.
//
// proves part of O-10
func TestTaskLimit(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, Limits{MemoryBytes: 512 << 20, Tasks: 24})
	c := run(t, p, g, "fork", "40")
	said, err := c.line() // its runtime may also give up for want of a thread
	if n, _ := strconv.Atoi(said); err == nil && n >= 40 {
		t.Errorf("%d children in 24 tasks", n)
	}
	got := read(t, g)
	if got.PidsMaxHits == nil || *got.PidsMaxHits < 1 {
		t.Errorf("refused forks: %v", got.PidsMaxHits)
	}
	if got.Tasks == nil || *got.Tasks > 24 {
		t.Errorf("tasks: %v", got.Tasks)
	}
	if err := g.SetTasks(7); err != nil {
		t.Error(err)
	}
	if err := g.CheckLimits(Limits{MemoryBytes: 512 << 20, Tasks: 7}); err != nil {
		t.Error(err)
	}
}

// TestCPU burns a tenth of a second of CPU time at a fifth of a core: it takes its time
// by the clock, and the counter shows what was used.
func TestCPU(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, Limits{MemoryBytes: 128 << 20, Tasks: 32, CPUPercent: 20})
	begin := time.Now()
	c := run(t, p, g, "spin", "100")
	if _, err := c.line(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 250*time.Millisecond {
		t.Errorf("100 ms at 20 %% took %v", took)
	}
	used, err := g.CPUUsec()
	if err != nil {
		t.Fatal(err)
	}
	if used < 90_000 || used > 2_000_000 {
		t.Errorf("used %d µs", used)
	}
	c.end()
	if again, err := g.CPUUsec(); err != nil || again < used {
		t.Errorf("after the end %d µs, before %d: %v", again, used, err)
	}
}

// TestFreshCounters runs something large and then looks at the next group: nothing of
// the first shows in it.
//
// proves part of H-24
func TestFreshCounters(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, roomy)
	c := run(t, p, g, "alloc", "100")
	if _, err := c.line(); err != nil {
		t.Fatal(err)
	}
	c.end()
	if peak := read(t, g).PeakBytes; peak != nil && *peak < 100<<20 {
		t.Errorf("peak %d", *peak)
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	next := newGroup(t, p, roomy)
	got := read(t, next)
	for name, v := range map[string]*int64{"cpu": got.CPUUsec, "memory": got.MemoryBytes,
		"peak": got.PeakBytes, "oom": got.OOMKills, "pids": got.PidsMaxHits, "tasks": got.Tasks} {
		if v != nil && *v != 0 {
			t.Errorf("%s of a new group is %d", name, *v)
		}
	}
	if next.Name() == g.Name() {
		t.Errorf("the name %s was used twice", g.Name())
	}
}

// TestCheckLimits changes each limit behind the group's back and expects the check to
// see it.
//
// proves part of H-21
func TestCheckLimits(t *testing.T) {
	p := openHost(t)
	l := Limits{MemoryBytes: 64<<20 + 5, Tasks: 20, CPUPercent: 50}
	g := newGroup(t, p, l)
	changes := []Limits{
		{MemoryBytes: 32 << 20, Tasks: 20, CPUPercent: 50},
		{MemoryBytes: 96 << 20, Tasks: 20, CPUPercent: 50},
		{MemoryBytes: 64 << 20, Tasks: 21, CPUPercent: 50},
		{MemoryBytes: 64 << 20, Tasks: 20, CPUPercent: 51},
		{MemoryBytes: 64 << 20, Tasks: 20, CPUPercent: 2},
		{MemoryBytes: 64 << 20, Tasks: 20},
	}
	for _, other := range changes {
		if err := g.SetLimits(other); err != nil {
			t.Fatalf("%+v: %v", other, err)
		}
		if err := g.CheckLimits(other); err != nil {
			t.Errorf("%+v: %v", other, err)
		}
		if err := g.CheckLimits(l); err == nil {
			t.Errorf("%+v passed as %+v", other, l)
		}
	}
	for _, bad := range []Limits{{}, {MemoryBytes: 100, Tasks: 1}, {MemoryBytes: 1 << 20},
		{MemoryBytes: 1 << 20, Tasks: -1}, {MemoryBytes: 1 << 20, Tasks: 1, CPUPercent: -1}} {
		if err := g.SetLimits(bad); !errors.Is(err, ErrLimits) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := g.SetTasks(0); !errors.Is(err, ErrLimits) {
		t.Errorf("no tasks: %v", err)
	}
}

// TestRemove uses many groups, some with members that end while Remove waits, and
// counts directories and descriptors before and after.
//
// proves part of T-10
func TestRemove(t *testing.T) {
	p := openHost(t)
	count := func() (dirs, fds int) {
		for _, d := range p.dirs() {
			names, err := subdirs(d)
			if err != nil {
				t.Fatal(err)
			}
			dirs += len(names)
		}
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return dirs, len(open)
	}
	if _, err := p.HomeFiles(); err != nil { // once and for all groups
		t.Fatal(err)
	}
	dirs, fds := count()
	for i := range 40 {
		g, err := p.NewGroup()
		if err != nil {
			t.Fatal(err)
		}
		if err := g.SetLimits(roomy); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Counters(); err != nil {
			t.Fatal(err)
		}
		if i%8 == 0 {
			c := run(t, p, g, "wait")
			if _, err := c.line(); err != nil {
				t.Fatal(err)
			}
			go func() { _ = c.in.Close() }() // it ends while Remove waits
			defer c.end()
		}
		if err := g.Remove(); err != nil {
			t.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			t.Errorf("a second time: %v", err)
		}
		if _, err := g.Counters(); !errors.Is(err, ErrRemoved) {
			t.Errorf("counters of a removed group: %v", err)
		}
		if _, err := g.EntryFiles(); !errors.Is(err, ErrRemoved) {
			t.Errorf("entry to a removed group: %v", err)
		}
	}
	nowDirs, nowFDs := count()
	if nowDirs != dirs || nowFDs > fds+5*2 { // five children still hold two pipes each
		t.Errorf("directories %d then %d, descriptors %d then %d", dirs, nowDirs, fds, nowFDs)
	}
}

// TestRemoveBusy shows that a group with a member is not removed, that the wait is
// bounded, and that the next try succeeds.
func TestRemoveBusy(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, roomy)
	c := run(t, p, g, "wait")
	if _, err := c.line(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := g.remove(50 * time.Millisecond); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removing a group with a member: %v", err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
	c.end()
	if !c.cmd.ProcessState.Success() {
		t.Errorf("the member was harmed: %v", c.cmd.ProcessState)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// TestKill ends the members at once where the kernel can, and says so where it cannot;
// a process outside is untouched in either case.
//
// proves part of H-15
func TestKill(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, roomy)
	inside, outside := run(t, p, g, "wait"), run(t, p, nil, "wait")
	for _, c := range []*child{inside, outside} {
		if _, err := c.line(); err != nil {
			t.Fatal(err)
		}
	}
	killed, err := g.Kill()
	if err != nil {
		t.Fatal(err)
	}
	_, statErr := os.Stat(filepath.Join(g.parts[0].dir, "cgroup.kill"))
	if killed != (g.Unified() && statErr == nil) {
		t.Errorf("killed %v, cgroup.kill: %v", killed, statErr)
	}
	inside.end()
	if st := inside.cmd.ProcessState.Sys().(syscall.WaitStatus); killed != (st.Signaled() && st.Signal() == syscall.SIGKILL) {
		t.Errorf("killed %v: %v", killed, inside.cmd.ProcessState)
	}
	outside.end()
	if !outside.cmd.ProcessState.Success() {
		t.Errorf("the process outside: %v", outside.cmd.ProcessState)
	}
}

// TestSweep kills a host in the middle and expects the next one to clean up, but not
// while a member lives, and never what belongs to a host that lives.
//
// proves part of H-15
func TestSweep(t *testing.T) {
	p := openHost(t)
	mine := newGroup(t, p, roomy)
	hold := func() (*child, []string) {
		c := run(t, p, nil, "hold")
		name, err := c.line()
		if err != nil || strings.HasPrefix(name, "error") {
			t.Fatal(name, err, c.stderr.String())
		}
		var dirs []string
		for _, tree := range p.host.trees {
			dirs = append(dirs, filepath.Join(tree.base(), name))
		}
		return c, dirs
	}
	there := func(dirs []string) (n int) {
		for _, d := range dirs {
			if _, err := os.Stat(d); err == nil {
				n++
			}
		}
		return n
	}
	sweep := func() {
		if _, err := p.host.Sweep(); err != nil {
			t.Error(err)
		}
	}
	live, liveDirs := hold()
	dead, deadDirs := hold()
	_ = dead.cmd.Process.Kill()
	_, _ = dead.cmd.Process.Wait()
	dead.done = true
	sweep()
	if n := there(deadDirs); n != len(deadDirs) {
		t.Errorf("with a member alive %d of %d directories are left", n, len(deadDirs))
	}
	_ = dead.in.Close() // the member reads the end of its input
	if !within(5*time.Second, func() bool { sweep(); return there(deadDirs) == 0 }) {
		t.Errorf("%d directories of the dead host are left", there(deadDirs))
	}
	if n := there(liveDirs); n != len(liveDirs) {
		t.Errorf("%d of %d directories of the live host are left", n, len(liveDirs))
	}
	if n := there(p.dirs()); n != len(p.dirs()) {
		t.Error("the sweep took its own instance")
	}
	if _, err := mine.Counters(); err != nil {
		t.Error(err)
	}
	_ = live.cmd.Process.Kill()
	live.end()
	if !within(5*time.Second, func() bool { sweep(); return there(liveDirs) == 0 }) {
		t.Errorf("%d directories of the second host are left", there(liveDirs))
	}
}

// within tries until it is so, with a bound.
func within(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}

// TestTwoInstances closes one of two parents: the other goes on, and closing is
// idempotent.
func TestTwoInstances(t *testing.T) {
	one, two := openHost(t), openHost(t)
	if one.Name() == two.Name() {
		t.Fatal("both are", one.Name())
	}
	for range 2 {
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := one.NewGroup(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a group of a closed parent: %v", err)
	}
	g := newGroup(t, two, roomy)
	c := run(t, two, g, "wait")
	if _, err := c.line(); err != nil {
		t.Fatal(err)
	}
}

// TestConcurrentUse opens, uses and closes instances and groups from many goroutines,
// with readers beside Remove.
func TestConcurrentUse(t *testing.T) {
	h, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- churn(h) }()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// churn is one goroutine of TestConcurrentUse.
func churn(h *Host) error {
	for range 5 {
		p, err := h.Open()
		if err != nil {
			return err
		}
		for range 5 {
			g, err := p.NewGroup()
			if err != nil {
				return err
			}
			if err := g.SetLimits(roomy); err != nil {
				return err
			}
			done := make(chan error)
			go func() {
				var err error
				for range 20 {
					if _, err = g.Counters(); err != nil {
						break
					}
				}
				done <- err
			}()
			if err := g.Remove(); err != nil {
				return err
			}
			if err := <-done; err != nil && !errors.Is(err, ErrRemoved) {
				return err
			}
		}
		if err := p.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	return nil
}
