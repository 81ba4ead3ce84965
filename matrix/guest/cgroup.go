//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupRoot is where control groups are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// cgroupFlags are the flags of those mounts.
const cgroupFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RELATIME

// enableControllers passes every controller of a v2 group on to its children.
func enableControllers(group string) error {
	have, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return err
	}
	var failed []error
	for c := range strings.FieldsSeq(string(have)) {
		err := os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+c), 0o644)
		if err != nil {
			failed = append(failed, fmt.Errorf("controller %s: %w", c, err))
		}
	}
	return errors.Join(failed...)
}

// mountV1 mounts every v1 controller as a distribution with an old service
// manager does, and for a hybrid system the unified hierarchy, which then has
// no controller.
func mountV1(hybrid bool, note func(error)) error {
	if err := mount("tmpfs", cgroupRoot, "tmpfs", cgroupFlags, "mode=755"); err != nil {
		return err
	}
	if hybrid {
		if err := mount("cgroup2", cgroupRoot+"/unified", "cgroup2", cgroupFlags, "nsdelegate"); err != nil {
			return err
		}
	}
	if err := mount("cgroup", cgroupRoot+"/systemd", "cgroup", cgroupFlags, "none,name=systemd"); err != nil {
		return err
	}
	known, err := v1Controllers()
	if err != nil {
		return err
	}
	for _, names := range []string{"cpu,cpuacct", "cpuset", "memory", "pids", "blkio", "devices", "freezer", "net_cls,net_prio", "perf_event", "hugetlb", "rdma"} {
		var present []string
		for n := range strings.SplitSeq(names, ",") {
			if known[n] {
				present = append(present, n)
			}
		}
		if len(present) == 0 {
			continue
		}
		set := strings.Join(present, ",")
		if err := mount("cgroup", path.Join(cgroupRoot, set), "cgroup", cgroupFlags, set); err != nil {
			note(err)
			os.Remove(path.Join(cgroupRoot, set))
			continue
		}
		if len(present) == 1 {
			continue
		}
		for _, n := range present {
			note(os.Symlink(set, path.Join(cgroupRoot, n)))
		}
	}
	// A child of a v1 cpuset group is of no use until it is given processors.
	if err := os.WriteFile(cgroupRoot+"/cpuset/cgroup.clone_children", []byte("1"), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
		note(err)
	}
	return nil
}

// v1Controllers are the controllers that are not switched off.
func v1Controllers() (map[string]bool, error) {
	f, err := os.Open("/proc/cgroups")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	known := map[string]bool{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		if field := strings.Fields(s.Text()); len(field) == 4 && field[3] == "1" {
			known[field[0]] = true
		}
	}
	return known, s.Err()
}

// hierarchies are the roots of the mounted hierarchies.
func hierarchies() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var roots []string
	for line := range strings.Lines(string(mounts)) {
		if field := strings.Fields(line); len(field) > 2 && strings.HasPrefix(field[2], "cgroup") {
			roots = append(roots, field[1])
		}
	}
	return roots, nil
}

// enterable makes the group in every hierarchy, gives the part at and below
// delegate to uid and returns the groups' folders.
func enterable(group, delegate string, uid int) ([]string, error) {
	roots, err := hierarchies()
	if err != nil {
		return nil, err
	}
	if delegate != "" && group != delegate && !strings.HasPrefix(group, delegate+"/") {
		return nil, fmt.Errorf("group %q is not below %q", group, delegate)
	}
	var groups []string
	for _, root := range roots {
		at := root
		names := strings.Split(group, "/")
		for i, name := range names {
			at = filepath.Join(at, name)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, err
			}
			so := strings.Join(names[:i+1], "/")
			if delegate != "" && (so == delegate || strings.HasPrefix(so, delegate+"/")) {
				if err := giveAway(at, uid); err != nil {
					return nil, err
				}
			}
			_, err := os.Stat(filepath.Join(at, "cgroup.subtree_control"))
			if err == nil && i < len(names)-1 {
				if err := enableControllers(at); err != nil {
					return nil, err
				}
			}
		}
		groups = append(groups, at)
	}
	return groups, nil
}

// giveAway makes uid the owner of a group, as delegation does: of the folder
// and of the files that arrange processes, not of those that set limits.
func giveAway(group string, uid int) error {
	for _, name := range []string{".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "tasks", "memory.oom.group"} {
		err := os.Chown(filepath.Join(group, name), uid, uid)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
