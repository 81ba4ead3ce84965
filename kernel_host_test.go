package glovebox_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// Hosts that lack something. These tests run in machines of their own (see
// .ci/run and the package matrix): those with Any in their name in every one,
// as root, since they take away and give back themselves what it is about.

// mode returns the options of a mode.
func mode(s glovebox.Sandbox) glovebox.Options {
	o := options()
	o.Sandbox = s
	return o
}

// mustRefuse checks that New refuses, with words on a layer that does not hold.
// The error itself is about the first such layer.
func mustRefuse(t *testing.T, s glovebox.Sandbox, layer string, words ...string) {
	t.Helper()
	b, err := glovebox.New(mode(s))
	var unavailable *glovebox.SandboxError
	if err == nil {
		b.Close()
	}
	if !errors.As(err, &unavailable) || !errors.Is(err, glovebox.ErrSandboxUnavailable) {
		t.Fatalf("%s: %v", s, err)
	}
	var missing []string
	for _, l := range unavailable.Status.Layers {
		if l.Applied {
			continue
		}
		missing = append(missing, l.Name+" does not hold ("+l.Detail+"); remedy: "+l.Remedy)
		if l.Name != layer {
			continue
		}
		for _, w := range words {
			if !strings.Contains(missing[len(missing)-1], w) {
				t.Errorf("%s: %q lacks %q", s, missing[len(missing)-1], w)
			}
		}
	}
	named := func(m string) bool { return strings.HasPrefix(m, layer+" ") }
	said := func(m string) bool { return strings.HasSuffix(err.Error(), m) }
	if !slices.ContainsFunc(missing, named) || !slices.ContainsFunc(missing, said) {
		t.Errorf("%s: %q, of %q", s, err, missing)
	}
}

// opened is a Box that is closed with the test.
func opened(t *testing.T, s glovebox.Sandbox) *glovebox.Box {
	t.Helper()
	b, err := glovebox.New(mode(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// lacks checks that of the layers of a result, or a status, these and no others
// do not hold, with a remedy for each.
func lacks(t *testing.T, all []glovebox.Layer, want ...string) {
	t.Helper()
	var got []string
	for _, l := range all {
		if l.Applied || l.Name == "speculation" || l.Name == "time" {
			continue
		}
		got = append(got, l.Name)
		if l.Detail == "" || l.Remedy == "" && l.Name != "resource_probes" {
			t.Errorf("%s has no detail or remedy: %+v", l.Name, l)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("layers that do not hold: %q, want %q", got, want)
	}
}

// machineMark is the argument that every kernel of the package matrix is started
// with.
const machineMark = "glovebox.matrix=1"

// inMachine fails the test, before it changes anything, where it was not started
// in a machine of the package matrix: what it changes is the whole kernel's.
func inMachine(t *testing.T) {
	t.Helper()
	args, err := os.ReadFile("/proc/cmdline")
	if err != nil || !slices.Contains(strings.Fields(string(args)), machineMark) {
		t.Fatalf("only for a machine of the package matrix (%v)", err)
	}
}

// setSysctl writes a file of /proc/sys and puts back at the end what was there.
func setSysctl(t *testing.T, name, value string) {
	t.Helper()
	inMachine(t)
	path := "/proc/sys/" + name
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(path, old, 0); err != nil {
			t.Errorf("put back %s: %v", name, err)
		}
	})
}

// insideVar names the test that runs in mounts of its own.
const insideVar = "GLOVEBOX_TEST_INSIDE"

// inOwnMounts runs the rest of the test, f, in a process with mounts of its own
// that it may change.
func inOwnMounts(t *testing.T, f func()) {
	t.Helper()
	inMachine(t)
	if os.Getenv(insideVar) == t.Name() {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		f()
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), insideVar+"="+t.Name(), "GLOVEBOX_TEST_INIT="+testenv.Init())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A kernel that was started without Landlock in its list of modules: require
// refuses and names the list; auto runs and says so. What Landlock would refuse
// besides the root is still refused by the root.
//
// proves part of T-16
func TestOnVMLandlockOff(t *testing.T) {
	if kernelHasLandlock() {
		t.Fatal("this machine has Landlock")
	}
	mustRefuse(t, glovebox.Require, "landlock", "landlock in the lsm= list")
	b := opened(t, glovebox.Auto)
	if s := b.Status(); s.Complete || !strings.Contains(strings.Join(s.Warnings, "\n"), "landlock: the kernel offers none") {
		t.Errorf("complete %v, warnings %q", s.Complete, s.Warnings)
	}
	lacks(t, b.Status().Layers, "landlock")
	r := run(t, b, python("open('/usr/x', 'w')"))
	wantEnd(t, "a write below /usr", r, "error 1")
	lacks(t, r.Evidence.Layers, "landlock")
}

// A host that makes no user namespaces: nothing can be sealed, so every mode
// refuses, and advises a profile for Glovebox alone before anything else.
//
// proves part of T-16 H-83
func TestOnVMAnyNoUserNamespaces(t *testing.T) {
	setSysctl(t, "user/max_user_namespaces", "0")
	for _, s := range []glovebox.Sandbox{glovebox.Require, glovebox.Auto} {
		mustRefuse(t, s, "namespaces", "no space left on device", "remedy: an AppArmor profile that grants userns to the path of glovebox-init alone")
	}
	if s := glovebox.CheckHost(options()); s.Complete || len(s.Warnings) == 0 {
		t.Errorf("complete %v, warnings %q", s.Complete, s.Warnings)
	}
}

// A kernel without seccomp: require refuses and names it; auto runs, says so,
// and every other layer holds.
//
// proves part of T-16
func TestOnVMSeccompOff(t *testing.T) {
	mustRefuse(t, glovebox.Require, "seccomp", "CONFIG_SECCOMP_FILTER")
	b := opened(t, glovebox.Auto)
	lacks(t, b.Status().Layers, missingLandlock("seccomp")...)
	r := run(t, b, python("import os\ntry: os.mkdir('/usr/x')\nexcept OSError as e: print('refused')"))
	if wantEnd(t, "a write below /usr", r, "ok 0"); r.Stdout != "refused\n" {
		t.Errorf("%q", r.Stdout)
	}
	lacks(t, r.Evidence.Layers, missingLandlock("seccomp")...)
}

// A host without control groups: require refuses and says what to do. Auto
// samples memory and says so, the kernel bounds the tasks, and bombs of both
// kinds end.
//
// proves O-10
// proves part of T-16
func TestOnVMAnyNoCgroup(t *testing.T) {
	inOwnMounts(t, func() {
		unmountGroups(t)
		mustRefuse(t, glovebox.Require, "cgroup", "remedy: mount the control group file system")
		b := opened(t, glovebox.Auto)
		lacks(t, b.Status().Layers, missingLandlock("cgroup", "resource_probes")...)
		p := python("b = []\nwhile True: b.append(bytearray(1 << 20))")
		p.Limits = glovebox.Limits{MemoryBytes: 64 << 20, WallMS: 30_000, CPUMS: 30_000}
		r := run(t, b, p)
		if wantEnd(t, "memory", r, "memory_limit"); r.OOMKills != nil || r.PeakBytes != nil || r.CPUMS != nil {
			t.Errorf("oom kills %s, peak %s: nobody can know", number(r.OOMKills), number(r.PeakBytes))
		}
		if !strings.Contains(strings.Join(r.Warnings, "\n"), "memory: sampled") {
			t.Errorf("warnings: %q", r.Warnings)
		}
		taskLimits(t, b, nil, 40)
		p = python("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass")
		p.Limits = glovebox.Limits{WallMS: 1500, CPUMS: 60_000, Pids: 8, MemoryBytes: 512 << 20}
		wantEnd(t, "fork bomb", run(t, b, p), "timeout wall")
	})
}

// missingLandlock is the list with landlock before it where this kernel has none.
func missingLandlock(layers ...string) []string {
	if kernelHasLandlock() {
		return layers
	}
	return append([]string{"landlock"}, layers...)
}

// unmountGroups takes every control group file system away, the last first.
func unmountGroups(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		left, right, _ := strings.Cut(line, " - ")
		if strings.HasPrefix(right, "cgroup") {
			all = append(all, strings.Fields(left)[4])
		}
	}
	for _, at := range slices.Backward(all) {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
	}
	if len(all) == 0 {
		t.Fatal("nothing was mounted")
	}
}

// A host whose proc hides the processes of others: what Glovebox reads of its
// cells are the counters of control groups, and of proc only what belongs to
// its own; so all holds, and require runs.
//
// proves O-18
// proves part of T-16
func TestOnVMAnyHidepid(t *testing.T) {
	inOwnMounts(t, func() {
		if err := unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"); err != nil {
			t.Fatal(err)
		}
		complete(t)
	})
}

// The same for an ordinary user, from whom processes really are hidden: all but
// his own, and of these his launcher and inits, which are not dumpable.
//
// proves O-18
// proves part of T-16
func TestOnVMHidepidAsUser(t *testing.T) {
	if _, err := os.Stat("/proc/1"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("process 1 can be seen:", err)
	}
	complete(t)
}

// complete checks that all that this kernel has holds, and that results have
// every counter.
func complete(t *testing.T) {
	t.Helper()
	b := kernelBox(t)
	lacks(t, b.Status().Layers, missingLandlock()...)
	r := run(t, b, python("print(1)"))
	if wantEnd(t, "a program", r, "ok 0"); r.CPUMS == nil || *r.CPUMS <= 0 || r.OOMKills == nil || r.PidsMaxHits == nil {
		t.Errorf("cpu %v, oom kills %s, refused forks %s", r.CPUMS, number(r.OOMKills), number(r.PidsMaxHits))
	}
	lacks(t, r.Evidence.Layers, missingLandlock()...)
}

// A machine whose proc is covered in part, as that of a container: no mode goes
// on with it or takes the host's.
//
// proves part of H-13
func TestOnVMAnyMaskedProc(t *testing.T) {
	inOwnMounts(t, func() {
		complete(t)
		if err := unix.Mount("none", "/proc/fs", "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		for _, s := range []glovebox.Sandbox{glovebox.Require, glovebox.Auto} {
			mustRefuse(t, s, "proc", "systempaths=unconfined for this container alone", "procMount: Unmasked")
		}
	})
}

// A kernel on which no file in memory may be run: init is started from its file.
//
// proves part of T-16
func TestOnVMMemfdNoexec(t *testing.T) {
	setSysctl(t, "vm/memfd_noexec", "2")
	if _, err := unix.MemfdCreate("x", unix.MFD_EXEC); !errors.Is(err, unix.EACCES) {
		t.Fatal("a file in memory may still be run:", err)
	}
	complete(t)
}
