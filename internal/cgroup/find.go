//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The remedies. Each is the narrowest that is known; none asks for more privilege
// than making groups needs.
const (
	remedyDelegate = "start it in a delegated scope: `systemd-run --user --scope -p Delegate=yes COMMAND` (as root without --user), or set Delegate=yes in its unit"
	remedyAlone    = "start it as the only process of a delegated scope: `systemd-run --user --scope -p Delegate=yes COMMAND` (as root without --user), or set Delegate=yes in its unit"
	remedyMount    = "mount the control group file system, for example `mount -t cgroup2 none /sys/fs/cgroup`"
	remedyReadOnly = "give this container a writable control group mount, in a cgroup namespace of its own (Docker 28: `--security-opt writable-cgroups=true`, Podman: `--security-opt unmask=/sys/fs/cgroup`)"
	remedyKernel   = "enable the controller on the kernel's command line (cgroup_enable=memory, or drop cgroup_disable=) or use a kernel that has it"
	remedyOneTree  = "put memory and pids on the same version of cgroup (systemd.unified_cgroup_hierarchy=1 on the kernel's command line)"
	remedySpace    = "start it in the cgroup namespace that its /sys/fs/cgroup was mounted in"
)

// find is Find on any system.
func find(sys *system) (*Host, error) {
	text, err := sys.readProc("self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	entries, err := parseEntries(text)
	if err != nil {
		return nil, err
	}
	if text, err = sys.readProc("self/mountinfo"); err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	mounts := parseMounts(text)
	for i := range mounts {
		mounts[i].point = filepath.Join(sys.root, mounts[i].point)
	}
	return choose(sys, entries, mounts)
}

// choose decides between the versions by where memory and pids are.
func choose(sys *system, entries []entry, mounts []mount) (*Host, error) {
	if len(entries) == 0 {
		return nil, &UnavailableError{Controller: "cgroup", Reason: "the kernel has no control groups", Remedy: remedyKernel}
	}
	var onV1 []string
	hasV2 := false
	for _, e := range entries {
		hasV2 = hasV2 || e.unified
		for _, c := range required {
			if slices.Contains(e.controllers, c) {
				onV1 = append(onV1, c)
			}
		}
	}
	switch {
	case len(onV1) == len(required):
		return findV1(sys, entries, mounts)
	case len(onV1) == 0 && hasV2:
		return findV2(sys, entries, mounts)
	case len(onV1) == 0:
		return nil, &UnavailableError{Controller: "memory", Reason: "no mounted hierarchy has it", Remedy: remedyKernel}
	}
	other := required[0]
	if onV1[0] == other {
		other = required[1]
	}
	if !hasV2 {
		return nil, &UnavailableError{Controller: other, Reason: "no hierarchy has it", Remedy: remedyKernel}
	}
	return nil, &UnavailableError{Controller: other,
		Reason: onV1[0] + " is on cgroup v1 and " + other + " is not: one cell cannot be in both with one step", Remedy: remedyOneTree}
}

// findV1 finds one ancestor for each controller; controllers that are mounted
// together share it.
func findV1(sys *system, entries []entry, mounts []mount) (*Host, error) {
	h := &Host{sys: sys, version: V1}
	for _, m := range mounts {
		if m.unified {
			h.version = Hybrid
		}
	}
	var refused *UnavailableError // the first of a controller that is required
	var bases []string            // every directory that root could make
	for _, c := range append(slices.Clone(required), optionalV1...) {
		t, err := treeV1(sys, c, entries, mounts)
		var u *UnavailableError
		if errors.As(err, &u) {
			if u.base != "" && !slices.Contains(bases, u.base) {
				bases = append(bases, u.base)
			}
			if refused == nil && slices.Contains(required, c) {
				refused = u
			}
			h.missing = append(h.missing, c)
			continue
		}
		if same := slices.IndexFunc(h.trees, func(o *hierarchy) bool { return o.key == t.key }); same >= 0 {
			h.trees[same].controllers = append(h.trees[same].controllers, c)
			continue
		}
		h.trees = append(h.trees, t)
	}
	if refused == nil {
		return h, nil
	}
	if refused.base != "" {
		refused.Remedy = remedyMake(bases...)
	}
	return nil, refused
}

// remedyMake makes the groups that are missing, all in one.
func remedyMake(bases ...string) string {
	all := strings.Join(bases, " ")
	return fmt.Sprintf("as root, until the next boot: `mkdir -p %s && chown %d %s`", all, os.Geteuid(), all)
}

// treeV1 finds the nearest ancestor that can host a group with the controller. The
// error is an *UnavailableError.
func treeV1(sys *system, controller string, entries []entry, mounts []mount) (*hierarchy, error) {
	at := slices.IndexFunc(entries, func(e entry) bool { return slices.Contains(e.controllers, controller) })
	if at < 0 {
		return nil, &UnavailableError{Controller: controller, Reason: "no hierarchy has it", Remedy: remedyKernel}
	}
	own := entries[at]
	fail := &UnavailableError{Controller: controller, Reason: "its hierarchy is not mounted", Remedy: remedyMount}
	for _, m := range mounts {
		if m.unified || !slices.Contains(m.controllers, controller) {
			continue
		}
		dirs, groups := m.ancestors(own.path)
		if len(dirs) == 0 {
			fail = &UnavailableError{Controller: controller, Reason: fmt.Sprintf("the mount at %s does not show the own group %s", m.point, own.path), Remedy: remedySpace}
			continue
		}
		if m.readOnly {
			fail = &UnavailableError{Controller: controller, Reason: m.point + " is mounted read-only", Remedy: remedyReadOnly}
			continue
		}
		for i, dir := range dirs {
			if sys.fsType(dir, false) != nil || !writableV1(sys, dir) {
				continue
			}
			return &hierarchy{controllers: []string{controller}, key: own.key, dir: dir, path: groups[i], selfDir: dirs[0]}, nil
		}
		base := filepath.Join(dirs[0], baseName)
		fail = &UnavailableError{Controller: controller, Reason: "no group from " + dirs[0] + " upwards may be written to",
			Remedy: remedyMake(base), base: base}
	}
	return nil, fail
}

// writableV1 tells whether <dir>/glovebox can be used: it is there and ours to write
// to, or it is not there and can be made.
func writableV1(sys *system, dir string) bool {
	// One question: between two of them another instance's end could remove it.
	if err := sys.access(filepath.Join(dir, baseName)); !errors.Is(err, unix.ENOENT) {
		return err == nil
	}
	return sys.access(dir) == nil
}

// findV2 walks up the unified tree.
func findV2(sys *system, entries []entry, mounts []mount) (*Host, error) {
	own := entries[slices.IndexFunc(entries, func(e entry) bool { return e.unified })]
	fail := &UnavailableError{Controller: "cgroup2", Reason: "the unified hierarchy is not mounted", Remedy: remedyMount}
	for _, m := range mounts {
		if !m.unified {
			continue
		}
		dirs, groups := m.ancestors(own.path)
		if len(dirs) == 0 {
			fail = &UnavailableError{Controller: "cgroup2", Reason: fmt.Sprintf("the mount at %s does not show the own group %s", m.point, own.path), Remedy: remedySpace}
			continue
		}
		if m.readOnly {
			fail = &UnavailableError{Controller: "cgroup2", Reason: m.point + " is mounted read-only", Remedy: remedyReadOnly}
			continue
		}
		t, missing, err := treeV2(sys, dirs, groups)
		if err == nil {
			return &Host{sys: sys, version: V2, trees: []*hierarchy{t}, missing: missing}, nil
		}
		fail = err
	}
	return nil, fail
}

// treeV2 chooses among the ancestors, nearest first: those up to the first delegated
// group with every controller; then all of them; then the same without cpu.
func treeV2(sys *system, dirs, groups []string) (*hierarchy, []string, *UnavailableError) {
	fence := slices.IndexFunc(dirs, sys.marked) + 1
	all := append(slices.Clone(required), optionalV2...)
	var first *UnavailableError
	for _, want := range [][]string{all, required} {
		for _, n := range []int{fence, len(dirs)} {
			t, err := nearestV2(sys, dirs[:n], groups[:n], want)
			if t != nil {
				var missing []string
				for _, c := range optionalV2 {
					if !t.has(c) {
						missing = append(missing, c)
					}
				}
				return t, missing, nil
			}
			if err != nil && slices.Equal(want, required) {
				first = err
			}
		}
	}
	return nil, nil, first
}

// nearestV2 gives the nearest of the ancestors that can pass the wanted controllers
// to children. Only if none can as it is does it consider moving this process out of
// the way in its own group. The error is about the nearest that came close.
func nearestV2(sys *system, dirs, groups, want []string) (*hierarchy, *UnavailableError) {
	var fail *UnavailableError
	for i, dir := range dirs {
		err := hostableV2(sys, dir, want, nil)
		if err == nil {
			return &hierarchy{unified: true, controllers: want, dir: dir, path: groups[i], selfDir: dirs[0]}, nil
		}
		if fail == nil || fail.Err != nil { // a plain EACCES says the least
			fail = err
		}
	}
	if len(dirs) > 0 && hostableV2(sys, dirs[0], want, []int{sys.pid}) == nil {
		return &hierarchy{unified: true, controllers: want, dir: dirs[0], path: groups[0], selfDir: dirs[0], moveSelf: true}, nil
	}
	return nil, fail
}

// hostableV2 says why a group cannot host children with the controllers, nil if it
// can. Members listed in tolerated do not count as being in the way.
func hostableV2(sys *system, dir string, want []string, tolerated []int) *UnavailableError {
	if err := sys.fsType(dir, true); err != nil {
		return &UnavailableError{Controller: "cgroup2", Reason: "not a control group", Remedy: remedyMount, Err: err}
	}
	for _, name := range []string{"", "cgroup.procs"} {
		if err := sys.access(filepath.Join(dir, name)); err != nil {
			return &UnavailableError{Controller: "cgroup2", Reason: filepath.Join(dir, name) + " may not be written to", Remedy: remedyDelegate, Err: err}
		}
	}
	kind, err := readFile(filepath.Join(dir, "cgroup.type"))
	isRoot := errors.Is(err, os.ErrNotExist) // only the root of the whole tree has none
	if !isRoot && strings.TrimSpace(kind) != "domain" {
		return &UnavailableError{Controller: "cgroup2", Reason: dir + " is a threaded group", Remedy: remedyDelegate, Err: err}
	}
	have, err := readFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return &UnavailableError{Controller: "cgroup2", Reason: "unreadable", Remedy: remedyDelegate, Err: err}
	}
	on, err := readFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return &UnavailableError{Controller: "cgroup2", Reason: "unreadable", Remedy: remedyDelegate, Err: err}
	}
	var off []string
	for _, c := range want {
		if !slices.Contains(strings.Fields(have), c) {
			return &UnavailableError{Controller: c, Reason: dir + " does not have it", Remedy: remedyDelegate}
		}
		if !slices.Contains(strings.Fields(on), c) {
			off = append(off, c)
		}
	}
	if len(off) == 0 {
		return nil
	}
	return enablableV2(sys, dir, off[0], isRoot, tolerated)
}

// enablableV2 says why a controller cannot be passed on to the children of a group.
func enablableV2(sys *system, dir, controller string, isRoot bool, tolerated []int) *UnavailableError {
	if err := sys.access(filepath.Join(dir, "cgroup.subtree_control")); err != nil {
		return &UnavailableError{Controller: controller, Reason: "it is not passed on to the children of " + dir, Remedy: remedyDelegate, Err: err}
	}
	if isRoot {
		return nil
	}
	pids, err := members(dir)
	if err != nil {
		return &UnavailableError{Controller: controller, Reason: "the members of " + dir + " cannot be read", Remedy: remedyDelegate, Err: err}
	}
	for _, pid := range pids {
		if !slices.Contains(tolerated, pid) {
			return &UnavailableError{Controller: controller, Reason: "other processes are direct members of " + dir, Remedy: remedyAlone}
		}
	}
	return nil
}

// members reads the process numbers in a group. Processes outside the reader's pid
// namespace show as 0 and count as foreign.
func members(dir string) ([]int, error) {
	text, err := readFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, fmt.Errorf("%s is a threaded group", dir)
	}
	if err != nil {
		return nil, err
	}
	var out []int
	for _, word := range strings.Fields(text) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no process number", dir, word)
		}
		out = append(out, pid)
	}
	return out, nil
}
