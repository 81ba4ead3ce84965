package natskv

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

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
