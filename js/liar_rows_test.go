package js

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv/liar/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// hostile has a row for each type of message that a worker can send: a good
// payload, what comes of it where it is not waited for, and payloads that no
// honest worker sends.
var hostile = map[wire.Type]struct {
	good wire.Message
	// What becomes of the good one in an evaluation and in a binding; "" where it
	// is one of what may come then.
	inEval, inBind Kind
	bad            [][]byte
}{
	wire.TypeWorkerHello: {&wire.WorkerHello{Version: wire.Version, Engine: "e", BuildID: "00", Mode: "interpreter"}, Protocol, Protocol,
		[][]byte{join(2), join([]byte{0x81, 0}, "e", "b", "full", 1, 1), join(1, "\xff", "b", "full", 1, 1), join(1, "e", "b", "Full", 1, 1)}},
	wire.TypeReady: {&wire.Ready{}, Protocol, Protocol,
		[][]byte{join(1, 1, 1<<40), join(1, 1, 2, "a", 1), join(1, 1, 1, "A", 1), join([]byte{0x81, 0}, 1, 0)}},
	wire.TypeBound: {&wire.Bound{Token: 7}, Protocol, Protocol, failures(join(7))},
	wire.TypeCall: {&wire.Call{CallID: 1, Token: 7, EvalID: 1, Args: mustEncode([]any{})}, Protocol, Protocol,
		append(values(join(1, 7, 1, 0)), join(1, 7, 1, 2, string(mustEncode([]any{}))), join([]byte{0x81, 0}, 7, 1, 0, string(mustEncode([]any{}))))},
	wire.TypeDone: {&wire.Done{ID: 1, Value: mustEncode(1.0)}, "", Protocol,
		append(append(values(join(1, 0, 0, 0, 1)), failures(join(1, 0, 0, 0))...), join([]byte{0x81, 0}, 0, 0, 0, 1, string(mustEncode(1.0))))},
	wire.TypeConsole: {&wire.Console{EvalID: 2, Level: wire.LevelLog, Text: []string{"a"}}, Protocol, Protocol,
		[][]byte{join(1, 0, 0), join(1, 6, 0), join(1, 1, 1<<40), join(1, 1, 1025, make([]byte, 1025)), join(1, 1, 2, "a"), join(1, 1, 1, "\xed\xa0\x80")}},
	wire.TypeFatal: {&wire.Fatal{Kind: "gone", Message: "\x1b[2J"}, Crashed, Crashed,
		[][]byte{join("", "m"), join("K", "m"), join("k", strings.Repeat("m", 16<<10+1)), join("k", "\xff")}},
	wire.TypeImport: {&wire.Import{CallID: 1, EvalID: 1, Specifier: "a"}, Protocol, Protocol,
		[][]byte{join(1, 1, strings.Repeat("s", 1025), ""), join(1, 1, "\xff", ""), join(1, 1, "a", "\xc0\x80"), join([]byte{0x81, 0}, 1, "a", "")}},
	wire.TypeWaiting: {&wire.Waiting{EvalID: 1}, Protocol, Protocol, [][]byte{join(1), join(1, 0, 0), join([]byte{0x81, 0}, 0)}},
}

// join puts a payload together: numbers as varints, strings with their length,
// bytes as they are.
func join(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, frame(0, p).Parts[0].Bytes...)
		case string:
			b = append(b, sized([]byte(p))...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// failures are outcomes behind a head that are none.
func failures(head []byte) [][]byte {
	return [][]byte{join(head, 2), join(head, 0), join(head, 0, "K", "", "", ""), join(head, 0, "k", strings.Repeat("n", 1025), "", ""),
		join(head, 0, "k", "\xff", "", ""), join(head, 0, "k", "", strings.Repeat("m", 16<<10+1), ""), join(head, 0, "k", "", "", strings.Repeat("s", 16<<10+1))}
}

// values are values behind a head that are none from outside.
func values(head []byte) [][]byte {
	v := string(mustEncode([]any{}))
	return [][]byte{join(head, ""), join(head, v[:len(v)-1]), join(head, len(v)+1, []byte(v)), join(head, 1<<40), join(head, strings.Repeat("\xff", 16)), join(head, v[1:])}
}

// badFrames are frames around a good payload, and the row's own bad payloads.
func badFrames(kind wire.Kind, good []byte, bad [][]byte) map[string][]script.Step {
	claim := func(n int, steps ...script.Step) []script.Step {
		s, c := frame(kind.Type, good), uint32(n)
		s.Claim = &c
		return append([]script.Step{s}, steps...)
	}
	all := map[string][]script.Step{
		"empty":       {frame(kind.Type)},
		"cut":         {frame(kind.Type, good[:len(good)-1])},
		"more":        {frame(kind.Type, good, []byte{0})},
		"claims less": claim(len(good)),
		"claims none": claim(0),
		"claims all":  claim(1<<32 - 1),
		"too long":    {frame(kind.Type, script.Part{Bytes: []byte{0}, Times: kind.Max + 1})},
	}
	for i, p := range bad {
		all["bad "+string(rune('a'+i))] = []script.Step{frame(kind.Type, p)}
	}
	return all
}

// Each type of message that a worker can send, where it is not waited for and
// with every kind of hostile payload, ends the runtime with its kind; the same
// message in its place goes through.
//
// proves part of T-11
func TestLiarRowsAsRoot(t *testing.T) {
	l := openLiars(t, Options{})
	for _, kind := range wire.Types(wire.Worker) {
		row, ok := hostile[kind.Type]
		if !ok || len(row.bad) == 0 {
			t.Errorf("%s has no hostile row", kind.Name)
			continue
		}
		good := said(row.good).Parts[0].Bytes
		for _, phase := range []struct {
			name string
			asks wire.Type
			do   func(*Runtime) error
			want Kind
		}{{"eval", wire.TypeEval, evaluates, row.inEval}, {"bind", wire.TypeBind, binds, row.inBind}} {
			begin := await(phase.asks)
			name := kind.Name + " in " + phase.name
			l.see(t, lie{name: name, steps: []script.Step{begin, said(row.good), {Do: script.Rest}}, do: phase.do, want: phase.want})
			for what, steps := range badFrames(kind, good, row.bad) {
				steps = append(append([]script.Step{begin}, steps...), script.Step{Do: script.Rest})
				l.see(t, lie{name: name + ": " + what, steps: steps, do: phase.do, want: Protocol})
			}
			// A frame that claims more than it has, and then the end.
			s, c := frame(kind.Type, good), uint32(len(good)+2)
			s.Claim = &c
			want := Crashed
			if kind.Type == wire.TypeWorkerHello { // whose header is enough
				want = Protocol
			}
			l.see(t, lie{name: name + ": ends inside", steps: []script.Step{begin, s, {Do: script.Exit}}, do: phase.do, want: want})
		}
	}
	for _, b := range []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 73, 128, 255} {
		l.see(t, lie{name: "type " + string(rune('0'+b/100)) + string(rune('0'+b/10%10)) + string(rune('0'+b%10)), steps: []script.Step{await(wire.TypeEval), frame(wire.Type(b), 1), {Do: script.Rest}}, want: Protocol})
	}
	l.see(t, lie{name: "control", steps: []script.Step{await(wire.TypeEval), said(&wire.Console{EvalID: 1, Level: 1, Text: []string{"a"}}), one, {Do: script.Rest}}})
	l.see(t, lie{name: "control of a binding", do: binds, steps: []script.Step{await(wire.TypeBind), frame(wire.TypeBound, script.Token, 1), {Do: script.Rest}}})
}

// What a worker says in place of its two greetings, and a seal that is none, keep
// it from starting, within bounds.
//
// proves part of T-11
func TestLiarGreetsAsRoot(t *testing.T) {
	l := openLiars(t, Options{})
	hello, seal, ready, rest := greeting[0], greeting[1], greeting[2], script.Step{Do: script.Rest}
	cases := map[string][]script.Step{
		"hello twice":     {hello, hello, rest},
		"another engine":  {{Do: script.Hello, Text: "00ff"}, seal, ready, rest},
		"another mode":    {{Do: script.Hello, Mode: "full"}, seal, ready, rest},
		"another version": {frame(wire.TypeWorkerHello, 2, 1, 1), rest},
		"no hello":        {seal, ready, rest},
		"no seal":         {hello, ready, rest},
		"threads":         {hello, seal, {Do: script.Thread, N: 10_000}, ready, rest},
		"memory":          {hello, {Do: script.Alloc, N: 1 << 40}, rest},
		"ends":            {{Do: script.Exit}},
		"dies":            {hello, {Do: script.Die}},
		"ends inside":     {raw([]byte{9, 0, 0, 0, 65, 1}), {Do: script.Exit}},
		"no frame":        {raw([]byte("HTTP/1.1 400 Bad Request\r\n")), rest},
		"quiet and ends":  {{Do: script.Quiet}, {Do: script.Exit, N: 1}},
	}
	for _, kind := range wire.Types(wire.Worker) {
		row := hostile[kind.Type]
		if kind.Type != wire.TypeWorkerHello {
			cases[kind.Name+" first"] = []script.Step{said(row.good), rest}
		}
		if kind.Type != wire.TypeReady {
			cases[kind.Name+" second"] = []script.Step{hello, seal, said(row.good), rest}
		}
		for what, steps := range badFrames(kind, said(row.good).Parts[0].Bytes, row.bad) {
			cases[kind.Name+": "+what] = append(append([]script.Step{hello, seal}, steps...), rest)
		}
	}
	for name, steps := range cases {
		l.tell(steps)
		begin := time.Now()
		rt, err := l.Checkout(context.Background())
		if KindOf(err) != SetupFailed || time.Since(begin) > 5*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(begin))
		}
		checkError(t, name, err)
		if err == nil {
			_ = rt.Close()
		}
	}
	for name, steps := range map[string][]script.Step{
		"silence": {rest}, "half a hello": {raw([]byte{9, 0, 0, 0}), rest}, "hello alone": {hello, seal, rest},
		"drip": {{Do: script.Raw, Chunk: 1, MS: 50, Parts: raw(framed(hostile[wire.TypeWorkerHello].good)).Parts}, rest},
	} {
		l.tell(steps)
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		begin := time.Now()
		_, err := l.Checkout(ctx)
		cancel()
		if KindOf(err) != Canceled || time.Since(begin) > 5*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(begin))
		}
	}
	l.see(t, lie{name: "control", steps: []script.Step{await(wire.TypeEval), one, rest}})
}

// A worker that is not ready in time is none, and its caller has canceled nothing.
//
// proves part of T-11
func TestLiarNeverReady(t *testing.T) {
	l := openLiars(t, Options{})
	usual := startTimeout
	startTimeout = 500 * time.Millisecond
	defer func() { startTimeout = usual }()
	l.tell([]script.Step{{Do: script.Raw, Chunk: 1, MS: 50, Times: 100, Parts: raw(framed(hostile[wire.TypeWorkerHello].good)).Parts}, {Do: script.Rest}})
	begin := time.Now()
	_, err := l.Checkout(context.Background())
	if KindOf(err) != SetupFailed || time.Since(begin) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}
