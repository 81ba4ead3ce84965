package redteam

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/attest"
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
	if why := a.unfit(); why != "" && a.language != "c" {
		return nil
	}
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
		if b := ready(t, r, a); b == nil {
			t.Logf("not fired: %s", a.id())
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

// The same attacks, and the probes of the attestation, change nothing where there
// is no cell at all, as plain processes of the machine's root with all his
// capabilities, but for what they are to themselves: their processes, which may
// live on, are ended with their group, which bounds nothing.
//
// proves part of H-20
func TestBatteryWithoutACellOnVM(t *testing.T) {
	machine(t)
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{init: testenv.Init()}
	for _, dir := range []string{"/box", "/sys/fs/cgroup/glovebox"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(dir)
	}
	before := stateOf(t)
	probe(t)
	fired, through := 0, 0
	for _, a := range all {
		b := ready(t, r, a)
		if b == nil || a.bystander != nil || len(a.artifacts) > 0 { // what a host does, not the attack
			t.Logf("not fired: %s", a.id())
			continue
		}
		fired++
		if err := r.plain(t, a, b); err == nil {
			through++
		} else {
			t.Logf("%s: %.300v", a.id(), err)
		}
	}
	for _, d := range before.differ(stateOf(t)) {
		t.Error(d)
	}
	t.Logf("%d attacks without a cell, %d as in their controls; compared: %s", fired, through, before)
	if fired < leastPlain || through < leastThrough {
		t.Errorf("fired %d, want %d; got through %d, want %d", fired, leastPlain, through, leastThrough)
	}
}

const leastPlain = 110

// probe tries the probes of the attestation on a thread of its own, which ends
// with what it became.
func probe(t *testing.T) {
	t.Helper()
	names := attest.Names(nil, false)
	done := make(chan int)
	go func() {
		runtime.LockOSThread()
		through := 0
		for _, r := range attest.Run(names) {
			if r.Errno == 0 {
				through++
			}
		}
		done <- through
	}()
	through := <-done
	t.Logf("%d of %d probes got through", through, len(names))
	if through < len(names)/3 {
		t.Errorf("%d of %d probes got through: they were not tried without a wall", through, len(names))
	}
}

// plain runs an attack as a process of this machine, bounded in time alone.
func (r *runner) plain(t *testing.T, a *attack, b *built) error {
	t.Helper()
	limits, err := a.resolved()
	if err != nil {
		return err
	}
	s := newScene(limits, map[string]string{"leaked": "nothing"})
	defer s.close()
	for _, f := range a.fixtures {
		if err := fixtures[f](s); err != nil {
			return err
		}
	}
	job, err := a.job(b, s, limits)
	if err != nil {
		return err
	}
	defer func() {
		entries, _ := os.ReadDir("/box")
		for _, e := range entries {
			os.RemoveAll(filepath.Join("/box", e.Name()))
		}
	}()
	for _, f := range job.Files {
		if err := os.WriteFile(filepath.Join("/box", f.Name), f.Data, fs.FileMode(f.Mode)); err != nil {
			return err
		}
	}
	// A group of its own: after cgroup.kill 6.1 ends whoever is born into it.
	at := filepath.Join("/sys/fs/cgroup/glovebox", strings.ReplaceAll(a.id(), "/", "-"))
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	group, err := os.Open(at)
	if err != nil {
		return err
	}
	defer group.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, job.Argv[0], job.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout = "/box", job.Env, &out
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd()), Setsid: true}
	// Whoever is left of it is ended when it has exited, so that nobody holds its
	// output open.
	if err := cmd.Start(); err != nil {
		return err
	}
	how, _ := cmd.Process.Wait()
	err = removeGroup(at)
	_ = cmd.Wait()
	if err := errors.Join(err, s.match(a.control.lines, out.String())); err != nil {
		return fmt.Errorf("%v %.100q: %w", how, stderr.String(), err)
	}
	return nil
}

// removeGroup ends whoever is in a control group, waits until nobody is, and
// removes it.
func removeGroup(at string) error {
	events, err := os.Open(filepath.Join(at, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	if err := os.WriteFile(filepath.Join(at, "cgroup.kill"), []byte("1"), 0); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		b := make([]byte, 256)
		n, err := events.ReadAt(b, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if strings.Contains(string(b[:n]), "populated 0") {
			return unix.Rmdir(at)
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}, 1000)
	}
	return fmt.Errorf("%s is never empty", at)
}
