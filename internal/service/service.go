// Package service puts the service together: queue, cells, executor and server, in
// the order in which they begin, and in the reverse one in which they end.
package service

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/executor"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/server"
)

// Options of a service. Zero values are the defaults.
type Options struct {
	// Dir is the data folder: it has the service's secret and its queue. It is made,
	// 0700, and belongs to one service at a time.
	Dir   string
	Queue queue.Options    // Dir, MaxJobs and Log are filled in
	Box   glovebox.Options // MaxLimits are lowered to those of a service
	// Server has what is said of requests; Queue, Box and Secret are filled in.
	Server server.Options
	// Slots run at once (two for each processor), Backlog may wait besides (64).
	Slots, Backlog int
	Listeners      []net.Listener
	TLS            *tls.Config
	Log            *slog.Logger
}

// Service is a service that runs.
type Service struct {
	o        Options
	queue    *queue.Queue
	box      *glovebox.Box
	executor *executor.Executor
	server   *server.Server
	serving  sync.WaitGroup
	failed   chan error
}

// Open starts a service; its listeners are answered from now on.
func Open(ctx context.Context, o Options) (_ *Service, err error) {
	s := &Service{o: o, failed: make(chan error, len(o.Listeners))}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.o.Slots == 0 {
		s.o.Slots = 2 * runtime.NumCPU()
	}
	if s.o.Backlog == 0 {
		s.o.Backlog = 64
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	q := o.Queue
	q.Dir, q.MaxJobs, q.Log = o.Dir, s.o.Slots+s.o.Backlog, s.o.Log
	if s.queue, err = queue.Open(ctx, q); err != nil { // it has the folder's lock
		return nil, err
	}
	secret, err := credential.LoadSecret(o.Dir)
	if err != nil {
		return nil, err
	}
	if s.box, err = glovebox.New(s.boxOptions()); err != nil {
		return nil, err
	}
	s.executor = executor.Start(executor.Options{Queue: s.queue, Box: s.box, Slots: s.o.Slots, Log: s.o.Log})
	so := o.Server
	so.Queue, so.Box, so.Secret, so.Log = s.queue, s.box, secret, s.o.Log
	so.Slots, so.Backlog, so.Running = s.o.Slots, s.o.Backlog, s.executor.Running
	var addrs []net.Addr
	for _, l := range o.Listeners {
		addrs = append(addrs, l.Addr())
	}
	if s.server, err = server.New(so, addrs...); err != nil {
		return nil, err
	}
	for _, l := range o.Listeners {
		s.serving.Go(func() { s.failed <- s.server.Serve(l, o.TLS) })
	}
	return s, nil
}

func (s *Service) boxOptions() glovebox.Options {
	b := s.o.Box
	b.MaxLimits = api.ServiceMaxLimits(runtime.NumCPU()).Lower(b.MaxLimits)
	b.MaxCells = max(b.MaxCells, s.o.Slots+2)
	b.Logger = s.o.Log
	return b
}

// Failed says why a listener is answered no more.
func (s *Service) Failed() <-chan error { return s.failed }

// Status is what the host enforces.
func (s *Service) Status() api.Status { return s.box.Status() }

// Drain takes no submission and no job any more, and returns when no run is left, or
// with the context's cause.
func (s *Service) Drain(ctx context.Context) error {
	s.server.Drain()
	return s.executor.Drain(ctx)
}

// Close ends what still runs, as interrupted, and everything else. It is idempotent.
func (s *Service) Close() error {
	var errs []error
	if s.executor != nil {
		s.executor.Quit()
	}
	if s.box != nil {
		errs = append(errs, s.box.Close())
	}
	if s.executor != nil {
		s.executor.Wait()
	}
	if s.server != nil {
		s.server.Close()
	}
	for _, l := range s.o.Listeners {
		_ = l.Close()
	}
	s.serving.Wait()
	if s.queue != nil {
		errs = append(errs, s.queue.Close())
	}
	return errors.Join(errs...)
}

// DrainTime is how long a service waits for its runs to end, when it is told to.
const DrainTime = 70 * time.Second
