//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sweepDepth is how deep below an instance directories may lie.
const sweepDepth = 3

// instanceName spells who made the directory: "i<pid>-<start>-<pid namespace>-<n>".
func instanceName(id identity, n uint64) string {
	return fmt.Sprintf("i%d-%s-%s-%d", id.pid, id.start, id.pidns, n)
}

// parseInstance reads a name back. It is false for names that are not ours.
func parseInstance(name string) (identity, bool) {
	rest, ok := strings.CutPrefix(name, "i")
	f := strings.Split(rest, "-")
	if !ok || len(f) != 4 {
		return identity{}, false
	}
	for _, s := range f {
		if _, err := strconv.ParseUint(s, 10, 64); err != nil {
			return identity{}, false
		}
	}
	pid, err := strconv.Atoi(f[0])
	return identity{pid: pid, start: f[1], pidns: f[2]}, err == nil && pid > 0
}

// Sweep removes the instance directories that killed hosts left behind and gives
// their number over all trees. It only calls rmdir, which the kernel refuses for a
// group with a member; it looks at a bounded number of directories; and it leaves
// alone every instance whose process is alive, in this or another pid namespace.
// What cannot be removed now is left for the next call. It never waits.
func (h *Host) Sweep() (int, error) {
	removed := 0
	var errs []error
	for _, t := range h.trees {
		n, err := h.sweepTree(t)
		removed += n
		if err != nil {
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

// sweepTree sweeps one tree.
func (h *Host) sweepTree(t *hierarchy) (int, error) {
	names, err := subdirs(t.base())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cgroup: sweep: %w", err)
	}
	removed := 0
	for _, name := range names {
		id, ok := parseInstance(name)
		if !ok || h.alive(id) {
			continue
		}
		dir := filepath.Join(t.base(), name)
		fd, err := lockDir(dir) // refused while the maker lives, wherever it is
		if err != nil {
			continue
		}
		if h.sys.clearTree(dir, 0) == nil {
			removed++
		}
		_ = unix.Close(fd)
	}
	if removed > 0 {
		h.dropBase(t)
	}
	return removed, nil
}

// alive tells whether the process is known to live. A process of another pid
// namespace cannot be looked up; there the lock alone decides.
func (h *Host) alive(id identity) bool {
	if id.pidns != h.sys.pidNamespace() {
		return false
	}
	now, err := h.sys.identify(id.pid)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH)
	}
	return now.start == id.start
}

// clearTree removes a directory of ours and the groups in it, deepest first. It waits
// for members to leave no longer than wait in all.
func (s *system) clearTree(dir string, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	budget := maxListing
	return s.clear(dir, sweepDepth, &budget, deadline)
}

// clear is clearTree with what is left of its bounds.
func (s *system) clear(dir string, depth int, budget *int, deadline time.Time) error {
	names, err := subdirs(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if *budget--; depth == 0 || *budget < 0 {
			return fmt.Errorf("cgroup: %s: more directories than Glovebox makes", dir)
		}
		if err := s.clear(filepath.Join(dir, name), depth-1, budget, deadline); err != nil {
			return err
		}
	}
	return s.rmdirWait(dir, deadline)
}

// subdirs lists the directories in dir, a bounded number of them.
func subdirs(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for len(names) < maxListing {
		batch, err := f.ReadDir(256)
		for _, e := range batch {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
		if err != nil || len(batch) == 0 {
			break // io.EOF, or the directory went away
		}
	}
	return names, nil
}
