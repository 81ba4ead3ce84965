package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// place is a service on loopback, for tests of its streams.
type place struct {
	t    *testing.T
	svc  *service.Service
	addr string
	http *http.Client
}

func openPlace(t *testing.T, change func(*service.Options)) *place {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := service.Options{Dir: filepath.Join(t.TempDir(), "data"), Listeners: []net.Listener{l}}
	o.Box.InitPath = testenv.Init()
	o.Admission.InFlight, o.Admission.SocketsPerRun = 64, 10
	if change != nil {
		change(&o)
	}
	s, err := service.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, svc: s, addr: l.Addr().String(), http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(p.close)
	return p
}

func (p *place) close() {
	p.http.CloseIdleConnections()
	if p.svc == nil {
		return
	}
	if err := p.svc.Close(); err != nil {
		p.t.Error(err)
	}
	p.svc = nil
}

// ask makes a request and returns its status and the text of its answer.
func (p *place) ask(method, path string, body any, head ...string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.addr+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			p.t.Fatal(err)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Add(head[i], head[i+1])
	}
	a, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// submit starts a run and returns it as its answer has it.
func (p *place) submit(wait string, sub api.Submission) api.Run {
	p.t.Helper()
	code, text := p.ask("POST", "/v1/runs"+wait, sub)
	var run api.Run
	if err := json.Unmarshal([]byte(text), &run); err != nil || code != 200 && code != 202 {
		p.t.Fatalf("%d %s", code, text)
	}
	return run
}

// end waits for the end of a run.
func (p *place) end(id string) *api.Result {
	p.t.Helper()
	code, text := p.ask("GET", "/v1/runs/"+id+"?wait=50s", nil)
	var run api.Run
	if err := json.Unmarshal([]byte(text), &run); err != nil || code != 200 || run.Result == nil {
		p.t.Fatalf("%d %s", code, text)
	}
	return run.Result
}

// sseEvent is one server-sent event; a comment has no type.
type sseEvent struct {
	id, kind string
	frame    api.Frame
}

// sse is a stream of server-sent events.
type sse struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Reader
	head http.Header
}

// events opens a stream of events.
func (p *place) events(id string, head ...string) *sse {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), "GET", "http://"+p.addr+"/v1/runs/"+id+"/events", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Add(head[i], head[i+1])
	}
	a, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" {
		p.t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	return &sse{t: p.t, body: a.Body, in: bufio.NewReader(a.Body), head: a.Header}
}

// next is the next event, nil at the end. Anything that is not exactly a line of the
// protocol fails the test.
func (s *sse) next() *sseEvent {
	s.t.Helper()
	e := &sseEvent{}
	for {
		line, err := s.in.ReadString('\n')
		if err == io.EOF && line == "" && e.kind == "" {
			return nil
		}
		if err != nil {
			s.t.Fatalf("%q %v", line, err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "retry":
		case "data":
			if err := json.Unmarshal([]byte(value), &e.frame); err != nil {
				s.t.Fatalf("%s: %v", line, err)
			}
		case "":
			if e.kind != "" {
				return e
			}
		case ":":
			return e
		default:
			s.t.Fatalf("%q", line)
		}
	}
}

// all are the events until the end of the stream.
func (s *sse) all() []*sseEvent {
	s.t.Helper()
	defer s.body.Close()
	var all []*sseEvent
	for e := s.next(); e != nil; e = s.next() {
		all = append(all, e)
	}
	return all
}

// python is a submission of a program in Python.
func python(source string) api.Submission {
	return api.Submission{Program: glovebox.Program{Language: "python", Source: source}}
}

func command(argv ...string) api.Submission {
	return api.Submission{Program: glovebox.Program{Command: argv}}
}

// output puts the chunks of stdout together and names the types of all frames, each
// once where several follow each other.
func output(frames []api.Frame) (out string, types []string) {
	var b strings.Builder
	for _, f := range frames {
		if f.Type == "stats" {
			continue
		}
		if f.Type == "chunk" && f.Stream == "stdout" {
			b.WriteString(f.Data)
		}
		if n := len(types); n == 0 || types[n-1] != f.Type {
			types = append(types, f.Type)
		}
	}
	return b.String(), types
}

func framesOf(events []*sseEvent) (all []api.Frame) {
	for _, e := range events {
		all = append(all, e.frame)
	}
	return all
}

// soon waits until something holds.
func soon(t *testing.T, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("within %v: %s", within, what)
		}
	}
}
