// Command multitenant serves sessions over HTTP: one for each tenant and
// conversation. Who asks is known by his token; the tenant's name is the owner of
// the session, so that two tenants with the same conversation id do not meet.
//
//	multitenant DIR    DIR/tokens has a line "TENANT TOKEN" for each tenant
//
//	curl -H "Authorization: Bearer $TOKEN" -d 'let n = (globalThis.n ?? 0) + 1; n' http://127.0.0.1:PORT/conversations/first
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/agent/store"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: multitenant DIR")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "multitenant:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	tenants, err := tenantsIn(filepath.Join(dir, "tokens"))
	if err != nil {
		return err
	}
	keys, err := keysIn(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	kept, err := store.NewFile(filepath.Join(dir, "sessions"), store.FileOptions{})
	if err != nil {
		return err
	}
	defer kept.Close()
	pool, err := agent.Open(ctx, agent.Options{
		Store: kept, Keys: keys, Warm: 1, Residents: 8,
		Limits: agent.Limits{FeedMS: 2_000, PerOwner: 4},
	})
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	server := &http.Server{Handler: handler(pool, tenants), ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.Background())
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// keysIn has the key of the journals. A service has it from where its secrets are.
func keysIn(path string) (*agent.Keys, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		err = os.WriteFile(path, key, 0o600)
	}
	return &agent.Keys{Current: "1", Roots: map[string][]byte{"1": key}}, err
}
