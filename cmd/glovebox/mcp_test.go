package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// mcpClient is the SDK's client at a server that it started itself.
func mcpClient(t *testing.T, via mcp.Transport) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, via, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	return cs
}

// runCode returns verdict and stdout.
func runCode(t *testing.T, cs *mcp.ClientSession, args map[string]any) (verdict, stdout string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "run_code", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		Verdict   string
		Untrusted struct{ Stdout, Stderr string }
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if o.Verdict != "ok" {
		t.Log(text)
	}
	return o.Verdict, o.Untrusted.Stdout
}

// What a client starts by the line of its configuration serves it, and hands neither
// its environment nor its descriptors on.
//
// proves part of H-82
func TestMCPStdio(t *testing.T) {
	secret, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	cmd := exec.Command(program(), "mcp")
	cmd.Env = append(os.Environ(), "GLOVEBOX_TEST_SECRET=canary", "MCPGODEBUG=")
	cmd.ExtraFiles = []*os.File{secret, secret}
	cs := mcpClient(t, &mcp.CommandTransport{Command: cmd})
	if cs.InitializeResult().ServerInfo.Name != "glovebox" {
		t.Errorf("%+v", cs.InitializeResult().ServerInfo)
	}
	verdict, out := runCode(t, cs, map[string]any{"language": "bash", "source": `env; for f in /proc/self/fd/*; do echo "fd ${f##*/} $(readlink $f)"; done; cat /proc/1/environ; echo; read x && echo "stdin: $x"`})
	if verdict != "ok" && verdict != "error" || !strings.Contains(out, "HOME=/box") || strings.Contains(out, "canary") || strings.Contains(out, "passwd") || strings.Contains(out, "stdin:") {
		t.Errorf("%s %s", verdict, out)
	}
	for _, m := range regexp.MustCompile(`(?m)^fd (\d+) (.*)$`).FindAllStringSubmatch(out, -1) {
		if m[1] > "2" && len(m[1]) == 1 && m[2] != "" && !strings.HasPrefix(m[2], "/proc/") && !strings.HasPrefix(m[2], "/box/") && !strings.HasPrefix(m[2], "pipe:") {
			t.Errorf("descriptor %s is %s", m[1], m[2])
		}
	}
	for _, pid := range testenv.Descendants(cmd.Process.Pid) {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && bytes.Contains(env, []byte("canary")) {
			t.Errorf("process %d has the environment of the server", pid)
		}
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); to == "/etc/passwd" {
				t.Errorf("process %d has the descriptors of the server", pid)
			}
		}
	}
}

// server starts glovebox mcp and returns its ends.
func startMCP(t *testing.T, args ...string) (cmd *exec.Cmd, in io.WriteCloser, out, stderr *bufio.Reader) {
	t.Helper()
	cmd = exec.Command(program(), append([]string{"mcp"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	o, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	e, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _, _ = cmd.Process.Wait() })
	return cmd, in, bufio.NewReader(o), bufio.NewReader(e)
}

const (
	initLine = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	callLine = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_code","arguments":%s}}` + "\n"
)

// Stdout of the server has messages of the protocol and nothing else, whatever
// programs print; the end of stdin ends it with status 0.
//
// proves part of H-82
func TestMCPStdout(t *testing.T) {
	cmd, in, out, stderr := startMCP(t)
	source := `{"language":"bash","source":"for i in 1 2 3; do echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'; echo noise >&2; done; echo x >/dev/stdout; echo y >/dev/tty"}`
	if _, err := io.WriteString(in, initLine+fmt.Sprintf(callLine, 1, source)+"garbage\n"+fmt.Sprintf(callLine, 2, `{"language":"nope","source":"x"}`)); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for range 4 {
		line, err := out.ReadString('\n')
		var m struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  map[string]any
			Error   map[string]any
		}
		if e := json.Unmarshal([]byte(line), &m); err != nil || e != nil || m.JSONRPC != "2.0" {
			t.Fatalf("%v %v: %q", err, e, line)
		}
		got[string(m.ID)]++
		if string(m.ID) == "1" && m.Result["structuredContent"] == nil {
			t.Errorf("a guest's line passed for an answer: %q", line)
		}
	}
	if len(got) != 4 || got["1"] != 1 || got["null"] != 1 {
		t.Errorf("%v", got)
	}
	_ = in.Close()
	rest, _ := io.ReadAll(out)
	said, _ := io.ReadAll(stderr)
	if err := cmd.Wait(); err != nil || len(rest) > 0 || strings.Contains(string(said), "noise") {
		t.Errorf("%v, then %q, stderr %q", err, rest, said)
	}
}

// marked is a program that a test finds among the processes of this machine.
func marked() (args string, alive func() bool) {
	mark := fmt.Sprintf("2000.%d", time.Now().UnixNano())
	return fmt.Sprintf(`{"command":["sleep",%q],"limits":{"wall_ms":60000}}`, mark), func() bool {
		list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range list {
			if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(mark)) {
				return true
			}
		}
		return false
	}
}

func awaitThat(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// However the server ends, nothing of its programs is left, and a signal that asks for
// its end is no failure.
//
// proves part of H-67
func TestMCPEnds(t *testing.T) {
	for name, end := range map[string]struct {
		how  func(cmd *exec.Cmd, in io.Closer)
		code int
	}{
		"stdin":   {func(_ *exec.Cmd, in io.Closer) { _ = in.Close() }, 0},
		"SIGTERM": {func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(unix.SIGTERM) }, 0},
		"SIGINT":  {func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(unix.SIGINT) }, 0},
		"SIGKILL": {func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Kill() }, -1},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, in, out, _ := startMCP(t)
			args, alive := marked()
			if _, err := io.WriteString(in, initLine+fmt.Sprintf(callLine, 1, args)); err != nil {
				t.Fatal(err)
			}
			awaitThat(t, "it runs", alive)
			end.how(cmd, in)
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != end.code {
				t.Errorf("exit status %d, want %d", code, end.code)
			}
			awaitThat(t, "it is gone", func() bool { return !alive() })
		})
	}
}

// bearerToken adds a token to every request.
type bearerToken string

func (b bearerToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// Over HTTP the server says where it is and, once, the token that it made; with a token
// of the environment it prints none and hands it on to no other process.
//
// proves part of H-67
func TestMCPHTTP(t *testing.T) {
	cmd, _, out, stderr := startMCP(t, "--http", "127.0.0.1:0")
	line := func(r *bufio.Reader, pattern string) string {
		t.Helper()
		s, err := r.ReadString('\n')
		m := regexp.MustCompile(pattern).FindStringSubmatch(s)
		if err != nil || m == nil {
			t.Fatalf("%q: %v", s, err)
		}
		return m[1]
	}
	url := line(stderr, `^glovebox: serving at (http://127\.0\.0\.1:\d+/mcp)\n$`)
	token := line(stderr, `^glovebox: bearer token, shown this once: (\S{50,})\n$`)
	cs := mcpClient(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearerToken(token)}, MaxRetries: -1})
	if verdict, got := runCode(t, cs, map[string]any{"language": "bash", "source": "echo hello"}); verdict != "ok" || got != "hello\n" {
		t.Errorf("%s %q", verdict, got)
	}
	if res, err := http.Get(url); err != nil || res.StatusCode != 401 {
		t.Errorf("without a token: %v %v", res, err)
	}
	_ = cmd.Process.Signal(unix.SIGTERM)
	rest, _ := io.ReadAll(out)
	said, _ := io.ReadAll(stderr)
	if err := cmd.Wait(); err != nil || len(rest) > 0 || strings.Contains(string(said), token) {
		t.Errorf("%v %q %q", err, rest, said)
	}

	own := strings.Repeat("k", 40)
	t.Setenv(tokenVar, own)
	cmd, _, _, stderr = startMCP(t, "--http", "localhost:0")
	url = line(stderr, `^glovebox: serving at (http://127\.0\.0\.1:\d+/mcp)\n$`)
	cs = mcpClient(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearerToken(own)}, MaxRetries: -1})
	if verdict, got := runCode(t, cs, map[string]any{"language": "bash", "source": "echo hello"}); verdict != "ok" || got != "hello\n" {
		t.Errorf("%s %q", verdict, got)
	}
	for _, pid := range testenv.Descendants(cmd.Process.Pid) {
		for _, file := range []string{"environ", "cmdline"} {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); err == nil && bytes.Contains(b, []byte(own)) {
				t.Errorf("process %d has the token in its %s", pid, file)
			}
		}
	}
	_ = cmd.Process.Signal(unix.SIGTERM)
	if said, _ := io.ReadAll(stderr); strings.Contains(string(said), own) {
		t.Errorf("%q", said)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Where no cell can be sealed the server serves, and says so by its status in the end.
func TestMCPUnavailable(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]string{"glovebox": program(), "glovebox-init": "/bin/true"} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "glovebox"), "mcp")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	o, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(o)
	if _, err := io.WriteString(in, initLine+fmt.Sprintf(callLine, 1, `{"language":"bash","source":"true"}`)); err != nil {
		t.Fatal(err)
	}
	_, _ = out.ReadString('\n')
	answer, err := out.ReadString('\n')
	if err != nil || !strings.Contains(answer, `"code":"sandbox_unavailable"`) || !strings.Contains(answer, "remedy") {
		t.Errorf("%v: %s", err, answer)
	}
	_ = in.Close()
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitUnavailable {
		t.Errorf("%v", cmd.ProcessState)
	}
}

// The command's sessions of JavaScript keep what was declared.
func TestMCPJavaScript(t *testing.T) {
	cs := mcpClient(t, &mcp.CommandTransport{Command: exec.Command(program(), "mcp")})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	feed := func(code, session string) (id, value string) {
		t.Helper()
		args := map[string]any{"code": code}
		if session != "" {
			args["session"] = session
		}
		r, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "javascript", Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		var o struct {
			Session   string
			Untrusted struct{ Value string }
		}
		if text := r.Content[0].(*mcp.TextContent).Text; json.Unmarshal([]byte(text), &o) != nil || o.Session == "" {
			t.Fatal(text)
		}
		return o.Session, o.Untrusted.Value
	}
	id, _ := feed("let n = 40", "")
	if _, value := feed("n + 2", id); value != "42" {
		t.Errorf("%q", value)
	}
}
