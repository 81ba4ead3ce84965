//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fake is a machine made of ordinary files: /proc texts, and control group trees whose
// directories get their interface files when they are made.
type fake struct {
	t      *testing.T
	root   string
	denied map[string]bool  // paths below root that may not be written to
	marks  map[string]bool  // groups that the service manager delegated
	extra  func(dir string) // called for each directory made
}

// newFake makes a machine with the texts.
func newFake(t *testing.T, cgroup, mountinfo string) *fake {
	f := &fake{t: t, root: t.TempDir(), denied: map[string]bool{}, marks: map[string]bool{}}
	f.write("/proc/self/cgroup", cgroup)
	f.write("/proc/self/mountinfo", mountinfo)
	f.write("/proc/swaps", "Filename Type Size Used Priority\n")
	f.write("/proc/cmdline", "quiet\n")
	f.write("/proc/77/stat", "77 (a (odd) name) S "+strings.Repeat("0 ", 18)+"4711 0 0\n")
	return f
}

// write makes a file and what leads to it.
func (f *fake) write(path, text string) {
	f.t.Helper()
	full := filepath.Join(f.root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// text reads a file of the machine.
func (f *fake) text(path string) string {
	b, err := os.ReadFile(filepath.Join(f.root, path))
	if err != nil {
		f.t.Error(err)
	}
	return string(b)
}

// group makes a v2 group with the controllers, those passed on, and the members.
func (f *fake) group(path, controllers, passedOn, members string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Join(f.root, path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.write(path+"/cgroup.controllers", controllers+"\n")
	f.write(path+"/cgroup.subtree_control", passedOn+"\n")
	f.write(path+"/cgroup.procs", members)
	f.write(path+"/cgroup.type", "domain\n")
	f.write(path+"/cgroup.events", "populated 0\nfrozen 0\n")
}

// top turns a group into the root of the tree, which has no type.
func (f *fake) top(path string) {
	if err := os.Remove(filepath.Join(f.root, path, "cgroup.type")); err != nil {
		f.t.Fatal(err)
	}
}

// system is the machine as discovery sees it.
func (f *fake) system() *system {
	return &system{
		root: f.root,
		pid:  77,
		mkdir: func(path string, mode uint32) error {
			if f.denied[f.rel(filepath.Dir(path))] {
				return unix.EACCES
			}
			if err := unix.Mkdir(path, mode); err != nil {
				return err
			}
			if f.extra != nil {
				f.extra(f.rel(path))
			}
			return nil
		},
		rmdir: f.rmdir,
		fsType: func(path string, _ bool) error {
			_, err := os.Stat(path)
			return err
		},
		access: func(path string) error {
			if f.denied[f.rel(path)] {
				return unix.EACCES
			}
			_, err := os.Stat(path)
			return err
		},
		marked: func(path string) bool { return f.marks[f.rel(path)] },
		owner:  func(string) (int, error) { return os.Geteuid(), nil },
	}
}

// rel is a path without the temporary directory.
func (f *fake) rel(path string) string { return strings.TrimPrefix(path, f.root) }

// rmdir removes a group with its interface files, but not with groups in it.
func (f *fake) rmdir(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return unix.ENOENT
	}
	for _, e := range entries {
		if e.IsDir() {
			return unix.ENOTEMPTY
		}
	}
	return os.RemoveAll(path)
}

// v2Files gives every new directory what the kernel gives a group with all controllers.
func (f *fake) v2Files(dir string) {
	f.group(dir, "cpu memory pids", "", "")
	for _, name := range []string{"memory.max", "memory.swap.max", "memory.zswap.max", "memory.oom.group",
		"memory.high", "pids.max", "cpu.max"} {
		f.write(dir+"/"+name, "")
	}
	f.write(dir+"/cpu.stat", "usage_usec 5\nuser_usec 3\n")
	f.write(dir+"/memory.current", "4096\n")
	f.write(dir+"/memory.peak", "8192\n")
	f.write(dir+"/memory.stat", "anon 0\nfile 0\n")
	f.write(dir+"/memory.events", "low 0\noom 2\noom_kill 1\noom_group_kill 1\n")
	f.write(dir+"/pids.current", "3\n")
	f.write(dir+"/pids.events", "max 9\n")
}

// findError runs discovery and expects the typed error.
func (f *fake) findError(controller string) *UnavailableError {
	f.t.Helper()
	h, err := find(f.system())
	var u *UnavailableError
	if !errors.As(err, &u) {
		f.t.Fatalf("found %v, error %v", h, err)
	}
	if u.Controller != controller || u.Reason == "" || u.Remedy == "" {
		f.t.Errorf("controller %q: %v", u.Controller, u)
	}
	if strings.Contains(u.Error(), "\n") {
		f.t.Errorf("more than one line: %q", u.Error())
	}
	return u
}

// findAt runs discovery and expects the trees at the directories, in order.
func (f *fake) findAt(version string, dirs ...string) *Host {
	f.t.Helper()
	h, err := find(f.system())
	if err != nil {
		f.t.Fatal(err)
	}
	var got []string
	for _, t := range h.trees {
		got = append(got, f.rel(t.dir))
	}
	if h.Version() != version || fmt.Sprint(got) != fmt.Sprint(dirs) {
		f.t.Errorf("%s at %q, want %s at %q", h.Version(), got, version, dirs)
	}
	return h
}
