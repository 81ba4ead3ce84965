package cell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/seccomp"
)

// cause is why the host ended a run.
type cause int

const (
	causeNone cause = iota
	causeSetup
	causeCanceled
	causeClosed
	causeWall
	causeCPU
	causeOutput
	causeMemory
)

// ending collects what is known of how a run ends. It is safe for concurrent
// use.
type ending struct {
	mu      sync.Mutex
	cause   cause
	stream  string
	exited  *cellproto.Exited
	denied  *cellproto.Denied
	failure string
	exec    unix.Errno
}

// die sets the cause if none is set, and reports whether it did.
func (e *ending) die(c cause) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause != causeNone || e.exited != nil {
		return false
	}
	e.cause = c
	return true
}

func (e *ending) execFailed(errno unix.Errno) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.exec = errno
}

// watch holds the deadlines until init has said how the guest ended, which it
// does when nothing of the guest is left, or until init is gone.
func (r *run) watch() {
	frames := make(chan struct{})
	go func() {
		defer close(frames)
		r.frames(r.c.control)
	}()
	if r.end.exec != 0 {
		<-frames
		return
	}
	wall := time.NewTimer(time.Until(r.started.Add(time.Duration(r.job.Limits.WallMS) * time.Millisecond)))
	defer wall.Stop()
	tick := time.NewTimer(r.firstTick())
	defer tick.Stop()
	if r.streams.Signals != nil {
		over := make(chan struct{})
		defer close(over)
		go r.signals(over)
	}
	done, closing := r.ctx.Done(), r.h.ctx.Done()
	for {
		select {
		case <-frames:
			return
		case <-wall.C:
			r.stop(causeWall, "")
		case <-done:
			done = nil
			r.stop(causeCanceled, "")
		case <-closing:
			closing = nil
			r.stop(causeClosed, "")
		case name := <-r.out.exceeded:
			r.stop(causeOutput, name)
		case <-tick.C:
			tick.Reset(r.tick())
		}
	}
}

// stop ends the cell for a reason; a second reason changes nothing.
func (r *run) stop(c cause, stream string) {
	if r.end.die(c) {
		r.end.mu.Lock()
		r.end.stream = stream
		r.end.mu.Unlock()
	}
	r.c.kill()
}

// signals passes signals on until the guest's end is known. It may have to wait
// for init, which must keep nobody from a deadline.
func (r *run) signals(over <-chan struct{}) {
	for {
		select {
		case s := <-r.streams.Signals:
			r.signal(s)
		case <-over:
			return
		}
	}
}

// signal has init send a signal to the guest. One that comes too late is no
// fault: the guest has ended, and so will the run.
func (r *run) signal(s unix.Signal) {
	_ = r.c.control.SetWriteDeadline(time.Now().Add(r.h.cfg.patience))
	_ = cellproto.WriteFrame(r.c.control, cellproto.TypeSignal, cellproto.Signal{Number: uint64(s)}.Encode())
}

// maxFrames bounds what init may say during a run: it has two things to say.
const maxFrames = 8

// frames reads what init reports until it has reported the end, or is gone: its
// end of the socket closes with it.
func (r *run) frames(init io.Reader) {
	for range maxFrames {
		t, p, err := cellproto.ReadFrame(init, maxReply)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, unix.ECONNRESET) {
				r.note(err.Error())
			}
			return
		}
		if !r.frame(t, p) {
			return
		}
	}
	r.note("init says too much")
	r.c.kill()
}

func (r *run) frame(t cellproto.Type, p []byte) bool {
	var err error
	r.end.mu.Lock()
	defer r.end.mu.Unlock()
	switch t {
	case cellproto.TypeExited:
		var v cellproto.Exited
		if v, err = cellproto.DecodeExited(p); err == nil && r.end.exited == nil {
			r.end.exited = &v
			return false
		}
	case cellproto.TypeDenied:
		var v cellproto.Denied
		if v, err = cellproto.DecodeDenied(p); err == nil && r.end.denied == nil {
			r.end.denied = &v
		}
	case cellproto.TypeFailed:
		var v cellproto.Failed
		if v, err = cellproto.DecodeFailed(p); err == nil {
			r.end.failure = saidBy(v).Error()
		}
	default:
		err = errors.New("an unexpected frame")
	}
	if err != nil {
		r.end.failure = err.Error()
		r.c.kill()
		return false
	}
	return true
}

func (r *run) note(s string) {
	r.end.mu.Lock()
	defer r.end.mu.Unlock()
	if r.end.failure == "" {
		r.end.failure = s
	}
}

// The sampling of processor time: often near the limit, seldom far from it.
const (
	minTick   = 2 * time.Millisecond
	maxTick   = 250 * time.Millisecond
	statsTick = 100 * time.Millisecond
)

func (r *run) firstTick() time.Duration { return r.next(0) }

// next is when the limit could be reached at the earliest, given the share of
// cores.
func (r *run) next(usedMS float64) time.Duration {
	left := (float64(r.job.Limits.CPUMS) - usedMS) * 100 / float64(r.job.Limits.CPUPercent)
	d := time.Duration(left * float64(time.Millisecond))
	longest := maxTick
	if r.streams.Event != nil {
		longest = statsTick
	}
	if r.c.place.group == nil {
		longest = 20 * time.Millisecond // memory is sampled
	}
	return min(max(d, minTick), longest)
}

// tick compares the processor time with its limit and emits a reading.
func (r *run) tick() time.Duration {
	g := r.c.place.group
	if g == nil {
		return r.sample()
	}
	now, err := g.CPUUsec()
	if err != nil {
		return maxTick
	}
	used := float64(now-r.cpuBase) / 1000
	if used >= float64(r.job.Limits.CPUMS) {
		r.stop(causeCPU, "")
	}
	if r.streams.Event != nil {
		if n, err := g.Counters(); err == nil {
			r.out.reading(api.Event{Type: "stats", MemoryBytes: n.MemoryBytes, CPUMS: &used})
		}
	}
	return r.next(used)
}

// settle takes the rest of the output, reads the counters and gives the
// verdict. The end of init and what the cell had are seen to behind the
// caller's back.
func (r *run) settle() {
	if r.out != nil && !r.out.started.IsZero() {
		r.out.finish(&r.result, time.Now().Add(settleTime/2))
	}
	if r.end.exited == nil {
		// Init was ended and with it the rest, which is certain only when it is gone.
		if !r.c.gone(settleTime) {
			r.note("the cell did not end in time")
		}
	}
	if !r.counted {
		r.counters()
	}
	r.verdict()
	r.h.work.Add(1)
	go func() {
		defer r.h.work.Done()
		r.c.destroy()
	}()
	if r.out != nil {
		r.out.emit(api.Event{Type: "finished", Result: &r.result})
	}
}

func (r *run) counters() {
	g := r.c.place.group
	if g == nil {
		r.result.Warnings = append(r.result.Warnings, sampled+"; cpu, peak, oom kills and refused forks cannot be told without a control group")
		return
	}
	n, err := g.Counters()
	if err != nil {
		r.result.Warnings = append(r.result.Warnings, "counters: "+err.Error())
		return
	}
	if n.CPUUsec != nil {
		used := float64(max(*n.CPUUsec-r.cpuBase, 0)) / 1000
		r.result.CPUMS = &used
	}
	r.result.PeakBytes, r.result.OOMKills, r.result.PidsMaxHits = n.PeakBytes, n.OOMKills, n.PidsMaxHits
	for _, c := range []struct {
		name string
		v    *int64
	}{{"peak_bytes", n.PeakBytes}, {"oom_kills", n.OOMKills}, {"pids_max_hits", n.PidsMaxHits}, {"cpu_ms", n.CPUUsec}} {
		if c.v == nil {
			r.result.Warnings = append(r.result.Warnings, c.name+": this kernel cannot tell")
		}
	}
}

// closedMessage is that of a run which its host's end interrupted.
const closedMessage = "Glovebox was closed"

// verdict decides by the order of precedence that the contract fixes.
func (r *run) verdict() {
	e, res := &r.end, &r.result
	e.mu.Lock()
	defer e.mu.Unlock()
	wall := r.ended.Sub(r.started)
	if e.exited != nil {
		// By init's clock, unless it says what the host cannot have missed.
		if said := time.Duration(e.exited.WallNS); said >= 0 && said <= wall+settleTime {
			wall = said
		}
	}
	if !r.ended.IsZero() {
		res.WallMS = ms(wall)
	}
	oom := res.OOMKills != nil && *res.OOMKills > 0 || e.cause == causeMemory
	limit := time.Duration(r.job.Limits.WallMS) * time.Millisecond
	// A guest that ended by itself is judged by its own time, on one clock: the
	// host's timer may fire a moment later, or just before the report arrives.
	late := e.cause == causeWall
	if e.exited != nil {
		late = wall > limit
	}
	cpu := res.CPUMS != nil && *res.CPUMS >= float64(r.job.Limits.CPUMS)
	r.exit()
	switch {
	case e.cause == causeSetup && oom: // the program's files, under the program's own limit
		res.Verdict, res.Stage, res.Message = api.MemoryLimit, "", "the program's files do not fit its memory"
	case e.cause == causeSetup:
	case e.denied != nil:
		res.Verdict, res.Syscall = api.Denied, nameOf(e.denied)
	case e.cause == causeCanceled:
		res.Verdict = api.Canceled
	case e.cause == causeClosed:
		res.Verdict = api.Interrupted
		res.Message = closedMessage
	case oom:
		res.Verdict = api.MemoryLimit
	case r.out.stdout.over:
		res.Verdict, res.Cause = api.OutputLimit, api.CauseStdout
	case r.out.stderr.over:
		res.Verdict, res.Cause = api.OutputLimit, api.CauseStderr
	case late:
		res.Verdict, res.Cause = api.Timeout, api.CauseWall
	case cpu || e.cause == causeCPU:
		res.Verdict, res.Cause = api.Timeout, api.CauseCPU
	case res.ExitCode != nil && *res.ExitCode == 0:
		res.Verdict = api.OK
	case res.ExitCode != nil || res.Signal != "":
		res.Verdict = api.Error
	case wall >= limit: // the second keeper, inside, was first
		res.Verdict, res.Cause = api.Timeout, api.CauseWall
	default:
		res.Verdict, res.Stage, res.Message = api.SetupFailed, "init", "init ended without a word"
		if e.failure != "" {
			res.Message = e.failure
		}
	}
}

// nameOf is the name of a refused call, "unknown" when its caller was gone
// before it could be asked.
func nameOf(d *cellproto.Denied) string {
	if nr := int32(d.Number); nr >= 0 {
		return seccomp.Describe(uint32(d.Arch), nr)
	}
	return "unknown"
}

// exit fills exit code and signal from the wait status.
func (r *run) exit() {
	e, res := &r.end, &r.result
	switch {
	case e.exec != 0:
		code := 126
		if e.exec == unix.ENOENT {
			code = 127
		}
		res.ExitCode = &code
	case e.exited != nil:
		switch ws := unix.WaitStatus(e.exited.Status); {
		case uint64(ws) != e.exited.Status || ws > 0xffff || !ws.Signaled() && !ws.Exited():
			e.failure = fmt.Sprintf("init reports the wait status %#x", e.exited.Status)
		case ws.Signaled():
			res.Signal = signalName(ws.Signal())
		default:
			code := ws.ExitStatus()
			res.ExitCode = &code
		}
	}
}

// signalName gives every signal a name, those of signal(7) that have only a
// number too: the C library keeps the first two real-time signals to itself.
func signalName(s unix.Signal) string {
	const rtmin = 34
	switch name := unix.SignalName(s); {
	case name != "":
		return name
	case s == rtmin:
		return "SIGRTMIN"
	case s > rtmin:
		return fmt.Sprintf("SIGRTMIN+%d", s-rtmin)
	}
	return fmt.Sprintf("SIG%d", s)
}
