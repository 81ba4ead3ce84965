//go:build linux && v2vm

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests of this file need a machine of their own (see the package matrix): they
// look at numbers of the whole kernel, or need swap. They are selected by name, each
// for the machines it is about.

// vmstat reads a number of /proc/vmstat.
func vmstat(t *testing.T, key string) int64 {
	t.Helper()
	text, err := readFile("/proc/vmstat")
	if err != nil {
		t.Fatal(err)
	}
	v, _ := field([]byte(text), key)
	return v
}

// TestVMSwap has swap on the machine: a cell over its limit is killed and nothing of it
// was swapped out; where the kernel cannot promise that, SwapExtra says so.
//
// proves part of X-06 H-43
func TestVMSwap(t *testing.T) {
	p := openHost(t)
	if on, err := hasSwap(p.host.sys); err != nil || !on {
		t.Fatal("this machine has no swap", err)
	}
	before := vmstat(t, "pswpout")
	g := newGroup(t, p, Limits{MemoryBytes: 48 << 20, Tasks: 32})
	c := run(t, p, g, "alloc", "100")
	_, err := c.line()
	c.end()
	swapped := vmstat(t, "pswpout") - before
	extra, why := p.host.SwapExtra()
	t.Logf("extra %v (%s), read %v, %d pages swapped out", extra, why, err, swapped)
	if extra != (swapped > 0) {
		t.Errorf("extra %v, but %d pages were swapped out", extra, swapped)
	}
	if oom := *read(t, g).OOMKills; !extra && (err == nil || oom == 0) {
		t.Errorf("100 MiB in 48: %v, %d kills", err, oom)
	}
}

// TestVMSwapExtra is for a kernel that does not count swap per group.
//
// proves part of X-06
func TestVMSwapExtra(t *testing.T) {
	h, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if extra, why := h.SwapExtra(); !extra || !strings.Contains(why, "swapaccount=1") {
		t.Errorf("%v, %s", extra, why)
	}
}

// TestVMKmemOff is for a kernel that was told not to count its own memory.
//
// proves part of H-43
func TestVMKmemOff(t *testing.T) {
	h, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if uncounted, why := h.KernelMemoryUncounted(); !uncounted || !strings.Contains(why, "nokmem") {
		t.Errorf("%v, %s", uncounted, why)
	}
}

// TestVMCounters expects every counter, which is for v1 and for v2 since Linux 5.19.
func TestVMCounters(t *testing.T) {
	p := openHost(t)
	c := read(t, newGroup(t, p, roomy))
	for name, v := range map[string]*int64{"cpu": c.CPUUsec, "memory": c.MemoryBytes, "peak": c.PeakBytes,
		"oom": c.OOMKills, "pids": c.PidsMaxHits, "tasks": c.Tasks} {
		if v == nil {
			t.Error("no", name)
		}
	}
}

// TestVMOld is for v2 before Linux 5.14: no cgroup.kill, no memory.peak, and both said.
func TestVMOld(t *testing.T) {
	p := openHost(t)
	g := newGroup(t, p, roomy)
	if read(t, g).PeakBytes != nil {
		t.Error("there is a peak")
	}
	if ok, err := g.Kill(); ok || err != nil {
		t.Error(ok, err)
	}
}

// ramDisk mounts the file system image /disk.img from the block device /dev/ram0 (module
// brd): file pages of a file system that lives in memory alone cannot be dropped.
func ramDisk(t *testing.T) string {
	t.Helper()
	image, err := os.ReadFile("/disk.img")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/dev/ram0", image, 0); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := unix.Mount("/dev/ram0", dir, "ext4", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestVMDying runs many cells, each of which is the first to read some file: the groups that the kernel keeps stay few. The control is the same
// with an endless allowance, where they pile up.
//
// proves part of H-44
func TestVMDying(t *testing.T) {
	const runs = 240
	p := openHost(t)
	dir := ramDisk(t)
	name := func(allow bool, i int) string { return filepath.Join(dir, fmt.Sprint(allow, i)) }
	for i := range 2 * runs {
		if err := os.WriteFile(name(i%2 == 0, i/2), make([]byte, 8<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unix.Sync() // from here on as in a cell, where no reader changes a file's times
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		t.Fatal(err)
	}
	pile := func(allow bool) int64 {
		before := p.dying()
		for i := range runs {
			if allow {
				p.removals.Store(0)
				p.crowd.Store(false)
			}
			g, err := p.NewGroup()
			if err != nil {
				t.Fatal(err)
			}
			if err := g.SetLimits(roomy); err != nil {
				t.Fatal(err)
			}
			c := run(t, p, g, "touch", name(allow, i))
			if _, err := c.line(); err != nil {
				t.Fatal(err, c.stderr.String())
			}
			c.end()
			if err := g.Remove(); err != nil {
				t.Fatal(err)
			}
		}
		var n int64
		within(5*time.Second, func() bool { n = p.dying() - before; return n <= keepDying })
		return n
	}
	kept, piled := pile(false), pile(true)
	t.Logf("of %d groups each the kernel keeps %d; without a bound %d", runs, kept, piled)
	if kept > keepDying+2*checkEvery {
		t.Errorf("%d groups are kept", kept)
	}
	if piled < runs/2 {
		t.Errorf("control: only %d of %d groups are kept without a bound", piled, runs)
	}
}

// TestVMUser is a whole life as an ordinary user to whom a group was delegated.
//
// proves X-05
func TestVMUser(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Fatal("for an ordinary user")
	}
	home, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	p := openHost(t)
	t.Log(p.host.Describe())
	g := newGroup(t, p, roomy)
	c := run(t, p, g, "wait")
	if _, err := c.line(); err != nil {
		t.Fatal(err)
	}
	if err := c.member(g); err != nil {
		t.Error(err)
	}
	c.end()
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile("/proc/self/cgroup"); err != nil || string(now) != string(home) {
		t.Errorf("from %s to %s, %v", home, now, err)
	}
}
