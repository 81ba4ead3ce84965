package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// OwnerHeader has the owner's token of a run.
const OwnerHeader = "Glovebox-Owner"

// endpoint is the handler of a route: everything that all of them need.
func (s *Server) endpoint(rt *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		id, _ := hr.Context().Value(requestKey{}).(string)
		r := &request{Request: hr, id: id, route: rt}
		defer r.done()
		err := s.prepare(w, r)
		if err == nil {
			err = rt.handle(s, w, r)
		}
		if err != nil {
			s.refuse(w, hr, s.noted(r, err))
		}
	})
}

// prepare judges what is left to judge, and reads the body.
func (s *Server) prepare(w http.ResponseWriter, r *request) error {
	if r.route.method != http.MethodGet || r.route.streams {
		if err := s.fromHere(r.Request); err != nil {
			return err
		}
	}
	if r.Method == http.MethodHead && r.route.streams {
		w.Header().Set("Allow", http.MethodGet)
		return refusal(api.CodeMethod, "a stream has no head of its own")
	}
	if !r.route.open {
		if err := r.judgeQuery(); err != nil {
			return err
		}
		var err error
		if r.client, err = s.o.Admission.Identify(r.Request); err != nil {
			return err
		}
	}
	if r.route.operator && r.client.Kind != admission.Operator {
		return refusal(api.CodeForbidden, "this is for the operator")
	}
	if id := r.PathValue("id"); id != "" {
		if !credential.Run.Is(id) {
			return refusal(api.CodeNotFound, "there is no such run")
		}
		r.run = id
	}
	if r.route.owner {
		values := r.Header.Values(OwnerHeader)
		switch {
		case len(values) == 0:
			return refusal(api.CodeUnauthorized, "the owner's token is needed, in the header %s", OwnerHeader)
		case len(values) > 1 || !s.o.Secret.Owns(values[0], credential.Owner, r.run):
			return refusal(api.CodeForbidden, "that is not the owner's token of this run")
		}
	}
	if r.route.body == nil {
		if r.ContentLength != 0 {
			return refusal(api.CodeBadRequest, "this request has no body")
		}
		return nil
	}
	return s.read(w, r)
}

// judgeQuery refuses what the route does not know in a query: a mistake, or a token
// where it must not be.
func (r *request) judgeQuery() error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return refusal(api.CodeBadRequest, "the query cannot be read")
	}
	for name, values := range query { // which is not in the answer unless it is known: a token may stand in its place
		if len(values) != 1 || !slices.ContainsFunc(r.route.doc.params, func(p param) bool { return p.in == "query" && p.name == name }) {
			return refusal(api.CodeBadRequest, "the query has what this path does not know, or twice what it knows; /openapi.json says what it may have")
		}
	}
	return nil
}

// bodyCost is how often a body is in memory while it is read, decoded and stored.
const bodyCost = 4

// read reads and decodes a body, within a time.
func (s *Server) read(w http.ResponseWriter, r *request) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || len(r.Header.Values("Content-Type")) != 1 || len(params) > 1 || len(params) == 1 && lower(params["charset"]) != "utf-8" {
		return refusal(api.CodeMediaType, "the body must be application/json")
	}
	if !s.hold(r, bodyCost*max(r.ContentLength, 0)) {
		e := refusal(api.CodeBusy, "the service has no memory for this body now, or for none of this client")
		e.RetryAfterMS = 1000
		return e
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.o.BodyTimeout)) // a recorder of tests has none
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	var text bytes.Buffer
	text.Grow(int(min(max(r.ContentLength, 0), 64<<10)))
	if _, err := io.Copy(&text, http.MaxBytesReader(w, r.Body, s.o.MaxBody)); err != nil {
		if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
			return refusal(api.CodeTooLarge, "a body has at most %d bytes", s.o.MaxBody)
		}
		return refusal(api.CodeTimeout, "the body did not come")
	}
	if out, ok := w.(*statusWriter); ok {
		out.whole = true
	}
	r.body = r.route.body()
	return strictjson.Decode(text.Bytes(), r.body, strictjson.Options{Audience: api.AudienceClient, MaxBytes: int(s.o.MaxBody)})
}

// answer writes a JSON answer.
func (s *Server) answer(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return send(w, status, append(data, '\n'))
}

// send writes an answer, to a client who reads it in time.
func send(w http.ResponseWriter, status int, data []byte) error {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout))
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client who has gone needs no answer
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return nil
}

// slowest is how many bytes a second a client has to take of a long answer.
const slowest = 64 << 10

// sendLong is send of front, size bytes of an object and a tail, of which a part at a time
// is in memory, to a client who is not too slow.
func sendLong(w http.ResponseWriter, r *request, status int, size int64, front []byte, object io.Reader, tail []byte) error {
	all := int64(len(front)+len(tail)) + size
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout + time.Duration(all/slowest)*time.Second))
	w.Header().Set("Content-Length", strconv.FormatInt(all, 10))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(front)
	if err == nil && size > 0 {
		var n int64
		if n, err = io.CopyBuffer(struct{ io.Writer }{w}, object, make([]byte, part)); err == nil && n != size {
			err = queue.ErrDamaged
		}
	}
	if err == nil {
		_, err = w.Write(tail)
	}
	if err != nil { // he has gone, or the rest cannot be read: the answer must not look whole
		panic(http.ErrAbortHandler)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return nil
}

// compact is a value as JSON, without the escapes that are for pages alone: with them
// text becomes six times as long.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// refuse answers with an error. If a body was not read to its end the connection is
// closed: what is left of it is read for a while, so that a client who still sends it
// finds the answer.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := s.explain(r, err)
	if out, ok := w.(*statusWriter); ok && out.status != 0 {
		return // it has begun to answer
	}
	if e.RetryAfterMS > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt((e.RetryAfterMS+999)/1000, 10))
	}
	status := e.Code.HTTPStatus()
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if status == http.StatusUpgradeRequired {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Sec-WebSocket-Version", "13")
	}
	if out, ok := w.(*statusWriter); (r.ContentLength != 0 || len(r.TransferEncoding) > 0) && !(ok && out.whole) {
		w.Header().Set("Connection", "close")
		defer drain(w, r)
	}
	if forPerson(r) && s.refusePage(w, e) == nil {
		return
	}
	_ = s.answer(w, status, api.ErrorBody{Error: *e})
}

// What is read of a body that nobody wants, so that its sender comes to read the answer.
const (
	drainBytes = 256 << 20
	drainTime  = 3 * time.Second
)

func drain(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	if len(r.TransferEncoding) > 0 { // nothing of it is parsed
		_ = control.SetReadDeadline(time.Unix(1, 0))
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, drainBytes)
	_ = control.SetReadDeadline(time.Unix(1, 0)) // the server would read on
}

// explain makes what a client is told of an error.
func (s *Server) explain(r *http.Request, err error) *api.ServiceError {
	id, _ := r.Context().Value(requestKey{}).(string)
	var (
		told   *api.ServiceError
		field  *api.FieldError
		denied *gate.Denied
	)
	e := api.ServiceError{}
	switch {
	case errors.As(err, &told) && told.RequestID != "": // it was explained before
		return told
	case errors.As(err, &told):
		e = *told
	case errors.As(err, &field):
		e = *refusal(api.CodeBadField, "%s", field.Error())
		e.Field = field.Field
	case errors.As(err, &denied):
		e = *refusal(api.CodeDeniedByPolicy, "%s", denied.Reason)
	case errors.Is(err, queue.ErrNotFound):
		e = *refusal(api.CodeNotFound, "there is no such run; results are kept for a time")
	case errors.Is(err, queue.ErrFull):
		e = *refusal(api.CodeStorage, "the service has no room on its disk")
		e.RetryAfterMS = 60_000
	case errors.Is(err, queue.ErrClosed), errors.Is(err, glovebox.ErrClosed):
		e = *draining()
	default:
		s.o.Log.Error("a request failed", "id", id, "error", err)
		e = *refusal(api.CodeInternal, "Glovebox itself failed; the service's log has the reason")
	}
	e.RequestID = id
	return &e
}

// draining refuses what would be begun now.
func draining() *api.ServiceError {
	e := refusal(api.CodeDraining, "the service is about to end")
	e.RetryAfterMS = 5_000
	return e
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
	sent   int64
	whole  bool // the request's body was read to its end
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.sent += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
