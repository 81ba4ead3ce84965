package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// closeTime is how long a service may take to put everything away once no run is left
// that it waits for.
const closeTime = 40 * time.Second

// lookEvery is how often the store is asked whether it has stopped, and the service
// manager told that all is well.
const lookEvery = 2 * time.Second

// run serves until a signal or a failure.
func (s *serving) run(parent context.Context) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // of it only the error of the write is left
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer signal.Stop(signals)
	err := s.listen()
	defer func() {
		for _, f := range s.sockets {
			_ = f.Close()
		}
	}()
	if err == nil {
		err = s.options()
	}
	if err != nil {
		return err
	}
	for {
		svc, err := s.open(parent, signals)
		if svc == nil || err != nil {
			return err
		}
		again, err := s.serve(svc, signals)
		if !again || err != nil {
			return err
		}
		if more, err := s.awaitRoom(signals); !more {
			return err
		}
	}
}

// listen takes the sockets that a service manager has made, or makes the one of --addr.
func (s *serving) listen() error {
	s.sockets = activation.Files(true)
	if len(s.sockets) == 0 {
		l, err := net.Listen("tcp", s.config.Addr)
		if err != nil {
			return err
		}
		defer l.Close() // the copy goes on to listen
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			return err
		}
		s.sockets = append(s.sockets, f)
	}
	listeners, err := s.listeners()
	for i, l := range listeners {
		if i == 0 || s.config.Loopback() { // the farthest decides what is in force
			s.config.Addr = l.Addr().String()
		}
		_ = l.Close()
	}
	return err
}

// listeners are new ones on the sockets; closing them leaves the sockets open.
func (s *serving) listeners() ([]net.Listener, error) {
	var out []net.Listener
	for _, f := range s.sockets {
		l, err := net.FileListener(f)
		if err == nil {
			l, err = service.Guard(l, s.config)
		}
		if err != nil {
			for _, l := range out {
				_ = l.Close()
			}
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// open opens the service, or returns nil when a signal came before it was open.
func (s *serving) open(parent context.Context, signals chan os.Signal) (*service.Service, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	listeners, err := s.listeners()
	if err != nil {
		return nil, err
	}
	opts := s.opts
	opts.Listeners = listeners
	type opened struct {
		svc *service.Service
		err error
	}
	done := make(chan opened, 1)
	go func() {
		svc, err := service.Open(ctx, opts)
		done <- opened{svc, err}
	}()
	for {
		select {
		case o := <-done:
			if o.err != nil {
				return nil, s.explain(o.err)
			}
			return o.svc, s.ready(o.svc, listeners[0])
		case sig := <-signals:
			if sig == unix.SIGHUP {
				continue
			}
			cancel()
			if o := <-done; o.svc != nil {
				return nil, o.svc.Close()
			}
			return nil, nil
		}
	}
}

// explain says what an error of the start means to whoever started the service.
func (s *serving) explain(err error) error {
	sandbox := (*glovebox.SandboxError)(nil)
	switch {
	case errors.Is(err, queue.ErrLocked):
		return fmt.Errorf("another process serves the folder %s; a folder of --data has one service at a time", s.config.Data)
	case errors.Is(err, queue.ErrFolder), errors.Is(err, os.ErrPermission):
		return usagef("--data %s: %s", s.config.Data, err)
	case errors.Is(err, queue.ErrInsecure):
		return usagef("--nats %s: %s; --nats-insecure allows it", s.config.NATS, err)
	case errors.As(err, &sandbox) && s.config.LogFormat == config.LogText:
		_ = table(s.out, sandbox.Status, findEngine().text(), s.config.Sandbox, width(s.out))
	}
	return err
}

// ready tells everybody that the service serves: its status and URL once.
func (s *serving) ready(svc *service.Service, l net.Listener) error {
	notify("READY=1\nSTATUS=serving at " + s.url(l))
	if s.told {
		return nil
	}
	s.told = true
	if s.config.LogFormat == config.LogJSON {
		st := svc.Status()
		s.log.Info("serving", "url", s.url(l), "complete", st.Complete, "warnings", st.Warnings, "quotas", s.config.QuotasInForce())
		return nil
	}
	st := svc.Status()
	if err := table(s.out, st, findEngine().text(), s.config.Sandbox, width(s.out)); err != nil {
		return errors.Join(err, svc.Close())
	}
	for _, w := range svc.Warnings() {
		s.log.Warn(w)
	}
	if _, err := fmt.Fprintf(s.out, "serving at %s\n", s.url(l)); err != nil {
		return errors.Join(err, svc.Close())
	}
	return nil
}

// url is how the service is reached.
func (s *serving) url(l net.Listener) string {
	scheme, host := "http://", l.Addr().String()
	if s.config.TLS() {
		scheme = "https://"
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() && len(s.config.AllowHosts) > 0 {
		host = s.config.AllowHosts[0]
	}
	return scheme + host
}

// serve waits for the end: again is true when the store has stopped for want of room,
// so that the service has to be opened again.
func (s *serving) serve(svc *service.Service, signals chan os.Signal) (again bool, err error) {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	beat := newHeartbeat()
	defer beat.Stop()
	for {
		select {
		case sig := <-signals:
			if sig == unix.SIGHUP {
				s.reload(svc)
				continue
			}
			return false, s.end(svc, signals)
		case err := <-svc.Failed():
			return false, errors.Join(fmt.Errorf("no connection can be taken any more: %w", err), s.close(svc))
		case <-every.C:
			if err := svc.Err(); errors.Is(err, queue.ErrFull) {
				s.log.Error("the store has stopped; it is opened again when there is room", "error", err)
				if err = s.close(svc); errors.Is(err, errNotEnded) {
					return false, err
				} else if err != nil { // for want of room too
					s.log.Warn("not everything was put away", "error", err)
				}
				return true, nil
			}
		case <-beat.C:
			notify("WATCHDOG=1")
		}
	}
}

func (s *serving) reload(svc *service.Service) {
	if err := svc.Reload(); err != nil {
		s.log.Error("the certificate was not read again; the one before stays", "error", err)
		return
	}
	s.log.Info("the certificate was read again")
}

// end drains the service within the time for it, or until the second signal.
func (s *serving) end(svc *service.Service, signals chan os.Signal) error {
	limit := s.config.DrainTimeout
	notify(fmt.Sprintf("STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%d", (limit + closeTime + 5*time.Second).Microseconds()))
	s.log.Info("draining", "limit", limit)
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, errors.New("the time for it is over"))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- svc.Drain(ctx) }()
	for waiting := true; waiting; {
		select {
		case err := <-done:
			if err != nil {
				s.log.Warn("runs are interrupted", "reason", err)
			}
			waiting = false
		case sig := <-signals:
			if sig != unix.SIGHUP {
				s.log.Warn("runs are interrupted", "reason", "a second signal")
				signal.Reset(unix.SIGTERM, unix.SIGINT) // a third one ends the process as it is
				waiting = false
			}
		}
	}
	err := s.close(svc)
	if err == nil {
		s.log.Info("ended")
	}
	return err
}

// errNotEnded says that a service still has its folder.
var errNotEnded = fmt.Errorf("the service did not end within %s; what it had begun is interrupted at the next start", closeTime)

// close closes the service, within a time.
func (s *serving) close(svc *service.Service) error {
	done := make(chan error, 1)
	go func() { done <- svc.Close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(closeTime):
		return errNotEnded
	}
}

// awaitRoom refuses requests until the file system of the data folder has room again;
// it returns false when a signal came before.
func (s *serving) awaitRoom(signals chan os.Signal) (bool, error) {
	notify("STATUS=waiting for room on the disk")
	opts := s.opts
	var err error
	if opts.Listeners, err = s.listeners(); err != nil {
		return false, err
	}
	defer service.RefuseForRoom(opts)()
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	beat := newHeartbeat()
	defer beat.Stop()
	for {
		var fs unix.Statfs_t
		if err := unix.Statfs(s.config.Data, &fs); err == nil && int64(fs.Bavail)*fs.Bsize >= s.config.MinFree {
			s.log.Info("there is room again")
			return true, nil
		}
		select {
		case sig := <-signals:
			if sig != unix.SIGHUP {
				return false, nil
			}
		case <-beat.C:
			notify("WATCHDOG=1")
		case <-every.C:
		}
	}
}
