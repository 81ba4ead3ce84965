package gate

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/preflight"
)

// Denied is the error of a source that does not run. Its texts are made safe to
// show: no control characters, nothing that turns text round, and cut.
type Denied struct {
	Kind     Kind
	Name     string
	Reason   string              // never empty; at most 500 bytes
	Findings []preflight.Finding // at most preflight.MaxFindings, messages of at most 300 bytes
	More     int                 // findings that were not kept
	// Err is why the gate gave no verdict, such as the error of a context; nil for a
	// verdict.
	Err error
}

// Bounds of what is kept of a verdict, in bytes.
const (
	maxReason  = 500
	maxMessage = 300
	maxWord    = 60
	maxName    = 200
)

// Error is one line: what was denied, why, and the first finding.
func (d *Denied) Error() string {
	what := string(d.Kind)
	if d.Name != "" {
		what += " " + d.Name
	}
	text := fmt.Sprintf("gate: %s is denied: %s", what, d.Reason)
	if len(d.Findings) > 0 {
		text += " (" + d.Findings[0].String()
		if n := len(d.Findings) - 1 + d.More; n > 0 {
			text += fmt.Sprintf(", and %d more", n)
		}
		text += ")"
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// Unwrap returns Err.
func (d *Denied) Unwrap() error { return d.Err }

// errNoVerdict is wrapped by the Err of a Denied whose gate came to no verdict of
// its own.
type noVerdict string

func (e noVerdict) Error() string { return string(e) }

// ErrNoVerdict is in the chain of a [*Denied] whose gate came to no verdict: it
// is nil, panicked, ended its goroutine, or took too long.
const ErrNoVerdict = noVerdict("the gate gave no verdict")

// late counts the gates that were left behind and have not come back. Each holds
// a copy of a source.
var late atomic.Int64

// maxLate is how many of them there may be at one time in this process.
const maxLate = 64

// Ask asks a gate about a source and returns nil if it is allowed, otherwise a
// [*Denied]. The gate runs on a goroutine of its own. One that does not answer in
// time is left behind and its answer dropped; when 64 are left behind everything
// is denied until one of them has ended. A nil gate denies: whoever has none does
// not ask.
func Ask(ctx context.Context, g Gate, source []byte, info Info) error {
	if s, ok := ctx.Value(sessionKey{}).(session); ok && info.Owner == "" && info.Session == "" {
		info.Owner, info.Session = s.owner, s.session
	}
	none := func(reason string, cause error) error {
		err := error(ErrNoVerdict)
		if cause != nil {
			err = fmt.Errorf("%w: %w", ErrNoVerdict, cause)
		}
		return denied(info, Verdict{Reason: reason}, err)
	}
	limit := info.Timeout
	if limit == 0 {
		limit = DefaultTimeout
	}
	switch {
	case g == nil:
		return none("there is no gate to ask", nil)
	case limit < 0 || limit > MaxTimeout:
		return none("the gate's time limit is out of bounds", nil)
	case ctx.Err() != nil:
		return none("the context ended before the gate was asked", context.Cause(ctx))
	case late.Load() >= maxLate:
		return none("too many gates have not answered", nil)
	}
	info.Timeout = limit
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a := askOne(ctx, g, source, info)
	switch {
	case a.late || ctx.Err() != nil: // what comes at the last moment is late too
		return none("the gate did not answer in time", context.Cause(ctx))
	case a.fault != "":
		return none(a.fault, nil)
	case !a.verdict.Allow:
		return denied(info, a.verdict, nil)
	}
	return nil
}

// answer is what became of one question.
type answer struct {
	verdict Verdict
	fault   string // it panicked, or ended its goroutine
	late    bool
}

// askOne asks a gate on a goroutine of its own, about a copy of the source, until
// the context ends.
func askOne(ctx context.Context, g Gate, source []byte, info Info) answer {
	if g == nil {
		return answer{fault: "there is no gate to ask"}
	}
	done := make(chan answer, 1)
	var left atomic.Bool // by who asked, or by the gate: the second of them settles the count
	mine := bytes.Clone(source)
	go func() {
		a := answer{fault: "the gate ended its goroutine"}
		defer func() {
			if p := recover(); p != nil {
				a = answer{fault: "the gate panicked"} // with what is nobody's to read but the host's
			}
			done <- a
			if !left.CompareAndSwap(false, true) {
				late.Add(-1)
			}
		}()
		a = answer{verdict: g(ctx, mine, info)}
	}()
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
		late.Add(1)
		if !left.CompareAndSwap(false, true) {
			late.Add(-1)
		}
		return answer{late: true}
	}
}

// denied makes the error of a verdict.
func denied(info Info, v Verdict, err error) *Denied {
	d := &Denied{Kind: Kind(clean(string(info.Kind), maxWord)), Name: clean(info.Name, maxName), Reason: clean(v.Reason, maxReason), Err: err}
	if strings.TrimSpace(d.Reason) == "" {
		d.Reason = "the gate does not allow it"
	}
	if d.Kind == "" {
		d.Kind = "source"
	}
	list := slices.Clone(v.Findings[:min(len(v.Findings), preflight.MaxFindings)])
	d.More = len(v.Findings) - len(list)
	for i := range list {
		f := &list[i]
		f.Line, f.Column = max(f.Line, 0), max(f.Column, 0)
		f.Severity, f.Rule, f.Message = preflight.Severity(clean(string(f.Severity), maxWord)), clean(f.Rule, maxWord), clean(f.Message, maxMessage)
	}
	if len(list) > 0 {
		d.Findings = list
	}
	return d
}

// clean is text that people can read: what has no shape is taken away, and so are
// line ends; what is long is cut, with an ellipsis within the limit.
func clean(s string, limit int) string {
	long := false
	if more := 4*limit + utf8.UTFMax; len(s) > more { // what is far behind is not looked at
		s, long = s[:more], true
	}
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, termtext.Plain(s))
	if !long && len(s) <= limit {
		return s
	}
	n := min(limit-len("…"), len(s))
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]) + "…"
}
