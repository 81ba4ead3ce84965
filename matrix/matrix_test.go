//go:build linux && matrix

package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// expected is what the rest of the project relies on, by kernel.
var expected = map[string]map[string]string{
	"5.10": {
		"landlock ABI": "none (ENOSYS)", "cgroup cgroup.kill": "no", "cgroup memory.peak": "no", "call mount_setattr": "no",
		"time namespace": "yes", "MFD_NOEXEC_SEAL": "no", "seccomp user notify": "yes", "cgroup cgroup.freeze": "yes",
		"CLONE_INTO_CGROUP": "yes", "namespace mount": "yes", "cgroup memory.swap.max": "yes",
	},
	"6.1": {
		"landlock ABI": "2", "cgroup cgroup.kill": "yes", "cgroup memory.peak": "yes", "call mount_setattr": "yes",
		"time namespace": "yes", "MFD_NOEXEC_SEAL": "no", "seccomp user notify": "yes", "seccomp wait killable": "yes",
		"CLONE_INTO_CGROUP": "yes", "namespace mount": "yes", "cgroup pids.peak": "yes", "cgroup memory.swap.max": "yes",
	},
	"6.12": {
		"landlock ABI": "6", "cgroup cgroup.kill": "yes", "cgroup memory.peak": "yes", "call mount_setattr": "yes",
		"time namespace": "yes", "MFD_NOEXEC_SEAL": "yes", "seccomp user notify": "yes", "cgroup memory.peak reset": "yes",
		"CLONE_INTO_CGROUP": "yes", "namespace mount": "yes", "cgroup pids.peak": "yes", "cgroup memory.swap.max": "yes",
	},
}

// fetch gets a kernel or fails naming it: one that is not there is no success.
func fetch(t *testing.T, name string) Kernel {
	t.Helper()
	k, err := Fetch(t.Context(), name, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestUnreachableKernelIsAnErrorByName(t *testing.T) {
	nowhere := source{uri: "file:" + t.TempDir()}
	_, err := fetchNew(t.Context(), t.TempDir()+"/5.10", "5.10", "amd64", mirrors{main: nowhere, security: nowhere})
	if !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"kernel 5.10", "bullseye-security: ", "bullseye: "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

// probes is a tree with the probe program.
func probes(t *testing.T) *Tree {
	t.Helper()
	probe, err := BuildStatic(t.Context(), probePackage, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	tree := NewTree()
	if err := tree.AddFile("/opt/probe", probe); err != nil {
		t.Fatal(err)
	}
	return tree
}

// ask boots a machine and returns the facts that the probe finds.
func ask(t *testing.T, vm VM, c Command) map[string]string {
	t.Helper()
	begin := time.Now()
	out, err := vm.Run(t.Context(), []Command{c})
	if err != nil {
		t.Fatal(err)
	}
	if out[0].ExitCode != 0 || out[0].Err != "" {
		t.Fatalf("probe: exit %d, %s\n%s", out[0].ExitCode, out[0].Err, out[0].Stderr)
	}
	var f map[string]string
	if err := json.Unmarshal(out[0].Stdout, &f); err != nil {
		t.Fatalf("%v in\n%s", err, out[0].Stdout)
	}
	t.Logf("%s, cgroup %q: %v, of which the probe %v", vm.Kernel.Package, vm.Cgroup,
		time.Since(begin).Round(10*time.Millisecond), out[0].Duration)
	return f
}

func TestFacts(t *testing.T) {
	found := map[string]map[string]string{}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			vm := VM{Kernel: fetch(t, name), Cgroup: "v2", Swap: true, Files: probes(t)}
			f := ask(t, vm, Command{Path: "/opt/probe", Args: []string{"/sys/fs/cgroup"}})
			found[name] = f
			for fact, want := range expected[name] {
				if f[fact] != want {
					t.Errorf("%s: %q, want %q", fact, f[fact], want)
				}
			}
		})
	}
	t.Log("\n" + table(found))
}

// table writes the facts as Markdown, one line for each.
func table(found map[string]map[string]string) string {
	names := map[string]bool{}
	for _, f := range found {
		for n := range f {
			names[n] = true
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| fact | %s |\n|---|%s\n", strings.Join(Names(), " | "), strings.Repeat("---|", len(Names())))
	for _, n := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&b, "| %s |", n)
		for _, k := range Names() {
			fmt.Fprintf(&b, " %s |", found[k][n])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestVersionOneGroups(t *testing.T) {
	for _, tt := range []struct {
		kernel, mode string
		memory       bool
	}{
		{"5.10", "v1", true}, {"6.1", "v1", true}, {"6.1", "hybrid", true}, {"6.12", "v1", false},
	} {
		t.Run(tt.kernel+" "+tt.mode, func(t *testing.T) {
			vm := VM{Kernel: fetch(t, tt.kernel), Cgroup: tt.mode, Swap: true, Files: probes(t)}
			f := ask(t, vm, Command{Path: "/opt/probe", Args: []string{"/sys/fs/cgroup/memory"}})
			for _, name := range []string{"cgroup memory.limit_in_bytes", "cgroup memory.memsw.limit_in_bytes"} {
				if got := f[name] == "yes"; got != tt.memory {
					t.Errorf("%s: %v, want %v (%s)", name, got, tt.memory, f["cgroup"])
				}
			}
		})
	}
}

func TestWhatIsTakenAway(t *testing.T) {
	k := fetch(t, "6.1")
	for _, tt := range []struct {
		name string
		vm   VM
		c    Command
		want map[string]string
	}{
		{"no landlock", VM{Cmdline: []string{"lsm=apparmor"}}, Command{UID: 1000},
			map[string]string{"landlock ABI": "none (ENOTSUP)", "namespace mount": "yes", "seccomp filter": "yes"}},
		{"no user namespaces", VM{Sysctls: map[string]string{"user.max_user_namespaces": "0"}}, Command{UID: 1000},
			map[string]string{"namespace mount": "no", "seccomp filter": "yes"}},
		{"no seccomp", VM{}, Command{UID: 1000, NoSeccomp: true},
			map[string]string{"seccomp filter": "no", "namespace mount": "yes", "landlock ABI": "2"}},
		{"hidden processes", VM{ProcOptions: "hidepid=2"}, Command{UID: 1000}, map[string]string{"process 1 seen": "no"}},
		{"all processes", VM{}, Command{UID: 1000}, map[string]string{"process 1 seen": "yes"}},
		{"delegated group", VM{Cgroup: "v2"},
			Command{UID: 1000, Cgroup: "user.slice/u1000/app", Delegate: "user.slice/u1000", Args: []string{"/sys/fs/cgroup/user.slice/u1000"}},
			map[string]string{"own cgroup": "0::/user.slice/u1000/app", "cgroup memory.max": "yes", "cgroup": "", "uid": "1000"}},
		{"no groups", VM{Cgroup: "none"}, Command{}, map[string]string{"own cgroup": "", "uid": "0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.vm.Kernel, tt.vm.Files, tt.c.Path = k, probes(t), "/opt/probe"
			f := ask(t, tt.vm, tt.c)
			for fact, want := range tt.want {
				if f[fact] != want {
					t.Errorf("%s: %q, want %q", fact, f[fact], want)
				}
			}
		})
	}
}

func TestEndsOfPrograms(t *testing.T) {
	tree := NewTree()
	if err := tree.AddBinaryWithLibs("/bin/bash"); err != nil {
		t.Fatal(err)
	}
	vm := VM{Kernel: fetch(t, "6.12"), Files: tree}
	bash := func(script string) Command {
		return Command{Path: "/bin/bash", Args: []string{"-c", script}, UID: 1000, Timeout: 20 * time.Second}
	}
	loop := bash("echo begun; while :; do :; done")
	loop.Timeout = time.Second
	out, err := vm.Run(t.Context(), []Command{
		bash(`printf 'a\r\n\0b'; echo "$UID $PWD" >&2; exit 7`), bash("kill -SEGV $$"), loop, {Path: "/no/such"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := out[0]; o.ExitCode != 7 || string(o.Stdout) != "a\r\n\x00b" || string(o.Stderr) != "1000 /home/u1000\n" {
		t.Errorf("exit: %d %q %q", o.ExitCode, o.Stdout, o.Stderr)
	}
	if o := out[1]; o.ExitCode != 139 || o.Signal != "SIGSEGV" {
		t.Errorf("signal: %d %s", o.ExitCode, o.Signal)
	}
	if o := out[2]; !o.TimedOut || o.ExitCode != 137 || string(o.Stdout) != "begun\n" {
		t.Errorf("timeout: %+v", o)
	}
	if o := out[3]; o.ExitCode != -1 || !strings.Contains(o.Err, "no such file") {
		t.Errorf("missing program: %d %q", o.ExitCode, o.Err)
	}
}

func TestInterpreterOfTheHost(t *testing.T) {
	python, err := filepath.EvalSymlinks("/usr/bin/python3")
	if err != nil {
		t.Fatal("this host has no python3 in /usr/bin")
	}
	tree := NewTree()
	if err := tree.AddBinaryWithLibs(python); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join("/usr/lib", filepath.Base(python))
	if err := tree.AddTreeWithLibs(lib, lib); err != nil {
		t.Fatal(err)
	}
	vm := VM{Kernel: fetch(t, "5.10"), Files: tree}
	script := "import ssl, os, hashlib; print(os.uname().release, os.getuid(), hashlib.sha256(b'').hexdigest()[:8])"
	out, err := vm.Run(t.Context(), []Command{{Path: python, Args: []string{"-c", script}, UID: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out[0].Stdout), vm.Kernel.Release+" 1000 e3b0c442\n"; got != want {
		t.Errorf("got %q, want %q\n%s", got, want, out[0].Stderr)
	}
}

func TestUserlands(t *testing.T) {
	for release, want := range map[string]string{"bullseye": "11 3.9 1000\n", "bookworm": "12 3.11 1000\n", "trixie": "13 3.13 1000\n"} {
		t.Run(release, func(t *testing.T) {
			dir, err := FetchUserland(t.Context(), release, "amd64", "python3-minimal")
			if err != nil {
				t.Fatal(err)
			}
			tree := NewTree()
			if err := tree.AddTree(dir, "/"); err != nil {
				t.Fatal(err)
			}
			vm := VM{Kernel: fetch(t, "5.10"), Files: tree}
			script := `. /etc/os-release; python3 -c "import os, sys; print($VERSION_ID, '%d.%d' % sys.version_info[:2], os.getuid())"`
			out, err := vm.Run(t.Context(), []Command{{Path: "/bin/sh", Args: []string{"-c", script}, UID: 1000}})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(out[0].Stdout); got != want {
				t.Errorf("got %q, want %q\n%s", got, want, out[0].Stderr)
			}
		})
	}
}

func TestFailuresOfTheMachine(t *testing.T) {
	tree := NewTree()
	if err := tree.AddBinaryWithLibs("/bin/bash"); err != nil {
		t.Fatal(err)
	}
	vm := VM{Kernel: fetch(t, "6.1"), Files: tree}
	before := Command{Path: "/bin/bash", Args: []string{"-c", "echo before"}}
	crash := Command{Path: "/bin/bash", Args: []string{"-c", "echo c >/proc/sysrq-trigger"}}
	out, err := vm.Run(t.Context(), []Command{before, crash, before})
	if err == nil || !strings.Contains(err.Error(), "sysrq triggered crash") {
		t.Errorf("crash: %v", err)
	}
	if string(out[0].Stdout) != "before\n" || out[0].ExitCode != 0 || out[1].ExitCode != -1 || out[2].ExitCode != -1 {
		t.Errorf("crash: %q, exits %d %d %d", out[0].Stdout, out[0].ExitCode, out[1].ExitCode, out[2].ExitCode)
	}
	vm.Boot = 300 * time.Millisecond
	if _, err := vm.Run(t.Context(), []Command{crash}); err == nil || !strings.Contains(err.Error(), "did not answer in 300ms") {
		t.Errorf("boot: %v", err)
	}
	vm.Boot = 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	vm.Live = func(int, bool, []byte) { cancel() }
	loop := Command{Path: "/bin/bash", Args: []string{"-c", "echo begun; while :; do :; done"}}
	out, err = vm.Run(ctx, []Command{loop})
	if !errors.Is(err, context.Canceled) || string(out[0].Stdout) != "begun\n" || out[0].ExitCode != -1 {
		t.Errorf("context: %q, exit %d, %v", out[0].Stdout, out[0].ExitCode, err)
	}
}
