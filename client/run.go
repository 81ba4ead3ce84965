package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// startGrace is how long a submission that is under way may go on when its context
// has ended: only its answer has what the run is canceled with.
const startGrace = 5 * time.Second

// RunOption is what a caller takes part in one run with.
type RunOption func(*taking)

// taking is what the options of one run say.
type taking struct {
	stdin   io.Reader
	pipe    bool
	event   func(api.Frame)
	stream  bool
	after   uint64
	webhook string
	key     string
}

// check refuses options that contradict each other, or have no use.
func (t *taking) check(running bool) error {
	switch {
	case t.pipe && !running:
		return &api.FieldError{Field: "stdin", Reason: "WithStdinPipe is for Start; nobody could write to that of a Run"}
	case t.stream && !running:
		return &api.FieldError{Field: "events", Reason: "WithEventStream is for Start; nobody could read that of a Run"}
	case t.pipe && t.stdin != nil:
		return &api.FieldError{Field: "stdin", Reason: "must be one of WithStdin and WithStdinPipe"}
	}
	return nil
}

// WithStdin sends r to the program's standard input until it ends, in place of
// Program.Stdin. What can be read at once goes with the submission. A Read of r that
// is pending when the program ends is left to end by itself.
func WithStdin(r io.Reader) RunOption { return func(t *taking) { t.stdin = r } }

// WithStdinPipe makes the program's standard input what is written to
// [Running.Stdin], behind Program.Stdin, until that is closed. It is for
// [Client.Start] and [Client.Attach].
func WithStdinPipe() RunOption { return func(t *taking) { t.pipe = true } }

// WithEvents calls f for everything that happens, in order and one call at a time,
// from the run's goroutine; "queued" comes again when the position changes. A slow f
// holds up [Running.Wait] and not the program.
func WithEvents(f func(api.Frame)) RunOption { return func(t *taking) { t.event = f } }

// WithEventStream makes everything that happens come out of [Running.Events], which
// must then be read: Wait returns after the last one is. What nobody has read a
// second after [Running.Cancel] or the end of the context is given up. It is for
// [Client.Start] and [Client.Attach].
func WithEventStream() RunOption { return func(t *taking) { t.stream = true } }

// WithEventsAfter leaves out the events up to a number, [api.Frame].Seq. It is for
// [Client.Attach], after a program that was told of those.
func WithEventsAfter(seq uint64) RunOption { return func(t *taking) { t.after = seq } }

// WithWebhook has the service tell an https URL when the run has ended, if it allows
// that.
func WithWebhook(url string) RunOption { return func(t *taking) { t.webhook = url } }

// WithIdempotencyKey is the submission's Idempotency-Key, 16 to 64 of A-Z a-z 0-9 _ -,
// in place of one made for this call: a program that is killed and starts the same
// again with the same key gets the run that there is.
func WithIdempotencyKey(key string) RunOption { return func(t *taking) { t.key = key } }

// Run runs one program to its end. The context cancels the run on the service, as it
// does in the library: the verdict is canceled then, and the error nil. Where the
// service does not answer to that within five seconds, the error wraps the context's
// cause, and the run may go on to its own limits.
//
// Otherwise the error is nil whenever there is a Result. It is an *[api.ServiceError]
// with code bad_field for a program that is not well formed.
func (c *Client) Run(ctx context.Context, p api.Program, opts ...RunOption) (*api.Result, error) {
	r, err := c.start(ctx, p, opts, false)
	if err != nil {
		return nil, err
	}
	return r.Wait()
}

// Start submits a program and returns when the service has accepted it. The context
// cancels the run, as in [Client.Run].
func (c *Client) Start(ctx context.Context, p api.Program, opts ...RunOption) (*Running, error) {
	return c.start(ctx, p, opts, true)
}

// Attach takes up a run that there is, by its id. The owner's token of the submission
// lets it write, signal and cancel; "" only watches. The end of the context ends the
// watching and not the run.
func (c *Client) Attach(ctx context.Context, id, ownerToken string, opts ...RunOption) (*Running, error) {
	t := taking{}
	for _, o := range opts {
		o(&t)
	}
	switch {
	case !isHex(id, 32):
		return nil, &api.FieldError{Field: "id", Reason: "must be 32 of 0-9 a-f"}
	case ownerToken != "" && !isSecret("gbo_", ownerToken):
		return nil, &api.FieldError{Field: "ownerToken", Reason: `must be "gbo_" and 64 of 0-9 a-f`}
	case ownerToken == "" && (t.pipe || t.stdin != nil):
		return nil, &api.FieldError{Field: "ownerToken", Reason: "is needed to write standard input"}
	case t.webhook != "" || t.key != "":
		return nil, &api.FieldError{Field: "webhook", Reason: "and the Idempotency-Key go with a submission"}
	}
	if err := t.check(true); err != nil {
		return nil, err
	}
	run, err := c.State(ctx, id)
	if err != nil {
		return nil, err
	}
	var feed *feed
	if t.stdin != nil {
		feed = newFeed(t.stdin)
	}
	return c.follow(ctx, id, ownerToken, &t, feed, false, run.State != api.RunQueued), nil
}

// State tells where a run is; of one that has ended it has the result. It does not wait.
func (c *Client) State(ctx context.Context, id string) (*api.Run, error) {
	return c.state(ctx, id, 0, c.o.Patience)
}

func (c *Client) state(ctx context.Context, id string, wait, patience time.Duration) (*api.Run, error) {
	if !isHex(id, 32) {
		return nil, &api.FieldError{Field: "id", Reason: "must be 32 of 0-9 a-f"}
	}
	k := &call{method: "GET", path: "/v1/runs/" + id, wait: wait, patience: patience}
	if wait > 0 {
		k.path += "?wait=" + wait.String()
	}
	var run api.Run
	if err := c.do(ctx, k, &run); err != nil {
		return nil, err
	}
	return &run, check(&run, id)
}

// check refuses an answer about another run, or without what belongs to it.
func check(run *api.Run, id string) error {
	switch {
	case run.ID != id:
		return answerErrorf("it is about another run")
	case (run.State == api.RunFinished) != (run.Result != nil):
		return answerErrorf("a run has a result when it has ended, and not before")
	case run.Result != nil:
		return checkResult(run.Result, id)
	}
	return nil
}

// checkResult refuses the result of another run, and one with artifacts that no cell
// gives: their names become those of files.
func checkResult(r *api.Result, id string) error {
	if r == nil || r.ID != id {
		return answerErrorf("it is about another run")
	}
	left, had := int64(api.MaxArtifactBytes), map[string]bool{}
	for _, a := range r.Artifacts {
		switch left -= a.Size; {
		case len(r.Artifacts) > api.MaxArtifacts, a.Size < 0, left < 0:
			return answerErrorf("a run has at most %d artifacts of at most %d bytes together", api.MaxArtifacts, int64(api.MaxArtifactBytes))
		case api.CheckFileName(a.Name) != nil, had[a.Name], !isHex(a.SHA256, 64):
			return answerErrorf("an artifact has a name of its own that a file can have, and a digest")
		}
		had[a.Name] = true
	}
	return nil
}

func (c *Client) start(ctx context.Context, p api.Program, opts []RunOption, running bool) (*Running, error) {
	t := taking{}
	for _, o := range opts {
		o(&t)
	}
	if err := t.check(running); err != nil {
		return nil, err
	}
	if t.after != 0 {
		return nil, &api.FieldError{Field: "events", Reason: "WithEventsAfter is for Attach; a new run has none yet"}
	}
	sub := api.Submission{Program: p, Interactive: t.pipe, Webhook: t.webhook}
	var feed *feed
	if t.stdin != nil {
		feed = newFeed(t.stdin)
		var ended bool
		sub.Stdin, ended = feed.first(ctx)
		sub.Interactive = !ended
		if ended {
			feed = nil
		}
	}
	run, err := c.submit(ctx, &sub, t.key)
	if err != nil {
		return nil, err
	}
	return c.follow(ctx, run.ID, run.OwnerToken, &t, feed, true, false), nil
}

// submit has a submission accepted, once.
func (c *Client) submit(ctx context.Context, sub *api.Submission, key string) (*api.Run, error) {
	if key == "" {
		key = newKey()
	}
	k := &call{method: "POST", path: "/v1/runs", header: map[string]string{idempotencyHeader: key},
		patience: c.o.Patience, grace: startGrace}
	if err := k.jsonBody(sub); err != nil {
		return nil, err
	}
	var run api.Run
	if err := c.do(ctx, k, &run); err != nil {
		return nil, err
	}
	if !isHex(run.ID, 32) || !isSecret("gbo_", run.OwnerToken) {
		return nil, answerErrorf("an accepted run has an id and an owner's token")
	}
	return &run, check(&run, run.ID)
}

func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// cancelTime is how long the service may take to cancel a run and say so.
const cancelTime = 5 * time.Second

// abandon cancels the run because its context has ended, and waits a little for what
// comes of it.
func (r *Running) abandon(cause error) (*api.Result, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(r.ctx), cancelTime, errSlow)
	defer cancel()
	err := r.c.do(ctx, &call{method: "DELETE", path: r.path(), header: r.owner(), patience: cancelTime}, nil)
	if err == nil {
		var result *api.Result
		if result, err = r.result(ctx); err == nil {
			return result, nil
		}
	}
	if errors.Is(err, cause) {
		return nil, cause
	}
	return nil, fmt.Errorf("%w; the run may go on, since canceling it failed: %w", cause, err)
}
