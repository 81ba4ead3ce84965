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

// Sealed is what the kernel says of a program that has sealed itself.
type Sealed struct {
	PID     int // of the program, as this process sees it
	Threads int // tasks that were read
	Filters int // seccomp filters on each of them; -1 on a kernel that does not count them
	// Code are mappings that are executable and not of a file, or writable too, as
	// the lines of maps: what a JIT compiler needs.
	Code []string
}

// Sealed reads the state of init's only child: every thread of it must be under
// the same number of filters, above those of init, with no new privileges, no
// capability, and in all four places the uid that want names.
func (w *Witness) Sealed(want Want) (Sealed, error) {
	pid, dir, err := w.child()
	if err != nil {
		return Sealed{}, err
	}
	defer unix.Close(dir)
	below := -1
	if len(w.tasks) > 0 {
		status, err := readAt(w.dir, "task/"+w.tasks[0].tid+"/status", 1<<16)
		if err != nil {
			return Sealed{}, err
		}
		below = filters(status)
	}
	out := Sealed{PID: pid, Filters: -2}
	names, err := listAt(dir, "task")
	if err != nil {
		return Sealed{}, err
	}
	for _, tid := range names {
		status, err := readAt(dir, "task/"+tid+"/status", 1<<16)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) { // a thread that has ended meanwhile
			continue
		}
		if err == nil {
			err = sealedThread(status, want, below)
		}
		if err != nil {
			return Sealed{}, fmt.Errorf("thread %s: %w", tid, err)
		}
		n := filters(status)
		if out.Threads > 0 && n != out.Filters {
			return Sealed{}, fmt.Errorf("thread %s is under %d filters, another one under %d", tid, n, out.Filters)
		}
		out.Filters = n
		out.Threads++
	}
	if out.Threads == 0 {
		return Sealed{}, errors.New("no thread was seen")
	}
	maps, err := readAt(dir, "maps", 4<<20)
	if err != nil {
		return Sealed{}, fmt.Errorf("mappings: %w", err)
	}
	out.Code = code(string(maps))
	return out, nil
}

// sealedThread judges the status of one thread.
func sealedThread(status []byte, want Want, below int) error {
	if want.Seccomp {
		if field(status, "Seccomp:") != "2" || field(status, "NoNewPrivs:") != "1" {
			return errors.New("is not under a filter")
		}
		if n := filters(status); n >= 0 && n <= below {
			return fmt.Errorf("is under %d filters, no more than init", n)
		}
	}
	if !want.Privileges {
		return nil
	}
	for _, set := range []string{"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"} {
		if strings.Trim(field(status, set), "0") != "" {
			return fmt.Errorf("has capabilities (%s)", strings.TrimSuffix(set, ":"))
		}
	}
	if want.GuestUID >= 0 {
		id := strconv.Itoa(want.GuestUID)
		if u := strings.Fields(field(status, "Uid:")); !slices.Equal(u, []string{id, id, id, id}) {
			return fmt.Errorf("has the uids %v and not %s", u, id)
		}
	}
	return nil
}

// filters is the number of seccomp filters, -1 where the kernel does not tell.
func filters(status []byte) int {
	n, err := strconv.Atoi(field(status, "Seccomp_filters:"))
	if err != nil {
		return -1
	}
	return n
}

// child finds init's only child and opens its directory. What its number means
// cannot change between: the child names init as its parent.
func (w *Witness) child() (pid, dir int, err error) {
	own, err := readAt(w.dir, "status", 1<<16)
	if err != nil {
		return 0, -1, err
	}
	var pids []string
	tids, err := listAt(w.dir, "task")
	if err != nil {
		return 0, -1, err
	}
	for _, tid := range tids {
		b, err := readAt(w.dir, "task/"+tid+"/children", 1<<16)
		if err != nil {
			return 0, -1, err
		}
		pids = append(pids, strings.Fields(string(b))...)
	}
	if len(pids) != 1 {
		return 0, -1, fmt.Errorf("init has %d children", len(pids))
	}
	if pid, err = strconv.Atoi(pids[0]); err != nil {
		return 0, -1, err
	}
	dir, err = unix.Open("/proc/"+pids[0], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, -1, err
	}
	status, err := readAt(dir, "status", 1<<16)
	if err == nil && field(status, "PPid:") != field(own, "Pid:") {
		err = errors.New("it is not init's child")
	}
	if err != nil {
		unix.Close(dir)
		return 0, -1, err
	}
	return pid, dir, nil
}

// code picks the mappings that no file stands for or that can be written to too.
func code(maps string) []string {
	var out []string
	for line := range strings.Lines(maps) {
		f := strings.Fields(line)
		if len(f) < 5 || len(f[1]) < 4 || f[1][2] != 'x' {
			continue
		}
		name := ""
		if len(f) > 5 {
			name = f[5]
		}
		if name == "[vdso]" || name == "[vsyscall]" {
			continue
		}
		if f[1][1] == 'w' || !strings.HasPrefix(name, "/") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// readAt reads a file of /proc, which must be shorter than most.
func readAt(dir int, name string, most int) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var b bytes.Buffer
	buf := make([]byte, 32<<10)
	for b.Len() < most {
		n, err := unix.Read(fd, buf)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return b.Bytes(), nil
		}
		b.Write(buf[:n])
	}
	return nil, fmt.Errorf("%s is too long", name)
}

// listAt lists a directory of /proc, at most a thousand names.
func listAt(dir int, name string) ([]string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, err := f.Readdirnames(1000)
	if err != nil {
		return nil, err
	}
	return names, nil
}
