package client_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/client"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// Events come as they happen, and the ends of standard input are the program's.
//
// proves part of X-16
func TestInteractiveAsRoot(t *testing.T) {
	_, url := open(t, service.Options{})
	c := dial(t, client.Options{URL: url})
	r, err := c.Start(t.Context(), api.Program{Language: "bash", Source: "while read -r a; do echo got $a; done; echo end", Stdin: []byte("zero\n")},
		client.WithStdinPipe(), client.WithEventStream())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	n := 0
	for f := range r.Events() {
		if f.Type != "chunk" {
			continue
		}
		out.WriteString(f.Data)
		if strings.Count(out.String(), "\n") != n+1 {
			continue
		}
		if n++; n <= 3 { // an answer for each line before the next is written
			if _, err := fmt.Fprintln(r.Stdin(), n); err != nil {
				t.Fatal(err)
			}
		} else if err := r.Stdin().Close(); err != nil {
			t.Fatal(err)
		}
	}
	result, err := r.Wait()
	if want := "got zero\ngot 1\ngot 2\ngot 3\nend\n"; err != nil || result.Stdout != want || out.String() != want {
		t.Errorf("%q %+v %v", out.String(), result, err)
	}
	if _, err := r.Stdin().Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// A reader is sent whole, in order, whatever the program reads at a time; a signal
// comes too.
func TestStdinAndSignalAsRoot(t *testing.T) {
	_, url := open(t, service.Options{})
	c := dial(t, client.Options{URL: url})
	for _, size := range []int{0, 10, 3 << 20} {
		in := io.LimitReader(&pattern{}, int64(size))
		result, err := c.Run(t.Context(), api.Program{Command: []string{"/usr/bin/sha256sum"}}, client.WithStdin(in))
		if err != nil || result.Stdout != sum(io.LimitReader(&pattern{}, int64(size)))+"  -\n" {
			t.Errorf("%d bytes: %+v %v", size, result, err)
		}
	}
	r, err := c.Start(t.Context(), api.Program{Language: "bash", Source: "trap 'echo caught; exit 3' USR1; echo ready; while :; do read -t 0.05 x; done"},
		client.WithStdinPipe(), client.WithEventStream())
	if err != nil {
		t.Fatal(err)
	}
	for f := range r.Events() {
		if f.Type == "chunk" && f.Data == "ready\n" {
			if err := r.Signal("SIGUSR1"); err != nil {
				t.Error(err)
			}
		}
	}
	if result, err := r.Wait(); err != nil || result.ExitCode == nil || *result.ExitCode != 3 || result.Stdout != "ready\ncaught\n" {
		t.Errorf("%+v %v", result, err)
	}
	if err := r.Signal("SIGUSR1"); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v", err)
	}
}

// Whatever is cut off wherever, every event comes once and in order, and the program
// runs once.
//
// proves part of X-16
func TestCutConnectionsAsRoot(t *testing.T) {
	p := proxy(t)
	p.behind(t, service.Options{})
	p.cut.Store(700)
	c := dial(t, client.Options{URL: p.url, Patience: time.Minute})
	const lines = 60
	source := fmt.Sprintf("import time\nfor i in range(%d):\n  print('line', i, flush=True); time.sleep(0.01)\nopen('left', 'w').write('x' * 50000)", lines)
	r, err := c.Start(t.Context(), api.Program{Language: "python", Source: source, Artifacts: []string{"left"}}, client.WithEventStream())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	last, finals := uint64(0), 0
	for f := range r.Events() {
		if f.Seq > 0 && f.Seq <= last {
			t.Errorf("event %d after %d", f.Seq, last)
		}
		last = max(last, f.Seq)
		switch f.Type {
		case "chunk":
			out.WriteString(f.Data)
		case "finished":
			finals++
		}
	}
	result, err := r.Wait()
	if err != nil || out.String() != result.Stdout || strings.Count(out.String(), "\n") != lines || finals != 1 {
		t.Errorf("%q, %d finals, %+v %v", out.String(), finals, result, err)
	}
	file, err := r.Artifact(t.Context(), "left")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, file); n != 50000 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if n := p.cuts.Load(); n < 4 {
		t.Errorf("only %d connections were cut", n)
	}
	t.Logf("%d connections cut", p.cuts.Load())
}

// A submission whose answer is lost is one run.
func TestLostAnswerAsRoot(t *testing.T) {
	p := proxy(t)
	direct := p.behind(t, service.Options{})
	p.cut.Store(5)
	var told atomic.Int32
	c := dial(t, client.Options{URL: p.url, Retrying: func(error, time.Duration) {
		if told.Add(1) == 3 {
			p.cut.Store(1 << 30)
		}
	}})
	result, err := c.Run(t.Context(), api.Program{Command: []string{"/bin/date", "+%N"}})
	if err != nil || result.Verdict != api.OK {
		t.Fatalf("%+v %v", result, err)
	}
	if told.Load() < 3 {
		t.Error("no answer was lost")
	}
	if n := finished(t, direct); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// proxied is a proxy of connections that it cuts.
type proxied struct {
	url  string
	addr string
	to   atomic.Value // string
	cut  atomic.Int64 // how many bytes of answers a connection carries; grows by half with each
	cuts atomic.Int64
}

// proxy starts one.
func proxy(t *testing.T) *proxied {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxied{addr: l.Addr().String(), url: "http://" + l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.carry(in) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return p
}

// behind starts a service that is reached through the proxy alone.
func (p *proxied) behind(t *testing.T, o service.Options) (direct string) {
	o.Server.Hosts = append(o.Server.Hosts, p.addr)
	_, direct = open(t, o)
	p.to.Store(strings.TrimPrefix(direct, "http://"))
	return direct
}

// carry carries one connection until it is cut.
func (p *proxied) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", p.to.Load().(string))
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	n := p.cut.Load()
	sent, _ := io.CopyN(in, out, n)
	if sent == n {
		p.cuts.Add(1)
		p.cut.Store(n + n/2)
	}
}

// finished is how many runs of a service have come to a final event.
func finished(t *testing.T, url string) (n int) {
	t.Helper()
	a, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^glovebox_runs_finished_total\{.*\} (\d+)$`).FindAllStringSubmatch(string(text), -1) {
		k, _ := strconv.Atoi(m[1])
		n += k
	}
	return n
}

// pattern is bytes that tell where they are.
type pattern struct{ at byte }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		p.at = p.at*7 + 11
		b[i] = p.at
	}
	return len(b), nil
}

func sum(r io.Reader) string {
	h := sha256.New()
	_, _ = io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil))
}
