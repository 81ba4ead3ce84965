package cell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/attest"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/cgroup"
)

// armTimeout bounds the time from the start of init to its report.
const armTimeout = 10 * time.Second

// maxReply bounds a frame from init: it is hostile input.
const maxReply = 64 << 10

// cell is one sealed process tree that waits for its job, runs it, or is gone.
type cell struct {
	h       *Host
	kind    kind
	place   *place
	uid     int // in the launcher's namespace; 0: shared
	control *net.UnixConn
	stdin   *os.File // the host's ends
	socket  *socket  // over stdin, of a worker
	stdout  *os.File
	stderr  *os.File
	pidfd   int
	witness *attest.Witness
	policy  *policy
	// namespaces is how many of its namespaces were seen not to be the host's.
	namespaces int

	armedAt  time.Time
	evidence api.Evidence
	steps    []cellproto.Step
}

// stageError is a failure with the stage of the cell's life it belongs to.
type stageError struct {
	stage string
	err   error
}

func (e *stageError) Error() string { return e.stage + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// What init says for people is cut at these lengths, in bytes.
const (
	maxWords = 1024
	maxStage = 64
)

// saidBy is a failure in init's own words, which are hostile.
func saidBy(f cellproto.Failed) *stageError {
	return &stageError{words(f.Stage, maxStage), errors.New(words(f.Message, maxWords))}
}

// words returns a text that is short, valid and without control characters.
func words(s string, most int) string {
	s = strings.ToValidUTF8(s[:min(len(s), most)], "")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
}

// errSilent is an init that ended before it had said anything.
var errSilent = errors.New("init ended without a report")

// arm makes a sealed and attested cell of one that was prepared, which it takes
// over whatever happens; with nil it takes one of the reserve or makes it. One of
// the reserve that dies before it has reported is replaced, once: whoever killed it
// did so before anything was asked of it.
func (h *Host) arm(k kind, c *cell) (_ *cell, err error) {
	if c == nil {
		ahead := false
		if c, ahead, err = h.takePrepared(); err != nil {
			return nil, &stageError{"prepare", err}
		}
		if ahead {
			armed, err := h.arm(k, c)
			if err == nil || !errors.Is(err, errSilent) {
				return armed, err
			}
			if c, err = h.prepare(); err != nil {
				return nil, &stageError{"prepare", err}
			}
		}
	}
	c.kind = k
	defer func() {
		if err != nil {
			c.destroy()
		}
	}()
	uid := os.Geteuid()
	inside := guestID
	if h.ids != nil {
		if c.uid, err = h.ids.take(); err != nil {
			return nil, &stageError{"identity", err}
		}
		inside = c.uid
		uid = h.ids.base + c.uid
	}
	n := nonce()
	if c.policy, err = h.inForce(c.place.slot.l.plan, k); err != nil {
		return nil, err
	}
	a := h.arming(k, c.policy, inside, inside, n)
	report, err := c.build(a)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(report.Nonce, n) {
		return nil, &stageError{"attest", errors.New("the report is not for this cell")}
	}
	c.armedAt = time.Now()
	c.steps = report.Steps
	return c, c.attest(a, report, uid)
}

// build sends the arm frame and reads init's report.
func (c *cell) build(a *cellproto.Arm) (*cellproto.Armed, error) {
	if err := c.control.SetDeadline(time.Now().Add(c.h.cfg.patience)); err != nil {
		return nil, err
	}
	defer c.control.SetDeadline(time.Time{})
	if err := cellproto.WriteFrame(c.control, cellproto.TypeArm, a.Encode()); err != nil {
		return nil, &stageError{"arm", silent(err)}
	}
	return readReport(c.control)
}

// readReport reads what init says of the cell that it has built, or why it has not.
func readReport(init io.Reader) (*cellproto.Armed, error) {
	t, p, err := cellproto.ReadFrame(init, maxReply)
	if err != nil {
		return nil, &stageError{"arm", silent(err)}
	}
	switch t {
	case cellproto.TypeArmed:
		r, err := cellproto.DecodeArmed(p)
		if err != nil {
			return nil, &stageError{"arm", err}
		}
		return r, nil
	case cellproto.TypeFailed:
		f, err := cellproto.DecodeFailed(p)
		if err != nil {
			return nil, &stageError{"arm", err}
		}
		return nil, saidBy(f)
	}
	return nil, &stageError{"arm", fmt.Errorf("frame of type %d", t)}
}

// silent is the failure of a conversation in which init said nothing: it has ended, or
// did not come to an end.
func silent(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no report from init: %w", err)
	}
	return fmt.Errorf("%w: %w", errSilent, err)
}

// limits are what the kernel must enforce for a job, from the moment of
// hand-over. A task more than init's own is the guest's: init and, on v1, the
// launcher's thread are counted as they are now, and init starts no thread
// after this.
func (c *cell) limits(l api.Limits) (cgroup.Limits, error) {
	now, err := c.place.group.Counters()
	if err != nil {
		return cgroup.Limits{}, err
	}
	if now.Tasks == nil {
		return cgroup.Limits{}, errors.New("the number of tasks cannot be read")
	}
	return cgroup.Limits{MemoryBytes: l.MemoryBytes, Tasks: *now.Tasks + l.Pids, CPUPercent: l.CPUPercent}, nil
}

// handOver puts the job's limits in force and looks once more, from outside, at
// what could have changed while the cell was armed; a fresh cell was seen a
// moment ago.
func (c *cell) handOver(l api.Limits, fresh bool) error {
	if g := c.place.group; g != nil {
		err := g.CheckLimits(c.place.limits)
		var want cgroup.Limits
		if err == nil {
			want, err = c.limits(l)
		}
		if err == nil {
			err = g.SetLimits(want)
		}
		if err == nil {
			err = g.CheckLimits(want)
		}
		if err == nil && !fresh {
			err = g.Member(c.witness.Dir())
		}
		if err != nil {
			return &stageError{"cgroup", err}
		}
	}
	if !fresh {
		if err := c.witness.Threads(c.want()); err != nil {
			return &stageError{"attest", err}
		}
	}
	c.evidence.AttestedMS = ms(time.Since(c.armedAt))
	return nil
}

func (c *cell) want() attest.Want {
	h := c.h
	w := attest.Want{Seccomp: h.feat.seccomp, Privileges: !h.off("privileges"), Signals: !h.off("signals"), First: !h.off("pid"), GuestUID: -1}
	if h.ids != nil && !h.off("privileges") {
		w.GuestUID = h.ids.base + c.uid
	}
	return w
}

// kill ends every process of the cell: by the pidfd of its first, which takes
// its pid namespace with it, and by the group where the kernel offers that.
func (c *cell) kill() {
	if c.pidfd >= 0 {
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
	}
	if c.place.group != nil {
		_, _ = c.place.group.Kill()
	}
}

// gone waits, at most that long, until init has ended. Its pid namespace is
// empty then.
func (c *cell) gone(atMost time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
	for end := time.Now().Add(atMost); ; {
		left := max(time.Until(end), 0)
		if n, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond)); err == nil && n == 1 {
			return true
		}
		if left == 0 {
			return false
		}
	}
}

// destroy ends the cell, if it was started, and gives back all it had.
func (c *cell) destroy() {
	c.kill()
	c.ashes()
}

// ashes gives back what the cell had, after its end or its death.
func (c *cell) ashes() {
	if c.control != nil {
		c.control.Close() // init ends at this too
	}
	if c.socket != nil {
		c.socket.close()
	}
	for _, f := range []*os.File{c.stdin, c.stdout, c.stderr} {
		if f != nil {
			f.Close()
		}
	}
	if c.pidfd >= 0 {
		how, err := c.place.slot.exited()
		if err == nil && !c.gone(launcherTimeout) { // a launcher that hangs up does so before its cells are gone
			err = errors.New("it outlives its launcher")
		}
		if err != nil {
			c.h.log.Error("a cell did not end", "error", err, "how", how)
			c.uid = 0 // not given back: something may live under it
		}
		unix.Close(c.pidfd)
	} else {
		c.place.slot.drop()
	}
	if c.witness != nil {
		c.witness.Close()
	}
	if c.place.group != nil {
		if err := c.place.group.Remove(); err != nil {
			c.h.log.Error("a control group was not removed", "error", err)
		}
	}
	if c.uid != 0 {
		c.h.ids.give(c.uid)
	}
}
