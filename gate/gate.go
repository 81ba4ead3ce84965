// Package gate lets a host judge source before it runs: a [Gate] is asked for
// every text that could run as code, and what it does not allow in plain words is
// not run. glovebox.Options and js.Options have one; [Ask] is the one way in which
// they ask it.
//
//	box, err := glovebox.New(glovebox.Options{Gate: gate.AllOf(gate.MaxBytes(1<<20), mine)})
//
// It fails closed. A zero [Verdict] denies, and so does a gate that panics, ends
// its goroutine, takes too long, or is nil where one is asked. What a denied
// source gets is a [*Denied]: no cell, no worker, no message to one.
//
// A gate is no wall. It is an opinion on a text, and what runs after all is held
// by the cell. It knows nothing of what a program puts together while it runs:
// package js refuses eval and its like beside a gate, other languages have none
// of that.
package gate

import (
	"context"
	"time"

	"github.com/glovebox-dev/glovebox/preflight"
)

// Kind says what a text will be.
type Kind string

// The kinds. A gate that meets one that it does not know should deny.
const (
	Script  Kind = "script"  // JavaScript that the engine gets as a script
	Module  Kind = "module"  // JavaScript that the engine gets as a module
	Feed    Kind = "feed"    // JavaScript that is fed to a session: as a script, but it may await and return at its top
	JSON    Kind = "json"    // text that is JSON in form and is imported: it can run nothing, whatever it is imported as
	Program Kind = "program" // the file that a program of a cell begins with
	File    Kind = "file"    // a further file of it, code or data
	Command Kind = "command" // a JSON array of strings: command and arguments that are run in a cell
	Env     Kind = "env"     // a JSON object of strings: variables that a program of a cell is given besides
)

// Info is what a gate is told of a text. All of it may be a stranger's words.
type Info struct {
	Kind     Kind
	Language string // "javascript" for package js, the program's language for a cell; "" for a command
	Name     string // of a module or file; what stacks call a script
	Owner    string // whose session it is, "" outside of sessions; see [WithSession]
	Session  string
	// Timeout is what the gate may take, zero [DefaultTimeout]. Above [MaxTimeout],
	// or negative, it is a denial.
	Timeout time.Duration
}

// Verdict is what a gate says. The zero value denies.
type Verdict struct {
	Allow  bool
	Reason string // of a denial, one sentence for whoever wrote the source
	// Findings are the places that are meant. They are of no weight: a Verdict that
	// allows is not changed by them.
	Findings []preflight.Finding
}

// Gate judges one text. The bytes are a copy of its own. It is called from any
// goroutine, also several at one time; when the context ends nobody waits for it
// any more.
type Gate func(ctx context.Context, source []byte, info Info) Verdict

// DefaultTimeout is what a gate may take, and MaxTimeout the most that can be set.
const (
	DefaultTimeout = 5 * time.Second
	MaxTimeout     = 10 * time.Minute
)

// session is what [WithSession] says.
type session struct{ owner, session string }

type sessionKey struct{}

// WithSession says whose session the sources are that are judged under a
// context. [Ask] puts it into an Info that says nothing of it.
func WithSession(ctx context.Context, owner, id string) context.Context {
	return context.WithValue(ctx, sessionKey{}, session{owner, id})
}
