package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/server"
)

// raw sends bytes over a connection of its own and reads answers until the server
// closes it. What they were comes back as "STATUS CODE" each; CODE is "bare" for an
// answer of net/http itself, to what is no request at all, "ok" for one that is no
// error. Every answer that is not bare is held against the document.
func (s *site) raw(t testing.TB, text string) []string {
	t.Helper()
	c := s.dial(t)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	return s.answers(t, c, method)
}

func (s *site) dial(t testing.TB) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(40 * time.Second))
	return c.(*net.TCPConn)
}

// answers reads until the connection ends.
func (s *site) answers(t testing.TB, c net.Conn, method string) (out []string) {
	t.Helper()
	in := bufio.NewReader(c)
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) && len(out) > 0 {
			return out
		} else if err != nil {
			t.Fatalf("after %v: %v", out, err)
		}
		out = append(out, s.one(t, in, method))
		method = ""
	}
}

// one reads one answer.
func (s *site) one(t testing.TB, in *bufio.Reader, method string) string {
	t.Helper()
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode == http.StatusContinue {
		return "100 continue"
	}
	if res.Header.Get("Glovebox-Request-Id") == "" {
		return bare(t, res)
	}
	a := &answer{Response: res}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if a.route = s.lines.route(res.Header.Get("Glovebox-Request-Id")); method != http.MethodHead {
		if err := conforms(s.doc, a.route, res.StatusCode, res.Header, a.body); err != nil && res.StatusCode != http.StatusNoContent {
			t.Errorf("%d %.200s: %v", res.StatusCode, a.body, err)
		}
	}
	if a.route == "POST /v1/runs" && res.StatusCode == http.StatusOK {
		return "202 ok" // it has ended before the answer was made
	}
	if res.StatusCode < 400 || method == http.MethodHead {
		return fmt.Sprintf("%d ok", res.StatusCode)
	}
	return fmt.Sprintf("%d %s", res.StatusCode, a.code())
}

// bare judges an answer of net/http itself: a few words of text, and the connection
// ends with it.
func bare(t testing.TB, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) || len(body) > 100 || !res.Close || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") || len(res.Header) > 2 {
		t.Errorf("a bare answer: %v %v %q", err, res.Header, body)
	}
	return fmt.Sprintf("%d bare", res.StatusCode)
}

// expect compares what came with what should have.
func expect(t testing.TB, name string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}

// lineOf is a request line for a route, about a run that does not exist.
func lineOf(e server.Endpoint) string {
	path := strings.NewReplacer("{id}", strings.Repeat("0", 32), "{key_id}", "k"+strings.Repeat("0", 32), "{name...}", "x", "{$}", "", "{asset}", "app.js").Replace(e.Path)
	return e.Method + " " + path + " HTTP/1.1\r\n"
}

// last is a request after which the server closes, and "200 ok" its answer: where the
// connection is kept, it is what comes last.
func (s *site) last() string {
	return "GET /healthz HTTP/1.1\r\nHost: " + s.addr + "\r\nConnection: close\r\n\r\n"
}

// A Host that is not one of the service's names is refused on every route, before a
// body is read, in whatever way the request names it.
//
// proves part of H-67
// proves part of X-26
func TestHosts(t *testing.T) {
	s := shared(t)
	_, port, _ := net.SplitHostPort(s.addr)
	for _, e := range append(server.Everything(), server.Endpoint{Method: "GET", Path: "/nothing"}, server.Endpoint{Method: "OPTIONS", Path: "/v1/runs"}) {
		line, end := lineOf(e), "\r\n\r\n"
		if e.Method != http.MethodGet {
			end = fmt.Sprintf("\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(s.last())) // a request is the body
		}
		for _, host := range []string{"evil.test", "evil.test:" + port, "127.0.0.1.nip.io:" + port, "127.0.0.1.:" + port, "localhost.:" + port, "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1:0" + port,
			"127.1:" + port, "0.0.0.0:" + port, "[::1]:" + port, "[::ffff:127.0.0.1]:" + port, "2130706433:" + port, "localhost:" + port + ".evil.test", "", "evil.test," + s.addr} {
			expect(t, line+host, s.refused(t, line+"Host: "+host+end), "421 misdirected")
		}
		target := strings.Fields(line)[1]
		for _, absolute := range []string{"http://evil.test" + target, "http://" + s.addr + target, "https://" + s.addr + target, "HTTP://" + s.addr + target} {
			expect(t, absolute, s.refused(t, e.Method+" "+absolute+" HTTP/1.1\r\nHost: "+s.addr+end), "421 misdirected")
		}
		expect(t, line+"two", s.raw(t, line+"Host: "+s.addr+"\r\nHost: evil.test"+end), "400 bare")
		expect(t, line+"none", s.raw(t, line+strings.TrimPrefix(end, "\r\n")), "400 bare")
		expect(t, line+"1.0", s.raw(t, strings.Replace(line, "1.1", "1.0", 1)+"Connection: keep-alive"+end+s.last()), "421 misdirected")
	}
}

// refused sends a request that is to be refused, and a second one, which is the body of
// the first one or is answered.
func (s *site) refused(t testing.TB, text string) []string {
	t.Helper()
	got := s.raw(t, text+s.last())
	if len(got) == 2 && got[1] == "200 ok" && !strings.Contains(text, "Content-Length") {
		return got[:1]
	}
	return got
}

// What is refused by its head is so before its body comes.
func TestRefusedByHead(t *testing.T) {
	s := shared(t)
	for head, want := range map[string]int{
		"POST /v1/runs HTTP/1.1\r\nHost: evil.test\r\nContent-Type: application/json\r\n":                                      421,
		"POST /v1/runs HTTP/1.1\r\nHost: " + s.addr + "\r\nOrigin: https://evil.example\r\nContent-Type: application/json\r\n": 403,
		"POST /v1/runs HTTP/1.1\r\nHost: " + s.addr + "\r\nContent-Type: text/plain\r\n":                                       415,
		"POST /v1/nothing HTTP/1.1\r\nHost: " + s.addr + "\r\nContent-Type: application/json\r\n":                              404,
	} {
		if text, res := s.told(t, head+"Content-Length: 1000\r\n\r\n"); res.StatusCode != want || !res.Close {
			t.Errorf("%s: %d %s", head, res.StatusCode, text)
		}
	}
}

// A refusal of a body that was read to its end keeps the connection: under load each
// would cost its client another one.
func TestRefusedWhole(t *testing.T) {
	s := shared(t)
	body := `{"language":"python","sauce":"1"}`
	head := fmt.Sprintf("POST /v1/runs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", s.addr, len(body))
	expect(t, "twice", s.raw(t, head+body+head+body+s.last()), "400 bad_field", "400 bad_field", "200 ok")
}

// The control of TestHosts: the service's own names are not refused for their name.
func TestHostsControl(t *testing.T) {
	s := shared(t)
	_, port, _ := net.SplitHostPort(s.addr)
	for _, host := range []string{s.addr, "localhost:" + port, "LOCALHOST:" + port} {
		expect(t, host, s.raw(t, "GET /v1/limits HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"), "200 ok")
	}
	for _, e := range server.Everything() {
		if got := s.raw(t, lineOf(e)+"Host: "+s.addr+"\r\nConnection: close\r\n\r\n"); len(got) != 1 || strings.HasPrefix(got[0], "421") {
			t.Errorf("%s: %v", e.Pattern(), got)
		}
	}
}

// foreign are origins that are not the service's own (case 131).
func (s *site) foreign() []string {
	_, port, _ := net.SplitHostPort(s.addr)
	return []string{"https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://evil.example/?http://localhost", "HTTP://EVIL.EXAMPLE",
		"file://", "http://127.0.0.1:1", "http://127.0.0.1", "http://localhost:" + port, "https://" + s.addr, "http://" + s.addr + "/", "http://" + s.addr + ".evil.example", "",
		"http://evil@" + s.addr, "ws://" + s.addr, ours + ".evil.example", "http" + strings.TrimPrefix(ours, "https"), ours + " http://" + s.addr, "*"}
}

const foreignPage = "pages of other sites"

// A page of another site can ask for nothing that changes something or streams, and
// reads no answer of the rest.
//
// proves part of X-26
// proves part of H-67
func TestOrigins(t *testing.T) {
	s := shared(t)
	for _, e := range server.Everything() {
		for _, o := range s.foreign() {
			head := []string{"Origin: " + o}
			if o == "null" {
				head = append(head, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: http://"+s.addr+"\r\nOrigin: https://evil.example")
			}
			for _, h := range head {
				told, res := s.told(t, lineOf(e)+"Host: "+s.addr+"\r\nContent-Length: 0\r\nContent-Type: application/json\r\n"+h+"\r\nConnection: close\r\n\r\n")
				if refused := strings.Contains(told, foreignPage); refused != e.Changes() || refused && res.StatusCode != http.StatusForbidden {
					t.Errorf("%s %s: %d %.200s", e.Pattern(), h, res.StatusCode, told)
				}
				for name := range res.Header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s %s: %s", e.Pattern(), h, name)
					}
				}
			}
		}
		for _, h := range []string{"Origin: http://" + s.addr, "Origin: " + ours, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"} { // the control
			if told, res := s.told(t, lineOf(e)+"Host: "+s.addr+"\r\n"+h+"\r\nConnection: close\r\n\r\n"); strings.Contains(told, foreignPage) {
				t.Errorf("%s %s: %d %.200s", e.Pattern(), h, res.StatusCode, told)
			}
		}
	}
}

// told sends a request whose answer is the last and returns its body.
func (s *site) told(t testing.TB, text string) (string, *http.Response) {
	t.Helper()
	c := s.dial(t)
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), res
}

// A page of an origin that the operator allows is told so, exactly, and nobody else;
// of a preflight nothing is done.
//
// proves part of X-26
func TestCORS(t *testing.T) {
	s := shared(t)
	ask := func(origin, path, method string) *http.Response {
		_, res := s.told(t, "OPTIONS "+path+" HTTP/1.1\r\nHost: "+s.addr+"\r\nOrigin: "+origin+"\r\nAccess-Control-Request-Method: "+method+
			"\r\nAccess-Control-Request-Headers: content-type,authorization\r\nConnection: close\r\n\r\n")
		return res
	}
	res := ask(ours, "/v1/runs", "POST")
	for name, want := range map[string]string{"Access-Control-Allow-Origin": ours, "Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Credentials": "",
		"Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, Glovebox-Owner, Last-Event-ID", "X-Content-Type-Options": "nosniff"} {
		if got := res.Header.Get(name); res.StatusCode != http.StatusNoContent || got != want {
			t.Errorf("%d %s: %q, want %q", res.StatusCode, name, got, want)
		}
	}
	for _, o := range s.foreign() {
		if res := ask(o, "/v1/runs", "POST"); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Access-Control-Allow-Origin") != "" || res.Header.Get("Access-Control-Allow-Methods") != "" {
			t.Errorf("%s: %d %v", o, res.StatusCode, res.Header)
		}
	}
	if res := ask(ours, "/v1/runs", "PUT"); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Access-Control-Allow-Methods") != "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if res := ask(ours, "/nothing", "POST"); res.StatusCode != http.StatusNotFound {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if a := s.ask(t, "POST", "/v1/runs", "{", "Origin", ours); a.StatusCode != http.StatusBadRequest || a.Header.Get("Access-Control-Allow-Origin") != ours || !strings.Contains(a.Header.Get("Vary"), "Origin") {
		t.Errorf("a refusal cannot be read: %d %v", a.StatusCode, a.Header)
	}
	if a := s.ask(t, "GET", "/v1/limits", nil); a.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(a.Header.Get("Vary"), "Origin") {
		t.Errorf("%v", a.Header)
	}
}
