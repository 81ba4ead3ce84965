package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
)

// server is a glovebox serve that runs beside the test.
type server struct {
	*process
	url    string
	client *http.Client
}

// prepareServe makes one with a folder of its own and any port.
func prepareServe(t *testing.T, args ...string) *server {
	t.Helper()
	args = append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)
	if !strings.Contains(strings.Join(args, " "), "--data") {
		args = append(args, "--data", filepath.Join(t.TempDir(), "data"))
	}
	return &server{process: prepare(t, args...), client: &http.Client{Timeout: 60 * time.Second}}
}

// start waits until it says where it serves.
func (s *server) start(t *testing.T) *server {
	t.Helper()
	s.begin(t)
	t.Cleanup(func() {
		if s.ProcessState == nil {
			_ = s.Process.Kill()
			_ = s.Wait()
		}
		s.client.CloseIdleConnections()
	})
	for s.url == "" {
		line := s.line(t)
		if url, ok := strings.CutPrefix(line, "serving at "); ok {
			s.url = strings.TrimSpace(url)
		}
	}
	return s
}

func serve(t *testing.T, args ...string) *server {
	t.Helper()
	return prepareServe(t, args...).start(t)
}

// ask makes a request and returns its status and body.
func (s *server) ask(t *testing.T, method, path string, body any) (int, []byte) {
	t.Helper()
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, text)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v; stderr: %s", method, path, err, s.stderr.String())
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, b
}

// submit submits a command and waits for it as long as the query says.
func (s *server) submit(t *testing.T, query string, command ...string) api.Run {
	t.Helper()
	status, b := s.ask(t, "POST", "/v1/runs"+query, map[string]any{"command": command, "limits": map[string]any{"wall_ms": 60000}})
	var run api.Run
	if err := json.Unmarshal(b, &run); err != nil || status != 200 && status != 202 {
		t.Fatalf("%d %s: %v", status, b, err)
	}
	return run
}

// result reads a run that has ended, or ends within a while.
func (s *server) result(t *testing.T, id string) *api.Result {
	t.Helper()
	_, b := s.ask(t, "GET", "/v1/runs/"+id+"?wait=30s", nil)
	var run api.Run
	if err := json.Unmarshal(b, &run); err != nil || run.Result == nil {
		t.Fatalf("no result: %s: %v", b, err)
	}
	return run.Result
}

func (s *server) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// It tells the status and the URL, runs programs, ends at a signal, and has the
// results again at the next start.
//
// proves part of X-07
func TestServe(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := prepareServe(t, "--data", data, "--log-format", "text")
	s.begin(t)
	var table strings.Builder
	for !strings.Contains(table.String(), "serving at ") {
		table.WriteString(s.line(t))
	}
	s.url = strings.TrimSpace(table.String()[strings.Index(table.String(), "http://"):])
	for _, want := range []string{"LAYER ", "\nseccomp          yes", "\ncomplete: "} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is not in:\n%s", want, table.String())
		}
	}
	run := s.submit(t, "?wait=30s", "echo", "served")
	if run.Result == nil || run.Result.Verdict != api.OK || run.Result.Stdout != "served\n" {
		t.Fatalf("%+v", run)
	}
	if st, err := os.Stat(data); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the data folder: %v, %v", st, err)
	}
	s.signal(t, unix.SIGTERM)
	s.ends(t, 0)
	again := serve(t, "--data", data)
	if r := again.result(t, run.ID); r.Stdout != "served\n" {
		t.Errorf("after a new start: %+v", r)
	}
	again.signal(t, unix.SIGINT)
	again.ends(t, 0)
}

// A second service on the same folder, or at the same address, is refused in one
// sentence; the first goes on.
//
// proves part of H-71
func TestServeLocked(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	first := serve(t, "--data", data)
	second := prepareServe(t, "--data", data)
	second.begin(t)
	second.ends(t, exitFailed)
	if got, want := second.stderr.String(), "glovebox: another process serves the folder "+data+"; a folder of --data has one service at a time\n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	third := prepareServe(t, "--addr", strings.TrimPrefix(first.url, "http://"))
	third.begin(t)
	third.ends(t, exitFailed)
	if got := third.stderr.String(); !strings.Contains(got, "address already in use") || strings.Count(got, "\n") != 1 {
		t.Errorf("stderr %q", got)
	}
	if r := first.submit(t, "?wait=30s", "echo", "on").Result; r == nil || r.Stdout != "on\n" {
		t.Errorf("the first: %+v", r)
	}
	first.signal(t, unix.SIGKILL)
	_ = first.Wait()
	serve(t, "--data", data) // the lock went with its process
}

// A folder that is not the service's alone is refused.
//
// proves part of H-71
func TestServeFolder(t *testing.T) {
	data := t.TempDir()
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	s := prepareServe(t, "--data", data)
	s.begin(t)
	s.ends(t, exitUsage)
	if got := s.stderr.String(); !strings.HasPrefix(got, "glovebox: --data "+data+": ") || strings.Count(got, "\n") != 1 {
		t.Errorf("stderr %q", got)
	}
	if entries, _ := os.ReadDir(data); len(entries) != 0 {
		t.Errorf("it left %v", entries)
	}
}

// While it drains it is not ready, takes nothing, and lets run what runs; the answer
// that somebody waits for comes.
func TestServeDrain(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := serve(t, "--data", data)
	if status, b := s.ask(t, "GET", "/readyz", nil); status != 200 {
		t.Fatalf("control: %d %s", status, b)
	}
	run := s.submit(t, "", "sleep", "2")
	running(t, s, run.ID)
	s.signal(t, unix.SIGTERM)
	awaitThat(t, "it is not ready", func() bool { status, _ := s.ask(t, "GET", "/readyz", nil); return status == 503 })
	status, b := s.ask(t, "POST", "/v1/runs", map[string]any{"command": []string{"true"}})
	var refused api.ErrorBody
	if err := json.Unmarshal(b, &refused); err != nil || status != 503 || refused.Error.Code != api.CodeDraining || refused.Error.RetryAfterMS == 0 {
		t.Errorf("a submission while draining: %d %s", status, b)
	}
	if status, _ := s.ask(t, "GET", "/healthz", nil); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	if r := s.result(t, run.ID); r.Verdict != api.OK {
		t.Errorf("what ran: %+v", r)
	}
	s.ends(t, 0)
}

// running waits until a run has begun.
func running(t *testing.T, s *server, id string) {
	t.Helper()
	awaitThat(t, "the run has begun", func() bool {
		_, b := s.ask(t, "GET", "/v1/runs/"+id, nil)
		var run api.Run
		return json.Unmarshal(b, &run) == nil && run.State == api.RunRunning
	})
}

// A drain has an end: the time for it, or a second signal. What ran then is
// interrupted, what waited runs after the next start, and each has one result.
func TestServeDrainLimit(t *testing.T) {
	for name, how := range map[string]struct {
		args  []string
		after func(s *server)
	}{
		"time":          {[]string{"--drain-timeout", "100ms"}, func(*server) {}},
		"second signal": {nil, func(s *server) { s.signal(t, unix.SIGINT) }},
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			s := serve(t, append([]string{"--data", data, "--slots", "1"}, how.args...)...)
			first := s.submit(t, "", "sleep", "50")
			running(t, s, first.ID)
			waits := s.submit(t, "", "echo", "later")
			began := time.Now()
			s.signal(t, unix.SIGTERM)
			if name != "time" {
				awaitThat(t, "it drains", func() bool { status, _ := s.ask(t, "GET", "/readyz", nil); return status == 503 })
			}
			how.after(s)
			s.ends(t, 0)
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("it took %s", took)
			}
			again := serve(t, "--data", data, "--slots", "1")
			if r := again.result(t, first.ID); r.Verdict != api.Interrupted {
				t.Errorf("what ran: %+v", r)
			}
			if r := again.result(t, waits.ID); r.Verdict != api.OK || r.Stdout != "later\n" {
				t.Errorf("what waited: %+v", r)
			}
		})
	}
}

// The log in JSON is JSON on every line, and has neither sources nor tokens.
//
// proves part of H-74
func TestServeLog(t *testing.T) {
	s := prepareServe(t, "--log-format", "json", "--log-level", "debug")
	token := "gbp_" + strings.Repeat("0123456789abcdef", 4)
	s.Env = append(os.Environ(), "GLOVEBOX_OPERATOR_TOKEN="+token)
	pipe, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	s.Stderr = pipe
	s.begin(t)
	t.Cleanup(func() { _ = s.Process.Kill() })
	awaitThat(t, "it serves", func() bool {
		b, _ := os.ReadFile(pipe.Name())
		for line := range strings.Lines(string(b)) {
			var l struct{ Msg, URL string }
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "serving" {
				s.url = l.URL
			}
		}
		return s.url != ""
	})
	run := s.submit(t, "?wait=30s", "echo", "planted-word")
	s.signal(t, unix.SIGTERM)
	s.ends(t, 0)
	b, err := os.ReadFile(pipe.Name())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	for what, secret := range map[string]string{"source": "planted-word", "owner's token": run.OwnerToken, "operator's token": token} {
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("the %s is in the log", what)
		}
	}
	if !bytes.Contains(b, []byte(`"msg":"request"`)) {
		t.Errorf("control: no request is in the log:\n%s", b)
	}
}

// A host that seals no cell as it should gets the table with the remedies, and a
// status of its own.
func TestServeUnavailableAsRoot(t *testing.T) {
	data := t.TempDir()
	if err := os.Chmod(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, 64903, 64903); err != nil {
		t.Fatal(err)
	}
	for p := filepath.Dir(data); p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := prepareServe(t, "--data", data)
	s.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64903, Gid: 64903}}
	s.Dir = "/"
	s.begin(t)
	out, err := io.ReadAll(s.out)
	if err != nil {
		t.Fatal(err)
	}
	s.ends(t, exitUnavailable)
	if !strings.Contains(string(out), "\ncgroup           NO     ") || !strings.Contains(string(out), "remedy: ") {
		t.Errorf("stdout has no table: %s", out)
	}
	if got := s.stderr.String(); !strings.HasPrefix(got, "glovebox: the sandbox is not available: cgroup") {
		t.Errorf("stderr %q", got)
	}
}

// A configuration with a mistake is refused before anything is made.
func TestServeConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "glovebox.json")
	if err := os.WriteFile(file, []byte(`{"slots": 3, "quotas": "on"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := prepare(t, "serve", "--config", file, "--print-config", "--backlog", "7", "--public")
	p.Env = append(os.Environ(), "GLOVEBOX_SOCKETS=3", "GLOVEBOX_SLOTS=9", "GLOVEBOX_METRICS_PASSWORD=not-shown-0123456789", "GLOVEBOX_SLOT=1")
	p.begin(t)
	out, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	p.ends(t, 0)
	rows := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 2 {
			rows[f[0]] = strings.Join(f[1:], " ")
		}
	}
	for name, want := range map[string]string{"slots": "9 $GLOVEBOX_SLOTS", "backlog": "7 --backlog", "sockets": "3 $GLOVEBOX_SOCKETS", "public": "true --public",
		"quotas": "on " + file + ": quotas", "metrics_password": "set $GLOVEBOX_METRICS_PASSWORD", "addr": "127.0.0.1:8080 default"} {
		if rows[name] != want {
			t.Errorf("%s: %q, want %q", name, rows[name], want)
		}
	}
	if strings.Contains(string(out), "not-shown") {
		t.Error("a secret is printed")
	}
	if got := p.stderr.String(); got != "glovebox: warning: $GLOVEBOX_SLOT is no setting\n" {
		t.Errorf("stderr %q", got)
	}
	for _, c := range []struct{ want, args string }{
		{"glovebox: --slots: 0: must be from 1 to 10000\n", "--slots 0"},
		{"glovebox: --addr: 192.0.2.1:80: is not loopback: needs --tls-cert", "--addr 192.0.2.1:80"},
		{"glovebox: --public: maybe: must be true or false\n", "--public=maybe"},
		{"glovebox: --config: " + dir + ": is not a regular file\n", "--config " + dir},
		{"glovebox: --tls-cert: " + file + ": ", "--tls-cert " + file + " --tls-key " + file},
		{"glovebox: --policy " + dir + ": is not a regular file\n", "--policy " + dir},
		{"glovebox: glovebox serve takes no argument", "now"},
	} {
		data := filepath.Join(t.TempDir(), "data")
		p := prepare(t, append([]string{"serve", "--data", data}, strings.Fields(c.args)...)...)
		p.begin(t)
		p.ends(t, exitUsage)
		if got := p.stderr.String(); !strings.HasPrefix(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: stderr %q, want %q", c.args, got, c.want)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%s: the folder was made", c.args)
		}
	}
}

// free is a listener's address on a port that is free.
func free(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, fmt.Sprint(l.Addr())
}
