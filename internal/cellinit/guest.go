package cellinit

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// guest is the sealed thread's life: one job, one fork, one exit. Everything
// here already happens with the guest's own identity and under its limits.
func (c *cell) guest() {
	job, err := c.receive()
	if err != nil {
		c.fatal(err)
	}
	if c.off("root") {
		job.Dir = staging
	}
	if err := c.prepareJob(job); err != nil {
		c.fatal(err)
	}
	started := time.Now()
	pid, err := c.start(job)
	if err != nil {
		c.execFailed(job, err)
	}
	c.armTimer(job.DeadlineMS)
	if job.Signals && c.signals != nil {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			c.fatal(stage("signals", err))
		}
		c.signals <- fd
	}
	c.send(cellproto.TypeStarted, cellproto.Started{PID: uint64(pid)}.Encode())
	for fd := FDStdin; fd <= FDStderr; fd++ {
		unix.Close(fd)
	}
	status, err := reap(pid)
	wall := time.Since(started)
	if err != nil {
		c.fatal(stage("wait", err))
	}
	alone := false
	if !c.off("pid") { // else the namespace is the host's
		alone = endAll()
	}
	c.endTrace()
	c.send(cellproto.TypeExited, cellproto.Exited{Status: uint64(status), WallNS: uint64(wall)}.Encode())
	if len(job.Collect.Patterns) > 0 {
		c.armTimer(job.Collect.MS + 1000)
		c.collect(&job.Collect, alone)
	}
	os.Exit(0)
}

// receive writes the files that come before the job, and returns the job.
func (c *cell) receive() (*cellproto.Job, error) {
	buf := make([]byte, cellproto.MaxPieceFrame) // for every frame: nothing here is collected
	for {
		t, p, err := cellproto.ReadFrameInto(fdReader(FDControl), cellproto.MaxFrame, buf)
		if err != nil {
			os.Exit(0) // never handed over
		}
		switch t {
		case cellproto.TypeFile:
			piece, err := cellproto.DecodePiece(p)
			if err != nil {
				return nil, stage("job", err)
			}
			if err := c.writePiece(piece); err != nil {
				return nil, stage("files", fmt.Errorf("%s: %w", piece.Name, err))
			}
		case cellproto.TypeJob:
			job, err := cellproto.DecodeJob(p)
			if c.prog >= 0 { // nothing that could be written there stays open
				if job == nil || job.Collect.Place != cellproto.PlaceProduct {
					unix.Close(c.prog)
					c.prog = -1
				}
			}
			return job, stage("job", err)
		default:
			return nil, stage("job", fmt.Errorf("frame of type %d", t))
		}
	}
}

func (c *cell) prepareJob(job *cellproto.Job) error {
	for _, s := range job.StandIns {
		fd, ok := c.standIns[s.Path]
		if !ok {
			continue
		}
		if err := unix.Ftruncate(fd, 0); err != nil {
			return stage("proc", err)
		}
		if _, err := unix.Pwrite(fd, s.Data, 0); err != nil {
			return stage("proc", err)
		}
	}
	c.closeStandIns()
	if c.timens >= 0 {
		if err := c.writeOffsets(); err != nil {
			return stage("time", err)
		}
	}
	if c.off("rlimits") {
		return nil
	}
	for _, r := range []struct {
		what int
		to   uint64
	}{{unix.RLIMIT_FSIZE, job.FileBytes}, {unix.RLIMIT_NOFILE, job.OpenFiles}, {unix.RLIMIT_CPU, job.CPUSeconds}, {unix.RLIMIT_NPROC, job.Tasks}} {
		if r.what == unix.RLIMIT_NPROC && r.to == 0 {
			continue // the control group bounds them
		}
		if err := lowerRlimit(r.what, r.to); err != nil {
			return stage("rlimits", fmt.Errorf("rlimit %d: %w", r.what, err))
		}
	}
	return nil
}

// writeOffsets makes the monotonic and boot clocks of the guest start at one
// second: their coarse forms lag by some milliseconds and must not be below zero.
func (c *cell) writeOffsets() error {
	defer unix.Close(c.timens)
	var out strings.Builder
	for _, clock := range []struct {
		name string
		id   int32
	}{{"monotonic", unix.CLOCK_MONOTONIC}, {"boottime", unix.CLOCK_BOOTTIME}} {
		var ts unix.Timespec
		if err := unix.ClockGettime(clock.id, &ts); err != nil {
			return err
		}
		// Seconds only: a sum below zero would be refused.
		fmt.Fprintf(&out, "%s %d 0\n", clock.name, 1-ts.Sec)
	}
	_, err := unix.Write(c.timens, []byte(out.String()))
	return err
}

// start forks and execs the guest. A name without a slash is looked up in the
// guest's own PATH, as execvp(3) does.
func (c *cell) start(job *cellproto.Job) (int, error) {
	attr := &syscall.ProcAttr{
		Dir:   job.Dir,
		Env:   job.Env,
		Files: []uintptr{FDStdin, FDStdout, FDStderr},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if len(job.Argv) == 0 {
		return 0, unix.ENOENT
	}
	if strings.Contains(job.Argv[0], "/") {
		return syscall.ForkExec(job.Argv[0], job.Argv, attr)
	}
	last := error(unix.ENOENT)
	for _, dir := range strings.Split(envValue(job.Env, "PATH"), ":") {
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		pid, err := syscall.ForkExec(dir+"/"+job.Argv[0], job.Argv, attr)
		if err == nil || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.EACCES) {
			return pid, err
		}
		if errors.Is(err, unix.EACCES) {
			last = err
		}
	}
	return 0, last
}

func envValue(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// execFailed ends a run whose program cannot be started. What is the guest's
// own doing becomes a shell's answer: 127 for not found, 126 for the rest.
func (c *cell) execFailed(job *cellproto.Job, err error) {
	var errno unix.Errno
	if !errors.As(err, &errno) || !guestsFault(errno) {
		c.fatal(stage("exec", err))
	}
	name := ""
	if len(job.Argv) > 0 {
		name = job.Argv[0]
	}
	_, _ = fdWriter(FDStderr).Write([]byte("glovebox: cannot run " + name + ": " + errno.Error() + "\n"))
	c.send(cellproto.TypeFailed, cellproto.Failed{Stage: "exec", Message: errno.Error(), Errno: uint64(errno)}.Encode())
	os.Exit(0)
}

// guestsFault tells what the program itself got wrong from what the host lacks.
// EIO is what the kernel says of a program that names bytes beyond its end.
func guestsFault(e unix.Errno) bool {
	switch e {
	case unix.ENOENT, unix.EACCES, unix.ENOEXEC, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENAMETOOLONG,
		unix.EPERM, unix.E2BIG, unix.EINVAL, unix.ETXTBSY, unix.ELIBBAD, unix.EIO:
		return true
	}
	return false
}

// armTimer sets the second keeper of the wall limit; the first is the host.
func (c *cell) armTimer(ms uint64) {
	if ms == 0 || c.off("deadline") {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(ms) * int64(time.Millisecond))}
	if err := unix.TimerfdSettime(c.deadline, 0, &spec, nil); err != nil {
		os.Exit(1)
	}
}

// reap waits for the guest and on the way for every orphan that init inherits.
// The guest's number cannot come again before it is reaped here.
func reap(guest int) (unix.WaitStatus, error) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case pid == guest:
			return ws, nil
		}
	}
}

// endAll kills what the guest left behind and waits until init is alone, which
// it reports. Both loops are bounded: a process that cannot be killed is ended by
// init's exit.
func endAll() bool {
	for i := 0; i < 100; i++ {
		if err := unix.Kill(-1, unix.SIGKILL); errors.Is(err, unix.ESRCH) {
			return true
		}
		for j := 0; j < 100_000; j++ {
			if _, err := unix.Wait4(-1, nil, unix.WALL, nil); err != nil && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	return false
}
