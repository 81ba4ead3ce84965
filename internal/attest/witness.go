package attest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Witness reads the kernel's view of one cell from outside. It works relative
// to a directory of /proc that was opened while the process was known to be
// alive and unreaped, so that a number used again cannot mislead it.
type Witness struct {
	dir   int
	tasks []task
}

// task is one thread's status file, kept open: the kernel makes its content
// anew at each read.
type task struct {
	tid string
	f   int
}

// NewWitness opens /proc of the process behind a pidfd.
func NewWitness(pidfd int) (*Witness, error) {
	pid, err := pidOf(pidfd)
	if err != nil {
		return nil, err
	}
	dir, err := unix.Open("/proc/"+strconv.Itoa(pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc of the cell: %w", err)
	}
	// Still alive: the directory belongs to the process behind the pidfd.
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		unix.Close(dir)
		return nil, fmt.Errorf("the cell is gone: %w", err)
	}
	return &Witness{dir: dir}, nil
}

// pidOf reads the number of the process behind a pidfd.
func pidOf(pidfd int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(v))
			if err == nil && pid > 0 {
				return pid, nil
			}
		}
	}
	return 0, errors.New("the pidfd names no process here")
}

// Dir is the descriptor of the directory.
func (w *Witness) Dir() int { return w.dir }

// Close releases the descriptors.
func (w *Witness) Close() {
	for _, t := range w.tasks {
		unix.Close(t.f)
	}
	w.tasks = nil
	unix.Close(w.dir)
}

// Want is what every thread of a sealed init must show.
type Want struct {
	Seccomp    bool
	Privileges bool
	// Signals says that no handler may be installed.
	Signals bool
	// First says that init must be the first process of its pid namespace.
	First bool
	// GuestUID is the host's number of the guest's uid; -1 leaves it unchecked.
	GuestUID int
}

// Threads reads the status of every thread of init: seccomp mode 2, no new
// privileges, no capability, no signal handler, process 1; and that one thread at least
// carries the guest's uid in all four places. The first call opens the files,
// later ones only read them again.
func (w *Witness) Threads(want Want) error {
	if w.tasks == nil {
		if err := w.openTasks(); err != nil {
			return err
		}
	}
	sealed := want.GuestUID < 0
	buf := make([]byte, 4096)
	for _, t := range w.tasks {
		n, err := unix.Pread(t.f, buf, 0)
		if err != nil {
			return fmt.Errorf("thread %s: %w", t.tid, err)
		}
		s := buf[:n]
		if want.Seccomp && field(s, "Seccomp:") != "2" {
			return fmt.Errorf("thread %s is not under a filter", t.tid)
		}
		if want.Privileges && (strings.Trim(field(s, "CapEff:")+field(s, "CapPrm:")+field(s, "CapInh:")+field(s, "CapAmb:"), "0") != "") {
			return fmt.Errorf("thread %s has capabilities", t.tid)
		}
		if want.Seccomp && want.Privileges && field(s, "NoNewPrivs:") != "1" {
			return fmt.Errorf("thread %s may gain privileges", t.tid)
		}
		if want.Signals && strings.Trim(field(s, "SigCgt:"), "0") != "" {
			return fmt.Errorf("thread %s has signal handlers", t.tid)
		}
		if own := strings.Fields(field(s, "NStgid:")); want.First && (len(own) < 2 || own[len(own)-1] != "1") {
			return fmt.Errorf("thread %s belongs to no first process of a pid namespace", t.tid)
		}
		if u := strings.Fields(field(s, "Uid:")); !sealed && len(u) == 4 {
			id := strconv.Itoa(want.GuestUID)
			sealed = u[0] == id && u[1] == id && u[2] == id && u[3] == id
		}
	}
	if !sealed {
		return fmt.Errorf("no thread has the guest's uid %d", want.GuestUID)
	}
	return nil
}

// Limits reads the limits of init's process, which its guest inherits: of cores
// the hard limit must be the one that is given, if one is, and of what a job
// cannot change at most what init sets. See proc_pid_limits(5).
func (w *Witness) Limits(core *uint64) error {
	fd, err := unix.Openat(w.dir, "limits", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 8192)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	return checkLimits(string(buf[:n]), core)
}

// fixedLimits are the highest values of limits that init sets and no job changes,
// by the kernel's names for them.
var fixedLimits = map[string]uint64{
	"Max locked memory": 64 << 10, "Max msgqueue size": 0, "Max nice priority": 0, "Max realtime priority": 0, "Max file locks": 1024,
	"Max pending signals": 128,
}

func checkLimits(text string, core *uint64) error {
	const name, soft, hard = 0, 26, 47 // the columns of the kernel's table
	seen := 0
	for _, line := range strings.Split(text, "\n") {
		if len(line) <= hard {
			continue
		}
		what := strings.TrimSpace(line[name:soft])
		most, ok := fixedLimits[what]
		cores := what == "Max core file size"
		if ok || cores {
			seen++
		}
		if cores && core != nil {
			most, ok = *core, true
		}
		if !ok {
			continue
		}
		f := strings.Fields(line[hard:])
		v, err := uint64(0), errors.New("it is not there")
		if len(f) > 0 {
			v, err = strconv.ParseUint(f[0], 10, 64)
		}
		if err != nil || v > most || cores && v != most {
			return fmt.Errorf("the hard limit %q is %q, not %d", what, strings.TrimSpace(line[hard:]), most)
		}
	}
	if seen != len(fixedLimits)+1 {
		return fmt.Errorf("%d of %d limits can be read", seen, len(fixedLimits)+1)
	}
	return nil
}

// OwnClock tells whether a thread's children will be in another time namespace
// than the thread itself is.
func (w *Witness) OwnClock() bool {
	own, next := make([]byte, 64), make([]byte, 64)
	for _, t := range w.tasks {
		n, err := unix.Readlinkat(w.dir, "task/"+t.tid+"/ns/time", own)
		m, err2 := unix.Readlinkat(w.dir, "task/"+t.tid+"/ns/time_for_children", next)
		if err == nil && err2 == nil && !bytes.Equal(own[:n], next[:m]) {
			return true
		}
	}
	return false
}

// Tasks is the number of threads that were seen.
func (w *Witness) Tasks() int { return len(w.tasks) }

func (w *Witness) openTasks() error {
	dir, err := unix.Openat(w.dir, "task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(dir), "task")
	defer f.Close()
	names, err := f.Readdirnames(256)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := unix.Openat(dir, name+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		w.tasks = append(w.tasks, task{name, fd})
	}
	return nil
}

// field returns the trimmed rest of the line that starts with name.
func field(status []byte, name string) string {
	for len(status) > 0 {
		line := status
		if i := bytes.IndexByte(status, '\n'); i >= 0 {
			line, status = status[:i], status[i+1:]
		} else {
			status = nil
		}
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return strings.TrimSpace(string(rest))
		}
	}
	return ""
}

// Namespaces returns the identity ("mnt:[4026531841]") of each namespace of
// the cell, by name.
func (w *Witness) Namespaces() (map[string]string, error) {
	return namespaces(w.dir)
}

// OwnNamespaces returns those of the calling process.
func OwnNamespaces() (map[string]string, error) {
	dir, err := unix.Open("/proc/self", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	return namespaces(dir)
}

func namespaces(dir int) (map[string]string, error) {
	out := map[string]string{}
	buf := make([]byte, 64)
	for _, ns := range []string{"user", "pid", "mnt", "net", "ipc", "uts"} {
		n, err := unix.Readlinkat(dir, "ns/"+ns, buf)
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", ns, err)
		}
		out[ns] = string(buf[:n])
	}
	return out, nil
}

// Mounts returns the lines of the cell's mountinfo.
func (w *Witness) Mounts() ([]Mount, error) {
	b, err := readAt(w.dir, "mountinfo", 1<<20)
	if err != nil {
		return nil, err
	}
	var all []Mount
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		m, err := ParseMount(line)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Mount is one line of mountinfo; see proc_pid_mountinfo(5).
type Mount struct {
	Root, Point, Type string
	Options           []string
	// Super are the options of the file system itself.
	Super []string
	// Shared or Slave: the mount receives or sends what others mount.
	Propagates bool
}

// Unescape undoes the octal escapes of mountinfo.
func Unescape(s string) string { return octal.Replace(s) }

var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// ParseMount reads one line.
func ParseMount(line string) (Mount, error) {
	left, right, ok := strings.Cut(line, " - ")
	f, g := strings.Fields(left), strings.Fields(right)
	if !ok || len(f) < 6 || len(g) < 1 {
		return Mount{}, fmt.Errorf("mountinfo: %q", line)
	}
	return Mount{Root: Unescape(f[3]), Point: Unescape(f[4]), Type: g[0], Options: strings.Split(f[5], ","), Super: strings.Split(g[len(g)-1], ","), Propagates: len(f) > 6}, nil
}

// Has tells whether the mount has an option.
func (m Mount) Has(option string) bool {
	for _, o := range m.Options {
		if o == option {
			return true
		}
	}
	return false
}

// CheckMounts wants every mount of a cell to be one that its root is made of:
// read-only except the three of the disk, four for a compiler, nosuid, private,
// and below one of the listed prefixes where it shows the host.
func CheckMounts(mounts []Mount, shown []string, maker bool) error {
	for _, m := range mounts {
		writable := m.Point == "/box" || m.Point == "/tmp" || m.Point == "/dev/shm" || m.Point == "/prog" && maker
		switch {
		case m.Propagates:
			return fmt.Errorf("mount %s is not private", m.Point)
		case !m.Has("nosuid"):
			return fmt.Errorf("mount %s is not nosuid", m.Point)
		case !writable && !m.Has("ro"):
			return fmt.Errorf("mount %s is writable", m.Point)
		case writable && m.Type != "tmpfs":
			return fmt.Errorf("mount %s is not a tmpfs", m.Point)
		}
		if writable || ours(m) {
			continue
		}
		if !beneathAny(m.Point, shown) {
			return fmt.Errorf("mount %s is not on the list", m.Point)
		}
	}
	return nil
}

// ours tells the mounts that launcher and init make of nothing: the root, the
// cell's proc with what covers it, and its two files of users.
func ours(m Mount) bool {
	switch {
	case m.Type == "proc":
		return m.Point == "/proc"
	case m.Type != "tmpfs":
		return false
	}
	return m.Point == "/" || m.Point == "/etc/passwd" || m.Point == "/etc/group" || m.Point == "/prog" || strings.HasPrefix(m.Point, "/proc/")
}

// CheckProc wants the cell's proc to hide every process that a guest may not
// trace; kernels before 5.8 write the option as a number.
func CheckProc(mounts []Mount) error {
	for _, m := range mounts {
		if m.Type == "proc" && !slices.Contains(m.Super, "hidepid=invisible") && !slices.Contains(m.Super, "hidepid=2") {
			return fmt.Errorf("mount %s shows processes of others", m.Point)
		}
	}
	return nil
}

func beneathAny(path string, list []string) bool {
	for _, p := range list {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}
