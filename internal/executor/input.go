package executor

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// Types of the messages that an executor takes for a run, beside those of
// [api.ClientFrame].
const (
	SignalStdin  = "stdin"
	SignalClose  = "stdin_close"
	SignalSignal = "signal"
	SignalCancel = "cancel"
)

// maxInput is how much standard input waits for a program to read it.
const maxInput = 1 << 20

// input is the standard input of an interactive run: what was sent and not yet read.
type input struct {
	mu      sync.Mutex
	changed *sync.Cond
	data    []byte
	ended   bool // nothing more comes
	closed  bool // nobody reads any more
	open    bool // there is one at all
}

func newInput(first []byte, open bool) *input {
	in := &input{data: first, open: open, ended: !open}
	in.changed = sync.NewCond(&in.mu)
	return in
}

// message is a signal that was sent to a run.
func message(data []byte) (m api.ClientFrame, input []byte, err error) {
	if err = strictjson.Decode(data, &m, strictjson.Options{Audience: api.AudienceClient, MaxBytes: queue.MaxInline}); err != nil {
		return m, nil, err
	}
	input = []byte(m.Data)
	if m.Base64 != "" {
		input, err = base64.StdEncoding.DecodeString(m.Base64)
	}
	return m, input, err
}

// admit takes standard input into its buffer at once, and refuses what has no room.
func (in *input) admit(data []byte) bool {
	m, bytes, err := message(data)
	if err != nil || m.Type != SignalStdin && m.Type != SignalClose {
		return err == nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if m.Type == SignalClose {
		in.ended = true
	} else if in.ended || in.closed || len(in.data)+len(bytes) > maxInput {
		return false
	} else {
		in.data = append(in.data, bytes...)
	}
	in.changed.Broadcast()
	return true
}

// close says that nobody reads any more.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed, in.data = true, nil
	in.changed.Broadcast()
}

// reader is the side that the program reads.
func (in *input) reader() io.Reader { return (*inputReader)(in) }

type inputReader input

func (r *inputReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.data) == 0 && !r.ended && !r.closed {
		r.changed.Wait()
	}
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

// listen does what is sent to a run, and ends it when it is no longer held, until
// the context ends. Signals wait for the program.
func (r *run) listen(ctx context.Context, cancel func()) {
	var running *glovebox.Running
	var waiting []string
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.d.Lost():
			cancel()
			return
		case running = <-r.running:
			for _, name := range waiting {
				r.signal(running, name)
			}
		case data := <-r.d.Signals():
			m, _, err := message(data)
			switch {
			case err != nil:
				r.log.Warn("executor: a message that nobody can read", "error", err)
			case m.Type == SignalCancel:
				cancel()
			case m.Type == SignalSignal && running != nil:
				r.signal(running, m.Name)
			case m.Type == SignalSignal && len(waiting) < maxWaiting:
				waiting = append(waiting, m.Name)
			}
		}
	}
}

// maxWaiting is how many signals wait for a program to start.
const maxWaiting = 16

func (r *run) signal(running *glovebox.Running, name string) {
	if err := running.Signal(unix.SignalNum(name)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.log.Warn("executor: a signal was not delivered", "error", err)
	}
}
