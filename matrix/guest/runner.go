//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/matrix/job"
)

// maxOutput bounds what is reported of each output of a command. The serial
// port of an emulated machine takes half a MiB in a second.
const maxOutput = 4 << 20

// lingering is how long a command's output is read after its end, when a
// process that it left behind still holds it open.
const lingering = 500 * time.Millisecond

// runner runs the commands of a job. As the first process it also takes in the
// children that others left behind.
type runner struct {
	frames *job.Writer
	job    job.Job

	mu    sync.Mutex
	ended map[int]chan syscall.WaitStatus // by process id, of started commands
}

func newRunner(frames *job.Writer, j job.Job) *runner {
	r := &runner{frames: frames, job: j, ended: map[int]chan syscall.WaitStatus{}}
	go r.reap()
	return r
}

// reap waits for every child, its own and left ones, for as long as the
// machine is up.
func (r *runner) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil {
			time.Sleep(2 * time.Millisecond) // there is no child
			continue
		}
		r.mu.Lock()
		if c, ok := r.ended[pid]; ok {
			c <- status
			delete(r.ended, pid)
		}
		r.mu.Unlock()
	}
}

// run runs a command and reports it.
func (r *runner) run(i int) {
	c := r.job.Commands[i]
	r.frames.Write(job.Frame{Kind: job.Start, Command: i, Text: c.Path})
	end := job.Frame{Kind: job.Exit, Command: i}
	begin := time.Now()
	if err := r.execute(i, c, &end); err != nil {
		end.Code, end.Text = -1, err.Error()
	}
	end.Millis = time.Since(begin).Milliseconds()
	r.frames.Write(end)
}

// execute starts a command, passes its output on and fills the frame of its
// end.
func (r *runner) execute(i int, c job.Command, end *job.Frame) error {
	var groups []string
	if c.Cgroup != "" {
		var err error
		if groups, err = enterable(c.Cgroup, c.Delegate, c.UID); err != nil {
			return err
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer outR.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, outW.Close())
	}
	defer errR.Close()
	pid, ended, err := r.start(c, groups, []uintptr{null.Fd(), outW.Fd(), errW.Fd()})
	outW.Close()
	errW.Close()
	if err != nil {
		return err
	}
	var readers sync.WaitGroup
	var cut [2]bool
	readers.Go(func() { cut[0] = r.pass(i, false, outR) })
	readers.Go(func() { cut[1] = r.pass(i, true, errR) })

	var status syscall.WaitStatus
	select {
	case status = <-ended:
	case <-time.After(c.Limit()):
		end.TimedOut = true
		unix.Kill(-pid, unix.SIGKILL) // the session that was started above
		status = <-ended
	}
	deadline := time.Now().Add(lingering)
	outR.SetReadDeadline(deadline)
	errR.SetReadDeadline(deadline)
	readers.Wait()
	end.Cut = cut[0] || cut[1]
	end.Code = status.ExitStatus()
	if status.Signaled() {
		end.Code, end.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
	}
	return nil
}

// start starts the command in its control groups. The process that does so is
// this one, which goes into the groups first: a child is born where its parent
// is.
func (r *runner) start(c job.Command, groups []string, files []uintptr) (int, chan syscall.WaitStatus, error) {
	env := append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME=" + home(c.UID), "USER=" + userName(c.UID),
		"TMPDIR=/tmp", "LANG=C.UTF-8", fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", c.UID),
	}, c.Env...)
	dir := c.Dir
	if dir == "" {
		dir = home(c.UID)
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true}}
	name, argv := c.Path, append([]string{c.Path}, c.Args...)
	switch {
	case c.NoSeccomp:
		name, argv = "/proc/self/exe", append([]string{noSeccomp, strconv.Itoa(c.UID)}, argv...)
	case c.UID != 0:
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.UID)}
	}
	if err := enter(groups); err != nil {
		return 0, nil, err
	}
	r.mu.Lock()
	pid, _, err := syscall.StartProcess(name, argv, attr)
	ended := make(chan syscall.WaitStatus, 1)
	if err == nil {
		r.ended[pid] = ended
	}
	r.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("start %s: %w", c.Path, err)
	}
	if len(groups) > 0 {
		roots, rootErr := hierarchies()
		if err2 := errors.Join(rootErr, enter(roots)); err2 != nil && err == nil {
			fmt.Fprintln(os.Stderr, "guest:", err2)
		}
	}
	return pid, ended, err
}

// enter moves this process into groups.
func enter(groups []string) error {
	for _, g := range groups {
		if err := os.WriteFile(filepath.Join(g, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pass reports what comes from f and says whether some was dropped.
func (r *runner) pass(i int, stderr bool, f *os.File) (cut bool) {
	buf := make([]byte, job.MaxData)
	left := maxOutput
	for {
		n, err := f.Read(buf)
		send := min(n, left)
		if send > 0 {
			left -= send
			r.frames.Write(job.Frame{Kind: job.Data, Command: i, Stderr: stderr, Data: buf[:send]})
		}
		cut = cut || send < n
		if err != nil {
			return cut || !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}
