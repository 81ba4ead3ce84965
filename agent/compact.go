package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/glovebox-dev/glovebox/internal/journal"
	"github.com/glovebox-dev/glovebox/js"
)

// Compact makes a long journal short: in the place of all that was run stands what
// it has left in the guest, if that is plain data (see [js.Runtime.Snapshot]; what
// is not refuses, and nothing has happened). Budgets, calls, discoveries, seed and
// clock are the host's own. The state is taken only if a fresh worker that was
// rebuilt from it comes to the same bytes, and the session goes on there, with new
// random numbers. Between feeds alone; where it waits for Resume it is refused.
//
// Who keeps Dump's heads or counts must take new ones: the older journal does not
// load beside them.
func (s *Session) Compact(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	ctx, cancel := s.running(ctx)
	defer cancel()
	if s.feed != nil {
		return sessionFailed(SessionPaused, "feed %d waits for Resume", s.feed.n)
	}
	if s.w.State().Feed == 0 {
		return nil // there is nothing to make shorter
	}
	if err := s.awake(ctx); err != nil {
		return err
	}
	state, err := s.rt.Snapshot(ctx)
	if err != nil {
		return err
	}
	data, err := state.MarshalBinary()
	if err != nil {
		return err
	}
	s.drop() // one worker at a time; what fails from here on is mended by a replay
	rt, err := s.worker(ctx)
	if err != nil {
		return err
	}
	if err := rebuild(ctx, rt, data); err != nil {
		_ = rt.Close()
		return err
	}
	if err := s.shorten(data); err != nil {
		_ = rt.Close()
		return err
	}
	s.rt, s.bare = rt, true
	s.count()
	return nil
}

// rebuild makes a guest of a state, and sees that it is the same.
func rebuild(ctx context.Context, rt *js.Runtime, data []byte) error {
	var state js.Value
	if err := state.UnmarshalBinary(data); err != nil {
		return because(SessionDiverged, err, "the state is none")
	}
	if err := rt.Rebuild(ctx, state); err != nil {
		return err
	}
	made, err := rt.Snapshot(ctx)
	if err != nil {
		return err
	}
	again, err := made.MarshalBinary()
	if err != nil || !bytes.Equal(again, data) {
		return sessionFailed(SessionDiverged, "a guest that was rebuilt from the state comes to another one")
	}
	return nil
}

// shorten writes the journal that begins with the state.
func (s *Session) shorten(data []byte) error {
	p := s.pool
	settings := p.settings(s.catalog)
	l, err := journal.Load(s.keep.bytes, journal.LoadOptions{Keys: p.ring, Owner: s.owner, Settings: settings})
	if err != nil {
		return because(SessionJournal, err, "it is refused")
	}
	short := &keeper{}
	sum := sha256.Sum256(data)
	w, err := journal.Compact(short, l, journal.Begin{Keys: p.ring, Owner: s.owner, Settings: settings, Made: p.journalMade()},
		data, hex.EncodeToString(sum[:]), s.tools.State().Discovered)
	if err != nil {
		return because(SessionJournal, err, "it cannot be made shorter")
	}
	if lease := s.keep.lease; lease != nil {
		head, err := s.keep.heads.Marshal(w.Head())
		if err != nil {
			return because(SessionJournal, err, "its head")
		}
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		if err := lease.Replace(ctx, short.bytes, head); err != nil {
			over := because(SessionLost, err, "the shorter journal was not stored")
			s.finish(over)
			return over
		}
		short.lease, short.heads = lease, s.keep.heads
	}
	s.keep, s.w = short, w
	return nil
}

// Compacted is how many records the journal's checkpoint stands for, 0 if it has
// all of them: those are no longer there to be replayed.
func (s *Session) Compacted() uint64 { return s.w.State().Header.Base }

// checkpoint begins a replay with a state in the place of feeds.
func (r *replay) checkpoint(c *journal.Checkpoint, data []byte) error {
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != c.Hash {
		return r.diverged()
	}
	if err := rebuild(r.ctx, r.rt, data); err != nil {
		if r.ctx.Err() != nil {
			return canceled(r.ctx, "while it was replayed")
		}
		return r.diverged()
	}
	return nil
}
