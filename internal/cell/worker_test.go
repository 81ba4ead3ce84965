package cell

import (
	"context"
	"io"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
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

func TestWorkerSpeaksOverItsChannel(t *testing.T) {
	h := openWorkers(t, "/usr/bin/cat", "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
	r, err := h.Run(context.Background(), h.workerJob(), Streams{Channel: func(c *Channel) {
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Error(err)
		}
		raw, err := c.SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		_ = raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) })
		if err != nil {
			t.Error(err)
		}
	}})
	if err != nil || r.Verdict != api.OK || r.Stdout != "hello" {
		t.Fatalf("%v %+v", err, r)
	}
	t.Logf("%+v", r.Evidence)
}
