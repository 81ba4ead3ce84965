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
// What comes is judged by admit before its sender is answered, and added by listen, in
// the order in which it came; what came before there was a judge is added too.
type input struct {
	mu      sync.Mutex
	changed *sync.Cond
	data    []byte
	coming  int  // bytes that were admitted and not yet added
	closing bool // the end was admitted
	ended   bool // nothing more comes
	closed  bool // nobody reads any more
	open    bool // there is one at all
}

func newInput(open bool) *input {
	in := &input{open: open, ended: !open}
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

// errNoInput says that a run takes no standard input, or none any more.
var errNoInput = errors.New("executor: there is no standard input")

// admit says whether a message can be taken: standard input only if it is open and
// there is room.
func (in *input) admit(data []byte) error {
	m, bytes, err := message(data)
	if err != nil || m.Type != SignalStdin && m.Type != SignalClose {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case m.Type == SignalClose:
		in.closing = true
		return nil
	case !in.open || in.closing || in.ended || in.closed:
		return errNoInput
	case len(in.data)+in.coming+len(bytes) > maxInput:
		return queue.ErrBusy
	}
	in.coming += len(bytes)
	return nil
}

// begin puts what came with the program before everything that is sent to it.
func (in *input) begin(bytes []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.data = append(bytes, in.data...)
}

// add takes what was admitted.
func (in *input) add(bytes []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.coming = max(in.coming-len(bytes), 0)
	if !in.ended && !in.closed {
		in.data = append(in.data, bytes...)
		in.changed.Broadcast()
	}
}

// end says that nothing more comes.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.changed.Broadcast()
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
			m, bytes, err := message(data)
			switch {
			case err != nil:
				r.log.Warn("executor: a message that nobody can read", "error", err)
			case m.Type == SignalCancel:
				cancel()
			case m.Type == SignalStdin:
				r.in.add(bytes)
			case m.Type == SignalClose:
				r.in.end()
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
