package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Two tokens, and so two principals.
var (
	tokenA = strings.Repeat("a", MinToken)
	tokenB = strings.Repeat("B", MinToken) + "-._~+/="
)

func tokens(t testing.TB) *Tokens {
	t.Helper()
	k := &Tokens{}
	for _, s := range []string{tokenA, tokenB, tokenA} {
		if err := k.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// remote is the SDK's client over HTTP.
func remote(t testing.TB, addr, token string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return dial(t, &mcp.StreamableClientTransport{Endpoint: "http://" + addr + Path, HTTPClient: &http.Client{Transport: bearer(token)}, MaxRetries: -1}, o)
}

// The SDK's client runs a program over HTTP, and reads what it left.
func TestHTTP(t *testing.T) {
	addr := listen(t, server(t), HTTPOptions{Tokens: tokens(t)})
	cs := remote(t, addr, tokenA, nil)
	got, _ := callTool(t, cs, "run_code", obj{"language": "bash", "source": "echo hello; echo x >x.txt", "artifacts": []string{"x.txt"}})
	uri, _ := at(got, "untrusted", "artifacts", 0, "uri").(string)
	if got["verdict"] != "ok" || at(got, "untrusted", "stdout") != "hello\n" {
		t.Fatalf("%v", got)
	}
	if r, err := cs.ReadResource(minute(t), &mcp.ReadResourceParams{URI: uri}); err != nil || r.Contents[0].Text != "x\n" {
		t.Errorf("%v", err)
	}
	if l, err := cs.ListResources(minute(t), nil); err != nil || len(l.Resources) != 1 || l.Resources[0].URI != uri {
		t.Errorf("%+v %v", l, err)
	}
	// Whoever comes over HTTP learns nothing of the host.
	status, _ := callTool(t, cs, "sandbox_status", obj{})
	if status["available"] != true || status["kernel"] != nil || status["user"] != nil || at(status, "layers", 0, "detail") != "" || at(status, "layers", 0, "name") == nil {
		t.Errorf("%v", status)
	}
	if status, _ := callTool(t, local(t, server(t)), "sandbox_status", nil); status["kernel"] == nil || at(status, "layers", 0, "detail") == "" {
		t.Errorf("control: %v", status)
	}
}

// ask sends bytes on a new connection and returns the status, and whether the server
// answered before the body was sent.
func ask(t testing.TB, addr, head, body string) (code int, headers http.Header, text string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(r.Body, 4096))
	return r.StatusCode, r.Header, string(b)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// head is a request with what every good one has, in which some lines are others: a
// line "-Name" leaves a header out.
func head(addr, first string, lines ...string) string {
	h := [][2]string{{"Host", addr}, {"Authorization", "Bearer " + tokenA}, {"Content-Type", "application/json"}, {"Accept", "application/json, text/event-stream"}, {"Content-Length", fmt.Sprint(len(initialize))}}
	var more []string
	for _, l := range lines {
		name, _, _ := strings.Cut(strings.TrimPrefix(l, "-"), ":")
		for i := range h {
			if h[i][0] == name {
				h[i][0] = ""
			}
		}
		if !strings.HasPrefix(l, "-") {
			more = append(more, l)
		}
	}
	text := first
	for _, x := range h {
		if x[0] != "" {
			text += "\n" + x[0] + ": " + x[1]
		}
	}
	return text + strings.Join(append([]string{""}, more...), "\n")
}

// Every request that names another server, comes from a page, or has no token is
// refused before its body is read, whatever the route. It is long because of its cases.
//
// proves part of H-67
func TestHostOriginToken(t *testing.T) {
	addr := listen(t, server(t), HTTPOptions{Tokens: tokens(t), Hosts: []string{"mcp.example:8443"}, Origins: []string{"https://good.example"}})
	_, port, _ := net.SplitHostPort(addr)
	cases := []struct {
		name, first string
		lines       []string
		want        int
	}{
		{"another name", "POST", []string{"Host: evil.test"}, 421},
		{"another name with the port", "POST", []string{"Host: evil.test:" + port}, 421},
		{"a name that resolves to loopback", "POST", []string{"Host: 127.0.0.1.nip.io:" + port}, 421},
		{"a trailing dot", "POST", []string{"Host: localhost.:" + port}, 421},
		{"a dot behind the address", "POST", []string{"Host: 127.0.0.1.:" + port}, 421},
		{"no port", "POST", []string{"Host: 127.0.0.1"}, 421},
		{"another port", "POST", []string{"Host: 127.0.0.1:1"}, 421},
		{"another loopback address", "POST", []string{"Host: 127.0.0.2:" + port}, 421},
		{"a number", "POST", []string{"Host: 2130706433:" + port}, 421},
		{"IPv6", "POST", []string{"Host: [::ffff:127.0.0.1]:" + port}, 421},
		{"a letter that folds", "POST", []string{"Host: localhoſt:" + port}, 400},
		{"empty", "POST", []string{"Host:"}, 421},
		{"absolute form", "POST http://" + addr + Path, nil, 421},
		{"absolute form of another", "POST http://evil.test" + Path, nil, 421},
		{"allowed host without its port", "POST", []string{"Host: mcp.example"}, 421},
		{"a page", "POST", []string{"Origin: https://evil.test"}, 403},
		{"a page of this address", "POST", []string{"Origin: http://" + addr}, 403},
		{"null", "POST", []string{"Origin: null"}, 403},
		{"an allowed page's neighbour", "POST", []string{"Origin: https://good.example.evil.test"}, 403},
		{"an allowed page and another", "POST", []string{"Origin: https://good.example", "Origin: https://evil.test"}, 403},
		{"GET of a page", "GET", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"GET of a neighbour", "GET", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"no token", "POST", []string{"-Authorization"}, 401},
		{"a wrong token", "POST", []string{"Authorization: Bearer " + tokenA[1:] + "b"}, 401},
		{"a shorter token", "POST", []string{"Authorization: Bearer " + tokenA[1:]}, 401},
		{"an empty token", "POST", []string{"Authorization: Bearer "}, 401},
		{"Basic", "POST", []string{"Authorization: Basic " + tokenA}, 401},
		{"two tokens", "POST", []string{"Authorization: Bearer " + tokenA, "Authorization: Bearer x"}, 401},
		{"a token in the query", "POST " + Path + "?access_token=" + tokenA, []string{"-Authorization"}, 401},
		{"a cookie", "POST", []string{"-Authorization", "Cookie: token=" + tokenA}, 401},
		{"another path", "POST /other", nil, 404},
		{"a path with a dot", "POST /mcp/../mcp", nil, 404},
		{"two slashes", "POST //evil.test/mcp", nil, 404},
		{"PUT", "PUT", nil, 405},
		{"OPTIONS", "OPTIONS", nil, 405},
		{"TRACE", "TRACE", nil, 405},
		{"compressed", "POST", []string{"Content-Encoding: gzip"}, 415},
		{"a form", "POST", []string{"Content-Type: text/plain"}, 415},
		{"no type", "POST", []string{"-Content-Type"}, 415},
		{"too long", "POST", []string{fmt.Sprintf("Content-Length: %d", MaxMessage+1)}, 413},
		{"GET with a body", "GET", nil, 400},
		{"DELETE of chunks", "DELETE", []string{"-Content-Length", "Transfer-Encoding: chunked"}, 400},
		{"POST of chunks", "POST", []string{"-Content-Length", "Transfer-Encoding: chunked"}, 411},
	}
	for _, c := range cases {
		first := c.first
		if !strings.Contains(first, " ") {
			first += " " + Path
		}
		code, h, text := ask(t, addr, head(addr, first+" HTTP/1.1", c.lines...), "") // and no body follows
		if code != c.want {
			t.Errorf("%s: %d %q, want %d", c.name, code, text, c.want)
		}
		if code != 400 && (h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Security-Policy") == "" || h.Get("Access-Control-Allow-Origin") != "") {
			t.Errorf("%s: %v", c.name, h)
		}
		if code == 401 && h.Get("WWW-Authenticate") != "Bearer" || strings.Contains(text, tokenA) {
			t.Errorf("%s: %v %q", c.name, h, text)
		}
	}
	for name, first := range map[string]string{"HTTP/2": "PRI * HTTP/2.0\n\nSM", "CONNECT": "CONNECT " + addr + " HTTP/1.1\nHost: " + addr + "\nAuthorization: Bearer " + tokenA} {
		if code, _, text := ask(t, addr, first, ""); code < 400 {
			t.Errorf("%s: %d %q", name, code, text)
		}
	}
	for name, lines := range map[string][]string{
		"plain": nil, "localhost": {"Host: localhost:" + port}, "LOCALHOST": {"Host: LOCALHOST:" + port}, "allowed host": {"Host: mcp.example:8443"},
		"allowed page": {"Origin: https://good.example", "Sec-Fetch-Site: cross-site"}, "an address bar": {"Sec-Fetch-Site: none"}, "the other token": {"Authorization: bearer " + tokenB},
	} {
		if code, _, text := ask(t, addr, head(addr, "POST "+Path+" HTTP/1.1", lines...), initialize); code != 200 || !strings.Contains(text, "glovebox") {
			t.Errorf("control: %s: %d %q", name, code, text)
		}
	}
}

// The controls: with the check off the same request gets in.
//
// proves part of H-67
func TestHostOriginControl(t *testing.T) {
	addr := listen(t, server(t), HTTPOptions{Tokens: tokens(t), noHost: true})
	for _, host := range []string{"evil.test", "127.0.0.1.nip.io", "localhost."} {
		if code, _, _ := ask(t, addr, head(addr, "POST "+Path+" HTTP/1.1", "Host: "+host), initialize); code != 200 {
			t.Errorf("%s: %d", host, code)
		}
	}
	addr = listen(t, server(t), HTTPOptions{Tokens: tokens(t), noOrigin: true})
	if code, _, _ := ask(t, addr, head(addr, "POST "+Path+" HTTP/1.1", "Origin: https://evil.test"), initialize); code != 200 {
		t.Errorf("a page: %d", code)
	}
	if _, err := server(t).web(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, HTTPOptions{Tokens: &Tokens{}}); err == nil {
		t.Error("a server without a token")
	}
}

// A body that is too long, too slow or no message costs a connection and no more.
//
// proves part of H-67
func TestBadBodiesAsRoot(t *testing.T) {
	addr := listen(t, server(t), HTTPOptions{Tokens: tokens(t)})
	post := func(body io.Reader, length int64) (int, string) {
		r, err := http.NewRequestWithContext(minute(t), "POST", "http://"+addr+Path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		r.Header.Set("Authorization", "Bearer "+tokenA)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		return res.StatusCode, string(b)
	}
	// Chunks without an end: the length is nowhere said. The client may see the
	// connection go before it sees the answer.
	if code, text := post(io.MultiReader(bytes.NewReader(make([]byte, MaxMessage)), endless{}), -1); code != 411 && code != 0 {
		t.Errorf("endless: %d %q", code, text)
	}
	for name, f := range badFrames {
		if code, text := post(strings.NewReader(f.line), int64(len(f.line))); code != 400 || !strings.Contains(text, f.text) || len(text) > 3000 {
			t.Errorf("%s: %d %q", name, code, text)
		}
	}
	begin := time.Now()
	code, _, _ := ask(t, addr, head(addr, "POST "+Path+" HTTP/1.1"), initialize[:10]) // the rest never comes
	if took := time.Since(begin); code != 408 || took > bodyTimeout+20*time.Second {
		t.Errorf("slow body: %d after %v", code, took)
	}
	if code, text := post(strings.NewReader(initialize), int64(len(initialize))); code != 200 {
		t.Errorf("control: %d %q", code, text)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A head that never ends is given up, and connections beyond the bound wait for those
// before them.
//
// proves part of H-67
func TestSlowHeadsAsRoot(t *testing.T) {
	addr := listen(t, server(t), HTTPOptions{Tokens: tokens(t)})
	for range maxConns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: "); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, _ := ask(t, addr, head(addr, "POST "+Path+" HTTP/1.1"), initialize); code != 200 {
		t.Errorf("%d", code)
	}
	if code, _, _ := ask(t, addr, head(addr, "POST "+Path+" HTTP/1.1", "X-Long: "+strings.Repeat("x", 2*maxHead)), ""); code != 431 {
		t.Errorf("a long head: %d", code)
	}
}

// rpc posts a message within a session and returns status and text.
func rpc(t testing.TB, addr, token, session, method, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(minute(t), method, "http://"+addr+Path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Session-Id", session)
	r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	res, err := (&http.Client{Transport: bearer(token)}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if method == "GET" {
		return res.StatusCode, ""
	}
	b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, string(b)
}

// Two clients swap what they know: neither session nor artifact opens for another
// token, on any route.
//
// proves part of H-82
func TestSwappedIDs(t *testing.T) {
	swap := func(t *testing.T, o HTTPOptions) (session int, read string, listed int) {
		addr := listen(t, newServer(t, options()), o)
		a, b := remote(t, addr, tokenA, nil), remote(t, addr, tokenB, nil)
		got, _ := callTool(t, a, "run_code", obj{"language": "bash", "source": "echo secret >x", "artifacts": []string{"x"}})
		uri, _ := at(got, "untrusted", "artifacts", 0, "uri").(string)
		if uri == "" {
			t.Fatalf("%v", got)
		}
		if a.ID() == "" || a.ID() == b.ID() {
			t.Fatalf("sessions %q and %q", a.ID(), b.ID())
		}
		session, _ = rpc(t, addr, tokenB, a.ID(), "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		for _, method := range []string{"GET", "DELETE"} {
			if code, _ := rpc(t, addr, tokenB, a.ID(), method, ""); !o.idOnly && code != 403 {
				t.Errorf("%s in another's session: %d", method, code)
			}
		}
		if r, err := b.ReadResource(minute(t), &mcp.ReadResourceParams{URI: uri}); err == nil {
			read = r.Contents[0].Text
		} else if strings.Contains(err.Error(), uri) || !strings.Contains(err.Error(), "not found") {
			t.Errorf("%v", err)
		}
		if l, err := b.ListResources(minute(t), nil); err == nil {
			listed = len(l.Resources)
		}
		if o.idOnly {
			return
		}
		// The owner was not harmed by any of it.
		if r, err := a.ReadResource(minute(t), &mcp.ReadResourceParams{URI: uri}); err != nil || r.Contents[0].Text != "secret\n" {
			t.Errorf("the owner: %v", err)
		}
		return
	}
	if session, read, listed := swap(t, HTTPOptions{Tokens: tokens(t)}); session != 403 || read != "" || listed != 0 {
		t.Errorf("%d, %q, %d listed", session, read, listed)
	}
	// The control: by ids alone the state of the other is there.
	if session, read, listed := swap(t, HTTPOptions{Tokens: tokens(t), idOnly: true}); session != 200 || read != "secret\n" || listed != 1 {
		t.Errorf("control: %d, %q, %d listed", session, read, listed)
	}
}

// A client has so many sessions and no more; one that ends makes room, and another
// client is not touched.
//
// proves part of H-67
func TestManySessions(t *testing.T) {
	o := options()
	o.Sessions = 4
	addr := listen(t, newServer(t, o), HTTPOptions{Tokens: tokens(t)})
	var open []*mcp.ClientSession
	for range 4 {
		open = append(open, remote(t, addr, tokenA, nil))
	}
	if code, _, _ := ask(t, addr, head(addr, "POST "+Path+" HTTP/1.1"), initialize); code != 429 {
		t.Errorf("the fifth: %d", code)
	}
	remote(t, addr, tokenB, nil)
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	remote(t, addr, tokenA, nil)
	for range 100 { // what makes no session leaves none
		if code, _, _ := ask(t, addr, head(addr, "POST "+Path+" HTTP/1.1", fmt.Sprintf("Authorization: Bearer %s", tokenB), "Content-Length: 40"), `{"jsonrpc":"2.0","id":1,"method":"ping"}`); code >= 500 {
			t.Fatalf("%d", code)
		}
	}
	remote(t, addr, tokenB, nil)
}

// sleeper is a program that a test finds among the processes of this machine.
func sleeper(t testing.TB) (args obj, alive func() bool) {
	mark := fmt.Sprintf("%d.%d", 1000+os.Getpid()%1000, time.Now().UnixNano())
	return obj{"command": []string{"sleep", mark}, "limits": obj{"wall_ms": 60_000}}, func() bool {
		list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range list {
			if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(mark)) {
				return true
			}
		}
		return false
	}
}

// eventually waits for what other processes do.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// However a call ends, its program is gone: the client takes the call back, closes its
// session, breaks its connection, or the server ends.
//
// proves part of H-67
func TestNothingIsLeft(t *testing.T) {
	ways := map[string]func(t *testing.T, s *Server) (begin func(args obj), end func()){
		"notification over stdio": func(t *testing.T, s *Server) (func(obj), func()) {
			cs := local(t, s)
			ctx, cancel := context.WithCancel(minute(t))
			return func(args obj) { start(ctx, t, cs, args) }, cancel
		},
		"notification over HTTP": func(t *testing.T, s *Server) (func(obj), func()) {
			cs := remote(t, listen(t, s, HTTPOptions{Tokens: tokens(t)}), tokenA, nil)
			ctx, cancel := context.WithCancel(minute(t))
			return func(args obj) { start(ctx, t, cs, args) }, cancel
		},
		"end of stdin": func(t *testing.T, s *Server) (func(obj), func()) {
			in, out := pipe(t, s, principal{name: "stdio", local: true})
			cs := connect(t, in, out, nil)
			return func(args obj) { start(minute(t), t, cs, args) }, func() { _ = out.Close() }
		},
		"DELETE": func(t *testing.T, s *Server) (func(obj), func()) {
			addr := listen(t, s, HTTPOptions{Tokens: tokens(t)})
			cs := remote(t, addr, tokenA, nil)
			return func(args obj) { start(minute(t), t, cs, args) }, func() { rpc(t, addr, tokenA, cs.ID(), "DELETE", "") }
		},
		"broken connection": func(t *testing.T, s *Server) (func(obj), func()) {
			addr := listen(t, s, HTTPOptions{Tokens: tokens(t)})
			cs := remote(t, addr, tokenA, nil)
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			return func(args obj) {
				body := toolCall(77, "run_code", string(must(json.Marshal(args))))
				_, _ = io.WriteString(c, strings.ReplaceAll(head(addr, "POST "+Path+" HTTP/1.1", "Mcp-Session-Id: "+cs.ID(), fmt.Sprintf("Content-Length: %d", len(body))), "\n", "\r\n")+"\r\n\r\n"+body)
			}, func() { _ = c.Close() }
		},
		"end of the server": func(t *testing.T, s *Server) (func(obj), func()) {
			cs := local(t, s)
			return func(args obj) { start(minute(t), t, cs, args) }, func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, options())
			args, alive := sleeper(t)
			begin, end := way(t, s)
			go begin(args)
			eventually(t, "the program runs", alive)
			ended := make(chan struct{})
			go func() { defer close(ended); end() }()
			eventually(t, "the program is gone", func() bool { return !alive() })
			<-ended
			eventually(t, "its place is free", func() bool { return len(s.client(principal{name: "stdio"}).slots) == 0 })
		})
	}
}

// start calls run_code and does not care what comes of it.
func start(ctx context.Context, t testing.TB, cs *mcp.ClientSession, args obj) {
	if _, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "run_code", Arguments: args}); err != nil && !errors.Is(err, context.Canceled) {
		t.Log(err)
	}
}

// A file of tokens that others could read, or that is no plain file, is refused, and
// so is a token that could be guessed.
//
// proves part of H-67
func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := file("good", tokenA+"\r\n\n  "+tokenB+"\n", 0o600)
	if err := os.Symlink(good, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		file("group", tokenA, 0o640): "chmod 600", file("others", tokenA, 0o604): "chmod 600", file("short", tokenA[1:], 0o600): ":1: a token must have at least 32",
		file("empty", "\n\n", 0o600): "has no token", file("marks", tokenA+" x", 0o600): "letters, digits", file("long", strings.Repeat("x", maxToken+1), 0o600): "at most",
		dir: "plain file", filepath.Join(dir, "none"): "no such file", filepath.Join(dir, "link"): "symbolic links",
		file("many", manyTokens(maxTokens+1), 0o600): "at most 100",
	} {
		if _, err := ReadTokens(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), tokenA[1:]) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	k, err := ReadTokens(good)
	if err != nil {
		t.Fatal(err)
	}
	a, isA := k.find(tokenA)
	b, isB := k.find(tokenB)
	if _, is := k.find(tokenA + "a"); is || !isA || !isB || a.name == b.name || a.local {
		t.Errorf("%v %v %v %v", a, isA, b, isB)
	}
	if x, y := NewToken(), NewToken(); x == y || len(x) < 50 || k.Add(x) != nil {
		t.Errorf("%q %q", x, y)
	}
}

func manyTokens(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(NewToken() + "\n")
	}
	return b.String()
}
