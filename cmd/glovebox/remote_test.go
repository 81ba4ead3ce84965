package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/client"
	"github.com/glovebox-dev/glovebox/internal/credential"
)

// On a service a command line does what it does on this host: the same scripts pass.
//
// proves part of X-04
func TestRemoteScriptsAsRoot(t *testing.T) {
	s := serve(t, "--in-flight", "64")
	p := scripts(serverVar + "=" + s.url)
	for _, name := range []string{"verdicts", "stream", "json", "input", "programs", "compile", "files", "artifacts"} {
		p.Files = append(p.Files, "testdata/script/"+name+".txtar")
	}
	testscript.Run(t, p)
}

// What is of a service alone: flags, refusals, keys.
//
// proves part of X-18
func TestServiceScripts(t *testing.T) {
	token := credential.Operator.New()
	file := filepath.Join(t.TempDir(), "operator")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--operator-token-file", file, "--in-flight", "64")
	p := scripts(serverVar+"="+s.url, "OPERATOR="+token)
	p.Dir = "testdata/remote"
	testscript.Run(t, p)
}

// SIGINT cancels the run on the service, and says so as a local run does; output comes
// while the program runs, and what is written to it too.
func TestRemoteLiveAsRoot(t *testing.T) {
	s := serve(t)
	t.Setenv(serverVar, s.url)
	p := prepare(t, "run", "--wall", "60s", "--json=stream", "--", "sh", "-c", "echo ready; read x; echo got $x; exec sleep 60")
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	p.begin(t)
	for !strings.Contains(p.line(t), "ready") {
	}
	if _, err := io.WriteString(in, "word\n"); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(p.line(t), "got word") {
	}
	if err := p.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	var last api.Event
	for last.Type != "finished" {
		last = api.Event{}
		if err := json.Unmarshal([]byte(p.line(t)), &last); err != nil {
			t.Fatal(err)
		}
	}
	p.ends(t, 130)
	if r := s.result(t, last.Result.ID); r.Verdict != api.Canceled || last.Result.Verdict != api.Canceled {
		t.Errorf("on the service %s, here %s", r.Verdict, last.Result.Verdict)
	}
}

// Whoever stops reading ends the run on the service too.
func TestRemoteReaderGoneAsRoot(t *testing.T) {
	s := serve(t)
	t.Setenv(serverVar, s.url)
	p := prepare(t, "run", "--wall", "60s", "--", "sh", "-c", "while :; do echo y; sleep 0.01; done")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout = w
	p.begin(t)
	w.Close()
	if _, err := r.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	p.ends(t, 128+int(unix.SIGPIPE))
	if p.stderr.Len() > 0 {
		t.Errorf("stderr %q, want none", p.stderr.String())
	}
	if _, b := s.ask(t, "GET", "/v1/status", nil); !strings.Contains(string(b), `"running":0`) {
		t.Errorf("%s", b)
	}
}

// A service that is killed and starts again leaves nobody without a result: what had
// begun is interrupted, what had not runs, once, and no program starts twice.
//
// proves part of H-50
func TestRemoteKilledAsRoot(t *testing.T) {
	l, addr := free(t)
	l.Close()
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"--addr", addr, "--data", data, "--slots", "2", "--in-flight", "64"}
	s := serve(t, args...)
	c, err := client.New(client.Options{URL: s.url, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const runs = 8
	var all [runs]*client.Running
	var frames [runs][]api.Frame
	var following sync.WaitGroup
	for i := range all {
		opts := []client.RunOption{client.WithEventStream()}
		if i%2 == 1 {
			opts = nil // by asking for the result
		}
		if all[i], err = c.Start(t.Context(), api.Program{Language: "bash", Source: "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done"}, opts...); err != nil {
			t.Fatal(err)
		}
		following.Go(func() {
			for f := range all[i].Events() {
				frames[i] = append(frames[i], f)
			}
		})
	}
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.Wait()
	s = serve(t, args...)
	verdicts := map[api.Verdict]int{}
	for i, r := range all {
		result, err := r.Wait()
		if err != nil {
			t.Fatal(i, err)
		}
		verdicts[result.Verdict]++
		if again := s.result(t, r.ID()); again.Verdict != result.Verdict {
			t.Errorf("%d: here %s, on the service %s", i, result.Verdict, again.Verdict)
		}
	}
	following.Wait()
	if verdicts[api.OK]+verdicts[api.Interrupted] != runs || verdicts[api.OK] < runs-2 {
		t.Errorf("%v", verdicts)
	}
	for i := range all {
		if i%2 == 0 {
			begunOnce(t, i, frames[i])
		}
	}
}

// begunOnce checks the events of one run: in order, one start at most and one end.
func begunOnce(t *testing.T, run int, frames []api.Frame) {
	t.Helper()
	count, last := map[string]int{}, uint64(0)
	for _, f := range frames {
		count[f.Type]++
		if f.Seq > 0 && f.Seq <= last {
			t.Errorf("%d: event %d after %d", run, f.Seq, last)
		}
		last = max(last, f.Seq)
	}
	if count["started"] > 1 || count["finished"] != 1 {
		t.Errorf("%d: %v", run, count)
	}
}

// What a service says reaches a terminal without anything that moves it: output,
// refusals, reasons, names, ids.
//
// proves part of X-27
func TestRemoteTerminalIsSafe(t *testing.T) {
	const evil = "\x1b]52;c;AAAA\x07\x1b[2J\u202e"
	text := strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`).Replace(evil)
	id := strings.Repeat("0", 32)
	finished := func(rest string) string {
		return "data: {\"type\":\"chunk\",\"seq\":1,\"stream\":\"stdout\",\"data\":\"" + text + "\",\"t_ms\":0}\n\n" +
			"data: {\"type\":\"finished\",\"seq\":2,\"t_ms\":0,\"result\":{\"id\":\"" + id + "\"," + rest + "}}\n\n"
	}
	for name, c := range map[string]struct {
		status      int
		body, event string
		args        []string
	}{
		"a refusal": {400, `{"error":{"code":"bad_field","message":"` + text + `","field":"` + text + `"}}`, "", nil},
		"a failure": {500, `{"error":{"code":"internal","message":"` + text + `","request_id":"` + text + `"}}`, "", nil},
		"output":    {202, "", finished(`"verdict":"ok","stdout":"` + text + `"`), nil},
		"a verdict": {202, "", finished(`"verdict":"` + text + `","message":"` + text + `"`), nil},
		"a reason":  {202, "", finished(`"verdict":"setup_failed","stage":"` + text + `","message":"` + text + `","refused_artifacts":[{"name":"` + text + `","reason":"` + text + `"}]`), nil},
		"a layer":   {202, "", finished(`"verdict":"ok","evidence":{"sandbox":"auto","layers":[{"name":"` + text + `","applied":false,"detail":""}]}`), nil},
		"JSON":      {202, "", finished(`"verdict":"ok","message":"` + text + `"`), []string{"--json=stream"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasSuffix(r.URL.Path, "/events"):
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, c.event)
				case c.status == 202:
					w.WriteHeader(202)
					_, _ = io.WriteString(w, `{"id":"`+id+`","state":"queued","owner_token":"gbo_`+strings.Repeat("0", 64)+`","api_version":"v1"}`)
				default:
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
				}
			}))
			defer s.Close()
			p, pty := terminal(t, 200, slices.Concat([]string{"run", "--server", s.URL, "--wait-busy", "0"}, c.args, []string{"--", "true"})...)
			_ = p.Wait()
			shown := strings.ReplaceAll(pty.Shown(), "\x1b[0m", "")
			if shown == "" || strings.ContainsAny(shown, "\x1b\x07\u202e") {
				t.Errorf("shown: %q", shown)
			}
			if name != "output" && !strings.Contains(shown, "52;c;") {
				t.Errorf("nothing of it is told: %q", shown)
			}
		})
	}
}
