package journal

import (
	"encoding/json"
	"fmt"

	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// The bounds of a journal.
const (
	MaxMeta    = 64 << 10 // bytes of a record's meta
	MaxBlob    = 33 << 20 // bytes of a record's blob: a source and a value of 16 MiB each
	MaxRecords = 4 << 20
	MaxBytes   = 1 << 30 // of a journal
)

// Type is the kind of a record.
type Type byte

// The types of records. Their numbers are the form's and never change.
const (
	TypeHeader     Type = 1  // Header: the first, and only there
	TypeFeed       Type = 2  // Feed; the blob is its source, and its inputs behind that
	TypeStart      Type = 3  // Call: a tool is about to run; the blob is its arguments
	TypeAsk        Type = 4  // Call: the guest waits for the host's own answer; the blob is its arguments
	TypeAnswer     Type = 5  // Answer; the blob is the value
	TypeOutcome    Type = 6  // Outcome: a feed is over; the blob is its value
	TypeCheckpoint Type = 7  // Checkpoint, as the second record of a compacted journal; the blob is the guest's globals
	TypeBudget     Type = 8  // Budget: what was spent though it could not be told
	TypeRefused    Type = 9  // Refused: a call that was not admitted; the blob is its arguments
	TypeRun        Type = 10 // Run: a tool is about to run for a call that waited
)

// Settings are what a session was begun with and must be loaded with.
type Settings struct {
	Redaction  bool   `json:"redaction"`
	StrictEval bool   `json:"strict_eval"`
	Catalog    string `json:"catalog"` // hash of its tools
	Sealed     bool   `json:"sealed"`
}

// Made says by what a journal was made. Another can read it; whether it replays,
// the outcomes tell.
type Made struct {
	Release  string `json:"release"`
	Engine   string `json:"engine"`
	Platform string `json:"platform"`
}

// Header is the first record.
type Header struct {
	Key      string   `json:"key"`     // id of the root key
	Session  string   `json:"session"` // 32 hexadecimal digits, random
	Settings Settings `json:"settings"`
	Made     Made     `json:"made"`
	// Base is how many records a compacted journal stands for, and Prev the chain
	// at their end in hexadecimal; 0 and empty for one from the beginning.
	Base uint64 `json:"base,omitzero"`
	Prev string `json:"prev,omitzero"`
}

// Feed is a piece of source that was accepted, before it runs.
type Feed struct {
	Feed   uint64 `json:"feed"`          // 1, 2, 3 …
	Seed   uint64 `json:"seed,omitzero"` // of Math.random, of a feed before which none has left anything
	Clock  int64  `json:"clock"`         // what Date shows, in ms of the epoch
	Source int    `json:"source"`        // how many bytes of the blob are source
	Run    bool   `json:"run,omitzero"`  // functions of tools are run, not handed over
	// Tools are those that it may call; nil is all of the session.
	Tools []string `json:"tools,omitzero"`
}

// Call is a tool's call.
type Call struct {
	Call uint64 `json:"call"` // 1, 2, 3 … of the session
	Feed uint64 `json:"feed"`
	Tool string `json:"tool"`
	// Key is the same in each replay and for no other call: a tool that is given it
	// can do its work once.
	Key string `json:"key"`
}

// Answer is what a call came to. Without a failure it is the value in the blob.
type Answer struct {
	Call    uint64   `json:"call"`
	Clock   int64    `json:"clock,omitzero"` // what Date shows from here on, in ms of the epoch; 0 leaves it
	Failure *Failure `json:"failure,omitzero"`
}

// Failure is what the guest was told of a call that failed.
type Failure struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Message string `json:"message"`
}

// Refused is a call that was refused, and what the guest was told. It is no call
// of the session: it has no number and costs nothing.
type Refused struct {
	Feed    uint64   `json:"feed"`
	Tool    string   `json:"tool"`
	Failure *Failure `json:"failure"`
}

// Run says that a tool is about to run for a call that waited: from here on it is
// in doubt until its answer.
type Run struct {
	Call uint64 `json:"call"`
}

// Outcome is the end of a feed.
type Outcome struct {
	Feed uint64 `json:"feed"`
	Kind string `json:"kind"` // "done" or a kind of failure
	Hash string `json:"hash"` // of what a replay must come to
	Used Spent  `json:"used"`
}

// Spent is what a session, or a part of it, has used up.
type Spent struct {
	Calls   int64 `json:"calls,omitzero"` // of tools, charged when they start
	MS      int64 `json:"ms,omitzero"`
	Bytes   int64 `json:"bytes,omitzero"`
	Refused int64 `json:"refused,omitzero"` // calls, which cost nothing else
}

// Checkpoint stands for the records before it.
type Checkpoint struct {
	Feed       uint64           `json:"feed"` // the last one
	Call       uint64           `json:"call"` // the last one
	Seed       uint64           `json:"seed"`
	Clock      int64            `json:"clock"`
	Hash       string           `json:"hash"` // of the blob
	Spent      Spent            `json:"spent"`
	Tools      map[string]int64 `json:"tools"`      // calls charged
	Discovered []string         `json:"discovered"` // lazy tools
}

// Budget adds to what was spent.
type Budget struct {
	Used Spent `json:"used"`
}

// Record is one record of a journal.
type Record struct {
	Type Type
	Meta any    // *Header, *Feed, *Call, *Answer, *Outcome, *Checkpoint, *Budget, *Refused or *Run
	Blob []byte // part of the journal's bytes, unless that is sealed
}

// metaOf returns an empty meta of a type, nil for a type that is none.
func metaOf(t Type) any {
	switch t {
	case TypeHeader:
		return &Header{}
	case TypeFeed:
		return &Feed{}
	case TypeStart, TypeAsk:
		return &Call{}
	case TypeAnswer:
		return &Answer{}
	case TypeOutcome:
		return &Outcome{}
	case TypeCheckpoint:
		return &Checkpoint{}
	case TypeBudget:
		return &Budget{}
	case TypeRefused:
		return &Refused{}
	case TypeRun:
		return &Run{}
	}
	return nil
}

// parse reads a record that is authentic.
func parse(t Type, meta, blob []byte) (Record, error) {
	m := metaOf(t)
	if m == nil {
		return Record{}, fmt.Errorf("a record of type %d", t)
	}
	if err := strictjson.Decode(meta, m, strictjson.Options{MaxBytes: MaxMeta}); err != nil {
		return Record{}, err
	}
	return Record{t, m, blob}, nil
}

// encode writes the inside of a record.
func (r *Record) encode(t Type) (meta []byte, err error) {
	ok := false
	switch r.Meta.(type) {
	case *Header:
		ok = t == TypeHeader
	case *Feed:
		ok = t == TypeFeed
	case *Call:
		ok = t == TypeStart || t == TypeAsk
	case *Answer:
		ok = t == TypeAnswer
	case *Outcome:
		ok = t == TypeOutcome
	case *Checkpoint:
		ok = t == TypeCheckpoint
	case *Budget:
		ok = t == TypeBudget
	case *Refused:
		ok = t == TypeRefused
	case *Run:
		ok = t == TypeRun
	}
	if !ok {
		return nil, fmt.Errorf("journal: a record of type %d with %T", t, r.Meta)
	}
	meta, err = json.Marshal(r.Meta)
	if err == nil && (len(meta) > MaxMeta || len(r.Blob) > MaxBlob) {
		err = fmt.Errorf("journal: a record of %d and %d bytes is too large", len(meta), len(r.Blob))
	}
	return meta, err
}
