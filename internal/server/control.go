package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/executor"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

func controlRoutes() []*route {
	return []*route{
		{method: "POST", path: "/v1/runs/{id}/stdin", handle: (*Server).stdin, owner: true, body: func() any { return new(api.StdinBody) }, doc: doc{
			id: "writeStdin", summary: "Type into an interactive run", text: "What the program has not read is kept, up to 1 MiB; more is answered with 429. 128 KiB at most at once. 409 with Retry-After says that the run has not begun.", answers: map[int]any{202: nil},
			codes: []api.Code{api.CodeConflict}}},
		{method: "POST", path: "/v1/runs/{id}/signal", handle: (*Server).signal, owner: true, body: func() any { return new(api.SignalBody) }, doc: doc{
			id: "sendSignal", summary: "Send a signal to a run's first process", answers: map[int]any{202: nil},
			codes: []api.Code{api.CodeConflict}}},
		{method: "DELETE", path: "/v1/runs/{id}", handle: (*Server).cancel, owner: true, doc: doc{
			id: "cancelRun", summary: "Cancel a run", text: "A run that waits ends at once; one that runs is killed, and the answer may come before its end. One that has ended stays as it is.",
			answers: map[int]any{200: api.Run{}, 202: api.Run{}}, codes: []api.Code{api.CodeQuota}}},
	}
}

// maxStdin is the longest piece of standard input.
const maxStdin = 128 << 10

// stdin sends standard input to a run.
func (s *Server) stdin(w http.ResponseWriter, r *request) error {
	b := r.body.(*api.StdinBody)
	if b.Data != "" || b.Base64 != "" {
		if err := s.write(r.Context(), r.run, b.Data, b.Base64); err != nil {
			return err
		}
	}
	if b.Close {
		if err := s.tell(r.Context(), r.run, api.ClientFrame{Type: executor.SignalClose}); err != nil {
			return err
		}
	}
	return send(w, http.StatusAccepted, nil)
}

// write checks and sends one piece of standard input.
func (s *Server) write(ctx context.Context, run, data, bytes string) error {
	switch {
	case data != "" && bytes != "":
		return &api.FieldError{Field: "data", Reason: "give one of data and base64"}
	case len(data)+len(bytes) > maxStdin:
		return refusal(api.CodeTooLarge, "a piece of standard input has at most %d bytes", maxStdin)
	case !isBase64(bytes):
		return &api.FieldError{Field: "base64", Reason: "is not base64"}
	}
	return s.tell(ctx, run, api.ClientFrame{Type: executor.SignalStdin, Data: data, Base64: bytes})
}

// signal sends a signal to a run.
func (s *Server) signal(w http.ResponseWriter, r *request) error {
	if err := s.kill(r.Context(), r.run, r.body.(*api.SignalBody).Name); err != nil {
		return err
	}
	return send(w, http.StatusAccepted, nil)
}

func (s *Server) kill(ctx context.Context, run, name string) error {
	if unix.SignalNum(name) == 0 {
		return &api.FieldError{Field: "name", Reason: `must be the name of a signal, such as "SIGINT"`}
	}
	return s.tell(ctx, run, api.ClientFrame{Type: executor.SignalSignal, Name: name})
}

// tell sends a message to the executor of a run.
func (s *Server) tell(ctx context.Context, run string, m api.ClientFrame) error {
	data, err := json.Marshal(m)
	if err == nil && len(data) > queue.MaxInline { // escapes have made it six times as long
		m.Data, m.Base64 = "", base64.StdEncoding.EncodeToString([]byte(m.Data))
		data, err = json.Marshal(m)
	}
	if err != nil {
		return err
	}
	err = s.o.Queue.Signal(ctx, run, data)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return s.unheard(ctx, run)
	case errors.Is(err, queue.ErrRefused):
		return refusal(api.CodeConflict, "the run is not interactive, or its standard input is closed")
	case errors.Is(err, queue.ErrBusy):
		e := refusal(api.CodeBusy, "the program has not read what was sent")
		e.RetryAfterMS = 500
		return e
	}
	return err
}

// unheard says why nobody takes a message for a run.
func (s *Server) unheard(ctx context.Context, run string) error {
	st, err := s.o.Queue.Status(ctx, run)
	switch {
	case err != nil:
		return err
	case st.State == queue.Finished:
		return refusal(api.CodeConflict, "the run has ended")
	}
	e := refusal(api.CodeConflict, "the run has not begun")
	e.RetryAfterMS = 500
	return e
}

// A run that an executor has taken is heard by it a moment later; who cancels it just
// then waits for that.
const (
	unheardPause = 20 * time.Millisecond
	unheardTries = 50
)

// halt ends a run that waits, with the result, or tells its executor to end it.
func (s *Server) halt(ctx context.Context, run string, result []byte) error {
	for n := 0; ; n++ {
		err := s.o.Queue.Cancel(ctx, run, result)
		if !errors.Is(err, queue.ErrRunning) {
			return err
		}
		err = s.tell(ctx, run, api.ClientFrame{Type: executor.SignalCancel})
		told := (*api.ServiceError)(nil)
		switch {
		case !errors.As(err, &told) || told.Code != api.CodeConflict:
			return err
		case told.RetryAfterMS == 0: // it has ended meanwhile
			return nil
		case n == unheardTries:
			return err
		}
		select {
		case <-time.After(unheardPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// cancel ends a run.
func (s *Server) cancel(w http.ResponseWriter, r *request) error {
	result, err := json.Marshal(api.Result{ID: r.run, Verdict: api.Canceled, Message: "it was canceled before it had begun", APIVersion: api.Version})
	if err != nil {
		return err
	}
	if err := s.halt(r.Context(), r.run, result); err != nil && !errors.Is(err, queue.ErrOver) {
		return err
	}
	s.note(r, telemetry.Entry{Kind: telemetry.EntryCanceled})
	run := &known{Run: api.Run{ID: r.run}}
	if err := s.await(r, run, 0); err != nil {
		return err
	}
	if run.State == api.RunFinished {
		return s.tellRun(w, r, http.StatusOK, run)
	}
	return s.tellRun(w, r, http.StatusAccepted, run)
}
