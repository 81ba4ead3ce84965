package server_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/server"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// Behind a proxy of Go.
//
// proves part of H-77
func TestProxy(t *testing.T) {
	t.Parallel()
	s := behind(t)
	s.differ(t, inGo(t, s.url))
}

// The control: a server that takes bodies for requests answers a client with what is
// another's.
func TestProxyControl(t *testing.T) {
	s := shared(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go careless(c)
		}
	}()
	proxy := inGo(t, "http://"+l.Addr().String())
	plain := "GET /v1/runs/" + strings.Repeat("0", 32) + " HTTP/1.1\r\nHost: x\r\n\r\n"
	if got := s.through(t, proxy, plain); got != "200 ok" {
		t.Fatal(got)
	}
	inner := "DELETE /v1/keys/self HTTP/1.1\r\nX: "
	s.through(t, proxy, fmt.Sprintf("POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner))
	if got := s.through(t, proxy, plain); got != "another's answer" {
		t.Errorf("%s from a server that smuggles", got)
	}
}

// careless answers every head that it finds on a connection with its path's last part.
func careless(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	path := ""
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if f := strings.Fields(line); path == "" && len(f) == 3 {
			path = f[1]
		}
		if strings.TrimSpace(line) == "" {
			body := `{"id":"` + path[strings.LastIndexByte(path, '/')+1:] + `"}`
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nGlovebox-Request-Id: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			path = ""
		}
	}
}

// inGo starts a proxy and returns the socket that it listens on.
func inGo(t *testing.T, to string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := httputil.NewSingleHostReverseProxy(target)
	p.ErrorLog = log.New(io.Discard, "", 0)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "proxy"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: p, ErrorLog: p.ErrorLog, ReadTimeout: 2 * time.Second}
	t.Cleanup(func() { srv.Close() })
	go func() { _ = srv.Serve(l) }()
	return l.Addr().String()
}

// Behind nginx, which hands paths on as they came.
//
// proves part of H-77
func TestProxyOnNginx(t *testing.T) {
	t.Parallel()
	s := behind(t)
	dir := t.TempDir()
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path %s/%s_temp;\n", kind, dir, kind)
	}
	s.proxied(t, dir, `daemon off; master_process off; pid `+dir+`/pid; error_log /dev/null; worker_processes 1;
events {}
http { access_log off; client_body_timeout 1s; client_header_timeout 1s; client_max_body_size 0; keepalive_timeout 5s;
`+temp+`upstream s { server `+s.addr+`; keepalive 1; }
server { listen unix:`+dir+`/proxy; location / { proxy_pass http://s; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header Connection ""; } } }
`, testenv.OnNginx, "-e", "/dev/null", "-c")
}

// Behind HAProxy, which hands on whatever it can read.
//
// proves part of H-77
func TestProxyOnHAProxy(t *testing.T) {
	t.Parallel()
	s := behind(t)
	dir := t.TempDir()
	s.proxied(t, dir, `global
 nbthread 1
defaults
 mode http
 timeout connect 2s
 timeout client 2s
 timeout server 5s
 timeout http-request 1s
 http-reuse always
frontend f
 bind unix@`+dir+`/proxy
 default_backend b
backend b
 server s `+s.addr+`
`, testenv.OnHAProxy, "-db", "-f")
}

// behind is a service of its own, so that its connections are the proxy's.
func behind(t *testing.T) *site {
	return alone(t, service.Options{Server: server.Options{BodyTimeout: time.Second}})
}

// proxied starts a proxy with this configuration, which listens at dir/proxy.
func (s *site) proxied(t *testing.T, dir, config, program string, args ...string) {
	t.Helper()
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.Program(program), append(args, file)...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := net.Dial("unix", dir+"/proxy")
		if err == nil {
			c.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s: %v: %s", program, err, said.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	s.differ(t, dir+"/proxy")
}

// differ makes odd requests through a proxy, each followed by others' requests over the
// proxy's same connections. The service answers as it does without the proxy, unless
// the proxy refuses the request or has made a proper one of it; and the others get their
// own answers, none of which an odd request has touched.
func (s *site) differ(t *testing.T, proxy string) {
	t.Helper()
	id := s.ask(t, "POST", "/v1/runs?wait=20s", api.Submission{Program: api.Program{Command: []string{"/bin/true"}}}).run(t).ID
	plain := "GET /v1/runs/" + id + " HTTP/1.1\r\nHost: " + s.addr + "\r\n\r\n"
	// What would take the next request's first line into a header, where it is taken
	// for a request.
	odds := s.oddBodies("DELETE /v1/keys/self HTTP/1.1\r\nHost: " + s.addr + "\r\nX: ")
	for path, want := range map[string]string{"/v1/x/../limits": "400 bad_request", "/v1%2flimits": "400 bad_request", "//v1/limits": "400 bad_request", "/v1/%6cimits": "400 bad_request",
		"/v1/limits%00": "400 bad_request", "/v1/limits/": "400 bad_request", "/v1/runs/%2e%2e/limits": "400 bad_request", "/v1/limits": "200 ok", "/v1/runs/*": "404 not_found"} {
		odds[path] = odd{"GET " + path + " HTTP/1.1\r\nHost: " + s.addr + "\r\n\r\n", []string{want}}
	}
	for _, host := range []string{"evil.test", "127.0.0.1.nip.io", s.addr + "."} {
		odds["Host "+host] = odd{"GET /v1/limits HTTP/1.1\r\nHost: " + host + "\r\n\r\n", []string{"421 misdirected"}}
	}
	odds["HTTP/1.0 in chunks"] = odd{"POST /v1/runs HTTP/1.0\r\nHost: " + s.addr + "\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n0\r\n\r\nDELETE /v1/keys/self HTTP/1.1\r\nX: ", []string{"400 bad_field"}}
	odds["an upgrade to h2c"] = odd{"GET /v1/limits HTTP/1.1\r\nHost: " + s.addr + "\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", []string{"200 ok"}}
	passed := 0
	for name, o := range odds {
		got := s.through(t, proxy, o.text)
		switch {
		case got == o.want[0]:
			passed++
		case strings.HasSuffix(got, " proxy"), got == "nothing":
		case strings.HasPrefix(o.want[0], "411") && (got == "202 ok" || got == "400 bad_field" || got == "404 not_found"): // the proxy says its length
		case name == "two lengths in one" && got == "202 ok": // the proxy made one of two that agree, see RFC 9110, 8.6
		default:
			t.Errorf("%s: %s, want %s as without the proxy", name, got, o.want[0])
		}
		for range 3 {
			if got := s.through(t, proxy, plain); got != "200 ok" {
				t.Fatalf("after %s another client got %s", name, got)
			}
		}
	}
	if passed < 5 {
		t.Errorf("the proxy let %d of %d requests through as they were", passed, len(odds))
	}
}

// through sends bytes to a proxy and says what its first answer was.
func (s *site) through(t *testing.T, proxy, text string) string {
	t.Helper()
	c, err := net.Dial("unix", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(8 * time.Second))
	_, _ = io.WriteString(c, text) // it may have been refused before its end
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "nothing"
	}
	if res.Header.Get("Glovebox-Request-Id") == "" {
		return fmt.Sprintf("%d proxy", res.StatusCode)
	}
	a := &answer{Response: res}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		return "nothing"
	}
	if res.StatusCode >= 400 {
		return fmt.Sprintf("%d %s", res.StatusCode, a.code())
	}
	if strings.HasPrefix(text, "GET /v1/runs/") && a.run(t).ID != strings.Fields(text)[1][len("/v1/runs/"):] {
		return "another's answer"
	}
	if strings.HasPrefix(text, "POST /v1/runs ") {
		return "202 ok"
	}
	return fmt.Sprintf("%d ok", res.StatusCode)
}
