package agent

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/internal/journal"
	"github.com/glovebox-dev/glovebox/js"
)

// CallInfo is what a tool can know of its call.
type CallInfo struct {
	Session string // its id
	Number  uint64 // of the session's calls
	Tool    string
	// Key is the same whenever this very call is run again, and for no other: work
	// that must be done once can be keyed by it.
	Key string
}

type callKey struct{}

func withCall(ctx context.Context, c CallInfo) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf tells a tool, by the context that it was given, which call it serves.
func CallOf(ctx context.Context) (CallInfo, bool) {
	c, ok := ctx.Value(callKey{}).(CallInfo)
	return c, ok
}

// admit judges the calls that the guest has made, in their order, until as many
// tools run as may. What is refused is answered at once. An error is the session's.
func (s *Session) admit() (replies []js.Reply, err error) {
	f := s.feed
	for len(f.queue) > 0 && f.active < int(s.pool.limits.InFlight) {
		p := f.queue[0]
		f.queue = f.queue[1:]
		args, err := encodeArgs(p.Args)
		if err == nil {
			err = s.mayCall(p.Name, len(args))
		}
		var run *ToolCall
		if err == nil {
			run, err = s.tools.Admit(p.Name, p.Args)
		}
		if err != nil {
			reply, err := s.refuse(p, args, err)
			if err != nil {
				return nil, err
			}
			replies = append(replies, reply)
			continue
		}
		if err := s.admitted(p, args, run); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// mayCall holds a call against what the feed and the session have left.
func (s *Session) mayCall(tool string, bytes int) error {
	f, l := s.feed, &s.pool.limits
	b := s.catalog.index[tool]
	switch {
	case f.allowed != nil && !f.allowed[tool]:
		return toolFailed(ToolUnknown, tool, "this feed may not call it")
	case b != nil && b.handed() && f.whole:
		return toolFailed(ToolUnapproved, tool, "somebody has to approve or answer each call, and nobody is there")
	case f.calls >= l.FeedCalls:
		return toolFailed(ToolBudget, tool, "all %d calls of the feed are used up", l.FeedCalls)
	case s.Usage().Calls >= l.Calls:
		return toolFailed(ToolBudget, tool, "all %d calls of the session are used up", l.Calls)
	case !s.room(bytes):
		return toolFailed(ToolBudget, tool, "the session has no room for its arguments")
	}
	return nil
}

// admitted puts a call on record and runs it or hands it over.
func (s *Session) admitted(p js.Pending, args []byte, run *ToolCall) error {
	f := s.feed
	record := s.w.NextCall(p.Name)
	b := s.catalog.index[p.Name]
	c := &openCall{n: record.Call, id: p.ID, tool: p.Name, args: p.Args, key: record.Key, run: run}
	c.asked = b != nil && (!f.run || b.handed())
	kind := journal.TypeStart
	if c.asked {
		kind = journal.TypeAsk
	}
	if err := s.append(journal.Record{Type: kind, Meta: record, Blob: args}); err != nil {
		return err
	}
	f.open[c.n] = c
	f.calls++
	f.bytes += int64(len(args))
	s.count()
	if !c.asked {
		s.launch(c)
	}
	return nil
}

// refuse puts a refusal on record and makes the reply of it.
func (s *Session) refuse(p js.Pending, args []byte, why error) (js.Reply, error) {
	f := s.feed
	if f.refused++; s.w.State().Spent.Refused >= s.pool.limits.Refused {
		return js.Reply{}, sessionFailed(SessionBudget, "more than %d calls were refused", s.pool.limits.Refused)
	}
	if !s.room(len(args)) {
		return js.Reply{}, sessionFailed(SessionBudget, "the journal has no room for a refused call")
	}
	failure := s.told(why)
	if err := s.append(journal.Record{Type: journal.TypeRefused, Meta: &journal.Refused{Feed: f.n, Tool: p.Name, Failure: failure}, Blob: args}); err != nil {
		return js.Reply{}, err
	}
	s.count()
	return js.Reply{ID: p.ID, Err: thrown(failure)}, nil
}

// append appends a record; after an error the session is over.
func (s *Session) append(r journal.Record) error {
	if _, err := s.w.Append(r); err != nil {
		over := because(SessionJournal, err, "it cannot be written")
		if errors.Is(err, store.ErrFenced) {
			over = because(SessionLost, err, "nothing of it was done")
		}
		s.finish(over)
		return over
	}
	return nil
}

// encodeArgs writes arguments as a journal keeps them: each with its length.
func encodeArgs(args []js.Value) ([]byte, error) {
	var out []byte
	for _, a := range args {
		data, err := a.MarshalBinary()
		if err != nil {
			return nil, &ToolError{Kind: ToolArguments, Message: "they are too large", Err: err}
		}
		out = append(binary.AppendUvarint(out, uint64(len(data))), data...)
	}
	return out, nil
}
