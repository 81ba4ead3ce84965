package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
)

// Hasher makes keyed hashes, 64 of 0-9 a-f each; *credential.Secret is one.
type Hasher interface {
	Hash(purpose string, parts ...string) string
}

// AuditOptions say where the audit log is and how much of it there may be. Zero values
// are the defaults.
type AuditOptions struct {
	// Dir is a folder of its own, this user's and 0700, which is made if it is not there.
	Dir string
	// Hasher's key is what the lines are chained with: who has not got it can neither
	// write a line nor leave one out unseen. It must be set.
	Hasher Hasher
	// MaxBytes is how long a file gets before the next begins: 64 MiB, 64 KiB at least.
	// MaxFiles is how many are kept: 8, 2 at least.
	MaxBytes int64
	MaxFiles int
	// PerSecond is how many entries are taken in a second: 1,000. Twice as many may come
	// at once; what comes beyond that is counted, and the number written. Refusals have a
	// twentieth of that.
	PerSecond int
	// FsyncAlways writes each entry through to the disk before Append returns. Else the
	// disk has everything after a second.
	FsyncAlways bool
	// Strict makes Err say when the log is lost.
	Strict bool
	// Now is the clock: time.Now.
	Now func() time.Time
	// Observe gets what becomes of each entry, one of the Audit constants, for metrics.
	// It must not wait.
	Observe func(outcome string)
}

// Kinds of entries that a service makes. Others may be.
const (
	EntryStarted  = "service_started"
	EntryEnded    = "service_ended"
	EntryAccepted = "run_accepted"
	EntryRefused  = "run_refused"
	EntryFinished = "run_finished"
	EntryCanceled = "run_canceled"
	EntryShared   = "run_shared"
	EntryUnshared = "run_unshared"
	EntryKey      = "key_issued"
	EntryRevoked  = "key_revoked"
	EntryDenied   = "denied" // a key, token or password that is none
	// entryGap is written by the log itself: Count entries before it are missing.
	entryGap = "gap"
)

// Entry is one event. There is no member for a program, its input or environment, a
// key or a token: their ids are what is written. Each text is [Clean] in the file.
type Entry struct {
	Kind, Client, RunID, KeyID, RequestID string
	// Language, Verdict and Code are of what Kind speaks of.
	Language, Verdict, Code string
	// Count is of a gap.
	Count int64
}

// Errors of the audit log.
var (
	// ErrAuditRate says that too many entries came at once; this one is counted alone.
	ErrAuditRate = errors.New("audit: too many entries at once")
	// ErrAuditChanged says that somebody else has changed, replaced or removed the file.
	ErrAuditChanged = errors.New("audit: the file was changed by another")
	ErrAuditClosed  = errors.New("audit: closed")
	// ErrAuditLocked says that another process has the log.
	ErrAuditLocked = errors.New("audit: another process has the log")
)

// Audit is a log to which lines are added, each with the keyed hash of the one before.
// It is safe for concurrent use.
type Audit struct {
	o    AuditOptions
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	closed bool
	lock   *os.File
	f      *os.File
	head   head
	dirty  bool  // the head on the disk is not this one
	lost   int64 // entries that are not written, since the last gap
	err    error // why nothing is written
	tried  time.Time
	all    rate
	noise  rate // of refusals, which anybody can have made
}

// rate is how many entries may come.
type rate struct {
	perSecond float64 // twice as many at once
	tokens    float64
	filled    time.Time
}

func newRate(perSecond int, now time.Time) rate {
	return rate{float64(perSecond), float64(2 * perSecond), now}
}

func (r *rate) take(now time.Time) bool {
	if d := now.Sub(r.filled); d > 0 {
		r.tokens = min(2*r.perSecond, r.tokens+d.Seconds()*r.perSecond)
	}
	if r.filled = now; r.tokens < 1 {
		return false
	}
	r.tokens--
	return true
}

// quiet is the part of PerSecond that refusals may have: whoever makes them neither keeps
// what is done out of the log nor soon pushes it out of the files.
const quiet = 20

// OpenAudit opens the log, or begins it, and goes on behind its last line. Half a line
// at the end, of a program that was killed, is cut off. The error is an *api.FieldError,
// [ErrAuditLocked], an *[AuditError] if the log is not what its head says, or the
// system's.
func OpenAudit(o AuditOptions) (*Audit, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	a := &Audit{o: o, stop: make(chan struct{}), all: newRate(o.PerSecond, o.Now()), noise: newRate(max(1, o.PerSecond/quiet), o.Now())}
	if err := a.open(); err != nil {
		a.shut()
		return nil, err
	}
	a.done.Go(a.syncs)
	return a, nil
}

func (o *AuditOptions) complete() error {
	if o.Dir == "" || o.Hasher == nil {
		return &api.FieldError{Field: "Dir", Reason: "must be set, and Hasher"}
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = 8
	}
	if o.PerSecond == 0 {
		o.PerSecond = 1000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Observe == nil {
		o.Observe = func(string) {}
	}
	switch {
	case o.MaxBytes < 64<<10 || o.MaxBytes > 1<<40:
		return &api.FieldError{Field: "MaxBytes", Value: o.MaxBytes, Reason: "must be 64 KiB to 1 TiB"}
	case o.MaxFiles < 2 || o.MaxFiles > 1000:
		return &api.FieldError{Field: "MaxFiles", Value: o.MaxFiles, Reason: "must be 2 to 1000"}
	case o.PerSecond < 1 || o.PerSecond > 1_000_000:
		return &api.FieldError{Field: "PerSecond", Value: o.PerSecond, Reason: "must be 1 to 1000000"}
	}
	return nil
}

// Append writes an entry. The error says that it is not in the log: [ErrAuditRate],
// [ErrAuditChanged], [ErrAuditClosed], ctx's or the system's. Under Strict nothing may
// happen then that should have been logged.
func (a *Audit) Append(ctx context.Context, e Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a.mu.Lock()
	err := a.append(e)
	a.mu.Unlock()
	switch {
	case err == nil:
		a.o.Observe(AuditWritten)
	case errors.Is(err, ErrAuditRate):
		a.o.Observe(AuditDropped)
	default:
		a.o.Observe(AuditFailed)
	}
	return err
}

func (a *Audit) append(e Entry) error {
	if a.closed {
		return ErrAuditClosed
	}
	now := a.o.Now()
	if (e.Kind == EntryDenied || e.Kind == EntryRefused) && !a.noise.take(now) || !a.all.take(now) {
		a.lost++
		return ErrAuditRate
	}
	err := a.mend(now)
	if err == nil {
		err = a.write(e, now)
	}
	if err != nil {
		a.lost++
	}
	return err
}

// mend writes of what is missing, if something is or could be.
func (a *Audit) mend(now time.Time) error {
	if a.lost == 0 && a.err == nil {
		return nil
	}
	err := a.write(Entry{Kind: entryGap, Count: a.lost}, now)
	if err == nil {
		a.lost = 0
	}
	return err
}

// Err is nil, or under Strict why the log cannot be written: then nothing may be
// admitted. It tries again itself, once a second at most.
func (a *Audit) Err() error {
	if !a.o.Strict {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrAuditClosed
	}
	a.look()
	now := a.o.Now()
	if d := now.Sub(a.tried); a.err != nil && (d >= time.Second || d < 0) {
		a.tried = now
		_ = a.mend(now) // it is in a.err
	}
	return a.err
}

// Close writes through what is there and ends the log.
func (a *Audit) Close() error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil
	}
	var err error
	if a.lost > 0 {
		err = a.mend(a.o.Now())
	}
	err = errors.Join(err, a.sync())
	a.closed = true
	a.mu.Unlock()
	close(a.stop)
	a.done.Wait()
	a.shut()
	return err
}

func (a *Audit) shut() {
	for _, f := range []*os.File{a.f, a.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// syncs keeps the disk no more than a second behind.
func (a *Audit) syncs() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-a.stop:
			return
		}
		a.mu.Lock()
		if !a.closed {
			a.look()
			if err := a.sync(); err != nil && a.err == nil {
				a.err = err
			}
		}
		a.mu.Unlock()
	}
}

// sync writes through the file, and then the head, which so never knows of a line that
// the disk has not.
func (a *Audit) sync() error {
	if !a.dirty || a.err != nil {
		return nil
	}
	if err := unix.Fdatasync(int(a.f.Fd())); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := a.head.save(a.o.Dir, a.o.Hasher); err != nil {
		return err
	}
	a.dirty = false
	return nil
}

// line is an entry as the file has it, and its hash. What Verify reads is in a fixed
// form: number and hash of the one before at the beginning, its own hash at the end.
func line(h Hasher, seq int64, prev string, at time.Time, e Entry) (text, hash string) {
	var b strings.Builder
	fmt.Fprintf(&b, `{"seq":%d,"prev":"%s","at":"%s"`, seq, prev, at.UTC().Format("2006-01-02T15:04:05.000Z"))
	for _, m := range []struct{ name, value string }{
		{"kind", e.Kind}, {"client", e.Client}, {"run", e.RunID}, {"key", e.KeyID}, {"request", e.RequestID},
		{"language", e.Language}, {"verdict", e.Verdict}, {"code", e.Code},
	} {
		if m.value != "" {
			// Clean leaves ASCII, of which JSON escapes two more.
			b.WriteString(`,"` + m.name + `":"` + inJSON.Replace(Clean(m.value)) + `"`)
		}
	}
	if e.Count != 0 {
		fmt.Fprintf(&b, `,"count":%d`, e.Count)
	}
	hash = h.Hash(purposeLine, b.String())
	return b.String() + hashMember + hash + lineEnd, hash
}

var inJSON = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

const (
	purposeLine = "audit"
	hashMember  = `,"hash":"`
	lineEnd     = "\"}\n"
	hashLength  = 64
	// maxLine is beyond what line makes: eight texts of 128 characters, the longest of
	// which is written in ten letters, and twice as many where each is a backslash.
	maxLine = 32 << 10
)
