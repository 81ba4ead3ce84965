package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// hostileInits are the ways in which an init lies, and how the run ends.
var hostileInits = []struct{ mode, want string }{
	{"arm: silent", "setup_failed arm"},
	{"arm: drip", "setup_failed arm"},
	{"arm: flood", "setup_failed arm"},
	{"arm: garbage", "setup_failed arm"},
	{"arm: long length", "setup_failed arm"},
	{"arm: lying length", "setup_failed arm"},
	{"arm: exit", "setup_failed arm"},
	{"arm: nonce", "setup_failed attest"},
	{"arm: names", "setup_failed arm"},
	{"arm: unknown", "setup_failed arm"},
	{"arm: huge message", "setup_failed [31mstage"},
	{"armed twice", "setup_failed job"},
	{"job: silent", "setup_failed job"},
	{"job: exit", "setup_failed job"},
	{"job: exited first", "setup_failed job"},
	{"job: armed again", "setup_failed job"},
	{"run: exit", "setup_failed init"},
	{"run: unknown", "setup_failed init"},
	{"run: started again", "setup_failed init"},
	{"run: flood", "setup_failed init"},
	{"run: garbage", "setup_failed init"},
	{"run: nonsense status", "setup_failed init"},
	{"run: descriptors", "setup_failed init"},
	{"run: silent", "timeout "},
	{"honest", "ok "},
}

// fakeJob is a short job.
func fakeJob(t *testing.T, h *Host) *Job {
	j := trueJob(t, h)
	j.Limits.WallMS = 600
	if raceEnabled {
		j.Limits.WallMS = 5000 // a fake starts slowly under the detector
	}
	return j
}

// An init that lies, floods, drips or falls silent costs the host neither
// memory nor descriptors nor time: the run ends in setup_failed when its
// patience is over, and another run beside it is not touched.
//
// proves H-6
func TestHostileInit(t *testing.T) {
	h, f := openFake(t)
	<-f.taken
	before, files := heap(), openFiles(t)
	for _, c := range hostileInits {
		f.modes <- c.mode
		type end struct {
			r    *api.Result
			err  error
			took time.Duration
		}
		done := make(chan end, 1)
		go func() {
			begin := time.Now()
			r, err := h.Run(context.Background(), fakeJob(t, h), Streams{})
			done <- end{r, err, time.Since(begin)}
		}()
		<-f.taken
		if r, err := h.Run(context.Background(), fakeJob(t, h), Streams{}); err != nil || r.Verdict != api.OK {
			t.Errorf("beside %s: %v %+v", c.mode, err, r)
		}
		<-f.taken
		e := <-done
		if e.err != nil {
			t.Fatal(e.err)
		}
		if got := fmt.Sprintf("%s %s", e.r.Verdict, e.r.Stage); got != c.want {
			t.Errorf("%s: %q, want %q (%s)", c.mode, got, c.want, e.r.Message)
		}
		if limit := fakePatience + settleTime + time.Duration(fakeJob(t, h).Limits.WallMS)*time.Millisecond; e.took > limit {
			t.Errorf("%s: took %v, more than %v", c.mode, e.took, limit)
		}
		if len(e.r.Message) > maxWords+64 || strings.ContainsFunc(e.r.Message+e.r.Stage, func(r rune) bool { return r < ' ' }) {
			t.Errorf("%s: a message of %d bytes: %.80q", c.mode, len(e.r.Message), e.r.Message)
		}
	}
	h.work.Wait()
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d descriptors, %d before", n, files)
	}
}

// launcherLies are answers to a start. A launcher that is given up for one is
// replaced at once, and the run is served by the next; one that remains fails
// the run.
var launcherLies = map[string]func(*fakeSocket, *cellproto.Launch) bool{
	"nonsense": func(f *fakeSocket, m *cellproto.Launch) bool { f.raw([]byte{0xff, 0xff}); return true },
	"hangs up": func(f *fakeSocket, m *cellproto.Launch) bool { return f.hangUp() },
	"two pidfds": func(f *fakeSocket, m *cellproto.Launch) bool {
		f.raw((&cellproto.Launch{Type: cellproto.LaunchStarted, Slot: m.Slot}).Encode(), 0, 0)
		return true
	},
	"no pidfd": func(f *fakeSocket, m *cellproto.Launch) bool {
		f.send(&cellproto.Launch{Type: cellproto.LaunchStarted, Slot: m.Slot}, -1)
		f.send(&cellproto.Launch{Type: cellproto.LaunchExited, Slot: m.Slot}, -1)
		return true
	},
	"a pidfd that is none": func(f *fakeSocket, m *cellproto.Launch) bool {
		f.send(&cellproto.Launch{Type: cellproto.LaunchStarted, Slot: m.Slot}, 0)
		f.send(&cellproto.Launch{Type: cellproto.LaunchExited, Slot: m.Slot}, -1)
		return true
	},
	"pidfds for all": func(f *fakeSocket, m *cellproto.Launch) bool {
		for slot := range uint64(50) {
			for range 6 {
				f.send(&cellproto.Launch{Type: cellproto.LaunchStarted, Slot: slot}, 0)
			}
		}
		return f.hangUp()
	},
	"failed": func(f *fakeSocket, m *cellproto.Launch) bool {
		f.send(&cellproto.Launch{Type: cellproto.LaunchFailed, Slot: m.Slot, Message: "start init", Errno: uint64(unix.EAGAIN)}, -1)
		return true
	},
}

// A launcher that lies is given up, its descriptors are closed, and no run is
// lost: it has another launcher or ends in setup_failed, and the next is fine.
//
// proves part of H-6 X-13
func TestHostileLauncher(t *testing.T) {
	for name, hook := range launcherLies {
		want := api.OK
		switch name {
		case "no pidfd", "a pidfd that is none", "failed":
			want = api.SetupFailed
		}
		h, f := openFake(t)
		<-f.taken
		files := openFiles(t)
		lie := true
		once := func(f *fakeSocket, m *cellproto.Launch) bool {
			if m.Type != cellproto.LaunchStart || !lie {
				return false
			}
			lie = false
			return hook(f, m)
		}
		f.hook.Store(&once)
		begin := time.Now()
		r, err := h.Run(context.Background(), fakeJob(t, h), Streams{})
		if name == "pidfds for all" && err == nil && r.Verdict == api.SetupFailed {
			want = api.SetupFailed // which of its two lies is seen first is its own choice
		}
		if err != nil || r.Verdict != want {
			t.Errorf("%s: %v %+v", name, err, r)
		}
		if took := time.Since(begin); took > fakePatience+settleTime {
			t.Errorf("%s: took %v", name, took)
		}
		if name == "failed" && !strings.Contains(r.Message, unix.EAGAIN.Error()) {
			t.Errorf("failed: %q", r.Message)
		}
		if r, err = h.Run(context.Background(), fakeJob(t, h), Streams{}); err != nil || r.Verdict != api.OK {
			t.Errorf("after %s: %v %+v", name, err, r)
		}
		h.work.Wait()
		if n := openFiles(t); n > files {
			t.Errorf("%s: %d descriptors, %d before", name, n, files)
		}
	}
}

// Runs that come while the host closes have an answer, and nobody is told of a
// failure of the setup.
//
// proves part of B-18
func TestCloseRacesRun(t *testing.T) {
	for range 10 {
		h, _ := openFake(t)
		results := make(chan error, 64)
		for range 4 {
			go func() {
				for {
					r, err := h.Run(context.Background(), fakeJob(t, h), Streams{})
					switch {
					case errors.Is(err, api.ErrClosed):
						results <- nil
						return
					case err != nil:
						results <- err
						return
					case r.Verdict != api.OK && r.Verdict != api.Interrupted:
						results <- fmt.Errorf("%s at %s: %s", r.Verdict, r.Stage, r.Message)
						return
					}
				}
			}()
		}
		closed := make(chan error, 3)
		for range 3 {
			go func() { closed <- h.Close() }()
		}
		for range 3 {
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}
		for range 4 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	}
}

// An init that takes no signals, however many are sent, keeps the host from no
// deadline and from no cancel.
//
// proves part of H-6
func TestSignalsNobodyTakes(t *testing.T) {
	h, f := openFake(t)
	<-f.taken
	for _, want := range []api.Verdict{api.Timeout, api.Canceled} {
		f.modes <- "run: silent"
		j := fakeJob(t, h)
		j.Limits.WallMS = 20_000
		ctx, cancel := context.WithCancel(t.Context())
		if want == api.Timeout {
			j.Limits.WallMS = 500
		} else {
			time.AfterFunc(500*time.Millisecond, cancel)
		}
		signals, over := make(chan unix.Signal), make(chan struct{})
		go func() {
			for {
				select {
				case signals <- unix.SIGUSR1:
				case <-over:
					return
				}
			}
		}()
		begin := time.Now()
		r, err := h.Run(ctx, j, Streams{Signals: signals})
		took := time.Since(begin)
		close(over)
		cancel()
		<-f.taken
		if err != nil || r.Verdict != want || took > 500*time.Millisecond+fakePatience/2 {
			t.Errorf("%v, %+v after %v, want %s", err, r, took, want)
		}
	}
}

// A run that never started has one event, its end, at no time after its start.
func TestFinishedWithoutStart(t *testing.T) {
	h, f := openFake(t)
	<-f.taken
	for _, mode := range []string{"arm: exit", "job: exit"} {
		f.modes <- mode
		var events []api.Event
		r, err := h.Run(t.Context(), fakeJob(t, h), Streams{Event: func(e api.Event) { events = append(events, e) }})
		<-f.taken
		if err != nil || r.Verdict != api.SetupFailed {
			t.Fatalf("%s: %v, %+v", mode, err, r)
		}
		if len(events) != 1 || events[0].Type != "finished" || events[0].TMS != 0 || events[0].Result == nil || events[0].Result.Verdict != api.SetupFailed {
			t.Errorf("%s: %+v", mode, events)
		}
	}
}

// A cell made ahead that dies before the run has given it anything costs the run
// nothing: it has another. One that was made for the run, and dies, is told of.
//
// proves part of X-13
func TestMadeAheadDies(t *testing.T) {
	h, f := openFake(t)
	<-f.taken
	for made, want := range map[bool]api.Verdict{true: api.OK, false: api.SetupFailed} {
		f.modes <- "arm: exit"
		if made {
			c, err := h.prepare()
			<-f.taken
			if err != nil || !h.slots.put(c) {
				t.Fatal(err)
			}
		}
		r, err := h.Run(t.Context(), fakeJob(t, h), Streams{})
		if err != nil || r.Verdict != want {
			t.Fatalf("made ahead %v: %v %+v, want %s", made, err, r, want)
		}
		<-f.taken
	}
}
