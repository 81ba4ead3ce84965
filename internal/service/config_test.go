package service_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// configured is what flags say, as NAME VALUE pairs.
func configured(t *testing.T, flags ...string) *config.Config {
	t.Helper()
	s := config.Sources{Flags: map[string][]string{}, Machine: config.ThisMachine(8 << 30)}
	for i := 0; i < len(flags); i += 2 {
		s.Flags[flags[i]] = append(s.Flags[flags[i]], flags[i+1])
	}
	c, err := config.Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pair writes a new certificate for a name, and its key.
func pair(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: made}, key: {Type: "EC PRIVATE KEY", Bytes: der}} {
		_ = os.Remove(path) // and with it its mode
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// openTLS starts a service with a certificate and returns its address.
func openTLS(t *testing.T, cert, key string) (*service.Service, string) {
	t.Helper()
	c := configured(t, "data", filepath.Join(t.TempDir(), "data"), "tls-cert", cert, "tls-key", key, "allow-host", "one.example", "addr", "127.0.0.1:0")
	o, err := service.FromConfig(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s, url := open(t, o)
	return s, strings.TrimPrefix(url, "http://")
}

// TLS is 1.2 or newer and has HTTP/1.1 alone behind it; plain HTTP is not answered.
//
// proves part of H-77
func TestTLS(t *testing.T) {
	cert, key := pair(t, t.TempDir(), "one.example")
	_, addr := openTLS(t, cert, key)
	authority, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	client := &tls.Config{RootCAs: trusted, ServerName: "one.example", NextProtos: []string{"h2", "http/1.1"}}
	c, err := tls.Dial("tcp", addr, client)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if st := c.ConnectionState(); st.Version < tls.VersionTLS12 || st.NegotiatedProtocol != "http/1.1" {
		t.Errorf("version %#x, protocol %q", st.Version, st.NegotiatedProtocol)
	}
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200 ") {
		t.Errorf("%.200s, %v", b, err)
	}
	old := client.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if c, err := tls.Dial("tcp", addr, old); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 is spoken")
	}
	only2 := client.Clone()
	only2.NextProtos = []string{"h2"}
	if c, err := tls.Dial("tcp", addr, only2); err == nil {
		_ = c.Close()
		t.Error("HTTP/2 is spoken")
	}
	if a, err := http.Get("http://" + addr + "/healthz"); err == nil {
		defer a.Body.Close()
		if a.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP: %d", a.StatusCode)
		}
	}
}

// A certificate is read again when that is asked for, or when its file has changed;
// one that is bad leaves the one before.
func TestCertificatesAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := pair(t, dir, "one.example")
	s, addr := openTLS(t, cert, key)
	served := func() string {
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the name is what is asked for
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := served(); got != "one.example" {
		t.Fatalf("control: %q", got)
	}
	pair(t, dir, "two.example")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := served(); got != "two.example" {
		t.Errorf("read again: %q", got)
	}
	for name, spoil := range map[string]func() error{
		"not PEM":  func() error { return os.WriteFile(cert, []byte("no certificate"), 0o600) },
		"no file":  func() error { return os.Remove(cert) },
		"readable": func() error { pair(t, dir, "three.example"); return os.Chmod(key, 0o604) },
		"other's":  func() error { pair(t, dir, "three.example"); return os.Chmod(cert, 0o666) },
		"no pair": func() error {
			old, err := os.ReadFile(key)
			pair(t, dir, "three.example")
			return errors.Join(err, os.WriteFile(key, old, 0o600))
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := s.Reload(); err == nil {
			t.Errorf("%s: is taken", name)
		}
		if got := served(); got != "two.example" {
			t.Errorf("%s: %q is served", name, got)
		}
		pair(t, dir, "two.example") // whole again
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	pair(t, dir, "four.example")
	service.LookAgain(s)
	if got := served(); got != "four.example" {
		t.Errorf("a changed file: %q", got)
	}
}

// stranger is a connection from somewhere.
type stranger struct {
	net.Conn
	from   string
	closed bool
}

func (c *stranger) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", c.from)
	return a
}
func (c *stranger) Close() error { c.closed = true; return nil }

// queueOf is a listener to whom these come, one after the other.
type queueOf struct {
	at    string
	conns []*stranger
}

func (l *queueOf) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}
func (l *queueOf) Close() error { return nil }
func (l *queueOf) Addr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", l.at)
	return a
}

// Beyond loopback, without TLS, trusted proxies alone are answered.
//
// proves part of X-14
func TestGuard(t *testing.T) {
	froms := []string{"192.0.2.7:1", "192.0.2.8:1", "[::ffff:192.0.2.7]:1", "[2001:db8::1]:1", "10.1.2.3:1"}
	answered := func(at string, flags ...string) (out []string) {
		t.Helper()
		l := &queueOf{at: at}
		for _, f := range froms {
			l.conns = append(l.conns, &stranger{from: f})
		}
		all := append([]*stranger(nil), l.conns...)
		g, err := service.Guard(l, configured(t, append(flags, "addr", at)...))
		if err != nil {
			t.Fatal(err)
		}
		for {
			c, err := g.Accept()
			if err != nil {
				break
			}
			out = append(out, c.(*stranger).from)
		}
		for _, c := range all {
			if c.closed == contains(out, c.from) {
				t.Errorf("%s is answered and closed, or neither", c.from)
			}
		}
		return out
	}
	if got := answered("192.0.2.1:80", "trusted-proxy", "192.0.2.7", "trusted-proxy", "10.0.0.0/8"); strings.Join(got, " ") != froms[0]+" "+froms[2]+" "+froms[4] {
		t.Errorf("answered: %q", got)
	}
	for _, flags := range [][]string{{"insecure-http", "true"}, {"insecure-http", "true", "trusted-proxy", "192.0.2.7"}, {"tls-cert", "/c", "tls-key", "/k", "trusted-proxy", "192.0.2.7"}} {
		if got := answered("192.0.2.1:80", flags...); len(got) != len(froms) { // the control
			t.Errorf("%q: answered %q", flags, got)
		}
	}
	if got := answered("127.0.0.1:80", "trusted-proxy", "192.0.2.7"); len(got) != len(froms) {
		t.Errorf("on loopback: %q", got)
	}
	if _, err := service.Guard(&queueOf{at: "192.0.2.1:80"}, configured(t)); err == nil {
		t.Error("a listener beyond loopback passes")
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// Whatever the configuration takes, the parts of the service take: the bounds are no
// wider than theirs.
func TestBounds(t *testing.T) {
	for name, flags := range map[string][]string{
		"least": {"slots", "1", "backlog", "1", "in-flight", "1", "sockets", "1", "quota-runs", "1", "quota-key-runs", "1", "quota-keys", "1", "key-ttl", "1m",
			"retention", "1m", "max-store", "64MiB", "min-free", "1MiB", "armed", "0", "memory", "64MiB", "max-body", "64KiB", "max-wait", "1s", "connections", "10",
			"stored-per-hour", "1MiB", "key-stored-per-hour", "1MiB", "egress-per-hour", "1MiB", "key-egress-per-hour", "1MiB", "egress-in-all", "1MiB", "ipv4-bits", "24", "ipv6-bits", "48"},
		"most": {"slots", "64", "backlog", "50000", "in-flight", "50000", "sockets", "10000", "quota-runs", "2000", "quota-key-runs", "2000", "quota-keys", "2000", "key-ttl", "3650d",
			"retention", "365d", "max-store", "1024TiB", "min-free", "1MiB", "max-body", "64MiB", "max-wait", "1h", "connections", "100000", "trusted-proxy", "192.0.2.7",
			"stored-per-hour", "1TiB", "key-stored-per-hour", "1TiB", "egress-per-hour", "1024TiB", "key-egress-per-hour", "1024TiB", "egress-in-all", "1024TiB", "ipv4-bits", "32", "ipv6-bits", "128",
			"fsync", "always", "quotas", "on"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := service.FromConfig(configured(t, append(flags, "data", filepath.Join(t.TempDir(), "data"))...), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			o.Box.InitPath = testenv.Init()
			s, err := service.Open(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// An external store that is used in the clear is refused unless that is said, and then
// the status repeats it; the tests of the queue and of the command have the rest of
// the claim.
//
// proves H-71
func TestInsecureIsSaid(t *testing.T) {
	nats, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	if !nats.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	options := func(more ...string) service.Options {
		flags := append(more, "data", filepath.Join(t.TempDir(), "data"), "nats", nats.ClientURL())
		o, err := service.FromConfig(configured(t, flags...), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		o.Box.InitPath = testenv.Init()
		return o
	}
	if s, err := service.Open(t.Context(), options()); !errors.Is(err, queue.ErrInsecure) {
		if err == nil {
			_ = s.Close()
		}
		t.Fatalf("in the clear, and not said: %v", err)
	}
	_, url := open(t, options("nats-insecure", "true"))
	var status api.ServiceStatus
	if a := ask(t, "GET", url+"/v1/status", nil, &status); a.StatusCode != 200 || !strings.Contains(strings.Join(status.Warnings, "\n"), "without TLS or credentials") {
		t.Errorf("%d, warnings %q", a.StatusCode, status.Warnings)
	}
	var run api.Run
	if a := ask(t, "POST", url+"/v1/runs?wait=30s", map[string]any{"command": []string{"echo", "far"}}, &run); a.StatusCode != 200 || run.Result.Stdout != "far\n" {
		t.Errorf("%d %+v", a.StatusCode, run)
	}
	_, own := open(t, service.Options{}) // the control
	if ask(t, "GET", own+"/v1/status", nil, &status); strings.Contains(strings.Join(status.Warnings, "\n"), "TLS") {
		t.Errorf("of an embedded store: %q", status.Warnings)
	}
}
