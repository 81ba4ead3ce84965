//go:build linux

package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
	"github.com/glovebox-dev/glovebox/internal/worker/bootstrap"
)

// unsupported is why there is no state, or none that fits.
func unsupported(format string, args ...any) *wire.Failure {
	return &wire.Failure{Kind: "unsupported", Name: "TypeError", Message: cut(fmt.Sprintf(format, args...), 4<<10)}
}

// state gives what feeds have left, if it is plain data. No guest code runs.
func (s *server) state() error {
	if s.failure = s.alive(); s.failure != nil {
		return nil
	}
	values, err := s.lexicals()
	if err != nil || s.failure != nil {
		return err
	}
	defer values.Release()
	var names []bootstrap.Lexical
	for _, l := range s.feeds.order {
		names = append(names, bootstrap.Lexical(l))
	}
	e, err := s.codec.State(names, values)
	var refused *bootstrap.Refused
	var not *bootstrap.NotPlain
	switch {
	case errors.As(err, &not):
		s.failure = unsupported("%s", not.Text)
		return nil
	case errors.As(err, &refused):
		s.failure = &wire.Failure{Kind: "result_limit", Name: "RangeError", Message: s.beyond(refused, "result_bytes", s.options.Limits.ResultBytes)}
		return nil
	case err != nil:
		return err
	}
	value, err := wire.AppendUTF16(nil, e.Words, e.Heap, e.Bytes)
	if err != nil || uint64(len(value)) > s.options.Limits.ResultBytes {
		s.failure = &wire.Failure{Kind: "result_limit", Name: "RangeError", Message: s.beyond(&bootstrap.Refused{Reason: "size"}, "result_bytes", s.options.Limits.ResultBytes)}
		return nil
	}
	s.value = value
	return nil
}

// alive tells of what is left besides values: something that goes on, or whose
// declarations nobody knows.
func (s *server) alive() *wire.Failure {
	timed, err := s.ask(opTimed)
	if err != nil {
		return unsupported("timers: %v", err)
	}
	defer timed.Release()
	switch left, err := timed.Bool(); {
	case s.feeds.unlisted:
		return unsupported("a script ran that was no feed, or that only the engine could read")
	case len(s.modules.all) > 0:
		return unsupported("modules were loaded")
	case len(s.open)+len(s.pending) > 0:
		return unsupported("a call of a function of the host has no answer yet")
	case err != nil || left:
		return unsupported("a timer is left")
	}
	return nil
}

// lexicals are the values of the lexical names, in one array. One that has none
// yet is a failure.
func (s *server) lexicals() (*jsc.Value, error) {
	var names []string
	for _, l := range s.feeds.order {
		names = append(names, l.Name)
	}
	v, err := s.js.Evaluate("["+strings.Join(names, ",")+"]", hiddenName, 1)
	if err == nil || errors.Is(err, jsc.ErrTerminated) {
		return v, err
	}
	for _, n := range names {
		one, err := s.js.Evaluate("["+n+"]", hiddenName, 1)
		one.Release()
		if err != nil {
			s.failure = unsupported("%s: declared, but without a value, since its feed ended before", n)
			return nil, nil
		}
	}
	return nil, err
}

// rebuild puts a state into a runtime that has run nothing. Nothing of the guest's
// runs: what is declared is declared by names alone.
func (s *server) rebuild(state wire.Value) error {
	if s.begun {
		return fmt.Errorf("%w: a state for a runtime that has run something", errConversation)
	}
	s.begun = true
	tree, err := wire.Decode(state, wire.Budget{})
	if err != nil {
		return fmt.Errorf("%w: %w", errConversation, err)
	}
	entries, bad := entriesOf(tree)
	if bad != "" {
		s.failure = unsupported("%s", bad)
		return nil
	}
	p, err := state.Parts()
	if err != nil {
		return fmt.Errorf("%w: %w", errConversation, err)
	}
	list, err := s.codec.Decode(bootstrap.Encoding{Words: p.Words, Heap: p.Heap, Wide: p.Wide, Bytes: p.Bytes})
	var noRoom *bootstrap.Refused
	if errors.As(err, &noRoom) {
		s.failure = unsupported("%s", noRoom)
		return nil
	}
	if err != nil {
		return err
	}
	defer list.Release()
	if err := s.declare(entries, list); err != nil {
		return err
	}
	nothing := s.js.Undefined()
	defer nothing.Release()
	s.value, s.failure = s.encode(nothing, "result_bytes", s.options.Limits.ResultBytes)
	return nil
}

// entry is one global of a state.
type entry struct{ kind, name string }

// kinds of entries.
var entryKinds = []string{"let", "const", "var", "own"}

// entriesOf are the globals of a state, or what is wrong with it.
func entriesOf(tree any) (all []entry, bad string) {
	list, ok := tree.([]any)
	if !ok {
		return nil, "a state that is none"
	}
	for _, v := range list {
		three, ok := v.([]any)
		if !ok || len(three) != 3 {
			return nil, "a state that is none"
		}
		kind, ok1 := three[0].(string)
		name, ok2 := three[1].(string)
		if !ok1 || !ok2 || !slices.Contains(entryKinds, kind) || kind != "own" && !script.Identifier(name) {
			return nil, fmt.Sprintf("%.100q: no name for a %.10q", name, kind)
		}
		all = append(all, entry{kind, name})
	}
	return all, ""
}

// declare makes the globals: first properties, then what stands before them.
func (s *server) declare(entries []entry, list *jsc.Value) error {
	temporary := "$state$"
	for slices.ContainsFunc(entries, func(e entry) bool { return e.name == temporary }) {
		temporary += "$"
	}
	name := s.js.Text(temporary)
	defer name.Release()
	v, err := s.feedDo(feedRebuild, list, name)
	v.Release()
	if err != nil {
		return err
	}
	var b strings.Builder
	for i, e := range entries {
		if e.kind == "own" {
			continue
		}
		fmt.Fprintf(&b, "%s %s=%s[%d][2];", e.kind, e.name, temporary, i)
		if e.kind != "var" {
			s.feeds.lexical[e.name] = true
			s.feeds.order = append(s.feeds.order, script.Lexical{Name: e.name, Const: e.kind == "const"})
		}
	}
	v, err = s.js.Evaluate(b.String(), hiddenName, 1)
	v.Release()
	if err != nil {
		return err
	}
	v, err = s.feedDo(feedForget, name)
	v.Release()
	return err
}
