package natskv

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/testenv/storetest"
)

// newServer starts a real server on a free port of loopback, with its files in a
// temporary folder.
func newServer(t testing.TB) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
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

// open opens a bucket of a server.
func open(t testing.TB, srv *server.Server, o Options) store.Store {
	t.Helper()
	o.URL = srv.ClientURL()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const processTTL = 400 * time.Millisecond

func TestMain(m *testing.M) {
	storetest.Child(func(place string) (store.Store, error) {
		url, bucket, _ := strings.Cut(place, " ")
		return Open(context.Background(), Options{URL: url, Bucket: bucket, TTL: processTTL})
	})
	os.Exit(m.Run())
}

// Processes end by SIGKILL at random points of commits: every record that was said
// to be committed is there, and at most one more.
//
// proves part of H-60
func TestNATSKilled(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv, Options{Bucket: "killed", TTL: processTTL})
	defer s.Close()
	storetest.Kills(t, s, srv.ClientURL()+" killed", 20, true)
}

// Two processes, one stopped before, within and after each kind of step for longer
// than the TTL: it is replaced, and then told what came of its step.
//
// proves part of H-60
func TestNATSStopped(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv, Options{Bucket: "stopped", TTL: processTTL})
	defer s.Close()
	storetest.Stops(t, s, srv.ClientURL()+" stopped", 24, processTTL)
}

// The control: values that are put without comparing revisions leave the old holder's
// last.
func TestNATSWithoutFence(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv, Options{}).(*kvStore)
	defer s.Close()
	k := store.Key{Owner: "o", ID: "i"}
	old, err := s.Acquire(t.Context(), k, store.AcquireOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	next, err := s.Acquire(t.Context(), k, store.AcquireOptions{Create: true, Takeover: true})
	if err == nil {
		err = next.Append(t.Context(), []byte("next"), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	v := *old.(*lease).v
	v.tail, v.bytes, v.seq = []byte("old"), 3, 1
	if _, err := s.kv.Update(t.Context(), headKey(k), v.encode(), old.(*lease).revision); !isMismatch(err) {
		t.Fatal("with the revision it is", err)
	}
	if _, err := s.kv.Put(t.Context(), headKey(k), v.encode()); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.get(t.Context(), k); err != nil || string(got.tail) != "old" {
		t.Fatalf("%v %v", got, err)
	}
}

// A bucket that forgets, or that takes no value of the size that is needed, is refused.
func TestOpenRefuses(t *testing.T) {
	srv := newServer(t)
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]jetstream.KeyValueConfig{
		"forgets": {TTL: time.Hour}, "small": {MaxValueSize: 64 << 10}, "good": {MaxValueSize: 256 << 10},
	} {
		c.Bucket = name
		if _, err := js.CreateKeyValue(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), Options{Conn: nc, Bucket: name})
		if _, bad := errors.AsType[*storetest.FieldError](err); bad == (name == "good") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
	for _, o := range []Options{{}, {URL: "x", Conn: nc}, {Conn: nc, TTL: -1}} {
		if _, err := Open(t.Context(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// BenchmarkAppend commits records of 200 bytes, with a head of 300.
func BenchmarkAppend(b *testing.B) {
	s := open(b, newServer(b), Options{})
	defer s.Close()
	l, err := s.Acquire(b.Context(), store.Key{Owner: "o", ID: "i"}, store.AcquireOptions{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	frames, head := make([]byte, 200), make([]byte, 300)
	for b.Loop() {
		if err := l.Append(b.Context(), frames, head); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Release(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// proves part of S-08 S-09 H-60
func TestNATS(t *testing.T) {
	srv := newServer(t)
	n := 0
	storetest.Run(t, func(t *testing.T) func() store.Store {
		n++
		bucket := "test" + string(rune('A'+n))
		nc, err := nats.Connect("", nats.InProcessServer(srv))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		own := false
		return func() store.Store {
			if own = !own; own {
				return open(t, srv, Options{Bucket: bucket})
			}
			s, err := Open(t.Context(), Options{Conn: nc, Bucket: bucket})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}, storetest.Options{Shared: true})
}
