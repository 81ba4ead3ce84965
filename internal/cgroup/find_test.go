//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	v2Mount   = "30 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	v2Mounted = "/sys/fs/cgroup"
	all       = "cpuset cpu io memory pids"
)

// v1Mounts is the mount table of a v1 host, with the flags.
func v1Mounts(flags string, names ...string) string {
	var b strings.Builder
	for i, n := range names {
		fmt.Fprintf(&b, "%d 30 0:%d / /sys/fs/cgroup/%s %s - cgroup cgroup rw,%s\n", 31+i, 31+i, n, flags, n)
	}
	return b.String()
}

// v1Dirs makes the directories of v1 groups.
func (f *fake) v1Dirs(paths ...string) {
	for _, p := range paths {
		if err := os.MkdirAll(filepath.Join(f.root, "/sys/fs/cgroup", p), 0o755); err != nil {
			f.t.Fatal(err)
		}
	}
}

// proves X-05
func TestFindV1(t *testing.T) {
	f := newFake(t, "4:memory:/a\n3:cpu,cpuacct:/\n2:pids:/a/b\n1:name=systemd:/\n",
		v1Mounts("rw", "memory", "cpu,cpuacct", "pids"))
	f.v1Dirs("memory/a", "cpu,cpuacct", "pids/a/b")
	h := f.findAt(V1, "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/pids/a/b", "/sys/fs/cgroup/cpu,cpuacct")
	if len(h.Missing()) != 0 {
		t.Errorf("missing %q", h.Missing())
	}
	if s := h.Describe(); strings.Contains(s, "\n") || !strings.Contains(s, "cpu+cpuacct in ") {
		t.Errorf("%q", s)
	}

	f.denied["/sys/fs/cgroup/pids/a/b"] = true // one level up will do
	f.findAt(V1, "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/pids/a", "/sys/fs/cgroup/cpu,cpuacct")

	f.denied["/sys/fs/cgroup/cpu,cpuacct"] = true // optional
	h = f.findAt(V1, "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/pids/a")
	if !slices.Equal(h.Missing(), []string{"cpu", "cpuacct"}) {
		t.Errorf("missing %q", h.Missing())
	}

	f.denied["/sys/fs/cgroup/memory/a"], f.denied["/sys/fs/cgroup/memory"] = true, true
	u := f.findError("memory")
	if !strings.Contains(u.Remedy, "chown") || !strings.Contains(u.Remedy, "/memory/a/glovebox") {
		t.Errorf("remedy %q", u.Remedy)
	}
	f.v1Dirs("memory/a/glovebox") // what the remedy says
	f.findAt(V1, "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/pids/a")
}

// proves X-05
func TestFindHybrid(t *testing.T) {
	f := newFake(t, "3:memory:/\n2:pids:/\n1:cpu:/\n0::/\n",
		v1Mounts("rw", "memory", "pids", "cpu")+"40 30 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n")
	f.v1Dirs("memory", "pids", "cpu", "unified")
	h := f.findAt(Hybrid, "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/cpu")
	if !slices.Equal(h.Missing(), []string{"cpuacct"}) {
		t.Errorf("missing %q", h.Missing())
	}
}

func TestFindV1Unavailable(t *testing.T) {
	tests := []struct {
		name, cgroup, mounts, controller, remedy string
	}{
		{"no control groups", "", "", "cgroup", remedyKernel},
		{"no pids", "4:memory:/\n", v1Mounts("rw", "memory"), "pids", remedyKernel},
		{"neither", "4:freezer:/\n", v1Mounts("rw", "freezer"), "memory", remedyKernel},
		{"not mounted", "4:memory:/\n3:pids:/\n", v1Mounts("rw", "memory"), "pids", remedyMount},
		{"read-only", "4:memory:/\n3:pids:/\n", v1Mounts("ro", "memory", "pids"), "memory", remedyReadOnly},
		{"other namespace", "4:memory:/../x\n3:pids:/\n", v1Mounts("rw", "memory", "pids"), "memory", remedySpace},
		{"split", "4:pids:/\n0::/\n", v1Mounts("rw", "pids") + v2Mount, "memory", remedyOneTree},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, tt.cgroup, tt.mounts)
			f.v1Dirs("memory", "pids", "freezer")
			if u := f.findError(tt.controller); u.Remedy != tt.remedy {
				t.Errorf("remedy %q", u.Remedy)
			}
		})
	}
}

// TestFindV2 walks up trees of every kind. It is long because it is one table.
//
// proves X-05
func TestFindV2(t *testing.T) {
	const (
		slice = v2Mounted + "/app.slice"
		own   = slice + "/x.scope"
	)
	tests := []struct {
		name    string
		build   func(f *fake)
		dir     string
		missing string
		moves   bool
	}{
		{"root of the tree, with processes", func(f *fake) {
			f.write("/proc/self/cgroup", "0::/\n")
			f.group(v2Mounted, all, "memory", "1\n77\n")
			f.top(v2Mounted)
		}, v2Mounted, "", false},
		{"a slice that passes all on", func(f *fake) { f.group(slice, all, all, "") }, slice, "", false},
		{"a slice that can be made to", func(f *fake) { f.group(slice, all, "memory", "") }, slice, "", false},
		{"a slice with a process, the root above", func(f *fake) { f.group(slice, all, "memory", "5\n") }, v2Mounted, "", false},
		{"two levels are no one's to write", func(f *fake) {
			f.denied[own], f.denied[slice] = true, true
		}, v2Mounted, "", false},
		{"procs of the slice are not ours", func(f *fake) {
			f.group(slice, all, all, "")
			f.denied[slice+"/cgroup.procs"] = true
		}, v2Mounted, "", false},
		{"threaded slice", func(f *fake) { f.write(slice+"/cgroup.type", "domain threaded\n") }, v2Mounted, "", false},
		{"alone, nothing above", func(f *fake) {
			f.group(own, all, "", "77\n")
			f.denied[slice], f.denied[v2Mounted] = true, true
		}, own, "", true},
		{"delegated and alone: the slice is not ours", func(f *fake) {
			f.group(own, all, "", "77\n")
			f.group(slice, all, all, "")
			f.marks[own] = true
		}, own, "", true},
		{"delegated, a parent inside the fence", func(f *fake) {
			f.group(own, all, "", "77\n5\n")
			f.group(slice, all, all, "")
			f.marks[slice] = true
		}, slice, "", false},
		{"delegated, but crowded: above the fence", func(f *fake) {
			f.group(own, all, "", "77\n5\n")
			f.group(slice, all, all, "")
			f.marks[own] = true
		}, slice, "", false},
		{"moved before", func(f *fake) {
			f.write("/proc/self/cgroup", "0::/app.slice/x.scope/glovebox-host\n")
			f.group(own+"/glovebox-host", all, "", "77\n")
			f.group(own, all, all, "")
		}, own, "", false},
		{"no cpu anywhere", func(f *fake) {
			f.group(slice, "memory pids", "memory pids", "")
			f.group(v2Mounted, "memory pids", "memory pids", "")
		}, slice, "cpu", false},
		{"cpu only further up", func(f *fake) { f.group(slice, "memory pids", "memory pids", "") }, v2Mounted, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, "0::/app.slice/x.scope\n", v2Mount)
			f.group(v2Mounted, all, all, "")
			f.group(slice, all, "", "9\n")
			f.group(own, all, "", "77\n78\n")
			tt.build(f)
			h := f.findAt(V2, tt.dir)
			if got := strings.Join(h.Missing(), ","); got != tt.missing {
				t.Errorf("missing %q", got)
			}
			if h.trees[0].moveSelf != tt.moves {
				t.Errorf("moves this process: %v", h.trees[0].moveSelf)
			}
		})
	}
}

func TestFindV2Unavailable(t *testing.T) {
	const own = v2Mounted + "/s/x"
	tests := []struct {
		name, cgroup, mounts string
		build                func(f *fake)
		controller, remedy   string
	}{
		{"not mounted", "0::/s/x\n", "", func(*fake) {}, "cgroup2", remedyMount},
		{"read-only", "0::/s/x\n", strings.Replace(v2Mount, "rw,nosuid", "ro,nosuid", 1), func(*fake) {}, "cgroup2", remedyReadOnly},
		{"outside the namespace", "0::/../y\n", v2Mount, func(*fake) {}, "cgroup2", remedySpace},
		{"nothing is ours", "0::/s/x\n", v2Mount, func(f *fake) {
			f.denied[own], f.denied[v2Mounted+"/s"], f.denied[v2Mounted] = true, true, true
		}, "cgroup2", remedyDelegate},
		{"crowded", "0::/s/x\n", v2Mount, func(f *fake) {
			f.group(own, all, "", "77\n78\n")
			f.denied[v2Mounted+"/s"], f.denied[v2Mounted] = true, true
		}, "memory", remedyAlone},
		{"a member of another pid namespace", "0::/s/x\n", v2Mount, func(f *fake) {
			f.group(own, all, "", "0\n77\n")
			f.denied[v2Mounted+"/s"], f.denied[v2Mounted] = true, true
		}, "memory", remedyAlone},
		{"no memory", "0::/s/x\n", v2Mount, func(f *fake) {
			for _, d := range []string{own, v2Mounted + "/s", v2Mounted} {
				f.group(d, "cpu pids", "cpu pids", "")
			}
		}, "memory", remedyDelegate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, tt.cgroup, tt.mounts)
			f.group(v2Mounted, all, all, "")
			f.group(v2Mounted+"/s", all, all, "")
			f.group(own, all, "", "77\n")
			tt.build(f)
			if u := f.findError(tt.controller); u.Remedy != tt.remedy {
				t.Errorf("%v", u)
			}
		})
	}
}

// TestSwapExtra covers hosts with and without swap, and with and without a limit on it.
//
// proves part of X-06
func TestSwapExtra(t *testing.T) {
	const swaps = "Filename Type Size Used Priority\n/dev/zram0 partition 1024 0 100\n"
	v1 := func(t *testing.T) *fake {
		f := newFake(t, "4:memory:/\n3:pids:/\n", v1Mounts("rw", "memory", "pids"))
		f.v1Dirs("memory", "pids")
		return f
	}
	v2 := func(t *testing.T) *fake {
		f := newFake(t, "0::/\n", v2Mount)
		f.group(v2Mounted, all, all, "")
		f.top(v2Mounted)
		return f
	}
	tests := []struct {
		name  string
		make  func(t *testing.T) *fake
		build func(f *fake)
		extra bool
	}{
		{"v1 without swap", v1, func(*fake) {}, false},
		{"v1 with swap", v1, func(f *fake) { f.write("/proc/swaps", swaps) }, true},
		{"v1 with swap and memsw", v1, func(f *fake) {
			f.write("/proc/swaps", swaps)
			f.write("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "1\n")
		}, false},
		{"v2 with swap, root only", v2, func(f *fake) { f.write("/proc/swaps", swaps) }, false},
		{"v2 with swap, not counted", v2, func(f *fake) {
			f.write("/proc/swaps", swaps)
			f.write("/proc/cmdline", "quiet swapaccount=0\n")
		}, true},
		{"v2 with swap, a group without the file", v2, func(f *fake) {
			f.write("/proc/swaps", swaps)
			f.write(v2Mounted+"/other/memory.max", "max\n")
		}, true},
		{"v2 with swap, a group with the file", v2, func(f *fake) {
			f.write("/proc/swaps", swaps)
			f.write(v2Mounted+"/other/memory.max", "max\n")
			f.write(v2Mounted+"/other/memory.swap.max", "max\n")
		}, false},
		{"kernel without swap", v1, func(f *fake) { _ = os.Remove(filepath.Join(f.root, "/proc/swaps")) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.make(t)
			tt.build(f)
			h, err := find(f.system())
			if err != nil {
				t.Fatal(err)
			}
			if extra, why := h.SwapExtra(); extra != tt.extra || why == "" {
				t.Errorf("%v: %s", extra, why)
			}
		})
	}
}

func TestKernelMemoryUncounted(t *testing.T) {
	for cmdline, want := range map[string]bool{
		"quiet": false, "cgroup.memory=nokmem": true, "a cgroup.memory=nobpf,nosocket b": true,
		"cgroup.memory=nobpf": false, "xcgroup.memory=nokmem": false,
	} {
		f := newFake(t, "0::/\n", v2Mount)
		f.group(v2Mounted, all, all, "")
		f.write("/proc/cmdline", cmdline+"\n")
		h, err := find(f.system())
		if err != nil {
			t.Fatal(err)
		}
		if got, why := h.KernelMemoryUncounted(); got != want || why == "" {
			t.Errorf("%q: %v, %s", cmdline, got, why)
		}
	}
	f := newFake(t, "4:memory:/\n3:pids:/\n", v1Mounts("rw", "memory", "pids"))
	f.v1Dirs("memory", "pids")
	h := f.findAt(V1, "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids")
	if got, _ := h.KernelMemoryUncounted(); !got {
		t.Error("a v1 kernel without the file passes")
	}
}

// The remedy of a v1 host names every group that is missing, the optional ones
// too, so that one command is enough.
//
// proves part of H-83 X-05
func TestRemedyNamesAllTrees(t *testing.T) {
	f := newFake(t, "4:memory:/a\n3:cpu,cpuacct:/\n2:pids:/a/b\n", v1Mounts("rw", "memory", "cpu,cpuacct", "pids"))
	f.v1Dirs("memory/a", "cpu,cpuacct", "pids/a/b")
	for _, p := range []string{"memory", "memory/a", "pids", "pids/a", "pids/a/b", "cpu,cpuacct"} {
		f.denied["/sys/fs/cgroup/"+p] = true
	}
	u := f.findError("memory")
	for _, dir := range []string{"memory/a/glovebox", "pids/a/b/glovebox", "cpu,cpuacct/glovebox"} {
		if strings.Count(u.Remedy, dir) != 2 {
			t.Errorf("%s is not made and given in %q", dir, u.Remedy)
		}
	}
}

// TestFindBesideAnEnd: where the last other instance ends while one begins, and takes
// the common directory along, the groups are as usable as before.
//
// proves part of X-05
func TestFindBesideAnEnd(t *testing.T) {
	f := newFake(t, "4:memory:/a\n3:cpu,cpuacct:/a\n2:pids:/a\n", v1Mounts("rw", "memory", "cpu,cpuacct", "pids"))
	f.v1Dirs("memory/a/glovebox", "cpu,cpuacct/a/glovebox", "pids/a/glovebox")
	for _, top := range []string{"memory", "cpu,cpuacct", "pids"} {
		f.denied["/sys/fs/cgroup/"+top] = true
	}
	sys := f.system()
	access := sys.access
	sys.access = func(path string) error {
		if filepath.Base(path) == baseName {
			_ = os.Remove(path) // by the other one, at this very moment
		}
		return access(path)
	}
	h, err := find(sys)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Missing()) != 0 {
		t.Errorf("missing %q", h.Missing())
	}
}
