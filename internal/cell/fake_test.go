package cell

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// fakePatience bounds what the host waits for an answer of a fake.
var fakePatience = map[bool]time.Duration{false: time.Second, true: 2 * time.Second}[raceEnabled]

// fakeVar makes this test binary an init that behaves as it says.
const fakeVar = "GLOVEBOX_CELL_FAKE_INIT"

func init() {
	if mode := os.Getenv(fakeVar); mode != "" {
		runtime.LockOSThread()
		playInit(mode, os.NewFile(3, "control"))
		os.Exit(0)
	}
}

// fakeLauncher plays the launcher inside the test: it starts fake inits as
// plain children, outside of any cell, which is harmless since they run nothing
// of a guest's.
type fakeLauncher struct {
	t *testing.T
	// modes are how the next inits behave; none left means honest. Each is
	// announced on taken once its process runs.
	modes chan string
	taken chan struct{}
	// hook, when set, is told every message and may answer in place of the fake.
	hook atomic.Pointer[func(*fakeSocket, *cellproto.Launch) bool]
}

// fakeSocket is the fake's end of one launcher's socket.
type fakeSocket struct {
	mu sync.Mutex
	fd int // -1: closed
}

// openFake opens a Host on a fake launcher. Every layer is off: what these
// tests are about is what the host believes.
func openFake(t *testing.T) (*Host, *fakeLauncher) {
	t.Helper()
	f := &fakeLauncher{t: t, modes: make(chan string, 16), taken: make(chan struct{}, 64)}
	h, err := Open(Config{Mode: Off, InitPath: testenv.Init(), MaxCells: 4, Max: api.MaxLimits(runtime.NumCPU(), 8<<30),
		ControlOff: []string{"cgroup", "sample", "landlock", "root", "proc", "namespaces", "cgroup_ns", "privileges", "signals",
			"dumpable", "close_range", "rlimits", "seccomp", "pid", "net", "ipc", "uts", "procmask", "mountcheck", "hidepid"},
		start: f.start, patience: fakePatience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h, f
}

func (f *fakeLauncher) start(*os.File, *idRange, []string) (*launcher, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours := os.NewFile(uintptr(fds[0]), "launcher")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	l := &launcher{conn: conn.(*net.UnixConn), pid: os.Getpid(), dead: make(chan struct{}), waiting: map[uint64]chan answer{}}
	sock := &fakeSocket{fd: fds[1]}
	go l.receive()
	go func() {
		defer close(l.dead)
		defer sock.close()
		f.serve(fds[1], sock)
	}()
	return l, nil
}

// serve answers the host until its end of the socket is closed.
func (f *fakeLauncher) serve(fd int, sock *fakeSocket) {
	buf, oob := make([]byte, cellproto.MaxLaunch), make([]byte, unix.CmsgSpace(4*8))
	for {
		n, on, _, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		fds := receivedFDs(oob[:on])
		m, err := cellproto.DecodeLaunch(buf[:n])
		switch {
		case err != nil:
			f.t.Errorf("the host sent nonsense: %v", err)
		case f.hook.Load() != nil && (*f.hook.Load())(sock, m):
		case m.Type == cellproto.LaunchStart:
			f.init(sock, m.Slot, fds)
		case m.Type == cellproto.LaunchDrop:
			sock.send(&cellproto.Launch{Type: cellproto.LaunchExited, Slot: m.Slot}, -1)
		default:
			sock.send(&cellproto.Launch{Type: cellproto.LaunchPrepared, Slot: m.Slot}, -1)
		}
		closeFDs(fds)
	}
}

func (s *fakeSocket) send(m *cellproto.Launch, fd int) { s.raw(m.Encode(), fd) }

func (s *fakeSocket) raw(p []byte, fds ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oob []byte
	if len(fds) > 0 && fds[0] >= 0 {
		oob = unix.UnixRights(fds...)
	}
	if s.fd >= 0 {
		_ = unix.Sendmsg(s.fd, p, oob, nil, unix.MSG_NOSIGNAL)
	}
}

func (s *fakeSocket) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	unix.Close(s.fd)
	s.fd = -1
}

// hangUp ends the connection from the launcher's side.
func (s *fakeSocket) hangUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return unix.Shutdown(s.fd, unix.SHUT_RDWR) == nil
}

// init starts a fake init of the next mode on the descriptors of a cell.
func (f *fakeLauncher) init(sock *fakeSocket, slot uint64, fds []int) {
	mode := "honest"
	select {
	case mode = <-f.modes:
	default:
	}
	var files []*os.File
	for _, fd := range fds {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			f.t.Error(err)
			return
		}
		file := os.NewFile(uintptr(dup), "descriptor")
		defer file.Close()
		files = append(files, file)
	}
	pidfd := -1
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), fakeVar+"="+mode)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[1], files[2], files[3]
	cmd.ExtraFiles = files[:1]
	cmd.SysProcAttr = &syscall.SysProcAttr{PidFD: &pidfd}
	if err := cmd.Start(); err != nil {
		f.t.Error(err)
		return
	}
	sock.send(&cellproto.Launch{Type: cellproto.LaunchStarted, Slot: slot, PID: uint64(cmd.Process.Pid)}, pidfd)
	unix.Close(pidfd)
	select {
	case f.taken <- struct{}{}:
	default: // nobody counts
	}
	go func() {
		_ = cmd.Wait()
		sock.send(&cellproto.Launch{Type: cellproto.LaunchExited, Slot: slot}, -1)
	}()
}

// playInit is the life of a fake: some are wrong from their first frame, others
// once they have their job.
func playInit(mode string, control *os.File) {
	say := func(t cellproto.Type, p []byte) { _ = cellproto.WriteFrame(control, t, p) }
	raw := func(p []byte) error { _, err := control.Write(p); return err }
	_, p, err := cellproto.ReadFrame(control, cellproto.MaxFrame)
	if err != nil {
		return
	}
	arm, err := cellproto.DecodeArm(p)
	if err != nil || !playArm(mode, arm, say, raw) {
		return
	}
	armed := cellproto.Armed{Nonce: arm.Nonce}
	say(cellproto.TypeArmed, armed.Encode())
	if mode == "armed twice" {
		say(cellproto.TypeArmed, armed.Encode())
	}
	if _, p, err = cellproto.ReadFrame(control, cellproto.MaxFrame); err != nil {
		return
	}
	if _, err := cellproto.DecodeJob(p); err == nil {
		playJob(mode, control, say, raw)
	}
}

// playArm answers the arm frame in a mode of its own; true means that the
// answer is still to come.
func playArm(mode string, arm *cellproto.Arm, say func(cellproto.Type, []byte), raw func([]byte) error) bool {
	switch mode {
	case "arm: silent":
		forever()
	case "arm: drip":
		for _, b := range append([]byte{0, 0, 0x80, 0}, make([]byte, 1<<15)...) {
			if raw([]byte{b}) != nil {
				return false
			}
			time.Sleep(5 * time.Millisecond) // the drip itself
		}
	case "arm: flood":
		for p := make([]byte, 60<<10); raw(cellproto.AppendFrame(nil, cellproto.TypeDenied, p)) == nil; {
		}
	case "arm: garbage":
		for p := make([]byte, 64<<10); raw(p) == nil; p[0]++ {
		}
	case "arm: long length":
		_ = raw([]byte{0xff, 0xff, 0xff, 0xff, 2})
		forever()
	case "arm: lying length":
		_ = raw(append([]byte{0, 1, 0, 0, 2}, make([]byte, 100)...))
		forever()
	case "arm: exit":
	case "arm: nonce":
		say(cellproto.TypeArmed, (&cellproto.Armed{Nonce: []byte("another's")}).Encode())
		forever()
	case "arm: names":
		p := append([]byte{byte(len(arm.Nonce))}, arm.Nonce...)
		say(cellproto.TypeArmed, append(binary.AppendUvarint(p, 1<<32), make([]byte, 60<<10)...))
		forever()
	case "arm: unknown":
		say(99, nil)
		forever()
	case "arm: huge message":
		say(cellproto.TypeFailed, cellproto.Failed{Stage: "\x1b[31mstage", Message: string(make([]byte, 60<<10))}.Encode())
		forever()
	default:
		return true
	}
	return false
}

// playJob answers the job.
func playJob(mode string, control *os.File, say func(cellproto.Type, []byte), raw func([]byte) error) {
	exited := cellproto.Exited{Status: 0, WallNS: 1}.Encode()
	switch mode {
	case "job: silent":
		forever()
	case "job: exit":
		return
	case "job: exited first":
		say(cellproto.TypeExited, exited)
		forever()
	case "job: armed again":
		say(cellproto.TypeArmed, (&cellproto.Armed{}).Encode())
		forever()
	}
	say(cellproto.TypeStarted, cellproto.Started{PID: 2}.Encode())
	switch mode {
	case "run: exit":
		return
	case "run: unknown":
		say(99, make([]byte, 1000))
		forever()
	case "run: started again":
		say(cellproto.TypeStarted, cellproto.Started{PID: 2}.Encode())
		forever()
	case "run: flood":
		for raw(cellproto.AppendFrame(nil, cellproto.TypeFailed, cellproto.Failed{Stage: "x", Message: "y"}.Encode())) == nil {
		}
	case "run: garbage":
		for p := make([]byte, 64<<10); raw(p) == nil; p[4]++ {
		}
	case "run: silent":
		forever()
	case "run: nonsense status":
		say(cellproto.TypeExited, cellproto.Exited{Status: 1 << 40, WallNS: 1 << 63}.Encode())
		forever()
	case "run: traced", "traced: a lie":
		say(cellproto.TypeTraced, (&cellproto.Traced{Final: true, Calls: []cellproto.TracedCall{
			{Arch: 1 << 40, Number: 1 << 50, Answer: 1 << 60, Count: 1 << 63}, {Arch: 3, Number: 1 << 33}, {Answer: 0x7fc00000}}}).Encode())
	case "traced: flood":
		for p := (&cellproto.Traced{Calls: []cellproto.TracedCall{{Number: 1, Count: 1}}}).Encode(); raw(cellproto.AppendFrame(nil, cellproto.TypeTraced, p)) == nil; {
		}
	case "traced: kinds":
		for n := uint64(0); n < 2*cellproto.MaxTraced; n++ {
			say(cellproto.TypeTraced, (&cellproto.Traced{Calls: []cellproto.TracedCall{{Number: n}}}).Encode())
		}
		forever()
	case "traced: garbage":
		say(cellproto.TypeTraced, []byte{0, 0xff})
		forever()
	case "run: descriptors":
		for range 200 {
			if unix.Sendmsg(int(control.Fd()), cellproto.AppendFrame(nil, 99, nil)[:1], unix.UnixRights(0, 1, 2, 0, 1), nil, unix.MSG_NOSIGNAL) != nil {
				return
			}
		}
		forever()
	}
	say(cellproto.TypeExited, exited)
	playFiles(mode, say, raw)
}

// forever waits until the host ends the process. It is no deadlock for the
// runtime, which would end it by itself.
func forever() {
	for {
		_ = unix.Pause()
	}
}
