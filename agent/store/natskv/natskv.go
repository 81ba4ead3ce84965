// Package natskv keeps sessions in a bucket of a NATS key-value store, for holders
// on any number of machines.
//
// A session is one value, which each commit replaces by compare and swap with the
// bucket's revision: head, the last part of the journal, and where the parts before
// it are, which lie in the bucket as values that nobody changes. The number of a lease
// is the revision at which it took the session, so that it grows for ever. A holder
// shows that he lives by a value of his store that names his leases.
//
// Committed means acknowledged by the server: how many replicas have it then, and
// whether it is on their disks, are settings of the bucket and the server. Every
// machine that may write to the bucket may read and change what is in it: seal the
// journals of sessions, which is their default.
package natskv

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/patience"
)

// Options say where a bucket is. Zero values are the defaults.
type Options struct {
	// URL is the server's, with NATS for what connecting needs besides. Conn is a
	// connection that is there already, and which Close leaves open. One of them must
	// be set.
	URL  string
	NATS []nats.Option
	Conn *nats.Conn
	// Bucket is the name of the bucket, which is made if it is not there:
	// glovebox_sessions. One that forgets by age is refused.
	Bucket string
	// Replicas is how many servers keep a bucket that is made: 1.
	Replicas int
	// TTL is how long a holder that shows no life keeps a session, as who waits
	// measures it: 10 s by default, 20 ms to 24 h. Nobody sees that a process ended.
	TTL time.Duration
}

// Sizes.
const (
	// maxTail is the largest part of a journal within the value that each commit
	// writes again.
	maxTail = 16 << 10
	// maxChunk is the largest part that lies by itself; a server's and a bucket's bounds
	// may make it smaller.
	maxChunk = 512 << 10
	// minMessage is what a message must hold at least: the largest head, the tail and
	// the ranges of parts.
	minMessage = store.MaxHead + maxTail + maxRanges*sizeRange + 4<<10
	maxRanges  = 1024
	// maxJournal is the largest journal.
	maxJournal = 256 << 20
	// maxLeases is how many leases one store may hold.
	maxLeases = 16 << 10
)

type kvStore struct {
	nc     *nats.Conn
	own    bool
	kv     jetstream.KeyValue
	stream jetstream.Stream
	bucket string
	ttl    time.Duration
	chunk  int
	name   string // of this store, for its beats
	taken  *nats.Subscription
	done   chan struct{}
	beaten chan struct{}

	mu     sync.Mutex
	closed bool
	leases map[string]*lease // by name
}

// Open connects to a bucket.
//
// The error is an *api.FieldError or one of NATS.
func Open(ctx context.Context, o Options) (store.Store, error) {
	ttl, err := store.CheckTTL(o.TTL)
	if err != nil {
		return nil, err
	}
	if (o.URL == "") == (o.Conn == nil) {
		return nil, &api.FieldError{Field: "URL", Reason: "one of URL and Conn must be set"}
	}
	if o.Bucket == "" {
		o.Bucket = "glovebox_sessions"
	}
	s := &kvStore{nc: o.Conn, bucket: o.Bucket, ttl: ttl, name: newName(), done: make(chan struct{}), beaten: make(chan struct{}), leases: map[string]*lease{}}
	if s.nc == nil {
		if s.nc, err = nats.Connect(o.URL, o.NATS...); err != nil {
			return nil, err
		}
		s.own = true
	}
	if err = s.bind(ctx, o); err == nil {
		s.taken, err = s.nc.Subscribe(s.subject("taken", s.name), s.wasTaken)
	}
	if err != nil {
		if s.own {
			s.nc.Close()
		}
		return nil, err
	}
	go s.beats()
	return s, nil
}

// bind finds or makes the bucket, and what it can hold.
func (s *kvStore) bind(ctx context.Context, o Options) error {
	js, err := jetstream.New(s.nc)
	if err != nil {
		return err
	}
	s.kv, err = js.KeyValue(ctx, s.bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		s.kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: s.bucket, History: 1, Replicas: o.Replicas})
		if errors.Is(err, jetstream.ErrBucketExists) {
			s.kv, err = js.KeyValue(ctx, s.bucket) // another has just made it
		}
	}
	if err != nil {
		return err
	}
	if s.stream, err = js.Stream(ctx, "KV_"+s.bucket); err != nil {
		return err
	}
	config := s.stream.CachedInfo().Config
	if config.MaxAge != 0 {
		return &api.FieldError{Field: "Bucket", Value: s.bucket, Reason: fmt.Sprintf("must not forget by age; it does after %v", config.MaxAge)}
	}
	room := s.nc.MaxPayload()
	if config.MaxMsgSize > 0 {
		room = min(room, int64(config.MaxMsgSize))
	}
	if room < minMessage {
		return &api.FieldError{Field: "Bucket", Value: s.bucket, Reason: fmt.Sprintf("must take values of %d bytes; it takes %d", minMessage, room)}
	}
	s.chunk = int(min(maxChunk, room-4<<10)) // headers are counted too
	return nil
}

func newName() string {
	var b [sizeName]byte
	_, _ = rand.Read(b[:]) // never fails
	return string(b[:])
}

// subject is one of plain messages that are kept nowhere: that a session is free,
// or was taken. They only save waiting.
func (s *kvStore) subject(kind, name string) string {
	return "glovebox.sessions." + s.bucket + "." + kind + "." + hex.EncodeToString([]byte(name))
}

// key is the name of a session's values in the bucket.
func sessionKey(k store.Key) string {
	owner, session := k.Names()
	return "s." + owner + "." + session
}

func headKey(k store.Key) string { return sessionKey(k) + ".h" }

func (s *kvStore) beatKey(name string) string { return "b." + hex.EncodeToString([]byte(name)) }

// bounded is a context for a step that is not left half way when the caller goes:
// it ends in seconds.
func (s *kvStore) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), max(2*time.Second, min(s.ttl, 10*time.Second)))
}

// get reads a session's value; revision 0 means that there is none.
func (s *kvStore) get(ctx context.Context, k store.Key) (*value, uint64, error) {
	e, err := s.kv.Get(ctx, headKey(k))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	v, err := decode(e.Value())
	if err == nil && v.key != k {
		err = fmt.Errorf("%w: it is another session's value", store.ErrDamaged)
	}
	return v, e.Revision(), err
}

func isMismatch(err error) bool {
	return errors.Is(err, jetstream.ErrKeyRevisionMismatch) || errors.Is(err, jetstream.ErrKeyExists)
}

// put writes a session's value, if its revision is what it was.
func (s *kvStore) put(ctx context.Context, v *value, revision uint64) (uint64, error) {
	if revision == 0 {
		return s.kv.Create(ctx, headKey(v.key), v.encode())
	}
	return s.kv.Update(ctx, headKey(v.key), v.encode(), revision)
}

// purge removes values for good, as they were before a revision; 0 is now.
func (s *kvStore) purge(ctx context.Context, keys string, before uint64) error {
	o := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject("$KV." + s.bucket + "." + keys)}
	if before > 0 {
		o = append(o, jetstream.WithPurgeSequence(before))
	}
	return s.stream.Purge(ctx, o...)
}

func (s *kvStore) Acquire(ctx context.Context, k store.Key, o store.AcquireOptions) (store.Lease, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	w := &waiter{Patience: patience.Patience[signs]{TTL: s.ttl}}
	defer w.leave()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, s.ttl/8, time.Second) {
		l, again, err := s.try(ctx, k, o, w)
		switch {
		case err != nil && w.held && ctx.Err() != nil:
			return nil, busy(ctx, w)
		case err != nil:
			return nil, err
		case l != nil:
			return s.keep(ctx, l)
		case again:
			continue
		case o.NoWait:
			return nil, busy(ctx, w)
		case w.sub == nil:
			if err := w.listen(ctx, s.nc, s.subject("free", sessionKey(k))); err != nil {
				return nil, err
			}
			continue // it may have become free before
		}
		timer := time.NewTimer(pause)
		select {
		case <-w.rung:
		case <-timer.C:
		case <-s.done:
			err = store.ErrClosed
		case <-ctx.Done():
			err = busy(ctx, w)
		}
		timer.Stop()
		if err != nil {
			return nil, err
		}
	}
}

// signs of a holder's life: any that changes is one.
type signs struct{ revision, beat uint64 }

type waiter struct {
	patience.Patience[signs]
	held bool // somebody was seen
	sub  *nats.Subscription
	rung chan *nats.Msg
}

func (w *waiter) listen(ctx context.Context, nc *nats.Conn, subject string) (err error) {
	w.rung = make(chan *nats.Msg, 16) // one is enough; more are dropped
	if w.sub, err = nc.ChanSubscribe(subject, w.rung); err != nil {
		return err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	if err := nc.FlushWithContext(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (w *waiter) leave() {
	if w.sub != nil {
		_ = w.sub.Unsubscribe()
	}
}

func busy(ctx context.Context, w *waiter) error {
	why := fmt.Sprintf("its holder lives, or did %v ago", w.Quiet().Round(time.Millisecond))
	if ctx.Err() == nil {
		return fmt.Errorf("%w: %s", store.ErrBusy, why)
	}
	return fmt.Errorf("%w: %s: %w", store.ErrBusy, why, context.Cause(ctx))
}

// try looks at the session once. Neither lease nor error nor again means that
// somebody holds it.
func (s *kvStore) try(ctx context.Context, k store.Key, o store.AcquireOptions, w *waiter) (l *lease, again bool, err error) {
	if s.isClosed() {
		return nil, false, store.ErrClosed
	}
	v, revision, err := s.get(ctx, k)
	if err != nil {
		return nil, false, err
	}
	missing := revision == 0 || v.deleted
	if missing && !o.Create {
		return nil, false, store.ErrNotFound
	}
	stalled := false
	if !missing && v.lease != "" {
		if stalled, err = s.look(ctx, v, revision, w); err != nil || !stalled && !o.Takeover {
			return nil, false, err
		}
	}
	if !missing && v.seq == 0 && !o.Create {
		// Its maker ended before it was a session.
		return nil, true, s.removeMade(ctx, v, revision)
	}
	next := &value{key: k}
	if !missing {
		*next = *v
	}
	next.store, next.lease = s.name, newName()
	// The answer is waited for, whether the caller still is there or not.
	step, cancel := s.bounded(ctx)
	defer cancel()
	fence, err := s.put(step, next, revision)
	if isMismatch(err) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err // if it was taken, nobody shows life for it
	}
	s.afterTaking(step, v, revision, missing, stalled)
	return &lease{s: s, key: k, name: next.lease, fence: fence, revision: fence, v: next, lost: make(chan struct{})}, false, nil
}

// afterTaking cleans up behind those who had it before, as far as that goes.
func (s *kvStore) afterTaking(ctx context.Context, v *value, revision uint64, missing, stalled bool) {
	switch {
	case missing && v != nil:
		_ = s.purge(ctx, sessionKey(v.key)+".c.>", revision)
	case !missing && v.lease != "":
		_ = s.nc.Publish(s.subject("taken", v.store), []byte(v.lease))
		if stalled {
			_ = s.purge(ctx, s.beatKey(v.store), 0) // one who lives writes it again
		}
	}
}

// look looks for signs of life of a holder.
func (s *kvStore) look(ctx context.Context, v *value, revision uint64, w *waiter) (bool, error) {
	w.held = true
	seen := signs{revision: revision}
	e, err := s.kv.Get(ctx, s.beatKey(v.store))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return false, err
	case hasName(e.Value(), v.lease):
		seen.beat = e.Revision()
	}
	return w.Look(seen), nil
}

// removeMade removes a session that nothing was committed of.
func (s *kvStore) removeMade(ctx context.Context, v *value, revision uint64) error {
	step, cancel := s.bounded(ctx)
	defer cancel()
	end, err := s.put(step, &value{key: v.key, deleted: true}, revision)
	if isMismatch(err) {
		return nil
	}
	if err == nil {
		err = s.purge(step, sessionKey(v.key)+".>", end+1)
	}
	return err
}

// keep makes a lease one of the store's, unless the caller has gone or the store
// was closed.
func (s *kvStore) keep(ctx context.Context, l *lease) (store.Lease, error) {
	s.mu.Lock()
	err := context.Cause(ctx)
	switch {
	case s.closed:
		err = store.ErrClosed
	case err != nil:
	case len(s.leases) >= maxLeases:
		err = fmt.Errorf("%w: %d leases", store.ErrTooLarge, maxLeases)
	default:
		s.leases[l.name] = l
	}
	s.mu.Unlock()
	if err != nil {
		_ = l.give(ctx, err)
		return nil, err
	}
	if len(l.v.ranges) > maxRanges/2 { // a journal of very many small parts is written anew
		r, err := l.Load(ctx)
		if err == nil {
			err = l.Replace(ctx, r.Journal, r.Head)
		}
		if err != nil {
			_ = l.give(ctx, err)
			return nil, err
		}
	}
	return l, nil
}

func (s *kvStore) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *kvStore) List(ctx context.Context, owner string) ([]store.Info, error) {
	if err := store.CheckOwner(owner); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if s.isClosed() {
		return nil, store.ErrClosed
	}
	var all []store.Info
	var bad error
	err := s.each(ctx, []string{"s." + store.OwnerName(owner) + ".*.h"}, func(e jetstream.KeyValueEntry) {
		v, err := decode(e.Value())
		bad = errors.Join(bad, err)
		if err == nil && !v.deleted && v.seq > 0 && v.key.Owner == owner {
			all = append(all, store.Info{Key: v.key, Bytes: int64(v.bytes), Held: v.lease != ""})
		}
	})
	return all, errors.Join(err, bad)
}

// each reads all values whose keys match.
func (s *kvStore) each(ctx context.Context, keys []string, f func(jetstream.KeyValueEntry)) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
	}
	w, err := s.kv.WatchFiltered(ctx, keys, jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return errors.Join(errors.New("the bucket ended its answer"), context.Cause(ctx))
			}
			if e == nil {
				return nil
			}
			f(e)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *kvStore) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.beaten
		return nil
	}
	s.closed = true
	close(s.done)
	held := slices.Collect(maps.Values(s.leases))
	s.mu.Unlock()
	<-s.beaten
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	var err error
	for _, l := range held {
		err = errors.Join(err, l.give(ctx, store.ErrClosed))
	}
	if !s.nc.IsClosed() {
		err = errors.Join(err, s.purge(ctx, s.beatKey(s.name), 0), s.taken.Unsubscribe())
	}
	if s.own {
		s.nc.Close()
	}
	return err
}

// beats shows that the leases of this store live.
func (s *kvStore) beats() {
	defer close(s.beaten)
	tick := time.NewTicker(s.ttl / 4)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.done:
			return
		}
		s.mu.Lock()
		var names []byte
		for name := range s.leases {
			names = append(names, name...)
		}
		s.mu.Unlock()
		if len(names) > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), max(s.ttl/4, 100*time.Millisecond))
			_, _ = s.kv.Put(ctx, s.beatKey(s.name), names) // the next one may come through
			cancel()
		}
	}
}

// wasTaken is called when somebody says that he took a session.
func (s *kvStore) wasTaken(m *nats.Msg) {
	s.mu.Lock()
	l := s.leases[string(m.Data)]
	s.mu.Unlock()
	if l != nil {
		go l.see() // it may have to wait for an answer, which this goroutine brings
	}
}
