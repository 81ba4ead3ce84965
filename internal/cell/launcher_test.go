package cell

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
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

// At the kernel's limit of an ordinary user's descriptors on their way, which
// his guests share with him, a message to the launcher fails and the launcher
// lives on.
//
// proves part of X-13
func TestLauncherDescriptorsInFlight(t *testing.T) {
	h := openHost(t, 0)
	l, err := h.launch()
	if err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 { // 800 on their way
		if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(slices.Repeat([]int{pair[1]}, 200)...), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 600, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	r, err := h.Run(context.Background(), trueJob(t, h), Streams{})
	unix.Close(pair[0])
	unix.Close(pair[1])
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil); err != nil {
		t.Fatal(err)
	}
	if err != nil || os.Geteuid() != 0 && (r.Verdict != api.SetupFailed || !strings.Contains(r.Message, unix.ETOOMANYREFS.Error())) {
		t.Errorf("at the limit: %v %+v", err, r)
	}
	if err := l.lost(); err != nil {
		t.Errorf("the launcher: %v", err)
	}
}
