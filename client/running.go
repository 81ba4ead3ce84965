package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// Running is a run of a service that is followed to its end. It is safe for
// concurrent use.
type Running struct {
	c         *Client
	id, token string
	ctx       context.Context
	cancel    context.CancelCauseFunc
	t         *taking
	stdin     *stdin
	began     chan struct{} // closed when the program, or its compiler, has begun
	done      chan struct{}
	ended     *api.Result
	err       error

	seq      uint64 // of the last event that was given out
	position int    // the last one told, -1 for none
	frames   int    // that came, and how many of them were given out
	given    int
	bytes    int64
	started  bool

	events chan api.Frame
	unread chan struct{} // closed: nobody reads events any more
	once   sync.Once
}

// errCanceled is why the context of a run ended that its caller canceled.
var errCanceled = errors.New("canceled")

// follow begins to follow a run. One that this client submitted is canceled when the
// context ends.
func (c *Client) follow(ctx context.Context, id, token string, t *taking, feed *feed, own, begun bool) *Running {
	r := &Running{c: c, id: id, token: token, t: t, seq: t.after, position: -1, began: make(chan struct{}), done: make(chan struct{})}
	if r.ctx, r.cancel = context.WithCancelCause(ctx); begun {
		r.begin()
	}
	if t.pipe || feed != nil {
		r.stdin = &stdin{r: r}
	}
	if feed != nil {
		go feed.pump(r.stdin)
	}
	if t.stream {
		r.events, r.unread = make(chan api.Frame), make(chan struct{})
		go r.giveUp()
	}
	go func() {
		defer close(r.done)
		defer r.cancel(nil)
		r.ended, r.err = r.result(r.ctx)
		cause, lost := context.Cause(r.ctx), (*inputError)(nil)
		broken := errors.As(cause, &lost)
		if cause != nil && r.ended == nil && r.token != "" && (own || broken || errors.Is(cause, errCanceled)) {
			r.ended, r.err = r.abandon(cause)
		}
		if broken {
			r.ended, r.err = nil, cause
		}
		if r.events != nil {
			close(r.events)
		}
	}()
	return r
}

// unreadGrace is how long events of a run that is to end wait for their reader.
const unreadGrace = time.Second

// giveUp lets a run end whose events nobody reads, once it is to end.
func (r *Running) giveUp() {
	<-r.ctx.Done()
	select {
	case <-time.After(unreadGrace):
	case <-r.done:
	}
	r.once.Do(func() { close(r.unread) })
}

// ID reads the run: whoever has it may.
func (r *Running) ID() string { return r.id }

// OwnerToken controls the run, see [Client.Attach]. It is a secret.
func (r *Running) OwnerToken() string { return r.token }

func (r *Running) path() string { return "/v1/runs/" + r.id }

func (r *Running) owner() map[string]string { return map[string]string{ownerHeader: r.token} }

// Cancel ends the run; the verdict is canceled. It does not wait, [Running.Wait] does.
// Without the owner's token it ends the watching.
func (r *Running) Cancel() { r.cancel(errCanceled) }

// Wait returns when the run has ended and its result is here, or when it is followed
// no more. It may be called more than once.
func (r *Running) Wait() (*api.Result, error) {
	<-r.done
	return r.ended, r.err
}

// Events yields what happens until the run is over, with [WithEventStream]; otherwise
// nothing. Who stops early gets no further event, and the run goes on. It is for one
// reader.
func (r *Running) Events() iter.Seq[api.Frame] {
	return func(yield func(api.Frame) bool) {
		if r.events == nil {
			return
		}
		defer r.once.Do(func() { close(r.unread) })
		for f := range r.events {
			if !yield(f) {
				return
			}
		}
	}
}

// Stdin is the program's standard input; Close ends it. Nil without [WithStdinPipe].
// A Write waits until the service has taken everything, which has room for 1 MiB that
// the program has not read. It fails with [os.ErrProcessDone] after the run.
func (r *Running) Stdin() io.WriteCloser {
	if r.stdin == nil || !r.t.pipe {
		return nil
	}
	return r.stdin
}

// Signal sends a signal to the program's first process by its name, "SIGINT": numbers
// differ between this host and the service's. Before the start it waits for it, for as
// long as the run's context and [Options.Patience] let it. The error is
// [os.ErrProcessDone] after the end. A signal is not sent again when it may have arrived.
func (r *Running) Signal(name string) error {
	k := &call{method: "POST", path: r.path() + "/signal", header: r.owner(), once: true, patience: r.c.o.Patience}
	if err := k.jsonBody(api.SignalBody{Name: name}); err != nil {
		return err
	}
	return r.control(k)
}

// control sends what needs the owner's token.
func (r *Running) control(k *call) error {
	if r.token == "" {
		return &api.FieldError{Field: "ownerToken", Reason: "is needed to control a run"}
	}
	err := r.c.do(r.ctx, k, nil)
	if err == nil {
		return nil
	}
	select {
	case <-r.done:
		return os.ErrProcessDone
	default:
	}
	if told := (*api.ServiceError)(nil); errors.As(err, &told) && told.Code == api.CodeConflict && told.RetryAfterMS == 0 {
		return os.ErrProcessDone
	}
	return err
}

// Artifact fetches a file that the program left, when the run has ended; it waits for
// that. Nothing is given out before all of it has come and its digest is that of the
// result. It needs memory for the file, at most 64 MiB.
func (r *Running) Artifact(ctx context.Context, name string) (io.Reader, error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.ended == nil {
		return nil, r.err
	}
	i := slices.IndexFunc(r.ended.Artifacts, func(a api.Artifact) bool { return a.Name == name })
	if i < 0 {
		return nil, &api.FieldError{Field: "artifact", Value: name, Reason: "is none of the run"}
	}
	data, err := r.c.artifact(ctx, r.id, &r.ended.Artifacts[i])
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(data), nil
}

// artifact fetches a file of a run and compares it with what the result says of it.
// Where it lies is told by its name, never by the result's URL.
func (c *Client) artifact(ctx context.Context, id string, a *api.Artifact) ([]byte, error) {
	var data []byte
	k := &call{method: "GET", path: api.ArtifactPath(id, a.Name), max: a.Size + 1, header: map[string]string{"Accept": "application/octet-stream"}}
	err := c.persist(ctx, c.o.Patience, false, func() (err error) {
		data, err = c.ask(ctx, k)
		return err
	})
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); int64(len(data)) != a.Size || hex.EncodeToString(sum[:]) != a.SHA256 {
		return nil, answerErrorf("what came is not the artifact that the result tells of: another size or digest")
	}
	return data, nil
}
