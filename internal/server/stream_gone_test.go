package server_test

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// reset closes a connection by RST.
func reset(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// A client who is gone leaves his run to its limits: it goes on, can be joined again, and
// ends with its whole tree by its wall limit; then its slot is free.
//
// proves part of X-16 X-17
func TestStreamClientGoneRunGoesOnAsRoot(t *testing.T) {
	p := openPlace(t, func(o *service.Options) { o.Slots = 1 })
	sub := api.Submission{Program: glovebox.Program{Language: "bash", Source: "echo begun\nsleep 60 & sleep 60\n", Limits: glovebox.Limits{WallMS: 4000}}}
	run := p.submit("", sub)
	c, in := p.raw("/v1/runs/"+run.ID+"/stream", upgrade...)
	awaitText(t, in, "begun")
	reset(t, c)
	soon(t, "the stream is gone at once", 2*time.Second, func() bool { return p.gauge("streams_open") == 0 })
	w := p.dial(run.ID)
	all := w.until("chunk")
	if out, types := output(all); out != "begun\n" || types[0] != "started" {
		t.Errorf("joined again: %q %v", out, types)
	}
	rest, code := w.all()
	r := rest[len(rest)-1].Result
	if code != websocket.StatusNormalClosure || r == nil || r.Verdict != api.Timeout || r.Cause != "wall" {
		t.Fatalf("%d %+v", code, rest[len(rest)-1])
	}
	if next := p.submit("?wait=20s", command("/bin/true")); next.Result == nil || next.Result.Verdict != api.OK {
		t.Errorf("the slot is not free: %+v", next)
	}
	if n := sleepers(t); n != 0 {
		t.Errorf("%d processes of the run are left", n)
	}
}

// sleepers counts the processes of the run above.
func sleepers(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && string(line) == "sleep\x0060\x00" && inCell(e.Name()) {
			n++
		}
	}
	return n
}

// inCell tells whether a process is in a pid namespace below this one, of this program.
func inCell(pid string) bool {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ns, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(ns)) > 1
		}
	}
	return false
}

func awaitText(t *testing.T, in *bufio.Reader, text string) {
	t.Helper()
	var all []byte
	for !strings.Contains(string(all), text) {
		b, err := in.ReadByte()
		if err != nil {
			t.Fatalf("%q %v", all, err)
		}
		all = append(all, b)
	}
}

// frame is a client's message as it is on the wire, masked with zeroes.
func frame(t *testing.T, f api.ClientFrame) []byte {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil || len(data) > 125 {
		t.Fatal(err, len(data))
	}
	return append([]byte{0x81, 0x80 | byte(len(data)), 0, 0, 0, 0}, data...)
}

// When the only client who could type has gone, half closed or reset, the program's
// standard input ends after the grace; who comes back in time types on. Readers are no
// such clients. A program that heeds no end of input has its wall limit.
//
// proves part of X-16 X-25
func TestStreamOwnerGoneInputEndsAsRoot(t *testing.T) {
	const grace = 700 * time.Millisecond
	p := openPlace(t, func(o *service.Options) { o.Server.StdinGrace = grace })
	for name, leave := range map[string]func(net.Conn){
		"half closed": func(c net.Conn) {
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		},
		"reset": func(c net.Conn) { reset(t, c) },
	} {
		sub := python("import sys\nprint('up', flush=True)\nfor line in sys.stdin: print('got', line.strip(), flush=True)\nprint('end')\n")
		sub.Interactive = true
		run := p.submit("", sub)
		reader := p.dial(run.ID)
		join := func(text string) net.Conn {
			c, in := p.raw("/v1/runs/"+run.ID+"/stream", upgrade...)
			for _, f := range []api.ClientFrame{{Type: "auth", Token: run.OwnerToken}, {Type: "stdin", Data: text + "\n"}} {
				if _, err := c.Write(frame(t, f)); err != nil {
					t.Fatal(err)
				}
			}
			awaitText(t, in, "got "+text)
			return c
		}
		leave(join("one"))
		back := join("two") // before the grace is over
		time.Sleep(2 * grace)
		if code, text := p.ask("GET", "/v1/runs/"+run.ID, nil); code != 200 || !strings.Contains(text, `"running"`) {
			t.Errorf("%s: somebody came back: %s", name, text)
		}
		left := time.Now()
		leave(back)
		all, _ := reader.all()
		took := time.Since(left)
		if r := all[len(all)-1].Result; r == nil || r.Verdict != api.OK || r.Stdout != "up\ngot one\ngot two\nend\n" || took < grace/2 || took > grace+5*time.Second {
			t.Errorf("%s: after %v %+v", name, took, all[len(all)-1])
		}
	}
	// The control: who only reads may go.
	sub := command("/bin/cat")
	sub.Interactive = true
	run := p.submit("", sub)
	c, in := p.raw("/v1/runs/"+run.ID+"/stream", upgrade...)
	awaitText(t, in, `"started"`)
	reset(t, c)
	time.Sleep(2 * grace)
	if code, text := p.ask("GET", "/v1/runs/"+run.ID, nil); code != 200 || !strings.Contains(text, `"running"`) {
		t.Errorf("a reader has gone: %s", text)
	}
}

// Clients who have gone, however they went, leave no goroutine and no descriptor, at
// once and after the service's end.
//
// proves part of X-16 X-09
func TestStreamClientsGoneLeaveNothing(t *testing.T) {
	leaks, fd0 := goleak.IgnoreCurrent(), descriptors(t)
	p := openPlace(t, func(o *service.Options) {
		o.Slots, o.Admission.SocketsPerRun, o.Admission.SocketsPerClient = 1, 200, 200
	})
	holder, run := p.submit("", command("/bin/sleep", "50")), p.submit("", command("/bin/sleep", "50"))
	first := p.dial(holder.ID)
	first.until("stats")
	_ = first.conn.CloseNow()
	soon(t, "the first is gone", 2*time.Second, func() bool { return p.gauge("streams_open") == 0 })
	p.http.CloseIdleConnections()
	go1, fd1 := runtime.NumGoroutine(), descriptors(t)
	var open []*net.TCPConn
	for i := range 120 {
		at, lines := "/v1/runs/"+run.ID+"/stream", upgrade
		if i%2 == 1 {
			at, lines = "/v1/runs/"+run.ID+"/events", []string{"Host: SELF"}
		}
		c, in := p.raw(at, lines...)
		awaitText(t, in, `"queued"`) // nothing is written to him now that could find out
		open = append(open, c)
	}
	if n := p.gauge("streams_open"); n != 120 {
		t.Fatalf("%v streams are open", n)
	}
	for i, c := range open {
		if i%3 == 0 {
			reset(t, c)
		} else {
			_ = c.Close()
		}
	}
	soon(t, "no stream is left", 2*time.Second, func() bool { return p.gauge("streams_open") == 0 })
	defer func() {
		if t.Failed() {
			t.Logf("%d goroutines, %d before; %d descriptors, %d before", runtime.NumGoroutine(), go1, descriptors(t), fd1)
		}
	}()
	soon(t, "goroutines and descriptors are as before", 5*time.Second, func() bool {
		p.http.CloseIdleConnections()
		return runtime.NumGoroutine() <= go1+20 && descriptors(t) <= fd1+20 // of 480 and 120; the store has its own
	})
	p.close()
	soon(t, "descriptors are as before the service", 5*time.Second, func() bool { return descriptors(t) <= fd0 })
	if err := goleak.Find(leaks); err != nil {
		t.Error(err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
