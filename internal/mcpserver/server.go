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
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/agent/store"
)

// Bounds that no option moves.
const (
	// MaxMessage is the longest message of a client, in bytes; a longer one ends
	// its connection.
	MaxMessage = 8 << 20
	maxControl = 64 << 10 // a message that is no call of a tool
	maxCalls   = 64       // requests of one connection or token that are not answered yet
)

// Options of [New]. The zero value is the safe default.
type Options struct {
	// Box are the options of the Box that runs programs. MaxCells is by default
	// twice the number of processors, MaxWaiting 64, and MaxLimits those of
	// [Ceilings], which it can only lower or raise as the library allows.
	Box glovebox.Options
	// Agent are the options of the pool of code sessions. Store is the server's own,
	// in memory; Limits have lower defaults where a field is zero, see [SessionLimits];
	// Residents is 8 by default, and Max twice the number of processors more than that.
	Agent agent.Options
	// Tools are what code sessions may call; nil is none.
	Tools *agent.Catalog
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
	box    opener[*glovebox.Box]
	pool   opener[*agent.Pool]
	store  store.Store // of the pool's sessions
	closed func() error

	mu      sync.Mutex
	clients map[string]*client
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
	o.Agent.Residents = cmp.Or(o.Agent.Residents, 8)
	o.Agent.Max = cmp.Or(o.Agent.Max, o.Agent.Residents+2*processors())
	o.Agent.Limits = over(o.Agent.Limits, SessionLimits())
	known, err := glovebox.KnownLanguages(o.Box)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, log: o.Logger, known: known, clients: map[string]*client{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.box = opener[*glovebox.Box]{make: func() (*glovebox.Box, error) { return glovebox.New(s.o.Box) }, close: (*glovebox.Box).Close}
	s.pool = opener[*agent.Pool]{make: s.openPool, close: (*agent.Pool).Close}
	s.store = store.NewMemory()
	s.closed = sync.OnceValue(s.close)
	s.box.begin()
	return s, nil
}

// Box returns the Box that programs run in, and waits while it is being opened.
func (s *Server) Box(ctx context.Context) (*glovebox.Box, error) { return s.box.get(ctx) }

// Unopened returns the error that kept this server from ever having a cell, nil if it
// had one. It wraps [glovebox.ErrSandboxUnavailable] where this host is the reason.
func (s *Server) Unopened() error { return s.box.never() }

// Close ends every run and session and returns when nothing is left of any cell. It
// is idempotent.
func (s *Server) Close() error { return s.closed() }

func (s *Server) close() error {
	s.cancel()
	s.box.end()
	s.pool.end()
	s.mu.Lock()
	clients := slices.Collect(maps.Values(s.clients))
	s.mu.Unlock()
	for _, c := range clients {
		c.close()
	}
	return errors.Join(s.pool.release(), s.box.release(), s.store.Close())
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
