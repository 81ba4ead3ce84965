package journal

import "fmt"

// Kind says why a journal is refused. It is an error itself, so that
// errors.Is(err, journal.Forged) asks for it.
type Kind string

// The kinds.
const (
	NotOne   Kind = "no_journal" // the bytes are none, or of another version
	BadKey   Kind = "key"        // its key is not among the keys
	Forged   Kind = "forged"     // changed, cut within, spliced, another owner's, or under another key of the same name
	Rollback Kind = "rollback"   // older than its head or counter
	Ahead    Kind = "ahead"      // more than one record beyond its head
	Mismatch Kind = "mismatch"   // settings, or by what it was made, are not those that were asked for
	Odd      Kind = "odd"        // authentic, and still not what this program writes
	TooLarge Kind = "too_large"
)

// Error returns the kind's own word.
func (k Kind) Error() string { return string(k) }

// Error is why a journal is refused, or cannot be written.
type Error struct {
	Kind    Kind
	Message string
}

// Error returns kind and message. It has nothing of what the journal holds.
func (e *Error) Error() string { return fmt.Sprintf("journal: %s: %s", e.Kind, e.Message) }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

func fail(k Kind, format string, args ...any) *Error {
	return &Error{k, fmt.Sprintf(format, args...)}
}
