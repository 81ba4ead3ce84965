package redteam

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/languages"
)

// programs is a folder of compiled attacks. A machine that boots another kernel
// has no compiler, and an emulated one would take minutes.
var programs = flag.String("redteam.programs", "", "`folder` for the compiled attacks: TestCompiled fills it, tests in a machine take them from it")

// Every attack in C compiles in a whole cell, by the product's own compiler.
func TestCompiled(t *testing.T) {
	all, r := opened(t)
	n := 0
	for _, a := range all {
		if a.language != "c" || a.source || a.unfit() != "" && a.as == "" {
			continue
		}
		b, err := r.build(t.Context(), a)
		if err != nil {
			t.Errorf("%s: %v", a.id(), err)
			continue
		}
		n++
		if *programs == "" {
			continue
		}
		name := filepath.Join(*programs, a.group+"-"+a.name)
		if err := os.WriteFile(name, b.files[len(b.files)-1].Data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if n < 50 {
		t.Errorf("%d attacks in C", n)
	}
}

// ready is a built attack, from the folder of compiled ones where it needs a
// compiler; nil where this machine cannot have it.
func ready(t *testing.T, r *runner, a *attack) *built {
	t.Helper()
	if a.language != "c" {
		b, err := r.build(t.Context(), a)
		if err != nil {
			t.Fatalf("%s: %v", a.id(), err)
		}
		return b
	}
	if a.source || a.bystander != nil && languageOf(a.bystander.name) == "c" {
		return nil
	}
	program, err := os.ReadFile(filepath.Join(*programs, a.group+"-"+a.name))
	if err != nil {
		t.Fatal(err)
	}
	b := &built{argv: []string{"./prog"}}
	for _, f := range a.files {
		b.files = append(b.files, cell.File{Name: f.name, Mode: 0o644, Data: f.data})
	}
	b.files = append(others(b.files), cell.File{Name: "prog", Mode: 0o755, Data: program})
	if a.bystander != nil {
		if b.beside, err = r.make(t.Context(), languageOf(a.bystander.name), []file{{a.bystander.name, a.bystander.data}}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// The whole battery, with every part of every layer off at once, changes nothing
// of the machine that it is fired on: no process, mount, file, setting, user,
// interface, listener, object of IPC or control group is there afterwards that
// was not before, or is otherwise. So each attack is harmless by what it is, and
// not by what stops it. The machine is a virtual one, in case that it is not so.
//
// proves part of H-20
func TestBatteryWithoutAnyLayerOnVM(t *testing.T) {
	machine(t)
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	r, err := openBare() // what a host itself keeps from then on is there before
	if err == nil {
		err = r.close()
	}
	if err != nil {
		t.Fatal(err)
	}
	begin, before := time.Now(), stateOf(t)
	if r, err = openBare(); err != nil {
		t.Fatal(err)
	}
	fired, through := 0, 0
	for _, a := range all {
		if why := a.unfit(); why != "" && a.language != "c" {
			t.Logf("not fired: %s %s", a.id(), why)
			continue
		}
		if b := ready(t, r, a); b == nil {
			t.Logf("not fired: %s needs a compiler", a.id())
		} else if _, err := r.run(t.Context(), r.whole, a, b, &a.control); err == nil {
			fired, through = fired+1, through+1
		} else {
			fired++
			t.Logf("%s: %.300v", a.id(), err)
		}
	}
	took := time.Since(begin).Round(time.Second)
	if err := r.close(); err != nil {
		t.Error(err)
	}
	for _, d := range before.differ(stateOf(t)) {
		t.Error(d)
	}
	t.Logf("%d attacks with every layer off, %d as in their controls, %v; compared: %s", fired, through, took, before)
	if fired < leastFired || through < leastThrough {
		t.Errorf("fired %d, want %d; got through %d, want %d", fired, leastFired, through, leastThrough)
	}
}

// What the run without any layer has to have.
const (
	leastFired   = 120
	leastThrough = 100
)

// machine ends the test unless it runs in a machine of its own.
func machine(t *testing.T) {
	t.Helper()
	if line, err := os.ReadFile("/proc/cmdline"); err != nil || !strings.Contains(string(line), "glovebox.matrix=1") {
		t.Fatal("this fires attacks without any layer, which only a machine of its own may see")
	}
}

// openBare opens a host whose cells lack every part that any control lacks. It
// stands in the place of the whole one.
func openBare() (*runner, error) {
	r := &runner{init: testenv.Init(), controls: map[string]*cell.Host{}}
	var err error
	if r.leaks, err = leak(); err != nil {
		return nil, err
	}
	off := append(slices.Sorted(maps.Keys(parts)), "speculation")
	r.whole, err = cell.Open(cell.Config{Mode: cell.Off, InitPath: r.init, MaxCells: 2, Paths: languages.Builtin().Paths(),
		Max: api.MaxLimits(runtime.NumCPU(), 1<<30), ControlOff: off})
	if err != nil {
		r.leaks.close()
	}
	return r, err
}

// The state of a machine notices each kind of harm.
//
// proves part of H-20
func TestStateNoticesOnVM(t *testing.T) {
	machine(t)
	before := stateOf(t)
	for _, h := range harms {
		undo, err := h.do(t)
		if err != nil {
			t.Errorf("%s: %v", h.kind, err)
			continue
		}
		d := before.differ(stateOf(t))
		undo()
		if !slices.ContainsFunc(d, func(s string) bool { return strings.HasPrefix(s, h.kind+" ") }) {
			t.Errorf("%s: not noticed, only %q", h.kind, d)
		}
		if d := before.differ(stateOf(t)); len(d) > 0 {
			t.Errorf("%s: not undone: %q", h.kind, d)
		}
	}
}

// harms are what a program could do to a machine, one of each kind that the
// state has.
var harms = []struct {
	kind string
	do   func(t *testing.T) (undo func(), err error)
}{
	{"file", func(*testing.T) (func(), error) {
		return func() { os.Remove("/opt/harm") }, os.WriteFile("/opt/harm", []byte("x"), 0o600)
	}},
	{"file", func(*testing.T) (func(), error) { // a link beside another name
		return func() { os.Remove("/usr/lib/harm") }, os.Symlink("/etc", "/usr/lib/harm")
	}},
	{"file", func(*testing.T) (func(), error) {
		return func() { _ = os.Chmod("/etc", 0o755) }, os.Chmod("/etc", 0o777)
	}},
	{"process", func(t *testing.T) (func(), error) {
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
		return func() { _ = p.Kill(); _, _ = p.Wait() }, err
	}},
	{"process", func(*testing.T) (func(), error) {
		return func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 1, 0) }, unix.Setpriority(unix.PRIO_PROCESS, 1, 5)
	}},
	{"mount", func(*testing.T) (func(), error) {
		return func() { _ = unix.Unmount("/opt", unix.MNT_DETACH) }, unix.Mount("none", "/opt", "tmpfs", 0, "size=4k")
	}},
	{"setting", func(*testing.T) (func(), error) {
		const at = "/proc/sys/kernel/panic_on_oops"
		old, err := os.ReadFile(at)
		if err != nil {
			return nil, err
		}
		other := "1"
		if strings.TrimSpace(string(old)) == "1" {
			other = "0"
		}
		return func() { _ = os.WriteFile(at, old, 0) }, os.WriteFile(at, []byte(other), 0)
	}},
	{"setting", func(*testing.T) (func(), error) {
		old, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		return func() { _ = unix.Sethostname([]byte(old)) }, unix.Sethostname([]byte("harm"))
	}},
	{"ipc", func(*testing.T) (func(), error) {
		id, err := unix.SysvShmGet(0x676c6f77, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o600)
		return func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) }, err
	}},
	{"network", func(*testing.T) (func(), error) {
		s := newScene(api.Limits{}, map[string]string{})
		return s.close, s.listen("tcp", "127.0.0.1:0")
	}},
	{"network", func(*testing.T) (func(), error) {
		s := newScene(api.Limits{}, map[string]string{})
		return s.close, s.listen("abstract", "")
	}},
	{"group", func(*testing.T) (func(), error) {
		const at = "/sys/fs/cgroup/harm"
		return func() { _ = unix.Rmdir(at) }, os.Mkdir(at, 0o755)
	}},
	{"key", func(*testing.T) (func(), error) {
		id, err := unix.AddKey("user", "harm", []byte("x"), unix.KEY_SPEC_USER_KEYRING)
		return func() {
			_, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0)
		}, err
	}},
	{"clock", func(*testing.T) (func(), error) {
		move := func(d time.Duration) error {
			ts := unix.NsecToTimespec(time.Now().Add(d).UnixNano())
			return unix.ClockSettime(unix.CLOCK_REALTIME, &ts)
		}
		return func() { _ = move(-time.Hour) }, move(time.Hour)
	}},
}
