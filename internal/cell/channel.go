package cell

import (
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lookFor is how long a read looks again and again before it sleeps: what a
// worker answers at once is there sooner than a sleeper would be woken.
const lookFor = 40 * time.Microsecond

// lookers are the reads that look right now. They may have half of the
// processors, since the workers that they wait for need some.
var lookers atomic.Int32

// socket is the host's end of a worker's socket. The socket itself is not with
// the runtime's poller, which every byte would wake: it hears of it only while
// somebody sleeps. One goroutine may read while another one writes.
type socket struct {
	file    *os.File
	raw     syscall.RawConn
	in, out *alarm
}

// newSocket takes a socket that does not block, in a file that the poller does
// not know, and closes it with the stream.
func newSocket(file *os.File) (*socket, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{file: file, raw: raw}
	if s.in, err = newAlarm(raw, unix.EPOLLIN|unix.EPOLLRDHUP); err != nil {
		return nil, err
	}
	if s.out, err = newAlarm(raw, unix.EPOLLOUT); err != nil {
		s.in.close()
		return nil, err
	}
	return s, nil
}

// Read reads as a file does.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.try(s.raw.Read, p, func(fd int, p []byte) (int, error) {
		n, err := unix.Read(fd, p)
		if waits(err) {
			n, err = look(fd, p)
		}
		return n, err
	}, s.in)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// Write writes all of p.
func (s *socket) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := s.try(s.raw.Write, p[done:], unix.Write, s.out)
		done += n
		if err != nil {
			return done, &os.PathError{Op: "write", Path: s.file.Name(), Err: err}
		}
	}
	return done, nil
}

// try calls until there is an answer, and sleeps in between.
func (s *socket) try(raw func(func(uintptr) bool) error, p []byte, call func(int, []byte) (int, error), a *alarm) (n int, err error) {
	if err := a.due(); err != nil {
		return 0, err
	}
	for {
		closed := raw(func(fd uintptr) bool {
			if n, err = call(int(fd), p); waits(err) {
				a.set(int(fd))
			}
			return true
		})
		switch {
		case closed != nil:
			return 0, closed
		case !waits(err):
			return max(n, 0), err
		}
		if err := a.sleep(); err != nil {
			return 0, err
		}
	}
}

// waits tells that nothing can be read or written yet.
func waits(err error) bool { return err == unix.EAGAIN || err == unix.EINTR }

// look reads until there is something or its time is over.
func look(fd int, p []byte) (n int, err error) {
	defer lookers.Add(-1)
	if lookers.Add(1) > int32(runtime.GOMAXPROCS(0)/2) {
		return 0, unix.EAGAIN
	}
	for end := time.Now().Add(lookFor); ; {
		if n, err = unix.Read(fd, p); !waits(err) || time.Now().After(end) {
			return n, err
		}
	}
}

// SetReadDeadline is that of a net.Conn.
func (s *socket) SetReadDeadline(t time.Time) error { return s.in.file.SetReadDeadline(t) }

// SetWriteDeadline is that of a net.Conn.
func (s *socket) SetWriteDeadline(t time.Time) error { return s.out.file.SetReadDeadline(t) }

// SetDeadline is that of a net.Conn.
func (s *socket) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// close ends whoever sleeps. It is idempotent.
func (s *socket) close() {
	s.in.close()
	s.out.close()
	_ = s.file.Close()
}

// alarm wakes one sleeper when the socket is ready: an epoll instance with the
// socket in it, which the runtime's poller watches in turn. It goes off once for
// each time that it is set.
type alarm struct {
	file   *os.File
	raw    syscall.RawConn
	events uint32
}

func newAlarm(socket syscall.RawConn, events uint32) (*alarm, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // for os.NewFile, which looks
		unix.Close(fd)
		return nil, err
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "channel"), events: events}
	if a.raw, err = a.file.SyscallConn(); err == nil {
		_ = socket.Control(func(s uintptr) { err = a.control(unix.EPOLL_CTL_ADD, int(s), 0) })
	}
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *alarm) control(op, socket int, events uint32) (err error) {
	_ = a.raw.Control(func(fd uintptr) {
		err = unix.EpollCtl(int(fd), op, socket, &unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: int32(socket)})
	})
	return err
}

// set makes it go off when the socket is ready, now if it is already.
func (a *alarm) set(socket int) { _ = a.control(unix.EPOLL_CTL_MOD, socket, a.events) }

// sleep waits until it has gone off, its deadline, or close.
func (a *alarm) sleep() error {
	return a.raw.Read(func(fd uintptr) bool {
		var one [1]unix.EpollEvent
		n, err := unix.EpollWait(int(fd), one[:], 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// due is the error of a deadline that has passed.
func (a *alarm) due() error { return a.raw.Read(func(uintptr) bool { return true }) }

func (a *alarm) close() { _ = a.file.Close() }
