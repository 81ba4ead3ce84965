//go:build linux

package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"

	"github.com/glovebox-dev/glovebox/internal/jsc"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// What Go asks the script for, as the first argument of its dispatch.
const (
	opBind    = iota + 1 // index, name, async: define a function
	opSettle             // value: what an evaluation came to, a promise perhaps
	opState              // whether that has settled; what it settled to is handed over then
	opAnswer             // call id, ok, words, heap, bytes | call id, false, name, message
	opDecode             // words, heap, bytes: the value
	opExplain            // a thrown value, which is handed over as a failure
	opError              // name, message: an Error
	opTick               // run the next timer; false if there is none
	opSame               // two values: whether they are one
)

// What the script asks Go for, as ids of functions.
const (
	natPut     = iota + 1 // words, heap, bytes: a value
	natRefuse             // kind, message: why there is no value
	natFail               // kind, name, message, stack: a failure of the guest
	natCall               // index, sync: call the host with the value that was put
	natConsole            // level, text
	natCount
)

// boot runs the bootstrap scripts and keeps what they give.
func (s *server) boot() error {
	s.js.SetHandler(s.native)
	var args []*jsc.Value
	for id := uintptr(natPut); id < natCount; id++ {
		args = append(args, s.js.NewFunction(id))
	}
	o := s.options
	settings := []float64{
		float64(o.Limits.Nodes), float64(o.Limits.Depth), float64(o.Limits.Elements), float64(o.Limits.ConsoleBytes), float64(o.Limits.BufferBytes),
		float64(o.ClockMS), flag(o.Frozen), float64(o.Allow),
	}
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
	args = append(args, list)
	for _, name := range scripts {
		text, err := bootstrap.ReadFile("bootstrap/" + name)
		if err != nil {
			return err
		}
		function, err := s.js.Evaluate(string(text), hiddenName, 1)
		if err != nil {
			return fmt.Errorf("%s: %s", name, s.text(err))
		}
		result, err := s.js.Call(function, nil, args...)
		if err != nil {
			return fmt.Errorf("%s: %s", name, s.text(err))
		}
		function.Release()
		args = append(args, result)
	}
	s.dispatch = args[len(args)-1]
	for _, a := range args[:len(args)-1] {
		a.Release()
	}
	if o.StrictEval {
		s.js.SetEval(false, "code from strings is not allowed here")
	}
	return nil
}

// hiddenName is the source of the bootstrap in stacks, where no frame of it is
// shown.
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
	all := append([]*jsc.Value{s.js.Number(float64(op))}, args...)
	v, err := s.js.Call(s.dispatch, nil, all...)
	for _, a := range all {
		if op != opSettle && op != opExplain && op != opSame || a == all[0] {
			a.Release()
		}
	}
	return v, err
}

// native answers the script.
func (s *server) native(k *jsc.Call) (*jsc.Value, error) {
	switch k.ID {
	case natPut:
		return nil, s.put(k)
	case natRefuse:
		f, err := texts(k, 2)
		if err != nil {
			return nil, err
		}
		s.parts = parts{err: &wire.Failure{Kind: f[0], Name: "TypeError", Message: f[1]}}
		return nil, nil
	case natFail:
		f, err := texts(k, 4)
		if err != nil {
			return nil, err
		}
		s.failure = &wire.Failure{Kind: f[0], Name: cut(f[1], 1<<10), Message: cut(f[2], 16<<10), Stack: cut(f[3], 16<<10)}
		return nil, nil
	case natCall:
		return s.callHost(k)
	case natConsole:
		return nil, s.print(k)
	}
	return nil, errors.New("no such function")
}

// put takes a value from the script: copies of its three parts.
func (s *server) put(k *jsc.Call) (err error) {
	p := parts{}
	if p.words, err = k.Arg(0).Bytes(); err != nil {
		return err
	}
	units, err := k.Arg(1).Units()
	if err != nil {
		return err
	}
	p.heap = make([]byte, 2*len(units))
	for i, u := range units {
		binary.LittleEndian.PutUint16(p.heap[2*i:], u)
	}
	if k.Arg(2).Type() == jsc.Object {
		if p.bytes, err = k.Arg(2).Bytes(); err != nil {
			return err
		}
	}
	s.parts = p
	return nil
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
		return nil, errors.New("too many calls of the host")
	case uint64(len(s.open)) >= limits.InFlight:
		return nil, errors.New("too many calls of the host at one time")
	case s.parts.err != nil:
		return nil, errors.New(s.parts.err.Message)
	}
	args, err := wire.AppendUTF16(nil, s.parts.words, s.parts.heap, s.parts.bytes)
	if err != nil || uint64(len(args)) > limits.ArgumentBytes {
		return nil, errors.New("the arguments are too large")
	}
	s.lastCall++
	s.used.Calls++
	id := s.lastCall
	if err := s.out.Write(&wire.Call{CallID: id, Token: token, EvalID: s.eval, Sync: sync, Args: args}); err != nil {
		return nil, s.broken(err)
	}
	if !sync {
		s.open[id] = true
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
	if f := a.Failure; f != nil {
		v, err := s.ask(opError, s.js.Text(f.Name), s.js.Text(f.Message))
		if err != nil {
			return nil, err
		}
		return nil, &jsc.Exception{Value: v}
	}
	args, err := s.valueArgs(a.Value)
	if err != nil {
		return nil, err
	}
	return s.ask(opDecode, args...)
}

// answerArgs are the arguments of opAnswer behind the id.
func (s *server) answerArgs(a *wire.Answer) ([]*jsc.Value, error) {
	if f := a.Failure; f != nil {
		return []*jsc.Value{s.js.Bool(false), s.js.Text(f.Name), s.js.Text(f.Message)}, nil
	}
	args, err := s.valueArgs(a.Value)
	if err != nil {
		return nil, err
	}
	return append([]*jsc.Value{s.js.Bool(true)}, args...), nil
}

// valueArgs are the three parts of a value from the host.
func (s *server) valueArgs(v wire.Value) ([]*jsc.Value, error) {
	p, err := v.Parts()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errConversation, err)
	}
	words, err := s.js.Array(jsc.Float64, p.Words)
	if err != nil {
		return nil, err
	}
	var units []uint16
	if p.Wide {
		units = make([]uint16, len(p.Heap)/2)
		for i := range units {
			units[i] = binary.LittleEndian.Uint16(p.Heap[2*i:])
		}
	} else {
		units = make([]uint16, len(p.Heap))
		for i, b := range p.Heap {
			units[i] = uint16(b)
		}
	}
	heap := s.js.String(units)
	if len(p.Bytes) == 0 {
		return []*jsc.Value{words, heap, s.js.Undefined()}, nil
	}
	bytes, err := s.js.Array(jsc.Uint8, p.Bytes)
	if err != nil {
		return nil, err
	}
	return []*jsc.Value{words, heap, bytes}, nil
}

// print sends console text, as much of it as the evaluation may still write.
func (s *server) print(k *jsc.Call) error {
	level, err := k.Arg(0).Number()
	if err != nil {
		return err
	}
	limit := s.options.Limits.ConsoleBytes
	if s.console >= limit {
		return nil
	}
	text, err := k.Arg(1).Text()
	if err != nil {
		return err
	}
	if s.console+uint64(len(text)) > limit {
		text = cut(text, int(limit-s.console)) + "[truncated]"
		s.console = limit
	}
	s.console += uint64(len(text))
	if err := s.out.Write(&wire.Console{EvalID: s.eval, Level: wire.Level(level), Text: []string{text}}); err != nil {
		return s.broken(err)
	}
	return nil
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
