package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

// LastEventHeader is where an EventSource says what it has seen.
const LastEventHeader = "Last-Event-ID"

// retryMS is when an EventSource whose stream broke off comes back.
const retryMS = "2000"

// events streams a run as server-sent events, see
// https://html.spec.whatwg.org/multipage/server-sent-events.html
func (s *Server) events(w http.ResponseWriter, r *request) error {
	after, over, err := s.after(r, LastEventHeader)
	if err != nil {
		return err
	}
	if over { // the one answer after which an EventSource stays away
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	release, err := s.stream(r, telemetry.StreamEvents)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy's
	out := &eventWriter{w: w, control: http.NewResponseController(w)}
	if out.write([]byte("retry: "+retryMS+"\n\n"), true) != nil {
		return nil
	}
	for f, err := range s.follow(ctx, r.run, after) {
		if err == nil {
			err = s.sendEvent(r, out, f)
		}
		if err != nil && ctx.Err() == nil && !out.broken { // else he has gone, or the service ends: he may come back
			e := s.explain(r.Request, err)
			_ = s.sendEvent(r, out, makeFrame(api.Frame{Event: api.Event{Type: "error"}, Code: e.Code, Message: e.Message}))
		}
		if err != nil || f.final {
			break
		}
	}
	return nil
}

// sendEvent writes one frame as an event.
func (s *Server) sendEvent(r *request, out *eventWriter, f frame) error {
	if f.kind == "" {
		return out.write([]byte(":\n\n"), true)
	}
	head := "event: " + f.kind + "\ndata: "
	if f.seq > 0 {
		head = "id: " + strconv.FormatUint(f.seq, 10) + "\n" + head
	}
	begun := false
	return s.parts(r, f, func(p []byte, last bool) error {
		if !begun {
			p = slices.Concat([]byte(head), p)
		}
		if begun = true; last {
			p = append(slices.Clip(p), "\n\n"...)
		}
		return out.write(p, last)
	})
}

// eventWriter writes to a client who takes each part in time, or has lost the stream.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	broken  bool // within an event, or for good
}

func (o *eventWriter) write(p []byte, last bool) error {
	o.broken = true
	if err := o.control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := o.w.Write(p); err != nil || !last {
		return err
	}
	if err := o.control.Flush(); err != nil {
		return err
	}
	o.broken = false
	return nil
}
