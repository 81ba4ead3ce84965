package js

import (
	"context"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv/liar/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// feeds runs a feed that brings inputs, or none.
func feeds(inputs map[string]any) func(*Runtime) error {
	return func(rt *Runtime) error {
		_, _, err := rt.Run(context.Background(), Script{Code: "await 1", Feed: &Feed{Inputs: inputs}})
		return err
	}
}

// A worker that is fed can say no more than one that evaluates: each type of
// message, in its good form and in each hostile one, comes to the same. That inputs
// are refused it says where there are some, and nowhere else.
//
// proves part of T-11
func TestLiarFeedsAsRoot(t *testing.T) {
	l := openLiars(t, Options{})
	some := map[string]any{"a": 1}
	for _, kind := range wire.Types(wire.Worker) {
		row := hostile[kind.Type]
		good := said(row.good).Parts[0].Bytes
		l.see(t, lie{name: kind.Name, steps: []script.Step{evaluation, said(row.good), rest}, do: feeds(some), want: row.inEval})
		for what, steps := range badFrames(kind, good, row.bad) {
			l.see(t, lie{name: kind.Name + ": " + what, steps: append(append([]script.Step{evaluation}, steps...), rest), do: feeds(some), want: Protocol})
		}
	}
	refused := said(&wire.Done{ID: 1, Failure: &wire.Failure{Kind: "bind_failed", Name: "\x1b", Message: "the guest has \u202ea"}})
	for _, c := range []lie{
		{name: "inputs refused", do: feeds(some), steps: list(evaluation, refused, rest), want: BindFailed},
		{name: "no inputs refused", do: feeds(nil), steps: list(evaluation, refused, rest), want: Protocol},
		{name: "a script's inputs refused", do: evaluates, steps: list(evaluation, refused, rest), want: Protocol},
		{name: "inputs refused later", steps: list(evaluation, one, evaluation, said(&wire.Done{ID: 2, Failure: &wire.Failure{Kind: "bind_failed"}}), rest), want: Protocol,
			do: func(rt *Runtime) error {
				if err := feeds(some)(rt); err != nil {
					return err
				}
				return evaluates(rt)
			}},
		{name: "an answer to another", do: feeds(some), steps: list(evaluation, done(2), rest), want: Protocol},
		{name: "a wait that nobody asked for", do: feeds(some), steps: list(evaluation, said(&wire.Waiting{EvalID: 1}), rest), want: Protocol},
		{name: "control", do: feeds(some), steps: list(evaluation, one, rest)},
	} {
		l.see(t, c)
	}
}
