package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ListenSocket makes a unix socket that its owner alone may connect to. A socket that
// a dead server left is replaced; anything else that stands in the way is not. It
// changes the process's umask while it binds.
func ListenSocket(path string) (*net.UnixListener, error) {
	path, err := filepath.Abs(path) // which has no "@" in front: abstract sockets have no owner
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("%s: exists, and is no socket", path)
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("%s: another server listens there", path)
		} else if !errors.Is(err, unix.ECONNREFUSED) {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// ServeSocket serves connections of a socket, a message a line as on stdio, until the
// context ends. The kernel says who connects: only the user who runs the server is
// served, whatever the mode of the socket became.
func (s *Server) ServeSocket(ctx context.Context, l *net.UnixListener) error {
	return s.serveSocket(ctx, l, peerUID)
}

func (s *Server) serveSocket(ctx context.Context, l *net.UnixListener, uidOf func(*net.UnixConn) (int, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	defer context.AfterFunc(s.ctx, cancel)()
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	places := make(chan struct{}, s.o.Sessions)
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		uid, err := uidOf(c)
		if err != nil || uid != os.Geteuid() {
			s.log.Warn("a connection of another user was refused", "uid", uid, "error", err)
			_ = c.Close()
			continue
		}
		select {
		case places <- struct{}{}:
		default: // as many sessions as there may be
			_ = c.Close()
			continue
		}
		wait.Go(func() {
			defer func() { <-places }()
			defer c.Close()
			if err := s.serve(ctx, principal{name: fmt.Sprintf("uid:%d", uid), local: true}, newLines(c, deadlineWriter{c})); err != nil && ctx.Err() == nil {
				s.log.Info("a session ended", "error", err)
			}
		})
	}
}

// peerUID is the user who connected, by SO_PEERCRED (unix(7)).
func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	var got error
	if err := raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return -1, err
	}
	if got != nil {
		return -1, got
	}
	return int(cred.Uid), nil
}

// writeTimeout is how long a client may take to read one message.
const writeTimeout = 30 * time.Second

// deadlineWriter gives up on a client that does not read.
type deadlineWriter struct{ net.Conn }

func (w deadlineWriter) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}
