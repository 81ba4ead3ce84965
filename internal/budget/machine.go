package budget

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Part is n of d parts of an amount, rounded down.
func (a Amount) Part(n, d int64) Amount {
	p := func(v int64) int64 { return v/d*n + v%d*n/d }
	return Amount{p(a.Memory), p(a.Processes), p(a.Descriptors), p(a.Disk)}
}

// Machine is what this process may use at most: memory by the machine and every
// control group above it, processes by the kernel, the user's limit and the groups,
// descriptors by the process's own limit, disk by what the file system of dir has left
// for this user. What others use of it now is not taken off.
func Machine(dir string) (Amount, error) {
	m := machine{root: "/", limit: func(what int) (int64, error) {
		var r unix.Rlimit
		if err := unix.Getrlimit(what, &r); err != nil {
			return 0, os.NewSyscallError("getrlimit", err)
		}
		return int64(min(r.Cur, math.MaxInt64)), nil
	}}
	return m.measure(dir)
}

// machine is where limits are read.
type machine struct {
	root  string
	limit func(what int) (int64, error)
}

func (m *machine) measure(dir string) (Amount, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Amount{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	a := Amount{Disk: int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize))) * st.Bsize} //nolint:unconvert // 32 bits elsewhere
	memory, err := m.memTotal()
	if err != nil {
		return Amount{}, err
	}
	a.Memory = memory
	a.Processes, a.Descriptors = math.MaxInt64, math.MaxInt64
	for _, f := range []struct {
		file string
		to   *int64
	}{
		{"proc/sys/kernel/threads-max", &a.Processes}, {"proc/sys/kernel/pid_max", &a.Processes}, {"proc/sys/fs/file-max", &a.Descriptors},
	} {
		n, err := m.number(filepath.Join(m.root, f.file))
		if err != nil {
			return Amount{}, err
		}
		*f.to = min(*f.to, n)
	}
	for what, to := range map[int]*int64{unix.RLIMIT_NPROC: &a.Processes, unix.RLIMIT_NOFILE: &a.Descriptors} {
		n, err := m.limit(what)
		if err != nil {
			return Amount{}, err
		}
		*to = min(*to, n)
	}
	return a, m.groups(&a)
}

func (m *machine) memTotal() (int64, error) {
	text, err := os.ReadFile(filepath.Join(m.root, "proc/meminfo"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("budget: no MemTotal in /proc/meminfo")
}

// number reads a file with one number; "max" and one that is too large are no limit.
func (m *machine) number(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	s := strings.TrimSpace(string(text))
	if s == "max" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("budget: %s: %w", file, err)
	}
	return int64(min(n, math.MaxInt64)), nil
}

// groups lowers an amount to the limits of the control groups that this process is in,
// from its own up to what of the hierarchy is mounted here.
// https://docs.kernel.org/admin-guide/cgroup-v2.html
func (m *machine) groups(a *Amount) error {
	of, err := os.ReadFile(filepath.Join(m.root, "proc/self/cgroup"))
	if os.IsNotExist(err) {
		return nil // a kernel without control groups
	}
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile(filepath.Join(m.root, "proc/self/mountinfo"))
	if err != nil {
		return err
	}
	for _, c := range []struct {
		controller, v1, v2 string
		to                 *int64
	}{
		{"memory", "memory.limit_in_bytes", "memory.max", &a.Memory}, {"pids", "pids.max", "pids.max", &a.Processes},
	} {
		for _, tree := range []struct{ controller, file string }{{c.controller, c.v1}, {"", c.v2}} {
			path, ok := member(string(of), tree.controller)
			top, root, mounted := mountOf(string(mounts), tree.controller)
			if !ok || !mounted {
				continue
			}
			if err := m.lower(filepath.Join(m.root, top), below(root, path), tree.file, c.to); err != nil {
				return err
			}
		}
	}
	return nil
}

// lower walks from a group up to the top.
func (m *machine) lower(top, path, file string, to *int64) error {
	for {
		n, err := m.number(filepath.Join(top, path, file))
		if err != nil && !os.IsNotExist(err) { // the topmost has no such file, nor has one without the controller
			return err
		}
		if err == nil {
			*to = min(*to, n)
		}
		if path == "/" {
			return nil
		}
		path = filepath.Dir(path)
	}
}

// member is the group of this process in the tree of a controller, "" for v2.
func member(of, controller string) (string, bool) {
	for line := range strings.Lines(of) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 || (controller == "") != (f[0] == "0" && f[1] == "") {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			if c == controller {
				return f[2], true
			}
		}
	}
	return "", false
}

// mountOf is where the tree of a controller is mounted, and what of it.
// https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
func mountOf(mounts, controller string) (at, root string, ok bool) {
	for line := range strings.Lines(mounts) {
		left, right, found := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !found || len(l) < 6 || len(r) < 3 {
			continue
		}
		if controller == "" && r[0] == "cgroup2" {
			return unescape(l[4]), unescape(l[3]), true
		}
		if r[0] != "cgroup" {
			continue
		}
		for option := range strings.SplitSeq(r[2], ",") {
			if option == controller {
				return unescape(l[4]), unescape(l[3]), true
			}
		}
	}
	return "", "", false
}

var unescaper = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func unescape(s string) string { return unescaper.Replace(s) }

// below is a group's path as a mount that shows root has it; what is outside of it
// is not seen, and the mount's top stands for it.
func below(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "/"
	}
	return filepath.Join("/", rel)
}
