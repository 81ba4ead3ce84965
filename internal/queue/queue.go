// Package queue is where runs wait, where what happens to them is written down, and
// where the service keeps everything else: a NATS JetStream, embedded in the
// process or external. It knows nothing of HTTP and nothing of cells.
//
// Accepted means acknowledged by JetStream: a job outlives kill -9, and with
// Options.FsyncAlways the loss of power. Each run has one subject of records that
// is written by compare and swap alone: attempts, the start, the one final event.
// Whoever has not written the last record has lost the run, and nothing that it
// writes is taken any more. So a run that has begun is never run again, and there
// is exactly one final event for each id.
package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/glovebox-dev/glovebox/api"
)

// Errors. Others come from NATS.
var (
	ErrLocked   = errors.New("queue: another process has the folder")
	ErrFolder   = errors.New("queue: the folder is not safe")
	ErrInsecure = errors.New("queue: the connection is not safe")
	ErrClosed   = errors.New("queue: closed")
	// ErrFull says that the disk, the cap of the folder or a stream is full, or near
	// it: nothing was accepted.
	ErrFull = errors.New("queue: full")
	// ErrBacklog says that as many jobs wait as may: nothing was accepted.
	ErrBacklog = errors.New("queue: too many jobs wait")
	// ErrTooLarge says that a text, or what one run has written, is larger than it may be.
	ErrTooLarge = errors.New("queue: too large")
	ErrNotFound = errors.New("queue: not found")
	// ErrExists says that there is one of that name already.
	ErrExists = errors.New("queue: exists")
	// ErrConflict says that another has changed it since it was read.
	ErrConflict = errors.New("queue: changed by another")
	// ErrLost says that the job is no longer this executor's: it has a final event, or
	// another executor has it. What runs for it has to end.
	ErrLost = errors.New("queue: the job is no longer held")
	// ErrOrder says that a job was begun twice, given back after its start, or the like.
	ErrOrder = errors.New("queue: out of order")
	// ErrOver says that a run has its final event.
	ErrOver = errors.New("queue: the run is over")
	// ErrBusy says that an executor has as many signals as it takes.
	ErrBusy = errors.New("queue: busy")
	// ErrRefused says that an executor does not take such a signal for this run.
	ErrRefused = errors.New("queue: refused")
	// ErrRunning says that a run has not ended, or that an executor has the job.
	ErrRunning = errors.New("queue: an executor has the job")
)

// Options say where the queue is and how much it may hold. Zero values are the
// defaults.
type Options struct {
	// Dir is the folder of the embedded server, 0700 and this user's, which is made
	// if it is not there. URL is an external server's. One of them must be set.
	Dir string
	URL string
	// CredsFile is a file with NATS credentials; User and Password are others.
	// CAFile is a file of certificates to trust instead of the system's. An external
	// server needs credentials and TLS, unless Insecure.
	CredsFile      string
	User, Password string
	CAFile         string
	Insecure       bool
	// Space tells installations that share a server apart: "glovebox".
	Space string
	// Replicas is how many external servers keep everything: 1.
	Replicas int
	// FsyncAlways writes through to the disk before anything is acknowledged: against
	// loss of power. Without, the disk has everything after 10 s at most.
	FsyncAlways bool
	// EncryptionKey encrypts the embedded server's files: at least 32 bytes, of a
	// good random source. Without it they are plain.
	EncryptionKey string
	// MaxJobs is how many jobs may wait and run: 64.
	MaxJobs int
	// MaxBytes is the cap of all that is kept: 10 GiB, 64 MiB at least. At four
	// fifths of it jobs are refused; the rest is for what was accepted.
	MaxBytes int64
	// MinFree is how much of the file system must be free for a job to be accepted:
	// 256 MiB. Half of it must be for events and objects.
	MinFree int64
	// RunEvents and RunBytes bound the events of one run: 10,000 and 16 MiB.
	RunEvents int
	RunBytes  int64
	// Retention is how long events, results and objects of a run are kept: 24 h, 1 s
	// at least.
	Retention time.Duration
	// MaxLosses is how many executors a job may lose before it ends by itself: 2.
	MaxLosses int
	// Patience is how long an executor may show no life before others get what it
	// had not begun: 30 s.
	Patience time.Duration
	// Settled hears of each run to which this Queue itself gave the final event, with
	// that event's data and the Job, whose program may not be there. It is called from
	// other goroutines, also within [Open], and must not wait.
	Settled func(j Job, result []byte)
	// Log gets what went wrong in the background. Nothing by default.
	Log *slog.Logger
}

// Defaults and bounds.
const (
	// MaxInline is the largest text that lies in a message; a larger one is an object.
	MaxInline = 256 << 10
	// MaxNote is the largest note of a job.
	MaxNote = 16 << 10
	// MaxObject is the largest object.
	MaxObject = 64 << 20
	// maxJobInline keeps what an executor has at hand small.
	maxJobInline = 64 << 10
	maxTries     = 32
	// eventsToken is the events' in what names streams by a token.
	eventsToken = "events"
)

func (o *Options) complete() error {
	if (o.Dir == "") == (o.URL == "") {
		return &api.FieldError{Field: "Dir", Reason: "one of Dir and URL must be set"}
	}
	if o.Space == "" {
		o.Space = "glovebox"
	}
	if err := CheckToken(o.Space); err != nil || len(o.Space) > 16 {
		return &api.FieldError{Field: "Space", Value: o.Space, Reason: "must be 1 to 16 letters, digits, _ and -"}
	}
	if o.EncryptionKey != "" && len(o.EncryptionKey) < 32 {
		return &api.FieldError{Field: "EncryptionKey", Reason: "must have at least 32 bytes"}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, f := range []struct {
		name      string
		v         *int64
		def, low  int64
		high, per int64
	}{
		{"MaxBytes", &o.MaxBytes, 10 << 30, 64 << 20, 1 << 50, 1},
		{"MinFree", &o.MinFree, 256 << 20, 1, 1 << 50, 1},
		{"RunBytes", &o.RunBytes, 16 << 20, 1 << 10, 1 << 40, 1},
		{"Retention", (*int64)(&o.Retention), int64(24 * time.Hour), int64(time.Second), int64(10 * 365 * 24 * time.Hour), 1},
		{"Patience", (*int64)(&o.Patience), int64(30 * time.Second), int64(100 * time.Millisecond), int64(time.Hour), 1},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < f.low || *f.v > f.high {
			return &api.FieldError{Field: f.name, Value: *f.v, Reason: fmt.Sprintf("must be %d to %d", f.low, f.high)}
		}
	}
	for _, f := range []struct {
		name           string
		v              *int
		def, low, high int
	}{
		{"Replicas", &o.Replicas, 1, 1, 5},
		{"MaxJobs", &o.MaxJobs, 64, 1, 100_000},
		{"RunEvents", &o.RunEvents, 10_000, 16, 1_000_000},
		{"MaxLosses", &o.MaxLosses, 2, 1, 10},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < f.low || *f.v > f.high {
			return &api.FieldError{Field: f.name, Value: *f.v, Reason: fmt.Sprintf("must be %d to %d", f.low, f.high)}
		}
	}
	return nil
}

// Queue is an open one. It is safe for concurrent use.
type Queue struct {
	o     Options
	space string
	// instance is a nonce that says of a record that this queue has written it.
	instance string
	srv      *server.Server // nil with an external one
	folder   *folder        // nil with an external one
	nc       *nats.Conn
	js       jetstream.JetStream

	jobs, events *stream
	runs         *Objects
	live         *nats.Subscription
	hints        hints
	spaceLeft    spaceLeft
	stalled      stalled
	taking       taking
	ahead        atomic.Int64 // how much the store's clock is ahead of this one's, in ns
	agedMu       sync.Mutex
	aged         []*aged

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	workMu sync.Mutex
	ended  bool
	work   sync.WaitGroup
	once   sync.Once
}

// Open opens the queue. With Dir it takes the folder, starts the server in this
// process without any listener, and ends by the rules what a process before this
// one has left behind: what had begun gets its final event, the rest waits on.
//
// The error is [ErrLocked], [ErrFolder], [ErrInsecure], an *api.FieldError, or one
// of NATS.
func Open(ctx context.Context, o Options) (*Queue, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	q := &Queue{o: o, space: o.Space, instance: rand.Text()}
	q.ctx, q.cancel = context.WithCancelCause(context.Background())
	q.hints.waiting = map[string]map[chan struct{}]bool{}
	err := q.connect(ctx)
	if err == nil {
		err = q.bind(ctx)
	}
	if err != nil {
		_ = q.Close()
		return nil, err
	}
	return q, nil
}

func (q *Queue) connect(ctx context.Context) error {
	if q.o.Dir == "" {
		return q.dial(ctx)
	}
	return q.embed(ctx)
}

// bind makes the streams, or finds them, and begins what goes on in the background.
func (q *Queue) bind(ctx context.Context) (err error) {
	if q.js, err = jetstream.New(q.nc); err != nil {
		return err
	}
	if q.jobs, err = q.stream(ctx, jetstream.StreamConfig{
		Subjects: []string{q.fixed(jobsSubjects).s}, Retention: jetstream.WorkQueuePolicy,
		MaxMsgs: int64(q.o.MaxJobs), MaxMsgsPerSubject: 1, DiscardNewPerSubject: true,
		MaxMsgSize: MaxInline, MaxBytes: q.o.MaxBytes / 16,
	}, q.fixed(jobsStream), "jobs"); err != nil {
		return err
	}
	if q.events, err = q.stream(ctx, jetstream.StreamConfig{
		Subjects: []string{q.fixed(eventsSubjects).s}, MaxAge: q.o.Retention,
		MaxMsgsPerSubject: int64(q.o.RunEvents), DiscardNewPerSubject: true,
		MaxMsgSize: MaxInline + 64<<10, MaxBytes: q.o.eventShare(),
		RePublish: &jetstream.RePublish{Source: q.fixed(eventsSource).s, Destination: q.fixed(liveDestination).s, HeadersOnly: true},
	}, q.fixed(eventsStream), eventsToken); err != nil {
		return err
	}
	if q.runs, err = q.Objects(ctx, "runs", q.o.Retention, q.o.objectShare()); err != nil {
		return err
	}
	if q.live, err = q.nc.Subscribe(q.fixed(liveSubjects).s, q.hint); err != nil {
		return err
	}
	if q.srv != nil {
		if err := q.recover(ctx); err != nil {
			return err
		}
	}
	q.background(q.sweeps)
	return nil
}

// Close ends the queue, and the embedded server with it. Jobs that were taken and
// not begun go back; the caller has to end what has begun before, or it is
// interrupted when the folder is opened again.
func (q *Queue) Close() error {
	var err error
	q.once.Do(func() {
		q.cancel(ErrClosed)
		q.stopTaking()
		q.workMu.Lock()
		q.ended = true
		q.workMu.Unlock()
		q.work.Wait()
		if q.nc != nil {
			q.nc.Close()
		}
		if q.srv != nil {
			q.srv.Shutdown()
			q.srv.WaitForShutdown()
		}
		if q.folder != nil {
			err = q.folder.close()
		}
	})
	return err
}

// closing makes ErrClosed of what an operation met with because the queue was closed
// beside it.
func (q *Queue) closing(err *error) {
	if *err != nil && q.ctx.Err() != nil && !errors.Is(*err, ErrClosed) {
		*err = fmt.Errorf("%w: %w", ErrClosed, *err)
	}
}

// background is for what Close waits for. After that it is left: nothing depends on
// its being done.
func (q *Queue) background(f func()) {
	q.workMu.Lock()
	defer q.workMu.Unlock()
	if !q.ended {
		q.work.Go(f)
	}
}

// Err says what keeps the queue from working: nil, [ErrClosed], [ErrFull] when the
// embedded store has given up for want of room, or that the server cannot be reached.
// After ErrFull the queue has to be closed and opened again; nothing that was accepted
// is lost.
func (q *Queue) Err() error {
	switch {
	case q.ctx.Err() != nil:
		return ErrClosed
	case q.srv != nil && !q.srv.JetStreamEnabled():
		return fmt.Errorf("%w: the store has stopped; it has to be opened again when there is room", ErrFull)
	case q.stillStalled():
		return fmt.Errorf("%w: the store does not answer, as one does not that could not write; it has to be opened again when there is room", ErrFull)
	case !q.nc.IsConnected():
		return nats.ErrDisconnected
	}
	return nil
}

// Insecure says that an external server is used without TLS or credentials.
func (q *Queue) Insecure() bool { return q.srv == nil && q.o.Insecure }

// Shared says that the server is an external one, so that other machines may have the
// same jobs.
func (q *Queue) Shared() bool { return q.srv == nil }

// Now is the store's clock, by which buckets go.
func (q *Queue) Now() time.Time { return q.now() }
