//go:build browser

package browser_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/service"
)

// link is a TCP proxy that can cut what goes through it.
type link struct {
	net.Listener
	to string

	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool
}

// through starts a service behind a listener of the test's, which it answers to.
func through(t *testing.T) (front net.Listener, to string) {
	t.Helper()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = front.Close() })
	return front, open(t, func(o *service.Options) { o.Server.Hosts = []string{front.Addr().String()} })
}

func (l *link) serve() {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if l.isDown() {
			_ = c.Close()
			continue
		}
		far, err := net.Dial("tcp", l.to)
		if err != nil {
			_ = c.Close()
			continue
		}
		l.mu.Lock()
		l.conns[c], l.conns[far] = true, true
		l.mu.Unlock()
		go func() { _, _ = io.Copy(far, c); _ = far.Close() }()
		go func() { _, _ = io.Copy(c, far); _ = c.Close() }()
	}
}

func (l *link) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// set cuts everything that is open, and lets new connections through or not.
func (l *link) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	for c := range l.conns {
		_ = c.Close()
		delete(l.conns, c)
	}
}

// A connection that breaks costs nothing: the page says so, goes on behind what it has,
// shows nothing twice, and what is typed meanwhile gets there.
//
// proves part of X-22
func TestReconnectOnChromium(t *testing.T) {
	front, to := through(t)
	l := &link{Listener: front, to: to, conns: map[net.Conn]bool{}}
	go l.serve()
	p := visit(t, front.Addr().String(), "/").ready()
	p.program("python", "main.py", asks)
	p.click("#input summary")
	p.click("#interactive")
	p.run()
	p.sees("#screen", "one")
	for _, word := range []string{"alpha", "beta", "gamma"} {
		l.set(true)
		p.sees("#state", "The connection is lost")
		l.set(false)
		p.until(`!document.getElementById("state").textContent.includes("lost")`)
		p.set("#line", word)
		p.click(`#typing button[type="submit"]`)
		p.sees("#screen", "heard "+word)
	}
	l.set(false) // cut, and nobody is told
	p.click("#eof")
	p.ended("It ran to its end.")
	if s := p.stdout(); s != "one\nheard alpha\nheard beta\nheard gamma\n" {
		t.Errorf("standard output is shown as %q", s)
	}
}

// A run that is over before the stream is asked for is shown whole.
//
// proves X-22
// proves part of X-16
func TestFinishedBeforeTheStreamOnChromium(t *testing.T) {
	front, to := through(t)
	target, err := url.Parse("http://" + to)
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if run, ok := strings.CutSuffix(r.URL.Path, "/events"); ok { // when it has ended, and no sooner
			if a, err := http.Get(target.String() + run + "?wait=20s"); err == nil {
				body, _ := io.ReadAll(a.Body)
				_ = a.Body.Close()
				if strings.Contains(string(body), `"finished"`) {
					late++
				}
			}
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = s.Serve(front) }()
	t.Cleanup(func() { _ = s.Close() })
	p := visit(t, front.Addr().String(), "/").ready()
	p.program("bash", "main.sh", "echo quick; echo as a flash >&2")
	p.run()
	p.ended("It ran to its end.")
	p.sees("#screen .stdout", "quick")
	p.sees("#screen .stderr", "as a flash")
	if late != 1 {
		t.Errorf("%d streams began after the end", late)
	}
	p.open("/") // and again, when the tab is loaded anew
	p.ended("It ran to its end.")
	p.sees("#screen .stdout", "quick")
	p.clean()
}
