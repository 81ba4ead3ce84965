package client_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/glovebox-dev/glovebox/client"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Deselect()
	os.Exit(m.Run())
}

// open starts a service on loopback and returns its origin.
func open(t *testing.T, o service.Options) (*service.Service, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "data")
	}
	o.Listeners, o.Box.InitPath = []net.Listener{l}, testenv.Init()
	s, err := service.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, "http://" + l.Addr().String()
}

// dial makes a client.
func dial(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
