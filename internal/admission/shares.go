package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// shares is what is held at the moment, by client and by run. Nobody who holds nothing
// is in it.
type shares struct {
	mu      sync.Mutex
	clients map[string]*holder
	runs    map[string]*inflight
	streams map[string]int // by run
	waits   int
	sockets int
	pending int    // requests between Admit and the queue's answer
	changes uint64 // counts acceptances, so that no clock is needed to order them
}

// holder is what one client holds.
type holder struct {
	runs, waits, sockets int
	bytes                int64
	looked               time.Time
}

// inflight is a run that was admitted and has not ended.
type inflight struct {
	client   string
	bytes    int64
	requests int  // that were admitted for it and have no answer of the queue yet
	accepted bool // the queue has it
	charged  bool // by a request that was refused
	over     bool // it has ended before the request was told that it was accepted
	since    uint64
	sweeps   int // it has stayed without an answer
}

func (s *shares) begin() {
	s.clients, s.runs, s.streams = map[string]*holder{}, map[string]*inflight{}, map[string]int{}
}

func (s *shares) of(client string) *holder {
	h := s.clients[client]
	if h == nil {
		h = &holder{}
		s.clients[client] = h
	}
	return h
}

// forget drops a client that holds nothing.
func (s *shares) forget(client string) {
	if h := s.clients[client]; h != nil && h.runs == 0 && h.waits == 0 && h.sockets == 0 {
		delete(s.clients, client)
	}
}

// enter takes a place for a run, or one more part in the place that it has. pending is
// how many bytes of the client's are in flight then.
func (s *shares) enter(client string, r Request, most int) (pending int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending >= maxPending {
		return 0, busy("too many submit at once")
	}
	e := s.runs[r.ID]
	if e != nil && e.client != client {
		return 0, &api.ServiceError{Code: api.CodeConflict, Message: "another client's run has this id"}
	}
	if e == nil {
		if h := s.clients[client]; h != nil && h.runs >= most {
			return 0, inFlight(most)
		}
		e = s.add(r.ID, client, r.Bytes)
	}
	e.requests++
	s.pending++
	return s.clients[client].bytes, nil
}

func (s *shares) add(id, client string, bytes int64) *inflight {
	e := &inflight{client: client, bytes: bytes}
	s.runs[id] = e
	h := s.of(client)
	h.runs++
	h.bytes += bytes
	return e
}

// free gives a place back.
func (s *shares) free(id string, e *inflight) {
	if s.runs[id] != e {
		return
	}
	delete(s.runs, id)
	s.pending -= e.requests
	h := s.clients[e.client]
	h.runs--
	h.bytes -= e.bytes
	s.forget(e.client)
}

// answered ends one request's part in a place.
func (s *shares) answered(e *inflight) {
	if e.requests > 0 {
		e.requests--
		s.pending--
	}
}

// accepted says that the queue has a run.
func (s *shares) accepted(id, client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.runs[id]
	if e == nil {
		e = s.add(id, client, 0)
	}
	s.answered(e)
	if !e.accepted {
		e.accepted = true
		s.changes++
		e.since = s.changes
	}
	if e.over && e.requests == 0 {
		s.free(id, e)
	}
}

// leave ends the part of a request whose run was not accepted. refund says that what
// was charged for the run is to be given back: no other request has a part in it.
func (s *shares) leave(id string, charged bool) (refund bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.runs[id]
	if e == nil {
		return charged
	}
	s.answered(e)
	e.charged = e.charged || charged
	if e.requests > 0 || e.accepted && !e.over {
		return false
	}
	s.free(id, e)
	return e.charged && !e.over && !e.accepted
}

func (s *shares) done(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.runs[id]
	switch {
	case e == nil:
	case e.requests > 0: // its request does not know yet that it was accepted
		e.over = true
	default:
		s.free(id, e)
	}
}

// together is how many runs a client has, here and among those that the queue has.
func (s *shares) together(client string, queued []queue.JobName) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.of(client).runs
	for _, j := range queued {
		if s.runs[j.ID] == nil {
			n++
		}
	}
	s.forget(client)
	return n
}

// mayLook says whether it is time to ask the queue for the runs of a client.
func (s *shares) mayLook(client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.clients[client]
	if h == nil || time.Since(h.looked) < time.Second {
		return false
	}
	h.looked = time.Now()
	return true
}

func (s *shares) mark() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// staleAfter is in how many sweeps a request may have no answer of the queue.
const staleAfter = 8

// reconcile frees what was accepted before a mark and is no more among those that the
// queue has. What has had no answer for long is what the queue says it is.
func (s *shares) reconcile(client string, mark uint64, still map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.runs {
		switch {
		case client != "" && e.client != client:
		case e.accepted && e.requests == 0:
			if e.since <= mark && !still[id] {
				s.free(id, e)
			}
		case client != "":
		case e.sweeps < staleAfter:
			e.sweeps++
		case still[id]:
			s.pending -= e.requests
			e.requests, e.accepted = 0, true
			s.changes++
			e.since = s.changes
		default:
			s.free(id, e)
		}
	}
}

// sweeps goes on until Close.
func (a *Admission) sweeps(ctx context.Context) {
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := a.look(ctx, ""); err != nil && ctx.Err() == nil && a.o.Queue.Err() == nil {
			a.o.Log.Warn("admission: a sweep", "error", err)
		}
	}
}

// Wait takes a place among requests that wait for the end of a run. release gives it
// back; it may be called more than once. The error is an *api.ServiceError with the
// code busy.
func (a *Admission) Wait(c Client) (release func(), err error) {
	s := &a.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits >= a.o.MaxWaits {
		return nil, busy("too many requests wait for runs")
	}
	if h := s.clients[c.ID]; h != nil && h.waits >= a.o.WaitsPerClient {
		return nil, busy(fmt.Sprintf("%d requests of one client may wait for runs", a.o.WaitsPerClient))
	}
	at := c.place()
	if h := s.clients[at]; h != nil && h.waits >= share(a.o.MaxWaits, 0) {
		return nil, busy("too many requests of one address wait for runs")
	}
	s.waits++
	s.of(c.ID).waits++
	s.of(at).waits++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waits--
		for _, token := range []string{c.ID, at} {
			s.clients[token].waits--
			s.forget(token)
		}
	}), nil
}

// place is the token by which all keys of one address, and who has none there, are
// counted together, so that no number of keys is more than a share.
func (c Client) place() string {
	if c.Net == "" || c.Kind == Operator {
		return "at-" + c.ID
	}
	return "at-" + c.Net
}

// Stream takes a place among the streams, WebSockets and server-sent events, that watch a
// run. release and the error are as those of Wait.
func (a *Admission) Stream(c Client, runID string) (release func(), err error) {
	s := &a.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sockets >= a.o.MaxSockets {
		return nil, busy("too many streams are open")
	}
	if s.streams[runID] >= a.o.SocketsPerRun {
		return nil, busy(fmt.Sprintf("%d streams may watch one run", a.o.SocketsPerRun))
	}
	if h := s.clients[c.ID]; h != nil && h.sockets >= a.o.SocketsPerClient {
		return nil, busy(fmt.Sprintf("%d streams of one client may be open", a.o.SocketsPerClient))
	}
	at := c.place()
	if h := s.clients[at]; h != nil && h.sockets >= share(a.o.MaxSockets, 0) {
		return nil, busy("too many streams of one address are open")
	}
	s.sockets++
	s.streams[runID]++
	s.of(c.ID).sockets++
	s.of(at).sockets++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sockets--
		if s.streams[runID]--; s.streams[runID] == 0 {
			delete(s.streams, runID)
		}
		for _, token := range []string{c.ID, at} {
			s.clients[token].sockets--
			s.forget(token)
		}
	}), nil
}

// Held is what all clients hold at the moment, for metrics.
type Held struct {
	Clients, Runs, Waits, Streams int
}

// Held is what all clients hold at the moment.
func (a *Admission) Held() Held {
	s := &a.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	clients := 0
	for token := range s.clients {
		if !strings.HasPrefix(token, "at-") {
			clients++
		}
	}
	return Held{clients, len(s.runs), s.waits, s.sockets}
}
