package js

import (
	"io"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cell"
)

// lookFor is how long a read looks again and again before it sleeps: what a
// worker answers at once is there sooner than a sleeper would be woken.
const lookFor = 40 * time.Microsecond

// lookers are the reads that look right now. They may have half of the
// processors, since the workers that they wait for need some.
var lookers atomic.Int32

// eager reads a channel, whose deadlines hold for it, and looks for a moment
// before it sleeps.
type eager struct{ raw syscall.RawConn }

func newEager(c *cell.Channel) (*eager, error) {
	raw, err := c.SyscallConn()
	return &eager{raw}, err
}

// Read reads as a file does.
func (e *eager) Read(p []byte) (int, error) {
	var n int
	var err error
	slept := false
	failed := e.raw.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), p)
		if waits(err) && !slept {
			n, err = look(int(fd), p)
		}
		slept = true
		return !waits(err)
	})
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// waits tells that there is nothing to read yet.
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
