package journal

import (
	"github.com/glovebox-dev/glovebox/internal/keyring"
)

// Appender is where a journal is kept. Append returns when the bytes are there
// for good, all of them, and where it keeps heads the head too; after an error it
// is not known how many are. The frame is the caller's again when it returns.
type Appender interface {
	Append(frame []byte, head Head) error
}

// Writer appends to one journal. It is not safe for concurrent use: records have
// an order, and whoever knows it appends them.
type Writer struct {
	to     Appender
	k      *keys
	state  *State
	chain  Chain
	head   Head
	size   int
	broken error
	buf    []byte
}

// Begin are the parts of a new journal that its writer chooses.
type Begin struct {
	Keys     *keyring.Ring
	Owner    []byte // at most 4,096 bytes
	Settings Settings
	Made     Made
}

// Create begins a journal.
func Create(to Appender, b Begin) (*Writer, error) {
	return create(to, b, Header{Session: newSession()})
}

func create(to Appender, b Begin, h Header) (*Writer, error) {
	h.Key, h.Settings, h.Made = b.Keys.Current(), b.Settings, b.Made
	k, err := derive(b.Keys, h.Key, b.Owner)
	if err != nil {
		return nil, err
	}
	frame, chain, err := k.append([]byte(Magic), Chain{}, &Record{Type: TypeHeader, Meta: &h})
	if err != nil {
		return nil, err
	}
	if h.Settings.Sealed {
		if err := k.sealing(); err != nil {
			return nil, err
		}
	}
	w := &Writer{to: to, k: k, state: newState(h), chain: chain, size: len(frame)}
	w.head = head(w.state, chain)
	if err := to.Append(frame, w.head); err != nil {
		return nil, err
	}
	return w, nil
}

// Resume goes on with a journal that was loaded, by the owner it was loaded for.
// What was torn must be cut off first: to holds exactly its l.Good bytes.
func Resume(to Appender, l *Loaded, ring *keyring.Ring, owner []byte) (*Writer, error) {
	k, err := derive(ring, l.Header.Key, owner)
	if err != nil {
		return nil, err
	}
	if l.Header.Settings.Sealed {
		if err := k.sealing(); err != nil {
			return nil, err
		}
	}
	return &Writer{to: to, k: k, state: &l.State, chain: l.Chain, head: l.Head(), size: l.Good}, nil
}

// Append appends a record for good, and returns the head to be committed. A
// record that cannot come next is refused and nothing is written. After an error
// of the Appender nothing more can be appended: part of a frame may be there.
func (w *Writer) Append(r Record) (Head, error) {
	if w.broken != nil {
		return Head{}, w.broken
	}
	if err := w.state.check(&r); err != nil {
		return Head{}, err
	}
	frame, chain, err := w.k.append(w.buf[:0], w.chain, &r)
	if err != nil {
		return Head{}, err
	}
	if w.size+len(frame) > MaxBytes {
		return Head{}, fail(TooLarge, "more than %d bytes", MaxBytes)
	}
	w.chain, w.size = chain, w.size+len(frame)
	w.state.apply(&r)
	end := head(w.state, chain)
	if err := w.to.Append(frame, end); err != nil {
		w.broken = err
		return Head{}, err
	}
	w.head = end
	if w.buf = frame; cap(w.buf) > maxKept {
		w.buf = nil
	}
	return end, nil
}

// maxKept is the largest buffer that is kept for the next record.
const maxKept = 64 << 10

// Head is the end of what was appended.
func (w *Writer) Head() Head { return w.head }

// State is what the records so far come to. It is the writer's own: nobody else
// changes it, and it is not to be read beside Append.
func (w *Writer) State() *State { return w.state }

// Size is the length of the journal in bytes.
func (w *Writer) Size() int { return w.size }

// NextCall is the record of the session's next call: its number and the key that
// stays the same in each replay.
func (w *Writer) NextCall(tool string) *Call {
	n := w.state.Call + 1
	return &Call{Call: n, Feed: w.state.Feed, Tool: tool, Key: w.k.idempotency(w.state.Header.Session, n)}
}

// Compact begins the journal that stands for one that was loaded, with a
// checkpoint as its second record: the same session, with a count that goes on.
// Feed, calls, seed, clock and what was spent are the old journal's; the globals
// are what the caller has made sure of. A feed or call that is open refuses it.
func Compact(to Appender, l *Loaded, b Begin, globals []byte, hash string, discovered []string) (*Writer, error) {
	if l.Open || len(l.InDoubt)+len(l.Waiting) > 0 || l.Feed == 0 {
		return nil, fail(Odd, "a journal with an open feed or call, or without a feed, cannot be compacted")
	}
	if b.Settings != l.Header.Settings {
		return nil, fail(Mismatch, "it was begun with other settings")
	}
	c := &Checkpoint{Feed: l.Feed, Call: l.Call, Seed: l.Seed, Clock: l.Clock, Hash: hash, Spent: l.Spent, Tools: l.Tools, Discovered: discovered}
	w, err := create(to, b, Header{Session: l.Header.Session, Base: l.Count(), Prev: l.Chain.String()})
	if err != nil {
		return nil, err
	}
	_, err = w.Append(Record{TypeCheckpoint, c, globals})
	return w, err
}
