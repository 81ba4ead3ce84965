package agent

import (
	"context"
	"fmt"
)

// SessionErrorKind says why a session does not go on. It is an error itself, so
// that errors.Is(err, agent.SessionBusy) asks for it.
type SessionErrorKind string

// The kinds of a [SessionError].
const (
	SessionBusy     SessionErrorKind = "session_busy"      // it runs a feed; also from inside one of its tools
	SessionPaused   SessionErrorKind = "session_paused"    // it waits for Resume
	SessionNotAsked SessionErrorKind = "session_not_asked" // it does not wait for anything
	SessionClosed   SessionErrorKind = "session_closed"
	SessionBudget   SessionErrorKind = "session_budget"   // what it may use is used up; Message names it
	SessionTool     SessionErrorKind = "session_tool"     // a tool panicked or ended its goroutine: the feed is void
	SessionWait     SessionErrorKind = "session_wait"     // its tools took longer than FeedWaitMS: the feed is void
	SessionCanceled SessionErrorKind = "session_canceled" // the context ended: the feed is void
	SessionJournal  SessionErrorKind = "session_journal"  // the journal is refused, or cannot be written
	SessionDiverged SessionErrorKind = "session_diverged" // a replay came to something else than the journal says
	SessionLost     SessionErrorKind = "session_lost"     // another holds the session now
)

// Error returns the kind's own word.
func (k SessionErrorKind) Error() string { return string(k) }

// SessionError is what keeps a session from doing what it was asked. What the
// guest did is a [*js.Error]; a bad argument is an *api.FieldError.
type SessionError struct {
	Kind    SessionErrorKind
	Message string
	Err     error // what is behind it
}

// Error returns kind and message.
func (e *SessionError) Error() string { return fmt.Sprintf("agent: %s: %s", e.Kind, e.Message) }

// Unwrap returns the kind and what is behind it.
func (e *SessionError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

func sessionFailed(k SessionErrorKind, format string, args ...any) *SessionError {
	return &SessionError{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// canceled is the error of a context that has ended.
func canceled(ctx context.Context, when string) *SessionError {
	return &SessionError{Kind: SessionCanceled, Message: when, Err: context.Cause(ctx)}
}

// because is sessionFailed with what is behind it.
func because(k SessionErrorKind, err error, format string, args ...any) *SessionError {
	return &SessionError{Kind: k, Message: fmt.Sprintf(format, args...) + ": " + err.Error(), Err: err}
}
