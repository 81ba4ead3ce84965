package cell

import (
	"context"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/jsc/library"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// openWorkers makes a host whose one program is this one.
func openWorkers(t *testing.T, program string, files ...string) *Host {
	t.Helper()
	l, err := api.Limits{}.Resolve(api.DefaultLimits(), api.MaxLimits(runtime.NumCPU(), 8<<30))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(Config{Mode: Require, InitPath: testenv.Init(), Armed: 1, MaxCells: 4,
		Max: api.MaxLimits(runtime.NumCPU(), 8<<30), Worker: &Worker{Program: program, Files: files, Limits: l}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

// workerJob is a job of the host's program.
func (h *Host) workerJob() *Job {
	return &Job{Profile: WorkerProfile, Argv: []string{WorkerPath}, Limits: h.cfg.Worker.Limits}
}

// closure is a program with all that it maps.
func closure(t *testing.T, program string) (string, []string) {
	t.Helper()
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	files, err := library.Closure(real)
	if err != nil {
		t.Fatal(err)
	}
	return real, slices.DeleteFunc(files, func(f string) bool { return f == real })
}

// A host for one program gives it a socket and shows it nothing but its files.
//
// proves part of O-17
func TestWorkerSpeaksOverItsChannel(t *testing.T) {
	program, files := closure(t, "/usr/bin/cat")
	h := openWorkers(t, program, files...)
	r, err := h.Run(context.Background(), h.workerJob(), Streams{Channel: func(c *Channel) {
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Error(err)
		}
		var err error
		_ = c.raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) })
		if err != nil {
			t.Error(err)
		}
	}})
	if err != nil || r.Verdict != api.OK || r.Stdout != "hello" || r.Evidence.Profile != WorkerProfile {
		t.Fatalf("%v %+v", err, r)
	}
	for path, why := range map[string]string{"/usr/bin/true": "No such file", "/etc/passwd": "Permission denied", "/box": "Permission denied", "/": "Permission denied"} {
		job := h.workerJob()
		job.Argv = append(job.Argv, path)
		r, err := h.Run(context.Background(), job, Streams{Channel: func(*Channel) {}})
		if err != nil || r.Verdict != api.Error || !strings.Contains(r.Stderr, why) && !strings.Contains(r.Stderr, "Is a directory") {
			t.Errorf("%s: %v %+v", path, err, r)
		}
	}
	// No other profile is made by this host, nor a worker's by another.
	other := trueJob(t, h)
	if r, err := h.Run(context.Background(), other, Streams{}); err != nil || r.Verdict != api.SetupFailed {
		t.Errorf("a language in a host of workers: %v %+v", err, r)
	}
	o := openHost(t, 0)
	job := trueJob(t, o)
	job.Profile = WorkerProfile
	if r, err := o.Run(context.Background(), job, Streams{}); err != nil || r.Verdict != api.SetupFailed {
		t.Errorf("a worker in another host: %v %+v", err, r)
	}
}

// A program that does not seal itself is found by its filters, whatever it says.
//
// proves part of H-2
func TestUnsealedIsFound(t *testing.T) {
	program, files := closure(t, "/usr/bin/cat")
	h := openWorkers(t, program, files...)
	found := make(chan error, 1)
	_, err := h.Run(context.Background(), h.workerJob(), Streams{Channel: func(c *Channel) {
		_, err := c.Sealed()
		found <- err
		c.close()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-found; err == nil || !strings.Contains(err.Error(), "no more than init") {
		t.Errorf("%v", err)
	}
}
