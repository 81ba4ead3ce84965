package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/journal"
	"github.com/glovebox-dev/glovebox/js"
)

// Step is how far a feed has come: to its end, or to calls that wait for
// [Session.Resume].
type Step struct {
	Done   bool
	Result *Result // of the end
	// Err is what a feed failed by that had come to its end when its session was
	// loaded. Start and Resume return it instead.
	Err error
	// Calls wait, in the order in which they were made.
	Calls []Call
	Usage Usage // of the session so far
}

// Call is one call of a tool.
type Call struct {
	// ID is what Resume is told. It is good for this session value alone: one that was
	// loaded has other ids for the same calls.
	ID     string
	Number uint64 // of the session's calls, from 1 on; the same wherever it is loaded
	Tool   string
	Args   []js.Value
	// Key is the same in each replay, and for no other call: a tool that is given it
	// can do its work once.
	Key string
	// InDoubt says that the tool was started and nobody knows whether it did its work:
	// the program ended before its answer was on record. It is never run again unless
	// a Reply says so.
	InDoubt bool
	// Approval is what somebody approves who approves this call, see
	// [Catalog.ApprovalHash]. It is the same wherever the session is loaded.
	Approval string
}

// Reply answers one call: with Err if it is not nil, by running the tool's own
// function if Run says so, and with Value otherwise.
type Reply struct {
	Call  string // its ID
	Value any
	Err   error // thrown in the guest, see Options.ShowErrors
	Run   bool
	// Approval, if it is not empty, must be that of the call. A tool with Approve is
	// not run without.
	Approval string
}

// openCall is one that is on record and has no answer.
type openCall struct {
	n     uint64
	id    uint64 // the runtime's
	tool  string
	args  []js.Value
	key   string
	run   *ToolCall // nil after a replay
	asked bool      // it was handed over
	doubt bool
}

// finished is what came of a tool.
type finished struct {
	c     *openCall
	value js.Value
	err   error
}

func (s *Session) callID(c *openCall) string { return fmt.Sprintf("%d.%s", c.n, s.epoch) }

// shown is a call as the host sees it.
func (s *Session) shown(c *openCall) Call {
	out := Call{ID: s.callID(c), Number: c.n, Tool: c.tool, Args: c.args, Key: c.key, InDoubt: c.doubt}
	out.Approval, _ = s.catalog.ApprovalHash(s.ID(), c.n, c.tool, c.args) // they have crossed: they can be written
	return out
}

// Resume answers calls, one or more of those that wait, and goes on as Start does.
// Replies to no such call, of another session value, or with what cannot cross are
// refused, and nothing has happened.
func (s *Session) Resume(ctx context.Context, replies ...Reply) (*Step, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	ctx, cancel := s.running(ctx)
	defer cancel()
	if s.feed == nil {
		return nil, sessionFailed(SessionNotAsked, "no feed waits for Resume")
	}
	if ctx.Err() != nil {
		return nil, canceled(ctx, "before it went on")
	}
	answers, runs, err := s.judged(replies)
	if err != nil {
		return nil, err
	}
	if err := s.awake(ctx); err != nil {
		return nil, err
	}
	s.setStep(nil)
	return s.guarded(func() (*Step, error) { return s.answerAll(ctx, answers, runs) })
}

// answerAll puts answers on record and goes on.
func (s *Session) answerAll(ctx context.Context, answers []finished, runs []*openCall) (*Step, error) {
	var sent []js.Reply
	for _, a := range answers {
		reply, err := s.answer(a)
		if err != nil {
			return s.void(err)
		}
		sent = append(sent, reply)
	}
	return s.resume(ctx, sent, runs)
}

// resume starts the tools that are to run, and goes on.
func (s *Session) resume(ctx context.Context, sent []js.Reply, runs []*openCall) (*Step, error) {
	f := s.feed
	if len(runs) == 0 {
		step, err := s.deliver(ctx, sent)
		return s.drive(ctx, step, err)
	}
	defer f.atWork(ctx, time.Duration(s.pool.limits.FeedWaitMS)*time.Millisecond)()
	for len(runs) > 0 || f.active > 0 {
		for len(runs) > 0 && f.active < int(s.pool.limits.InFlight) {
			c := runs[0]
			runs = runs[1:]
			if c.asked && !c.doubt {
				if err := s.append(journal.Record{Type: journal.TypeRun, Meta: &journal.Run{Call: c.n}}); err != nil {
					return s.void(err)
				}
			}
			s.launch(c)
		}
		more, err := s.await(ctx)
		if err != nil {
			return s.void(err)
		}
		sent = append(sent, more...)
	}
	step, err := s.deliver(ctx, sent)
	return s.drive(ctx, step, err)
}

// judged looks at all replies before anything is done with one.
func (s *Session) judged(replies []Reply) (answers []finished, runs []*openCall, err error) {
	bad := func(r *Reply, format string, args ...any) error {
		return fieldError("replies.call", shown(r.Call), format, args...)
	}
	if len(replies) == 0 {
		return nil, nil, &api.FieldError{Field: "replies", Value: 0, Reason: "must answer a call that waits"}
	}
	byID, seen := map[string]*openCall{}, map[string]bool{}
	for _, c := range s.feed.open {
		byID[s.callID(c)] = c
	}
	for i := range replies {
		r := &replies[i]
		c := byID[r.Call]
		switch {
		case c == nil:
			return nil, nil, bad(r, "no such call waits")
		case seen[r.Call]:
			return nil, nil, bad(r, "must be answered once")
		case r.Approval != "" && r.Approval != s.shown(c).Approval:
			return nil, nil, bad(r, "what was approved is another call")
		}
		seen[r.Call] = true
		if r.Run {
			if err := s.runnable(c, r); err != nil {
				return nil, nil, err
			}
			runs = append(runs, c)
			continue
		}
		a := finished{c: c, err: r.Err}
		if r.Err == nil {
			if a.value, err = js.ValueOf(r.Value); err != nil {
				return nil, nil, err
			}
		}
		answers = append(answers, a)
	}
	return answers, runs, nil
}

// runnable makes ready what Run runs.
func (s *Session) runnable(c *openCall, r *Reply) error {
	b := s.catalog.index[c.tool]
	switch {
	case b == nil || b.Func == nil:
		return fieldError("replies.run", c.tool, "has no function to run")
	case r.Value != nil || r.Err != nil:
		return fieldError("replies.run", true, "cannot be said beside a value or an error")
	case b.Approve && r.Approval == "":
		return fieldError("replies.approval", "", "must be that of the call: the tool is not run without")
	}
	run, err := b.ready(c.args)
	if err != nil {
		return err
	}
	c.run = run
	return nil
}

// work is what tools of a feed run under, from one answer of the host to the next.
type work struct {
	caller context.Context
	most   time.Duration
	// Made when the first tool runs: most feeds and steps have none.
	ctx    context.Context
	cancel context.CancelFunc
	late   *time.Timer
}

// atWork begins a stretch of work of the tools, and returns what ends it.
func (f *feed) atWork(ctx context.Context, most time.Duration) (end func()) {
	w := &work{caller: ctx, most: most}
	f.work = w
	return func() {
		if w.cancel != nil {
			w.cancel()
			w.late.Stop()
		}
	}
}

// begin is done before the first tool runs.
func (w *work) begin() {
	if w.cancel == nil {
		w.ctx, w.cancel = context.WithCancel(w.caller)
		w.late = time.NewTimer(w.most)
	}
}

// launch runs a tool.
func (s *Session) launch(c *openCall) {
	f := s.feed
	f.active++
	f.work.begin()
	ctx := withCall(f.work.ctx, CallInfo{Session: s.ID(), Number: c.n, Tool: c.tool, Key: c.key})
	c.run.begin(ctx, func(value js.Value, err error) { f.done <- finished{c, value, err} }) // there is room for all that run
}

// await waits for tools, one at least, and answers them.
func (s *Session) await(ctx context.Context) (replies []js.Reply, err error) {
	f := s.feed
	var first finished
	select {
	case first = <-f.done:
	case <-ctx.Done():
		return nil, canceled(ctx, "while a tool ran")
	case <-f.work.late.C:
		return nil, sessionFailed(SessionWait, "the tools of the feed took more than %d ms", s.pool.limits.FeedWaitMS)
	}
	for {
		f.active--
		reply, err := s.answer(first)
		if err != nil {
			return nil, err
		}
		if own, ok := first.err.(*ToolError); ok && own.Kind == ToolPanicked { // errors.Is would ask the tool's own error
			return nil, &SessionError{Kind: SessionTool, Message: first.c.tool + " panicked", Err: first.err}
		}
		replies = append(replies, reply)
		select {
		case first = <-f.done:
		default:
			return replies, nil
		}
	}
}

// answer puts what came of a call on record, and makes the reply of it.
func (s *Session) answer(a finished) (js.Reply, error) {
	f := s.feed
	record := &journal.Answer{Call: a.c.n, Clock: max(time.Now().UnixMilli(), s.w.State().Clock)}
	reply := js.Reply{ID: a.c.id, Value: a.value, Clock: &record.Clock}
	var blob []byte
	if a.err == nil {
		var err error
		if blob, err = a.value.MarshalBinary(); err != nil {
			a.err = toolFailed(ToolResult, a.c.tool, "its result is too large to cross")
		} else if !s.room(len(blob)) {
			a.err = toolFailed(ToolBudget, a.c.tool, "the session has no room for its result")
		}
	}
	if a.err != nil {
		blob, record.Failure = nil, s.told(a.err)
		reply.Value, reply.Err = nil, thrown(record.Failure)
	}
	f.bytes += int64(len(blob))
	if err := s.append(journal.Record{Type: journal.TypeAnswer, Meta: record, Blob: blob}); err != nil {
		return js.Reply{}, err
	}
	delete(f.open, a.c.n)
	return reply, nil
}

// room tells whether a value still fits the session and its journal.
func (s *Session) room(n int) bool {
	l := &s.pool.limits
	return s.Usage().Bytes+int64(n) <= l.Bytes && int64(s.w.Size()+n+journalRoom) <= l.JournalBytes
}

// told is what the guest is told of an error.
func (s *Session) told(err error) (f *journal.Failure) {
	kind := "host_error"
	defer func() {
		if recover() != nil { // in a method of the error, which is the tool's own
			f = &journal.Failure{Kind: kind, Name: "Error", Message: "the function of the host failed"}
		}
	}()
	var own *ToolError
	if errors.As(err, &own) {
		kind = string(own.Kind)
	}
	var open *js.GuestError
	switch {
	case errors.As(err, &open) && open != nil:
		return &journal.Failure{Kind: kind, Name: orError(cutText(open.Name, 100)), Message: cutText(open.Message, maxTold)}
	case s.pool.o.ShowErrors:
		return &journal.Failure{Kind: kind, Name: "Error", Message: cutText(err.Error(), maxTold)}
	}
	return &journal.Failure{Kind: kind, Name: "Error", Message: "the function of the host failed"}
}

const maxTold = 8 << 10

func orError(name string) string {
	if name == "" {
		return "Error"
	}
	return name
}

// thrown is the error of a failure, now and in each replay.
func thrown(f *journal.Failure) error { return &js.GuestError{Name: f.Name, Message: f.Message} }
