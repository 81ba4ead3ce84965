package client_test

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/client"
)

const (
	key   = "gbk_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	token = "gbo_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	runID = "0123456789abcdef0123456789abcdef"
)

// hostile is a service that answers by the last word of what it is asked for:
// "runs" is a submission. What is not in it is answered well.
func hostile(t *testing.T, answers map[string]http.HandlerFunc) (*client.Client, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if h := answers[part]; h != nil {
			h(w, r)
			return
		}
		switch part {
		case "runs":
			w.WriteHeader(202)
			fmt.Fprintf(w, `{"id":%q,"state":"queued","owner_token":%q,"position":0,"api_version":"v1"}`, runID, token)
		default:
			fmt.Fprintf(w, `{"id":%q,"state":"finished","result":%s,"api_version":"v1"}`, runID, result(nil))
		}
	}))
	t.Cleanup(s.Close)
	c := dial(t, client.Options{URL: s.URL, Key: key, Patience: time.Second, Reconnect: time.Second, MaxAnswer: 1 << 20})
	c.Hasten(time.Second)
	return c, s
}

// result is the result of the run, changed.
func result(change func(*api.Result)) string {
	r := api.Result{ID: runID, Verdict: api.OK, Stdout: "fine"}
	if change != nil {
		change(&r)
	}
	b, _ := json.Marshal(r)
	return string(b)
}

func says(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// endless writes a text until nobody reads it.
func endless(head, text string, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, err := io.WriteString(w, head)
		for err == nil && r.Context().Err() == nil {
			if _, err = io.WriteString(w, text); pause > 0 {
				w.(http.Flusher).Flush()
				select {
				case <-time.After(pause):
				case <-r.Context().Done():
				}
			}
		}
	}
}

// The control of all that follows: the same service, unchanged.
func TestHostileControl(t *testing.T) {
	c, _ := hostile(t, nil)
	if r, err := c.Run(t.Context(), api.Program{Command: []string{"x"}}); err != nil || r.Stdout != "fine" {
		t.Fatalf("%+v %v", r, err)
	}
	c, _ = hostile(t, map[string]http.HandlerFunc{"events": stream(`{"type":"chunk","seq":1,"data":"x","t_ms":0}`, final(2, nil))})
	n := 0
	r, err := c.Run(t.Context(), api.Program{Command: []string{"x"}}, client.WithEvents(func(api.Frame) { n++ }))
	if err != nil || r.Stdout != "fine" || n != 2 {
		t.Fatalf("%+v %d %v", r, n, err)
	}
}

// What no service answers is an error of its own, soon and with little memory.
func TestHostileAnswers(t *testing.T) {
	big := strings.Repeat("x", 64<<10)
	for name, answer := range map[string]http.HandlerFunc{
		"without end":          endless(`{"id":"`, big, 0),
		"a byte at a time":     endless(`{"id":"`, "x", 50*time.Millisecond),
		"never":                func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no JSON":              says(200, "<html>"),
		"another run":          says(200, `{"id":"ffffffffffffffffffffffffffffffff","state":"queued","api_version":"v1"}`),
		"another's result":     says(200, `{"id":"`+runID+`","state":"finished","result":`+result(func(r *api.Result) { r.ID = "" })+`,"api_version":"v1"}`),
		"an end and no result": says(200, `{"id":"`+runID+`","state":"finished","api_version":"v1"}`),
		"a name that climbs": says(200, `{"id":"`+runID+`","state":"finished","result":`+result(func(r *api.Result) {
			r.Artifacts = []api.Artifact{{Name: "../x", SHA256: strings.Repeat("0", 64)}}
		})+`,"api_version":"v1"}`),
		"more than a run may leave": says(200, `{"id":"`+runID+`","state":"finished","result":`+result(func(r *api.Result) {
			r.Artifacts = []api.Artifact{{Name: "x", Size: 1 << 40, SHA256: strings.Repeat("0", 64)}}
		})+`,"api_version":"v1"}`),
		"compressed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			says(200, `{"id":"`+runID+`","state":"finished","result":`+result(nil)+`,"api_version":"v1"}`)(w, nil)
		},
		"an error that is none": says(500, `{"error":{"code":"not_found","message":"m"}}`),
		"an endless error":      func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(400); endless("", big, 0)(w, r) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := hostile(t, map[string]http.HandlerFunc{runID: answer})
			began := time.Now()
			r, err := c.Run(t.Context(), api.Program{Command: []string{"x"}})
			if took := time.Since(began); err == nil || took > 10*time.Second {
				t.Errorf("after %v: %+v %v", took, r, err)
			}
			if name != "never" && name != "a byte at a time" && !errors.As(err, new(*client.AnswerError)) {
				t.Errorf("%v", err)
			}
			if err != nil && (strings.Contains(err.Error(), key) || strings.Contains(err.Error(), token)) {
				t.Errorf("a secret is in %v", err)
			}
		})
	}
}

func stream(frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, f := range frames {
			fmt.Fprintf(w, "data: %s\n\n", f)
		}
	}
}

func final(seq int, change func(*api.Result)) string {
	return fmt.Sprintf(`{"type":"finished","seq":%d,"t_ms":0,"result":%s}`, seq, result(change))
}

// So is a stream that no service sends; one that sends events again gives them once.
//
// proves part of X-16
func TestHostileStreams(t *testing.T) {
	chunk := func(seq int, text string) string {
		return fmt.Sprintf(`{"type":"chunk","seq":%d,"stream":"stdout","data":%q,"t_ms":0}`, seq, text)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"no JSON":           stream("garbage"),
		"another's result":  stream(final(1, func(r *api.Result) { r.ID = "x" })),
		"no result":         stream(`{"type":"finished","seq":1,"t_ms":0}`),
		"not a stream":      says(200, "{}"),
		"without end":       endless("data: ", strings.Repeat("x", 64<<10), 0),
		"comments for ever": endless("", strings.Repeat(": x\n", 16<<10), 0),
		"nothing":           endless("", "", time.Hour),
		"the same for ever": stream(chunk(1, "x")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := hostile(t, map[string]http.HandlerFunc{"events": answer})
			ctx := t.Context()
			began := time.Now()
			var seen []string
			_, err := c.Run(ctx, api.Program{Command: []string{"x"}}, client.WithEvents(func(f api.Frame) { seen = append(seen, f.Data) }))
			if took := time.Since(began); err == nil || took > 10*time.Second || len(seen) > 1 {
				t.Errorf("after %v: %q %v", took, seen, err)
			}
		})
	}
	again := stream(chunk(1, "a"), chunk(1, "a"), chunk(2, "b"), chunk(1, "a"), chunk(2, "b"), chunk(4, "c"), final(5, nil), final(5, nil))
	c, _ := hostile(t, map[string]http.HandlerFunc{"events": again})
	var got strings.Builder
	if _, err := c.Run(t.Context(), api.Program{Command: []string{"x"}}, client.WithEvents(func(f api.Frame) { got.WriteString(f.Data + f.Type[:1] + " ") })); err != nil || got.String() != "ac bc cc f " {
		t.Errorf("%q %v", got.String(), err)
	}
}

// A redirection is followed nowhere, and the key goes nowhere else.
//
// proves part of H-74
func TestRedirect(t *testing.T) {
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		to := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL+"/v1/runs")
			w.WriteHeader(status)
		}
		c, _ := hostile(t, map[string]http.HandlerFunc{"runs": to, runID: to, "events": to, "keys": to})
		_, err := c.Run(t.Context(), api.Program{Command: []string{"x"}})
		answer := (*client.AnswerError)(nil)
		if !errors.As(err, &answer) || answer.Status != status {
			t.Errorf("%d: %v", status, err)
		}
		if _, err := c.CreateKey(t.Context()); !errors.As(err, &answer) {
			t.Errorf("%d: %v", status, err)
		}
		r, err := c.Attach(t.Context(), runID, "", client.WithEvents(func(api.Frame) {}))
		if err == nil {
			_, err = r.Wait()
		}
		if err == nil {
			t.Errorf("%d: a stream was followed", status)
		}
	}
	if asked.Load() != 0 {
		t.Error("somebody else was asked")
	}
}

// A file that is not the result's is not given out, nor one that comes from elsewhere.
func TestHostileArtifact(t *testing.T) {
	const sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of "x"
	left := says(200, `{"id":"`+runID+`","state":"finished","result":`+result(func(r *api.Result) {
		r.Artifacts = []api.Artifact{{Name: "left", Size: 1, SHA256: sum, URL: "http://192.0.2.1/left"}}
	})+`,"api_version":"v1"}`)
	for text, good := range map[string]bool{"x": true, "y": false, "": false, "xx": false, strings.Repeat("x", 1<<20): false} {
		c, _ := hostile(t, map[string]http.HandlerFunc{runID: left, "left": says(200, text)})
		r, err := c.Start(t.Context(), api.Program{Command: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Artifact(t.Context(), "left")
		if wrong := errors.As(err, new(*client.AnswerError)); wrong == good || (err == nil) != good {
			t.Errorf("%.5q: %v", text, err)
		}
	}
}

// A Retry-After is waited for if that is soon, and else told at once.
func TestRetryAfter(t *testing.T) {
	busy := func(ms, head string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", head)
			w.WriteHeader(429)
			fmt.Fprintf(w, `{"error":{"code":"backlog","message":"busy","retry_after_ms":%s}}`, ms)
		}
	}
	for _, c := range []struct{ ms, head string }{{"9223372036854775807", "1"}, {"3600000", "3600"}, {"0", "999999999"}, {"-1", "86400"}} {
		s, _ := hostile(t, map[string]http.HandlerFunc{"runs": busy(c.ms, c.head)})
		began := time.Now()
		_, err := s.Run(t.Context(), api.Program{Command: []string{"x"}})
		told := (*api.ServiceError)(nil)
		if !errors.As(err, &told) || told.Code != api.CodeBacklog || time.Since(began) > 500*time.Millisecond {
			t.Errorf("%v: after %v: %v", c, time.Since(began), err)
		}
	}
	var asked atomic.Int32 // the control: soon enough
	s, _ := hostile(t, map[string]http.HandlerFunc{"runs": func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			busy("100", "1")(w, r)
			return
		}
		w.WriteHeader(202)
		fmt.Fprintf(w, `{"id":%q,"state":"queued","owner_token":%q,"api_version":"v1"}`, runID, token)
	}})
	began := time.Now()
	if _, err := s.Run(t.Context(), api.Program{Command: []string{"x"}}); err != nil || asked.Load() != 3 || time.Since(began) < 200*time.Millisecond {
		t.Errorf("%d requests in %v: %v", asked.Load(), time.Since(began), err)
	}
}

// What may have arrived is sent again only where that is the same: a submission with
// its key, but no new key and no input.
func TestRepeated(t *testing.T) {
	var mu sync.Mutex
	got := map[string][]string{}
	lost := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got[r.URL.Path] = append(got[r.URL.Path], r.Header.Get("Idempotency-Key"))
		mu.Unlock()
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	c, _ := hostile(t, map[string]http.HandlerFunc{"runs": lost, "keys": lost})
	if _, err := c.Run(t.Context(), api.Program{Command: []string{"x"}}); err == nil {
		t.Error("a run of nobody")
	}
	if _, err := c.CreateKey(t.Context()); err == nil {
		t.Error("a key of nobody")
	}
	mu.Lock()
	keys := got["/v1/runs"]
	mu.Unlock()
	if len(keys) < 3 || len(keys[0]) < 16 {
		t.Errorf("submitted with %q", keys)
	}
	for _, k := range keys {
		if k != keys[0] {
			t.Errorf("submitted with %q", keys)
		}
	}
	mu.Lock()
	if n := len(got["/v1/keys"]); n != 1 {
		t.Errorf("a key was asked for %d times", n)
	}
	mu.Unlock()
	c, _ = hostile(t, map[string]http.HandlerFunc{"stdin": lost, "signal": lost, runID: says(200, `{"id":"`+runID+`","state":"running","api_version":"v1"}`),
		"events": endless("data: {\"type\":\"started\",\"seq\":1,\"t_ms\":0}\n\n", ": \n", 50*time.Millisecond)})
	r, err := c.Attach(t.Context(), runID, token, client.WithStdinPipe())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Stdin().Write([]byte("x")); err == nil {
		t.Error("input of nobody")
	}
	if err := r.Signal("SIGINT"); err == nil {
		t.Error("a signal of nobody")
	}
	r.Cancel()
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{"/v1/runs/" + runID + "/stdin", "/v1/runs/" + runID + "/signal"} {
		if n := len(got[path]); n != 1 {
			t.Errorf("%s was sent %d times", path, n)
		}
	}
}

// Who is no authority's is told nothing, and at once; http:// is for this host.
func TestTrust(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"languages":[],"api_version":"v1","a_field_of_the_future":{"x":[1,2]}}`)
	}))
	s.StartTLS()
	defer s.Close()
	began := time.Now()
	if _, err := dial(t, client.Options{URL: s.URL, Key: key}).Languages(t.Context()); err == nil || asked.Load() != 0 || time.Since(began) > 5*time.Second {
		t.Errorf("%v, %d requests", err, asked.Load())
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if _, err := dial(t, client.Options{URL: s.URL, Key: key, RootCAs: roots}).Languages(t.Context()); err != nil || asked.Load() != 1 {
		t.Errorf("control: %v, %d requests", err, asked.Load())
	}
	c := dial(t, client.Options{URL: "http://localhost:1"})
	if _, err := c.Dial(t.Context(), "192.0.2.1:80"); err == nil || !strings.Contains(err.Error(), "is not this host's") {
		t.Errorf("a localhost that is elsewhere: %v", err)
	}
	if conn, err := c.Dial(t.Context(), strings.TrimPrefix(s.URL, "https://")); err != nil {
		t.Errorf("control: %v", err)
	} else {
		conn.Close()
	}
}

// Options that cannot be meant, and what they are told.
func TestOptions(t *testing.T) {
	for url, field := range map[string]string{
		"https://example.com": "", "https://example.com:8443/": "", "http://127.0.0.1:8080": "", "http://[::1]:80": "", "http://localhost": "",
		"": "URL", "example.com": "URL", "ftp://example.com": "URL", "https://": "URL", "https://a:b@example.com": "URL", "https://example.com/v1": "URL",
		"https://example.com?x": "URL", "https://example.com#x": "URL", "http://example.com": "URL", "http://192.0.2.1": "URL", "http://127.0.0.1.example.com": "URL",
	} {
		_, err := client.New(client.Options{URL: url})
		got := (*api.FieldError)(nil)
		if errors.As(err, &got) != (field != "") || field != "" && got.Field != field {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := client.New(client.Options{URL: "http://192.0.2.1", AllowHTTP: true}); err != nil {
		t.Error(err)
	}
	for _, o := range []client.Options{{Key: "two words"}, {Key: "line\nend"}, {OperatorToken: "é"}, {Key: key, OperatorToken: "x"}, {MaxAnswer: -1}} {
		o.URL = "https://example.com"
		if _, err := client.New(o); err == nil || strings.Contains(err.Error(), "words") || strings.Contains(err.Error(), "line") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	c := dial(t, client.Options{URL: "https://example.com"})
	if _, err := c.Attach(t.Context(), "../keys/self", ""); !errors.As(err, new(*api.FieldError)) {
		t.Errorf("%v", err)
	}
	if _, err := c.Run(t.Context(), api.Program{}, client.WithStdinPipe()); !errors.As(err, new(*api.FieldError)) {
		t.Errorf("%v", err)
	}
}
