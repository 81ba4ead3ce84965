// Package mcpserver gives models the cells of Glovebox over the Model Context
// Protocol: as a child of the client on stdin and stdout, over a unix socket,
// and over streamable HTTP. The protocol is that of the official SDK; in front of
// it stand a strict reading of every message, and bounds.
//
// Whoever speaks is a principal: the parent on stdio, the user on a socket, the
// token over HTTP. Sessions of the protocol, sessions of code and artifacts belong
// to a principal, whatever id somebody names. What a guest wrote is filtered,
// capped and given in a field that says that it is not to be trusted.
//
// See https://modelcontextprotocol.io/specification.
package mcpserver

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Bounds that no option moves.
const (
	// MaxMessage is the longest message of a client, in bytes; a longer one ends
	// its connection.
	MaxMessage = 8 << 20
	maxControl = 64 << 10 // a message that is no call of a tool
	maxCalls   = 64       // requests of one connection or token that are not answered yet
	reopen     = 5 * time.Second
)

// Options of [New]. The zero value is the safe default.
type Options struct {
	// Box are the options of the Box that runs programs. MaxCells is by default
	// twice the number of processors, MaxWaiting 64, and MaxLimits those of
	// [Ceilings], which it can only lower or raise as the library allows.
	Box glovebox.Options
	// Version is what the server says of itself.
	Version string
	// InFlight is how many programs of one principal run or wait at once; one more
	// is refused. Zero means 8.
	InFlight int
	// Sessions is how many sessions of the protocol one principal may have open,
	// and how many of code. Zero means 16.
	Sessions int
	// ArtifactBytes is how much is kept of one principal's artifacts; the oldest
	// make room. Zero means 64 MiB.
	ArtifactBytes int64
	// ArtifactTime is how long an artifact is kept. Zero means an hour.
	ArtifactTime time.Duration
	// Logger gets what is of interest to an operator. It never sees source, input,
	// output or a token. Nil means silence.
	Logger *slog.Logger
}

// Server serves any number of connections. It is safe for concurrent use; Close it.
type Server struct {
	o      Options
	log    *slog.Logger
	known  []glovebox.Language
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	clients map[string]*client
	box     *glovebox.Box
	opened  bool          // at least once
	opening chan struct{} // closed when an attempt has ended
	failed  error
	tried   time.Time
}

// Ceilings are the highest limits of a program of a model, unless
// Options.Box.MaxLimits says otherwise: those of a service.
func Ceilings() glovebox.Limits {
	return glovebox.Limits{WallMS: 60_000, CPUMS: 60_000, MemoryBytes: 1 << 30, Pids: 256, StdoutBytes: 4 << 20, StderrBytes: 4 << 20,
		FileBytes: 256 << 20, OpenFiles: 1024, DiskBytes: 512 << 20, DiskFiles: 10_000}
}

// New makes a server. It starts to find out what this host can enforce; where the
// sandbox is not available the server serves all the same, and each tool that would
// run something says why it cannot. The error is about the options.
func New(o Options) (*Server, error) {
	for _, f := range []struct {
		name  string
		value int64
	}{{"InFlight", int64(o.InFlight)}, {"Sessions", int64(o.Sessions)}, {"ArtifactBytes", o.ArtifactBytes}, {"ArtifactTime", int64(o.ArtifactTime)}} {
		if f.value < 0 {
			return nil, &glovebox.FieldError{Field: f.name, Value: f.value, Reason: "must not be negative"}
		}
	}
	o.InFlight, o.Sessions = cmp.Or(o.InFlight, 8), cmp.Or(o.Sessions, 16)
	o.ArtifactBytes, o.ArtifactTime = cmp.Or(o.ArtifactBytes, 64<<20), cmp.Or(o.ArtifactTime, time.Hour)
	o.Box.MaxCells = cmp.Or(o.Box.MaxCells, 2*processors())
	o.Box.MaxWaiting = cmp.Or(o.Box.MaxWaiting, 64)
	o.Box.MaxLimits = o.Box.MaxLimits.Over(Ceilings())
	known, err := glovebox.KnownLanguages(o.Box)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, log: o.Logger, known: known, clients: map[string]*client{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open()
	return s, nil
}

// open starts an attempt to open the Box. s.mu is held.
func (s *Server) open() {
	done := make(chan struct{})
	s.opening = done
	go func() {
		box, err := glovebox.New(s.o.Box)
		s.mu.Lock()
		defer s.mu.Unlock()
		defer close(done)
		s.opening, s.failed, s.tried = nil, err, time.Now()
		switch {
		case err != nil:
			s.log.Warn("the sandbox is not available", "error", err)
		case s.ctx.Err() != nil:
			_ = box.Close()
		default:
			s.box, s.opened = box, true
		}
	}()
}

// Box returns the Box, and waits while it is being opened. After a failure it tries
// again, at most every five seconds: a host can be mended meanwhile.
func (s *Server) Box(ctx context.Context) (*glovebox.Box, error) {
	s.mu.Lock()
	if s.box == nil && s.opening == nil && s.ctx.Err() == nil && time.Since(s.tried) > reopen {
		s.open()
	}
	done := s.opening
	s.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return nil, glovebox.ErrClosed
	case s.box == nil:
		return nil, s.failed
	}
	return s.box, nil
}

// Unopened returns the error that kept this server from ever having a cell, nil if it
// had one. It wraps [glovebox.ErrSandboxUnavailable] where this host is the reason.
func (s *Server) Unopened() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened {
		return nil
	}
	return s.failed
}

// Close ends every run and session and returns when nothing is left of any cell. It
// is idempotent.
func (s *Server) Close() error {
	s.cancel()
	s.mu.Lock()
	done, box := s.opening, s.box
	clients := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		clients = append(clients, c)
	}
	s.mu.Unlock()
	if done != nil {
		<-done // it closes what it opened
	}
	for _, c := range clients {
		c.close()
	}
	if box == nil {
		return nil
	}
	return box.Close()
}

// client returns the state of a principal. There are as many as there are tokens
// and kinds of transports: a stranger makes none.
func (s *Server) client(p principal) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[p.name]
	if c == nil {
		c = newClient(s, p)
		s.clients[p.name] = c
	}
	return c
}
