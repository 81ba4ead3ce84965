package js

import (
	"context"
	"fmt"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv/liar/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// What a worker says of waiting when it does not, of answers that it had none of,
// and calls of a step that is over, end the runtime; an honest step goes through.
//
// proves part of T-11
func TestLiarStepsAsRoot(t *testing.T) {
	l := openLiars(t, Options{Limits: Limits{TimeoutMS: 1000}})
	waits := func(id, answers int) script.Step { return frame(wire.TypeWaiting, id, answers) }
	step := func(rt *Runtime) error { _, err := rt.Start(context.Background(), Script{Code: "1"}); return err }
	paused := func(do func(*Runtime, *Step) error) func(*Runtime) error {
		return func(rt *Runtime) error {
			if err := rt.BindPaused(context.Background(), "f"); err != nil {
				return fmt.Errorf("bind: %v", err)
			}
			s, err := rt.Start(context.Background(), Script{Code: "1"})
			if err != nil || do == nil {
				return err
			}
			return do(rt, s)
		}
	}
	resumes := func(rt *Runtime, s *Step) error {
		if len(s.Calls) != 1 || s.Done {
			return fmt.Errorf("%+v", s)
		}
		_, err := rt.Resume(context.Background(), Reply{ID: s.Calls[0].ID, Value: 1})
		return err
	}
	begin := list(isBound, evaluation, call(0, empty))
	both := func(rt *Runtime) error { return rt.BindPaused(context.Background(), "f", "g") }
	two := await(wire.TypeBind)
	two.N = 2
	for _, c := range []lie{
		{name: "a step", steps: list(begin, waits(1, 0), await(wire.TypeAnswer), one, rest), do: paused(resumes)},
		{name: "two bindings", steps: list(isBound, isBound, rest), do: both},
		{name: "the second of two bindings first", steps: list(two, frame(wire.TypeBound, script.Token, 1), rest), do: both, want: Protocol},
		{name: "a call between two bindings", steps: list(isBound, call(0, empty), isBound, rest), do: both, want: Protocol},
		{name: "waits outside a step", steps: list(evaluation, waits(1, 0), rest), want: Protocol},
		{name: "waits for no call", steps: list(evaluation, waits(1, 0), rest), do: step, want: Protocol},
		{name: "waits for another evaluation's", steps: list(begin, waits(2, 0), rest), do: paused(nil), want: Protocol},
		{name: "answers that nobody gave", steps: list(begin, waits(1, 1), rest), do: paused(nil), want: Protocol},
		{name: "waits again and again", steps: list(begin, waits(1, 0), await(wire.TypeAnswer), times(frame(wire.TypeWaiting, 1, 1), 1000), rest), do: paused(resumes), want: Protocol},
		{name: "old news again and again", steps: list(begin, waits(1, 0), await(wire.TypeAnswer), times(frame(wire.TypeWaiting, 1, 0), 1_000_000), rest), do: paused(resumes), want: HardTimeout},
		{name: "a call twice", steps: list(begin, frame(wire.TypeCall, "called", "token", "eval", 0, empty), rest), do: paused(nil), want: Protocol},
		{name: "a flood of calls", steps: list(begin, times(call(0, empty), 1_000_000), rest), do: paused(nil), want: Protocol},
	} {
		l.see(t, c)
	}
}
