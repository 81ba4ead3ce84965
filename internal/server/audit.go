package server

import (
	"context"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

// note writes what a request has done, or was refused, into the audit log. That it
// cannot be written is in the log's own Err, which admission asks.
func (s *Server) note(r *request, e telemetry.Entry) {
	e.RequestID, e.Client = r.id, r.client.ID
	if e.RunID == "" {
		e.RunID = r.run
	}
	if err := s.o.Audit.Append(context.WithoutCancel(r.Context()), e); err != nil {
		s.o.Log.Warn("an entry is not in the audit log", "kind", e.Kind, "error", err)
	}
}

// noted makes what a client is told of an error, and writes down refusals that matter:
// of programs, and of whoever was not who he had to be.
func (s *Server) noted(r *request, err error) error {
	e := s.explain(r.Request, err)
	if r.route.submits {
		s.metrics.Refused(e.Code)
	}
	switch {
	case e.Code == api.CodeUnauthorized || e.Code == api.CodeForbidden:
		s.note(r, telemetry.Entry{Kind: telemetry.EntryDenied, Code: string(e.Code)})
	case r.route.submits:
		s.note(r, telemetry.Entry{Kind: telemetry.EntryRefused, Code: string(e.Code)})
	}
	return e
}
