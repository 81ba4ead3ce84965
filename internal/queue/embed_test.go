package queue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// listeners are the sockets that this process listens on, by inode.
func listeners(t *testing.T) map[string]bool {
	t.Helper()
	mine := map[string]bool{}
	fds, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			mine[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	open := map[string]bool{}
	for file, listening := range map[string]string{"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"} {
		text, err := os.ReadFile("/proc/self/net/" + file)
		must(t, err)
		for _, line := range strings.Split(string(text), "\n")[1:] {
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening && mine[f[9]] {
				open[file+" "+f[1]] = true
			}
		}
	}
	return open
}

// proves part of H-71
func TestNoListener(t *testing.T) {
	before := listeners(t)
	q := open(t, Options{})
	submit(t, q, "c", "r")
	must(t, take(t, q).Finish(t.Context(), nil, nil))
	if after := listeners(t); !maps.Equal(before, after) {
		t.Errorf("%v listens, not %v", after, before)
	}
	if a := q.srv.Addr(); a != nil {
		t.Error("the server listens at", a)
	}
	if a := q.srv.MonitorAddr(); a != nil {
		t.Error("the server is monitored at", a)
	}
	// Nor does it take who has no credentials.
	nc, err := nats.Connect("", nats.InProcessServer(q.srv))
	if err == nil {
		nc.Close()
		t.Error("it takes whoever comes")
	}

	// The control: a server with the usual options.
	usual(t, server.Options{})
	if after := listeners(t); maps.Equal(before, after) {
		t.Error("a usual server cannot be seen either, so that nothing is proved")
	}
}

// proves part of H-71
func TestFolderRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o755, 0o750, 0o701, 0o777, 0o500, os.ModeSticky | 0o700} {
		dir := filepath.Join(t.TempDir(), "queue")
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.Chmod(dir, mode))
		if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrFolder) || !strings.Contains(err.Error(), "0700") {
			t.Errorf("%v: %v", mode, err)
		}
		must(t, os.Chmod(dir, 0o700))
		open(t, Options{Dir: dir})
	}
	real := filepath.Join(t.TempDir(), "queue")
	must(t, os.Mkdir(real, 0o700))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(real, link))
	if _, err := Open(t.Context(), Options{Dir: link}); !errors.Is(err, ErrFolder) {
		t.Error("a link:", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o700))
	if _, err := Open(t.Context(), Options{Dir: file}); !errors.Is(err, ErrFolder) {
		t.Error("a file:", err)
	}
}

// proves part of H-71
func TestFolderOfOthersAsRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chown(dir, 65534, 65534))
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrFolder) {
		t.Error(err)
	}
	must(t, os.Chown(dir, 0, 0))
	q := open(t, Options{Dir: dir})
	submit(t, q, "c", "r")

	// Another user can neither read it nor look into it.
	cat := exec.Command("/bin/ls", dir)
	cat.SysProcAttr = asNobody()
	if out, err := cat.CombinedOutput(); err == nil {
		t.Errorf("another user sees %s", out)
	}
}

// proves part of H-71
func TestLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queue")
	q, err := Open(t.Context(), Options{Dir: dir, MinFree: 1})
	must(t, err)
	submit(t, q, "c", "r")
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
	// The one that was refused has changed nothing.
	if d := take(t, q); d.Job.ID != "r" {
		t.Error(d.Job.ID)
	}
	must(t, q.Close())
	must(t, q.Close()) // again does nothing
	if err := q.Submit(t.Context(), Job{ID: "x", Client: "c"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := q.Err(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	q = open(t, Options{Dir: dir})
	if err := q.Err(); err != nil {
		t.Error(err)
	}
}

// usual starts a server that listens on a free port of loopback.
func usual(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
	o.JetStream, o.StoreDir = true, t.TempDir()
	srv, err := server.NewServer(&o)
	must(t, err)
	srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	return srv
}

// certificate makes one for 127.0.0.1, and a file with it.
func certificate(t *testing.T) (*tls.Config, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	must(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}, file
}

// proves part of H-71
func TestExternal(t *testing.T) {
	config, ca := certificate(t)
	srv := usual(t, server.Options{TLSConfig: config, TLSTimeout: 5, Username: "u", Password: "secret-password"})
	plain := usual(t, server.Options{})
	addr := strings.TrimPrefix(srv.ClientURL(), "nats://")
	addr = addr[strings.LastIndex(addr, "@")+1:]
	addr = strings.TrimPrefix(addr, "tls://")
	for name, c := range map[string]struct {
		o    Options
		want string // of the error; "" for none
	}{
		"tls and credentials":      {Options{URL: "tls://" + addr, User: "u", Password: "secret-password", CAFile: ca}, ""},
		"plain":                    {Options{URL: plain.ClientURL(), User: "u", Password: "secret-password"}, "tls://"},
		"one of two plain":         {Options{URL: "tls://" + addr + "," + plain.ClientURL(), User: "u", Password: "secret-password", CAFile: ca}, "tls://"},
		"no credentials":           {Options{URL: "tls://" + addr, CAFile: ca}, "no credentials"},
		"unknown authority":        {Options{URL: "tls://" + addr, User: "u", Password: "secret-password"}, "certificate"},
		"wrong credentials":        {Options{URL: "tls://" + addr, User: "u", Password: "wrong", CAFile: ca}, "Authorization"},
		"tls asked of a plain one": {Options{URL: strings.Replace(plain.ClientURL(), "nats://", "tls://", 1), User: "u", Password: "secret-password", CAFile: ca}, "secure"},
		"plain and insecure":       {Options{URL: plain.ClientURL(), Insecure: true}, ""},
		"not a URL":                {Options{URL: "tls://u:secret-password@%zz"}, "cannot be read"},
		"folder and URL":           {Options{URL: plain.ClientURL(), Dir: t.TempDir()}, "Dir"},
		"neither":                  {Options{}, "Dir"},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := Open(t.Context(), c.o)
			if err == nil {
				defer func() { must(t, q.Close()) }()
			}
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("%v, not %s", err, c.want)
			case c.want != "":
				if strings.Contains(err.Error(), "secret-password") {
					t.Error("the error has the password:", err)
				}
				return
			}
			if q.Insecure() != c.o.Insecure {
				t.Error("insecure:", q.Insecure())
			}
			submit(t, q, "c", "r")
			d := take(t, q)
			must(t, d.Begin(t.Context(), nil))
			must(t, d.Finish(t.Context(), []byte("ok"), nil))
			if r, err := q.Result(t.Context(), "r"); err != nil || string(r) != "ok" {
				t.Error(string(r), err)
			}
		})
	}
}

// nodes opens queues of one server, as machines that share it are.
func nodes(t *testing.T, n int, o Options) []*Queue {
	t.Helper()
	o.URL, o.Insecure = usual(t, server.Options{}).ClientURL(), true
	var all []*Queue
	for range n {
		all = append(all, open(t, o))
	}
	return all
}

// proves part of H-76
func TestChargeThreeNodes(t *testing.T) {
	var buckets []*Bucket
	for _, q := range nodes(t, 3, Options{}) {
		buckets = append(buckets, bucket(t, q, "quotas", BucketOptions{TTL: 2 * time.Hour}))
	}
	var granted, refused, contended atomic.Int32
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			_, err := buckets[i%3].Charge(t.Context(), "client", Charge{ID: fmt.Sprint(i), N: 1, Limit: 20, Window: time.Hour})
			switch {
			case err == nil:
				granted.Add(1)
			case errors.Is(err, ErrQuota):
				refused.Add(1)
			case errors.Is(err, ErrContended):
				contended.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if granted.Load() != 20 || refused.Load() != 180 {
		t.Errorf("%d granted, %d refused, %d gave up", granted.Load(), refused.Load(), contended.Load())
	}
}

// The control: a counter that is read and then written.
// proves part of H-76
func TestChargeByReadThenWrite(t *testing.T) {
	q := open(t, Options{})
	b := bucket(t, q, "quotas", BucketOptions{TTL: 2 * time.Hour})
	on, err := q.build(keySubject, "quotas", "client")
	must(t, err)
	var granted atomic.Int32
	var all, read sync.WaitGroup
	read.Add(200)
	for i := range 200 {
		all.Go(func() {
			n, _, err := b.counter(t.Context(), "client", time.Hour)
			read.Done()
			read.Wait()
			if err != nil || n.used() >= 20 {
				return
			}
			n.charges = append(n.charges, charged{uint64(i), 1})
			body := append([]byte{valueVersion, 0, 0, 0, 0, 0, 0, 0, 0}, n.encode()...)
			if _, err := q.publish(t.Context(), outgoing{to: on, body: body}); err == nil {
				granted.Add(1)
			}
		})
	}
	all.Wait()
	if granted.Load() <= 20 {
		t.Error("only", granted.Load(), "were granted, so that the other test proves nothing")
	}
}

// An executor on another machine that shows no life loses what it had not begun, and
// is fenced; what it had begun is interrupted.
// proves part of H-50
func TestFenced(t *testing.T) {
	q := nodes(t, 2, Options{Patience: 300 * time.Millisecond, MaxLosses: 3})
	ctx := t.Context()
	stall := func(d *Delivery) { // it gives no sign of life any more
		d.q.taking.mu.Lock()
		defer d.q.taking.mu.Unlock()
		delete(d.q.taking.active, d.Job.ID)
	}
	submit(t, q[0], "c", "waits")
	a := take(t, q[0])
	stall(a)
	b := take(t, q[1])
	if b.Job.ID != "waits" || b.Losses() != 1 {
		t.Error(b.Job.ID, b.Losses())
	}
	if err := a.Begin(ctx, nil); !errors.Is(err, ErrLost) {
		t.Error("begun by two:", err)
	}
	<-a.Lost()
	must(t, b.Begin(ctx, nil))
	must(t, b.Finish(ctx, []byte("ok"), nil))

	submit(t, q[0], "c", "begun")
	a = take(t, q[0])
	must(t, a.Begin(ctx, nil))
	stall(a)
	taken := make(chan error, 1)
	go func() {
		_, err := q[1].Take(ctx)
		taken <- err
	}()
	e, err := q[0].Wait(ctx, "begun")
	if err != nil || !strings.Contains(string(e.Data), `"cause":"lost"`) {
		t.Error(string(e.Data), err)
	}
	if err := a.Publish(ctx, "chunk", nil); !errors.Is(err, ErrLost) {
		t.Error("an event after the end:", err)
	}
	if err := a.Finish(ctx, []byte("ok"), nil); !errors.Is(err, ErrLost) {
		t.Error("two final events:", err)
	}
	must(t, q[1].Close())
	if err := <-taken; !errors.Is(err, ErrClosed) {
		t.Error("run again:", err)
	}
	if s := told(events(t, q[0], "begun", 0)); strings.Count(s, "finished") != 1 {
		t.Error(s)
	}
}
