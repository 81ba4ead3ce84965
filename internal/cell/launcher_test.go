package cell

import (
	"context"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// openHost opens a Host with some cells kept armed, and closes it after the test.
func openHost(t *testing.T, armed int) *Host {
	t.Helper()
	h, err := Open(Config{Mode: Require, InitPath: testenv.Init(), Armed: armed, Reserve: armed, MaxCells: 4,
		Max: api.MaxLimits(runtime.NumCPU(), 8<<30)})
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

func trueJob(t *testing.T, h *Host) *Job {
	t.Helper()
	l, err := api.Limits{}.Resolve(api.DefaultLimits(), h.cfg.Max)
	if err != nil {
		t.Fatal(err)
	}
	return &Job{Profile: DefaultProfile, Argv: []string{"/bin/true"}, Limits: l}
}

// A launcher that is killed takes its cells along, and the next run gets
// another launcher.
//
// proves part of X-13
func TestLauncherDies(t *testing.T) {
	h := openHost(t, 2)
	for round := range 3 {
		r, err := h.Run(context.Background(), trueJob(t, h), Streams{})
		if err != nil || r.Verdict != api.OK {
			t.Fatalf("round %d: %v %+v", round, err, r)
		}
		l, err := h.launch()
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(l.pid, unix.SIGKILL); err != nil { // our own child, not reaped yet
			t.Fatal(err)
		}
		<-l.dead
		again, err := h.launch()
		if err != nil || again == l {
			t.Fatalf("round %d: no other launcher: %v", round, err)
		}
	}
}
