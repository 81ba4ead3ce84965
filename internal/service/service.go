// Package service puts the service together: queue, cells, executor and server, in
// the order in which they begin, and in the reverse one in which they end.
package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/budget"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/executor"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/server"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
	"github.com/glovebox-dev/glovebox/internal/webhook"
)

// Options of a service. Zero values are the defaults.
type Options struct {
	// Dir is the data folder: it has the service's secret and its queue. It is made,
	// 0700, and belongs to one service at a time.
	Dir   string
	Queue queue.Options    // MaxJobs, Log and, without an URL, Dir are filled in
	Box   glovebox.Options // fields of MaxLimits that are zero are those of a service
	// Server has what is said of requests; what the service itself makes is filled in.
	Server server.Options
	// Admission says who may do what; Queue, Secret and Log are filled in.
	Admission admission.Options
	// Hooks say which hosts may be told of ends; what the service itself makes is filled in.
	Hooks webhook.Options
	// Audit says where the audit log is, if not in the folder audit of Dir; what the
	// service itself makes is filled in.
	Audit telemetry.AuditOptions
	// Metrics say who may read them; the rest is filled in.
	Metrics telemetry.Options
	// Budget is what all of it may use together; nil means what the machine has, of which
	// Memory bytes: nine tenths of what there is if that is zero.
	Budget *budget.Budget
	Memory int64
	// Slots run at once (two for each processor), Backlog may wait besides (64).
	Slots, Backlog int
	Listeners      []net.Listener
	Certificates   *Certificates // nil: without TLS
	Log            *slog.Logger
}

// Service is a service that runs.
type Service struct {
	o         Options
	queue     *queue.Queue
	box       *glovebox.Box
	admission *admission.Admission
	metrics   *telemetry.Metrics
	hooks     *webhook.Hooks
	audit     *telemetry.Audit
	executor  *executor.Executor
	server    *server.Server
	opened    chan struct{} // closed when all of these are there, or Open has failed
	draining  atomic.Bool
	serving   sync.WaitGroup
	failed    chan error
}

// Open starts a service; its listeners are answered from now on.
func Open(ctx context.Context, o Options) (_ *Service, err error) {
	s := &Service{o: o, failed: make(chan error, len(o.Listeners)), opened: make(chan struct{})}
	defer close(s.opened)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.defaults()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := ownFolder(o.Dir); err != nil { // also where the queue is elsewhere: the secret is in it
		return nil, err
	}
	if s.o.Budget == nil {
		if s.o.Budget, err = machine(o.Dir, o.Memory); err != nil {
			return nil, err
		}
	}
	q := o.Queue
	q.MaxJobs, q.Log, q.Settled = s.o.Slots+s.o.Backlog, s.o.Log, s.settled
	if q.URL == "" {
		q.Dir = o.Dir
	}
	if s.queue, err = queue.Open(ctx, q); err != nil { // it has the folder's lock
		return nil, err
	}
	secret, err := credential.LoadSecret(o.Dir)
	if err != nil {
		return nil, err
	}
	s.o.Box = s.boxOptions()
	if s.box, err = glovebox.New(s.o.Box); err != nil {
		return nil, err
	}
	a := o.Admission
	a.Queue, a.Secret, a.Log = s.queue, secret, s.o.Log
	if s.admission, err = admission.Open(ctx, a); err != nil {
		return nil, err
	}
	s.metrics = telemetry.New(s.measured())
	if err = s.openAudit(secret); err != nil {
		return nil, err
	}
	if s.hooks, err = webhook.New(ctx, s.hooking(secret)); err != nil {
		return nil, err
	}
	return s, s.serve(secret)
}

// ownFolder refuses a folder that others may enter or that is not this user's.
func ownFolder(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode != unix.S_IFDIR|0o700 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s must be a folder of this user with mode 0700", queue.ErrFolder, dir)
	}
	return nil
}

func (s *Service) openAudit(secret *credential.Secret) (err error) {
	a := s.o.Audit
	if a.Dir == "" {
		a.Dir = filepath.Join(s.o.Dir, "audit")
	}
	a.Hasher, a.Observe = secret, s.metrics.Audit
	if s.audit, err = telemetry.OpenAudit(a); err != nil {
		return err
	}
	return s.audit.Append(context.Background(), telemetry.Entry{Kind: telemetry.EntryStarted})
}

func (s *Service) hooking(secret *credential.Secret) webhook.Options {
	h := s.o.Hooks
	h.Queue, h.Secret, h.Log, h.Observe = s.queue, secret, s.o.Log, s.metrics.Webhook
	h.Active = func(ctx context.Context, id string) bool {
		_, err := s.admission.Key(ctx, admission.Client{Kind: admission.KeyHolder, ID: "key-" + id, KeyID: id})
		gone, ok := errors.AsType[*api.ServiceError](err)
		return !ok || gone.Code != api.CodeUnauthorized // a store that does not answer takes no key away
	}
	return h
}

func (s *Service) defaults() {
	if s.o.Slots == 0 {
		s.o.Slots = 2 * runtime.NumCPU()
	}
	if s.o.Backlog == 0 {
		s.o.Backlog = 64
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
}

// serve answers the listeners, and then begins with what waits.
func (s *Service) serve(secret *credential.Secret) (err error) {
	o := s.o.Server
	o.Queue, o.Box, o.Secret, o.Log, o.Admission, o.Budget, o.Metrics = s.queue, s.box, secret, s.o.Log, s.admission, s.o.Budget, s.metrics
	o.Hooks, o.Audit = s.hooks, s.audit
	o.Slots, o.Backlog, o.Running = s.o.Slots, s.o.Backlog, s.running
	o.Waiting = s.waiting
	o.Ceilings, o.Warnings = s.o.Box.MaxLimits, s.Warnings()
	var addrs []net.Addr
	for _, l := range s.o.Listeners {
		addrs = append(addrs, l.Addr())
	}
	if s.server, err = server.New(o, addrs...); err != nil {
		return err
	}
	s.executor = executor.Start(executor.Options{Queue: s.queue, Box: s.box, Slots: s.o.Slots, Log: s.o.Log, Reserve: s.reserve, Taken: s.taken, Ended: s.ended})
	var secure *tls.Config
	if s.o.Certificates != nil {
		secure = s.o.Certificates.config()
	}
	for _, l := range s.o.Listeners {
		s.serving.Go(func() { s.failed <- s.server.Serve(l, secure) })
	}
	return nil
}

// measured says what the metrics are of.
func (s *Service) measured() telemetry.Options {
	o := s.o.Metrics
	o.Routes, o.Version = server.Patterns(), s.o.Server.Version
	for _, l := range s.box.Languages(context.Background(), false) {
		o.Languages = append(o.Languages, l.Name)
	}
	o.Gauges = telemetry.Gauges{
		Running: s.running, Slots: func() int { return s.o.Slots }, Backlog: func() int { return s.o.Slots + s.o.Backlog },
		Waiting: s.waiting, Draining: s.draining.Load, Ready: func() bool { return s.queue.Err() == nil && !s.draining.Load() },
		Stored:   func() int64 { used, _ := s.queue.Stored(); return used },
		StoreCap: func() int64 { _, most := s.queue.Stored(); return most },
	}
	return o
}

func (s *Service) running() int {
	select {
	case <-s.opened:
		return s.executor.Running()
	default:
		return 0
	}
}

// waiting is how many runs have not begun.
func (s *Service) waiting() int { return max(0, s.admission.Held().Runs-s.running()) }

// reserve keeps room for a run: for its compiler, if that has more.
func (s *Service) reserve(ctx context.Context, l api.Limits) (func(), error) {
	need := budget.Amount{Memory: l.MemoryBytes, Processes: l.Pids, Descriptors: cellDescriptors}
	if c := l.Compile; c != nil {
		need.Memory, need.Processes = max(need.Memory, c.MemoryBytes), max(need.Processes, c.Pids)
	}
	return s.o.Budget.Acquire(ctx, need)
}

// cellDescriptors is how many descriptors of this process a run has: its pipes, its
// control socket, its pidfd and files of its control group.
const cellDescriptors = 16

func (s *Service) boxOptions() glovebox.Options {
	b := s.o.Box
	b.MaxLimits = b.MaxLimits.Over(api.ServiceMaxLimits(runtime.NumCPU()))
	b.MaxCells = max(b.MaxCells, s.o.Slots+2)
	b.Logger = s.o.Log
	return b
}

// Failed says why a listener is answered no more.
func (s *Service) Failed() <-chan error { return s.failed }

// Status is what the host enforces, with warnings of the service's own.
func (s *Service) Status() api.Status {
	st := s.box.Status()
	st.Warnings = append(slices.Clone(st.Warnings), s.Warnings()...)
	return st
}

// Warnings are what an operator has allowed and should know.
func (s *Service) Warnings() []string {
	if s.queue.Insecure() {
		return []string{"queue: the NATS server is used without TLS or credentials, as nats_insecure says"}
	}
	return nil
}

// Err says what keeps the service from taking submissions: nil, or the queue's reason.
// After [queue.ErrFull] the service has to be closed and opened again when there is
// room; nothing that was accepted is lost.
func (s *Service) Err() error { return s.queue.Err() }

// Reload reads the files of the certificates again.
func (s *Service) Reload() error {
	if s.o.Certificates == nil {
		return nil
	}
	return s.o.Certificates.Reload()
}

// Drain takes no submission and no job any more, and returns when no run is left, or
// with the context's cause.
func (s *Service) Drain(ctx context.Context) error {
	s.draining.Store(true)
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
	if s.hooks != nil {
		ctx, cancel := context.WithTimeout(context.Background(), step)
		s.hooks.Close(ctx)
		cancel()
	}
	if s.admission != nil {
		s.admission.Close()
	}
	if s.audit != nil {
		_ = s.audit.Append(context.Background(), telemetry.Entry{Kind: telemetry.EntryEnded})
		errs = append(errs, s.audit.Close())
	}
	if s.queue != nil {
		errs = append(errs, s.queue.Close())
	}
	return errors.Join(errs...)
}

// machine is a budget of what this process may use: this much memory, or all but a
// tenth, which is for the system and the service itself.
func machine(dir string, memory int64) (*budget.Budget, error) {
	total, err := budget.Machine(dir)
	if err != nil {
		return nil, err
	}
	if total.Memory = total.Memory / 10 * 9; memory != 0 {
		total.Memory = memory
	}
	return budget.New(total, total.Part(1, 20)), nil
}

// RefuseForRoom answers requests with 503 and the code "storage" while there is no
// service for want of room. What it returns ends that and closes the listeners.
func RefuseForRoom(o Options) (end func()) {
	var secure *tls.Config
	if o.Certificates != nil {
		secure = o.Certificates.config()
	}
	conns := o.Server.MaxConns
	if conns == 0 {
		conns = 1024
	}
	return server.Refuse(o.Listeners, secure, conns, api.ServiceError{Code: api.CodeStorage, Message: "the service has no room on its disk", RetryAfterMS: 30_000})
}
