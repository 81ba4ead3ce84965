package server_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/server"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// A path has one form; whatever else is refused, and never leads to a route.
//
// proves part of X-08
// proves part of H-77
func TestPaths(t *testing.T) {
	s := shared(t)
	id := s.ask(t, "POST", "/v1/runs", api.Submission{Program: api.Program{Command: []string{"/bin/true"}}}).run(t).ID
	for path, want := range map[string]string{
		"/v1/limits":                             "200 ok",
		"/v1/runs/" + id:                         "200 ok",
		"/v1/runs/" + strings.ToUpper(id) + "ff": "404 not_found",
		"/v1/runs/" + id[1:]:                     "404 not_found",
		"/v1/runs/" + id + "0":                   "404 not_found",
		"/v1/runs/*":                             "404 not_found",
		"/v1/runs/%3E":                           "404 not_found",
		"/v1/runs/glovebox.run." + id:            "404 not_found",
		"/v1/runs/" + id + "%20":                 "404 not_found",
		"/v1/runs/" + id + ";x":                  "404 not_found",
		"/v1/runs/\xff\xfe":                      "404 not_found",
		"/v1/runs/%ff":                           "404 not_found",
		"/v1/runs/é":                             "404 not_found",
		"/v1/Limits":                             "404 not_found",
		"/" + strings.Repeat("a", 12000):         "404 not_found",
		"/v1/limits/":                            "400 bad_request",
		"//v1/limits":                            "400 bad_request",
		"/v1//limits":                            "400 bad_request",
		"/v1/./limits":                           "400 bad_request",
		"/v1/x/../limits":                        "400 bad_request",
		"/v1/x/%2e%2e/limits":                    "400 bad_request",
		"/v1/%2E/limits":                         "400 bad_request",
		"/v1%2flimits":                           "400 bad_request",
		"/v1%2Flimits":                           "400 bad_request",
		"/v1/runs%2f" + id:                       "400 bad_request",
		"/v1/%6cimits":                           "400 bad_request",
		"/v1/runs/%30" + id[1:]:                  "400 bad_request",
		"/v1/runs/" + id + "%00":                 "400 bad_request",
		"/v1/runs/%0a" + id:                      "400 bad_request",
		"/v1/runs/" + id + "%0d%0aX:%20y":        "400 bad_request",
		"/v1/runs/%7f":                           "400 bad_request",
		"/v1/runs/..%5c" + id:                    "400 bad_request",
		"/v1\\limits":                            "400 bad_request",
		"/v1/limits?token=secret":                "400 bad_request",
		"/v1/runs/" + id + "?wait=0s&wait=1s":    "400 bad_request",
		"/v1/runs/" + id + "?%zz":                "400 bad_request",
		"/v1/runs/" + id + "?wait=0s;x=y":        "400 bad_request",
		"/v1/runs/" + id + "?Wait=0s":            "400 bad_request",
		"/v1/runs/" + id + "?wait=forever":       "400 bad_field",
		"/v1/runs/" + id + "?wait=-1s":           "400 bad_field",
		"/v1/runs/" + id + "?wait=61s":           "400 bad_field",
		"/v1/runs/" + id + "?wait=0s":            "200 ok",
		"/v1/runs/%zz":                           "400 bare",
		"/v1/runs/%":                             "400 bare",
		"/v1/runs/\x01":                          "400 bare",
		"/v1/runs/\x7f":                          "400 bare",
		"/v1/ limits":                            "400 bare",
		"v1/limits":                              "400 bare",
		"*":                                      "421 misdirected",
		"":                                       "400 bare",
	} {
		expect(t, fmt.Sprintf("%.60q", path), s.raw(t, "GET "+path+" HTTP/1.1\r\nHost: "+s.addr+"\r\nConnection: close\r\n\r\n"), want)
	}
}

// Every path knows its methods and no others; a HEAD has no body and ends.
func TestMethods(t *testing.T) {
	s := shared(t)
	methods := map[string][]string{}
	for _, e := range server.Everything() {
		methods[e.Path] = append(methods[e.Path], e.Method)
	}
	for _, e := range server.Everything() {
		if e.Path == "/v1/keys/{key_id}" {
			continue // /v1/keys/self is below it
		}
		for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "X", strings.Repeat("M", 300)} {
			if slices.Contains(methods[e.Path], m) {
				continue
			}
			line := m + strings.TrimPrefix(lineOf(e), e.Method)
			got := s.raw(t, line+"Host: "+s.addr+"\r\nConnection: close\r\n\r\n")
			if m == "HEAD" && slices.Contains(methods[e.Path], "GET") {
				if len(got) != 1 {
					t.Errorf("%s: %v", line, got)
				}
				continue
			}
			want := "405 method_not_allowed"
			if m == "HEAD" {
				want = "405 ok" // without a body
			}
			expect(t, line, got, want)
		}
	}
	for line, want := range map[string]string{
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: " + s.addr + "\r\nConnection: close\r\n\r\n": "421 misdirected",
		"OPTIONS * HTTP/1.1\r\nHost: " + s.addr + "\r\nConnection: close\r\n\r\n":             "421 misdirected",
		"OPTIONS * HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n":                  "421 misdirected",
		"G\x00T / HTTP/1.1\r\nHost: " + s.addr + "\r\n\r\n":                                   "400 bare",
		"G@T / HTTP/1.1\r\nHost: " + s.addr + "\r\n\r\n":                                      "400 bare",
		"\r\n\r\n":                     "400 bare",
		"GET / HTTP/1.1 x\r\n\r\n":     "400 bare",
		"GET /\r\n\r\n":                "400 bare",
		"\x16\x03\x01\x02\x00\x01\r\n": "400 bare",
	} {
		expect(t, fmt.Sprintf("%.40q", line), s.raw(t, line), want)
	}
}

// What a head may not have, and what of a protocol is not spoken here.
//
// proves part of H-77
func TestHeads(t *testing.T) {
	s := shared(t)
	head := "GET /v1/limits HTTP/1.1\r\nHost: " + s.addr + "\r\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"NUL in a value":      {head + "X: a\x00b\r\n\r\n", []string{"400 bare"}},
		"a control byte":      {head + "X: a\x01b\r\n\r\n", []string{"400 bare"}},
		"a bare CR":           {head + "X: a\rY: b\r\n\r\n", []string{"400 bare"}},
		"a blank before":      {head + " X: a\r\nConnection: close\r\n\r\n", []string{"400 bare"}},
		"a blank in a name":   {head + "X Y: a\r\n\r\n", []string{"400 bare"}},
		"a blank behind it":   {head + "Content-Length : 5\r\n\r\nhello", []string{"400 bare"}},
		"no colon":            {head + "hello\r\n\r\n", []string{"400 bare"}},
		"no name":             {head + ": x\r\n\r\n", []string{"400 bare"}},
		"a long value":        {head + "X: " + strings.Repeat("x", 30<<10) + "\r\n\r\n", []string{"431 bare"}},
		"a long line":         {"GET /" + strings.Repeat("x", 30<<10) + " HTTP/1.1\r\nHost: " + s.addr + "\r\n\r\n", []string{"431 bare"}},
		"many headers":        {head + strings.Repeat("X: y\r\n", 5000) + "\r\n", []string{"431 bare"}},
		"a long token":        {head + "Authorization: Bearer " + strings.Repeat("x", 9<<10) + "\r\nConnection: close\r\n\r\n", []string{"401 unauthorized"}},
		"some headers":        {head + strings.Repeat("X: y\r\n", 500) + "Connection: close\r\n\r\n", []string{"200 ok"}},
		"an unknown version":  {"GET / HTTP/3.7\r\nHost: " + s.addr + "\r\n\r\n", []string{"505 bare"}},
		"no version":          {"GET / HTTP/x\r\nHost: " + s.addr + "\r\n\r\n", []string{"400 bare"}},
		"HTTP/1.0":            {"GET /v1/limits HTTP/1.0\r\nHost: " + s.addr + "\r\nConnection: keep-alive\r\n\r\n" + s.last(), []string{"200 ok"}},
		"HTTP/1.0 in chunks":  {"POST /v1/runs HTTP/1.0\r\nHost: " + s.addr + "\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n0\r\n\r\n" + s.last(), []string{"400 bad_field"}},
		"HTTP/2 by knowledge": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []string{"421 misdirected"}},
		"HTTP/2 by upgrade":   {head + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + s.last(), []string{"200 ok", "200 ok"}},
		"two at once":         {head + "\r\n" + head + "\r\n" + s.last(), []string{"200 ok", "200 ok", "200 ok"}},
		"an odd expectation":  {head + "Expect: the-unexpected\r\n\r\n", []string{"417 ok"}},
	} {
		if name == "an odd expectation" {
			if text, res := s.told(t, c.text); res.StatusCode != http.StatusExpectationFailed || text != "" || !res.Close {
				t.Errorf("%s: %d %q", name, res.StatusCode, text)
			}
			continue
		}
		expect(t, name, s.raw(t, c.text), c.want...)
	}
}

// A head and a body that come slowly or stop end their connection in time; of a body
// the client is told. Meanwhile others are answered.
//
// proves part of H-77
func TestSlow(t *testing.T) {
	const head, body = time.Second, 700 * time.Millisecond
	s := alone(t, service.Options{Server: server.Options{HeadTimeout: head, BodyTimeout: body}})
	trickle := func(text string) (got []string, took time.Duration) {
		began := time.Now()
		c := s.dial(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, b := range []byte(text) { // ends when the server has closed
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				<-time.After(50 * time.Millisecond)
			}
		}()
		got = s.answers(t, c, "")
		took = time.Since(began)
		c.Close()
		<-done
		return got, took
	}
	post := "POST /v1/runs HTTP/1.1\r\nHost: " + s.addr + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
	type ending struct {
		name  string
		send  func() ([]string, time.Duration)
		want  []string
		least time.Duration
		most  time.Duration
	}
	for _, e := range []ending{
		{"a head byte by byte", func() ([]string, time.Duration) { return trickle("GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 400)) }, nil, head, head + 5*time.Second},
		{"half a head", func() ([]string, time.Duration) { return s.timed(t, "GET / HTTP/1.1\r\nHo") }, []string{"400 bare"}, head, head + 5*time.Second},
		{"nothing", func() ([]string, time.Duration) { return s.timed(t, "") }, nil, head, head + 5*time.Second},
		{"a body that stops", func() ([]string, time.Duration) { return s.timed(t, post+"{") }, []string{"408 request_timeout"}, body, body + 6*time.Second},
		{"a body that never comes", func() ([]string, time.Duration) { return s.timed(t, post) }, []string{"408 request_timeout"}, body, body + 6*time.Second},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			got, took := e.send()
			expect(t, e.name, got, e.want...)
			if took < e.least || took > e.most {
				t.Errorf("took %v, not %v to %v", took, e.least, e.most)
			}
		})
	}
}

// timed sends a text, nothing more, and returns the answers and when the end came.
func (s *site) timed(t testing.TB, text string) ([]string, time.Duration) {
	t.Helper()
	began := time.Now()
	c := s.dial(t)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	got := s.answers(t, c, "")
	return got, time.Since(began)
}
