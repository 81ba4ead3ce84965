package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"
)

// folder is the store's, locked.
type folder struct{ lock *os.File }

// openFolder makes the folder if it is not there, and refuses one that others may
// enter or that is not this user's. The lock is flock(2) of a file in it, which ends
// with the process.
func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, &os.PathError{Op: "open", Path: dir, Err: err})
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "fstat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&0o7777 != 0o700:
		return nil, fmt.Errorf("%w: %s has mode %04o, not 0700", ErrFolder, dir, st.Mode&0o7777)
	case int(st.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%w: %s belongs to user %d, not to this one", ErrFolder, dir, st.Uid)
	}
	lock, err := unix.Openat(fd, "lock", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "openat", Path: filepath.Join(dir, "lock"), Err: err}
	}
	f := &folder{os.NewFile(uintptr(lock), "lock")}
	if err := unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
		}
		return nil, &os.PathError{Op: "flock", Path: dir, Err: err}
	}
	return f, nil
}

func (f *folder) close() error { return f.lock.Close() }

// embed starts a server in this process, and connects to it. It listens nowhere,
// and has credentials nevertheless, which nobody else ever sees.
func (q *Queue) embed(ctx context.Context) (err error) {
	if q.folder, err = openFolder(q.o.Dir); err != nil {
		return err
	}
	user, password := rand.Text(), rand.Text()
	sync := 10 * time.Second
	q.srv, err = server.NewServer(&server.Options{
		ServerName: "glovebox", DontListen: true, NoSigs: true, NoSystemAccount: true,
		Username: user, Password: password,
		JetStream: true, StoreDir: q.o.Dir, DisableJetStreamBanner: true,
		JetStreamMaxMemory: 16 << 20, JetStreamMaxStore: q.o.MaxBytes, JetStreamKey: q.o.EncryptionKey,
		SyncInterval: sync, SyncAlways: q.o.FsyncAlways,
		JetStreamCipher: server.ChaCha,
	})
	if err != nil {
		return err
	}
	q.srv.SetLoggerV2(serverLog{q.o.Log}, false, false, false)
	q.srv.Start()
	if !q.srv.ReadyForConnections(step) {
		return errors.New("queue: the embedded server does not start")
	}
	if !q.srv.JetStreamEnabled() {
		return errors.New("queue: the embedded server's store does not start")
	}
	q.nc, err = nats.Connect("", nats.InProcessServer(q.srv), nats.UserInfo(user, password), nats.Name("glovebox"), q.onError(), nats.NoCallbacksAfterClientClose())
	return errors.Join(err, context.Cause(ctx))
}

// dial connects to an external server.
func (q *Queue) dial(ctx context.Context) (err error) {
	o := q.o
	servers := strings.Split(o.URL, ",")
	opts := []nats.Option{nats.Name("glovebox"), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second), q.onError(),
		nats.ReconnectHandler(func(*nats.Conn) { q.hints.all() }), nats.NoCallbacksAfterClientClose()}
	known := o.CredsFile != "" || o.User != ""
	for _, s := range servers {
		u, err := url.Parse(strings.TrimSpace(s))
		if err != nil {
			return fmt.Errorf("%w: the URL cannot be read", ErrInsecure) // the text may hold a password
		}
		switch {
		case o.Insecure:
		case u.Scheme != "tls" && u.Scheme != "wss":
			return fmt.Errorf("%w: the URL must begin with tls://, or insecure must be said", ErrInsecure)
		case !known && u.User == nil:
			return fmt.Errorf("%w: no credentials for %s, and insecure is not said", ErrInsecure, u.Host)
		}
	}
	if o.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(o.CredsFile))
	}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	if o.CAFile != "" {
		opts = append(opts, nats.RootCAs(o.CAFile))
	}
	if q.nc, err = nats.Connect(o.URL, opts...); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func (q *Queue) onError() nats.Option {
	return nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrSlowConsumer) {
			q.hints.all()
		}
		q.o.Log.Warn("queue", "error", err)
	})
}

// serverLog takes what the embedded server says: what is not a warning or worse is
// of no use.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Noticef(string, ...any) {}
func (l serverLog) Debugf(string, ...any)  {}
func (l serverLog) Tracef(string, ...any)  {}
func (l serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Plaintext passwords") { // of a user that nobody else can name, on a pipe
		return
	}
	l.log.Warn("queue: " + fmt.Sprintf(format, v...))
}
func (l serverLog) Errorf(format string, v ...any) {
	l.log.Error("queue: " + fmt.Sprintf(format, v...))
}
func (l serverLog) Fatalf(format string, v ...any) {
	l.log.Error("queue: " + fmt.Sprintf(format, v...))
}
