package js_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

// stepping is a runtime with two functions whose calls pause.
func stepping(t *testing.T, o js.Options) *js.Runtime {
	t.Helper()
	rt := open(t, o)
	for _, name := range []string{"ask", "tools.get"} {
		if err := rt.BindPaused(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	return rt
}

// calls is a step in short: the names and first arguments of its calls.
func calls(s *js.Step) string {
	text := ""
	for _, c := range s.Calls {
		text += fmt.Sprint(c.Name, c.Args, " ")
	}
	if s.Done {
		text += "done " + s.Value.String()
	}
	return text
}

func all(s *js.Step, value func(js.Pending) any) (replies []js.Reply) {
	for _, c := range s.Calls {
		replies = append(replies, js.Reply{ID: c.ID, Value: value(c)})
	}
	return replies
}

// Calls that do not depend on each other come in one step, in their order.
func TestSteps(t *testing.T) {
	rt := stepping(t, js.Options{})
	s, err := rt.Start(ctx, js.Script{Code: "(async () => { const [a, b] = await Promise.all([ask(1), tools.get('x')]); const c = await ask(a + b); return [a, b, c] })()"})
	if err != nil || calls(s) != "ask[1] tools.get[x] " {
		t.Fatal(err, calls(s))
	}
	s, err = rt.Resume(ctx, all(s, func(c js.Pending) any { return len(c.Name) })...)
	if err != nil || calls(s) != "ask[12] " {
		t.Fatal(err, calls(s))
	}
	s, err = rt.Resume(ctx, js.Reply{ID: s.Calls[0].ID, Value: map[string]any{"ok": true}})
	if err != nil || !s.Done || s.Usage.Calls != 3 {
		t.Fatal(err, calls(s), s.Usage)
	}
	if text, err := s.Value.MarshalJSON(); err != nil || string(text) != `[3,9,{"ok":true}]` {
		t.Errorf("%s %v", text, err)
	}
	if v, err := rt.Eval(ctx, "40 + 2"); err != nil || v.Any() != 42.0 {
		t.Errorf("afterwards: %v %v", v, err)
	}
}

// Of two calls one is answered; what depends on it goes on, the other one waits.
func TestStepsInPart(t *testing.T) {
	rt := stepping(t, js.Options{})
	s, err := rt.Start(ctx, js.Script{Code: "Promise.all([ask(1), ask(2).then(v => ask(v))])"})
	if err != nil || calls(s) != "ask[1] ask[2] " {
		t.Fatal(err, calls(s))
	}
	one := s.Calls[0].ID
	if s, err = rt.Resume(ctx, js.Reply{ID: s.Calls[1].ID, Value: 7}); err != nil || calls(s) != "ask[1] ask[7] " {
		t.Fatal(err, calls(s))
	}
	if s, err = rt.Resume(ctx, js.Reply{ID: s.Calls[1].ID, Err: &js.GuestError{Name: "RangeError", Message: "no"}}); js.KindOf(err) != js.Thrown || err.Error() != "js: RangeError: no" {
		t.Fatal(err, s)
	}
	if _, err := rt.Resume(ctx, js.Reply{ID: one, Value: 1}); err == nil {
		t.Error("a call of an evaluation that has ended can be answered")
	}
}

// What is refused changes nothing: the same calls wait, and can be answered.
//
// proves part of S-11
// proves part of S-21
func TestRefusedReplies(t *testing.T) {
	rt := stepping(t, js.Options{})
	if _, err := rt.Resume(ctx, js.Reply{ID: 1}); err == nil {
		t.Error("a reply before there was a call")
	}
	s, err := rt.Start(ctx, js.Script{Code: "Promise.all([ask(1), ask(2)])"})
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.Calls[0].ID, s.Calls[1].ID
	var field *api.FieldError
	var convert *js.ConvertError
	for name, replies := range map[string][]js.Reply{
		"none": {}, "unknown": {{ID: b + 1}}, "unknown beside a good one": {{ID: a}, {ID: 0}}, "twice": {{ID: a}, {ID: a}},
	} {
		if _, err := rt.Resume(ctx, replies...); !errors.As(err, &field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := rt.Resume(ctx, js.Reply{ID: a, Value: 1}, js.Reply{ID: b, Value: func() {}}); !errors.As(err, &convert) {
		t.Errorf("a function: %v", err)
	}
	for name, err := range map[string]error{
		"eval": second(rt.Eval(ctx, "1")), "bind": rt.Bind(ctx, "late", func() {}), "start": second(rt.Start(ctx, js.Script{Code: "1"})),
	} {
		if js.KindOf(err) != js.Busy {
			t.Errorf("%s while it has paused: %v", name, err)
		}
	}
	if s, err = rt.Resume(ctx, js.Reply{ID: a, Value: "x"}, js.Reply{ID: b, Value: "y"}); err != nil || !s.Done || s.Value.String() != "[\"x\",\"y\"]" && fmt.Sprint(s.Value.Any()) != "[x y]" {
		t.Errorf("%v %v", err, s)
	}
	if _, err := rt.Resume(ctx, js.Reply{ID: a}); !errors.As(err, &field) {
		t.Errorf("answered twice: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A pause costs no time, and functions that the host runs beside it are not
// waited for by it.
func TestPauseBesideCalls(t *testing.T) {
	rt := stepping(t, js.Options{Limits: js.Limits{TimeoutMS: 200, HardMS: 400, HostWaitMS: 300}})
	release := make(chan bool)
	if err := rt.BindAsync(ctx, "run", func() int { <-release; return 5 }); err != nil {
		t.Fatal(err)
	}
	go func() { release <- true }()
	s, err := rt.Start(ctx, js.Script{Code: "Promise.all([run(), ask(1)])"})
	if err != nil || calls(s) != "ask[1] " {
		t.Fatal(err, s)
	}
	<-time.After(600 * time.Millisecond) // above each limit of time
	if s, err = rt.Resume(ctx, all(s, func(js.Pending) any { return 6 })...); err != nil || fmt.Sprint(s.Value.Any()) != "[5 6]" {
		t.Fatal(err, s)
	}
}

// Calls that nobody awaits are told at the end and refused, so that nothing of
// them is left; and where nobody pauses a call is refused at once.
func TestCallsWithoutAnybody(t *testing.T) {
	rt := stepping(t, js.Options{Limits: js.Limits{InFlight: 2}})
	for range 3 { // more than may be open at one time
		s, err := rt.Start(ctx, js.Script{Code: "globalThis.left = ask(1).catch(e => e.message); ask(2).catch(() => 0); 7"})
		if err != nil || !s.Done || calls(s) != "ask[1] ask[2] done 7" {
			t.Fatal(err, calls(s))
		}
	}
	if v, err := rt.Eval(ctx, "left"); err != nil || v.String() != "nobody awaited the call" {
		t.Errorf("%v %v", v, err)
	}
	if v, err := rt.Eval(ctx, "ask(1).catch(e => e.message)"); err != nil || v.String() != "the function can be called where the host waits for its calls alone" {
		t.Errorf("%v %v", v, err)
	}
}

// A guest that spins beside a call without an answer is ended by its own limits.
func TestSpinBesidePending(t *testing.T) {
	rt := stepping(t, js.Options{Limits: js.Limits{TimeoutMS: 100}})
	if s, err := rt.Start(ctx, js.Script{Code: "ask(1); for (;;) ;"}); js.KindOf(err) != js.Timeout {
		t.Fatal(err, s)
	}
	s, err := rt.Start(ctx, js.Script{Code: "ask(2)"})
	if err != nil || calls(s) != "ask[1] ask[2] " && calls(s) != "ask[2] " {
		t.Fatal(err, calls(s))
	}
	if s, err = rt.Resume(ctx, all(s, func(js.Pending) any { return 1 })...); err != nil || !s.Done {
		t.Fatal(err, s)
	}
}

// A worker that is closed while it has paused is gone, and says so.
func TestCloseWhilePaused(t *testing.T) {
	rt := stepping(t, js.Options{})
	s, err := rt.Start(ctx, js.Script{Code: "ask(1)"})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Resume(ctx, all(s, func(js.Pending) any { return 1 })...); js.KindOf(err) != js.Closed {
		t.Error(err)
	}
}
