package queue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Objects are texts of any size, by owner and name, for a time. An object never
// changes. Owners are tokens, names any text of 1 to 1,024 bytes.
type Objects struct {
	q      *Queue
	bucket string
	ttl    time.Duration
	s      *stream
}

const (
	chunkSize     = 128 << 10
	maxObjectName = 1024

	chunkMark byte = 'C'
	endMark   byte = 'Z'
)

// Objects opens a bucket of objects, which is made if it is not there. Objects are
// dropped at the age of ttl, and all together have maxBytes at most. The error is
// [ErrName] or one of NATS.
func (q *Queue) Objects(ctx context.Context, bucket string, ttl time.Duration, maxBytes int64) (*Objects, error) {
	n, err := q.build(objectsStream, bucket)
	if err != nil {
		return nil, err
	}
	all, err := q.build(objectsSubjects, bucket)
	if err != nil {
		return nil, err
	}
	o := &Objects{q: q, bucket: bucket, ttl: ttl}
	o.s, err = q.stream(ctx, jetstream.StreamConfig{
		Subjects: []string{all.s}, MaxAge: ttl, MaxBytes: maxBytes,
		MaxMsgsPerSubject: MaxObject/chunkSize + 2, DiscardNewPerSubject: true, MaxMsgSize: chunkSize + 8<<10,
	}, n, "objects_"+bucket)
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (o *Objects) subject(owner, object string) (name, error) {
	if object == "" || len(object) > maxObjectName {
		return name{}, fmt.Errorf("%w: an object's name of %d bytes", ErrName, len(object))
	}
	sum := sha256.Sum256([]byte(object))
	return o.q.build(objectSubject, o.bucket, owner, hex.EncodeToString(sum[:]))
}

// ObjectInfo says what an object is.
type ObjectInfo struct {
	Name    string
	Size    int64
	SHA256  string
	Created time.Time
}

func (i *ObjectInfo) encode() []byte {
	b := appendVarint([]byte{endMark}, i.Size)
	return appendText(appendText(b, i.SHA256), i.Name)
}

func decodeInfo(m *stored) (*ObjectInfo, error) {
	d := decoder{b: m.body}
	if d.byte() != endMark {
		return nil, errNone // it is being written, or who wrote it was lost
	}
	i := &ObjectInfo{Size: d.varint(), SHA256: d.text(maxToken), Name: d.text(maxObjectName), Created: m.at}
	if d.short {
		return nil, fmt.Errorf("%w: the end of an object", ErrDamaged)
	}
	return i, nil
}

// Put stores an object. The same object may be put again. The error is [ErrExists] if
// there is another of the name, [ErrFull], [ErrTooLarge], [ErrName], the reader's or one
// of NATS; nothing of it can be seen then.
func (o *Objects) Put(ctx context.Context, owner, object string, r io.Reader) error {
	on, err := o.subject(owner, object)
	if err != nil {
		return err
	}
	if err := o.q.room(ctx, forObjects); err != nil {
		return err
	}
	w := writer{o: o, on: on, sum: sha256.New()}
	if there, err := o.there(ctx, on, r); there || err != nil {
		return err
	}
	err = w.copy(ctx, r)
	if err == nil {
		info := ObjectInfo{Name: object, Size: w.size, SHA256: hex.EncodeToString(w.sum.Sum(nil))}
		err = w.write(ctx, info.encode())
	}
	if err != nil && w.last > 0 {
		step, cancel := bounded(ctx)
		defer cancel()
		if o.s.removeAll(step, on) == nil {
			o.q.spaceLeft.moreObjects(-w.kept)
		}
	}
	return err
}

// abandoned is the age of a part of an object whose writer is gone.
const abandoned = 10 * time.Minute

// there says whether this very object is there. The error is [ErrExists] for another.
func (o *Objects) there(ctx context.Context, on name, r io.Reader) (bool, error) {
	m, err := o.s.last(ctx, on)
	if errors.Is(err, errNone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := decodeInfo(m)
	switch {
	case errors.Is(err, errNone) && o.q.now().Sub(m.at) > abandoned, err == nil && o.q.now().Sub(info.Created) >= o.ttl:
		return false, o.s.removeAll(ctx, on)
	case errors.Is(err, errNone):
		return false, fmt.Errorf("%w: it is being written", ErrExists)
	case err != nil:
		return false, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(r, MaxObject+1)); err != nil {
		return false, err
	}
	if hex.EncodeToString(sum.Sum(nil)) != info.SHA256 {
		return false, ErrExists
	}
	return true, nil
}

// writer writes the messages of one object. Each is behind the one before it, so
// that two writers cannot mix.
type writer struct {
	o    *Objects
	on   name
	last uint64
	kept int // bytes that were counted
	size int64
	sum  hash.Hash
}

func (w *writer) copy(ctx context.Context, r io.Reader) error {
	buf := make([]byte, 1+chunkSize)
	buf[0] = chunkMark
	for {
		n, err := io.ReadFull(r, buf[1:])
		if n > 0 {
			w.sum.Write(buf[1 : 1+n])
			if w.size += int64(n); w.size > MaxObject {
				return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxObject)
			}
			if err := w.write(ctx, buf[:1+n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF): //nolint:errorlint // bare
			return nil
		case err != nil:
			return err
		}
	}
}

func (w *writer) write(ctx context.Context, body []byte) error {
	num, err := w.o.q.publish(ctx, outgoing{to: w.on, body: body, cas: true, last: w.last})
	if err == nil {
		if w.last = num; w.o == w.o.q.runs {
			w.kept += len(body)
			w.o.q.spaceLeft.moreObjects(len(body))
		}
		return nil
	}
	if !errors.Is(err, errConflict) || w.last > 0 {
		return err
	}
	return ErrExists
}

// Get opens an object. The error is [ErrNotFound], also for one that is older than the
// bucket keeps them, [ErrName] or one of NATS.
func (o *Objects) Get(ctx context.Context, owner, object string) (*Object, error) {
	on, err := o.subject(owner, object)
	if err != nil {
		return nil, err
	}
	m, err := o.s.last(ctx, on)
	var info *ObjectInfo
	if err == nil {
		info, err = decodeInfo(m)
	}
	switch {
	case errors.Is(err, errNone):
		return nil, ErrNotFound
	case err != nil:
		return nil, err
	case o.q.now().Sub(info.Created) >= o.ttl:
		return nil, ErrNotFound
	}
	return &Object{ObjectInfo: *info, ctx: ctx, s: o.s, on: on, next: 1, sum: sha256.New()}, nil
}

// Object is one that is read. It is of one reader.
type Object struct {
	ObjectInfo

	ctx  context.Context //nolint:containedctx // io.Reader has none
	s    *stream
	on   name
	next uint64
	rest []byte
	read int64
	sum  hash.Hash
}

// Read reads on. At the end it has compared the sum: the error is io.EOF if it holds,
// [ErrDamaged] if not, or when a part has been erased meanwhile.
func (o *Object) Read(p []byte) (int, error) {
	if len(o.rest) == 0 {
		m, err := o.s.next(o.ctx, o.on, o.next)
		switch {
		case errors.Is(err, errNone) || err == nil && len(m.body) == 0:
			return 0, fmt.Errorf("%w: a part of an object is missing", ErrDamaged)
		case err != nil:
			return 0, err
		case m.body[0] == endMark:
			if o.read != o.Size || hex.EncodeToString(o.sum.Sum(nil)) != o.SHA256 {
				return 0, fmt.Errorf("%w: the sum of an object", ErrDamaged)
			}
			return 0, io.EOF
		}
		o.next, o.rest = m.seq+1, m.body[1:]
		o.sum.Write(o.rest)
		o.read += int64(len(o.rest))
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

// Bytes reads a whole object, which is of maxBytes at most: [ErrTooLarge] otherwise.
func (o *Object) Bytes(maxBytes int64) ([]byte, error) {
	if o.Size > maxBytes {
		return nil, ErrTooLarge
	}
	var b bytes.Buffer
	_, err := b.ReadFrom(o)
	return b.Bytes(), err
}

// Delete erases an object, if it is there.
func (o *Objects) Delete(ctx context.Context, owner, object string) error {
	on, err := o.subject(owner, object)
	if err != nil {
		return err
	}
	return o.s.removeAll(ctx, on)
}

// DeleteAll erases all objects of an owner.
func (o *Objects) DeleteAll(ctx context.Context, owner string) error {
	on, err := o.q.build(ownerSubjects, o.bucket, owner)
	if err != nil {
		return err
	}
	return o.s.removeAll(ctx, on)
}

// List says what objects an owner has, those that are too old left out.
func (o *Objects) List(ctx context.Context, owner string) ([]ObjectInfo, error) {
	on, err := o.q.build(ownerSubjects, o.bucket, owner)
	if err != nil {
		return nil, err
	}
	var all []ObjectInfo
	for m, err := range o.s.scan(ctx, on, 1) {
		var info *ObjectInfo
		if err == nil {
			info, err = decodeInfo(m)
		}
		switch {
		case errors.Is(err, errNone) || err == nil && o.q.now().Sub(info.Created) >= o.ttl:
		case err != nil:
			return nil, err
		default:
			all = append(all, *info)
		}
	}
	return all, nil
}

// Runs are the objects of runs, which are kept as long as their events: programs,
// results, artifacts. Names that begin with a letter and have no slash are the
// queue's own; artifacts go by "artifact/NAME".
func (q *Queue) Runs() *Objects { return q.runs }
