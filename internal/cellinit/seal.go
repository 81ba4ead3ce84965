package cellinit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/attest"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// seal closes the wall around this process. It runs on the thread that will
// fork the guest; what it does to itself the guest inherits. The other threads
// get init's own Landlock domain, lose every capability, and come under the
// same seccomp filter, which the last step spreads over all of them.
func (c *cell) seal() error {
	steps := []struct {
		layer string
		do    func() error
	}{
		{"personality", c.plainPersonality},
		{"cgroup namespace", c.cgroupNamespace},
		{"deadline", c.armDeadline},
		{"landlock", c.landlockInit},
		{"rlimits", c.fixedRlimits},
		{"privileges", c.privileges},
		{"threads", c.threads},
		{"landlock", c.landlockGuest},
		{"signals", c.defaultSignals},
		{"seccomp", c.seccomp},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return stage(s.layer, err)
		}
	}
	c.step("sealed")
	report := cellproto.Armed{
		Nonce: c.arm.Nonce, Probes: attest.Run(c.arm.Probes),
	}
	c.step("attested")
	report.Layers, report.Steps = c.layer, c.steps
	c.send(cellproto.TypeArmed, report.Encode())
	return nil
}

// plainPersonality takes from this thread what a host program run under setarch
// hands down: no address randomisation, readable memory that is executable.
func (c *cell) plainPersonality() error {
	if _, _, errno := syscall.RawSyscall(unix.SYS_PERSONALITY, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// cgroupNamespace is entered after placement, so that the cell's own group is
// its root: a namespace made at clone would have the creator's.
func (c *cell) cgroupNamespace() error {
	if c.off("cgroup_ns") {
		return nil
	}
	return unix.Unshare(unix.CLONE_NEWCGROUP)
}

func (c *cell) armDeadline() (err error) {
	c.deadline, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	return err
}

// maxPending bounds the queued signals and timers of a cell. The kernel counts
// them against whoever started the host program too, so that all his cells
// together must leave him most of his own limit.
const maxPending = 128

// fixedRlimits are those that no job changes. Core is 1 where core dumps go to
// a program: 0 would not stop that.
func (c *cell) fixedRlimits() error {
	if c.off("rlimits") {
		return nil
	}
	for _, r := range []struct {
		what int
		to   uint64
	}{
		{unix.RLIMIT_CORE, c.arm.CoreLimit}, {unix.RLIMIT_MEMLOCK, 64 << 10}, {unix.RLIMIT_MSGQUEUE, 0},
		{unix.RLIMIT_NICE, 0}, {unix.RLIMIT_RTPRIO, 0}, {unix.RLIMIT_LOCKS, 1024}, {unix.RLIMIT_SIGPENDING, maxPending},
	} {
		if err := lowerRlimit(r.what, r.to); err != nil {
			return fmt.Errorf("rlimit %d: %w", r.what, err)
		}
	}
	var core syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_CORE, &core); err != nil || core.Max != c.arm.CoreLimit {
		c.applied("rlimits", false, fmt.Sprintf("core dumps go to a program, which only a core limit of 1 prevents, and the inherited hard limit is %d", core.Max))
		return nil
	}
	c.applied("rlimits", true, fmt.Sprintf("core %d, memlock, msgqueue, nice, rtprio, sigpending", c.arm.CoreLimit))
	return nil
}

// lowerRlimit sets both limits, never above the present hard one.
func lowerRlimit(what int, to uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(what, &now); err != nil {
		return err
	}
	to = min(to, now.Max)
	// The syscall package's own, so that its fork does not put back the number
	// of open files that it saw at start.
	return syscall.Setrlimit(what, &syscall.Rlimit{Cur: to, Max: to})
}

// privileges takes everything from this thread: capabilities from every set,
// groups, the uid of init where the guest has one of its own. The raw calls
// change one thread only, which is what is wanted.
func (c *cell) privileges() error {
	if c.off("privileges") {
		return nil
	}
	notes := []string{"no new privileges", "no capability in any set"}
	// A session keyring of its own; refused or absent is as good.
	_, _ = unix.KeyctlJoinSessionKeyring("glovebox")
	for n := uintptr(0); n <= unix.CAP_LAST_CAP+8; n++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0); err != nil {
			if errors.Is(err, unix.EINVAL) {
				break // past the last capability of this kernel
			}
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient set: %w", err)
	}
	_ = unix.Prctl(unix.PR_SET_SECUREBITS, secureBits, 0, 0, 0) // needs CAP_SETPCAP; a bound set is enough without
	if c.arm.DropGroups {
		if _, _, errno := syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			return fmt.Errorf("setgroups: %w", errno)
		}
		notes = append(notes, "no supplementary group")
	}
	uid, gid := uintptr(c.arm.UID), uintptr(c.arm.GID)
	if err := c.startKillers(uid, gid); err != nil {
		return fmt.Errorf("threads of the guest's ids: %w", err)
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("setresgid: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("setresuid: %w", errno)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	// A change of ids gives the process back what fs.suid_dumpable says.
	dumpable := uintptr(0)
	if c.off("dumpable") {
		dumpable = 1
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, dumpable, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	c.applied("privileges", true, strings.Join(notes, ", "))
	c.speculation()
	c.step("privileges")
	return nil
}

// startKillers makes the thread that waits for calls of the kill class, or of a
// traced guest for all calls, and the one that passes the host's signals on. They
// take the guest's ids, since only such a thread may signal the guest when init has
// an id of its own; the sealed one is busy waiting.
func (c *cell) startKillers(uid, gid uintptr) error {
	c.listener, c.signals, c.awake = make(chan int, 1), make(chan int, 1), make(chan struct{})
	ready := make(chan error)
	for _, do := range []func(){func() { c.listen(<-c.listener) }, func() { c.pass(<-c.signals) }} {
		go func() {
			runtime.LockOSThread()
			_, _, errno := syscall.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid)
			if errno == 0 {
				_, _, errno = syscall.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid)
			}
			if errno != 0 {
				ready <- errno
				return
			}
			ready <- nil
			do()
			select {}
		}()
	}
	return errors.Join(<-ready, <-ready)
}

// threads makes what is left of init's threads: afterwards its number of them
// stays what it is.
func (c *cell) threads() error {
	if c.listener == nil { // the privileges were left out
		if err := c.startKillers(uintptr(os.Getuid()), uintptr(os.Getgid())); err != nil {
			return err
		}
	}
	return spareThreads()
}

// spareThreads makes the threads that the Go runtime could want later, when one
// of its own blocks. They come after all goroutines that keep a thread to
// themselves. One wanted once the guest's limits stand could be refused: the
// group's task limit and RLIMIT_NPROC are init's too, and the runtime then ends
// the process without a word.
func spareThreads() error {
	const spare = 4
	up, down, free := make(chan struct{}), make(chan struct{}), make(chan struct{})
	for range spare {
		go func() {
			runtime.LockOSThread() // a parked locked goroutine keeps its thread to itself
			up <- struct{}{}
			<-down
			runtime.UnlockOSThread()
			free <- struct{}{}
		}()
	}
	for range spare {
		<-up
	}
	close(down)
	for range spare { // until then they are nobody's to take
		<-free
	}
	return settledThreads()
}

// settledThreads waits until every thread that the runtime has decided on is
// there. It has a thread of its own make them, which on a busy machine comes
// late: one made after the host has counted init's would be counted as the
// guest's.
func settledThreads() error {
	for range 100_000 {
		decided, _ := runtime.ThreadCreateProfile(nil)
		there, err := threadCount()
		if err != nil || there >= decided {
			return err
		}
		if _, _, errno := syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0); errno != 0 {
			return errno
		}
	}
	return errors.New("the runtime's threads do not come")
}

// threadCount is the number of threads of this process, as the kernel says.
func threadCount() (int, error) {
	fd, err := unix.Open("/proc/self/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(buf[:n]), "\nThreads:")
	if !ok {
		return 0, errors.New("the kernel does not count threads")
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strconv.Atoi(strings.TrimSpace(line))
}

// pass sends the guest what comes on the control socket, on which there is
// nothing else once it runs. It is known by its pidfd: its number could be
// another's by now.
func (c *cell) pass(guest int) {
	for {
		t, p, err := cellproto.ReadFrame(fdReader(FDControl), 64)
		if err != nil {
			return // the main thread sees to it
		}
		s, err := cellproto.DecodeSignal(p)
		if err != nil || t != cellproto.TypeSignal || s.Number == 0 || s.Number > 64 {
			os.Exit(1)
		}
		_ = unix.PidfdSendSignal(guest, unix.Signal(s.Number), nil, 0) // it may be gone
	}
}

// secureBits: root is nobody special, capabilities do not survive a uid change,
// none can be raised into the ambient set, and all of it is locked.
const secureBits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7

// speculation asks for the per-task mitigations and for a core of its own; a
// processor or kernel without them says so in the evidence.
func (c *cell) speculation() {
	if c.off("speculation") {
		return
	}
	var held, open []string
	for _, s := range []struct {
		name string
		what uintptr
	}{{"store bypass", unix.PR_SPEC_STORE_BYPASS}, {"indirect branch", unix.PR_SPEC_INDIRECT_BRANCH}} {
		if err := unix.Prctl(unix.PR_SET_SPECULATION_CTRL, s.what, unix.PR_SPEC_FORCE_DISABLE, 0, 0); err != nil {
			open = append(open, s.name+" ("+err.Error()+")")
		} else {
			held = append(held, s.name)
		}
	}
	if err := unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_CREATE, 0, unix.PR_SCHED_CORE_SCOPE_THREAD_GROUP, 0); err != nil {
		open = append(open, "core scheduling ("+err.Error()+")")
	} else {
		held = append(held, "core scheduling")
	}
	var parts []string
	if len(held) > 0 {
		parts = append(parts, "held: "+strings.Join(held, ", "))
	}
	if len(open) > 0 {
		parts = append(parts, "open: "+strings.Join(open, ", "))
	}
	detail := strings.Join(parts, "; ")
	c.applied("speculation", len(open) == 0, detail)
}

// landlockInit puts every thread of init into a domain of its own. The guest's
// domain is nested in it, so that a guest's signals stop at its edge.
func (c *cell) landlockInit() error {
	if c.off("landlock") || c.arm.Init.HandledFS == 0 {
		return nil
	}
	fd, err := ruleset(&c.arm.Init)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
		if errno == unix.ENOTSUP { // what the runtime answers where C code is linked
			return stage("program", errors.New("built with cgo, it cannot seal all its threads"))
		}
		return fmt.Errorf("all threads of init: %w", errno)
	}
	c.step("landlock init")
	return nil
}

func (c *cell) landlockGuest() error {
	if c.off("landlock") || c.arm.Guest.HandledFS == 0 {
		return nil
	}
	fd, err := ruleset(&c.arm.Guest)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
		return fmt.Errorf("restrict: %w", errno)
	}
	c.applied("landlock", true, fmt.Sprintf("%d rules, fs %#x, net %#x, scoped %#x",
		len(c.arm.Guest.Rules), c.arm.Guest.HandledFS, c.arm.Guest.HandledNet, c.arm.Guest.Scoped))
	c.step("landlock guest")
	return nil
}

// defaultSignals puts back the default action of every signal on PID 1. The Go
// runtime has handlers, and with a handler the kernel would deliver what a
// guest sends; without one it protects the first process of a namespace.
func (c *cell) defaultSignals() error {
	if c.off("signals") {
		return nil
	}
	return resetSignals()
}

// seccomp is last: one filter, installed on this thread and spread to all; a
// traced cell has a second one on this thread, which the guest inherits.
func (c *cell) seccomp() error {
	if c.off("seccomp") || len(c.arm.Filter) == 0 {
		return nil
	}
	fd, err := installFilter(c.arm.Filter, c.arm.Notify)
	if err != nil {
		return err
	}
	detail := fmt.Sprintf("%d instructions", len(c.arm.Filter)/8)
	switch {
	case len(c.arm.Judge) > 0:
		if err := c.startTrace(); err != nil {
			return fmt.Errorf("trace: %w", err)
		}
		detail += ", calls reported to init, which answers them"
	case fd >= 0:
		c.listener <- fd
		detail += ", kill class reported"
	}
	c.applied("seccomp", true, detail)
	return nil
}
