package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/server"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// A socket shows everything of a run, to who was there from the start, to who comes
// late, and behind each number what follows it; then it is closed with 1000.
//
// proves X-16
func TestSocketReplayAndResume(t *testing.T) {
	p := openPlace(t, nil)
	run := p.submit("", python("import time\nfor i in range(6): print('line', i, flush=True); time.sleep(0.05)\n"))
	live, code := p.dial(run.ID).all()
	if code != websocket.StatusNormalClosure {
		t.Errorf("closed with %d", code)
	}
	for len(live) > 0 && live[0].Type == "queued" {
		live = live[1:]
	}
	late, code := p.dial(run.ID).all()
	if code != websocket.StatusNormalClosure || len(late) != len(live) {
		t.Errorf("closed with %d, %d frames, not %d", code, len(late), len(live))
	}
	out, types := output(late)
	if out != "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\n" || !slices.Equal(types, []string{"started", "chunk", "finished"}) || late[len(late)-1].Result.Stdout != out {
		t.Errorf("%q %v", out, types)
	}
	for i, f := range live {
		rest, code := p.dial(run.ID + "?after=" + strconv.FormatUint(f.Seq, 10)).all()
		if code != websocket.StatusNormalClosure || len(rest) != len(live)-i-1 || len(rest) > 0 && rest[0].Seq != live[i+1].Seq {
			t.Errorf("after %d: closed with %d, %d frames, not %d", f.Seq, code, len(rest), len(live)-i-1)
		}
	}
}

// A run that is over before the handshake is shown whole, every time; so is one that
// ends while the handshake is made.
//
// proves X-16
func TestSocketFastFinishAsRoot(t *testing.T) {
	p := openPlace(t, func(o *service.Options) { o.Admission.SocketsPerClient = 300 })
	for i := range 300 {
		wait := "?wait=20s"
		if i >= 200 {
			wait = ""
		}
		run := p.submit(wait, command("/bin/echo", "hello"))
		all, code := p.dial(run.ID).all()
		for wait == "" && len(all) > 0 && all[0].Type == "queued" {
			all = all[1:]
		}
		out, types := output(all)
		if code != websocket.StatusNormalClosure || out != "hello\n" || !slices.Equal(types, []string{"started", "chunk", "finished"}) || all[len(all)-1].Result.Verdict != api.OK {
			t.Fatalf("%d: closed with %d, %q %v", i, code, out, types)
		}
	}
}

// Standard input that is typed over the socket arrives as it is typed, is answered over
// the same socket, and its end is the end of the program's input.
//
// proves part of X-16 X-25
func TestSocketInteractive(t *testing.T) {
	p := openPlace(t, nil)
	sub := python("import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('got', line.strip(), flush=True)\nprint('end of input')\n")
	sub.Interactive = true
	run := p.submit("", sub)
	w := p.dial(run.ID)
	w.say(api.ClientFrame{Type: "auth", Token: run.OwnerToken})
	w.say(api.ClientFrame{Type: "stdin", Data: "early\n"}) // it may not have begun
	read := func(want string) {
		t.Helper()
		for out := ""; !strings.HasSuffix(out, want); {
			f, code := w.next()
			if f == nil || f.Type == "finished" || f.Type == "error" {
				t.Fatalf("%q, then %+v, closed with %d", out, f, code)
			}
			out += f.Data
		}
	}
	read("got early\n")
	w.say(api.ClientFrame{Type: "stdin", Data: "two"})
	w.say(api.ClientFrame{Type: "stdin", Base64: "IMO8YmVyCg=="}) // " über\n"
	read("got two über\n")
	w.say(api.ClientFrame{Type: "stdin_close"})
	read("end of input\n")
	all, code := w.all()
	if last := all[len(all)-1]; code != websocket.StatusNormalClosure || last.Result == nil || last.Result.Verdict != api.OK {
		t.Errorf("%d %+v", code, all)
	}
}

// More than a program reads at once waits in the connection and arrives whole and in
// order.
//
// proves part of X-16
func TestSocketInputInOrderAsRoot(t *testing.T) {
	p := openPlace(t, nil)
	sub := python("import sys, time, hashlib\ntime.sleep(1)\ndata = sys.stdin.buffer.read()\nprint(len(data), hashlib.sha256(data).hexdigest())\n")
	sub.Interactive = true
	run := p.submit("", sub)
	w := p.dial(run.ID)
	w.say(api.ClientFrame{Type: "auth", Token: run.OwnerToken})
	var all bytes.Buffer
	for i := range 40 {
		piece := strings.Repeat(strconv.Itoa(i)+" ", 80_000/3)
		all.WriteString(piece)
		w.say(api.ClientFrame{Type: "stdin", Data: piece})
	}
	w.say(api.ClientFrame{Type: "stdin_close"})
	sum := sha256.Sum256(all.Bytes())
	want := strconv.Itoa(all.Len()) + " " + hex.EncodeToString(sum[:]) + "\n"
	if frames, _ := w.all(); all.Len() < 2<<20 || frames[len(frames)-1].Result == nil || frames[len(frames)-1].Result.Stdout != want {
		t.Errorf("%d bytes: %+v", all.Len(), frames[len(frames)-1])
	}
}

// A signal arrives at the program's handler.
//
// proves part of X-16
func TestSocketSignal(t *testing.T) {
	p := openPlace(t, nil)
	run := p.submit("", python("import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: (print('interrupted'), sys.exit(3)))\nprint('ready', flush=True)\ntime.sleep(50)\n"))
	w := p.dial(run.ID)
	w.say(api.ClientFrame{Type: "auth", Token: run.OwnerToken})
	w.until("chunk")
	w.refused(api.ClientFrame{Type: "signal", Name: "SIGNONE"}, api.CodeBadField)
	w.say(api.ClientFrame{Type: "signal", Name: "SIGINT"})
	all, _ := w.all()
	if r := all[len(all)-1].Result; r == nil || r.Verdict != api.Error || r.ExitCode == nil || *r.ExitCode != 3 || r.Stdout != "ready\ninterrupted\n" {
		t.Errorf("%+v", all[len(all)-1])
	}
}

// Who has a run's id reads it and nothing else: every control verb is refused over the
// socket and over HTTP, without a token, with a foreign one and with a wrong one. The
// control: with the owner's token the same words arrive.
//
// proves part of H-66 X-25
func TestSocketReadsOnly(t *testing.T) {
	p := openPlace(t, nil)
	sub := command("/bin/cat")
	sub.Interactive = true
	run, other := p.submit("", sub), p.submit("", command("/bin/true"))
	w := p.dial(run.ID)
	w.until("started")
	verbs := []api.ClientFrame{{Type: "stdin", Data: "from a stranger\n"}, {Type: "stdin", Base64: "eA=="}, {Type: "stdin_close"}, {Type: "signal", Name: "SIGKILL"}}
	for _, f := range verbs {
		w.refused(f, api.CodeUnauthorized)
	}
	w.refused(api.ClientFrame{Type: "auth", Token: other.OwnerToken}, api.CodeForbidden)
	for _, f := range verbs {
		w.refused(f, api.CodeUnauthorized)
	}
	for _, head := range [][]string{nil, {server.OwnerHeader, other.OwnerToken}, {server.OwnerHeader, credential.Owner.New()}} {
		want := 403
		if head == nil {
			want = 401
		}
		for _, v := range []struct {
			method, path string
			body         any
		}{{"POST", "/stdin", api.StdinBody{Data: "x"}}, {"POST", "/stdin", api.StdinBody{Close: true}}, {"POST", "/signal", api.SignalBody{Name: "SIGKILL"}}, {"DELETE", "", nil}} {
			if code, text := p.ask(v.method, "/v1/runs/"+run.ID+v.path, v.body, head...); code != want {
				t.Errorf("%s %s with %v: %d %s", v.method, v.path, head, code, text)
			}
		}
	}
	owner := p.dial(run.ID)
	owner.say(api.ClientFrame{Type: "auth", Token: run.OwnerToken})
	owner.say(api.ClientFrame{Type: "stdin", Data: "from the owner\n"})
	owner.say(api.ClientFrame{Type: "stdin_close"})
	all, code := w.all() // he still reads
	if r := all[len(all)-1].Result; code != websocket.StatusNormalClosure || r == nil || r.Verdict != api.OK || r.Stdout != "from the owner\n" {
		t.Errorf("%d %+v", code, all[len(all)-1])
	}
}

// Wrong tokens and frames that no client should send are refused one by one, and then
// the socket is closed; a good one among them does not help.
//
// proves part of H-66 H-54
func TestSocketFaults(t *testing.T) {
	p := openPlace(t, nil)
	run := p.submit("", command("/bin/sleep", "50"))
	w := p.dial(run.ID)
	for range 3 {
		w.refused(api.ClientFrame{Type: "auth", Token: credential.Owner.New()}, api.CodeForbidden)
	}
	if _, code := w.all(); code != websocket.StatusPolicyViolation {
		t.Errorf("wrong tokens: closed with %d", code)
	}
	w = p.dial(run.ID)
	w.say(api.ClientFrame{Type: "auth", Token: run.OwnerToken})
	bad := []string{``, `{}`, `null`, `[]`, `{"type":"auth"`, `{"type":"auth"} {}`, `{"type":"stdin","token":"x"}`, `{"type":"stdin_close","data":"x"}`,
		`{"TYPE":"stdin","data":"x"}`, `{"type":"stdin","data":"a","base64":"eA=="}`}
	for _, text := range bad {
		if err := w.conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if e := w.until("error"); e[len(e)-1].Code != api.CodeBadField && e[len(e)-1].Code != api.CodeBadRequest {
			t.Errorf("%s: %+v", text, e[len(e)-1])
		}
	}
	if _, code := w.all(); code != websocket.StatusPolicyViolation {
		t.Errorf("bad frames: closed with %d", code)
	}
	for name, f := range map[string]func(w *ws) error{
		"too large": func(w *ws) error {
			return w.conn.Write(t.Context(), websocket.MessageText, bytes.Repeat([]byte("x"), 5<<10))
		},
	} {
		w := p.dial(run.ID)
		if err := f(w); err != nil {
			t.Fatal(err)
		}
		if _, code := w.all(); code != websocket.StatusMessageTooBig {
			t.Errorf("%s: closed with %d", name, code)
		}
	}
	w = p.dial(run.ID)
	if err := w.conn.Write(t.Context(), websocket.MessageBinary, []byte(`{"type":"auth"}`)); err != nil {
		t.Fatal(err)
	}
	if e := w.until("error"); e[len(e)-1].Code != api.CodeBadRequest {
		t.Errorf("binary: %+v", e)
	}
	w.say(api.ClientFrame{Type: "auth", Token: run.OwnerToken})
	w.say(api.ClientFrame{Type: "signal", Name: "SIGKILL"}) // the control: it is heard after all
	if all, _ := w.all(); all[len(all)-1].Result == nil || all[len(all)-1].Result.Signal != "SIGKILL" {
		t.Errorf("%+v", all[len(all)-1])
	}
}

// What a program does not take is told: no standard input for one that is not
// interactive, and none after its end.
//
// proves part of X-16
func TestSocketInputRefused(t *testing.T) {
	p := openPlace(t, nil)
	run := p.submit("", command("/bin/sleep", "50"))
	w := p.dial(run.ID)
	w.say(api.ClientFrame{Type: "auth", Token: run.OwnerToken})
	w.refused(api.ClientFrame{Type: "stdin", Data: "x"}, api.CodeConflict)
	w.say(api.ClientFrame{Type: "signal", Name: "SIGTERM"})
	if _, code := w.all(); code != websocket.StatusNormalClosure {
		t.Error(code)
	}
}

// A flood of messages is slowed down, and the socket lives on.
//
// proves part of X-16
func TestSocketRateAsRoot(t *testing.T) {
	p := openPlace(t, nil)
	sub := command("/usr/bin/wc", "-c")
	sub.Interactive = true
	run := p.submit("", sub)
	w := p.dial(run.ID)
	w.say(api.ClientFrame{Type: "auth", Token: run.OwnerToken})
	w.until("started")
	began := time.Now()
	const n = 350
	for range n {
		w.say(api.ClientFrame{Type: "stdin", Data: "x"})
	}
	w.say(api.ClientFrame{Type: "stdin_close"})
	all, _ := w.all()
	if took := time.Since(began); took < 1400*time.Millisecond {
		t.Errorf("%d messages in %v", n, took)
	}
	if r := all[len(all)-1].Result; r == nil || strings.TrimSpace(r.Stdout) != strconv.Itoa(n) {
		t.Errorf("%+v", all[len(all)-1])
	}
}
