package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/journal"
	"github.com/glovebox-dev/glovebox/js"
)

// FeedOptions say what one feed gets.
type FeedOptions struct {
	// Inputs are global variables that are set before the source runs. Names are
	// identifiers that neither the guest's world nor the host has; values cross by the
	// rules of [js.Value].
	Inputs map[string]any
	// Tools are those of the session that this feed may call; nil is all of them.
	Tools []string
	// Print gets console text, one call at a time; without it Result.Output has it. It
	// must not use the session.
	Print func(level js.Level, text string)
	// Syntax, if it is not empty, is what the source is written in; it is made
	// JavaScript first, see [js.Pool.Transform]. Factory and Fragment are for JSX.
	Syntax            js.Syntax
	Factory, Fragment string
	// RunTools has [Session.Start] run the functions of tools as Feed does; only calls
	// of tools with Approve wait for Resume then.
	RunTools bool
}

// Result is what a feed came to.
type Result struct {
	// Value is what the source returns, or else of its last expression.
	Value js.Value
	// Output is what the guest wrote to its console, a line for each call, unless Print
	// got it. It is cut at Limits.PrintBytes, with a line that says [truncated].
	Output string
	// Truncated says that Output was cut.
	Truncated bool
	// Dropped are calls that the feed did not wait for. One with a Number was begun:
	// its result was dropped, and whether the tool did its work is not known. One
	// without was made in the last moment, and never begun.
	Dropped []Call
	// Usage is what this feed took.
	Usage Usage
}

// feed is one that has no outcome yet.
type feed struct {
	n       uint64
	run     bool            // functions of tools are run, not handed over
	whole   bool            // nobody is there to resume it
	allowed map[string]bool // tools of this feed; nil: all
	print   func(js.Level, string)
	output  strings.Builder
	cut     bool

	queue   []js.Pending         // calls that nobody has judged, in their order
	last    uint64               // the last call of the runtime that was queued
	open    map[uint64]*openCall // by their number in the journal
	active  int                  // tools that run
	done    chan finished
	work    *work // of tools that run
	calls   int64
	refused int64
	// Of a feed that was loaded: how far its replay came.
	ended      bool // and was about to get its outcome
	resumed    *js.Step
	later      bool // its tools are run once it is resumed
	resumedErr error
	ms         int64
	time       span
	bytes      int64
}

func (s *Session) newFeed(n uint64) *feed {
	return &feed{n: n, open: map[uint64]*openCall{}, done: make(chan finished, s.pool.limits.InFlight)}
}

// Feed runs a piece of source to its end; tools are called as the guest asks. The
// error is a *js.Error for what the guest did, a *SessionError for what kept the
// session from it, or an *api.FieldError. Where the guest ran there is a Result
// beside the error.
//
// A feed that fails by itself (it threw, is no JavaScript) has run as far as it
// came. One that ends by what is not the same each time, such as its time, memory,
// context or a tool that panicked, is void: the next feed finds the guest as it was
// before, on another worker. What it has spent stays spent.
func (s *Session) Feed(ctx context.Context, code string, o FeedOptions) (*Result, error) {
	o.RunTools = true
	step, err := s.start(ctx, code, o, true)
	if step == nil {
		return nil, err
	}
	return step.Result, err
}

// Start is Feed up to where the guest can only go on with answers of the host,
// which Resume gives. A paused session keeps its worker for Limits.MaxPauseMS.
func (s *Session) Start(ctx context.Context, code string, o FeedOptions) (*Step, error) {
	return s.start(ctx, code, o, false)
}

func (s *Session) start(ctx context.Context, code string, o FeedOptions, whole bool) (*Step, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	ctx, cancel := s.running(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return nil, canceled(ctx, "before it began")
	}
	if s.feed != nil {
		return nil, sessionFailed(SessionPaused, "feed %d waits for Resume", s.feed.n)
	}
	ready, err := s.ready(ctx, code, &o)
	if err != nil {
		return nil, err
	}
	s.feed = ready.feed
	s.feed.run, s.feed.whole = o.RunTools, whole
	record := journal.Record{Type: journal.TypeFeed, Blob: ready.blob,
		Meta: &journal.Feed{Feed: s.feed.n, Seed: ready.seed, Clock: ready.clock, Source: len(ready.code), Tools: o.Tools, Run: o.RunTools}}
	if err := s.append(record); err != nil {
		s.feed = nil
		return nil, err
	}
	return s.guarded(func() (*Step, error) {
		step, err := s.rt.Start(s.known(ctx), ready.script)
		return s.drive(ctx, step, err)
	})
}

// guarded makes a feed void through which a function of the host's, such as Print,
// has panicked or ended its goroutine: whoever recovers has a session that goes on.
func (s *Session) guarded(do func() (*Step, error)) (step *Step, err error) {
	whole := false
	defer func() {
		if !whole && s.feed != nil {
			_, _ = s.void(sessionFailed(SessionTool, "a function of the host panicked"))
		}
	}()
	step, err = do()
	whole = true
	return step, err
}

// readied is a feed that may begin.
type readied struct {
	feed   *feed
	code   string
	blob   []byte
	inputs map[string]any
	seed   uint64 // 0: not the first one that leaves something
	clock  int64
	script js.Script // judged
}

// ready looks at all that could keep a feed from beginning: until it returns
// nothing has happened.
func (s *Session) ready(ctx context.Context, code string, o *FeedOptions) (*readied, error) {
	r := &readied{feed: s.newFeed(s.w.State().Feed + 1), code: code}
	if err := r.feed.restrict(s.catalog, o.Tools); err != nil {
		return nil, err
	}
	r.feed.print = o.Print
	if err := s.affords(0); err != nil { // before anything is worked for it
		return nil, err
	}
	if o.Syntax != "" {
		made, err := s.pool.js.Transform(ctx, js.Source{Name: feedName(r.feed.n), Code: code, Syntax: o.Syntax, Factory: o.Factory, Fragment: o.Fragment})
		if err != nil {
			return nil, err
		}
		r.code = made
	}
	if !utf8.ValidString(r.code) || len(r.code) > maxFeedSource {
		return nil, fieldError("code", len(r.code), "must be UTF-8 of at most %d bytes", maxFeedSource)
	}
	if err := r.take(o.Inputs); err != nil {
		return nil, err
	}
	if err := s.affords(int64(len(r.blob))); err != nil {
		return nil, err
	}
	r.clock = max(time.Now().UnixMilli(), s.w.State().Clock)
	if c := s.w.State().Checkpoint; s.bare && (c == nil || r.feed.n > c.Feed+1) {
		r.seed = newSeed()
	}
	r.feed.bytes = int64(len(r.blob))
	r.script = feedScript(r.feed.n, r.code, r.inputs, s.seed(r.feed.n, r.seed), r.clock)
	r.script.TimeoutMS, r.script.Console = s.limit(), s.console
	var err error
	if r.script, err = s.pool.js.Admit(s.known(ctx), r.script); err != nil {
		return nil, err
	}
	if err := s.awake(ctx); err != nil {
		return nil, err
	}
	err = s.rt.Check(r.script)
	if bad := (*api.FieldError)(nil); errors.As(err, &bad) && bad.Field == "feed.inputs" { // its name in package js
		err = &api.FieldError{Field: "inputs", Value: bad.Value, Reason: bad.Reason}
	}
	return r, err
}

// maxFeedSource is the length of a source in bytes: a frame holds it and its
// inputs.
const maxFeedSource = 8 << 20

// maxFeedTools is the length of a list of tools in bytes: it is on record.
const maxFeedTools = 32 << 10

// restrict takes the list of tools of a feed.
func (f *feed) restrict(c *Catalog, names []string) error {
	if names == nil {
		return nil
	}
	f.allowed = map[string]bool{searchName: c.lazy, describeName: c.lazy}
	length := 0
	for _, name := range names {
		if length += len(name) + 3; length > maxFeedTools {
			return fieldError("tools", len(names), "their names must be at most %d bytes together", maxFeedTools)
		}
		if c.index[name] == nil {
			return fieldError("tools", shown(name), "is no tool of the session")
		}
		f.allowed[name] = true
	}
	return nil
}

// take makes the blob of a feed: its source, and its inputs behind that.
func (r *readied) take(inputs map[string]any) error {
	r.blob = []byte(r.code)
	if len(inputs) == 0 {
		return nil
	}
	v, err := js.ValueOf(inputs)
	if err != nil {
		return fieldError("inputs", nil, "%v", err)
	}
	encoded, err := v.MarshalBinary()
	if err != nil {
		return fieldError("inputs", nil, "%v", err)
	}
	r.blob = append(r.blob, encoded...)
	r.inputs, err = inputsOf(encoded)
	return err
}

// inputsOf reads inputs back: a replay and the first run get them the same way.
func inputsOf(encoded []byte) (map[string]any, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	var v js.Value
	if err := v.UnmarshalBinary(encoded); err != nil {
		return nil, err
	}
	inputs, ok := v.Any().(map[string]any)
	if !ok {
		return nil, errors.New("inputs that are no object")
	}
	return inputs, nil
}

// affords tells whether the session has anything left for one more feed.
func (s *Session) affords(bytes int64) error {
	l, u := &s.pool.limits, s.Usage()
	for _, b := range []struct {
		name             string
		used, more, most int64
	}{{"feeds", u.Feeds, 1, l.Feeds}, {"ms", u.MS, 1, l.MS}, {"bytes", u.Bytes, bytes, l.Bytes}, {"journal_bytes", u.Journal, bytes + journalRoom, l.JournalBytes}} {
		if b.used+b.more > b.most {
			return sessionFailed(SessionBudget, "limits.%s, which is %d, has no room for this feed: %d are used up", b.name, b.most, b.used)
		}
	}
	return nil
}

// journalRoom is kept for the end of what has begun.
const journalRoom = 8 << 10

// feedScript is a feed as the runtime gets it, now and in each replay.
func feedScript(n uint64, code string, inputs map[string]any, seed *[32]byte, clock int64) js.Script {
	return js.Script{Name: feedName(n), Code: code, Feed: &js.Feed{Inputs: inputs, Seed: seed, Clock: &clock}}
}

// seed is what begins the random numbers at a feed: its own, which the first feed of
// a guest has, and one made of the session's behind a checkpoint. nil goes on.
func (s *Session) seed(feed, own uint64) *[32]byte {
	c := s.w.State().Checkpoint
	switch {
	case own != 0:
		return expand(own, feed-1)
	case c != nil && feed == c.Feed+1:
		return expand(c.Seed, c.Feed)
	}
	return nil
}

// known tells gates whose session it is.
func (s *Session) known(ctx context.Context) context.Context {
	return gate.WithSession(ctx, string(s.owner), s.ID())
}

// feedName is what stacks call a feed: a guest can read it, so it must be the same
// in each replay.
func feedName(n uint64) string { return fmt.Sprintf("feed-%d", n) }

// limit is the time that the feed may take.
func (s *Session) limit() int64 {
	l := &s.pool.limits
	return max(min(l.FeedMS, l.MS-s.Usage().MS), 1)
}

// console collects what the guest writes, or hands it on.
func (s *Session) console(level js.Level, text string) { s.print(s.feed, level, text) }

func (s *Session) print(f *feed, level js.Level, text string) {
	if f.print != nil {
		f.print(level, text)
		return
	}
	left := int(s.pool.limits.PrintBytes) - f.output.Len()
	switch {
	case f.cut:
	case len(text)+1 > left:
		f.cut = true
		f.output.WriteString(cutText(text, max(left-1, 0)))
		f.output.WriteString("\n[truncated]\n")
	default:
		f.output.WriteString(text)
		f.output.WriteByte('\n')
	}
}

// drive goes on from a step of the runtime until the feed is over, or can only go
// on with answers that nobody has.
func (s *Session) drive(ctx context.Context, step *js.Step, err error) (*Step, error) {
	f := s.feed
	defer f.atWork(ctx, time.Duration(s.pool.limits.FeedWaitMS)*time.Millisecond)()
	for {
		if err != nil {
			f.ms = max(f.ms, f.time.ms(s.rt.LastUsage().Guest))
			return s.failed(ctx, err)
		}
		f.take(step)
		s.count()
		if step.Done {
			return s.succeeded(step)
		}
		replies, err2 := s.admit()
		if err2 != nil {
			return s.void(err2)
		}
		if len(replies) == 0 && f.active > 0 {
			if replies, err2 = s.await(ctx); err2 != nil {
				return s.void(err2)
			}
		}
		if len(replies) == 0 {
			return s.pause(), nil
		}
		step, err = s.deliver(ctx, replies)
	}
}

// take notes what a step of the runtime says.
func (f *feed) take(step *js.Step) {
	for _, c := range step.Calls {
		if c.ID > f.last {
			f.queue = append(f.queue, c)
			f.last = c.ID
		}
	}
	f.ms = f.time.ms(step.Usage.Guest)
}

func ceilMS(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// pause hands over the calls that wait.
func (s *Session) pause() *Step {
	step := &Step{Usage: s.Usage()}
	for _, n := range slices.Sorted(maps.Keys(s.feed.open)) {
		step.Calls = append(step.Calls, s.shown(s.feed.open[n]))
	}
	return s.setStep(step)
}
