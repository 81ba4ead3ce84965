package cellinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// maxArm bounds the arm frame; a job may be as large as any frame.
const maxArm = 1 << 20

// cell is the state of one init.
type cell struct {
	arm   *cellproto.Arm
	begin time.Time
	steps []cellproto.Step
	layer []cellproto.Applied

	box      int            // directory descriptor of /box
	prog     int            // of the product's folder, on a mount that may be written to
	piece    int            // the file that is being written, or -1
	standIns map[string]int // stand-in files, open for writing until the job has come
	timens   int            // timens_offsets of the sealed thread, or -1
	deadline int            // timerfd
	listener chan int       // to the thread that waits for calls of the kill class
	signals  chan int       // to the thread that passes signals on: the guest's pidfd

	// Of a traced cell.
	awake    chan struct{} // the thread that listens is
	watch    atomic.Int32  // its listener; 0 not yet, below it never
	sealed   uint32        // the sealed thread's number
	lastWord atomic.Bool   // the guest has ended, see endTrace
	talking  atomic.Bool   // somebody writes to the host; beside the mutex, which the tracer must not wait for
	noPIDs   bool          // a control without a pid namespace

	write sync.Mutex // one frame at a time on the control socket
}

// stageError is a failure with the stage it belongs to.
type stageError struct {
	stage string
	err   error
}

func (e *stageError) Error() string { return e.stage + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

func stage(name string, err error) error {
	var inner *stageError
	if err == nil || errors.As(err, &inner) { // it knows its stage
		return err
	}
	return &stageError{name, err}
}

func initMain() {
	c := &cell{begin: time.Now(), timens: -1, box: -1, prog: -1, piece: -1, deadline: -1, standIns: map[string]int{}}
	if err := c.first(); err != nil {
		c.fatal(err)
	}
	sealed := make(chan error)
	// The sealed thread: a locked goroutine that is never unlocked. Main is
	// locked to the main thread, so this is another one.
	go func() {
		runtime.LockOSThread()
		err := c.build()
		if err == nil {
			err = c.seal()
		}
		sealed <- err
		if err == nil {
			c.guest()
		}
		select {}
	}()
	if err := <-sealed; err != nil {
		c.fatal(err)
	}
	c.keep()
}

// first does what must not wait: nothing inherited stays open, nobody may look
// into this process, and it dies with its parent.
func (c *cell) first() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return stage("dumpable", err)
	}
	for fd := FDControl; fd <= FDStderr; fd++ {
		unix.CloseOnExec(fd)
	}
	t, p, err := cellproto.ReadFrame(fdReader(FDControl), maxArm)
	if err != nil {
		os.Exit(0) // the host gave the cell up
	}
	if t != cellproto.TypeArm {
		return stage("arm", fmt.Errorf("frame of type %d", t))
	}
	if c.arm, err = cellproto.DecodeArm(p); err != nil {
		return stage("arm", err)
	}
	if !c.off("close_range") {
		if err := closeFrom(FDStderr+1, 0); err != nil {
			return stage("descriptors", err)
		}
	}
	if c.off("dumpable") {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			return stage("dumpable", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return stage("parent death", err)
	}
	procs := 2 // one for each of the two threads that work
	if len(c.arm.Judge) > 0 {
		procs, c.noPIDs = 3, c.off("pid") // and one for the tracer, which keeps it
	}
	if runtime.GOMAXPROCS(0) != procs {
		runtime.GOMAXPROCS(procs)
	}
	c.step("first")
	return nil
}

// keep is the main thread's life after sealing: the second keeper of the
// deadline, and the one that notices that the host is gone. Both end the
// process, and with it the namespace.
func (c *cell) keep() {
	fds := []unix.PollFd{
		{Fd: FDControl, Events: unix.POLLRDHUP},
		{Fd: int32(c.deadline), Events: unix.POLLIN},
	}
	for {
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			os.Exit(1)
		}
		if fds[0].Revents != 0 || fds[1].Revents != 0 {
			os.Exit(0)
		}
	}
}

func (c *cell) off(layer string) bool { return has(c.arm.Off, layer) }

func (c *cell) step(name string) {
	c.steps = append(c.steps, cellproto.Step{Name: name, NS: uint64(time.Since(c.begin))})
}

func (c *cell) applied(layer string, ok bool, detail string) {
	c.layer = append(c.layer, cellproto.Applied{Layer: layer, OK: ok, Detail: detail})
}

// talk takes the control socket, and returns what gives it back.
func (c *cell) talk() func() {
	c.write.Lock()
	for !c.talking.CompareAndSwap(false, true) { // the tracer never takes long
		runtime.Gosched()
	}
	return func() {
		c.talking.Store(false)
		c.write.Unlock()
	}
}

func (c *cell) send(t cellproto.Type, p []byte) {
	defer c.talk()()
	if cellproto.WriteFrame(fdWriter(FDControl), t, p) != nil {
		os.Exit(1)
	}
}

// sendPiece sends a piece of an artifact.
func (c *cell) sendPiece(p *cellproto.Piece) {
	defer c.talk()()
	w := fdWriter(FDControl)
	if _, err := w.Write(p.Head(cellproto.TypeArtifact)); err != nil {
		os.Exit(1)
	}
	if _, err := w.Write(p.Data); err != nil {
		os.Exit(1)
	}
}

// fatal reports the stage that failed and ends the cell.
func (c *cell) fatal(err error) {
	f := cellproto.Failed{Stage: "init", Message: err.Error()}
	var se *stageError
	if errors.As(err, &se) {
		f.Stage, f.Message = se.stage, se.err.Error()
	}
	c.send(cellproto.TypeFailed, f.Encode())
	os.Exit(1)
}

// fdReader and fdWriter do blocking calls on a descriptor without the
// runtime's poller, which would start threads of its own.
type fdReader int

func (r fdReader) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(r), p)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if n == 0 && len(p) > 0 {
			return 0, io.EOF
		}
		return n, nil
	}
}

type fdWriter int

func (w fdWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Write(int(w), p[done:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}
