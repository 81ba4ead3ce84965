package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// BucketOptions bound a bucket. Zero values are the defaults.
type BucketOptions struct {
	// TTL is how long a value is kept after it was written, unless less is said with
	// it: 24 h.
	TTL time.Duration
	// MaxBytes is how much all values have together: 1/64 of the queue's cap. When it
	// is full nothing is written; nothing is ever dropped to make room.
	MaxBytes int64
	// MaxValue is the largest value: 64 KiB.
	MaxValue int
}

// Bucket keeps small values by key, for a time, each with a revision that decides
// between writers. Keys are tokens. A value that is too old is not there, whether it
// has been erased yet or not.
type Bucket struct {
	q       *Queue
	name    string
	o       BucketOptions
	s       *stream
	charges [64]sync.Mutex
}

// Bucket opens a bucket, which is made if it is not there. The error is [ErrName] or
// one of NATS.
func (q *Queue) Bucket(ctx context.Context, bucket string, o BucketOptions) (*Bucket, error) {
	if o.TTL <= 0 {
		o.TTL = 24 * time.Hour
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = q.o.MaxBytes / 64
	}
	if o.MaxValue <= 0 {
		o.MaxValue = 64 << 10
	}
	n, err := q.build(bucketStream, bucket)
	if err != nil {
		return nil, err
	}
	all, err := q.build(keysSubjects, bucket)
	if err != nil {
		return nil, err
	}
	b := &Bucket{q: q, name: bucket, o: o}
	b.s, err = q.stream(ctx, jetstream.StreamConfig{
		Subjects: []string{all.s}, MaxAge: o.TTL, MaxBytes: o.MaxBytes,
		MaxMsgsPerSubject: 1, MaxMsgSize: int32(o.MaxValue + 1<<10), AllowMsgTTL: true,
	}, n, "bucket_"+bucket)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Value is what a bucket has for a key.
type Value struct {
	Data     []byte
	Revision uint64
	// Written is when it was written, by the store's clock, and Expires when it
	// stops to be there.
	Written, Expires time.Time
}

const valueVersion = 1

func (b *Bucket) value(m *stored) (Value, error) {
	if len(m.body) < 9 || m.body[0] != valueVersion {
		return Value{}, fmt.Errorf("%w: a value of the bucket %s", ErrDamaged, b.name)
	}
	ttl := time.Duration(binary.LittleEndian.Uint64(m.body[1:]))
	if ttl <= 0 || ttl > b.o.TTL {
		ttl = b.o.TTL
	}
	return Value{Data: m.body[9:], Revision: m.seq, Written: m.at, Expires: m.at.Add(ttl)}, nil
}

// read is Get, for a value that may be too old.
func (b *Bucket) read(ctx context.Context, key string) (Value, error) {
	on, err := b.q.build(keySubject, b.name, key)
	if err != nil {
		return Value{}, err
	}
	m, err := b.s.last(ctx, on)
	if err != nil {
		return Value{}, err
	}
	return b.value(m)
}

// Get reads a value. The error is [ErrNotFound], [ErrName] or one of NATS.
func (b *Bucket) Get(ctx context.Context, key string) (Value, error) {
	v, err := b.read(ctx, key)
	if errors.Is(err, errNone) || err == nil && !b.q.now().Before(v.Expires) {
		return Value{}, ErrNotFound
	}
	return v, err
}

// Create writes a value where there is none. It is there for ttl; zero or less, and
// more than the bucket's, mean the bucket's. The error is [ErrExists], [ErrFull],
// [ErrTooLarge], [ErrName] or one of NATS, with which it is not known.
func (b *Bucket) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (revision uint64, err error) {
	revision, err = b.write(ctx, key, data, 0, ttl)
	if !errors.Is(err, errConflict) {
		return revision, err
	}
	old, err := b.read(ctx, key)
	switch {
	case errors.Is(err, errNone): // it went meanwhile
		old.Revision = 0
	case err != nil:
		return 0, err
	case b.q.now().Before(old.Expires):
		return 0, ErrExists
	}
	revision, err = b.write(ctx, key, data, old.Revision, ttl)
	if errors.Is(err, errConflict) {
		err = ErrExists
	}
	return revision, err
}

// Update writes a value in the place of the one with this revision. ttl is as that of
// Create. The error is [ErrConflict] if there is another or none, and as that of Create
// else.
func (b *Bucket) Update(ctx context.Context, key string, data []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if revision == 0 {
		return 0, fmt.Errorf("%w: revision 0", ErrConflict)
	}
	next, err := b.write(ctx, key, data, revision, ttl)
	if errors.Is(err, errConflict) {
		err = ErrConflict
	}
	return next, err
}

func (b *Bucket) write(ctx context.Context, key string, data []byte, revision uint64, ttl time.Duration) (uint64, error) {
	on, err := b.q.build(keySubject, b.name, key)
	if err != nil {
		return 0, err
	}
	if len(data) > b.o.MaxValue {
		return 0, fmt.Errorf("%w: a value of %d bytes", ErrTooLarge, len(data))
	}
	if ttl <= 0 || ttl > b.o.TTL {
		ttl = b.o.TTL
	}
	body := make([]byte, 9, 9+len(data))
	body[0] = valueVersion
	binary.LittleEndian.PutUint64(body[1:], uint64(ttl))
	return b.q.publish(ctx, outgoing{to: on, body: append(body, data...), cas: true, last: revision, ttl: ttl + time.Second})
}

// Delete drops the value with this revision, or with 0 whatever is there. The error
// is [ErrConflict] if there is another, [ErrNotFound], [ErrName] or one of NATS.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) error {
	v, err := b.read(ctx, key)
	switch {
	case errors.Is(err, errNone):
		return ErrNotFound
	case err != nil:
		return err
	case revision != 0 && v.Revision != revision:
		return ErrConflict
	}
	err = b.s.remove(ctx, v.Revision)
	if errors.Is(err, errNone) {
		return ErrConflict
	}
	return err
}

// All are all keys and values, in the order in which they were written. What changes
// meanwhile may come or not.
func (b *Bucket) All(ctx context.Context) iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		all, err := b.q.build(keysSubjects, b.name)
		if err == nil {
			err = b.each(ctx, all, yield)
		}
		if err != nil {
			b.q.o.Log.Warn("queue: a bucket cannot be read", "bucket", b.name, "error", err)
		}
	}
}

func (b *Bucket) each(ctx context.Context, all name, yield func(string, Value) bool) error {
	for m, err := range b.s.scan(ctx, all, 1) {
		if err != nil {
			return err
		}
		v, err := b.value(m)
		if err == nil && b.q.now().Before(v.Expires) && !yield(m.on.token(2), v) {
			return nil
		}
	}
	return nil
}
