package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What is said to the server is said here, by names alone.

// errConflict says that another has written since, errNone that there is nothing.
var (
	errConflict = errors.New("queue: another has written since")
	errNone     = errors.New("queue: nothing there")
)

// Codes of the server's errors, https://github.com/nats-io/nats-server/blob/main/server/errors.json
const (
	codeWrongLast         = 10071
	codeWrongLastReplicas = 10164
	codeStoreFailed       = 10077 // which limit it was, the description says
	codeNoResources       = 10023
	codeStorageExceeded   = 10047
	codeMemoryExceeded    = 10028
)

// step bounds what the server is asked once.
const step = 10 * time.Second

// bounded is a context for a step that is not left half way when the caller goes.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), step)
}

// endHeader marks final events, so that a hint tells them apart.
const endHeader = "Glovebox-End"

var endValue = []string{"1"}

type outgoing struct {
	to   name
	body []byte
	cas  bool
	last uint64 // with cas: the last message's number on the subject, 0 for none
	on   name   // with cas: on this subject instead
	ttl  time.Duration
	end  bool // the final event: those who wait for it alone are told
}

// publish writes a message and returns its number. The error is errConflict, or
// wraps [ErrFull], [ErrTooLarge] or one of NATS; whether the message was written is
// not known then, unless it was one of the first three.
func (q *Queue) publish(ctx context.Context, m outgoing) (uint64, error) {
	var opts []jetstream.PublishOpt
	switch {
	case m.cas && m.on.s != "":
		opts = append(opts, jetstream.WithExpectLastSequenceForSubject(m.last, m.on.s))
	case m.cas:
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(m.last))
	}
	if m.ttl > 0 {
		opts = append(opts, jetstream.WithMsgTTL(max(m.ttl, time.Second)))
	}
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	msg := &nats.Msg{Subject: m.to.s, Data: m.body}
	if m.end {
		msg.Header = nats.Header{endHeader: endValue}
	}
	asked := time.Now()
	ack, err := q.js.PublishMsg(ctx, msg, opts...)
	if errors.Is(err, context.DeadlineExceeded) {
		q.noAnswer(time.Since(asked))
	}
	if err != nil {
		return 0, publishError(err)
	}
	return ack.Sequence, nil
}

func publishError(err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return err
	}
	switch api.ErrorCode {
	case codeWrongLast, codeWrongLastReplicas:
		return errConflict
	case codeNoResources, codeStorageExceeded, codeMemoryExceeded:
		return fmt.Errorf("%w: %s", ErrFull, api.Description)
	case codeStoreFailed:
		switch {
		case strings.Contains(api.Description, "maximum messages per subject"):
			return fmt.Errorf("%w: %s", ErrTooLarge, api.Description)
		case strings.Contains(api.Description, "maximum messages"): // of jobs; no other stream has a number
			return fmt.Errorf("%w: %s", ErrBacklog, api.Description)
		case strings.Contains(api.Description, "maximum"):
			return fmt.Errorf("%w: %s", ErrFull, api.Description)
		}
	}
	return err
}

// stored is a message that the server has.
type stored struct {
	on   name
	seq  uint64
	at   time.Time
	body []byte
}

func got(m *jetstream.RawStreamMsg, err error) (*stored, error) {
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, errNone
	case err != nil:
		return nil, err
	}
	return &stored{on: name{m.Subject}, seq: m.Sequence, at: m.Time, body: m.Data}, nil
}

// last reads the last message on a subject, which may have wildcards. The error is
// errNone or one of NATS.
func (s *stream) last(ctx context.Context, on name) (*stored, error) {
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	return got(s.js.GetLastMsgForSubject(ctx, on.s))
}

// next reads the first message on a subject from a number on.
func (s *stream) next(ctx context.Context, on name, from uint64) (*stored, error) {
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	return got(s.js.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(on.s)))
}

// remove drops one message. The error is errNone or one of NATS.
func (s *stream) remove(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	err := s.js.DeleteMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) || errors.Is(err, jetstream.ErrMsgNotFound) {
		return errNone
	}
	return err
}

// removeAll drops all messages on a subject, which may have wildcards.
func (s *stream) removeAll(ctx context.Context, on name) error {
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	return s.js.Purge(ctx, jetstream.WithPurgeSubject(on.s))
}

// stream is one that is there.
type stream struct {
	name   name
	js     jetstream.Stream
	nc     *nats.Conn
	direct name // where batches are asked for; empty if that is not sure to be the last
}

// stream makes a stream or finds it. The token names what fills its files up.
func (q *Queue) stream(ctx context.Context, config jetstream.StreamConfig, n name, token string) (*stream, error) {
	config.Name = n.s
	pad, err := q.build(padSubject, token)
	if err != nil {
		return nil, err
	}
	size := 0 // a list of work is empty often enough
	if config.Retention != jetstream.WorkQueuePolicy {
		config.Subjects, size = append(config.Subjects, pad.s), int(config.MaxMsgSize)-1<<10
	}
	// With replicas only the first one knows for sure what is the last.
	config.AllowDirect = q.o.Replicas == 1
	config.Discard = jetstream.DiscardNew
	config.Replicas = q.o.Replicas
	config.Duplicates = 100 * time.Millisecond // numbers do what this would be for
	if config.MaxAge > 0 {
		config.Duplicates = min(config.Duplicates, config.MaxAge)
	}
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	s, err := q.js.CreateOrUpdateStream(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("queue: stream %s: %w", n.s, err)
	}
	if info := s.CachedInfo(); q.srv == nil && !info.TimeStamp.IsZero() {
		q.ahead.Store(int64(time.Until(info.TimeStamp)))
	}
	made := &stream{name: n, js: s, nc: q.nc}
	if config.AllowDirect {
		if made.direct, err = build(directSubject, n.s); err != nil {
			return nil, err
		}
	}
	ttl := config.MaxAge
	if ttl == 0 {
		ttl = q.o.Retention
	}
	q.keep(&aged{s: made, token: token, room: config.MaxBytes, size: size}, ttl)
	return made, nil
}
