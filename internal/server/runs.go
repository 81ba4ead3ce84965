package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/executor"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
	"github.com/glovebox-dev/glovebox/internal/webhook"
)

// IdempotencyHeader makes a submission that is sent twice one run.
const IdempotencyHeader = "Idempotency-Key"

func runRoutes() []*route {
	return []*route{
		{method: "POST", path: "/v1/runs", handle: (*Server).submit, submits: true, body: func() any { return new(api.Submission) }, doc: doc{
			id: "createRun", summary: "Run a program", text: "Accepts a program into the queue. With wait the answer comes when the run has ended, or when that time is over.",
			params: []param{
				{"wait", "query", "how long to wait for the end, such as 30s or 500ms; a minute at most"},
				{IdempotencyHeader, "header", "16 to 64 of A-Z a-z 0-9 _ -: the same one from the same client with the same body is the same run"},
			},
			answers: map[int]any{200: api.Run{}, 202: api.Run{}}, heads: map[int]map[string]string{202: {"Location": "where the run is"}},
			codes: []api.Code{api.CodeDeniedByPolicy, api.CodeConflict, api.CodeQuota, api.CodeInFlight, api.CodeBacklog, api.CodeSlowed, api.CodeDraining, api.CodeUnavailable}}},
		{method: "GET", path: "/v1/runs/{id}", handle: (*Server).status, doc: doc{
			id: "getRun", summary: "A run's state, and its result", text: "Whoever knows the id may read. With wait the answer comes when the run has ended, or when that time is over.",
			params: []param{{"wait", "query", "how long to wait for the end, such as 30s or 500ms; a minute at most"}}, answers: map[int]any{200: api.Run{}},
			codes: []api.Code{api.CodeBadField, api.CodeQuota}}},
		{method: "GET", path: "/v1/runs/{id}/artifacts/{name...}", handle: (*Server).artifact, doc: doc{
			id: "getArtifact", summary: "A file that a program left", text: "As a download, unless it is a picture (PNG, JPEG, GIF, WebP), which is told by decoding all of it. Nothing in it may run or load anything.", media: "application/octet-stream, image/png, image/jpeg, image/gif, image/webp", answers: map[int]any{200: nil},
			heads: map[int]map[string]string{200: {"ETag": "the file's SHA-256", "Content-Disposition": "attachment, or inline for a picture, with the file's name", "Content-Security-Policy": "sandbox"}},
			codes: []api.Code{api.CodeConflict, api.CodeQuota}}},
	}
}

// submit accepts a program.
func (s *Server) submit(w http.ResponseWriter, r *request) error {
	wait, err := s.wait(r)
	if err != nil {
		return err
	}
	if s.draining.Load() {
		return draining()
	}
	if err := s.o.Audit.Err(); err != nil { // under strict: nothing is accepted unseen
		s.o.Log.Error("the audit log cannot be written", "error", err)
		e := refusal(api.CodeStorage, "the audit log cannot be written")
		e.RetryAfterMS = 5_000
		return e
	}
	sub := r.body.(*api.Submission)
	if err := s.o.Box.Judge(r.Context(), sub.Program); err != nil {
		return err
	}
	id, err := s.runID(r)
	if err != nil {
		return err
	}
	if err := s.enqueue(r, id, sub); err != nil {
		return err
	}
	run := &known{Run: api.Run{ID: id, OwnerToken: s.o.Secret.Derive(credential.Owner, id)}}
	if err := s.await(r, run, wait); err != nil { // the run was accepted: its id and token have to be told
		s.o.Log.Warn("of a new run its id alone is told", "id", r.id, "error", err)
		run.Result, run.object, run.State, run.Position = nil, nil, api.RunQueued, nil
	}
	code := http.StatusOK
	if run.State != api.RunFinished {
		code = http.StatusAccepted
		w.Header().Set("Location", "/v1/runs/"+id)
	}
	return s.tellRun(w, r, code, run)
}

// wait is what the query says of waiting.
func (s *Server) wait(r *request) (time.Duration, error) {
	values := r.URL.Query()["wait"]
	if len(values) == 0 {
		return 0, nil
	}
	wait, err := time.ParseDuration(values[0])
	if err != nil || wait < 0 || wait > s.o.MaxWait {
		return 0, &api.ServiceError{Code: api.CodeBadField, Field: "wait", Message: "wait: must be one duration such as 5s, from 0s to " + s.o.MaxWait.String()}
	}
	return wait, nil
}

// runID is a new id, or the one that the client's Idempotency-Key stands for.
func (s *Server) runID(r *request) (string, error) {
	values := r.Header.Values(IdempotencyHeader)
	if len(values) == 0 {
		return credential.Run.New(), nil
	}
	key := values[0]
	if len(values) > 1 || len(key) < 16 || queue.CheckToken(key) != nil {
		return "", &api.ServiceError{Code: api.CodeBadField, Field: IdempotencyHeader, Message: IdempotencyHeader + ": must be 16 to 64 of A-Z a-z 0-9 _ -"}
	}
	return s.o.Secret.Derive(credential.Run, "idempotency", r.client.ID, key), nil
}

// enqueue puts a submission into the queue, if its client may.
func (s *Server) enqueue(r *request, id string, sub *api.Submission) error {
	program, err := compact(sub.Program)
	if err != nil {
		return err
	}
	source := s.o.Secret.Hash("program", string(program))
	note, err := json.Marshal(executor.Note{Interactive: sub.Interactive, Source: source})
	if err != nil {
		return err
	}
	body := s.o.Secret.Hash("submission", source, string(note), sub.Webhook)
	if again, err := s.again(r, id, body); again || err != nil {
		return err
	}
	place, err := s.o.Admission.Admit(r.Context(), r.client, admission.Request{ID: id, SourceHash: source, Bytes: int64(len(program) + len(note))})
	if err != nil {
		return err
	}
	record, err := s.sameBody(r, id, body) // of what is admitted: the store is for that alone
	if err != nil {
		place.Refuse(context.WithoutCancel(r.Context()))
		return err
	}
	if sub.Webhook != "" {
		if err := s.hook(r, id, sub.Webhook); err != nil {
			place.Refuse(context.WithoutCancel(r.Context()))
			s.unrecord(r, id, record)
			return err
		}
		defer s.o.Hooks.Follow(id)
	}
	err = s.o.Queue.Submit(r.Context(), queue.Job{ID: id, Client: r.client.ID, Program: program, Note: note})
	place.Settle(context.WithoutCancel(r.Context()), err)
	switch {
	case err == nil:
		s.metrics.Accepted(sub.Language)
		s.note(r, telemetry.Entry{Kind: telemetry.EntryAccepted, RunID: id, Language: sub.Language, KeyID: r.client.KeyID})
		s.watch(id)
	case errors.Is(err, queue.ErrExists):
		return otherBody()
	case errors.Is(err, queue.ErrBacklog):
		s.unrecord(r, id, record)
		e := refusal(api.CodeBacklog, "as many runs wait as may")
		e.RetryAfterMS = 1000
		return e
	case errors.Is(err, queue.ErrTooLarge):
		s.unrecord(r, id, record)
		return refusal(api.CodeTooLarge, "the program is too large")
	}
	return err
}

// again tells whether a submission was accepted before: then there is nothing to admit,
// to charge or to put into the queue, whose places are for what is to run.
func (s *Server) again(r *request, id, body string) (bool, error) {
	if r.Header.Get(IdempotencyHeader) == "" {
		return false, nil
	}
	before, err := s.bodies.Get(r.Context(), id)
	if err == nil && string(before.Data) != body {
		return false, otherBody()
	}
	if err == nil {
		_, err = s.o.Queue.Status(r.Context(), id)
	}
	if errors.Is(err, queue.ErrNotFound) { // or it was refused then
		return false, nil
	}
	return err == nil, err
}

// sameBody refuses a submission whose Idempotency-Key came with another one before,
// for as long as the run is kept. record is what it has written, 0 for nothing.
func (s *Server) sameBody(r *request, id, body string) (record uint64, err error) {
	if r.Header.Get(IdempotencyHeader) == "" {
		return 0, nil
	}
	record, err = s.bodies.Create(r.Context(), id, []byte(body), s.o.Retention)
	if !errors.Is(err, queue.ErrExists) {
		return record, err
	}
	before, err := s.bodies.Get(r.Context(), id)
	switch {
	case errors.Is(err, queue.ErrNotFound): // it ended at this moment
		return 0, nil
	case err == nil && string(before.Data) != body:
		return 0, otherBody()
	}
	return 0, err
}

// unrecord takes back what sameBody wrote of a submission that was not accepted.
func (s *Server) unrecord(r *request, id string, record uint64) {
	if record == 0 {
		return
	}
	if err := s.bodies.Delete(context.WithoutCancel(r.Context()), id, record); err != nil {
		s.o.Log.Warn("an Idempotency-Key of nothing stays", "error", err)
	}
}

func otherBody() error {
	return refusal(api.CodeConflict, "the %s was used for another submission", IdempotencyHeader)
}

// hook writes down that somebody is to be told of a run's end.
func (s *Server) hook(r *request, id, url string) error {
	if r.client.KeyID == "" {
		return &api.FieldError{Field: "webhook", Reason: "is for those who have a key"}
	}
	err := s.o.Hooks.Expect(r.Context(), webhook.Delivery{RunID: id, KeyID: r.client.KeyID, URL: url})
	switch {
	case errors.Is(err, webhook.ErrBusy):
		e := refusal(api.CodeBusy, "too many webhooks are owed: in all, to this host, or for this key")
		e.RetryAfterMS = 10_000
		return e
	case errors.Is(err, webhook.ErrOther):
		return otherBody()
	}
	return err
}

// watch gives a run's place in flight back when it has ended, wherever it does. It does
// so once for each run, however often that is submitted.
func (s *Server) watch(id string) {
	if _, there := s.watched.LoadOrStore(id, true); there {
		return // Done is still to come
	}
	s.watching.Go(func() {
		_, err := s.o.Queue.Wait(s.ctx, id)
		s.watched.Delete(id) // a place that was taken before this is given back after it
		if err == nil || errors.Is(err, queue.ErrNotFound) {
			s.o.Admission.Done(id)
		}
	})
}

// known is what is known of a run: an api.Run whose result stays as it is stored, in
// memory or, if it is large, as an object.
type known struct {
	api.Run
	Result json.RawMessage `json:"result,omitempty"`
	object *queue.Object
}

// await fills in where a run is, waiting for its end for a while.
func (s *Server) await(r *request, run *known, wait time.Duration) error {
	ctx := r.Context()
	run.APIVersion = api.Version
	if wait > 0 {
		release, err := s.o.Admission.Wait(r.client)
		if err != nil && run.OwnerToken == "" {
			return err
		}
		if err != nil {
			wait = 0 // the run was accepted: its id has to be told
		} else {
			defer release()
		}
	}
	if wait > 0 {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		e, err := s.o.Queue.Wait(ctx, run.ID)
		if err == nil {
			return s.finished(r, run, e)
		}
		if ctx.Err() == nil {
			return err
		}
	}
	st, err := s.o.Queue.Status(ctx, run.ID)
	if err != nil {
		return err
	}
	run.Losses = st.Losses
	switch st.State {
	case queue.Finished:
		e, err := s.o.Queue.Wait(ctx, run.ID)
		if err != nil {
			return err
		}
		return s.finished(r, run, e)
	case queue.Begun:
		run.State = api.RunRunning
	default:
		run.State, run.Position = api.RunQueued, &st.Position
	}
	return nil
}

// finished fills in the result.
func (s *Server) finished(r *request, run *known, e queue.Event) (err error) {
	run.State = api.RunFinished
	size := int64(len(e.Data))
	if run.Result = e.Data; e.Object != "" {
		if run.object, err = s.o.Queue.Runs().Get(r.Context(), run.ID, e.Object); err != nil {
			return err
		}
		size = run.object.Size
	}
	return s.o.Admission.Egress(r.client, size)
}

// tellRun answers with a run.
func (s *Server) tellRun(w http.ResponseWriter, r *request, status int, run *known) error {
	if run.object == nil {
		return s.answer(w, status, run)
	}
	front, err := json.Marshal(run.Run) // has no result
	if err != nil {
		return err
	}
	front = append(front[:len(front)-1], `,"result":`...)
	w.Header().Set("Content-Type", "application/json")
	return sendLong(w, r, status, run.object.Size, front, run.object, []byte("}\n"))
}

// status tells where a run is.
func (s *Server) status(w http.ResponseWriter, r *request) error {
	wait, err := s.wait(r)
	if err != nil {
		return err
	}
	run := &known{Run: api.Run{ID: r.run}}
	if err := s.await(r, run, wait); err != nil {
		return err
	}
	return s.tellRun(w, r, http.StatusOK, run)
}
