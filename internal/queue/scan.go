package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// How much is asked for at once.
const (
	batchMessages = 64
	batchBytes    = 128 << 10 // a reader who is slow holds so much
)

// scan reads the messages on a subject from a number on, in order, and ends without
// an error where there are no more. Most of the time there is one more or none; what
// is behind the first comes in batches.
func (s *stream) scan(ctx context.Context, on name, from uint64) iter.Seq2[*stored, error] {
	return func(yield func(*stored, error) bool) {
		m, err := s.next(ctx, on, from)
		for err == nil {
			if !yield(m, nil) {
				return
			}
			from = m.seq + 1
			var some []*stored
			if some, err = s.batch(ctx, on, from); err != nil {
				break
			}
			for _, m := range some {
				if !yield(m, nil) {
					return
				}
				from = m.seq + 1
			}
			if len(some) > 0 {
				m, err = s.next(ctx, on, from)
			} else {
				err = errNone
			}
		}
		if !errors.Is(err, errNone) {
			yield(nil, err)
		}
	}
}

// batch reads some messages on a subject, or none.
func (s *stream) batch(ctx context.Context, on name, from uint64) ([]*stored, error) {
	if s.direct.s == "" {
		m, err := s.next(ctx, on, from)
		switch {
		case errors.Is(err, errNone):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []*stored{m}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	inbox := s.nc.NewRespInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	ask := fmt.Sprintf(`{"seq":%d,"next_by_subj":%q,"batch":%d,"max_bytes":%d}`, from, on.s, batchMessages, batchBytes)
	if err := s.nc.PublishRequest(s.direct.s, inbox, []byte(ask)); err != nil {
		return nil, err
	}
	var all []*stored
	for len(all) <= batchMessages {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		switch m.Header.Get("Status") {
		case "":
		case "204", "404":
			return all, nil
		default:
			return nil, fmt.Errorf("queue: the server answers %s %s", m.Header.Get("Status"), m.Header.Get("Description"))
		}
		one, err := fromHeader(m)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return nil, fmt.Errorf("%w: a batch without an end", ErrDamaged)
}

func fromHeader(m *nats.Msg) (*stored, error) {
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: a message without its number", ErrDamaged)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return nil, fmt.Errorf("%w: a message without its time", ErrDamaged)
	}
	return &stored{on: name{m.Header.Get("Nats-Subject")}, seq: seq, at: at, body: m.Data}, nil
}
