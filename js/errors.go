package js

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Kind says what went wrong, from a closed list that does not change its
// meaning. It is an error itself, so that errors.Is(err, js.Timeout) asks for it.
type Kind string

// What the guest did. The runtime goes on.
const (
	SyntaxError  Kind = "syntax_error"  // the source does not parse
	Thrown       Kind = "thrown"        // the guest threw, or its promise was rejected
	NeverSettles Kind = "never_settles" // the promise that was awaited has nothing left that could settle it
	Timeout      Kind = "timeout"       // of TimeoutMS
	ResultLimit  Kind = "result_limit"  // the result has too many bytes, nodes or levels
	Unsupported  Kind = "unsupported"   // the result is, or holds, what cannot cross: a function, a symbol, an accessor
	BindFailed   Kind = "bind_failed"   // the name is taken in the guest
)

// What ended the worker. The runtime is closed.
const (
	HardTimeout Kind = "hard_timeout" // of HardMS
	CPULimit    Kind = "cpu_limit"
	MemoryLimit Kind = "memory_limit" // the kernel says so
	HostWait    Kind = "host_wait"    // functions of the host took longer than HostWaitMS
	CallLimit   Kind = "call_limit"   // HostCalls
	Denied      Kind = "denied"       // a system call of the kill class
	Crashed     Kind = "crashed"      // the engine, or the worker, ended by itself
	Protocol    Kind = "protocol"     // the worker said what no honest worker says
	WriteStall  Kind = "write_stall"  // the worker does not read
	Canceled    Kind = "canceled"     // the context ended
	Closed      Kind = "closed"       // by Close, or by an earlier error
	Expired     Kind = "expired"      // the worker's life of an hour is over
)

// What kept it from starting.
const (
	Busy          Kind = "busy"           // a runtime runs one thing at a time; also from inside a function of the host
	Unavailable   Kind = "unavailable"    // the sandbox does not hold; a *api.SandboxError is behind it
	EngineMissing Kind = "engine_missing" // no engine on this host; the message names the package
	SetupFailed   Kind = "setup_failed"
	PoolFull      Kind = "pool_full" // the context ended while all workers of a pool were out
)

// Error returns the kind's own word.
func (k Kind) Error() string { return string(k) }

// Retryable tells whether the same call could go well another time, on a fresh
// runtime, with nothing changed.
func (k Kind) Retryable() bool {
	switch k {
	case Busy, PoolFull, Crashed, SetupFailed, WriteStall, Expired, HostWait:
		return true
	}
	return false
}

// RetryLarger tells whether larger limits could help.
func (k Kind) RetryLarger() bool {
	switch k {
	case Timeout, HardTimeout, CPULimit, MemoryLimit, HostWait, CallLimit, ResultLimit:
		return true
	}
	return false
}

// Error is every failure of this package but bad options, which are
// *api.FieldError. Text of the guest in it has passed the output filter: no
// control characters, nothing that turns text round.
type Error struct {
	Kind Kind
	// Name, Message and Stack are the guest's, for what it threw; Message is ours
	// otherwise. Stack has frames of the guest alone.
	Name    string
	Message string
	Stack   string
	// Value is what was thrown, if it was not an Error.
	Value Value
	// Err is what is behind it, such as the error of a context.
	Err error
}

// Error is one line: kind or the guest's name, and the message.
func (e *Error) Error() string {
	what := string(e.Kind)
	if e.Name != "" {
		what = e.Name
	}
	if e.Message == "" {
		return "js: " + what
	}
	return fmt.Sprintf("js: %s: %s", what, e.Message)
}

// Unwrap returns Kind and Err.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

func failed(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// ctxEnded is the error of a context that ended: when, after "the context ended".
func ctxEnded(ctx context.Context, when string) *Error {
	cause := context.Cause(ctx)
	return &Error{Kind: Canceled, Message: "the context ended " + when + ": " + clean(fmt.Sprint(cause), 400), Err: cause}
}

// since is the error of a runtime that is over, by what ended it.
func since(over *Error) *Error {
	if over.Kind == Closed {
		return &Error{Kind: Closed, Message: over.Message, Err: over}
	}
	return &Error{Kind: Closed, Message: "an earlier error ended the runtime: " + strings.TrimPrefix(over.Error(), "js: "), Err: over}
}

// KindOf returns the kind of an error of this package, "" for another.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// GuestError is an error of a function of the host whose text the guest may
// see. Of any other error it sees a fixed sentence.
type GuestError struct {
	Name    string // "Error" if empty
	Message string
}

// Error returns the message.
func (e *GuestError) Error() string { return e.Message }

// hostNames are names of errors that a guest might give its own, to pass for a
// failure of the host.
var hostNames = func() (names []string) {
	for _, k := range []Kind{Timeout, HardTimeout, CPULimit, MemoryLimit, HostWait, CallLimit, Denied, Crashed, Protocol, WriteStall,
		Canceled, Closed, Expired, Busy, Unavailable, EngineMissing, SetupFailed, PoolFull, ResultLimit, Unsupported, NeverSettles, BindFailed} {
		camel := ""
		for part := range strings.SplitSeq(string(k), "_") {
			camel += strings.ToUpper(part[:1]) + part[1:]
		}
		names = append(names, string(k), camel, camel+"Error")
	}
	return names
}()
