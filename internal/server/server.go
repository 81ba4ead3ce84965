// Package server is the service over HTTP: it judges requests, lets submissions into
// the queue, and tells what comes of runs, at once, by events or over a WebSocket. It
// runs nothing itself; see package executor.
//
// routes.go lists every path, guard.go what each request must be before a handler
// sees it.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/budget"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
	"github.com/glovebox-dev/glovebox/internal/webhook"
	"github.com/glovebox-dev/glovebox/web"
)

// Options of a Server. Those up to Hooks are needed;
// zero values of the others are the defaults.
type Options struct {
	Queue     *queue.Queue
	Box       *glovebox.Box
	Secret    *credential.Secret
	Admission *admission.Admission
	// Budget has the memory of bodies.
	Budget *budget.Budget
	// Metrics counts; its routes are [Patterns].
	Metrics *telemetry.Metrics
	// Audit is the log of who did what.
	Audit *telemetry.Audit
	// Hooks tells others of ends.
	Hooks *webhook.Hooks
	// Hosts are what a Host header may be, beside the address that is listened on and
	// localhost with its port: NAME or NAME:PORT.
	Hosts []string
	// Origins are what an Origin header may be, beside the service's own: https://NAME.
	// Their pages may call the service (CORS).
	Origins []string
	// MaxBody is the longest body; zero means 8 MiB.
	MaxBody int64
	// MaxWait is the longest ?wait; zero means a minute.
	MaxWait time.Duration
	// HeadTimeout is how long the head of a request may take; zero means 5 s.
	// BodyTimeout is how long a whole body may take; zero means 20 s.
	HeadTimeout, BodyTimeout time.Duration
	// MaxConns is how many connections are open at once; zero means 1024.
	MaxConns int
	// Slots, Backlog, InFlight, Sockets and Retention are told to clients.
	Slots, Backlog, InFlight, Sockets int
	Retention                         time.Duration
	// Ceilings are the most that a program may ask for; Warnings go into the status.
	Ceilings api.Limits
	Warnings []string
	// Running is how many runs run at this moment, Waiting how many have not begun.
	Running, Waiting func() int
	// Log gets one line a request, without what is in it. Nil means silence.
	Log *slog.Logger
	// Version is what the service says of itself.
	Version string
	// Site is the pages; nil means those of the program.
	Site *web.Site

	// StdinGrace is how long after the last owner's WebSocket of a run has gone the
	// run's standard input ends; zero means ten seconds.
	StdinGrace time.Duration

	wrap      func(iter.Seq2[queue.Event, error]) iter.Seq2[queue.Event, error] // of what streams read; nil for nothing
	heartbeat time.Duration                                                     // zero means 15 s
}

// Bounds of connections.
const (
	headTimeout = 5 * time.Second
	bodyTimeout = 20 * time.Second
	idleTimeout = time.Minute
	sendTimeout = 15 * time.Second // of one answer or message to a client who does not read
	maxHead     = 16 << 10
	sendBuffer  = 128 << 10 // bytes; the kernel takes twice as much
)

// Server answers requests. It is safe for concurrent use.
type Server struct {
	o         Options
	routes    []*route
	mux       *http.ServeMux
	names     names
	metrics   *telemetry.Metrics
	bodies    *queue.Bucket // hashes of submissions with an Idempotency-Key
	room      *room
	proofs    proofs
	watching  sync.WaitGroup
	watched   sync.Map // ids of runs
	streaming streams
	owners    owners
	started   time.Time
	draining  atomic.Bool
	ctx       context.Context // of everything that waits
	end       context.CancelFunc
}

// New makes a Server for listeners of these addresses.
func New(o Options, addrs ...net.Addr) (*Server, error) {
	if o.MaxBody == 0 {
		o.MaxBody = 8 << 20
	}
	if o.MaxWait == 0 {
		o.MaxWait = time.Minute
	}
	if o.Retention == 0 {
		o.Retention = 24 * time.Hour
	}
	if o.HeadTimeout == 0 {
		o.HeadTimeout = headTimeout
	}
	if o.BodyTimeout == 0 {
		o.BodyTimeout = bodyTimeout
	}
	if o.MaxConns == 0 {
		o.MaxConns = 1024
	}
	if o.Site == nil {
		o.Site = web.Default()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.StdinGrace == 0 {
		o.StdinGrace = 10 * time.Second
	}
	if o.heartbeat == 0 {
		o.heartbeat = heartbeat
	}
	s := &Server{o: o, started: time.Now(), routes: slices.Concat(routes(), pageRoutes()), metrics: o.Metrics}
	s.ctx, s.end = context.WithCancel(context.Background())
	var err error
	if s.names, err = newNames(o.Hosts, o.Origins, addrs); err != nil {
		return nil, err
	}
	if s.room, err = newRoom(o.Budget, o.MaxBody); err != nil {
		return nil, err
	}
	s.mux = http.NewServeMux()
	for _, r := range s.routes {
		s.mux.Handle(r.pattern(), s.endpoint(r))
	}
	if s.bodies, err = o.Queue.Bucket(s.ctx, "submissions", queue.BucketOptions{TTL: s.o.Retention, MaxValue: 64}); err != nil {
		return nil, err
	}
	waiting, err := o.Queue.Unfinished(s.ctx, "")
	for _, j := range waiting {
		s.watch(j.ID)
	}
	return s, err
}

// Serve answers on a listener until [Server.Close]. With a TLS configuration the
// listener's connections are TLS. It speaks HTTP/1.1 alone.
func (s *Server) Serve(l net.Listener, config *tls.Config) error {
	var http1 http.Protocols // HTTP/2 would be a second parser of what strangers send
	http1.SetHTTP1(true)
	srv := &http.Server{Handler: s, Protocols: &http1, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: s.o.HeadTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHead,
		ErrorLog: log.New(io.Discard, "", 0)}
	defer context.AfterFunc(s.ctx, func() { _ = srv.Close() })()
	l = newLimitListener(l, s.o.MaxConns)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain refuses submissions from now on, and says so to /readyz.
func (s *Server) Drain() { s.draining.Store(true) }

// Close ends every connection.
func (s *Server) Close() {
	s.end()
	s.streaming.close()
	s.owners.close()
	s.watching.Wait()
	s.room.give()
}
