package server_test

import (
	"fmt"
	"io"
	"iter"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/server"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// Every handshake is judged by its Origin before it becomes a WebSocket: pages of other
// sites get 403, whatever they call themselves, those of this service and of those that
// it lists get 101, and who is no page gets 101 and may read. A handshake that is none
// gets 426 or 400. The same holds for the server-sent events.
//
// proves part of X-16 X-26 H-67
func TestStreamOrigins(t *testing.T) {
	p := openPlace(t, func(o *service.Options) { o.Server.Origins = []string{"https://friend.example"} })
	run := p.submit("?wait=20s", command("/bin/true"))
	path := "/v1/runs/" + run.ID + "/stream"
	for _, c := range []struct {
		origin string
		want   int
	}{
		{"https://evil.example", 403}, {"null", 403}, {"http://localhost.evil.example", 403}, {"http://127.0.0.1.evil.example", 403},
		{"http://evil.example/?http://localhost", 403}, {"HTTP://EVIL.EXAMPLE", 403}, {"file://", 403}, {"http://127.0.0.1:1", 403},
		{"https://SELF", 403}, {"http://SELF.", 403}, {"http://SELF/", 403}, {"http://SELF@evil.example", 403}, {"", 403}, {"http://user@SELF", 403},
		{"https://friend.example.evil.example", 403}, {"http://friend.example", 403},
		{"http://SELF", 101}, {"HTTP://SELF", 101}, {"https://friend.example", 101},
	} {
		if got, _ := p.status(path, append(slices.Clone(upgrade), "Origin: "+c.origin)...); got != c.want {
			t.Errorf("Origin %q: %d, not %d", c.origin, got, c.want)
		}
		want := c.want
		if want == 101 {
			want = 200
		}
		if got, _ := p.status("/v1/runs/"+run.ID+"/events", "Host: SELF", "Origin: "+c.origin); got != want {
			t.Errorf("events: Origin %q: %d, not %d", c.origin, got, want)
		}
	}
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"no Origin":               {upgrade, 101},
		"one of two is foreign":   {append(slices.Clone(upgrade), "Origin: http://SELF", "Origin: https://evil.example"), 403},
		"a page without Origin":   {append(slices.Clone(upgrade), "Sec-Fetch-Site: cross-site"), 403},
		"another Host":            {replaced("Host: ", "Host: evil.example"), 421},
		"version 12":              {replaced("Sec-WebSocket-Version", "Sec-WebSocket-Version: 12"), 426},
		"version 13, 8":           {replaced("Sec-WebSocket-Version", "Sec-WebSocket-Version: 13, 8"), 426},
		"no version":              {replaced("Sec-WebSocket-Version", ""), 426},
		"no key":                  {replaced("Sec-WebSocket-Key", ""), 400},
		"a short key":             {replaced("Sec-WebSocket-Key", "Sec-WebSocket-Key: AAEC"), 400},
		"two keys":                {append(slices.Clone(upgrade), upgrade[4]), 400},
		"Upgrade, no Connection":  {replaced("Connection", ""), 400},
		"Connection, no Upgrade":  {replaced("Upgrade", ""), 426},
		"another protocol":        {replaced("Upgrade", "Upgrade: h2c"), 426},
		"neither":                 {[]string{"Host: SELF"}, 426},
		"foreign and no version":  {append(replaced("Sec-WebSocket-Version", ""), "Origin: https://evil.example"), 403},
		"foreign, an unknown run": {append(slices.Clone(upgrade), "Origin: null"), 403},
	} {
		at := path
		if strings.HasSuffix(name, "unknown run") {
			at = "/v1/runs/" + strings.Repeat("0", 32) + "/stream"
		}
		got, head := p.status(at, c.lines...)
		if got != c.want || got == 426 && head.Get("Sec-WebSocket-Version") != "13" {
			t.Errorf("%s: %d, not %d, %v", name, got, c.want, head)
		}
	}
	// No Origin: reading only, until the token is shown (TestSocketReadsOnly).
	w := p.dial(p.submit("", command("/bin/sleep", "5")).ID)
	w.refused(api.ClientFrame{Type: "stdin", Data: "x"}, api.CodeUnauthorized)
}

// replaced is a handshake with one line replaced, or left out.
func replaced(prefix, line string) (lines []string) {
	for _, l := range upgrade {
		if strings.HasPrefix(l, prefix) {
			l = line
		}
		if l != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// flood prints as much as a run may have.
func flood() api.Submission {
	sub := python("import os\nwhile True: os.write(1, b'x' * 65535 + b'\\n')\n")
	sub.Limits = glovebox.Limits{StdoutBytes: 4 << 20, WallMS: 50_000, CPUMS: 50_000}
	return sub
}

// heap is how much of it is in use, after what is not was found.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// growth opens ten streams that never read, with the smallest windows, on a run that
// floods, ten on one that has, and one that reads a byte a second. It returns how much the heap has grown
// when the run is over and they hold what they may.
func growth(t *testing.T, p *place) (grown int64, slow []*net.TCPConn) {
	t.Helper()
	warm := p.submit("", flood()) // what the store and the cells keep has its size then
	p.end(warm.ID)
	p.events(warm.ID).all()
	hold := p.submit("", command("/bin/sleep", "1")) // the flood waits until all are there
	run := p.submit("", flood())
	before := heap()
	for i := range 20 {
		id := run.ID
		if i >= 10 {
			id = warm.ID // one that is over has everything for them at once
		}
		at, lines := "/v1/runs/"+id+"/stream", upgrade
		if i%2 == 1 {
			at, lines = "/v1/runs/"+id+"/events", []string{"Host: SELF"}
		}
		c, _ := p.raw(at, lines...)
		slow = append(slow, c)
	}
	stop := make(chan struct{})
	var trickle sync.WaitGroup
	trickle.Go(func() {
		c, in := p.raw("/v1/runs/"+run.ID+"/stream", upgrade...)
		defer c.Close()
		for tick := time.NewTicker(time.Second); ; {
			if _, err := in.ReadByte(); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() { close(stop); trickle.Wait() })
	p.end(hold.ID)
	if r := p.end(run.ID); r.Verdict != api.OutputLimit || len(r.Stdout) != 4<<20 {
		t.Fatalf("%s, %d bytes", r.Verdict, len(r.Stdout))
	}
	return heap() - before, slow
}

// A client who never reads holds no memory of the server while the program floods, and
// is dropped as too slow after the time for one message; one who reads a byte a second
// is no better. Others see everything meanwhile. The control: streams that keep what
// their client has not read grow by all of it.
//
// proves part of X-16 H-46 H-47
func TestStreamSlowReadersAsRoot(t *testing.T) {
	change := func(o *service.Options) {
		o.Slots, o.Admission.SocketsPerRun = 1, 50
		o.Box.MaxLimits.StdoutBytes = 4 << 20
	}
	p := openPlace(t, change)
	began := time.Now()
	grown, slow := growth(t, p)
	t.Logf("21 slow readers: the heap grew by %d KiB", grown>>10)
	if grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	fine := p.submit("", command("/bin/echo", "others"))
	if all, code := p.dial(fine.ID).all(); code != websocket.StatusNormalClosure || all[len(all)-1].Result.Stdout != "others\n" {
		t.Errorf("%d %+v", code, all)
	}
	soon(t, "slow readers are dropped", 25*time.Second, func() bool { return p.gauge("streams_open") == 0 })
	t.Logf("dropped after %v", time.Since(began))
	for _, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := io.Copy(io.Discard, c)
		if isTimeout(err) || n > 2<<20 {
			t.Errorf("%d bytes, then %v", n, err)
		}
	}
	p.close()

	q := openPlace(t, func(o *service.Options) {
		change(o)
		server.WrapSource(&o.Server, hoard)
	})
	if grown, _ := growth(t, q); grown < 16<<20 {
		t.Errorf("control: streams that keep everything grew by %d bytes", grown)
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// hoard is a source that keeps what is not read yet, as a server that sends without
// waiting would.
func hoard(from iter.Seq2[queue.Event, error]) iter.Seq2[queue.Event, error] {
	return func(yield func(queue.Event, error) bool) {
		var mu sync.Mutex
		var all []queue.Event
		var failed error
		more, done := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range from {
				mu.Lock()
				all, failed = append(all, e), err
				mu.Unlock()
				select {
				case more <- struct{}{}:
				default:
				}
			}
		}()
		for n := 0; ; {
			mu.Lock()
			if n < len(all) {
				e, err := all[n], failed
				mu.Unlock()
				if n++; !yield(e, err) {
					<-done
					return
				}
				continue
			}
			mu.Unlock()
			select {
			case <-more:
			case <-done:
				return
			}
		}
	}
}

// gauge is the sum of a metric over its labels.
func (p *place) gauge(name string) (sum float64) {
	p.t.Helper()
	_, text := p.ask("GET", "/metrics", nil)
	found := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "glovebox_"+name+"{") || strings.HasPrefix(line, "glovebox_"+name+" ") {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
				p.t.Fatal(line, err)
			}
			found = true
			sum += v
		}
	}
	if !found {
		p.t.Fatalf("no metric %s", name)
	}
	return sum
}

// A hundred clients watch one run, half of each kind, and each sees all of it in order.
//
// proves part of X-16
func TestStreamHundredWatchersAsRoot(t *testing.T) {
	p := openPlace(t, func(o *service.Options) { o.Admission.SocketsPerRun, o.Admission.SocketsPerClient = 100, 100 })
	sub := python("import time\nfor i in range(300): print(i, flush=True); time.sleep(0.005)\n")
	sub.Limits.WallMS = 50_000
	run := p.submit("", sub)
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintln(&want, i)
	}
	began := time.Now()
	var all sync.WaitGroup
	var good atomic.Int64
	for i := range 100 {
		all.Go(func() {
			var frames []api.Frame
			if i%2 == 0 {
				frames, _ = p.dial(run.ID).all()
			} else {
				frames = framesOf(p.events(run.ID).all())
			}
			if out, types := output(frames); out == want.String() && types[len(types)-1] == "finished" {
				good.Add(1)
			}
		})
	}
	end := p.end(run.ID)
	ended := time.Now()
	all.Wait()
	t.Logf("the run took %.0f ms, the last of a hundred saw its end %v after it, %v after the first came", end.WallMS, time.Since(ended), time.Since(began))
	if good.Load() != 100 {
		t.Errorf("%d of 100 saw all", good.Load())
	}
}

// One more than may watch a run is told to come later, and another run is not concerned.
//
// proves part of H-46 X-17
func TestStreamShares(t *testing.T) {
	p := openPlace(t, func(o *service.Options) { o.Admission.SocketsPerRun = 10 })
	run, other := p.submit("", command("/bin/sleep", "50")), p.submit("", command("/bin/sleep", "50"))
	var open []*ws
	for range 10 {
		open = append(open, p.dial(run.ID))
	}
	for _, kind := range []string{"/stream", "/events"} {
		lines := upgrade
		code, head := p.status("/v1/runs/"+run.ID+kind, lines...)
		if code != 429 || head.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v", kind, code, head)
		}
	}
	if code, _ := p.status("/v1/runs/"+other.ID+"/stream", upgrade...); code != 101 {
		t.Errorf("another run: %d", code)
	}
	_ = open[0].conn.CloseNow()
	soon(t, "the place is free", 2*time.Second, func() bool {
		code, _ := p.status("/v1/runs/"+run.ID+"/stream", upgrade...)
		return code == 101
	})
}

// The service's end closes sockets with 1001 and breaks off events, soon, also of
// clients who do not read.
//
// proves part of X-16
func TestStreamShutdownAsRoot(t *testing.T) {
	p := openPlace(t, func(o *service.Options) { o.Slots = 1 })
	p.submit("", command("/bin/sleep", "50"))
	waits := p.submit("", command("/bin/sleep", "50"))
	w := p.dial(waits.ID)
	w.until("queued")
	s := p.events(waits.ID)
	s.next()
	dead, in := p.raw("/v1/runs/"+waits.ID+"/stream", upgrade...)
	awaitText(t, in, `"queued"`)
	defer dead.Close()
	closed := make(chan websocket.StatusCode, 1)
	go func() {
		_, code := w.all()
		closed <- code
	}()
	began := time.Now()
	svc := p.svc
	p.svc = nil
	p.http.CloseIdleConnections()
	if err := svc.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %v", took)
	}
	if code := <-closed; code != websocket.StatusGoingAway {
		t.Errorf("closed with %d", code)
	}
	if _, err := s.in.ReadString('\n'); err == nil {
		t.Error("events go on")
	}
}

// A client who answers no ping is gone; one who does is kept.
//
// proves part of X-16
func TestStreamPingAsRoot(t *testing.T) {
	p := openPlace(t, func(o *service.Options) { server.SetHeartbeat(&o.Server, 300*time.Millisecond) })
	run := p.submit("", command("/bin/sleep", "4"))
	alive := p.dial(run.ID)
	alive.until("started")
	silent, in := p.raw("/v1/runs/"+run.ID+"/stream", upgrade...)
	awaitText(t, in, `"started"`)
	began := time.Now()
	_ = silent.SetReadDeadline(began.Add(20 * time.Second))
	ended := make(chan time.Duration, 1)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		ended <- time.Since(began)
	}()
	all, code := alive.all()
	if r := all[len(all)-1].Result; code != websocket.StatusNormalClosure || r == nil || r.Verdict != api.OK {
		t.Errorf("%d %+v", code, all[len(all)-1])
	}
	if took := <-ended; took > 3*time.Second {
		t.Errorf("the silent one was there for %v", took)
	}
}
