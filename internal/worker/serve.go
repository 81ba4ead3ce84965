//go:build linux

package worker

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/wire"
	"github.com/glovebox-dev/glovebox/internal/worker/bootstrap"
)

//go:embed scripts/*.js
var sources embed.FS

// errEnd is the end of the conversation.
var errEnd = io.EOF

// server is the state of a worker. One goroutine has it.
type server struct {
	in    *wire.Reader
	out   *wire.Writer
	js    *jsc.Context
	begin time.Time
	steps []wire.Step

	options  *wire.Open
	codec    *bootstrap.Codec
	dispatch *jsc.Value // what Go asks the script for
	ops      [opsEnd]*jsc.Value
	plain    wire.Plain

	bindings []uint64 // tokens by the number that the script knows them by
	gone     map[uint64]bool
	value    wire.Value // what the evaluation came to, or why it came to nothing
	failure  *wire.Failure

	eval     uint64 // that runs; 0 between them
	lastCall uint64
	open     map[uint64]uint64 // asynchronous calls without an answer: bytes of their arguments
	held     uint64            // the sum of them
	answers  uint64            // that the guest has had of such calls
	strayed  bool              // a promise was rejected with nobody to handle it
	waves    bool              // the host wants to hear when the guest waits
	pending  []*wire.Answer    // that came while nothing could take them
	used     wire.Usage
	console  uint64 // bytes in this evaluation
	limit    limit

	modules   modules
	feeds     feeds
	begun     bool   // something was evaluated, or rebuilt
	importing uint64 // number of the Import that is waited for
	imported  *wire.Imported
}

// limit is the soft time limit of an evaluation: the guest's own time.
type limit struct {
	end    time.Time
	every  time.Duration // the engine asks
	fired  bool          // once and for all
	paused time.Time     // since when the host is waited for
}

// open waits for the host's first two messages and makes the guest's world.
func (s *server) openWorld() error {
	m, err := s.in.Read()
	if err != nil {
		return err
	}
	if _, ok := m.(*wire.HostHello); !ok {
		return fmt.Errorf("message %T in place of a hello", m)
	}
	if m, err = s.in.Read(); err != nil {
		return err
	}
	o, ok := m.(*wire.Open)
	if !ok {
		return fmt.Errorf("message %T in place of open", m)
	}
	s.options, s.gone, s.open = o, map[uint64]bool{}, map[uint64]uint64{}
	return s.boot()
}

// serve answers the host until it hangs up or says that it is over.
func (s *server) serve() error {
	for {
		m, err := s.in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *wire.Eval:
			err = s.evaluate(m)
		case *wire.Bind:
			err = s.bind(m)
		case *wire.Revoke:
			s.gone[m.Token] = true
		case *wire.Answer:
			s.pending = append(s.pending, keep(m))
		case *wire.Close:
			return nil
		default:
			err = fmt.Errorf("message %T out of turn", m)
		}
		if err != nil {
			return err
		}
	}
}

// bind has the script define a function, and sees that its name means it: a
// guest's own let or const of that name would stand before the global object.
func (s *server) bind(m *wire.Bind) error {
	index := len(s.bindings)
	s.bindings = append(s.bindings, m.Token)
	s.failure = nil
	first, err := s.ask(opBind, s.js.Number(float64(index)), s.js.Text(m.Name), s.js.Bool(m.Async))
	if err == nil && s.failure == nil && first.Type() == jsc.Object {
		err = s.means(m.Name, first)
	}
	if err != nil && s.failure == nil {
		s.failure = &wire.Failure{Kind: "bind_failed", Name: "Error", Message: "the guest has something of that name"}
	}
	return s.out.Write(&wire.Bound{Token: m.Token, Failure: s.failure})
}

// means checks that the first part of a path, which the host has checked to be an
// identifier, names an object.
func (s *server) means(path string, object *jsc.Value) error {
	name, _, _ := strings.Cut(path, ".")
	v, err := s.js.Evaluate(name, hiddenName, 1)
	if err != nil {
		return err
	}
	defer v.Release()
	same, err := s.ask(opSame, v, object)
	if err != nil {
		return err
	}
	defer same.Release()
	if yes, err := same.Bool(); err != nil || !yes {
		return errors.New("shadowed")
	}
	return nil
}

// evaluate runs one script to its end: until its promise, if it is one, has
// settled, or nothing is left that could settle it.
func (s *server) evaluate(m *wire.Eval) error {
	begin := time.Now()
	s.eval, s.used, s.console, s.failure, s.value = m.ID, wire.Usage{}, 0, nil, nil
	s.waves = m.Waves
	defer func() { s.eval = 0 }()
	ms := m.TimeoutMS
	if ms == 0 {
		ms = s.options.TimeoutMS
	}
	s.arm(time.Duration(ms) * time.Millisecond)
	done := &wire.Done{ID: m.ID}
	err := s.run(m)
	s.js.SetTimeLimit(0, nil)
	var own *guestError
	switch {
	case errors.Is(err, errConversation):
		return err
	case errors.Is(err, jsc.ErrTerminated), s.limit.fired: // or somebody has taken its end for an exception
		done.Failure = &wire.Failure{Kind: "timeout", Message: fmt.Sprintf("it took longer than timeout_ms, %d ms", ms)}
	case errors.As(err, &own):
		done.Failure = refusedBy(own)
	case err != nil:
		done.Failure = s.explain(err)
	default:
		done.Value, done.Failure = s.value, s.failure
	}
	s.used.US = uint64(time.Since(begin).Microseconds())
	done.Usage = s.used
	err = s.out.Write(done)
	var tooMuch *wire.LimitError
	if errors.As(err, &tooMuch) {
		done.Value, done.Failure = nil, &wire.Failure{Kind: "result_limit", Message: "the result is too large"}
		err = s.out.Write(done)
	}
	return err
}

// errConversation is wrapped by what ends the conversation itself.
var errConversation = errors.New("conversation")

// run evaluates and pumps. What the guest came to is in parts or failure.
func (s *server) run(m *wire.Eval) error {
	switch m.Kind {
	case wire.EvalState:
		return s.state()
	case wire.EvalRebuild:
		return s.rebuild(m.State)
	}
	s.begun = true
	if err := s.settlePending(); err != nil {
		return err
	}
	main, over, err := s.launch(m)
	if err != nil || over {
		return err
	}
	for {
		if err := s.pump(); err != nil {
			return err
		}
		if main != nil && main.over {
			return s.exports(main)
		}
		if main == nil && !s.strayed && (s.value != nil || s.failure != nil) {
			return nil // it has settled, and there is nothing to report
		}
		state, err := s.ask(opState)
		if err != nil {
			return err
		}
		settled, err := state.Bool()
		state.Release()
		if err != nil || settled && main == nil {
			return err
		}
		if over, err := s.proceed(); err != nil || over {
			return err
		}
	}
}

// proceed does what can bring a promise on: the next timer, or an answer of the
// host's. It tells whether nothing can.
func (s *server) proceed() (over bool, err error) {
	if len(s.open) == 0 {
		more, err := s.ask(opTick)
		if err != nil {
			return false, err
		}
		ran, err := more.Bool()
		more.Release()
		if err != nil || ran {
			return false, err
		}
		s.failure = &wire.Failure{Kind: "never_settles", Name: "Error", Message: "the promise has nothing left that could settle it"}
		return true, nil
	}
	if s.waves && len(s.pending) == 0 {
		if err := s.out.Write(&wire.Waiting{EvalID: s.eval, Answers: s.answers}); err != nil {
			return false, fmt.Errorf("%w: %w", errConversation, err)
		}
	}
	answer, err := s.wait(0)
	if err != nil {
		return false, err
	}
	return false, s.settle(answer)
}

// launch evaluates a script, or begins a module, which runs later. It tells
// whether that was all.
func (s *server) launch(m *wire.Eval) (main *evaluation, over bool, err error) {
	switch m.Kind {
	case wire.EvalModule:
		main, err = s.beginModule(m.Name, m.Source)
		return main, false, err
	case wire.EvalFeed:
		over, err = s.feed(m)
		return nil, over, err
	case wire.EvalScript:
	default:
		return nil, false, fmt.Errorf("%w: an evaluation of kind %d", errConversation, m.Kind)
	}
	source, err := s.rewritten(m.Source)
	if err != nil {
		return nil, false, err
	}
	s.feeds.unlisted = true
	v, err := s.js.Evaluate(source, m.Name, 1)
	if err != nil {
		return nil, false, s.parsed(m.Source, err)
	}
	defer v.Release()
	over, err = s.came(v)
	return nil, over, err
}

// settlePending gives the guest answers that came between evaluations.
func (s *server) settlePending() error {
	for len(s.pending) > 0 {
		a := s.pending[0]
		s.pending = s.pending[1:]
		if err := s.settle(a); err != nil {
			return err
		}
	}
	return nil
}

// settle gives the guest the answer of an asynchronous call.
func (s *server) settle(a *wire.Answer) error {
	size, open := s.open[a.CallID]
	if !open {
		return fmt.Errorf("%w: an answer to no call", errConversation)
	}
	delete(s.open, a.CallID)
	s.answers++
	s.held -= size
	id := s.js.Number(float64(a.CallID))
	if err := s.moveClock(a.Clock); err != nil {
		return err
	}
	args, err := s.answerArgs(a)
	if err != nil {
		return err
	}
	_, err = s.ask(opAnswer, append([]*jsc.Value{id}, args...)...)
	return err
}

// wait reads messages until an answer has come: that of the call with this id,
// or of any asynchronous one for 0. The guest's time stands still.
func (s *server) wait(id uint64) (*wire.Answer, error) {
	if id == 0 && len(s.pending) > 0 {
		a := s.pending[0]
		s.pending = s.pending[1:]
		return a, nil
	}
	s.limit.paused = time.Now()
	defer func() {
		s.limit.end = s.limit.end.Add(time.Since(s.limit.paused))
		s.limit.paused = time.Time{}
	}()
	for {
		m, err := s.in.Read()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errConversation, err)
		}
		switch m := m.(type) {
		case *wire.Answer:
			if m.CallID == id || id == 0 {
				return m, nil
			}
			if _, open := s.open[m.CallID]; !open {
				return nil, fmt.Errorf("%w: an answer to no call", errConversation)
			}
			s.pending = append(s.pending, keep(m))
		case *wire.Imported:
			if id == 0 || s.importing != id || m.CallID != id {
				return nil, fmt.Errorf("%w: an answer to no import", errConversation)
			}
			s.imported = m
			return nil, nil
		case *wire.Revoke:
			s.gone[m.Token] = true
		default:
			return nil, fmt.Errorf("%w: message %T out of turn", errConversation, m)
		}
	}
}

// keep copies an answer whose value is part of the reader's buffer.
func keep(m *wire.Answer) *wire.Answer {
	c := *m
	c.Value = append(wire.Value(nil), m.Value...)
	return &c
}

// arm sets the soft time limit. The engine asks now and then, in terms of the
// processor's time, whether it is over. Not often: it ends itself where it is about
// to ask again before it has done with the last time (VMTraps), which on a machine
// with more workers than processors is only a matter of how soon.
func (s *server) arm(d time.Duration) {
	s.limit = limit{end: time.Now().Add(d), every: d / min(max(d/leastAsked, 1), 4)}
	s.watch()
}

// leastAsked is the least time between two questions, unless the limit is shorter.
const leastAsked = 250 * time.Millisecond

// watch has the engine ask. It wakes a thread each time that the engine is
// entered, so what runs no guest code does without, see unwatched.
func (s *server) watch() {
	s.js.SetTimeLimit(s.limit.every, func() bool {
		s.limit.fired = s.limit.fired || !time.Now().Before(s.limit.end)
		return s.limit.fired
	})
}

// unwatched does what takes a bounded time and runs no guest code.
func (s *server) unwatched(do func() error) error {
	s.js.SetTimeLimit(0, nil)
	defer s.watch()
	return do()
}

// unparsed is the exception of a source that is no script.
type unparsed struct{ error }

// Unwrap returns the exception.
func (u unparsed) Unwrap() error { return u.error }

// parsed tells a source that is no script from one that threw, by the engine's
// own parser: whatever a guest throws, it does not look like the former.
func (s *server) parsed(source string, err error) error {
	var thrown *jsc.Exception
	if errors.As(err, &thrown) && !s.js.Parses(source) {
		return unparsed{err}
	}
	return err
}

// explain makes a failure of what the engine reports.
func (s *server) explain(err error) *wire.Failure {
	var thrown *jsc.Exception
	if !errors.As(err, &thrown) {
		return &wire.Failure{Kind: "thrown", Name: "Error", Message: err.Error()}
	}
	defer thrown.Value.Release()
	s.failure = nil
	noProgram := s.js.Bool(errors.As(err, new(unparsed)))
	defer noProgram.Release()
	if _, err := s.ask(opExplain, thrown.Value, noProgram); err != nil || s.failure == nil {
		return &wire.Failure{Kind: "thrown", Name: "Error", Message: "an error that cannot be shown"}
	}
	if errors.As(err, new(unparsed)) {
		s.failure.Kind = "syntax_error"
	}
	return s.failure
}
