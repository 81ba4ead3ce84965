//go:build linux

package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/wire"
	"github.com/glovebox-dev/glovebox/internal/worker/bootstrap"
)

// What Go asks the script for, as the first argument of its dispatch.
const (
	opBind    = iota + 1 // index, name, async: define a function
	opSettle             // value: what an evaluation came to, a promise perhaps
	opState              // whether that has settled; it is handed over then
	opAnswer             // call id, true, value | call id, false, name, message
	opExplain            // a thrown value, which is handed over as a failure
	opError              // name, message: an Error
	opTick               // run the next timer; false if there is none
	opSame               // two values: whether they are one
	opStray              // promise, reason: a rejection that nobody handles
	opHelpers            // what modules.js needs of the script
	opOurs               // the function that tells what bind has made
	opTimed              // whether a timer is left
	opsEnd
)

// boot runs the scripts of the guest's world and keeps what they give.
func (s *server) boot() error {
	o := s.options
	var err error
	s.codec, err = bootstrap.New(s.js, bootstrap.Limits{Nodes: int(o.Limits.Nodes), Depth: int(o.Limits.Depth), Elements: int(o.Limits.Elements),
		Buffers: int64(o.Limits.BufferBytes)})
	if err != nil {
		return err
	}
	var args []*jsc.Value
	for _, h := range []jsc.Handler{s.result, s.callHost, s.fail, s.print, s.isProxy} {
		f, err := s.js.NewFunction(h)
		if err != nil {
			return err
		}
		args = append(args, f)
	}
	settings := []float64{float64(o.Limits.ConsoleBytes), float64(o.ClockMS), flag(o.Frozen), float64(o.Allow)}
	for i := range 8 { // the seed, as words of 32 bits
		settings = append(settings, float64(binary.LittleEndian.Uint32(o.Seed[4*i:])))
	}
	raw := make([]byte, 0, 8*len(settings))
	for _, f := range settings {
		raw = binary.LittleEndian.AppendUint64(raw, bits(f))
	}
	list, err := s.js.Array(jsc.Float64, raw)
	if err != nil {
		return err
	}
	args = append(args, list, s.codec.Look(), s.codec.IsProxy())
	if s.feeds.world, err = s.script("world.js", args); err != nil {
		return err
	}
	if s.dispatch, err = s.script("runtime.js", args); err != nil {
		return err
	}
	for _, a := range args { // Look's too
		a.Release()
	}
	for op := range s.ops {
		s.ops[op] = s.js.Number(float64(op))
	}
	stray, err := s.js.NewFunction(s.stray)
	if err != nil {
		return err
	}
	if err := s.js.OnUnhandledRejection(stray); err != nil {
		return err
	}
	if err := s.bootModules(); err != nil {
		return err
	}
	if err := s.bootFeeds(); err != nil {
		return err
	}
	if o.StrictEval {
		s.js.SetEval(false, "code from strings is not allowed here")
	}
	return nil
}

// script evaluates one of the scripts, a function, and calls it.
func (s *server) script(name string, args []*jsc.Value) (*jsc.Value, error) {
	text, err := sources.ReadFile("scripts/" + name)
	if err != nil {
		return nil, err
	}
	function, err := s.js.Evaluate(string(text), "", 1)
	if err != nil {
		return nil, err
	}
	defer function.Release()
	v, err := s.js.Call(function, nil, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, s.text(err))
	}
	return v, nil
}

// hiddenName is the source, in stacks, of what is evaluated for the guest later
// than the scripts, which have none. No frame of either is shown.
const hiddenName = "glovebox:bootstrap"

// text is what a failed bootstrap says; no guest code has run.
func (s *server) text(err error) string {
	var thrown *jsc.Exception
	if !errors.As(err, &thrown) {
		return err.Error()
	}
	text, err := s.toText(thrown.Value)
	if err != nil {
		return err.Error()
	}
	return text
}

// toText asks the engine for the text of a value, before there is a guest.
func (s *server) toText(v *jsc.Value) (string, error) {
	f, err := s.js.Evaluate("(function (v) { return String(v && v.stack ? v + ' ' + v.stack : v) })", hiddenName, 1)
	if err != nil {
		return "", err
	}
	r, err := s.js.Call(f, nil, v)
	if err != nil {
		return "", err
	}
	return r.Text()
}

// ask calls the script; the arguments are released, but for those of the caller:
// what opSettle, opExplain and opSame look at.
func (s *server) ask(op int, args ...*jsc.Value) (*jsc.Value, error) {
	all := append([]*jsc.Value{s.ops[op]}, args...)
	v, err := s.js.Call(s.dispatch, nil, all...)
	if op != opSettle && op != opExplain && op != opSame {
		for _, a := range args {
			a.Release()
		}
	}
	return v, err
}

// result takes what an evaluation came to.
func (s *server) result(k *jsc.Call) (*jsc.Value, error) {
	s.value, s.failure = s.encode(k.Arg(0), "result_bytes", s.options.Limits.ResultBytes)
	return nil, nil
}

// tooMuch are the reasons of a value that larger limits could let through.
var tooMuch = []string{"depth", "nodes", "elements", "size", "stack"}

// beyond says what is too much of a value, and which limit says so.
func (s *server) beyond(r *bootstrap.Refused, limit string, most uint64) string {
	switch l := &s.options.Limits; r.Reason {
	case "depth":
		return fmt.Sprintf("%s: more levels than depth, %d", r, l.Depth)
	case "nodes":
		return fmt.Sprintf("%s: more than nodes, %d", r, l.Nodes)
	case "elements":
		return fmt.Sprintf("%s: more than %d", r, l.Elements)
	case "size":
		return fmt.Sprintf("%s: more bytes than %s, %d", r, limit, most)
	}
	return r.Error()
}

// encode makes a value of at most so many bytes, by the limit of that name, or says why there is none.
func (s *server) encode(v *jsc.Value, limit string, most uint64) (wire.Value, *wire.Failure) {
	if value, ok := s.quick(false, v); ok && uint64(len(value)) <= most {
		return value, nil
	}
	e, err := s.codec.Encode(v)
	var refused *bootstrap.Refused
	switch {
	case errors.As(err, &refused) && slices.Contains(tooMuch, refused.Reason):
		return nil, &wire.Failure{Kind: "result_limit", Name: "RangeError", Message: s.beyond(refused, limit, most)}
	case err != nil:
		return nil, &wire.Failure{Kind: "unsupported", Name: "TypeError", Message: err.Error()}
	}
	value, err := wire.AppendUTF16(nil, e.Words, e.Heap, e.Bytes)
	if err != nil || uint64(len(value)) > most {
		return nil, &wire.Failure{Kind: "result_limit", Name: "RangeError", Message: s.beyond(&bootstrap.Refused{Reason: "size"}, limit, most)}
	}
	return value, nil
}

// decode makes a value of the guest.
func (s *server) decode(v wire.Value) (*jsc.Value, error) {
	p, err := v.Parts()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errConversation, err)
	}
	if plain, ok := p.Plain(); ok {
		return s.made(plain), nil
	}
	return s.codec.Decode(bootstrap.Encoding{Words: p.Words, Heap: p.Heap, Wide: p.Wide, Bytes: p.Bytes})
}

// fail takes why there is no result.
func (s *server) fail(k *jsc.Call) (*jsc.Value, error) {
	f, err := texts(k, 4)
	if err != nil {
		return nil, err
	}
	s.failure = &wire.Failure{Kind: f[0], Name: cut(f[1], 1<<10), Message: cut(f[2], 16<<10), Stack: cut(f[3], 16<<10)}
	return nil, nil
}

// stray takes a rejection that nobody handles.
func (s *server) stray(k *jsc.Call) (*jsc.Value, error) {
	s.strayed = true
	return s.ask(opStray, k.Arg(0), k.Arg(1))
}

// isProxy asks the engine.
func (s *server) isProxy(k *jsc.Call) (*jsc.Value, error) {
	target, is := s.js.ProxyTarget(k.Arg(0))
	target.Release()
	return s.js.Bool(is), nil
}

// callHost sends a call; a synchronous one waits for its answer.
func (s *server) callHost(k *jsc.Call) (*jsc.Value, error) {
	index, err := k.Arg(0).Number()
	if err != nil || index < 0 || int(index) >= len(s.bindings) {
		return nil, errors.New("no such function")
	}
	sync, err := k.Arg(1).Bool()
	if err != nil {
		return nil, err
	}
	token, limits := s.bindings[int(index)], &s.options.Limits
	switch {
	case s.gone[token]:
		return nil, errors.New("the function was revoked")
	case s.eval == 0:
		return nil, errors.New("the host is called while an evaluation runs")
	case s.lastCall >= limits.HostCalls:
		return nil, fmt.Errorf("more calls of the host than host_calls, %d", limits.HostCalls)
	case uint64(len(s.open)) >= limits.InFlight:
		return nil, fmt.Errorf("more calls of the host at one time than in_flight, %d", limits.InFlight)
	}
	args, failure := s.arguments(k)
	if failure != nil {
		return s.throw(failure)
	}
	if s.held+uint64(len(args)) > limits.ArgumentBytes {
		return nil, fmt.Errorf("more bytes in calls of the host at one time than argument_bytes, %d", limits.ArgumentBytes)
	}
	s.lastCall++
	s.used.Calls++
	id := s.lastCall
	if err := s.out.Write(&wire.Call{CallID: id, Token: token, EvalID: s.eval, Sync: sync, Args: args}); err != nil {
		return nil, s.broken(err)
	}
	if !sync {
		s.open[id] = uint64(len(args))
		s.held += uint64(len(args))
		return s.js.Number(float64(id)), nil
	}
	answer, err := s.wait(id)
	if err != nil {
		return nil, s.broken(err)
	}
	return s.returned(answer)
}

// broken ends a worker whose conversation has ended in the midst of guest code:
// there is nobody left to tell.
func (s *server) broken(err error) error {
	exit(err)
	return err
}

// returned is the value of an answer, or its failure as what is thrown.
func (s *server) returned(a *wire.Answer) (*jsc.Value, error) {
	if err := s.moveClock(a.Clock); err != nil {
		return nil, s.broken(err)
	}
	if a.Failure != nil {
		return s.throw(a.Failure)
	}
	v, err := s.answered(a)
	if f := noRoom(err); f != nil {
		return s.throw(f)
	}
	return v, err
}

// answered is the value of an answer that is no failure.
func (s *server) answered(a *wire.Answer) (*jsc.Value, error) {
	if a.JSON != "" {
		return s.js.JSON(a.JSON)
	}
	return s.decode(a.Value)
}

// noRoom is what the guest sees of an answer that it has no room for.
func noRoom(err error) *wire.Failure {
	var refused *bootstrap.Refused
	if !errors.As(err, &refused) {
		return nil
	}
	return &wire.Failure{Name: "RangeError", Message: refused.Error()}
}

// throw makes an Error of the guest's.
func (s *server) throw(f *wire.Failure) (*jsc.Value, error) {
	v, err := s.ask(opError, s.js.Text(f.Name), s.js.Text(f.Message))
	if err != nil {
		return nil, err
	}
	return nil, &jsc.Exception{Value: v}
}

// answerArgs are the arguments of opAnswer behind the id.
func (s *server) answerArgs(a *wire.Answer) ([]*jsc.Value, error) {
	if f := a.Failure; f != nil {
		return []*jsc.Value{s.js.Bool(false), s.js.Text(f.Name), s.js.Text(f.Message)}, nil
	}
	v, err := s.answered(a)
	if f := noRoom(err); f != nil {
		return s.answerArgs(&wire.Answer{Failure: f})
	}
	if err != nil {
		return nil, err
	}
	return []*jsc.Value{s.js.Bool(true), v}, nil
}

// maxLine is how much of one console call fits a frame, in bytes.
const maxLine = 1<<20 - 1<<10

// print sends console text, as much of it as the evaluation may still write.
func (s *server) print(k *jsc.Call) (*jsc.Value, error) {
	level, err := k.Arg(0).Number()
	if err != nil {
		return nil, err
	}
	limit := s.options.Limits.ConsoleBytes
	if s.console >= limit {
		return nil, nil
	}
	text, err := k.Arg(1).Text()
	if err != nil {
		return nil, err
	}
	if left := min(limit-s.console, maxLine); uint64(len(text)) > left {
		text = cut(text, int(left)) + "[truncated]"
	}
	s.console += uint64(len(text)) + 1 // its line's end
	if err := s.out.Write(&wire.Console{EvalID: s.eval, Level: wire.Level(level), Text: []string{text}}); err != nil {
		return nil, s.broken(err)
	}
	return nil, nil
}

// texts reads arguments that are strings.
func texts(k *jsc.Call, n int) ([]string, error) {
	var out []string
	for i := range n {
		units, err := k.Arg(i).Units()
		if err != nil {
			return nil, err
		}
		out = append(out, string(utf16.Decode(units)))
	}
	return out, nil
}
