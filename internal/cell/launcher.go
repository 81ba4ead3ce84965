package cell

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// launcherTimeout bounds every answer of the launcher.
const launcherTimeout = 10 * time.Second

// guestID is the guest's uid and gid in the namespace of an ordinary user, who
// has one id to map.
const guestID = 1000

// launcher is the host's side of the process that starts cells. It is safe for
// concurrent use.
type launcher struct {
	conn *net.UnixConn
	pid  int
	dead chan struct{} // closed: the process was reaped
	plan *plan         // the root it has built

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan answer
	retired bool
	err     error
}

// answer is a message about one slot, with the pidfd that came along or -1.
type answer struct {
	cellproto.Launch
	pidfd int
}

// startLauncher starts the process in a user namespace of its own. It is
// started, and its end awaited, by a goroutine locked to a thread that lives as
// long as it does: the parent-death signal belongs to the thread.
func startLauncher(init *os.File, ids *idRange, env []string) (*launcher, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "launcher"), os.NewFile(uintptr(fds[1]), "launcher's end")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	l := &launcher{conn: conn.(*net.UnixConn), dead: make(chan struct{}),
		waiting: map[uint64]chan answer{}}
	started := make(chan error, 1)
	go l.keep(init, theirs, ids, env, started)
	if err := <-started; err != nil {
		conn.Close()
		return nil, err
	}
	go l.receive()
	return l, nil
}

func (l *launcher) keep(init, socket *os.File, ids *idRange, env []string, started chan<- error) {
	// Not unlocked: the thread ends with this goroutine, when it has nothing left
	// to be the parent of.
	runtime.LockOSThread()
	defer close(l.dead)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		started <- err
		return
	}
	defer null.Close()
	p, err := os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", init.Fd()), []string{"glovebox-init", "launcher"}, &os.ProcAttr{
		Dir: "/", Env: env,
		Files: []*os.File{null, null, null, socket, init},
		Sys:   launcherAttr(ids),
	})
	if err != nil {
		started <- fmt.Errorf("start the launcher: %w", err)
		return
	}
	l.pid = p.Pid
	started <- nil
	_, _ = p.Wait()
}

// launcherAttr maps a block of ids for root, the user's own id otherwise.
func launcherAttr(ids *idRange) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	if ids != nil {
		m := []syscall.SysProcIDMap{{ContainerID: 0, HostID: ids.base, Size: idBlock}}
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = m, m, true
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0, Groups: []uint32{}, NoSetGroups: ids.keepGroups}
		return attr
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: guestID, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: guestID, HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_TIME, unix.CAP_SYS_RESOURCE}
	return attr
}

// receive hands each message to the slot it is about. All of it is hostile: a
// message that does not decode, or a number nobody waits for, ends the launcher.
func (l *launcher) receive() {
	buf, oob := make([]byte, cellproto.MaxLaunch), make([]byte, unix.CmsgSpace(4*4))
	for {
		n, on, _, _, err := l.conn.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			l.end(errGone)
			return
		}
		a := answer{pidfd: -1}
		fds := receivedFDs(oob[:on])
		m, err := cellproto.DecodeLaunch(buf[:n])
		if err != nil || len(fds) > 1 {
			closeFDs(fds)
			l.end(fmt.Errorf("the launcher sent nonsense: %w", err))
			return
		}
		a.Launch = *m
		if len(fds) == 1 {
			a.pidfd = fds[0]
		}
		l.mu.Lock()
		ch := l.waiting[m.Slot]
		if m.Type == cellproto.LaunchExited || m.Type == cellproto.LaunchFailed {
			delete(l.waiting, m.Slot)
		}
		l.mu.Unlock()
		select {
		case ch <- a:
		default: // nobody waits, or more messages than a slot can have
			closeFDs(fds)
		}
		l.leave()
	}
}

// lost is why the launcher is of no more use; nil while it is.
func (l *launcher) lost() error {
	select {
	case <-l.dead:
		l.end(errGone)
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

var errGone = errors.New("the launcher is gone")

// end ends every slot with an error.
func (l *launcher) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	for slot, ch := range l.waiting {
		delete(l.waiting, slot)
		select {
		case ch <- answer{Launch: cellproto.Launch{Type: cellproto.LaunchFailed, Slot: slot, Message: err.Error()}, pidfd: -1}:
		default:
		}
	}
	l.conn.Close()
}

func receivedFDs(oob []byte) []int {
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
	for _, fd := range all {
		unix.CloseOnExec(fd)
	}
	return all
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// prepare asks for a slot in the groups of the given files and waits for it.
func (l *launcher) prepare(groups []*os.File, unified bool, off []string) (*slot, error) {
	s, err := l.slot()
	if err != nil {
		return nil, err
	}
	fds := make([]int, len(groups))
	for i, f := range groups {
		fds[i] = int(f.Fd())
	}
	m := &cellproto.Launch{Type: cellproto.LaunchPrepare, Slot: s.id, Unified: unified, Groups: uint64(len(fds)), Off: off}
	if err := l.send(m, fds); err != nil {
		l.forget(s)
		return nil, err
	}
	_, err = s.await(cellproto.LaunchPrepared)
	runtime.KeepAlive(groups)
	return s, err
}

// base has the root of all cells built, before the first slot.
func (l *launcher) base(ops []cellproto.Op, off []string) error {
	s, err := l.slot()
	if err != nil {
		return err
	}
	if err := l.send(&cellproto.Launch{Type: cellproto.LaunchBase, Slot: s.id, Ops: ops, StandIns: commonStandIns(), Hostname: Hostname, Off: off}, nil); err != nil {
		return err
	}
	_, err = s.await(cellproto.LaunchPrepared)
	l.forget(s)
	return err
}

// forget ends the wait for messages about a slot.
func (l *launcher) forget(s *slot) {
	l.mu.Lock()
	delete(l.waiting, s.id)
	l.mu.Unlock()
	l.leave()
}

// retire lets it end with its last cell; it gets no further one.
func (l *launcher) retire() {
	l.mu.Lock()
	l.retired = true
	l.mu.Unlock()
	l.leave()
}

// leave ends a retired launcher that has no cell left.
func (l *launcher) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired && len(l.waiting) == 0 {
		l.conn.Close()
	}
}

// usable tells whether new cells may come from it.
func (l *launcher) usable() bool {
	l.mu.Lock()
	retired := l.retired
	l.mu.Unlock()
	return !retired && l.lost() == nil
}

// ended tells that nothing of it is left.
func (l *launcher) ended() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// slot is a number that messages can be about.
func (l *launcher) slot() (*slot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	l.next++
	s := &slot{l: l, id: l.next, ch: make(chan answer, 4)}
	l.waiting[s.id] = s.ch
	return s, nil
}

// send writes one message. An error ends the launcher, but for one: an ordinary
// user's descriptors on their way are counted together with those that his
// guests have sent to themselves, and at the limit nothing goes out for a while.
func (l *launcher) send(m *cellproto.Launch, fds []int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := l.conn.WriteMsgUnix(m.Encode(), oob, nil); err != nil {
		if errors.Is(err, unix.ETOOMANYREFS) {
			return fmt.Errorf("descriptors for the launcher: %w", err)
		}
		err = fmt.Errorf("the launcher does not listen: %w", err)
		l.end(err)
		return err
	}
	return nil
}

// close ends the launcher and, with it, whatever still runs, and waits for it.
func (l *launcher) close() {
	l.conn.Close()
	<-l.dead
}

// slot is a prepared place for one cell.
type slot struct {
	l    *launcher
	id   uint64
	ch   chan answer
	over bool // the launcher has said its last word about it
}

// start makes init in the slot; the files are its control socket and the
// guest's three streams.
func (s *slot) start(files [4]*os.File) (pidfd int, err error) {
	fds := make([]int, 4)
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	if err := s.l.send(&cellproto.Launch{Type: cellproto.LaunchStart, Slot: s.id}, fds); err != nil {
		return -1, err
	}
	runtime.KeepAlive(files)
	a, err := s.await(cellproto.LaunchStarted)
	if err != nil {
		return -1, err
	}
	if a.pidfd < 0 {
		return -1, errors.New("the launcher sent no pidfd")
	}
	return a.pidfd, nil
}

// drop gives up a slot that was not started, or whose init ends by itself.
func (s *slot) drop() {
	defer s.drain()
	if s.over {
		return
	}
	if s.l.send(&cellproto.Launch{Type: cellproto.LaunchDrop, Slot: s.id}, nil) == nil {
		_, _ = s.await(cellproto.LaunchExited)
	}
}

// exited waits until init was reaped. A launcher that died took it along.
func (s *slot) exited() (string, error) {
	defer s.drain()
	a, err := s.await(cellproto.LaunchExited)
	if s.l.lost() != nil {
		return "with the launcher", nil
	}
	return a.Message, err
}

// drain closes the descriptors of messages that nobody asked for.
func (s *slot) drain() {
	for {
		select {
		case a := <-s.ch:
			if a.pidfd >= 0 {
				unix.Close(a.pidfd)
			}
		default:
			return
		}
	}
}

// await returns the next message of the slot, which must be of one type.
func (s *slot) await(t cellproto.LaunchType) (answer, error) {
	timer := time.NewTimer(launcherTimeout)
	defer timer.Stop()
	select {
	case a := <-s.ch:
		s.over = a.Type == cellproto.LaunchExited || a.Type == cellproto.LaunchFailed
		if a.Type == t {
			return a, nil
		}
		if a.pidfd >= 0 {
			unix.Close(a.pidfd)
		}
		if a.Type == cellproto.LaunchFailed {
			why := words(a.Message, maxWords)
			if errno := unix.Errno(a.Errno); errno != 0 {
				return a, fmt.Errorf("launcher: %s: %w", strings.TrimSuffix(why, ": "+errno.Error()), errno)
			}
			return a, errors.New("launcher: " + why)
		}
		err := fmt.Errorf("launcher: message %d in place of %d", a.Type, t)
		if a.Type != cellproto.LaunchExited { // no honest one says that; who does is not asked again
			s.l.end(err)
		}
		return a, err
	case <-timer.C:
		return answer{}, errors.New("the launcher does not answer")
	}
}
