// Package store keeps the journals of sessions, for one holder at a time.
//
// A [Store] gives out a [Lease] for a [Key]. Each lease has a fencing number that
// is larger than that of every lease before it, and each write is compared with
// it in the same step in which it becomes visible: a holder that was stopped for
// an hour, and has been replaced, writes nothing any more, whatever it believes.
// No process id and no clock of a wall decides that. Time only says how long a
// holder that shows no life keeps others out, and it is measured by who waits, on
// his own monotonic clock, over a counter that the holder moves.
//
// [NewMemory] and [NewFile] are here; a NATS key-value store is in package natskv.
//
// A store reads nothing of what it keeps. Whoever can write to a folder or a bucket
// can read journals that are not sealed, and can put back a session as a whole, to
// what it was: seal journals of shared stores, which is a setting of the session
// and its default, and bind a counter where going back must be seen.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/api"
)

// Bounds of what a store takes.
const (
	MaxName    = 256      // bytes of an owner and of an id
	MaxHead    = 64 << 10 // bytes of a head
	MaxJournal = 1 << 30  // bytes of a journal; a store may have less
)

// Errors of a store. They are wrapped; ask with errors.Is.
var (
	// ErrBusy means that another holds the session, and did so until the context ended.
	ErrBusy = errors.New("the session is held")
	// ErrFenced means that another has, or had, the session since: nothing was
	// written, and nothing will be by this lease.
	ErrFenced = errors.New("another has taken the session")
	// ErrNotFound means that nothing was ever committed under the key.
	ErrNotFound = errors.New("there is no such session")
	// ErrReleased means that the lease was given back, or its session deleted by it.
	ErrReleased = errors.New("the lease was released")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrTooLarge means that a journal or head would be larger than the store takes.
	// Nothing was written, and the lease holds.
	ErrTooLarge = errors.New("more than the store takes")
	// ErrDamaged means that what lies in the store is not what was written.
	ErrDamaged = errors.New("what the store holds is damaged")
)

// Key names a session. Both parts are 1 to MaxName bytes of UTF-8 without NUL.
type Key struct {
	Owner, ID string
}

// Check says what is wrong with a key, by an *api.FieldError with the field
// "owner" or "id".
func (k Key) Check() error {
	if err := checkName("owner", k.Owner); err != nil {
		return err
	}
	return checkName("id", k.ID)
}

// CheckOwner is the same for an owner alone.
func CheckOwner(owner string) error { return checkName("owner", owner) }

func checkName(field, s string) error {
	switch {
	case s == "":
		return &api.FieldError{Field: field, Reason: "must not be empty"}
	case len(s) > MaxName:
		return &api.FieldError{Field: field, Value: len(s), Reason: fmt.Sprintf("must have at most %d bytes", MaxName)}
	case !utf8.ValidString(s):
		return &api.FieldError{Field: field, Reason: "must be UTF-8"}
	case strings.IndexByte(s, 0) >= 0:
		return &api.FieldError{Field: field, Reason: "must not hold a NUL byte"}
	}
	return nil
}

// Names returns what stands for owner and session in the names of files and keys:
// 64 hexadecimal digits each, of SHA-256, so that no character of a key reaches a
// name. Two keys have the same only if the hash collides; stores keep the key
// itself beside the journal and compare it.
func (k Key) Names() (owner, session string) {
	n := binary.BigEndian.AppendUint16(nil, uint16(len(k.Owner)))
	s := sha256.Sum256([]byte("glovebox session\x00" + string(n) + k.Owner + k.ID))
	return OwnerName(k.Owner), hex.EncodeToString(s[:])
}

// OwnerName is the first of Names.
func OwnerName(owner string) string {
	o := sha256.Sum256([]byte("glovebox owner\x00" + owner))
	return hex.EncodeToString(o[:])
}

// AcquireOptions say how a session is taken.
type AcquireOptions struct {
	// Create makes the session if there is none. It exists for others when something
	// was committed; released before that, it leaves nothing behind.
	Create bool
	// NoWait is ErrBusy at once where another holds the session.
	NoWait bool
	// Takeover takes the session from a holder that lives, at once. It is for a person
	// who knows that the holder is of no use any more, and no more dangerous to a
	// journal than a holder that ends.
	Takeover bool
}

// Record is what was committed.
type Record struct {
	Journal []byte // empty if nothing was
	Head    []byte
}

// Info is what List tells of a session.
type Info struct {
	Key   Key
	Bytes int64 // of the journal
	// Held says that somebody had it a moment ago, dead or alive.
	Held bool
}

// Store keeps sessions. It is safe for concurrent use, and so are its leases.
type Store interface {
	// Acquire takes a session for the caller alone. It waits while another holds
	// it, until ctx ends, and then the error is ErrBusy with the reason and ctx's own.
	// It is an *api.FieldError for a bad key, ErrNotFound where there is no session
	// and Create is not set, ErrClosed, or an error of the place where it is kept.
	Acquire(ctx context.Context, k Key, o AcquireOptions) (Lease, error)
	// List tells of an owner's sessions, in no order. What cannot be read is left out
	// and told of by the error.
	List(ctx context.Context, owner string) ([]Info, error)
	// Close wakes those who wait and ends all leases, which are released where the
	// place allows it. A second Close is no error.
	Close() error
}

// Lease is a session that is held.
type Lease interface {
	// Key is the session's.
	Key() Key
	// Fence is the lease's number: larger than that of every lease of the session
	// before.
	Fence() uint64
	// Load returns what was committed. The bytes are the caller's own.
	Load(ctx context.Context) (Record, error)
	// Append adds frames to the journal and puts head in the place of the old one: both
	// or neither, for good, and only if nobody has taken the session since. Frames may
	// be empty. After ErrFenced, ErrTooLarge, ErrReleased and ErrClosed nothing was
	// written. After another error it may be that all was, which a Load by the
	// next lease tells, and this lease may take no more. Frames and head are the
	// caller's again when it returns.
	Append(ctx context.Context, frames, head []byte) error
	// Replace puts journal and head in the place of both, by the same rules.
	Replace(ctx context.Context, journal, head []byte) error
	// Delete removes the session and ends the lease. Later leases of the key have
	// larger numbers still.
	Delete(ctx context.Context) error
	// Release lets others have the session. It gives back this lease and no other, does
	// nothing if that was lost or released before, and gives the lease up even if it
	// returns an error of the place where the session is kept.
	Release(ctx context.Context) error
	// Lost is closed when it is known that the lease holds no longer: another has the
	// session, or it was released, deleted or closed. It may be late: that it is open
	// proves nothing, only Append does.
	Lost() <-chan struct{}
}
