package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// step bounds each thing that is asked of the store.
const step = 30 * time.Second

// patience is how long a store that takes no result is asked again.
const patience = time.Hour

// run is one job while this executor holds it.
type run struct {
	e    *Executor
	d    *queue.Delivery
	log  *slog.Logger
	note Note
	in   *input

	language string
	// running gets the program, once.
	running chan *glovebox.Running
}

// PhaseCompile is the data of the event "started" of a run that begins with its
// compiler; the program's own start is an event of its own then.
var PhaseCompile = []byte(`{"phase":"compile"}`)

// run runs the job. An error means that it is not this executor's any more, or that
// it is not known: then nothing may be written.
func (r *run) run() (*api.Result, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := strictjson.Decode(r.d.Job.Note, &r.note, strictjson.Options{MaxBytes: queue.MaxNote}); err != nil {
		return failed("decode", err), nil
	}
	r.in = newInput(r.note.Interactive)
	r.d.Admit(func(data []byte) error { // what is admitted must find its place
		if len(r.d.Signals()) == cap(r.d.Signals()) {
			return queue.ErrBusy
		}
		return r.in.admit(data)
	})
	var p api.Program
	if err := strictjson.Decode(r.d.Job.Program, &p, strictjson.Options{Audience: api.AudienceClient, MaxBytes: queue.MaxObject}); err != nil {
		return failed("decode", err), nil
	}
	r.language = p.Language
	if r.e.o.Taken != nil {
		r.e.o.Taken(r.d.Job, r.d.Losses(), r.note)
	}
	limits, err := r.e.o.Box.Limits(p)
	if err != nil {
		return failed("prepare", err), nil
	}
	r.in.begin(p.Stdin)
	go r.listen(ctx, cancel)
	release, err := r.reserve(ctx, limits)
	if err == nil {
		defer release()
	}
	switch {
	case r.quits():
		return nil, r.giveBack(0)
	case ctx.Err() != nil:
		return canceled(), nil
	case err != nil:
		return failed("reserve", err), nil
	}
	return r.begin(ctx, p, limits.Compile != nil)
}

// reserve waits until there is room for the run, or nothing begins any more.
func (r *run) reserve(ctx context.Context, limits api.Limits) (release func(), err error) {
	if r.e.o.Reserve == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.e.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	return r.e.o.Reserve(ctx, limits)
}

// begin writes down that the run begins, and runs the program.
func (r *run) begin(ctx context.Context, p api.Program, compiled bool) (*api.Result, error) {
	waited := time.Since(r.d.Job.Submitted)
	var data []byte
	if compiled {
		data = PhaseCompile
	}
	bounded, done := context.WithTimeout(context.Background(), step)
	defer done()
	if err := r.d.Begin(bounded, data); errors.Is(err, queue.ErrFull) {
		r.log.Warn("executor: a run cannot begin", "error", err)
		return nil, r.giveBack(again)
	} else if err != nil {
		return nil, err
	}
	rec := newRecorder(r.d, compiled, r.log)
	defer rec.close()
	opts := []glovebox.RunOption{glovebox.WithEvents(rec.event)}
	if r.note.Interactive {
		opts, p.Stdin = append(opts, glovebox.WithStdin(r.in.reader())), nil
	}
	running, err := r.e.o.Box.Start(ctx, p, opts...)
	if err != nil {
		return unstarted(ctx, err), nil
	}
	r.running <- running
	result, err := running.Wait()
	r.in.close()
	rec.close()
	if err != nil {
		return unstarted(ctx, err), nil
	}
	result.QueueMS += max(0, float64(waited.Microseconds())/1e3)
	r.store(result)
	return result, nil
}

// again is when a job is taken again that found no room to begin.
const again = 5 * time.Second

// errBack says that a job was given back.
var errBack = errors.New("it goes back to where it waited")

// giveBack gives back what has not begun, without a loss.
func (r *run) giveBack(pause time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	return errors.Join(errBack, r.d.Retry(ctx, pause))
}

// quits tells whether nothing begins any more.
func (r *run) quits() bool {
	select {
	case <-r.e.quit:
		return true
	default:
		return false
	}
}

// canceled is the result of a program that was canceled before it had a cell.
func canceled() *api.Result {
	return &api.Result{Verdict: api.Canceled, Message: "it was canceled before it had a cell", APIVersion: api.Version}
}

// failed is the result of a job that could not be run.
func failed(stage string, err error) *api.Result {
	return &api.Result{Verdict: api.SetupFailed, Stage: stage, Message: err.Error(), APIVersion: api.Version}
}

// unstarted is the result of a program that got no cell.
func unstarted(ctx context.Context, err error) *api.Result {
	switch {
	case errors.Is(err, glovebox.ErrClosed):
		return &api.Result{Verdict: api.Interrupted, Cause: CauseShutdown, Message: "the service ended before the program had a cell", APIVersion: api.Version}
	case ctx.Err() != nil:
		return canceled()
	}
	return failed("cell", err)
}

// CauseShutdown says that the service ended in order while the program ran.
const CauseShutdown = "shutdown"

// store puts the artifacts of a result where they are read from, and leaves their
// places in it.
func (r *run) store(result *api.Result) {
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	kept := result.Artifacts[:0]
	for _, a := range result.Artifacts {
		err := r.e.o.Queue.Runs().Put(ctx, r.d.Job.ID, ArtifactObject(a.Name), bytes.NewReader(a.Content))
		if err != nil {
			r.log.Warn("executor: an artifact cannot be stored", "error", err)
			result.RefusedArtifacts = append(result.RefusedArtifacts, api.RefusedArtifact{Name: a.Name, Reason: "the service has no room for it"})
			continue
		}
		a.Content, a.URL = nil, api.ArtifactPath(r.d.Job.ID, a.Name)
		kept = append(kept, a)
	}
	result.Artifacts = kept
}

// ArtifactObject is the name of the object that has an artifact of a run.
func ArtifactObject(name string) string { return "artifact/" + name }

// finish writes the final event.
func (r *run) finish(result *api.Result) ([]byte, error) {
	result.ID = r.d.Job.ID
	result.Evidence.Layers = slices.Clone(result.Evidence.Layers)
	for i, l := range result.Evidence.Layers { // where this host has what is not for everybody who has an id
		result.Evidence.Layers[i] = api.Layer{Name: l.Name, Applied: l.Applied}
	}
	if result.Verdict == api.Interrupted && result.Cause == "" {
		result.Cause = CauseShutdown
	}
	data, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	short := brief(result)
	end := time.Now().Add(patience)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), step)
		err := r.d.Finish(ctx, data, short)
		cancel()
		if err == nil || errors.Is(err, queue.ErrLost) || errors.Is(err, queue.ErrOver) || errors.Is(err, queue.ErrClosed) {
			return data, err
		}
		r.log.Warn("executor: a result is not written yet", "error", err)
		if errors.Is(err, queue.ErrFull) || errors.Is(err, queue.ErrTooLarge) {
			data = short
		}
		if time.Now().After(end) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-r.e.quit: // it ends as lost at the next start
			return nil, err
		}
	}
}

// brief is the result without what can be large.
func brief(full *api.Result) []byte {
	b := *full
	b.Stdout, b.Stderr, b.StdoutBase64, b.StderrBase64 = "", "", "", ""
	b.Truncated = api.Truncated{Stdout: true, Stderr: true}
	b.Artifacts, b.RefusedArtifacts = nil, nil
	if b.Compile != nil {
		c := *b.Compile
		c.Stdout, c.Stderr = "", ""
		b.Compile = &c
	}
	b.Warnings = []string{"the service had no room for the output"}
	b.Message = cut(b.Message)
	data, err := json.Marshal(&b)
	if err != nil || len(data) > queue.MaxInline {
		data, _ = json.Marshal(&api.Result{ID: b.ID, Verdict: b.Verdict, Cause: b.Cause, APIVersion: api.Version})
	}
	return data
}

func cut(s string) string { return s[:min(len(s), 1000)] }
