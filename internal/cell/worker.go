package cell

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/attest"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// WorkerProfile is the profile of a program that seals itself once it has
// loaded what it needs.
const WorkerProfile = "worker"

// sealedProfile is what such a program puts itself under; no cell is made with it.
const sealedProfile = "sealed"

// WorkerPath is where the program of a worker lies in its cell.
const WorkerPath = "/glovebox-js"

// Worker makes the cells of a host those of one program. Their root shows its
// files and nothing else of the host, the guest may read and execute them and
// write nothing, and its standard input is a socket.
type Worker struct {
	Program string   // of the host; shown at WorkerPath
	Files   []string // absolute names without links of what it maps
	Limits  api.Limits
}

// kind is that of the cells that are armed for it.
func (w *Worker) kind() kind {
	return kind{profile: WorkerProfile, diskBytes: w.Limits.DiskBytes, diskFiles: w.Limits.DiskFiles}
}

// usual is the kind of cell that the host arms.
func (h *Host) usual() kind {
	if h.cfg.Worker != nil {
		return h.cfg.Worker.kind()
	}
	return defaultKind()
}

// plan looks at the host and says what its cells show.
func (c *Config) plan() *plan {
	if c.Worker != nil {
		return newWorkerPlan(c.Worker)
	}
	return newPlan(c.Paths, c.Folders)
}

// newWorkerPlan is the root of a worker: its program, the files that it maps
// under each name that a link beside them gives them, and random numbers.
func newWorkerPlan(w *Worker) *plan {
	p := &plan{policies: map[kind]*policy{}, looked: time.Now(), planned: time.Now()}
	for _, d := range []string{"dev", "dev/shm", "proc", "tmp", "box", "prog", "etc"} {
		p.dir(d)
	}
	for _, name := range []string{"passwd", "group"} { // each cell shows its own in their place
		p.ops = append(p.ops, cellproto.Op{Kind: cellproto.OpFile, Path: "etc/" + name, Mode: 0o644})
	}
	p.device("null") // of init
	p.device("urandom")
	for _, d := range []string{"lib", "lib32", "lib64", "libx32"} {
		if to, err := os.Readlink("/" + d); err == nil {
			p.link("/"+d, to)
		}
	}
	var dirs []string
	for _, d := range []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"} { // where a program looks for its loader
		if real, err := filepath.EvalSymlinks(d); err == nil {
			dirs = append(dirs, real)
		}
	}
	for _, f := range w.Files {
		p.bindAt(f, f)
		dirs = append(dirs, filepath.Dir(f))
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		p.namesIn(dir, w.Files)
	}
	p.bindAt(w.Program, WorkerPath)
	p.paths = append(p.paths, "/proc") // of its own memory, before it seals itself
	p.stamp = p.files()
	return p
}

// namesIn shows the links of a folder that lead to one of the files.
func (p *plan) namesIn(dir string, files []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if real, err := filepath.EvalSymlinks(name); err == nil && slices.Contains(files, real) {
			if to, err := os.Readlink(name); err == nil {
				p.link(name, to)
			}
		}
	}
}

// input makes the two ends of a guest's standard input.
func (h *Host) input() (theirs, ours *os.File, err error) {
	if h.cfg.Worker != nil {
		return channel()
	}
	return os.Pipe()
}

// channel makes the two ends of a worker's standard input: a socket. The host's
// end is for newSocket.
func channel() (theirs, ours *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs, ours = os.NewFile(uintptr(pair[0]), "worker's end"), os.NewFile(uintptr(pair[1]), "channel")
	if err := unix.SetNonblock(pair[1], true); err != nil { // only now: so the poller does not have it
		theirs.Close()
		ours.Close()
		return nil, nil, err
	}
	return theirs, ours, nil
}

// Channel is the host's end of a worker's standard input. It is closed with the
// run.
type Channel struct {
	*socket
	run *run
	pid int // of the worker, once Sealed has seen it
}

// NewChannel is a channel of no cell, for tests whose worker is no process: a
// socket that does not block, in a file that the poller does not know. Of the
// methods that ask for the cell it has CPU alone. closes ends it.
func NewChannel(file *os.File) (c *Channel, closes func(), err error) {
	s, err := newSocket(file)
	if err != nil {
		return nil, nil, err
	}
	return &Channel{socket: s}, s.close, nil
}

// Sealed reads what the kernel says of the worker once it says that it has sealed
// itself: all of its threads.
func (c *Channel) Sealed() (attest.Sealed, error) {
	s, err := c.run.c.witness.Sealed(c.run.c.want())
	c.pid = s.PID
	return s, err
}

// Evidence is what was seen of the cell before the worker was started.
func (c *Channel) Evidence() api.Evidence { return c.run.c.evidence }

// Stale tells a worker that was made of what the host no longer has, after an
// update of the engine for one: it should serve nobody any more.
func (c *Channel) Stale() bool {
	h := c.run.h
	h.renew()
	return !c.run.c.place.slot.l.usable()
}

// CPU is the processor time of the worker so far, of all its threads, false
// before Sealed and once it has ended. It is the one process of its cell that
// runs, and its clock is read in less than a microsecond, which the file of a
// control group is not; see clock_getcpuclockid(3).
func (c *Channel) CPU() (time.Duration, bool) {
	const sched = 2
	if c.pid <= 0 {
		return 0, false
	}
	var ts unix.Timespec
	err := unix.ClockGettime(^int32(c.pid)<<3|sched, &ts)
	return time.Duration(ts.Nano()), err == nil
}
