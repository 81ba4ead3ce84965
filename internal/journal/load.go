package journal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/glovebox-dev/glovebox/internal/keyring"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// LoadOptions say what a journal must be.
type LoadOptions struct {
	Keys  *keyring.Ring
	Owner []byte // whose it is, at most 4,096 bytes
	// Settings are those it must have been begun with.
	Settings Settings
	// Made, if it is not nil, is by what it must have been made.
	Made *Made
	// Head, if it is not nil, is the committed head: the journal ends there, or
	// exactly one record beyond.
	Head *Head
	// Counter, if it is not nil, is a count that the caller has kept: the journal
	// has as many records, or exactly one more.
	Counter *uint64
	// Each, if it is not nil, is given every record in order, the first one too.
	// Its error ends the load. Blobs are the caller's as long as data is.
	Each func(Record) error
}

// Loaded is a journal that holds.
type Loaded struct {
	State
	Chain Chain
	// Good is where its last whole record ends; what is behind that in the bytes is
	// torn, was never relied on and must be cut off before anything is appended.
	Good int
	Torn bool
	// Beyond says that there is one record more than the head or counter knows.
	Beyond bool
	// RollbackPossible says that nothing was there to tell an older journal from
	// this one.
	RollbackPossible bool
}

// Head is the journal's end, to be committed.
func (l *Loaded) Head() Head { return head(&l.State, l.Chain) }

func head(s *State, c Chain) Head {
	return Head{Session: s.Header.Session, Count: s.Count(), Chain: c, Spent: s.Spent}
}

// Load reads a journal from anywhere. Nothing in it is believed before its mac
// holds, and nothing is run. The error is an *Error or that of Each.
func Load(data []byte, o LoadOptions) (*Loaded, error) {
	if len(data) > MaxBytes {
		return nil, fail(TooLarge, "more than %d bytes", MaxBytes)
	}
	rest, ok := bytes.CutPrefix(data, []byte(Magic))
	if !ok {
		return nil, fail(NotOne, "it does not begin like one of this version")
	}
	id, err := firstKey(rest)
	if err != nil {
		return nil, first(err)
	}
	if !o.Keys.Has(id) {
		return nil, fail(BadKey, "it names a key that is not there")
	}
	k, err := derive(o.Keys, id, o.Owner)
	if err != nil {
		return nil, fail(BadKey, "%v", err)
	}
	l := &loader{o: o, k: k, rest: rest, out: &Loaded{Good: len(Magic)}}
	if err := l.header(id); err != nil {
		return nil, first(err)
	}
	for len(l.rest) > 0 {
		err := l.step()
		if errors.Is(err, errTorn) {
			l.out.Torn = true
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return l.end()
}

// first makes an error of a journal whose first record is torn.
func first(err error) error {
	if errors.Is(err, errTorn) {
		return fail(NotOne, "it ends within its first record")
	}
	return err
}

type loader struct {
	o    LoadOptions
	k    *keys
	rest []byte
	out  *Loaded
	// atHead is the chain where the committed head says the journal ended.
	atHead Chain
}

// take reads the next frame and steps over it.
func (l *loader) take(sealed bool) (Record, error) {
	prev := l.out.Chain
	f, err := l.k.next(prev, l.rest)
	if err != nil {
		return Record{}, err
	}
	r, err := l.k.open(f, prev, sealed)
	if err != nil {
		return Record{}, err
	}
	l.rest = l.rest[f.size:]
	l.out.Chain = f.chain
	l.out.Good += f.size
	return r, nil
}

func (l *loader) header(id string) error {
	r, err := l.take(false)
	if err != nil {
		return err
	}
	h, ok := r.Meta.(*Header)
	if !ok || h.Key != id || len(r.Blob) > 0 {
		return fail(Odd, "the first record is no first record")
	}
	if err := h.valid(); err != nil {
		return fail(Odd, "the first record has %v", err)
	}
	if h.Settings != l.o.Settings {
		return fail(Mismatch, "it was begun with other settings")
	}
	if l.o.Made != nil && h.Made != *l.o.Made {
		return fail(Mismatch, "it was made by another release, engine or platform")
	}
	if h.Settings.Sealed {
		if err := l.k.sealing(); err != nil {
			return err
		}
	}
	l.out.State = *newState(*h)
	return l.took(r)
}

// took notes where the head is, and hands a record on.
func (l *loader) took(r Record) error {
	if l.o.Head != nil && l.out.Count() == l.o.Head.Count {
		l.atHead = l.out.Chain
	}
	if l.o.Each != nil {
		return l.o.Each(r)
	}
	return nil
}

func (l *loader) step() error {
	r, err := l.take(l.out.Header.Settings.Sealed)
	if err != nil {
		return err
	}
	if err := l.out.check(&r); err != nil {
		return err
	}
	l.out.apply(&r)
	return l.took(r)
}

// end holds the journal against what is known of it elsewhere.
func (l *loader) end() (*Loaded, error) {
	out := l.out
	if out.Header.Base > 0 && out.Checkpoint == nil {
		return nil, fail(Odd, "a compacted journal without its checkpoint")
	}
	out.RollbackPossible = l.o.Head == nil && l.o.Counter == nil
	if h := l.o.Head; h != nil {
		if err := out.against(h.Count); err != nil {
			return nil, err
		}
		if l.atHead != h.Chain {
			return nil, fail(Rollback, "it is not the one that the head was committed of")
		}
	}
	if n := l.o.Counter; n != nil {
		if err := out.against(*n); err != nil {
			return nil, err
		}
	}
	out.settle()
	return out, nil
}

// against compares the number of records with one that was kept.
func (out *Loaded) against(count uint64) error {
	switch n := out.Count(); {
	case n < count:
		return fail(Rollback, "it has %d records, and had %d", n, count)
	case n > count+1:
		return fail(Ahead, "it has %d records, more than one beyond %d", n, count)
	case n == count+1:
		out.Beyond = true
	}
	return nil
}

// ParseHead reads what Head.Marshal wrote. The error is an *Error.
func ParseHead(data []byte, ring *keyring.Ring, owner []byte) (Head, error) {
	var h Head
	id, rest, ok := bytes.Cut(data, []byte{'\n'})
	sum, body, ok2 := bytes.Cut(rest, []byte{'\n'})
	if !ok || !ok2 || len(body) > MaxMeta || len(sum) != 2*sizeMAC {
		return h, fail(NotOne, "the head is none")
	}
	if !ring.Has(string(id)) {
		return h, fail(BadKey, "the head names a key that is not there")
	}
	key, err := ring.Derive(string(id), "journal head", owner)
	if err != nil {
		return h, fail(BadKey, "%v", err)
	}
	m := hmac.New(sha256.New, key)
	m.Write(body)
	if !hmac.Equal(hex.AppendEncode(nil, m.Sum(nil)), sum) {
		return h, fail(Forged, "the head is not what was written")
	}
	if err := strictjson.Decode(body, &h, strictjson.Options{MaxBytes: MaxMeta}); err != nil {
		return Head{}, fail(Odd, "the head: %v", err)
	}
	return h, nil
}
