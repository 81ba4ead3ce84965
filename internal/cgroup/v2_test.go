//go:build linux

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestV2Life lives through a whole life on a v2 tree made of plain files, where every
// byte that was written can be looked at.
func TestV2Life(t *testing.T) {
	f := newFake(t, "0::/app.slice/x.scope\n", v2Mount)
	f.group(v2Mounted, all, all, "")
	f.group(v2Mounted+"/app.slice", all, "memory", "")
	f.group(v2Mounted+"/app.slice/x.scope", all, "", "77\n78\n")
	f.extra = f.v2Files
	h := f.findAt(V2, v2Mounted+"/app.slice")
	p, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	base := v2Mounted + "/app.slice/" + baseName
	inst := base + "/" + p.Name()
	if got := f.text(v2Mounted + "/app.slice/cgroup.subtree_control"); !strings.HasPrefix(got, "+pids +cpu") {
		t.Errorf("the ancestor was told %q", got)
	}
	for _, d := range []string{base, inst} {
		if got := f.text(d + "/cgroup.subtree_control"); !strings.HasPrefix(got, "+memory +pids +cpu") {
			t.Errorf("%s was told %q", d, got)
		}
	}
	if err := p.SetOwner(os.Getuid(), os.Getgid()); err != nil {
		t.Error(err)
	}
	if err := p.AddLauncher(91); err != nil {
		t.Error(err)
	}
	if got := f.text(inst + "/launcher/cgroup.procs"); got != "91" {
		t.Errorf("the launcher's leaf was told %q", got)
	}
	g, err := p.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	if g.parts[0].path != "/app.slice/glovebox/"+p.Name()+"/"+g.Name() {
		t.Errorf("path %q", g.parts[0].path)
	}
	checkV2Limits(t, f, g, inst+"/"+g.Name())
	checkV2Counters(t, g)
	files, err := g.EntryFiles()
	if err != nil || len(files) != 1 || !g.Unified() {
		t.Errorf("entry %v, %v", files, err)
	}
	if home, err := p.HomeFiles(); home != nil || err != nil {
		t.Errorf("home %v, %v", home, err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(f.root, base)); !os.IsNotExist(err) {
		t.Errorf("%s is left", base)
	}
}

// checkV2Limits looks at the files that SetLimits wrote.
func checkV2Limits(t *testing.T, f *fake, g *Group, dir string) {
	t.Helper()
	l := Limits{MemoryBytes: 1<<20 + 1, Tasks: 12, CPUPercent: 150}
	if err := os.Remove(filepath.Join(f.root, dir, "memory.zswap.max")); err != nil { // an older kernel
		t.Fatal(err)
	}
	if err := g.SetLimits(l); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "1048576", "memory.swap.max": "0",
		"memory.oom.group": "1", "pids.max": "12", "cpu.max": "30000 20000"} {
		if got := f.text(dir + "/" + file); got != want {
			t.Errorf("%s is %q, not %q", file, got, want)
		}
	}
	if err := g.CheckLimits(l); err != nil {
		t.Error(err)
	}
	f.write(dir+"/memory.swap.max", "max\n")
	if err := g.CheckLimits(l); err == nil || !strings.Contains(err.Error(), "memory.swap.max") {
		t.Errorf("swap was let in: %v", err)
	}
}

// checkV2Counters reads the made-up counters.
func checkV2Counters(t *testing.T, g *Group) {
	t.Helper()
	if err := os.Remove(filepath.Join(g.parts[0].dir, "memory.peak")); err != nil { // an older kernel
		t.Fatal(err)
	}
	c := read(t, g)
	for name, v := range map[string]struct {
		got  *int64
		want int64
	}{"cpu": {c.CPUUsec, 5}, "memory": {c.MemoryBytes, 4096}, "oom": {c.OOMKills, 1},
		"pids": {c.PidsMaxHits, 9}, "tasks": {c.Tasks, 3}} {
		if v.got == nil || *v.got != v.want {
			t.Errorf("%s: %v", name, v.got)
		}
	}
	if c.PeakBytes != nil {
		t.Errorf("peak without a file: %d", *c.PeakBytes)
	}
}

// TestV2StepAside moves the process, which is alone in its group, into the leaf and back.
func TestV2StepAside(t *testing.T) {
	const own = v2Mounted + "/x.scope"
	build := func() (*fake, *Host) {
		f := newFake(t, "0::/x.scope\n", v2Mount)
		f.group(v2Mounted, all, "", "")
		f.group(own, all, "", "77\n")
		f.denied[v2Mounted] = true
		f.extra = f.v2Files
		return f, f.findAt(V2, own)
	}
	f, h := build()
	p, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	if got := f.text(own + "/" + hostLeaf + "/cgroup.procs"); got != "0" {
		t.Errorf("the leaf was told %q", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got := f.text(own + "/cgroup.procs"); !strings.HasPrefix(got, "0") {
		t.Errorf("not moved back: %q", got)
	}
	if _, err := os.Stat(filepath.Join(f.root, own, hostLeaf)); !os.IsNotExist(err) {
		t.Error("the leaf is left")
	}

	f, h = build()
	f.write(own+"/cgroup.procs", "77\n79\n") // somebody came in between
	var u *UnavailableError
	if _, err := h.Open(); !errors.As(err, &u) || u.Remedy != remedyAlone {
		t.Errorf("with company: %v", err)
	}
	if _, err := os.Stat(filepath.Join(f.root, own, hostLeaf)); !os.IsNotExist(err) {
		t.Error("with company: the leaf was made")
	}
}

// TestV2NoCPU runs without the cpu controller: a rate cannot be promised, so asking for
// one fails, and the time is still counted.
func TestV2NoCPU(t *testing.T) {
	f := newFake(t, "0::/\n", v2Mount)
	f.group(v2Mounted, "memory pids", "", "")
	f.top(v2Mounted)
	f.extra = f.v2Files
	p, err := f.findAt(V2, v2Mounted).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	g, err := p.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	if err := g.SetLimits(Limits{MemoryBytes: 1 << 20, Tasks: 5, CPUPercent: 100}); !errors.Is(err, ErrLimits) {
		t.Errorf("a rate without the controller: %v", err)
	}
	if err := g.SetLimits(Limits{MemoryBytes: 1 << 20, Tasks: 5}); err != nil {
		t.Error(err)
	}
	if v, err := g.CPUUsec(); err != nil || v != 5 {
		t.Errorf("%d, %v", v, err)
	}
}

// TestOpenInterference makes every first attempt fail as if another instance had just
// removed "glovebox", and then for ever.
func TestOpenInterference(t *testing.T) {
	f := newFake(t, "0::/\n", v2Mount)
	f.group(v2Mounted, all, all, "")
	f.top(v2Mounted)
	f.extra = f.v2Files
	sys := f.system()
	fail := 3
	mkdir := sys.mkdir
	sys.mkdir = func(path string, mode uint32) error {
		if strings.HasPrefix(filepath.Base(path), "i") && fail > 0 {
			fail--
			return unix.ENOENT
		}
		return mkdir(path, mode)
	}
	h, err := find(sys)
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	fail = 1000
	if _, err := h.Open(); !errors.Is(err, unix.ENOENT) {
		t.Errorf("for ever: %v", err)
	}
	if fail < 1000-2*openAttempts {
		t.Errorf("%d attempts", 1000-fail)
	}
}

// TestSweepNames leaves alone what is not an instance's directory, and what belongs to
// a living process, by its number and start.
func TestSweepNames(t *testing.T) {
	f := newFake(t, "0::/\n", v2Mount)
	f.group(v2Mounted, all, all, "")
	f.top(v2Mounted)
	h := f.findAt(V2, v2Mounted)
	base := v2Mounted + "/" + baseName
	f.group(base, all, all, "")
	keep := []string{"i77-4711-0-1", "foreign", "launcher", "i77-4711-0"}
	drop := []string{"i77-4710-0-1", "i78-4711-0-1", "i77-4711-5-1"} // other start, no process, other namespace
	for _, n := range append(keep, drop...) {
		f.group(base+"/"+n, all, all, "")
		f.group(base+"/"+n+"/c1", all, "", "")
	}
	n, err := h.Sweep()
	if err != nil || n != len(drop) {
		t.Errorf("%d, %v", n, err)
	}
	for _, n := range keep {
		if _, err := os.Stat(filepath.Join(f.root, base, n, "c1")); err != nil {
			t.Error(err)
		}
	}
	for _, n := range drop {
		if _, err := os.Stat(filepath.Join(f.root, base, n)); !os.IsNotExist(err) {
			t.Errorf("%s is left", n)
		}
	}
}
