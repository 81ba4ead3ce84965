//go:build linux

package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
	"github.com/glovebox-dev/glovebox/internal/worker/bootstrap"
)

// What Go asks feed.js for.
const (
	feedInputs  = iota + 1 // an object: define its properties as variables; a name that is not to be had
	feedNames              // an object: its names in one text
	feedMark               // name: a value of ours that the variable has now
	feedRestore            // name: what it had
	feedRebuild            // list, name: define what is a property, and the list as one
	feedForget             // name: delete it
)

// feeds is what a worker knows of the global scope besides its properties.
type feeds struct {
	world    *jsc.Value       // of world.js: sets clock and seed
	dispatch *jsc.Value       // of feed.js
	lexical  map[string]bool  // let, const and class of the global scope
	order    []script.Lexical // the same
	unlisted bool             // something ran whose declarations are not in lexical
}

// bootFeeds evaluates feed.js, as the last one of the scripts.
func (s *server) bootFeeds() (err error) {
	s.feeds.lexical = map[string]bool{}
	s.feeds.dispatch, err = s.script("feed.js", nil)
	return err
}

// look notes what the guest's world is, for the day on which it is asked what of
// it has changed. No guest code has run.
func (s *server) look() error {
	ours, err := s.ask(opOurs)
	if err != nil {
		return err
	}
	defer ours.Release()
	return s.codec.Capture(ours)
}

// feedDo calls feed.js; the arguments stay the caller's.
func (s *server) feedDo(op int, args ...*jsc.Value) (*jsc.Value, error) {
	return s.js.Call(s.feeds.dispatch, nil, append([]*jsc.Value{s.ops[op]}, args...)...)
}

// feed evaluates a feed. It tells, as launch does, whether that was all.
func (s *server) feed(m *wire.Eval) (over bool, err error) {
	refused := false
	if m.Feed.Given() || m.Feed.Seed != nil || m.Feed.Clock != nil {
		err = s.unwatched(func() (err error) { refused, err = s.given(m.Feed); return err })
	}
	if err != nil || refused {
		return refused, err
	}
	f, err := s.feedSource(m.Source)
	if err != nil {
		return false, err
	}
	if f.Call { // at the top this is the global object, whatever the guest has done to its names
		f.Source += "(this)"
	}
	v, err := s.js.Evaluate(f.Source, m.Name, 1)
	if err = s.parsed(f.Source, err); err != nil {
		return false, s.declared(f.Lexical, err)
	}
	defer v.Release()
	if err := s.declared(f.Lexical, nil); err != nil {
		return false, err
	}
	return s.came(v)
}

// came takes what a script has come to, and tells whether that is all.
func (s *server) came(v *jsc.Value) (over bool, err error) {
	if v.Type() == jsc.Object || s.strayed || s.imports() {
		s.strayed = false
		_, err = s.ask(opSettle, v)
		return false, err
	}
	s.value, s.failure = s.encode(v, "result_bytes", s.options.Limits.ResultBytes) // no promise, and nothing to report
	return true, nil
}

// given sets inputs, seed and clock. It tells whether the inputs were refused,
// and then nothing is set.
func (s *server) given(f *wire.Feed) (refused bool, err error) {
	if f.Given() {
		if refused, err = s.inputs(f); err != nil || refused {
			return refused, err
		}
	}
	if f.Seed == nil {
		return false, s.moveClock(f.Clock)
	}
	if err := s.frozen(f.Clock); err != nil {
		return false, err
	}
	args := []*jsc.Value{s.ms(f.Clock)}
	for i := range 8 {
		args = append(args, s.js.Number(float64(binary.LittleEndian.Uint32(f.Seed[4*i:]))))
	}
	return false, s.setWorld(args)
}

// moveClock moves a clock that stands; nil is nowhere.
func (s *server) moveClock(ms *uint64) error {
	if ms == nil {
		return nil
	}
	if err := s.frozen(ms); err != nil {
		return err
	}
	return s.setWorld([]*jsc.Value{s.ms(ms)})
}

// frozen checks that a clock that is to be moved stands.
func (s *server) frozen(ms *uint64) error {
	if ms != nil && !s.options.Frozen {
		return fmt.Errorf("%w: a clock that runs is moved", errConversation)
	}
	return nil
}

func (s *server) ms(ms *uint64) *jsc.Value {
	if ms == nil {
		return s.js.Undefined()
	}
	return s.js.Number(float64(*ms))
}

func (s *server) setWorld(args []*jsc.Value) error {
	v, err := s.js.Call(s.feeds.world, nil, args...)
	v.Release()
	for _, a := range args {
		a.Release()
	}
	return err
}

// inputs defines variables. It tells whether one was refused.
func (s *server) inputs(f *wire.Feed) (refused bool, err error) {
	object, err := s.answered(&wire.Answer{JSON: f.JSON, Value: f.Inputs})
	var noRoom *bootstrap.Refused
	switch {
	case errors.As(err, &noRoom):
		return false, refuse("RangeError", "inputs: %s", noRoom)
	case err != nil:
		return false, err
	}
	defer object.Release()
	if object.Type() != jsc.Object {
		return false, fmt.Errorf("%w: inputs that are no object", errConversation)
	}
	name, err := s.shadowed(object)
	if err != nil {
		return false, err
	}
	if name == "" {
		v, err := s.feedDo(feedInputs, object)
		if err != nil {
			return false, err
		}
		defer v.Release()
		if v.Type() != jsc.String {
			return false, nil
		}
		if name, err = v.Text(); err != nil {
			return false, err
		}
	}
	s.failure = &wire.Failure{Kind: "bind_failed", Name: "Error", Message: cut("the guest has "+name, 1<<10)}
	return true, nil
}

// shadowed returns the first name of an object that a let, const or class of the
// global scope has, which stands before the global object. "" is for none.
func (s *server) shadowed(object *jsc.Value) (string, error) {
	if len(s.feeds.lexical) == 0 && !s.feeds.unlisted {
		return "", nil
	}
	v, err := s.feedDo(feedNames, object)
	if err != nil {
		return "", err
	}
	defer v.Release()
	names, err := v.Text()
	if err != nil {
		return "", err
	}
	for name := range strings.SplitSeq(names, ",") {
		hidden := s.feeds.lexical[name]
		if !hidden && s.feeds.unlisted {
			if hidden, err = s.isLexical(name); err != nil {
				return "", err
			}
		}
		if hidden {
			return name, nil
		}
	}
	return "", nil
}

// isLexical finds out whether an identifier means a let, const or class of the
// global scope: whether a property of the global object does not show.
func (s *server) isLexical(name string) (bool, error) {
	text := s.js.Text(name)
	defer text.Release()
	marker, err := s.feedDo(feedMark, text)
	if err != nil {
		return false, err
	}
	defer marker.Release()
	if marker.Type() != jsc.Object { // the global object has it in a way that is the guest's own
		return false, nil
	}
	err = s.means(name, marker)
	v, err2 := s.feedDo(feedRestore, text)
	v.Release()
	if errors.Is(err, jsc.ErrTerminated) {
		return false, err
	}
	return err != nil, err2
}

// declared notes the names that a feed has declared. With the error that it ended
// with it may be that it has declared none of them: the engine tells.
func (s *server) declared(names []script.Lexical, err error) error {
	if errors.As(err, new(unparsed)) {
		return err
	}
	for _, n := range names {
		if s.feeds.lexical[n.Name] {
			continue
		}
		if err != nil {
			is, failed := s.isLexical(n.Name)
			if failed != nil { // as good as no time left
				s.feeds.unlisted = true
				return err
			}
			if !is {
				continue
			}
		}
		s.feeds.lexical[n.Name] = true
		s.feeds.order = append(s.feeds.order, n)
	}
	return err
}

// plainFeed tells a source without a word that a feed is rewritten for, or
// declares by: it need not be read.
func plainFeed(source string) bool {
	for _, word := range [...]string{"await", "return", "import", "let", "const", "class"} {
		if strings.Contains(source, word) {
			return false
		}
	}
	return true
}

// feedSource makes a script of a feed. What is none is judged by the engine's own
// parser as well, since it is the one that a guest cannot reach and that takes all
// of the language: what it takes runs as it is.
func (s *server) feedSource(source string) (script.Script, error) {
	if plainFeed(source) {
		return script.Script{Source: source}, nil
	}
	importer := ""
	if s.imports() {
		importer = importerName
	}
	f, err := script.Feed(source, importer, script.Options{Stop: s.late})
	var syntax *script.Error
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, script.ErrStopped):
		return f, jsc.ErrTerminated
	case errors.As(err, &syntax) && !s.js.Parses(source):
		return f, refuse("SyntaxError", "%s", syntax.Message)
	case syntax == nil:
		return f, err
	}
	s.feeds.unlisted = true
	return script.Script{Source: source}, nil
}
