package js

import (
	"context"
	"maps"
	"slices"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Pending is a call of a function of [Runtime.BindPaused] that waits for the
// host.
type Pending struct {
	ID   uint64 // grows with each call of the runtime
	Name string
	Args []Value
}

// Reply answers one call. With an Err the guest sees it thrown, as with a [Func].
type Reply struct {
	ID    uint64
	Value any
	Err   error
	// Clock is what the clock says from here on, in ms since 1970; nil leaves it. Like
	// that of a [Feed] it is refused unless Options.Clock is set.
	Clock *int64
}

// Step is how far an evaluation has come: to its end, or to where the guest can
// do nothing more before a call is answered.
type Step struct {
	Done  bool
	Value Value // of the end
	// Calls wait for Resume, in the order in which they were made. At the end they
	// are those that nobody has awaited, and which have been refused.
	Calls []Pending
	Usage Usage // since the evaluation began
}

// paused is a call without an answer.
type paused struct {
	Pending
	size callSize // of its arguments
}

// Start begins an evaluation that pauses where it can only go on with answers of
// the host. While it has paused nothing else runs; no limit of time counts, and
// the worker is kept. The error is as [Runtime.Eval]'s.
func (r *Runtime) Start(ctx context.Context, s Script) (*Step, error) {
	m, err := r.message(s)
	if err != nil {
		return nil, err
	}
	cleared, err := r.p.clear(ctx, &s, m)
	if err != nil {
		return nil, err
	}
	if err := r.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { r.turn <- struct{}{} }()
	r.cleared = cleared
	m.Waves = true
	r.listens = s.Console
	r.begin(m)
	return r.step(ctx, false, m)
}

// Resume answers calls, one or more of those that wait, and goes on until the
// next step. A reply to no such call, or one that cannot cross, is refused with a
// *api.FieldError or *ConvertError, and nothing has happened.
func (r *Runtime) Resume(ctx context.Context, replies ...Reply) (*Step, error) {
	if err := r.take(ctx, true); err != nil {
		return nil, err
	}
	defer func() { r.turn <- struct{}{} }()
	messages, err := r.replies(replies)
	if err != nil {
		return nil, err
	}
	for _, a := range replies {
		r.forgive(a.ID)
	}
	r.answers.Add(uint64(len(messages)))
	return r.step(ctx, true, messages...)
}

// ResumeInTurn is Resume, but the guest gets each answer when it can do nothing more
// with those before it: what it does between two of them, and what it is refused for
// want of room, does not depend on how many came at once. Answers that are left when
// the evaluation ends reach nobody.
func (r *Runtime) ResumeInTurn(ctx context.Context, replies ...Reply) (*Step, error) {
	if err := r.take(ctx, true); err != nil {
		return nil, err
	}
	defer func() { r.turn <- struct{}{} }()
	messages, err := r.replies(replies)
	if err != nil {
		return nil, err
	}
	var answer wire.Message
	for i, m := range messages {
		r.forgive(replies[i].ID)
		r.answers.Add(1)
		if answer, err = r.converse(ctx, true, m); err != nil {
			return nil, err
		}
		if _, waits := answer.(*wire.Waiting); !waits {
			break
		}
	}
	return r.stepOf(answer)
}

// replies makes the messages of what answers calls.
func (r *Runtime) replies(replies []Reply) ([]wire.Message, error) {
	bad := func(id uint64, why string) error {
		return &api.FieldError{Field: "replies.id", Value: id, Reason: why}
	}
	if len(replies) == 0 {
		return nil, &api.FieldError{Field: "replies", Value: 0, Reason: "must answer a call that waits"}
	}
	var messages []wire.Message
	seen := map[uint64]bool{}
	for _, a := range replies {
		if r.paused[a.ID] == nil {
			return nil, bad(a.ID, "no such call waits")
		}
		if seen[a.ID] {
			return nil, bad(a.ID, "must be answered once")
		}
		seen[a.ID] = true
		m := &wire.Answer{CallID: a.ID}
		var err error
		if m.Clock, err = r.p.clockTo("replies.clock", a.Clock); err != nil {
			return nil, err
		}
		if a.Err != nil {
			m.Failure = failureOf(a.Err)
		} else if m.Value, m.JSON, err = encodeForEngine("reply", a.Value, r.p.limits.budget()); err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// step converses until the end of the evaluation or its next pause.
func (r *Runtime) step(ctx context.Context, on bool, messages ...wire.Message) (*Step, error) {
	answer, err := r.converse(ctx, on, messages...)
	if err != nil {
		return nil, err
	}
	return r.stepOf(answer)
}

// stepOf is the step that ends with a message of the worker.
func (r *Runtime) stepOf(answer wire.Message) (*Step, error) {
	s := &Step{Calls: r.pending(), Usage: r.usage(answer)}
	if _, waits := answer.(*wire.Waiting); waits {
		return s, nil
	}
	r.waves, r.listens, s.Done = false, nil, true
	for _, c := range s.Calls {
		r.forgive(c.ID)
		r.answers.Add(1)
		if err := r.send(&wire.Answer{CallID: c.ID, Failure: &wire.Failure{Kind: "refused", Name: "Error", Message: "nobody awaited the call"}}); err != nil {
			return nil, r.end(r.p.limits.passed(WriteStall))
		}
	}
	var err error
	if s.Value, err = r.outcome(answer); err != nil {
		return nil, err
	}
	return s, nil
}

// waits is what comes of a worker that says that it waits: true if it waits for
// calls of the step alone.
func (r *Runtime) waits(m *wire.Waiting) (bool, *Error) {
	r.mu.Lock()
	running := r.open > int64(len(r.paused)) // first: an answer is counted before its call is one less
	r.mu.Unlock()
	sent := r.answers.Load()
	switch {
	case !r.waves || m.EvalID != r.eval || m.Answers > sent:
		return false, failed(Protocol, "the worker waits for nothing")
	case running || m.Answers < sent:
		return false, nil
	case len(r.paused) == 0:
		return false, failed(Protocol, "the worker waits for no call")
	}
	return true, nil
}

// reads tells whether the worker, which has said this, is about to read the next of
// the answers that are left: it waits, and has had all others; or the evaluation is
// over.
func (r *Runtime) reads(m wire.Message, left int) bool {
	switch m := m.(type) {
	case *wire.Done:
		return true
	case *wire.Waiting:
		return m.Answers+uint64(left) == r.answers.Load()
	}
	return false
}

// pause keeps a call until it is answered. Its time is not the host's: it may
// well be answered after the step.
func (r *Runtime) pause(p *Pending, size callSize) {
	if r.paused == nil {
		r.paused = map[uint64]*paused{}
	}
	r.paused[p.ID] = &paused{*p, size}
}

// forgive drops a call that is answered.
func (r *Runtime) forgive(id uint64) {
	r.release(r.paused[id].size)
	r.taking()
	delete(r.paused, id)
}

// pending lists the calls that wait, in their order.
func (r *Runtime) pending() []Pending {
	var all []Pending
	for _, id := range slices.Sorted(maps.Keys(r.paused)) {
		all = append(all, r.paused[id].Pending)
	}
	return all
}
