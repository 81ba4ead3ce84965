package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/journal"
	"github.com/glovebox-dev/glovebox/js"
)

// droppedKind is the failure of a call whose feed ended before its tool: the guest
// was not told.
const droppedKind = "dropped"

// outcomeDone is the kind of a feed that came to a value.
const outcomeDone = "done"

// repeatable are the kinds of failure that a replay comes to again: the guest
// goes on from where they left it.
var repeatable = []js.Kind{js.SyntaxError, js.Thrown, js.NeverSettles, js.ResultLimit, js.Unsupported, js.BindFailed}

// replays tells whether a feed with this outcome is run again by a replay. One
// that is void is not: the guest is as it was before.
func replays(kind string) bool {
	return kind == outcomeDone || slices.Contains(repeatable, js.Kind(kind))
}

// hashOf is what a replay must come to.
func hashOf(value js.Value, err error) string {
	h := sha256.New()
	var failure *js.Error
	if errors.As(err, &failure) {
		for _, part := range []string{string(failure.Kind), failure.Name, failure.Message} {
			writePart(h, []byte(part))
		}
	} else {
		data, err := value.MarshalBinary()
		if err != nil { // too large for what it is kept in, and the same each time
			data = []byte("too large")
		}
		writePart(h, data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// succeeded ends a feed that came to a value.
func (s *Session) succeeded(step *js.Step) (*Step, error) {
	return s.settle(outcomeDone, hashOf(step.Value, nil), step.Value, nil)
}

// failed ends a feed that the runtime says has failed.
func (s *Session) failed(ctx context.Context, err error) (*Step, error) {
	var failure *js.Error
	switch {
	case !errors.As(err, &failure):
		return s.void(err)
	case slices.Contains(repeatable, failure.Kind):
		return s.settle(string(failure.Kind), hashOf(js.Value{}, err), js.Value{}, err)
	case failure.Kind == js.Canceled:
		err = canceled(ctx, "while the guest ran")
	case failure.Kind == js.Timeout:
		err = s.named(failure)
	}
	return s.void(err)
}

// named is a timeout by the name of the limit of this package that it was.
func (s *Session) named(failure *js.Error) *js.Error {
	told, limit := *failure, "what was left of ms"
	if strings.HasSuffix(told.Message, fmt.Sprintf("timeout_ms, %d ms", s.pool.limits.FeedMS)) {
		limit = "feed_ms"
	}
	told.Message = strings.Replace(told.Message, "timeout_ms", limit, 1)
	return &told
}

// void ends a feed by what is not the same each time: the guest is given up.
func (s *Session) void(why error) (*Step, error) {
	kind := "void"
	var failure *js.Error
	var own *SessionError
	switch {
	case errors.As(why, &failure):
		kind = string(failure.Kind)
	case errors.As(why, &own):
		kind = string(own.Kind)
	}
	s.drop()
	return s.settle(kind, "", js.Value{}, why)
}

// settle puts the outcome on record.
func (s *Session) settle(kind, hash string, value js.Value, why error) (*Step, error) {
	f := s.feed
	s.setStep(nil)
	r := &Result{Value: value, Output: f.output.String(), Truncated: f.cut}
	for _, n := range slices.Sorted(maps.Keys(f.open)) {
		c := f.open[n]
		r.Dropped = append(r.Dropped, s.shown(c))
		if err := s.append(journal.Record{Type: journal.TypeAnswer, Meta: &journal.Answer{Call: n, Failure: &journal.Failure{
			Kind: droppedKind, Name: "Error", Message: "the feed ended before the tool",
		}}}); err != nil {
			return nil, errors.Join(why, err)
		}
	}
	for _, p := range f.queue {
		r.Dropped = append(r.Dropped, Call{Tool: p.Name, Args: p.Args})
	}
	used := journal.Spent{MS: f.ms, Bytes: f.bytes}
	r.Usage = Usage{Feeds: 1, Calls: f.calls, MS: f.ms, Bytes: f.bytes, Refused: f.refused}
	s.feed = nil
	if err := s.append(journal.Record{Type: journal.TypeOutcome, Meta: &journal.Outcome{Feed: f.n, Kind: kind, Hash: hash, Used: used}}); err != nil {
		return nil, errors.Join(why, err)
	}
	s.bare = s.bare && !replays(kind)
	s.count()
	r.Usage.Journal = s.Usage().Journal
	return &Step{Done: true, Result: r, Usage: s.Usage()}, why
}
