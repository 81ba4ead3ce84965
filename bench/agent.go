package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/agent/store/natskv"
	"github.com/glovebox-dev/glovebox/js"
)

// What sessions are fed.
const (
	toolFeed    = "await inc(41)"
	fedAtOnce   = 40 // feeds of one contender after each other
	manySession = 100
	manyRecords = 1_000
)

// wideLimits are those that no measurement reaches.
var wideLimits = agent.Limits{Feeds: 1_000_000, Calls: 1_000_000, MS: 86_400_000, Bytes: 64 << 30, JournalBytes: 1 << 30, PerOwner: 1000}

// agentPool is a pool of sessions of this tree.
func agentPool(ctx context.Context, o agent.Options) (*agent.Pool, error) {
	own := jsOptions("", js.Limits{})
	o.InitPath, o.WorkerPath, o.Limits = own.InitPath, own.WorkerPath, wideLimits
	return agent.Open(ctx, o)
}

// incTools are n tools, the first of which is called.
func incTools(n int) (*agent.Catalog, error) {
	tools := []agent.Tool{{Name: "inc", Func: func(n int) int { return n + 1 }, MaxCalls: 1_000_000}}
	for i := 1; i < n; i++ {
		tools = append(tools, agent.Tool{Name: fmt.Sprintf("more.tool%d", i), Func: func() {}})
	}
	return agent.NewCatalog(tools, agent.CatalogOptions{})
}

// closers are ended in the other order.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

func (c closers) close() (err error) {
	for i := len(c) - 1; i >= 0; i-- {
		err = errors.Join(err, c[i]())
	}
	return err
}

// agentSessions measures sessions beside a runtime without one and node.
func agentSessions() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	catalog, err := incTools(1)
	if err != nil {
		return err
	}
	all, err := feeders(ctx, catalog, &open)
	if err != nil {
		return err
	}
	if err := feedRounds(all); err != nil {
		return err
	}
	for _, m := range []struct{ key, title string }{
		{"none", "nothing but 1 + 1; goal of a feed in memory: 0.045 ms"},
		{"tool", "one call of a function of the host; goals of a feed: 0.060 ms in memory, 0.080 in a file"}} {
		jsTable(m.title+"; ratio to "+all[0].name, m.key, all[0], all)
	}
	for _, more := range []func(context.Context, *agent.Catalog) error{checkouts, dumpAndLoad, parallelSessions} {
		if err := more(ctx, catalog); err != nil {
			return err
		}
	}
	return nil
}

// feeders are a runtime without a session, node, and a session for each place where
// its journal can be.
func feeders(ctx context.Context, catalog *agent.Catalog, open *closers) (all []*contender, err error) {
	plain, err := worker(ctx, "")
	if err != nil {
		return nil, err
	}
	open.add(plain.close)
	plain.name = "js.Runtime.Eval"
	all = append(all, plain)
	dir, node, err := nodePeer()
	if err == nil {
		var peer *contender
		if peer, err = piped(ctx, "node --jitless over a pipe", "none", dir, node, "--jitless", "pipe.js"); err == nil {
			open.add(peer.close)
			all = append(all, peer)
		}
	}
	if err != nil {
		fmt.Printf("absent: node: %v\n", err)
	}
	stores, err := sessionStores(ctx, open)
	if err != nil {
		return nil, err
	}
	for _, s := range stores {
		v, err := feeder(ctx, s, catalog, open)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, v)
	}
	for _, v := range all {
		v.took = map[string][]time.Duration{}
	}
	return all, nil
}

// namedStore is where journals are kept, nil for the session's own memory.
type namedStore struct {
	name string
	at   store.Store
}

func sessionStores(ctx context.Context, open *closers) ([]namedStore, error) {
	dir, err := os.MkdirTemp("", "glovebox-bench-")
	if err != nil {
		return nil, err
	}
	open.add(func() error { return os.RemoveAll(dir) })
	list := []namedStore{{name: "feed, journal in memory"}}
	for _, noSync := range []bool{true, false} {
		name := "feed, file with fsync"
		if noSync {
			name = "feed, file without fsync"
		}
		st, err := store.NewFile(filepath.Join(dir, name), store.FileOptions{NoSync: noSync})
		if err != nil {
			return nil, err
		}
		open.add(st.Close)
		list = append(list, namedStore{name, st})
	}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(dir, "nats"), NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	srv.Start()
	open.add(func() error { srv.Shutdown(); srv.WaitForShutdown(); return nil })
	if !srv.ReadyForConnections(30 * time.Second) {
		return nil, errors.New("the NATS server does not start")
	}
	st, err := natskv.Open(ctx, natskv.Options{URL: srv.ClientURL()})
	if err != nil {
		return nil, err
	}
	open.add(st.Close)
	return append(list, namedStore{"feed, NATS in this process", st}), nil
}

// feeder is a session as a contender.
func feeder(ctx context.Context, s namedStore, catalog *agent.Catalog, open *closers) (*contender, error) {
	keys := &agent.Keys{Current: "bench", Roots: map[string][]byte{"bench": make([]byte, 32)}} // nobody reads them
	p, err := agentPool(ctx, agent.Options{Store: s.at, Keys: keys})
	if err != nil {
		return nil, err
	}
	open.add(p.Close)
	var session *agent.Session
	if s.at == nil {
		session, err = p.Checkout(ctx, agent.SessionOptions{Tools: catalog})
	} else {
		session, err = p.Acquire(ctx, store.Key{Owner: "bench", ID: s.name}, agent.AcquireOptions{Tools: catalog})
	}
	if err != nil {
		return nil, err
	}
	return &contender{name: s.name, eval: func(n int, code string) ([]time.Duration, error) {
		if code == hostCall {
			code = toolFeed
		}
		return timed(n, func() error { _, err := session.Feed(ctx, code, agent.FeedOptions{}); return err })
	}}, nil
}

// hostCall is toolFeed where the function of the host gives no promise.
const hostCall = "inc(41)"

// feedRounds has each contender do a bit of everything in each round.
func feedRounds(all []*contender) error {
	for range max(*rounds/8, 5) {
		for _, v := range all {
			for _, do := range [][2]string{{"none", onePlusOne}, {"tool", hostCall}} {
				took, err := v.eval(fedAtOnce, do[1])
				if err != nil {
					return fmt.Errorf("%s: %s: %w", v.name, do[0], err)
				}
				v.took[do[0]] = append(v.took[do[0]], took...)
				time.Sleep(8 * time.Millisecond)
			}
		}
	}
	return nil
}
