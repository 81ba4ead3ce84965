package executor

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

func frame(text string) api.ClientFrame { return api.ClientFrame{Type: SignalStdin, Data: text} }

// Standard input that nobody reads fills its buffer and is refused then; what was
// taken is read, once and in order.
// proves part of X-16 H-45
func TestInputFull(t *testing.T) {
	q := openQueue(t, queue.Options{})
	start(t, q, Options{})
	source := "import hashlib, signal, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\nprint('ready', flush=True)\nsignal.sigwait([signal.SIGUSR1])\n" +
		"print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())\n"
	id := submit(t, q, "typed", api.Program{Language: "python", Source: source, Stdin: []byte("first\n"), Limits: api.Limits{WallMS: 30_000}}, Note{Interactive: true})
	printed(t, q, id)
	sum, taken := sha256.New(), 0
	sum.Write([]byte("first\n"))
	send := func(n int) error {
		piece := strings.Repeat(strconv.Itoa(n%10), 100<<10)
		err := tell(t, q, id, frame(piece))
		if err == nil {
			sum.Write([]byte(piece))
			taken += len(piece)
		}
		return err
	}
	// The pipe and what copies into it have some too, and take it when they come to it.
	refused := 0
	for n := 0; refused < 20 && n < 100; n++ {
		if err := send(n); err != nil {
			refused++
			if !errors.Is(err, queue.ErrBusy) {
				t.Fatal(err)
			}
		}
	}
	if refused < 20 || taken < maxInput-100<<10 || taken > 2*maxInput {
		t.Errorf("%d bytes were taken, %d times nothing", taken, refused)
	}
	must(t, tell(t, q, id, api.ClientFrame{Type: SignalSignal, Name: "SIGUSR1"}))
	until(t, "there is room again", func() bool { return send(7) == nil })
	must(t, tell(t, q, id, api.ClientFrame{Type: SignalClose}))
	if _, result := history(t, q, id); result.Verdict != api.OK || result.Stdout != fmt.Sprintf("ready\n%x\n", sum.Sum(nil)) {
		t.Errorf("%s %s, not %x", result.Verdict, result.Stdout, sum.Sum(nil))
	}
}

// proves part of X-16
func TestInput(t *testing.T) {
	q := openQueue(t, queue.Options{})
	start(t, q, Options{})
	id := submit(t, q, "cat", api.Program{Command: []string{"/bin/cat"}, Stdin: []byte("0\n")}, Note{Interactive: true})
	begun(t, q, id)
	want := "0\n"
	for i := 1; i < 200; i++ {
		line := fmt.Sprintf("%d\n", i)
		until(t, "the executor takes it", func() bool { // it may have as many as wait
			err := tell(t, q, id, frame(line))
			if err != nil && !errors.Is(err, queue.ErrBusy) {
				t.Fatal(err)
			}
			return err == nil
		})
		want += line
	}
	must(t, tell(t, q, id, api.ClientFrame{Type: SignalStdin, Base64: "/wo="}))
	must(t, tell(t, q, id, api.ClientFrame{Type: SignalClose}))
	if err := tell(t, q, id, frame("late\n")); !errors.Is(err, queue.ErrRefused) && !errors.Is(err, queue.ErrNotFound) {
		t.Error("what comes behind the end of the input was taken:", err)
	}
	_, result := history(t, q, id)
	if got := whole(t, result.Stdout, result.StdoutBase64); result.Verdict != api.OK || got != want+"\xff\n" {
		t.Errorf("%s: %d bytes, not %d", result.Verdict, len(got), len(want)+2)
	}
}

// One that is not interactive takes none, and says so.
// proves part of X-16
func TestNoInput(t *testing.T) {
	q := openQueue(t, queue.Options{})
	start(t, q, Options{})
	id := submit(t, q, "cat", api.Program{Language: "python", Source: "import sys\nprint(sys.stdin.read(), flush=True)\nimport time\ntime.sleep(20)\n", Stdin: []byte("all")}, Note{})
	printed(t, q, id)
	if err := tell(t, q, id, frame("more")); !errors.Is(err, queue.ErrRefused) {
		t.Error(err)
	}
	if err := q.Signal(t.Context(), id, []byte("{")); !errors.Is(err, queue.ErrRefused) {
		t.Error(err)
	}
	must(t, tell(t, q, id, api.ClientFrame{Type: SignalCancel}))
	if _, result := history(t, q, id); result.Stdout != "all\n" {
		t.Errorf("%+v", result)
	}
}

// What is sent as soon as somebody listens is taken or refused, never taken and lost:
// also before the program's buffer is there.
// proves part of X-16
func TestEarlyInput(t *testing.T) {
	q := openQueue(t, queue.Options{})
	taken, sent := make(chan struct{}), make(chan struct{})
	start(t, q, Options{Taken: func(queue.Job, int, Note) { close(taken); <-sent }})
	id := submit(t, q, "early", api.Program{Command: []string{"/bin/cat"}, Stdin: []byte("0\n")}, Note{Interactive: true})
	<-taken
	want := "0\n"
	for i := range 5 {
		if err := tell(t, q, id, frame(fmt.Sprintf("early %d\n", i))); err == nil {
			want += fmt.Sprintf("early %d\n", i)
		} else if !errors.Is(err, queue.ErrBusy) {
			t.Error(err)
		}
	}
	early := tell(t, q, id, api.ClientFrame{Type: SignalClose})
	close(sent)
	if early != nil {
		until(t, "the end is taken", func() bool { return tell(t, q, id, api.ClientFrame{Type: SignalClose}) == nil })
	}
	if _, result := history(t, q, id); result.Stdout != want {
		t.Errorf("%q, not %q", result.Stdout, want)
	}
}

// proves part of X-16
func TestSignals(t *testing.T) {
	q := openQueue(t, queue.Options{})
	start(t, q, Options{})
	source := "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\nprint('ready', flush=True)\nprint(signal.Signals(signal.sigwait([signal.SIGUSR1])).name)\n"
	id := submit(t, q, "late", api.Program{Language: "python", Source: source}, Note{})
	printed(t, q, id)
	must(t, tell(t, q, id, api.ClientFrame{Type: SignalSignal, Name: "SIGUSR1"}))
	if _, result := history(t, q, id); result.Verdict != api.OK || result.Stdout != "ready\nSIGUSR1\n" {
		t.Errorf("%+v", result)
	}
}

// A signal that comes before its program waits for it.
// proves part of X-16
func TestEarlySignal(t *testing.T) {
	q := openQueue(t, queue.Options{})
	reserved, go_ := make(chan struct{}), make(chan struct{})
	start(t, q, Options{Reserve: waitIn(reserved, go_)})
	id := submit(t, q, "early", api.Program{Command: []string{"/bin/sleep", "20"}}, Note{})
	<-reserved
	must(t, tell(t, q, id, api.ClientFrame{Type: SignalSignal, Name: "SIGTERM"}))
	close(go_)
	if _, result := history(t, q, id); result.Verdict != api.Error || result.Signal != "SIGTERM" {
		t.Errorf("%+v", result)
	}
}
