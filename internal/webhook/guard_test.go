package webhook

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/egress"
)

// TestAddresses: a listed name that leads to an address that is not public gets
// nothing, whatever the form, and is not tried again. The control of each that means
// loopback: with that address allowed, it arrives.
//
// proves part of H-68 S-16
func TestAddresses(t *testing.T) {
	r := newReceiver(t, nil)
	arrived := 0
	for _, a := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
		"2002:7f00:1::", "2001::1", "100.100.100.200", "168.63.129.16", "0.0.0.0", "::", "fd00:ec2::254", "fe80::1", "fe80::1%lo", "224.0.0.1", "255.255.255.255"} {
		w := newWorld(t, r, Options{Resolver: names(a), AllowAddresses: []netip.Prefix{}})
		w.run(r.url())
		w.want(Queued, Failed)
		if got := len(r.requests()); got != arrived {
			t.Fatalf("%s: %d arrived", a, got-arrived)
		}
		if addr := netip.MustParseAddr(a).Unmap(); addr == netip.MustParseAddr("127.0.0.1") {
			on := newWorld(t, r, Options{Resolver: names(a)})
			on.run(r.url())
			on.want(Queued, Delivered)
			arrived++
		}
	}
	// One bad address among good ones refuses all.
	w := newWorld(t, r, Options{Resolver: names("127.0.0.2", "127.0.0.1"), AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	w.run(r.url())
	w.want(Queued, Failed)
	if got := len(r.requests()); got != arrived || arrived != 2 {
		t.Errorf("%d arrived, want %d", got, arrived)
	}
}

// TestRebinding: a name that leads elsewhere when it is asked a second time is asked
// once. In the control somebody looks first and connects then.
//
// proves part of H-68 S-16
func TestRebinding(t *testing.T) {
	metadata := newReceiver(t, nil) // at 127.0.0.1, which must not be reached
	l, err := net.Listen("tcp", "127.0.0.2:"+metadata.port())
	must(t, err)
	good := &receiver{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
	_ = good.Listener.Close()
	good.Listener = l
	good.StartTLS()
	defer good.Close()
	rebinding := func() *at { return &at{lists: [][]netip.Addr{addrs("127.0.0.2"), addrs("127.0.0.1")}} }
	only := []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
	resolver := rebinding()
	w := newWorld(t, metadata, Options{Resolver: resolver, AllowAddresses: only})
	w.run(metadata.url())
	w.want(Queued, Delivered)
	if resolver.asked.Load() != 1 || len(metadata.requests()) != 0 {
		t.Errorf("asked %d times, %d arrived where nothing may", resolver.asked.Load(), len(metadata.requests()))
	}
	naive := rebinding()
	if a, err := naive.LookupNetIP(t.Context(), "ip", "example.com"); err != nil || !only[0].Contains(a[0]) {
		t.Fatal(a, err)
	}
	if err := post(plainClient(metadata, naive), metadata.url()); err != nil || len(metadata.requests()) != 1 {
		t.Errorf("the control: %v, %d arrived", err, len(metadata.requests()))
	}
}

// TestRedirect: a redirect leads nowhere and is the end. The control follows it.
//
// proves part of H-68 S-16
func TestRedirect(t *testing.T) {
	var hits atomic.Int64
	metadata := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer metadata.Close()
	for _, code := range []int{300, 301, 302, 303, 304, 307, 308} {
		r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", metadata.URL+"/latest/meta-data/")
			w.Header().Set("Set-Cookie", "a=b")
			w.WriteHeader(code)
		})
		w := newWorld(t, r, Options{})
		w.run(r.url())
		w.want(Queued, Failed)
		if hits.Load() != 0 || len(r.requests()) != 1 {
			t.Fatalf("%d: %d followed, %d requests", code, hits.Load(), len(r.requests()))
		}
		if code == 307 {
			if err := post(plainClient(r, names("127.0.0.1")), r.url()); err != nil || hits.Load() != 1 {
				t.Errorf("the control: %v, %d followed", err, hits.Load())
			}
			hits.Store(0)
		}
	}
	// What everybody uses has no guard at all.
	if err := post(http.DefaultClient, metadata.URL+"/latest/"); err != nil || hits.Load() != 1 {
		t.Errorf("the control: %v, %d hits", err, hits.Load())
	}
}

// TestCertificate: a receiver is who its certificate says, by a known authority.
func TestCertificate(t *testing.T) {
	r := newReceiver(t, nil)
	w := newWorld(t, r, Options{Allow: []string{"other.test:" + r.port()}})
	w.run("https://other.test:" + r.port() + "/")
	w.want(Queued, Retried, Retried, Failed)
	unknown := newWorld(t, nil, Options{Allow: []string{r.host()}})
	unknown.run(r.url())
	unknown.want(Queued, Retried, Retried, Failed)
	if len(r.requests()) != 0 {
		t.Errorf("%d arrived", len(r.requests()))
	}
}

// zeros are without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestHostileAnswers: an answer without end, a slow one and none take no more than
// their time and a few bytes. The control reads on for as long as it comes.
//
// proves part of H-68
func TestHostileAnswers(t *testing.T) {
	var sent atomic.Int64
	r := newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
		flush := http.NewResponseController(w).Flush
		switch q.URL.Path {
		case "/endless":
			n, _ := io.Copy(w, zeros{})
			sent.Add(n)
		case "/drip":
			_ = flush()
			<-q.Context().Done()
		case "/mute":
			<-q.Context().Done()
		case "/head":
			for i := range 1000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("a", 1000))
			}
		case "/hints":
			for range 10_000 {
				w.Header().Set("Link", "</x>")
				w.WriteHeader(103)
			}
			<-q.Context().Done()
		}
	})
	w := newWorld(t, r, Options{Timeout: time.Second, Pauses: []time.Duration{time.Millisecond}})
	base := "https://" + r.host()
	for path, want := range map[string][]string{
		"/endless": {Queued, Delivered}, "/drip": {Queued, Delivered}, // the head decides
		"/mute": {Queued, Retried, Failed}, "/head": {Queued, Retried, Failed}, "/hints": {Queued, Retried, Failed},
	} {
		start := time.Now()
		w.run(base + path)
		w.want(want...)
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s took %v", path, d)
		}
	}
	if n := sent.Load(); n > 16<<20 {
		t.Errorf("%d bytes were taken of an endless answer", n)
	}
	sent.Store(0)
	resp, err := plainClient(r, names("127.0.0.1")).Get(base + "/endless")
	must(t, err)
	n, _ := io.CopyN(io.Discard, resp.Body, 64<<20)
	if _ = resp.Body.Close(); n != 64<<20 {
		t.Errorf("the control read %d bytes", n)
	}
}

// TestBadAnswers: who does not speak HTTP over TLS is tried three times, and no more.
func TestBadAnswers(t *testing.T) {
	r := newReceiver(t, nil) // for a certificate
	for name, answer := range map[string]string{
		"nothing": "", "no TLS": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "SSH": "SSH-2.0-OpenSSH_9\r\n",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		var taken atomic.Int64
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				taken.Add(1)
				_, _ = c.Write([]byte(answer))
				_ = c.Close()
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		w := newWorld(t, r, Options{Allow: []string{"example.com:" + port}})
		w.run("https://example.com:" + port + "/")
		w.want(Queued, Retried, Retried, Failed)
		if taken.Load() != 3 {
			t.Errorf("%s: %d connections", name, taken.Load())
		}
		_ = l.Close()
	}
}

// TestTransport: what the transport must not have, since what is known to be wrong in
// it lies there (internal/supply).
func TestTransport(t *testing.T) {
	w := newWorld(t, newReceiver(t, nil), Options{})
	tr := w.h.transport()
	if tr.Proxy != nil || tr.Protocols.HTTP2() || tr.Protocols.UnencryptedHTTP2() || !tr.Protocols.HTTP1() || !tr.DisableKeepAlives || !tr.DisableCompression || tr.ForceAttemptHTTP2 ||
		tr.MaxResponseHeaderBytes != maxHead || tr.DialTLSContext != nil || tr.TLSClientConfig.InsecureSkipVerify {
		t.Errorf("%+v", tr)
	}
}

var _ egress.Resolver = (*at)(nil)

// A run that says no more than its verdict is told of all the same.
func TestBriefResult(t *testing.T) {
	r := newReceiver(t, nil)
	w := newWorld(t, r, Options{})
	w.submit(newDelivery(r.url()))
	w.finish(w.take(), api.Result{Verdict: api.Canceled})
	w.want(Queued, Delivered)
}
