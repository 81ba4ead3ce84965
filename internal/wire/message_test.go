package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

func value(v any) wire.Value {
	b, err := wire.Encode(v, wire.Budget{})
	if err != nil {
		panic(err)
	}
	return b
}

func uvarint(numbers ...uint64) (b []byte) {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// join puts a payload together: numbers, strings with their length, bytes as
// they are.
func join(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, uvarint(uint64(p))...)
		case string:
			b = append(append(b, uvarint(uint64(len(p)))...), p...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

var failure = &wire.Failure{Kind: "js_error", Name: "TypeError", Message: "no é", Stack: "at x"}

// typeCases has messages and hostile payloads for each type, by its name. What
// is true of every type is not here.
var typeCases = map[string]struct {
	good []wire.Message
	bad  [][]byte
}{
	"HostHello": {[]wire.Message{&wire.HostHello{Version: wire.Version}}, [][]byte{join(0), join(2), join(1 << 40)}},
	"Open": {[]wire.Message{
		&wire.Open{},
		&wire.Open{Seed: [32]byte{1, 31: 2}, ClockMS: 1_700_000_000_000, Frozen: true, Locale: "en-US", Zone: "UTC", StrictEval: true, Allow: wire.GlobalWebAssembly | wire.GlobalWeakRef, TimeoutMS: 5000,
			Limits:  wire.Limits{Nodes: 1, Depth: 2, Elements: 3, ResultBytes: 4, ArgumentBytes: 5, ConsoleBytes: 6, BufferBytes: 7, HostCalls: 8, InFlight: 9},
			Modules: []wire.Module{{Specifier: "a", Source: "export default 1"}, {Specifier: "b"}}, Resolves: true}},
		[][]byte{make([]byte, 31), join(make([]byte, 32), 0, 2), join(make([]byte, 32), 0, 0, "", "", 0, 8, make([]byte, 11)), join(make([]byte, 32), 8_640_000_000_000_001, make([]byte, 16)),
			join(make([]byte, 32), 0, 0, "", "", 0, 0, 0, make([]byte, 9), 1025, make([]byte, 2050)), join(make([]byte, 32), 0, 0, strings.Repeat("l", 41), make([]byte, 14))}},
	"Eval": {[]wire.Message{&wire.Eval{Kind: wire.EvalScript}, &wire.Eval{ID: 1 << 63, Kind: wire.EvalModule, Name: "a.js", Source: "1 + 1 // é\x00", TimeoutMS: 30},
		&wire.Eval{Kind: wire.EvalFeed, Feed: &wire.Feed{}}, &wire.Eval{ID: 7, Kind: wire.EvalFeed, Name: "f", Source: "await 1", Waves: true, Feed: &wire.Feed{Inputs: value(object("a", 1.0)), Seed: &[32]byte{1, 31: 2}, Clock: new(uint64)}},
		&wire.Eval{Kind: wire.EvalFeed, Feed: &wire.Feed{JSON: `{"a":"\u00e9"}`, Clock: ms(8_640_000_000_000_000)}},
		&wire.Eval{ID: 8, Kind: wire.EvalState}, &wire.Eval{ID: 9, Kind: wire.EvalRebuild, State: value([]any{[]any{"let", "a", 1.0}})}},
		append(append(feeds(join(1, 3, "", "", 0, 0)), values(join(1, 5, "", "", 0, 0))...), join(1, 0, "", "", 0), join(1, 3, "", "", 0), join(1, 1, strings.Repeat("n", 1025), "", 0), join(1, 1, "", "\xff", 0), join(1, 1, "", "\xed\xa0\x80", 0), join(1, 4, "", "", 0, 0, 0), join(1, 6, "", "", 0, 0), join(1, 1, "", "", 0, 0, 0, 0, 0))},
	"Bind":   {[]wire.Message{&wire.Bind{}, &wire.Bind{Token: 1<<64 - 1, Name: "fs.read", Async: true}}, [][]byte{join(1, "a", 2), join(1, strings.Repeat("n", 1025), 0), join(1, "\xc0\x80", 0)}},
	"Revoke": {[]wire.Message{&wire.Revoke{}, &wire.Revoke{Token: 1<<64 - 1}}, [][]byte{bytes.Repeat([]byte{0x80}, 9), join(uvarint(1 << 63)[:9])}},
	"Answer": {[]wire.Message{&wire.Answer{CallID: 1, Value: value("x")}, &wire.Answer{CallID: 2, Failure: failure}, &wire.Answer{Value: value(wire.Undefined{})}, &wire.Answer{CallID: 3, JSON: `{"a":[1,"\u00e9"]}`},
		&wire.Answer{CallID: 4, JSON: "[]", Clock: ms(1)}, &wire.Answer{CallID: 4, Failure: failure, Clock: ms(8_640_000_000_000_000)}},
		append(append(failures(join(1)), values(join(1, 1, ""))...), join(1, 1, "", string(value(1.0)[:20])), join(1, 1, "\xff"), join(1, 1, "[]", string(value(1.0))), join(1, 1, 1<<40), join(1, 1, "[]", 2), join(1, 1, "[]", 1), join(1, 1, "[]", 1, 8_640_000_000_000_001), join(1, 0, "k", "", "", "", 1, []byte{0x81, 0}))},
	"Imported": {[]wire.Message{&wire.Imported{CallID: 1, Name: "m", Source: "export {}"}, &wire.Imported{CallID: 2, Failure: failure}}, append(failures(join(1)), join(1, 1, "m"), join(1, 1, "\xff", "x"), join(1, 1, "m", "\xff"))},
	"Close":    {[]wire.Message{&wire.Close{}}, [][]byte{{0}}},
	"Transform": {[]wire.Message{&wire.Transform{Syntax: 1}, &wire.Transform{ID: 1 << 63, Name: "a.tsx", Syntax: 3, Factory: "h", Fragment: "F", Source: "<é/>"}},
		[][]byte{join(1, "", 0, "", "", ""), join(1, "", 4, "", "", ""), join(1, strings.Repeat("n", 1025), 1, "", "", ""), join(1, "", 1, "\xff", "", ""), join(1, "", 1, "", "", "\xed\xa0\x80")}},
	"WorkerHello": {[]wire.Message{&wire.WorkerHello{Version: wire.Version, Engine: "JavaScriptCore 2.48.1", BuildID: "00ff", Mode: "interpreter", PID: 2, Threads: 8}},
		[][]byte{join(0), join(2, "rest of another version"), join(1, "e", "b", "", 1, 1), join(1, "e", "b", "Full", 1, 1), join(1, strings.Repeat("e", 1025), "b", "full", 1, 1)}},
	"Ready": {[]wire.Message{&wire.Ready{}, &wire.Ready{Threads: 8, HeapBytes: 1 << 20, Steps: []wire.Step{{Name: "engine", NS: 1}, {Name: "context_2", NS: 1 << 60}}}},
		[][]byte{join(1, 1, 1, "", 1), join(1, 1, 2, "a", 1), join(1, 1, 1, "2", 1), join(1, 1, 1025, bytes.Repeat(join("a", 1), 1025)), join(1, 1, 1, "a b", 1)}},
	"Bound": {[]wire.Message{&wire.Bound{Token: 3}, &wire.Bound{Token: 3, Failure: failure}}, failures(join(1))},
	"Call": {[]wire.Message{&wire.Call{Args: value([]any{})}, &wire.Call{CallID: 1, Token: 1 << 63, EvalID: 2, Sync: true, Args: value([]any{object("a", 1.0)})}},
		append(values(join(1, 2, 3, 0)), join(1, 2, 3, 2, string(value(1.0))))},
	"Done": {[]wire.Message{&wire.Done{ID: 1, Value: value(1.0), Usage: wire.Usage{Calls: 1, US: 2, HeapBytes: 3}}, &wire.Done{ID: 1, Failure: failure}}, outcomes(join(1, 2, 3, 4))},
	"Console": {[]wire.Message{&wire.Console{Level: wire.LevelLog}, &wire.Console{EvalID: 1, Level: wire.LevelError, Text: []string{"a", "", "é\x1b[1m"}}},
		[][]byte{join(1, 0, 0), join(1, 6, 0), join(1, 1, 1025, make([]byte, 1025)), join(1, 1, 2, "a"), join(1, 1, 1, "\xff"), join(1, 1, 1<<40)}},
	"Fatal":   {[]wire.Message{&wire.Fatal{Kind: "engine", Message: "gone"}}, [][]byte{join("", ""), join("E", ""), join(strings.Repeat("k", 41), ""), join("k", strings.Repeat("m", 16<<10+1)), join("k\x1b", "")}},
	"Waiting": {[]wire.Message{&wire.Waiting{}, &wire.Waiting{EvalID: 1, Answers: 1<<64 - 1}}, [][]byte{join(1), join(1, 2, 3), join(uvarint(1 << 63)[:9], 1)}},
	"Import": {[]wire.Message{&wire.Import{}, &wire.Import{CallID: 1, EvalID: 2, Specifier: "./a.js", Referrer: "main"}},
		[][]byte{join(1, 2, strings.Repeat("s", 1025), ""), join(1, 2, "\xed\xb0\x80", ""), join(1, 2, "a", "\xff")}},
}

// values are hostile values behind a head: from outside, since what is inside
// is Decode's.
func values(head []byte) (all [][]byte) {
	for _, v := range [][]byte{nil, make([]byte, 16), raw(nil, nil, 0)[:23], append(raw(nil, nil, 0), 0), widened("a", 6, 1), value(1.0)[1:]} {
		all = append(all, join(head, string(v)))
	}
	return append(all, join(head, len(value(1.0))+1, []byte(value(1.0))), join(head, 1<<40))
}

// failures are hostile failures behind a head.
func failures(head []byte) [][]byte {
	return [][]byte{join(head, 2), join(head, 0), join(head, 0, "", "", "", ""), join(head, 0, "K", "", "", ""), join(head, 0, strings.Repeat("k", 41), "", "", ""), join(head, 0, "k", strings.Repeat("n", 1025), "", ""),
		join(head, 0, "k", "\xff", "", ""), join(head, 0, "k", "", strings.Repeat("m", 16<<10+1), ""), join(head, 0, "k", "", "", strings.Repeat("s", 16<<10+1)), join(head, 0, "k", "", "")}
}

// feeds are hostile feeds behind a head.
func feeds(head []byte) (all [][]byte) {
	for _, p := range values(join(head, 1, "")) {
		all = append(all, append(p, 0, 0))
	}
	return append(all, head, join(head, 2, 0, 0), join(head, 1, "\xff", 0, 0), join(head, 1, "{}", string(value(1.0)), 0, 0), join(head, 1, 1<<40), join(head, 0, 2, 0), join(head, 0, 0, 2), join(head, 0, 1, make([]byte, 31)), join(head, 0, 1, make([]byte, 32)), join(head, 0, 0, 1), join(head, 0, 0, 1, 8_640_000_000_000_001))
}

func ms(n uint64) *uint64 { return &n }

func outcomes(head []byte) [][]byte { return append(values(join(head, 1)), failures(head)...) }

func payload(m wire.Message) []byte {
	p, err := wire.AppendPayload(nil, m)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", m, err))
	}
	return p
}

// Each row of the table of types has messages that come back as they were, and
// payloads that are refused: its own, each beginning of a good one, each good
// one with a byte behind it, and one byte more than its budget.
//
// proves part of T-12
func TestTypes(t *testing.T) {
	for _, row := range wire.TypeRows() {
		c := typeCases[row.Name]
		if len(c.good) == 0 || len(c.bad) == 0 || row.Fresh.Type() != row.Type {
			t.Errorf("%s: no cases, or the wrong type", row.Name)
		}
		bad := append([][]byte{make([]byte, row.Max+1)}, c.bad...)
		for _, m := range c.good {
			p := payload(m)
			if got, err := wire.DecodePayload(row.Type, p); err != nil || !cmp.Equal(got, m) {
				t.Errorf("%s: %v\n%s", row.Name, err, cmp.Diff(got, m))
			}
			for i := range p {
				bad = append(bad, p[:i])
			}
			bad = append(bad, append(bytes.Clone(p), 0))
		}
		for i, p := range bad {
			if m, err := wire.DecodePayload(row.Type, p); err == nil || !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrVersion) {
				t.Errorf("%s: hostile %d %.40x: %+v, %v", row.Name, i, p, m, err)
			}
		}
	}
}

// A number has one form: a longer one is refused, the shortest is not.
func TestOneFormOfNumbers(t *testing.T) {
	for p, ok := range map[string]bool{"\x00": true, "\x80\x00": false, "\x7f": true, "\xff\x00": false, "\x80\x01": true, "\x80\x81\x00": false} {
		if _, err := wire.DecodePayload(wire.TypeRevoke, []byte(p)); (err == nil) != ok {
			t.Errorf("%x: %v", p, err)
		}
	}
}

// What the other side would refuse is refused before it is sent.
func TestAppendRefuses(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, m := range []wire.Message{
		&wire.Eval{}, &wire.Eval{Kind: 9}, &wire.Eval{Kind: wire.EvalFeed}, &wire.Eval{Kind: wire.EvalScript, Feed: &wire.Feed{}}, &wire.Eval{Kind: wire.EvalRebuild}, &wire.Eval{Kind: wire.EvalState, State: value(1.0)}, &wire.Eval{Kind: wire.EvalRebuild, State: value(1.0)[1:]}, &wire.Eval{Kind: wire.EvalFeed, Feed: &wire.Feed{Inputs: wire.Value{}}},
		&wire.Eval{Kind: wire.EvalFeed, Feed: &wire.Feed{Clock: ms(1 << 63)}}, &wire.Answer{JSON: "[]", Clock: ms(1 << 63)}, &wire.Eval{Kind: 1, Name: long}, &wire.Eval{Kind: 1, Source: "\xff"}, &wire.Eval{Kind: 1, Source: strings.Repeat(long, 16)},
		&wire.Bind{Name: long}, &wire.Answer{}, &wire.Answer{Value: value(1.0)[1:]}, &wire.Answer{Failure: &wire.Failure{}}, &wire.Answer{Failure: &wire.Failure{Kind: "k", Stack: long}},
		&wire.Console{Level: 1, Text: []string{long}}, &wire.Console{Text: nil}, &wire.Console{Level: 1, Text: make([]string, 1025)},
		&wire.Fatal{Kind: "No"}, &wire.WorkerHello{}, &wire.Open{Allow: 8}, &wire.Open{ClockMS: 1 << 60}, &wire.Import{Specifier: "\xed\xa0\x80"},
	} {
		if p, err := wire.AppendPayload([]byte("before"), m); err == nil || string(p) != "before" {
			t.Errorf("%T: %v, %d bytes", m, err, len(p))
		}
	}
}

// judge decodes a payload; what is accepted is encoded to the same bytes.
func judge(t *testing.T, kind wire.Type, p []byte) {
	t.Helper()
	m, err := wire.DecodePayload(kind, p)
	if err != nil {
		if !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrVersion) {
			t.Fatalf("type %d: %v", kind, err)
		}
		return
	}
	if again, err := wire.AppendPayload(nil, m); err != nil || !bytes.Equal(again, p) {
		t.Fatalf("type %d: %x became %x, %v", kind, p, again, err)
	}
}

// FuzzMessages decodes arbitrary payloads as every type.
//
// proves part of T-13
func FuzzMessages(f *testing.F) {
	for _, c := range typeCases {
		for _, m := range c.good {
			f.Add(byte(m.Type()), payload(m))
		}
	}
	for _, row := range wire.TypeRows() {
		for _, p := range typeCases[row.Name].bad {
			f.Add(byte(row.Type), p)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, p []byte) {
		judge(t, wire.Type(kind), p)
		for _, row := range wire.TypeRows() {
			judge(t, row.Type, p)
		}
	})
}
