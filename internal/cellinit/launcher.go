package cellinit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// fdInit is where the launcher keeps the program of init: above every number
// that a child's descriptors are moved to.
const fdInit = 100

// ControlVar tells a launcher, whose environment the host makes, of the one
// layer that it leaves out itself in a negative control.
const ControlVar = "GLOVEBOX_CONTROL"

// maxGroupFDs bounds the group descriptors of one slot.
const maxGroupFDs = 8

// Capabilities that init needs while it builds, where its uid is not the
// namespace's root and they must survive the exec by the ambient set.
var ambientCaps = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_TIME, unix.CAP_SYS_RESOURCE,
}

// launcher starts cells for one host. It lives in a user namespace of its own,
// holds no secret, and ends with its host or at the end of its socket.
//
// It is the first process of a pid namespace, so that whatever ends it ends
// every cell; and the namespace gives it the proc that the kernel wants to see
// before a cell may mount its own.
type launcher struct {
	hostname string

	mu    sync.Mutex // guards slots and writes
	slots map[uint64]chan *start
}

// start is what a prepared slot waits for; nil means that it is given up.
type start struct{ fds []int }

func launcherMain() {
	if err := launcherSetup(); err != nil {
		fmt.Fprintln(os.Stderr, Name+": launcher:", err)
		os.Exit(1)
	}
	l := &launcher{slots: map[uint64]chan *start{}}
	buf := make([]byte, cellproto.MaxLaunch)
	oob := make([]byte, unix.CmsgSpace(4*(maxGroupFDs+4)))
	for {
		n, on, _, _, err := unix.Recvmsg(FDControl, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			os.Exit(0) // the host is gone: every cell dies with us
		}
		fds := parseFDs(oob[:on])
		m, err := cellproto.DecodeLaunch(buf[:n])
		if err != nil {
			closeAll(fds)
			os.Exit(1)
		}
		l.handle(m, fds)
	}
}

func launcherSetup() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("parent-death signal: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("dumpable: %w", err)
	}
	if err := unix.Dup3(FDSelf, fdInit, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("init program: %w", err)
	}
	unix.CloseOnExec(FDControl)
	if os.Getenv(ControlVar) == "close_range" {
		return nil
	}
	if err := closeFrom(FDSelf, fdInit); err != nil {
		return err
	}
	return closeFrom(fdInit+1, 0)
}

// base builds the root of all cells and leaves the host's, once.
func (l *launcher) base(m *cellproto.Launch) {
	l.hostname = m.Hostname
	if !has(m.Off, "root") {
		if err := buildBase(m); err != nil {
			l.fail(m.Slot, err)
			return
		}
	}
	l.send(&cellproto.Launch{Type: cellproto.LaunchPrepared, Slot: m.Slot}, -1)
}

func (l *launcher) handle(m *cellproto.Launch, fds []int) {
	if m.Type == cellproto.LaunchBase {
		closeAll(fds)
		l.base(m)
		return
	}
	if l.accept(m, fds) {
		return
	}
	closeAll(fds)
	if m.Type != cellproto.LaunchDrop {
		// The kernel leaves out the descriptors that this process may not have.
		l.fail(m.Slot, fmt.Errorf("%d descriptors came along: %w", len(fds), unix.EMFILE))
	}
}

// accept does what a message asks for; false leaves its descriptors to the
// caller.
func (l *launcher) accept(m *cellproto.Launch, fds []int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch ch := l.slots[m.Slot]; {
	case m.Type == cellproto.LaunchPrepare && ch == nil && len(fds) <= maxGroupFDs && int(m.Groups) == len(fds):
		ch = make(chan *start, 1)
		l.slots[m.Slot] = ch
		go l.slot(m, fds, ch)
		return true
	case m.Type == cellproto.LaunchStart && ch != nil && len(fds) == 4:
		delete(l.slots, m.Slot)
		ch <- &start{fds}
		return true
	case (m.Type == cellproto.LaunchDrop || m.Type == cellproto.LaunchStart) && ch != nil:
		delete(l.slots, m.Slot)
		ch <- nil
	}
	return false
}

// slot is the life of one cell's thread. It is locked and never unlocked, so
// that the thread, and with it every namespace it holds, ends with the cell;
// and it does not end earlier, since the parent-death signal of init is tied to
// it and not to the process.
func (l *launcher) slot(m *cellproto.Launch, groups []int, ch chan *start) {
	runtime.LockOSThread()
	if err := l.prepare(m, groups); err != nil {
		l.fail(m.Slot, err)
		closeAll(groups)
		return
	}
	if !m.Unified {
		closeAll(groups)
		groups = nil
	}
	l.send(&cellproto.Launch{Type: cellproto.LaunchPrepared, Slot: m.Slot}, -1)
	s := <-ch
	if s == nil {
		closeAll(groups)
		l.send(&cellproto.Launch{Type: cellproto.LaunchExited, Slot: m.Slot}, -1)
		return
	}
	pid, pidfd, err := forkInit(m, groups, s.fds)
	closeAll(groups)
	closeAll(s.fds)
	if err != nil {
		l.fail(m.Slot, fmt.Errorf("start init: %w", err))
		return
	}
	l.send(&cellproto.Launch{Type: cellproto.LaunchStarted, Slot: m.Slot, PID: uint64(pid)}, pidfd)
	unix.Close(pidfd)
	var ws unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	l.send(&cellproto.Launch{Type: cellproto.LaunchExited, Slot: m.Slot, Message: describe(ws)}, -1)
}

// prepare places this thread in the groups (v1) and gives it the namespaces
// that a forked child takes over without being asked, so that their price is
// paid before a caller waits.
func (l *launcher) prepare(m *cellproto.Launch, groups []int) error {
	if !m.Unified {
		for _, fd := range groups {
			if _, err := unix.Write(fd, []byte("0")); err != nil {
				return fmt.Errorf("enter control group: %w", err)
			}
		}
	}
	flags := 0
	for _, ns := range []struct {
		name string
		flag int
	}{{"net", unix.CLONE_NEWNET}, {"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}} {
		if !has(m.Off, ns.name) {
			flags |= ns.flag
		}
	}
	if err := unix.Unshare(flags); err != nil {
		return fmt.Errorf("network, IPC and UTS namespaces: %w", err)
	}
	if has(m.Off, "uts") {
		return nil
	}
	if err := unix.Sethostname([]byte(l.hostname)); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	return unix.Setdomainname([]byte("(none)"))
}

func forkInit(m *cellproto.Launch, groups, fds []int) (pid, pidfd int, err error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, -1, err
	}
	defer unix.Close(null)
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		PidFD:      &pidfd,
		Setsid:     true,
	}
	if has(m.Off, "pid") {
		attr.Cloneflags &^= unix.CLONE_NEWPID
	}
	if m.Unified && len(groups) == 1 {
		attr.UseCgroupFD, attr.CgroupFD = true, groups[0]
	}
	if os.Geteuid() != 0 {
		attr.AmbientCaps = ambientCaps
	}
	files, last, err := initFiles(null, fds)
	if err != nil {
		return 0, -1, err
	}
	defer unix.Close(last)
	pid, err = syscall.ForkExec(fmt.Sprintf("/proc/self/fd/%d", fdInit), []string{Name, ModeInit},
		&syscall.ProcAttr{Dir: "/", Env: os.Environ(), Files: files, Sys: attr})
	return pid, pidfd, err
}

// initFiles are the descriptors of an init by their numbers there. The standard
// library moves them to numbers right above the highest, in the child: that one is
// a copy above fdInit, lest the program of init be what lies there.
func initFiles(null int, fds []int) (files []uintptr, last int, err error) {
	last, err = unix.FcntlInt(uintptr(fds[3]), unix.F_DUPFD_CLOEXEC, fdInit+1)
	n := uintptr(null)
	return []uintptr{n, n, n, uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2]), uintptr(last)}, last, err
}

func (l *launcher) fail(slot uint64, err error) {
	m := &cellproto.Launch{Type: cellproto.LaunchFailed, Slot: slot, Message: err.Error()}
	var errno unix.Errno
	if errors.As(err, &errno) {
		m.Errno = uint64(errno)
	}
	l.mu.Lock()
	delete(l.slots, slot)
	l.mu.Unlock()
	l.send(m, -1)
}

// send writes one packet, with a descriptor when fd is not negative.
func (l *launcher) send(m *cellproto.Launch, fd int) {
	var oob []byte
	if fd >= 0 {
		oob = unix.UnixRights(fd)
	}
	p := m.Encode()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := unix.Sendmsg(FDControl, p, oob, nil, unix.MSG_NOSIGNAL); err != nil {
		os.Exit(1)
	}
}

func describe(ws unix.WaitStatus) string {
	switch {
	case ws.Signaled():
		return "signal " + unix.SignalName(ws.Signal())
	default:
		return fmt.Sprintf("exit %d", ws.ExitStatus())
	}
}

// parseFDs returns the descriptors of a control message.
func parseFDs(oob []byte) []int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var all []int
	for i := range msgs {
		if fds, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

func has(list []string, name string) bool {
	for _, s := range list {
		if s == name {
			return true
		}
	}
	return false
}
