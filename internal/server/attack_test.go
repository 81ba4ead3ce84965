package server_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/server"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// forwarded are admission's options with which a test is many clients.
func forwarded() admission.Options {
	return admission.Options{ProxyHeader: "X-Forwarded-For", Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// script is a submission of a command of the shell.
func script(text string, memory int64) api.Submission {
	return api.Submission{Program: api.Program{Command: []string{"/bin/sh", "-c", text}, Limits: api.Limits{MemoryBytes: memory}}}
}

// proves part of H-45 H-46
//
// Bodies that one client announces and does not send leave room for those of others, and
// for runs.
func TestAttackAnnouncedBodiesAsRoot(t *testing.T) {
	s := alone(t, service.Options{Memory: 1 << 30, Admission: forwarded()})
	for range 40 {
		c := s.dial(t)
		if _, err := fmt.Fprintf(c, "POST /v1/runs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 8000000\r\n\r\n{", s.addr); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(5 * time.Second) // until the first is refused, or all are held
	for time.Now().Before(deadline) && s.ask(t, "POST", "/v1/runs", "{", "X-Forwarded-For", "192.0.2.1").StatusCode != http.StatusTooManyRequests {
		continue
	}
	a := s.ask(t, "POST", "/v1/runs?wait=10s", script("true", 64<<20), "X-Forwarded-For", "192.0.2.2")
	if a.StatusCode != http.StatusOK {
		t.Fatalf("another client: %d %s", a.StatusCode, a.body)
	}
}

// proves part of H-45
//
// A run that waits for memory does not keep small bodies out.
func TestAttackRunThatWaitsAsRoot(t *testing.T) {
	s := alone(t, service.Options{Memory: 1 << 30, Slots: 2, Admission: forwarded()})
	for i := range 2 {
		a := s.ask(t, "POST", "/v1/runs", script("sleep 20", 600<<20), "X-Forwarded-For", "192.0.2.1")
		if a.StatusCode != http.StatusAccepted {
			t.Fatalf("run %d: %d %s", i, a.StatusCode, a.body)
		}
		r := a.run(t)
		defer s.ask(t, "DELETE", "/v1/runs/"+r.ID, nil, server.OwnerHeader, r.OwnerToken)
	}
	for range 10 {
		a := s.ask(t, "POST", "/v1/runs", script("true", 64<<20), "X-Forwarded-For", "192.0.2.2")
		if a.StatusCode != http.StatusAccepted {
			t.Fatalf("another client: %d %s", a.StatusCode, a.body)
		}
		r := a.run(t)
		s.ask(t, "DELETE", "/v1/runs/"+r.ID, nil, server.OwnerHeader, r.OwnerToken)
	}
}

// proves part of H-47
//
// What is refused leaves nothing in the store, whatever Idempotency-Key it has.
func TestAttackKeysOfRefusedAsRoot(t *testing.T) {
	s := alone(t, service.Options{Admission: admission.Options{Quotas: true, RunsPerHour: 1}})
	accepted := 0
	for i := range 20 {
		a := s.ask(t, "POST", "/v1/runs", script("true", 64<<20), server.IdempotencyHeader, fmt.Sprintf("0123456789abcdef-%d", i))
		if a.StatusCode == http.StatusAccepted {
			accepted++
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(t.Context(), queue.Options{Dir: filepath.Join(s.dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	b, err := q.Bucket(t.Context(), "submissions", queue.BucketOptions{MaxValue: 64})
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for range b.All(t.Context()) {
		kept++
	}
	if accepted != 1 || kept != 1 {
		t.Errorf("%d accepted, %d kept", accepted, kept)
	}
}

// proves part of H-45
//
// The same submission again and again is watched once.
func TestAttackReplaysAsRoot(t *testing.T) {
	s := alone(t, service.Options{})
	var r api.Run
	for range 50 {
		a := s.ask(t, "POST", "/v1/runs", script("sleep 20", 64<<20), server.IdempotencyHeader, "0123456789abcdef")
		if r = a.run(t); a.StatusCode != http.StatusAccepted {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	all := make([]byte, 8<<20)
	n := strings.Count(string(all[:runtime.Stack(all, true)]), ").watch.func")
	s.ask(t, "DELETE", "/v1/runs/"+r.ID, nil, server.OwnerHeader, r.OwnerToken)
	if n > 4 { // a line or two for one goroutine
		t.Errorf("%d lines of goroutines that watch one run", n)
	}
}

// proves part of H-45
//
// A large result is not in memory once for each client who reads it slowly.
func TestAttackSlowReadersAsRoot(t *testing.T) {
	s := alone(t, service.Options{})
	sub := script("head -c 4000000 /dev/zero", 128<<20)
	sub.Limits.StdoutBytes = 4 << 20
	a := s.ask(t, "POST", "/v1/runs?wait=60s", sub)
	r := a.run(t)
	if r.Result == nil || len(r.Result.Stdout) != 4_000_000 {
		t.Fatalf("%d %.300s", a.StatusCode, a.body)
	}
	a = nil //nolint:wastedassign // it is large
	before := heapNow()
	for range 6 {
		c := s.dial(t)
		if _, err := fmt.Fprintf(c, "GET /v1/runs/%s HTTP/1.1\r\nHost: %s\r\n\r\n", r.ID, s.addr); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q: %v", line, err)
		}
	}
	if more := heapNow() - before; more > 40<<20 {
		t.Errorf("six readers of one result hold %d bytes", more)
	}
}

func heapNow() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// proves part of X-08
//
// Standard input of characters that JSON escapes is taken as any other.
func TestAttackStdinOfMarksAsRoot(t *testing.T) {
	s := alone(t, service.Options{})
	r := s.cat(t)
	body := api.StdinBody{Data: strings.Repeat("<", 100<<10)}
	if a := s.ask(t, "POST", "/v1/runs/"+r.ID+"/stdin", body, server.OwnerHeader, r.OwnerToken); a.StatusCode != http.StatusAccepted {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	a := s.ask(t, "POST", "/v1/runs/"+r.ID+"/stdin", api.StdinBody{Close: true}, server.OwnerHeader, r.OwnerToken)
	if a.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	if got := s.ask(t, "GET", "/v1/runs/"+r.ID+"?wait=30s", nil).run(t); got.Result == nil || got.Result.Stdout != "one\n"+body.Data {
		t.Errorf("not what was typed: %+v", got.State)
	}
}

// proves part of H-46
//
// One address does not have all connections.
func TestAttackConnectionsAsRoot(t *testing.T) {
	s := alone(t, service.Options{Server: server.Options{MaxConns: 8}})
	for range 16 {
		s.dial(t)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 5 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second)) // before the others' heads are late
	if _, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", s.addr); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), "200 OK") {
		t.Errorf("another address: %q %v", text, err)
	}
}

// proves part of X-08
//
// Whoever has submitted a run is told its id and token, also when he may not have its
// result now.
func TestAttackResultBeyondQuotaAsRoot(t *testing.T) {
	s := alone(t, service.Options{Admission: admission.Options{Quotas: true, EgressPerHour: 10}})
	a := s.ask(t, "POST", "/v1/runs?wait=20s", script("echo 1", 64<<20))
	if r := a.run(t); r.ID == "" || r.OwnerToken == "" || a.StatusCode != http.StatusAccepted {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// proves part of H-47
//
// A program is stored as large as it came.
func TestAttackProgramOfMarksAsRoot(t *testing.T) {
	s := alone(t, service.Options{Admission: admission.Options{Quotas: true, StoredPerHour: 1 << 20}})
	sub := script("true", 64<<20)
	sub.Stdin = nil
	sub.Command = append(sub.Command, strings.Repeat("<", 100<<10), strings.Repeat("&", 100<<10), strings.Repeat(">", 100<<10))
	if a := s.ask(t, "POST", "/v1/runs", sub); a.StatusCode != http.StatusAccepted {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// proves part of H-46
//
// A picture that is asked for again and again is decoded once.
func TestAttackPictureAgainAsRoot(t *testing.T) {
	s := alone(t, service.Options{})
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 4000, 4000))); err != nil {
		t.Fatal(err)
	}
	sub := api.Submission{Program: api.Program{Language: "bash", Artifacts: []string{"p.png"}, Files: []api.File{
		{Name: "main.sh", Content: "true"}, {Name: "p.png", Content: base64.StdEncoding.EncodeToString(file.Bytes()), Encoding: "base64"}}}}
	a := s.ask(t, "POST", "/v1/runs?wait=30s", sub)
	r := a.run(t)
	if r.Result == nil || len(r.Result.Artifacts) != 1 {
		t.Fatalf("%d %.500s", a.StatusCode, a.body)
	}
	get := func(n int) time.Duration {
		before := busy(t)
		for range n {
			a := s.ask(t, "GET", r.Result.Artifacts[0].URL, nil)
			if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "image/png" || !bytes.Equal(a.body, file.Bytes()) {
				t.Fatalf("%d %s, %d bytes", a.StatusCode, a.Header.Get("Content-Type"), len(a.body))
			}
		}
		return busy(t) - before
	}
	if one, more := get(1), get(20); more > 6*one {
		t.Errorf("once takes %v, twenty times %v", one, more)
	}
}

// busy is the processor time that this process has used.
func busy(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// proves part of H-46
//
// Submissions that are sent again when their runs have ended take no place of others.
func TestAttackReplaysOfEndedAsRoot(t *testing.T) {
	s := alone(t, service.Options{Slots: 1, Backlog: 4, Admission: forwarded()})
	replay := func(i int) *answer {
		return s.ask(t, "POST", "/v1/runs?wait=20s", script("true", 64<<20), "X-Forwarded-For", "192.0.2.1", server.IdempotencyHeader, fmt.Sprintf("0123456789abcdef-%d", i))
	}
	first := map[int]string{}
	for i := range 6 {
		a := replay(i)
		if first[i] = a.run(t).ID; a.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	long := s.ask(t, "POST", "/v1/runs", script("sleep 20", 64<<20), "X-Forwarded-For", "192.0.2.1").run(t)
	defer s.ask(t, "DELETE", "/v1/runs/"+long.ID, nil, server.OwnerHeader, long.OwnerToken)
	for i := range 6 {
		if a := replay(i); a.StatusCode != http.StatusOK || a.run(t).ID != first[i] {
			t.Errorf("again: %d %s", a.StatusCode, a.body)
		}
	}
	for range 3 {
		a := s.ask(t, "POST", "/v1/runs", script("true", 64<<20), "X-Forwarded-For", "192.0.2.2")
		if a.StatusCode != http.StatusAccepted {
			t.Fatalf("another client: %d %s", a.StatusCode, a.body)
		}
	}
}
