package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// PTY is a pseudoterminal of a test: TTY is the side of the program under test,
// the rest of it that of its user. See pty(7).
type PTY struct {
	TTY *os.File

	master *os.File
	mu     sync.Mutex
	cond   *sync.Cond
	seen   bytes.Buffer
	ended  bool
}

// NewPTY makes a terminal of 24 lines with columns columns that neither echoes
// nor changes what is written to it.
func NewPTY(t testing.TB, columns int) *PTY {
	t.Helper()
	p, err := openPTY(columns)
	if err != nil {
		t.Fatalf("pseudoterminal: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read()
	}()
	t.Cleanup(func() {
		p.TTY.Close()
		p.master.Close()
		<-done
	})
	return p
}

func openPTY(columns int) (*PTY, error) {
	// Nonblocking, so that closing it ends a pending read.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	p := &PTY{master: os.NewFile(uintptr(fd), "/dev/ptmx")}
	p.cond = sync.NewCond(&p.mu)
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, errors.Join(err, p.master.Close())
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, errors.Join(err, p.master.Close())
	}
	if p.TTY, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, errors.Join(err, p.master.Close())
	}
	tty := int(p.TTY.Fd())
	attr, err := unix.IoctlGetTermios(tty, unix.TCGETS)
	if err == nil {
		attr.Oflag &^= unix.OPOST
		attr.Lflag &^= unix.ECHO
		err = unix.IoctlSetTermios(tty, unix.TCSETS, attr)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(tty, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)})
	}
	if err != nil {
		return nil, errors.Join(err, p.TTY.Close(), p.master.Close())
	}
	return p, nil
}

// read keeps what arrives until the last holder of the terminal has closed it.
func (p *PTY) read() {
	buf := make([]byte, 4096)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		p.seen.Write(buf[:n])
		p.ended = err != nil
		p.cond.Broadcast()
		p.mu.Unlock()
		if err != nil { // EIO: nobody holds it any more
			return
		}
	}
}

// Type writes what the user types. "\x03" is his Ctrl-C.
func (p *PTY) Type(t testing.TB, s string) {
	t.Helper()
	if _, err := io.WriteString(p.master, s); err != nil {
		t.Fatalf("type: %v", err)
	}
}

// Await returns all that has been shown once want is among it. It fails the
// test when the terminal is closed first, or after a minute.
func (p *PTY) Await(t testing.TB, want string) string {
	t.Helper()
	late := false
	timer := time.AfterFunc(time.Minute, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.cond.Broadcast()
	})
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !strings.Contains(p.seen.String(), want) {
		if p.ended || late {
			t.Fatalf("the terminal shows %q and not %q", p.seen.String(), want)
		}
		p.cond.Wait()
	}
	return p.seen.String()
}

// Shown closes this process's own end of TTY, waits until every other holder has
// done so, and returns all that has been shown.
func (p *PTY) Shown() string {
	p.TTY.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.ended {
		p.cond.Wait()
	}
	return p.seen.String()
}
