package js

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv/liar/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

var (
	rest  = script.Step{Do: script.Rest}
	drain = script.Step{Do: script.Drain}
	empty = encoded([]any{})
)

// call is a call of the last function that was bound, in the evaluation that runs.
func call(sync int, args any) script.Step {
	return frame(wire.TypeCall, script.Call, script.Token, script.Eval, sync, args)
}

// isBound is an honest answer to a binding, evaluation is up to the question of one.
var (
	isBound    = []script.Step{await(wire.TypeBind), frame(wire.TypeBound, script.Token, 1)}
	evaluation = await(wire.TypeEval)
)

func done(id int) script.Step { return said(&wire.Done{ID: uint64(id), Value: mustEncode(1.0)}) }

func list(parts ...any) (all []script.Step) {
	for _, p := range parts {
		switch p := p.(type) {
		case script.Step:
			all = append(all, p)
		case []script.Step:
			all = append(all, p...)
		}
	}
	return all
}

// twice evaluates two times; the first time must go well.
func twice(rt *Runtime) error {
	if err := evaluates(rt); err != nil {
		return fmt.Errorf("the first: %v", err)
	}
	return evaluates(rt)
}

// bindsAnd binds a function that returns when its evaluation is over, and then
// does something.
func bindsAnd(do func(*Runtime) error) func(*Runtime) error {
	return func(rt *Runtime) error {
		if err := rt.BindAsync(context.Background(), "f", func(ctx context.Context, _ ...Value) { <-ctx.Done() }); err != nil {
			return fmt.Errorf("bind: %v", err)
		}
		return do(rt)
	}
}

func times(s script.Step, n int) script.Step { s.Times = n; return s }

// deep is an array in an array and so on, as large as a frame may be.
func deep() []script.Part {
	return bulk([]float64{}, []float64{7, 1}, (wire.MaxValue-32)/16, []float64{7, 0}, "")
}

// Everything that a worker can say at the wrong moment, of another evaluation,
// with numbers and tokens of its own making, ends the runtime at once and with
// its kind; what an honest one says at that place goes through.
//
// proves T-11
// proves B-01
// proves part of B-10 H-65
func TestLiarTalks(t *testing.T) {
	l := openLiars(t, Options{})
	number := func(id any) script.Step { return frame(wire.TypeCall, id, script.Token, script.Eval, 0, empty) }
	for _, c := range []lie{
		{name: "an answer ahead", steps: list(one, evaluation, rest)}, // as good as a quick one
		{name: "an answer twice", steps: list(evaluation, one, one, evaluation, rest), do: twice, want: Protocol},
		{name: "an answer to an earlier one", steps: list(evaluation, one, evaluation, one, rest), do: twice, want: Protocol},
		{name: "an answer to a later one", steps: list(evaluation, done(2), rest), want: Protocol},
		{name: "two answers in turn", steps: list(evaluation, one, evaluation, done(2), rest), do: twice},
		{name: "another token bound", steps: list(await(wire.TypeBind), frame(wire.TypeBound, 7, 1), rest), do: binds, want: Protocol},
		{name: "no token bound", steps: list(await(wire.TypeBind), frame(wire.TypeBound, 0, 1), rest), do: binds, want: Protocol},
		{name: "bound twice", steps: list(isBound, frame(wire.TypeBound, script.Token, 1), evaluation, rest), do: bindsAnd(evaluates), want: Protocol},
		{name: "not bound", steps: list(await(wire.TypeBind), frame(wire.TypeBound, script.Token, join(0, "any_kind", "", "\x1b[2J\u202e", "")), rest), do: binds, want: BindFailed},
		{name: "a call", steps: list(isBound, evaluation, call(0, empty), one, rest), do: bindsAnd(evaluates)},
		{name: "call of no token", steps: list(isBound, evaluation, frame(wire.TypeCall, 1, 7, 1, 0, empty), rest), do: bindsAnd(evaluates), want: Protocol},
		{name: "call number twice", steps: list(isBound, evaluation, call(0, empty), number(script.Called), rest), do: bindsAnd(evaluates), want: Protocol},
		{name: "call number 0", steps: list(isBound, evaluation, number(0), rest), do: bindsAnd(evaluates), want: Protocol},
		{name: "call of another evaluation", steps: list(isBound, evaluation, frame(wire.TypeCall, 1, script.Token, 2, 0, empty), rest), do: bindsAnd(evaluates), want: Protocol},
		{name: "call after the end", steps: list(isBound, evaluation, one, call(0, empty), evaluation, rest), do: bindsAnd(twice), want: Protocol},
		{name: "call while binding", steps: list(isBound, await(wire.TypeBind), frame(wire.TypeCall, 1, script.First, 0, 0, empty), rest),
			do: bindsAnd(func(rt *Runtime) error { return rt.Bind(context.Background(), "g", func() {}) }), want: Protocol},
		{name: "arguments that are no list", steps: list(isBound, evaluation, call(0, encoded("x")), rest), do: bindsAnd(evaluates), want: Protocol},
		{name: "arguments too deep", steps: list(isBound, evaluation, call(0, encoded([]any{nest(nil, 127)})), call(0, deep()), rest), do: bindsAnd(evaluates), want: Protocol},
		{name: "arguments of no tag", steps: list(isBound, evaluation, call(0, sized(rawValue([]float64{99}))), rest), do: bindsAnd(evaluates), want: Protocol},
		{name: "a result too deep", steps: list(evaluation, frame(wire.TypeDone, 1, 0, 0, 0, 1, deep()), rest), want: ResultLimit},
		{name: "a result of no tag", steps: list(evaluation, frame(wire.TypeDone, 1, 0, 0, 0, 1, sized(rawValue([]float64{99}))), rest), want: Protocol},
		{name: "a failure of no kind", steps: list(evaluation, said(&wire.Done{ID: 1, Failure: &wire.Failure{Kind: "any"}}), rest), want: Protocol},
		{name: "a failure of the host's", steps: list(evaluation, said(&wire.Done{ID: 1, Failure: &wire.Failure{Kind: "denied"}}), rest), want: Protocol},
		{name: "a failure", steps: list(evaluation, said(&wire.Done{ID: 1, Failure: &wire.Failure{Kind: "thrown", Name: "\x1b]0;x\a", Message: strings.Repeat("\u202e\x1b[2J", 2000)}}), rest), want: Thrown},
		{name: "console of another evaluation", steps: list(evaluation, said(&wire.Console{EvalID: 7, Level: 1}), rest), want: Protocol},
		{name: "console of none", steps: list(evaluation, said(&wire.Console{Level: 1}), rest), want: Protocol},
		{name: "console while binding", steps: list(await(wire.TypeBind), said(&wire.Console{Level: 1}), frame(wire.TypeBound, script.Token, 1), rest), do: binds},
		{name: "last words", steps: list(evaluation, said(&wire.Fatal{Kind: "gone", Message: "\x1b[2J\u202e"}), rest), want: Crashed},
		{name: "a notice", steps: list(evaluation, script.Step{Do: script.Chat, N: 10 << 10}, one, rest)},
		{name: "notices", steps: list(evaluation, script.Step{Do: script.Chat, N: 1 << 30}, one, rest), want: Crashed},
		{name: "dies inside a frame", steps: list(evaluation, raw([]byte{255, 0, 0, 0, 69, 1}), script.Step{Do: script.Die}), want: Crashed},
		{name: "ends inside a frame", steps: list(evaluation, raw([]byte{255, 0, 0, 0, 69, 1}), script.Step{Do: script.Exit}), want: Crashed},
		{name: "ends", steps: list(evaluation, script.Step{Do: script.Exit, N: 255}), want: Crashed},
		{name: "memory", steps: list(evaluation, script.Step{Do: script.Alloc, N: 1 << 40}), want: MemoryLimit},
	} {
		l.see(t, c)
	}
	l.tell(list(script.Step{Do: script.Quiet}, greeting, evaluation, one, rest)) // control: 1 and 2 are of no account
	rt, err := l.Checkout(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	l.judge(t, rt, lie{name: "quiet"})
	_ = rt.Close()
}

// Floods of each kind end at a limit, in bounded time and memory.
//
// proves part of T-11 B-03
func TestLiarFloodsAsRoot(t *testing.T) {
	var shown atomic.Int64
	const most = 64 << 10
	l := openLiars(t, Options{Limits: Limits{ConsoleBytes: most, HostWaitMS: 2000}, Console: func(_ Level, s string) { shown.Add(int64(len(s)) + 1) }})
	long := bulk([]float64{7, 1, 6, 64 << 10}, nil, 64<<10, nil, "x")
	lines := func(text ...string) script.Step {
		return said(&wire.Console{EvalID: 1, Level: 5, Text: text})
	}
	block := bindsAnd(evaluates)
	for _, c := range []lie{
		{name: "calls", steps: list(isBound, evaluation, drain, call(0, empty), times(call(0, empty), 1_000_000), rest), do: block, want: Protocol},
		{name: "calls that stand still", steps: list(isBound, evaluation, times(call(1, empty), 1_000_000), rest), do: block, want: HostWait},
		{name: "calls of 64 KiB", steps: list(isBound, evaluation, times(call(0, long), 1_000_000), rest), do: block, want: Protocol},
		{name: "calls of 16 MiB", steps: list(isBound, evaluation, times(call(0, bulk([]float64{7, 1, 6, 15 << 20}, nil, 15<<10, nil, strings.Repeat("x", 1<<10))), 100), rest), do: block, want: Protocol},
		{name: "console", steps: list(evaluation, times(lines(strings.Repeat("x", 1000)), 1_000_000), rest), want: Protocol},
		{name: "console of nothing", steps: list(evaluation, times(lines(), 10_000_000), rest), want: Protocol},
		{name: "console of many nothings", steps: list(evaluation, times(lines(make([]string, 1024)...), 1_000_000), rest), want: Protocol},
		{name: "console of a megabyte", steps: list(evaluation, times(frame(wire.TypeConsole, 1, 1, 1, 1<<20-200, script.Part{Bytes: []byte("\u202e"), Times: (1<<20 - 200) / 3}, []byte("xx")), 1_000), rest), want: Protocol},
		{name: "imports", steps: list(evaluation, times(said(&wire.Import{CallID: 1, EvalID: 1, Specifier: "a"}), 1_000_000), rest), want: Protocol},
		{name: "greetings", steps: list(evaluation, times(said(&wire.Ready{}), 1_000_000), rest), want: Protocol},
		{name: "calls of what was revoked", steps: list(isBound, evaluation, times(call(0, empty), 1_000_000), rest), want: Protocol, do: func(rt *Runtime) error {
			if err := binds(rt); err != nil {
				return err
			}
			if err := rt.Revoke(context.Background(), "f"); err != nil {
				return err
			}
			return evaluates(rt)
		}},
	} {
		shown.Store(0)
		c.within = 20 * time.Second
		peak := heapPeak(func() { l.see(t, c) })
		if peak > 160<<20 {
			t.Errorf("%s: %d MiB", c.name, peak>>20)
		}
		if n := shown.Load(); n > 2*most+1<<20 {
			t.Errorf("%s: %d bytes were shown", c.name, n)
		}
	}
	l.see(t, lie{name: "control", steps: list(isBound, evaluation, times(call(0, empty), 200), times(lines("x"), 200), one, rest), do: block})
}

// The calls of a runtime's life are counted by the host, whatever the worker says.
//
// proves part of T-11
func TestLiarCountsNoCalls(t *testing.T) {
	l := openLiars(t, Options{Limits: Limits{HostCalls: 20}})
	var steps []script.Step
	for range 21 {
		steps = append(steps, call(1, empty), await(wire.TypeAnswer))
	}
	bindsOne := func(rt *Runtime) error {
		if err := binds(rt); err != nil {
			return err
		}
		return evaluates(rt)
	}
	l.see(t, lie{name: "21 calls", steps: list(isBound, evaluation, steps, one, rest), do: bindsOne, want: CallLimit})
	l.see(t, lie{name: "20 calls", steps: list(isBound, evaluation, steps[:40], one, rest), do: bindsOne})
	rt := l.start(t, list(isBound, evaluation, steps[:6], said(&wire.Done{ID: 1, Usage: wire.Usage{Calls: 1 << 63, US: 1 << 63, HeapBytes: 1 << 63}, Value: mustEncode(1.0)}), rest))
	if err := binds(rt); err != nil {
		t.Fatal(err)
	}
	if _, u, err := rt.Run(context.Background(), Script{Code: "1"}); err != nil || u.Calls != 3 || u.HeapBytes < 0 || u.Guest < 0 {
		t.Errorf("%+v, %v", u, err)
	}
	_ = rt.Close()
}

// Silence, half frames and bytes that come one by one end with the limit that
// they break, at its time.
//
// proves part of T-11 B-13
func TestLiarStallsAsRoot(t *testing.T) {
	l := openLiars(t, Options{Limits: Limits{TimeoutMS: 400, HardMS: 600, HostWaitMS: 900, CPUMS: 20_000, WriteStallMS: 300}})
	large := func(rt *Runtime) error {
		_, err := rt.Eval(context.Background(), strings.Repeat(" ", 8<<20))
		return err
	}
	drip := script.Step{Do: script.Raw, Chunk: 1, MS: 50, Parts: raw(framed(&wire.Done{ID: 1, Value: mustEncode(strings.Repeat("x", 1000))})).Parts}
	spin := script.Step{Do: script.Spin, MS: 60_000}
	for _, c := range []lie{
		{name: "silence", steps: list(evaluation, rest), want: HardTimeout},
		{name: "silence while binding", steps: list(rest), do: binds, want: HardTimeout},
		{name: "half a header", steps: list(evaluation, raw([]byte{1, 0}), rest), want: HardTimeout},
		{name: "half a frame", steps: list(evaluation, raw([]byte{255, 0, 0, 0, 69, 1}), rest), want: HardTimeout},
		{name: "drip", steps: list(evaluation, drip, rest), want: HardTimeout},
		{name: "console without end", steps: list(evaluation, withPause(times(said(&wire.Console{EvalID: 1, Level: 1, Text: []string{"x"}}), 10_000), 10), rest), want: HardTimeout},
		{name: "spins", steps: list(evaluation, spin), want: HardTimeout},
		{name: "reads nothing", steps: list(rest), do: large, want: WriteStall},
		{name: "sips", steps: list(script.Step{Do: script.Sip, N: 1000, MS: 10}, rest), do: large, want: WriteStall},
		{name: "silence in a call", steps: list(isBound, evaluation, call(1, empty), rest), do: bindsAnd(evaluates), want: HostWait},
		{name: "drip in a call", steps: list(isBound, evaluation, call(0, empty), drip, rest), do: bindsAnd(evaluates), want: HostWait},
		{name: "control", steps: list(evaluation, one, rest)},
	} {
		l.see(t, c)
	}
}

func withPause(s script.Step, ms int) script.Step { s.MS = ms; return s }

// A guest that runs on while a call has no answer is charged for it: its
// processor time counts against the hard limit. One that waits is not.
//
// proves part of T-11 B-11 B-13
func TestLiarRunsOn(t *testing.T) {
	l := openLiars(t, Options{Limits: Limits{TimeoutMS: 400, HardMS: 600, HostWaitMS: 60_000, CPUMS: 60_000}})
	l.see(t, lie{name: "spins beside a call", steps: list(isBound, evaluation, call(0, empty), script.Step{Do: script.Spin, MS: 120_000}), do: bindsAnd(evaluates), want: HardTimeout, within: 20 * time.Second})
	// Control: it waits for longer than the limit.
	l.see(t, lie{name: "waits beside a call", steps: list(isBound, evaluation, call(0, empty), script.Step{Do: script.Sleep, MS: 2000}, one, rest), do: bindsAnd(evaluates), within: 20 * time.Second})
}

// A worker that takes answers drop by drop, each in time, holds up no evaluation
// for longer than it may leave one unread.
//
// proves part of T-11
func TestLiarSipsAnswers(t *testing.T) {
	l := openLiars(t, Options{Limits: Limits{WriteStallMS: 500}})
	answer := strings.Repeat("x", 256<<10)
	rt := l.start(t, list(isBound, evaluation, times(call(0, empty), 100), one, script.Step{Do: script.Sip, N: 64 << 10, MS: 50}, rest))
	if err := rt.BindAsync(context.Background(), "f", func(ctx context.Context) string { <-ctx.Done(); return answer }); err != nil {
		t.Fatal(err)
	}
	if err := evaluates(rt); err != nil {
		t.Fatal(err)
	}
	ready := func() int64 {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		return rt.taken
	}
	for end := time.Now().Add(20 * time.Second); ready() < int64(90*len(answer)); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of answers wait", ready())
		}
	}
	l.judge(t, rt, lie{name: "sips", want: WriteStall})
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}

// What the kernel holds against a worker is seen while a function of the host
// runs, and ends that function's context.
//
// proves B-02
func TestLiarBehindACall(t *testing.T) {
	l := openLiars(t, Options{Limits: Limits{MemoryBytes: 64 << 20}})
	for name, c := range map[string]struct {
		step script.Step
		want Kind
	}{
		"memory": {script.Step{Do: script.Alloc, N: 1 << 40}, MemoryLimit}, "threads": {script.Step{Do: script.Thread, N: 10_000}, Crashed}, "death": {script.Step{Do: script.Die}, Crashed},
	} {
		ended := make(chan struct{})
		rt := l.start(t, list(isBound, evaluation, call(1, empty), c.step, rest))
		if err := rt.Bind(context.Background(), "f", func(ctx context.Context) { <-ctx.Done(); close(ended) }); err != nil {
			t.Fatal(err)
		}
		l.judge(t, rt, lie{name: name, want: c.want})
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the function's context has not ended", name)
		}
		_ = rt.Close()
	}
	l.see(t, lie{name: "control", steps: list(isBound, evaluation, call(0, empty), script.Step{Do: script.Alloc, N: 8 << 20}, one, rest), do: bindsAnd(evaluates)})
}
