package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/js"
)

// span is the guest's own time of a feed. A replay begins it anew on the runtime:
// what that takes is not the guest's doing.
type span struct {
	before int64         // ms, of the feed before it was replayed
	base   time.Duration // on the runtime, when the replay was over
	left   time.Duration // what the feed still has, where the runtime's limit is that of a replay
	bound  bool          // left holds
}

// ms is what a feed has used by a time of its runtime.
func (s *span) ms(guest time.Duration) int64 { return s.before + ceilMS(max(guest-s.base, 0)) }

// replayed notes that a feed goes on behind a replay, which took so long. One that
// this session has run before goes on with the time that it had left; of one that
// was loaded nobody knows, and it has the time of a feed.
func (s *Session) replayed(f *feed, guest time.Duration, loaded bool) {
	l := &s.pool.limits
	limit := min(l.FeedMS, l.MS-s.w.State().Spent.MS)
	f.time = span{before: f.ms, base: guest, left: time.Duration(limit-f.ms) * time.Millisecond, bound: true}
	if loaded {
		f.time.before, f.time.left = min(ceilMS(guest), l.FeedMS), time.Duration(max(limit, 1))*time.Millisecond
	}
}

// errFeedTime is the cause of a context that ends a feed by its time.
var errFeedTime = errors.New("the time of the feed is over")

// deliver gives the guest answers, one after the other, as a replay does: so that
// what it can do between two of them does not depend on how many came at once.
func (s *Session) deliver(ctx context.Context, replies []js.Reply) (*js.Step, error) {
	t := &s.feed.time
	if !t.bound {
		return s.rt.ResumeInTurn(ctx, replies...)
	}
	begun := s.rt.LastUsage().Guest
	bounded, cancel := context.WithTimeoutCause(ctx, t.left, errFeedTime)
	defer cancel()
	step, err := s.rt.ResumeInTurn(bounded, replies...)
	t.left -= s.rt.LastUsage().Guest - begun
	if err != nil && ctx.Err() == nil && context.Cause(bounded) == errFeedTime {
		return nil, &js.Error{Kind: js.Timeout, Message: fmt.Sprintf("it took longer than limits.feed_ms, %d ms", s.pool.limits.FeedMS), Err: err}
	}
	return step, err
}
