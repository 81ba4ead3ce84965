package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/journal"
	"github.com/glovebox-dev/glovebox/js"
)

func newSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// expand makes the seed of a runtime of that of a session, behind so many feeds.
func expand(seed, feeds uint64) *[32]byte {
	b := binary.LittleEndian.AppendUint64([]byte("glovebox seed 1 "), seed)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(b, feeds))
	return &sum
}

// LoadOptions say what a dump must be, and how it goes on.
type LoadOptions struct {
	SessionOptions
	// Head, if it is not nil, is a Dump's: the journal must end there, or one record
	// beyond, which a crash leaves. Count is that of the records, for who keeps no
	// more. With neither, nothing tells an older journal from the newest.
	Head  []byte
	Count *uint64
	// Strict refuses a journal that another release, engine or platform has made.
	// Otherwise the replay decides.
	Strict bool
}

// Load makes a session of what Dump returned, here or elsewhere: every feed is run
// again on a fresh worker, tools are not: what they answered is on record. A replay
// that comes to something else is refused with [SessionDiverged], and the number of
// the record. If the session was in a feed, Step says what it waits for; calls of
// which nobody knows whether the tool did its work are InDoubt there.
//
// Whatever is not this owner's, of these tools and settings, under one of these
// keys, or was changed, is refused with [SessionJournal] before anything starts.
func (p *Pool) Load(ctx context.Context, data []byte, o LoadOptions) (*Session, error) {
	s, err := p.session(o.SessionOptions, &keeper{})
	if err != nil {
		return nil, err
	}
	if err := s.load(slices.Clone(data), o); err != nil {
		return nil, err
	}
	if err := s.awake(ctx); err != nil {
		return nil, err
	}
	if err := s.frontier(ctx); err != nil {
		s.drop()
		return nil, err
	}
	return s, s.enrol()
}

// load judges a journal.
func (s *Session) load(data []byte, o LoadOptions) error {
	refused := s.foreign
	lo := journal.LoadOptions{Keys: s.pool.ring, Owner: s.owner, Settings: s.pool.settings(s.catalog), Counter: o.Count}
	if o.Head != nil {
		head, err := journal.ParseHead(o.Head, s.pool.ring, s.owner)
		if err != nil {
			return refused(err)
		}
		lo.Head = &head
	}
	if o.Strict {
		made := s.pool.journalMade()
		lo.Made = &made
	}
	var list []journal.Record
	lo.Each = func(r journal.Record) error { list = append(list, r); return nil }
	l, err := journal.Load(data, lo)
	if err != nil {
		return refused(err)
	}
	s.keep.bytes = data[:l.Good]
	if s.w, err = journal.Resume(s.keep, l, s.pool.ring, s.owner); err != nil {
		return refused(err)
	}
	s.count()
	s.id, s.records, s.bare = l.Header.Session, list, bare(list)
	return s.restoreTools(l)
}

// foreign is the refusal of a journal, with what to look at where it may be a mistake
// rather than damage.
func (s *Session) foreign(err error) error {
	e := because(SessionJournal, err, "it is refused")
	switch {
	case errors.Is(err, journal.Mismatch):
		e.Message += "; Tools, Modules, StrictEval, ShowErrors and Seal must be those that it was begun with (with Strict, release, engine and platform too)"
	case errors.Is(err, journal.Forged) && s.pool.o.Keys == nil:
		e.Message += "; without Options.Keys a pool has a random key, and loads what it has made itself alone"
	}
	return e
}

// restoreTools gives the tools what the journal says was spent.
func (s *Session) restoreTools(l *journal.Loaded) error {
	state := ToolState{Catalog: s.catalog.hash, Calls: maps.Clone(l.Tools)}
	delete(state.Calls, searchName)
	delete(state.Calls, describeName)
	if l.Checkpoint != nil {
		state.Discovered = l.Checkpoint.Discovered
	}
	tools, err := s.catalog.RestoreToolSet(state)
	if err != nil {
		return because(SessionJournal, err, "it is refused")
	}
	s.tools = tools
	return nil
}

// awake makes sure that the guest is there: a session that has given its worker
// up, or lost it, is rebuilt from its journal.
func (s *Session) awake(ctx context.Context) error {
	if s.rt != nil && s.rt.Alive() {
		return nil
	}
	s.drop()
	rt, err := s.worker(ctx)
	if err != nil {
		return err
	}
	r := &replay{s: s, rt: rt, ctx: ctx}
	if err = r.all(); err != nil {
		_ = rt.Close()
		return err
	}
	s.rt = rt
	return nil
}

// replay runs the feeds of a journal again.
type replay struct {
	s    *Session
	rt   *js.Runtime
	ctx  context.Context
	list []journal.Record
	at   int // index of the record that is looked at

	queue   []js.Pending          // calls that no record was found for yet
	last    uint64                // of the runtime
	ids     map[uint64]js.Pending // those of calls by their number
	replies []js.Reply
	step    *js.Step
	err     error // that the feed came to
	over    bool  // the replay
	ended   bool  // the feed had, though its outcome is not on record: calls of it were dropped
	calls   int64
	bytes   int64 // of sources, arguments and answers of the feed
}

// diverged says that the record that is looked at is not what the guest does now.
func (r *replay) diverged() error {
	return sessionFailed(SessionDiverged, "record %d is not what the replay comes to", r.number())
}

// number is that of the record that is looked at, from 1 on.
func (r *replay) number() uint64 { return r.s.w.State().Header.Base + uint64(r.at) + 1 }

// all replays everything that is not void. What it says of an open feed it leaves
// in the session.
func (r *replay) all() error {
	if err := r.read(); err != nil {
		return err
	}
	var err error
	void := r.voids()
	for r.at < len(r.list) {
		m, ok := r.list[r.at].Meta.(*journal.Feed)
		c, first := r.list[r.at].Meta.(*journal.Checkpoint)
		switch {
		case first:
			err = r.checkpoint(c, r.list[r.at].Blob)
			r.at++
		case ok && !void[m.Feed]:
			err = r.feed(m)
		case ok:
			err = r.skip()
		default:
			r.at++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read takes the records: those that a load has just judged, or out of the bytes.
func (r *replay) read() error {
	s := r.s
	if r.list, s.records = s.records, nil; r.list != nil {
		return nil
	}
	_, err := journal.Load(s.keep.bytes, journal.LoadOptions{
		Keys: s.pool.ring, Owner: s.owner, Settings: s.pool.settings(s.catalog),
		Each: func(rec journal.Record) error { r.list = append(r.list, rec); return nil },
	})
	if err != nil {
		return because(SessionJournal, err, "it is refused")
	}
	return nil
}

// bare tells of a journal whether all its feeds are void. An open one may be yet.
func bare(list []journal.Record) bool {
	return !slices.ContainsFunc(list, func(r journal.Record) bool {
		m, ok := r.Meta.(*journal.Outcome)
		return ok && replays(m.Kind)
	})
}

// voids are the feeds that left nothing in the guest.
func (r *replay) voids() map[uint64]bool {
	void := map[uint64]bool{}
	for _, rec := range r.list {
		if m, ok := rec.Meta.(*journal.Outcome); ok && !replays(m.Kind) {
			void[m.Feed] = true
		}
	}
	return void
}

// skip steps over a feed; what it has discovered stays.
func (r *replay) skip() error {
	calls := map[uint64]string{}
	for r.at++; r.at < len(r.list); r.at++ {
		rec := r.list[r.at]
		switch m := rec.Meta.(type) {
		case *journal.Feed:
			return nil
		case *journal.Call:
			if m.Tool == describeName {
				args, err := decodeArgs(rec.Blob)
				if err != nil {
					return r.diverged()
				}
				calls[m.Call] = text(args)
			}
		case *journal.Answer:
			r.discovered(calls[m.Call], m)
		}
	}
	return nil
}

func text(args []js.Value) string {
	var name string
	if len(args) == 1 {
		_ = args[0].Decode(&name) // "" is no tool
	}
	return name
}

// discovered notes that a description was given.
func (r *replay) discovered(tool string, m *journal.Answer) {
	if tool != "" && m.Failure == nil {
		_, _ = r.s.tools.Describe(tool) // an unknown one changes nothing
	}
}

// feed runs one feed again.
func (r *replay) feed(m *journal.Feed) error {
	rec := r.list[r.at]
	inputs, err := inputsOf(rec.Blob[m.Source:])
	if err != nil {
		return r.diverged()
	}
	r.ended = false
	r.queue, r.ids, r.replies, r.calls, r.bytes = nil, map[uint64]js.Pending{}, nil, 0, int64(len(rec.Blob))
	script := feedScript(m.Feed, string(rec.Blob[:m.Source]), inputs, r.s.seed(m.Feed, m.Seed), m.Clock)
	if script, err = r.s.pool.js.Admit(r.s.known(r.ctx), script); errors.As(err, new(*gate.Denied)) {
		return err // no divergence: nothing has run
	}
	fresh := r.s.newFeed(m.Feed)
	script.Console = func(level js.Level, text string) { r.says(fresh, level, text) }
	r.took(r.rt.Start(r.s.known(r.ctx), script))
	for r.at++; r.at < len(r.list); r.at++ {
		over, err := r.record(&r.list[r.at])
		if err != nil {
			return err
		}
		if over {
			r.at++
			return nil
		}
	}
	return r.open(m, fresh)
}

// says takes console text of a feed. What was shown when it ran first is not shown
// again; of one that was loaded nothing was.
func (r *replay) says(fresh *feed, level js.Level, text string) {
	switch f := r.s.feed; {
	case f == nil:
		r.s.print(fresh, level, text)
	case r.over:
		r.s.print(f, level, text)
	}
}

// took takes a step of the runtime.
func (r *replay) took(step *js.Step, err error) {
	r.step, r.err = step, err
	if step == nil {
		return
	}
	for _, c := range step.Calls {
		if c.ID > r.last {
			r.queue = append(r.queue, c)
			r.last = c.ID
		}
	}
}

// flush gives the guest what was answered so far.
func (r *replay) flush() {
	if len(r.replies) == 0 || r.err != nil || r.step.Done {
		return
	}
	replies := r.replies
	r.replies = nil
	r.took(r.rt.ResumeInTurn(r.ctx, replies...))
}

// next is the next call of the guest, which must be this one.
func (r *replay) next(tool string, args []byte) (js.Pending, error) {
	if len(r.queue) == 0 {
		r.flush()
	}
	if len(r.queue) == 0 || r.err != nil {
		return js.Pending{}, r.stopped()
	}
	p := r.queue[0]
	made, err := encodeArgs(p.Args)
	if err != nil || p.Name != tool || !bytes.Equal(made, args) {
		return js.Pending{}, r.diverged()
	}
	r.queue = r.queue[1:]
	return p, nil
}

// stopped is why a replay cannot go on: it came to an end that is not on record,
// or something kept it from going on that is none of the guest's doing.
func (r *replay) stopped() error {
	var failure *js.Error
	if errors.As(r.err, &failure) && !slices.Contains(repeatable, failure.Kind) && r.ctx.Err() != nil {
		return canceled(r.ctx, "while it was replayed")
	}
	if failure != nil && !slices.Contains(repeatable, failure.Kind) {
		return &SessionError{Kind: SessionDiverged, Message: fmt.Sprintf("record %d: the replay ended by %s", r.number(), failure.Kind), Err: failure}
	}
	return r.diverged()
}

// record holds one record of an open feed against the guest. It tells whether the
// feed is over.
func (r *replay) record(rec *journal.Record) (over bool, err error) {
	switch m := rec.Meta.(type) {
	case *journal.Call:
		r.calls++
		r.bytes += int64(len(rec.Blob))
		r.ids[m.Call], err = r.next(m.Tool, rec.Blob)
		return false, err
	case *journal.Refused:
		p, err := r.next(m.Tool, rec.Blob)
		r.replies = append(r.replies, js.Reply{ID: p.ID, Err: thrown(m.Failure)})
		return false, err
	case *journal.Answer:
		return false, r.answer(m, rec.Blob)
	case *journal.Outcome:
		return true, r.outcome(m)
	case *journal.Run, *journal.Budget:
		return false, nil
	}
	return false, r.diverged()
}

// answer notes an answer for the guest.
func (r *replay) answer(m *journal.Answer, blob []byte) error {
	r.bytes += int64(len(blob))
	p, open := r.ids[m.Call]
	if !open {
		return nil // of a call of an earlier feed, which is over
	}
	reply := js.Reply{ID: p.ID, Clock: &m.Clock}
	if m.Clock == 0 {
		reply.Clock = nil
	}
	if m.Failure != nil {
		if m.Failure.Kind == droppedKind { // the guest was not told
			delete(r.ids, m.Call)
			r.ended = true
			return nil
		}
		reply.Err = thrown(m.Failure)
	} else {
		var v js.Value
		if err := v.UnmarshalBinary(blob); err != nil {
			return r.diverged()
		}
		reply.Value = v
	}
	if p.Name == describeName {
		r.discovered(text(p.Args), m)
	}
	delete(r.ids, m.Call)
	r.replies = append(r.replies, reply)
	return nil
}

// refused tells whether the runtime did not take what is on record: the guest has
// come to nothing then.
func (r *replay) refused() bool { return r.err != nil && !errors.As(r.err, new(*js.Error)) }

// outcome holds the end of a feed against what the guest came to.
func (r *replay) outcome(m *journal.Outcome) error {
	r.flush()
	kind := outcomeDone
	var failure *js.Error
	if errors.As(r.err, &failure) {
		kind = string(failure.Kind)
	}
	switch {
	case r.refused(), r.err == nil && !r.step.Done, kind != m.Kind:
		return r.stopped()
	}
	var value js.Value
	if r.err == nil {
		value = r.step.Value
	}
	if hashOf(value, r.err) != m.Hash {
		return r.diverged()
	}
	return nil
}

// open leaves a feed that has no outcome to the session: it goes on from here.
func (r *replay) open(m *journal.Feed, fresh *feed) error {
	r.flush()
	r.over = true
	s := r.s
	f := s.feed
	if r.refused() {
		return r.stopped()
	}
	if f == nil { // loaded, not woken up
		f = fresh
		if f.restrict(s.catalog, m.Tools) != nil {
			return r.diverged()
		}
		f.calls, f.bytes, f.later = r.calls, r.bytes, m.Run
		f.resumed, f.resumedErr, f.ended = r.step, r.err, r.ended
		s.feed = f
		s.replayed(f, r.rt.LastUsage().Guest, true)
	} else if r.err != nil || r.step.Done {
		return r.stopped() // it had paused
	} else {
		s.replayed(f, r.rt.LastUsage().Guest, false)
	}
	f.last, f.queue = r.last, r.queue
	state := s.w.State()
	for n, p := range r.ids {
		c := f.open[n]
		if c == nil {
			c = &openCall{n: n, tool: p.Name, args: p.Args, asked: state.Asked(n), doubt: !state.Asked(n), key: state.Key(n)}
			f.open[n] = c
		}
		c.id = p.ID
	}
	return nil
}

// frontier goes on from where a loaded session stopped: calls that the guest has
// made and that are on record nowhere are so now, and wait; a feed that has come to
// its end gets its outcome.
func (s *Session) frontier(ctx context.Context) error {
	f := s.feed
	if f == nil {
		return nil
	}
	step, err := f.resumed, f.resumedErr
	f.resumed, f.resumedErr = nil, nil
	if err != nil && ctx.Err() != nil {
		return canceled(ctx, "while it was replayed")
	}
	var done *Step
	if f.ended && err == nil && !step.Done { // it was void: nobody answers calls that were dropped
		done, err = s.void(sessionFailed(SessionCanceled, "the program ended while the feed did"))
	} else {
		done, err = s.drive(ctx, step, err)
	}
	f.run = f.later // a load runs no tool; who resumes it has them run as before
	if done != nil {
		done.Err = err
		s.setStep(done)
		return nil // what the guest came to is in the step
	}
	return err
}

// decodeArgs reads what encodeArgs wrote.
func decodeArgs(data []byte) (args []js.Value, err error) {
	for len(data) > 0 {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(len(data)-size) {
			return nil, errors.New("arguments that are none")
		}
		var v js.Value
		if err := v.UnmarshalBinary(data[size : size+int(n)]); err != nil {
			return nil, err
		}
		args = append(args, v)
		data = data[size+int(n):]
	}
	return args, nil
}
