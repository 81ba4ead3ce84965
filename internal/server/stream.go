package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/executor"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// Bounds of streams.
const (
	heartbeat = 15 * time.Second // between signs of life of a stream that has nothing to say
	// A client is told its place when it begins, then so often at first and at last.
	placeSoon, placeLate = 500 * time.Millisecond, 4 * time.Second
	// A part of a message is what a client has to take within sendTimeout.
	part = 32 << 10
)

func streamRoutes() []*route {
	after := param{"after", "query", "the number of the last frame that is known; the next ones follow"}
	return []*route{
		{method: "GET", path: "/v1/runs/{id}/events", handle: (*Server).events, streams: true, doc: doc{
			id: "watchRun", summary: "What happens to a run, as server-sent events",
			text:   "Everything from the start, then what comes, until the event finished. The data of each is a Frame, its id the number of the frame. Resumes behind Last-Event-ID, or after; 204 when nothing can follow it.",
			params: []param{{"Last-Event-ID", "header", "the number of the last event that is known; stronger than after"}, after},
			media:  "text/event-stream", answers: map[int]any{200: nil, 204: nil}, sends: api.Frame{},
			codes: []api.Code{api.CodeBadField}}},
		{method: "GET", path: "/v1/runs/{id}/stream", handle: (*Server).socket, streams: true, doc: doc{
			id: "streamRun", summary: "What happens to a run, over a WebSocket that can control it",
			text:   "The server sends a Frame a message: everything from the start or after a number, until finished. The client may send a ClientFrame a message, the owner's token first.",
			heads:  map[int]map[string]string{101: {"Upgrade": "websocket", "Sec-WebSocket-Accept": "what RFC 6455 makes of the key"}},
			params: []param{after}, answers: map[int]any{101: nil}, sends: api.Frame{}, takes: api.ClientFrame{}, codes: []api.Code{api.CodeUpgrade, api.CodeBadField}}},
	}
}

// frame is one message of a stream: head, an object of the run if there is one, tail.
type frame struct {
	kind   string // its type; empty for a sign of life
	seq    uint64
	final  bool
	head   []byte
	object io.Reader // what is too large to be in memory
	size   int64     // of the object
	tail   []byte
}

// makeFrame makes a frame of something else than an event.
func makeFrame(f api.Frame) frame {
	data, err := json.Marshal(f)
	if err != nil {
		data = nil // there is no such value
	}
	return frame{kind: f.Type, head: data}
}

// eventFrame makes a frame of an event. What the executor has written is not taken
// apart again, but is made one line of JSON whatever it is.
func (s *Server) eventFrame(ctx context.Context, run string, e queue.Event) (frame, error) {
	f := frame{kind: e.Type, seq: e.Seq, final: e.Final}
	seq := strconv.FormatUint(e.Seq, 10)
	front := 0 // of what is stored, is left out
	switch {
	case e.Type == queue.TypeStarted:
		if bytes.Equal(e.Data, executor.PhaseCompile) {
			f.kind = "compiling"
		}
		f.head = makeFrame(api.Frame{Event: api.Event{Type: f.kind}, Seq: e.Seq}).head
		return f, nil
	case e.Final:
		f.head, f.tail = []byte(`{"type":"finished","t_ms":0,"seq":`+seq+`,"result":`), []byte("}")
	case e.Type == executor.TypeProgram:
		f.kind = "started"
		fallthrough
	default: // {"type":…
		f.head, front = []byte(`{"seq":`+seq+`,`), 1
	}
	if e.Object != "" {
		o, err := s.o.Queue.Runs().Get(ctx, run, e.Object)
		if err != nil {
			return f, err
		}
		if _, err := io.CopyN(io.Discard, o, int64(front)); err != nil {
			return f, err
		}
		f.object, f.size = oneLine{o}, o.Size
		return f, nil
	}
	var body bytes.Buffer
	body.Grow(len(f.head) + len(e.Data) + len(f.tail))
	if err := json.Compact(&body, e.Data); err != nil {
		return f, err
	}
	if body.Bytes()[0] != '{' {
		return f, errNoObject
	}
	f.head, f.tail = slices.Concat(f.head, body.Bytes()[front:], f.tail), nil
	return f, nil
}

var errNoObject = errors.New("server: an event that is no JSON object")

// parts gives out a frame in parts of at most [part] bytes, none of which has a line's
// end in it, when its client may have it.
func (s *Server) parts(r *request, f frame, out func(p []byte, last bool) error) error {
	if err := s.o.Admission.Egress(r.client, int64(len(f.head)+len(f.tail))+f.size); err != nil {
		return err
	}
	all := io.Reader(bytes.NewReader(f.head))
	if f.object != nil {
		all = io.MultiReader(all, f.object, bytes.NewReader(f.tail))
	} else if len(f.head) <= part {
		return out(f.head, true)
	}
	buf := make([]byte, part)
	for {
		n, err := io.ReadFull(all, buf)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if err := out(buf[:n], last); err != nil || last {
			return err
		}
	}
}

// oneLine makes blanks of ends of lines, which JSON has between its tokens alone.
type oneLine struct{ r io.Reader }

func (l oneLine) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for i, c := range p[:n] {
		if c == '\n' || c == '\r' {
			p[i] = ' '
		}
	}
	return n, err
}

// follow are the frames of a run behind a number: where it stands in the queue while
// it waits, its events as they are stored and as they come, and signs of life. Nothing
// is kept for a reader who is slow. An error is the last thing that comes.
func (s *Server) follow(ctx context.Context, run string, after uint64) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		type item struct {
			e   queue.Event
			err error
		}
		items := make(chan item)
		events := s.o.Queue.Events(ctx, run, after)
		if s.o.wrap != nil {
			events = s.o.wrap(events)
		}
		var reading sync.WaitGroup
		reading.Go(func() {
			defer close(items)
			for e, err := range events {
				select {
				case items <- item{e, err}:
				case <-ctx.Done():
					return
				}
			}
		})
		defer reading.Wait()
		defer cancel()
		p := &place{s: s, run: run, told: -1, pause: placeSoon, again: time.NewTimer(0)}
		defer p.again.Stop()
		if after > 0 {
			p.again.Stop()
		}
		idle := time.NewTicker(s.o.heartbeat)
		defer idle.Stop()
		for {
			var f frame
			var err error
			select {
			case i, ok := <-items:
				if !ok {
					return
				}
				p.again.Stop() // it has begun
				if err = i.err; err == nil {
					f, err = s.eventFrame(ctx, run, i.e)
				}
			case <-p.again.C:
				if f, err = p.look(ctx); err == nil && f.kind == "" {
					continue
				}
			case <-idle.C:
			}
			if !yield(f, err) || err != nil {
				return
			}
			idle.Reset(s.o.heartbeat)
		}
	}
}

// place is where a run stands in the queue, as its client was told.
type place struct {
	s     *Server
	run   string
	told  int
	pause time.Duration
	again *time.Timer
}

// look returns a frame if the client has to be told something new.
func (p *place) look(ctx context.Context) (frame, error) {
	st, err := p.s.o.Queue.Status(ctx, p.run)
	if err != nil {
		return frame{}, err
	}
	if st.State != queue.Waiting && st.State != queue.Taken {
		return frame{}, nil // its events say the rest
	}
	p.again.Reset(p.pause)
	p.pause = min(2*p.pause, placeLate)
	if st.Position == p.told {
		return frame{}, nil
	}
	p.told = st.Position
	return makeFrame(api.Frame{Event: api.Event{Type: "queued"}, Position: &st.Position}), nil
}

// badSeq refuses what is no number of a frame of this run.
func badSeq(field string) error {
	return &api.FieldError{Field: field, Reason: "must be the number of a frame of this run"}
}

// after is where a stream begins, and whether nothing can follow. A number is decimal,
// in its one form, and one that the run has given out.
func (s *Server) after(r *request, header string) (after uint64, over bool, err error) {
	field, values := "after", r.URL.Query()["after"] // it was judged
	if all := r.Header.Values(header); header != "" && len(all) > 0 {
		field, values = header, all
	}
	if len(values) > 0 {
		after, err = strconv.ParseUint(values[0], 10, 64)
		if err != nil || len(values) > 1 || strconv.FormatUint(after, 10) != values[0] {
			return 0, false, badSeq(field)
		}
	}
	last, final, err := s.o.Queue.Last(r.Context(), r.run)
	if err != nil {
		return 0, false, err
	}
	if after > last {
		return 0, false, badSeq(field)
	}
	return after, final && after == last, nil
}

// streams are those that are open.
type streams struct {
	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup
}

// stream takes a place among the streams of a run and of a client.
func (s *Server) stream(r *request, kind string) (release func(), err error) {
	st := &s.streaming
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return nil, draining()
	}
	give, err := s.o.Admission.Stream(r.client, r.run)
	if err != nil {
		return nil, err
	}
	closed := s.metrics.Stream(kind)
	st.open.Add(1)
	return func() {
		closed()
		give()
		st.open.Done()
	}, nil
}

// close refuses further streams and returns when there is none left.
func (st *streams) close() {
	st.mu.Lock()
	st.closed = true
	st.mu.Unlock()
	st.open.Wait()
}
