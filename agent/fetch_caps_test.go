package agent

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// bomb is gzip of n zeros.
func bomb(t *testing.T, n int) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.CopyN(z, zeros{}, int64(n)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestFetchCaps: what is too large, compressed, too slow or too often ends with
// its kind, whatever the site does. The controls are the same sites within the
// caps, and a plain client that unpacks the bomb.
// Long because of its site.
//
// proves part of S-16
func TestFetchCaps(t *testing.T) {
	packed := bomb(t, 64<<20)
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/declared":
			w.Header().Set("Content-Length", "1001")
		case "/stream":
			_, _ = io.CopyN(w, zeros{}, 1001)
		case "/exact":
			_, _ = io.CopyN(w, zeros{}, 1000)
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed)
		case "/head":
			for i := range 300 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("a", 1000))
			}
		case "/slow", "/drip":
			_ = http.NewResponseController(w).Flush()
			for i := 0; r.URL.Path == "/drip" && i < 1000; i++ {
				_, _ = w.Write([]byte("x"))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
			<-r.Context().Done()
		case "/mute":
			<-r.Context().Done()
		}
	})
	base := s.origin("api.test")
	f := newFetcher(t, FetchOptions{Rules: []FetchRule{everything(base)}, MaxResponseBytes: 1000})
	for path, kind := range map[string]FetchKind{"/declared": FetchTooLarge, "/stream": FetchTooLarge, "/bomb": FetchEncoding, "/head": FetchNetwork} {
		_, err := f.Fetch(t.Context(), base+path, &FetchInit{})
		wantKind(t, path, err, kind)
	}
	if got, err := f.Fetch(t.Context(), base+"/exact", &FetchInit{}); err != nil || len(got.Body) != 1000 {
		t.Errorf("the control /exact: %v", err)
	}
	resp, err := http.Get(s.URL + "/bomb")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if _ = resp.Body.Close(); n != 64<<20 || err != nil {
		t.Errorf("the control /bomb: %d bytes, %v", n, err)
	}

	quick := newFetcher(t, FetchOptions{Rules: []FetchRule{everything(base)}, TimeoutMS: 200})
	for _, path := range []string{"/slow", "/drip", "/mute"} {
		start := time.Now()
		_, err := quick.Fetch(t.Context(), base+path, &FetchInit{})
		wantKind(t, path, err, FetchTimeout)
		if d := time.Since(start); d < 200*time.Millisecond || d > 5*time.Second {
			t.Errorf("%s took %v", path, d)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = quick.Fetch(ctx, base+"/mute", &FetchInit{})
	wantKind(t, "given up", err, FetchCanceled)
}

// TestFetchBudgets: the caps of a Fetcher's life.
//
// proves part of S-16
func TestFetchBudgets(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, zeros{}, 600) })
	base := s.origin("api.test")
	f := newFetcher(t, FetchOptions{Rules: []FetchRule{everything(base)}, MaxRequests: 3})
	var wg sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for range 10 {
		wg.Go(func() {
			if _, err := f.Fetch(t.Context(), base+"/", &FetchInit{}); err != nil {
				wantKind(t, "the fourth", err, FetchBudget)
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n, _ := f.Requests(); n != 3 || refused != 7 || len(s.requests()) != 3 {
		t.Errorf("%d requests, %d refused, %d arrived", n, refused, len(s.requests()))
	}
	f = newFetcher(t, FetchOptions{Rules: []FetchRule{everything(base)}, MaxTotalBytes: 1000})
	if _, err := f.Fetch(t.Context(), base+"/", &FetchInit{}); err != nil {
		t.Errorf("the first 600 bytes of 1000: %v", err)
	}
	for range 2 {
		_, err := f.Fetch(t.Context(), base+"/", &FetchInit{})
		wantKind(t, "the second 600", err, FetchBudget)
	}
	if got := len(s.requests()); got != 5 {
		t.Errorf("%d requests arrived, want 5: the last must not be begun", got)
	}
}

// A site that answers with another protocol, with nothing, or without end.
func TestFetchBadSites(t *testing.T) {
	for name, answer := range map[string]string{
		"switch":         "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"nothing":        "",
		"no HTTP":        "SSH-2.0-OpenSSH_9\r\n",
		"two lengths":    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
		"cut short":      "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxx",
		"bad chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"early hints":    strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 10_000),
		"unasked coding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte(answer))
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}()
		f := newFetcher(t, FetchOptions{Rules: []FetchRule{everything("http://" + l.Addr().String())}, TimeoutMS: 5000})
		_, err = f.Fetch(t.Context(), "http://"+l.Addr().String()+"/", &FetchInit{})
		wantKind(t, name, err, FetchNetwork)
		_ = l.Close()
		<-served
	}
}

// proxied is what reached the proxy that the environment of the tests names.
var proxied atomic.Int64

// TestMain names a proxy to everybody who looks for one. net/http does so once.
func TestMain(m *testing.M) {
	if what := os.Getenv(bombVar); what != "" {
		bombChild(what)
		return
	}
	testenv.Deselect()
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	for _, name := range []string{"HTTP_PROXY", "http_proxy"} {
		if err := os.Setenv(name, proxy.URL); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	proxy.Close()
	os.Exit(code)
}

// TestFetchProxy: a proxy of the environment is not heeded. What the default
// transport does with it is the control.
func TestFetchProxy(t *testing.T) {
	s := newSite(t, nil)
	f := newFetcher(t, FetchOptions{Rules: []FetchRule{everything(s.origin("api.test"))}})
	if _, err := f.Fetch(t.Context(), s.origin("api.test")+"/", &FetchInit{}); err != nil || proxied.Load() != 0 || len(s.requests()) != 1 {
		t.Errorf("%v; the proxy got %d", err, proxied.Load())
	}
	if resp, err := http.Get(s.origin("api.test") + "/"); err != nil || proxied.Load() != 1 {
		t.Errorf("the control: %v; the proxy got %d", err, proxied.Load())
	} else {
		_ = resp.Body.Close()
	}
}

// TestFetchTLS: a certificate counts for its names and from known authorities.
func TestFetchTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	known, named := "https://example.com:"+port, "https://other.test:"+port
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	rules := []FetchRule{everything(known), everything(named)}
	f := newFetcher(t, FetchOptions{Rules: rules, RootCAs: pool})
	if got, err := f.Fetch(t.Context(), known+"/", &FetchInit{}); err != nil || got.Body != "HTTP/1.1" {
		t.Errorf("the control: %+v, %v", got, err)
	}
	_, err := f.Fetch(t.Context(), named+"/", &FetchInit{})
	wantKind(t, "another name", err, FetchNetwork)
	_, err = newFetcher(t, FetchOptions{Rules: rules}).Fetch(t.Context(), known+"/", &FetchInit{})
	wantKind(t, "an unknown authority", err, FetchNetwork)
}
