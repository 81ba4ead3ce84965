package server

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
)

func infoRoutes() []*route {
	return []*route{
		{method: "GET", path: "/v1/languages", handle: (*Server).languages, doc: doc{
			id: "listLanguages", summary: "The languages that this host has", answers: map[int]any{200: api.LanguageList{}}}},
		{method: "GET", path: "/v1/limits", handle: (*Server).limits, doc: doc{
			id: "getLimits", summary: "What a submission may ask for, and what this client may do", answers: map[int]any{200: api.LimitsInfo{}}}},
		{method: "GET", path: "/v1/status", handle: (*Server).serviceStatus, doc: doc{
			id: "getStatus", summary: "What this host enforces, and how busy it is", text: "The details of the layers are the operator's.", answers: map[int]any{200: api.ServiceStatus{}}}},
		{method: "GET", path: "/metrics", handle: (*Server).metricsOf, open: true, doc: doc{
			id: "getMetrics", summary: "Metrics, for Prometheus or as JSON", text: "JSON if Accept asks for it. The service may ask for a user and a password.", media: "text/plain", answers: map[int]any{200: api.Metrics{}},
			codes: []api.Code{api.CodeUnauthorized}}},
		{method: "GET", path: "/healthz", handle: (*Server).healthz, open: true, doc: doc{
			id: "healthz", summary: "Whether the process answers", media: "text/plain", answers: map[int]any{200: nil}}},
		{method: "GET", path: "/readyz", handle: (*Server).readyz, open: true, doc: doc{
			id: "readyz", summary: "Whether it takes submissions", text: "503 while it drains or its store has stopped.", media: "text/plain", answers: map[int]any{200: nil, 503: nil}}},
	}
}

func (s *Server) languages(w http.ResponseWriter, r *request) error {
	return s.answer(w, http.StatusOK, api.LanguageList{Languages: s.o.Box.Languages(r.Context(), false), APIVersion: api.Version})
}

func (s *Server) metricsOf(w http.ResponseWriter, r *request) error {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout))
	s.metrics.Handler().ServeHTTP(w, r.Request)
	return nil
}

func (s *Server) limits(w http.ResponseWriter, r *request) error {
	runs, keys, err := s.o.Admission.Quotas(r.Context(), r.client)
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, api.LimitsInfo{
		Defaults: api.DefaultLimits(), CompileDefaults: api.DefaultCompileLimits(), Floors: api.MinLimits(), Ceilings: s.o.Ceilings,
		BodyBytes: s.o.MaxBody, WaitMS: s.o.MaxWait.Milliseconds(), Slots: s.o.Slots, Backlog: s.o.Backlog, InFlight: s.o.InFlight, Sockets: s.o.Sockets,
		Runs: runs, Keys: keys, RetentionMS: s.o.Retention.Milliseconds(), APIVersion: api.Version,
	})
}

func (s *Server) serviceStatus(w http.ResponseWriter, r *request) error {
	st := api.ServiceStatus{Status: s.o.Box.Status(), Version: s.o.Version, Draining: s.draining.Load(), Slots: s.o.Slots, Backlog: s.o.Backlog,
		UptimeMS: time.Since(s.started).Milliseconds()}
	st.Warnings = append(slices.Clone(st.Warnings), s.o.Warnings...)
	if s.o.Running != nil {
		st.Running, st.Waiting = s.o.Running(), s.o.Waiting()
	}
	if r.client.Kind != admission.Operator {
		st.Layers = slices.Clone(st.Layers)
		for i, l := range st.Layers {
			st.Layers[i] = api.Layer{Name: l.Name, Applied: l.Applied}
		}
	}
	return s.answer(w, http.StatusOK, st)
}

func (s *Server) healthz(w http.ResponseWriter, _ *request) error {
	return text(w, http.StatusOK, "ok\n")
}

func (s *Server) readyz(w http.ResponseWriter, _ *request) error {
	if s.draining.Load() {
		return text(w, http.StatusServiceUnavailable, "draining\n")
	}
	if err := s.o.Queue.Err(); err != nil {
		s.o.Log.Error("the store has stopped", "error", err)
		return text(w, http.StatusServiceUnavailable, "the store has stopped\n")
	}
	return text(w, http.StatusOK, "ok\n")
}

func text(w http.ResponseWriter, status int, s string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	return send(w, status, []byte(s))
}

// isBase64 tells whether a text is standard base64, the empty one too.
func isBase64(s string) bool {
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil && !strings.ContainsAny(s, "\r\n")
}
