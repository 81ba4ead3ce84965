package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// proxied is how many connections the proxy got that the tests' environment names.
var proxied atomic.Int64

// TestMain names a proxy to everybody who looks for one. net/http does so once.
func TestMain(m *testing.M) {
	testenv.Deselect()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			proxied.Add(1)
			_ = c.Close()
		}
	}()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if err := os.Setenv(name, "http://"+l.Addr().String()); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	_ = l.Close()
	os.Exit(code)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request is what a receiver got.
type request struct {
	*http.Request
	body []byte
}

// receiver is a server with TLS on loopback that keeps what it was told. Its
// certificate is for example.com.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	seen []request
	came chan struct{} // one for each
}

func newReceiver(t testing.TB, h http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{came: make(chan struct{}, 1<<14)}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.seen = append(r.seen, request{req, body})
		r.mu.Unlock()
		r.came <- struct{}{}
		if h != nil {
			h(w, req)
		}
	}))
	r.EnableHTTP2 = true
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

func (r *receiver) port() string {
	_, port, _ := net.SplitHostPort(r.Listener.Addr().String())
	return port
}

func (r *receiver) host() string { return "example.com:" + r.port() }
func (r *receiver) url() string  { return "https://" + r.host() + "/hook?token=url-secret" }

// at says that every name is at these addresses, one list after the other.
type at struct {
	lists [][]netip.Addr
	asked atomic.Int64
}

func addrs(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func names(list ...string) *at { return &at{lists: [][]netip.Addr{addrs(list...)}} }

func (a *at) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n := a.asked.Add(1)
	return a.lists[min(int(n), len(a.lists))-1], nil
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// world is a queue with webhooks, which can end and begin again.
type world struct {
	t        testing.TB
	dir      string
	o        Options
	q        *queue.Queue
	h        *Hooks
	outcomes chan string
}

func newWorld(t testing.TB, r *receiver, o Options) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir() + "/queue", outcomes: make(chan string, 1<<16)}
	if o.Secret == nil {
		o.Secret = credential.NewSecret()
	}
	if o.Resolver == nil {
		o.Resolver = names("127.0.0.1")
	}
	if o.AllowAddresses == nil {
		o.AllowAddresses = loopback
	}
	if r != nil && o.Allow == nil {
		o.Allow = []string{r.host()}
	}
	if r != nil {
		o.RootCAs = x509.NewCertPool()
		o.RootCAs.AddCert(r.Certificate())
	}
	if o.Pauses == nil {
		o.Pauses = []time.Duration{20 * time.Millisecond, 60 * time.Millisecond}
	}
	o.Observe = func(s string) { w.outcomes <- s }
	w.o = o
	w.open()
	t.Cleanup(func() { w.close(5 * time.Second) })
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	w.q, err = queue.Open(context.Background(), queue.Options{Dir: w.dir, MinFree: 1, MaxJobs: 10_000})
	must(w.t, err)
	w.o.Queue = w.q
	w.h, err = New(context.Background(), w.o)
	must(w.t, err)
}

// close gives tries some time; none is as if the program had been killed in them.
func (w *world) close(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.h.Close(ctx)
	must(w.t, w.q.Close())
}

// next is the outcome that is observed next.
func (w *world) next() string {
	w.t.Helper()
	select {
	case s := <-w.outcomes:
		return s
	case <-time.After(20 * time.Second):
		w.t.Fatal("nothing came of a delivery")
		return ""
	}
}

func (w *world) want(outcomes ...string) {
	w.t.Helper()
	for i, want := range outcomes {
		if got := w.next(); got != want {
			w.t.Fatalf("outcome %d is %q, want %q", i, got, want)
		}
	}
}

func newDelivery(url string) Delivery {
	return Delivery{RunID: credential.Run.New(), KeyID: credential.KeyID.New(), URL: url}
}

// submit has a run accepted.
func (w *world) submit(d Delivery) {
	w.t.Helper()
	must(w.t, w.h.Expect(context.Background(), d))
	must(w.t, w.q.Submit(context.Background(), queue.Job{ID: d.RunID, Client: "c", Program: []byte("{}")}))
	w.h.Follow(d.RunID)
}

// take begins the oldest run.
func (w *world) take() *queue.Delivery {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	d, err := w.q.Take(ctx)
	must(w.t, err)
	must(w.t, d.Begin(ctx, nil))
	return d
}

func (w *world) finish(d *queue.Delivery, r api.Result) {
	w.t.Helper()
	r.ID = d.Job.ID
	data, err := json.Marshal(r)
	must(w.t, err)
	must(w.t, d.Finish(context.Background(), data, []byte("{}")))
}

// run has a run accepted and ended.
func (w *world) run(url string) Delivery {
	w.t.Helper()
	d := newDelivery(url)
	w.submit(d)
	w.finish(w.take(), api.Result{Verdict: api.OK, Stdout: "hello\n"})
	return d
}

// plainClient is what somebody would use who has not heard of all this.
func plainClient(r *receiver, resolver *at) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(r.Certificate())
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, hostPort string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(hostPort)
			if err != nil {
				return nil, err
			}
			a, err := resolver.LookupNetIP(ctx, "ip", "")
			if err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(a[0].String(), port))
		},
	}}
}

func post(c *http.Client, url string) error {
	resp, err := c.Post(url, "application/json", nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if closing := resp.Body.Close(); err == nil {
		err = closing
	}
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}
