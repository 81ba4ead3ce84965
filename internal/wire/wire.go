// Package wire is what a host and its JavaScript worker say to each other: the
// frames, the messages in them, and the values that messages carry.
//
// Every reader here treats what it reads as hostile, and every form is
// canonical: what one side means has one encoding, and a decoder refuses the
// others, so that two decoders cannot understand one frame differently. The
// one freedom is in the shapes of objects, which an encoder may share or not.
//
// docs/wire.md has the layout; the tables in it come from this package.
package wire

import (
	"errors"
	"fmt"
)

// Version is the version of the whole protocol. Both sides say it first; there
// is no negotiation, since host and worker are built from one tree.
const Version = 1

// MaxFrame bounds a frame in bytes, its type byte included, its length not.
const MaxFrame = 16 << 20

// MaxPayload bounds what a frame holds behind its type.
const MaxPayload = MaxFrame - 1

// MaxValue bounds an encoded value in bytes, so that the rest of its message
// fits the frame too.
const MaxValue = MaxPayload - 4<<10

var (
	// ErrMalformed is anything that no honest peer sends: the runtime ends.
	ErrMalformed = errors.New("malformed frame")
	// ErrVersion is a peer of another version.
	ErrVersion = errors.New("wire version differs")
	// ErrLimit is anything well formed that is more than a budget allows, and
	// it is in every LimitError.
	ErrLimit = errors.New("more than the limit")
	// ErrValue is a Go value that has no encoding.
	ErrValue = errors.New("value cannot cross")
)

// LimitError says which budget was too small.
type LimitError struct {
	What  string // "nodes", "depth", "elements", "memory", "bigint", "value", "frame"
	Limit int
}

// Error names the budget and its limit.
func (e *LimitError) Error() string { return fmt.Sprintf("more than %d: %s", e.Limit, e.What) }

// Unwrap returns ErrLimit.
func (e *LimitError) Unwrap() error { return ErrLimit }

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Side is one end of the socket.
type Side byte

// The two ends.
const (
	Host   Side = 1
	Worker Side = 2
)

// String returns "host" or "worker".
func (s Side) String() string {
	if s == Host {
		return "host"
	}
	return "worker"
}

// Type is the first byte of a frame.
type Type byte

// What a host sends.
const (
	TypeHostHello Type = 1
	TypeOpen      Type = 2
	TypeEval      Type = 3
	TypeBind      Type = 4
	TypeRevoke    Type = 5
	TypeAnswer    Type = 6
	TypeImported  Type = 7
	TypeClose     Type = 8
	TypeTransform Type = 9
)

// What a worker sends.
const (
	TypeWorkerHello Type = 65
	TypeReady       Type = 66
	TypeBound       Type = 67
	TypeCall        Type = 68
	TypeDone        Type = 69
	TypeConsole     Type = 70
	TypeFatal       Type = 71
	TypeImport      Type = 72
	TypeWaiting     Type = 73
)

// Message is the content of one frame: a pointer to one of the structs here.
type Message interface {
	// Type returns the type byte of the message's frame.
	Type() Type
	put(*encoder)
	get(*decoder)
}

// row is one type of the closed set.
type row struct {
	Type  Type
	Name  string
	From  Side
	Max   int // bytes of payload
	fresh func() Message
}

// types is the closed set. The table in docs/wire.md is made from it.
var types = []row{
	{TypeHostHello, "HostHello", Host, 4 << 10, func() Message { return new(HostHello) }},
	{TypeOpen, "Open", Host, MaxPayload, func() Message { return new(Open) }},
	{TypeEval, "Eval", Host, MaxPayload, func() Message { return new(Eval) }},
	{TypeBind, "Bind", Host, 4 << 10, func() Message { return new(Bind) }},
	{TypeRevoke, "Revoke", Host, 16, func() Message { return new(Revoke) }},
	{TypeAnswer, "Answer", Host, MaxPayload, func() Message { return new(Answer) }},
	{TypeImported, "Imported", Host, MaxPayload, func() Message { return new(Imported) }},
	{TypeClose, "Close", Host, 0, func() Message { return new(Close) }},
	{TypeTransform, "Transform", Host, MaxPayload, func() Message { return new(Transform) }},
	{TypeWorkerHello, "WorkerHello", Worker, 4 << 10, func() Message { return new(WorkerHello) }},
	{TypeReady, "Ready", Worker, 64 << 10, func() Message { return new(Ready) }},
	{TypeBound, "Bound", Worker, 64 << 10, func() Message { return new(Bound) }},
	{TypeCall, "Call", Worker, MaxPayload, func() Message { return new(Call) }},
	{TypeDone, "Done", Worker, MaxPayload, func() Message { return new(Done) }},
	{TypeConsole, "Console", Worker, 1 << 20, func() Message { return new(Console) }},
	{TypeFatal, "Fatal", Worker, 64 << 10, func() Message { return new(Fatal) }},
	{TypeImport, "Import", Worker, 64 << 10, func() Message { return new(Import) }},
	{TypeWaiting, "Waiting", Worker, 20, func() Message { return new(Waiting) }},
}

// rowOf has each type's row in its place, nil where there is no type.
var rowOf = func() (all [256]*row) {
	for i := range types {
		all[types[i].Type] = &types[i]
	}
	return all
}()

// Kind describes one type of message.
type Kind struct {
	Type Type
	Name string
	Max  int // bytes of payload
}

// Types returns the closed set of what a side sends, so that a test which tries
// each of them misses none.
func Types(from Side) (all []Kind) {
	for _, t := range types {
		if t.From == from {
			all = append(all, Kind{t.Type, t.Name, t.Max})
		}
	}
	return all
}
