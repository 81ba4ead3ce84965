package js

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Func is a function of the host as guests call it. The context ends with the
// evaluation that calls. What it returns crosses by the rules of [Value]; an
// error is thrown in the guest, which sees a fixed sentence unless the error is
// a [*GuestError]. A panic, or runtime.Goexit, is an error like others.
type Func func(ctx context.Context, args []Value) (any, error)

// binding is one function that a guest can call.
type binding struct {
	name string
	call Func // nil: [Runtime.Start] hands its calls over
}

// pathForm is a name of a binding: identifiers joined by dots.
var pathForm = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]{0,63}(\.[A-Za-z_$][A-Za-z0-9_$]{0,63}){0,7}$`)

// Bind gives the guest a function under a name, or under parts joined by dots,
// which become objects. fn is a [Func] or any function: a context may come
// first, an error last; the other parameters are decoded as by [Value.Decode],
// missing ones are zero values, and surplus arguments are an error. A function
// with a parameter or a result of a type that never crosses, such as a channel,
// is refused with an *api.FieldError. The guest stands still until the function returns; [Runtime.BindAsync] gives it a
// promise instead.
//
// A name that the guest has, inherited ones among them, is refused with
// [BindFailed]: what a guest has made is never mistaken for the host's.
func (r *Runtime) Bind(ctx context.Context, name string, fn any) error {
	return r.bind(ctx, name, fn, false)
}

// BindAsync is Bind for a function whose result the guest awaits. Several may
// run at one time, up to Limits.InFlight.
func (r *Runtime) BindAsync(ctx context.Context, name string, fn any) error {
	return r.bind(ctx, name, fn, true)
}

// BindPaused gives the guest functions that give it promises, and whose calls
// [Runtime.Start] hands over. Within [Runtime.Eval] and its like a call is
// refused. Several names cost hardly more time than one. If one cannot be bound,
// none is: those that were are revoked.
func (r *Runtime) BindPaused(ctx context.Context, names ...string) error {
	for at := 0; at < len(names); at += bindAtOnce {
		if err := r.bindCalls(ctx, names[at:min(at+bindAtOnce, len(names))], nil, true); err != nil {
			for _, bound := range names[:at] {
				err = errors.Join(err, r.Revoke(ctx, bound))
			}
			return err
		}
	}
	return nil
}

// bindAtOnce is how many bindings are sent before the first answer is read: so few
// that neither side can wait for the other to read.
const bindAtOnce = 64

// BindObject binds every exported method of a value, or every entry of a
// map[string]Func or map[string]any, below a name. The names of methods begin in
// lower case in the guest. If one cannot be bound, those before it are revoked.
func (r *Runtime) BindObject(ctx context.Context, name string, object any) (err error) {
	members, err := membersOf(object)
	if err != nil {
		return err
	}
	for _, m := range members { // before any is bound
		var bad *api.FieldError
		if _, err := funcOf(m.fn); errors.As(err, &bad) {
			return &api.FieldError{Field: "object." + clean(m.name, 100), Value: bad.Value, Reason: bad.Reason}
		}
	}
	var bound []string
	defer func() {
		if err != nil {
			for _, b := range bound {
				err = errors.Join(err, r.Revoke(ctx, b))
			}
		}
	}()
	for _, m := range members {
		full := name + "." + m.name
		if err := r.bind(ctx, full, m.fn, false); err != nil {
			return err
		}
		bound = append(bound, full)
	}
	return nil
}

func (r *Runtime) bind(ctx context.Context, name string, fn any, async bool) error {
	call, err := funcOf(fn)
	if err != nil {
		return err
	}
	return r.bindCalls(ctx, []string{name}, call, async)
}

// bindCalls binds names to one function, all of them or none.
func (r *Runtime) bindCalls(ctx context.Context, names []string, call Func, async bool) error {
	for _, name := range names {
		if !pathForm.MatchString(name) {
			return &api.FieldError{Field: "name", Value: clean(name, 100), Reason: "must be identifiers joined by dots"}
		}
	}
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer func() { r.turn <- struct{}{} }()
	var messages []wire.Message
	for i, name := range names {
		token := r.register(name, call)
		if token == 0 {
			for _, before := range names[:i] {
				r.forget(before)
			}
			return failed(BindFailed, "%s is bound already", name)
		}
		messages = append(messages, &wire.Bind{Token: token, Name: name, Async: async})
	}
	return r.bindAll(ctx, names, messages)
}

// bindAll sends all bindings and then reads what came of each.
func (r *Runtime) bindAll(ctx context.Context, names []string, messages []wire.Message) (err error) {
	r.limits = r.p.limits
	defer func() { r.binding = 0 }()
	var bound []string
	for i, name := range names {
		r.binding = messages[i].(*wire.Bind).Token
		var send []wire.Message
		if i == 0 {
			send = messages
		}
		answer, over := r.converse(ctx, false, send...)
		if over != nil {
			for _, n := range names {
				r.forget(n)
			}
			return over
		}
		b, ok := answer.(*wire.Bound)
		switch {
		case !ok || b.Token != r.binding:
			return r.end(failed(Protocol, "an answer to another binding"))
		case b.Failure == nil:
			bound = append(bound, name)
			continue
		case err == nil:
			err = &Error{Kind: BindFailed, Message: fmt.Sprintf("%s: %s", name, clean(b.Failure.Message, 400))}
		}
		r.forget(name)
	}
	if err != nil {
		for _, name := range bound {
			err = errors.Join(err, r.Revoke(ctx, name))
		}
	}
	return err
}

// register gives a function its token, 0 for a name that is taken.
func (r *Runtime) register(name string, call Func) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.names[name]; taken {
		return 0
	}
	for {
		var b [8]byte
		_, _ = rand.Read(b[:])
		token := binary.LittleEndian.Uint64(b[:])
		if _, used := r.bindings[token]; token != 0 && !used && !r.revoked[token] {
			r.bindings[token] = &binding{name, call}
			r.names[name] = token
			return token
		}
	}
}

// forget drops a function's handler and returns its token, 0 for no such name.
func (r *Runtime) forget(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	token := r.names[name]
	if token != 0 {
		delete(r.names, name)
		delete(r.bindings, token)
		r.revoked[token] = true
	}
	return token
}

// Revoke takes a function away. From its return on the handler is not called
// any more; the guest's own name for it stays and throws.
func (r *Runtime) Revoke(ctx context.Context, name string) error {
	token := r.forget(name)
	if token == 0 {
		return failed(BindFailed, "%s is not bound", clean(name, 100))
	}
	if err := ctx.Err(); err != nil {
		return ctxEnded(ctx, "before it began")
	}
	if over := r.ended(nil); over != nil {
		return over
	}
	if err := r.send(&wire.Revoke{Token: token}); err != nil {
		return r.end(r.p.limits.passed(WriteStall))
	}
	return nil
}

// call answers one call of the guest, from a goroutine of its own.
func (r *Runtime) call(ctx context.Context, m *wire.Call) *Error {
	r.calls++
	limits := &r.p.limits
	switch {
	case r.binding != 0:
		return failed(Protocol, "a call while a function is bound")
	case m.CallID <= r.lastCall || m.EvalID != r.eval:
		return failed(Protocol, "a call of number %d after %d, of evaluation %d in %d", m.CallID, r.lastCall, m.EvalID, r.eval)
	case r.calls > limits.HostCalls:
		return limits.passed(CallLimit)
	}
	r.lastCall = m.CallID
	size := callSize{encoded: int64(len(m.Args))}
	r.mu.Lock()
	b, revoked := r.bindings[m.Token], r.revoked[m.Token]
	r.held += size.encoded
	r.open++
	held, open := r.held, r.open
	r.mu.Unlock()
	switch { // an honest worker stops there
	case held > limits.ArgumentBytes:
		return failed(Protocol, "%d bytes in calls at one time", held)
	case open > limits.InFlight:
		return failed(Protocol, "%d calls at one time", open)
	}
	if b == nil && !revoked {
		return failed(Protocol, "a call of a function that was never bound")
	}
	if b == nil {
		r.refuse(m, size, &wire.Failure{Kind: "revoked", Name: "Error", Message: "the function was revoked"})
		return nil
	}
	args, taken, err := r.arguments(m.Args)
	if text := tooMuch(err); text != "" {
		r.refuse(m, size, &wire.Failure{Kind: "host_error", Name: "RangeError", Message: text})
		return nil
	}
	if err != nil {
		return &Error{Kind: Protocol, Message: "arguments: " + err.Error(), Err: err}
	}
	size.taken = taken
	switch {
	case b.call == nil && (!r.waves || m.Sync):
		r.refuse(m, size, &wire.Failure{Kind: "refused", Name: "Error", Message: "the function can be called where the host waits for its calls alone"})
		return nil
	case b.call == nil:
		r.pause(&Pending{ID: m.CallID, Name: b.name, Args: args}, size)
		return nil
	}
	r.clk.call()
	if !m.Sync {
		go b.run(ctx, r, m.CallID, size, args, func(a *wire.Answer) { r.answer(a, false) })
		return nil
	}
	// The guest stands still, so this goroutine may as well: the next one to run
	// on this thread is the function's, and nobody has to be woken.
	done := make(chan *wire.Answer, 1)
	go b.run(ctx, r, m.CallID, size, args, func(a *wire.Answer) { done <- a })
	return r.attend(done)
}

// attend waits for the answer of a synchronous call and sends it.
func (r *Runtime) attend(done <-chan *wire.Answer) *Error {
	timer := time.NewTimer(r.clk.left())
	defer timer.Stop()
	select {
	case a := <-done:
		r.writes()
		r.answer(a, true)
		r.wrote()
	case <-r.w.done: // whoever reads next sees its end
	case <-timer.C:
		return r.p.limits.passed(HostWait)
	}
	return nil
}

// run calls the function; it answers whatever becomes of it.
func (b *binding) run(ctx context.Context, r *Runtime, id uint64, size callSize, args []Value, answers func(*wire.Answer)) {
	answer := &wire.Answer{CallID: id, Failure: failureOf(errors.New("goexit"))}
	defer func() {
		if p := recover(); p != nil {
			r.p.log.Error("a function of the host panicked", "name", b.name, "panic", p)
		}
		r.clk.answered()
		r.release(size)
		answers(answer)
	}()
	result, err := b.call(ctx, args)
	if err != nil {
		answer.Failure = failureOf(err)
		return
	}
	value, text, err := r.encode(result)
	if err != nil {
		r.p.log.Error("the result of a function of the host cannot cross", "name", b.name, "error", err)
		answer.Failure = failureOf(err)
		return
	}
	answer.Value, answer.JSON, answer.Failure = value, text, nil
}

// answer sends an answer. The guest's time runs while it takes it.
func (r *Runtime) answer(m *wire.Answer, sync bool) {
	r.stall.Lock()
	defer r.stall.Unlock()
	defer r.forgetAnswer(m)
	if !sync {
		r.answers.Add(1)
	}
	r.taking() // not before its turn to write: an answer that waits is still one in flight
	err := r.write(m)
	var limit *wire.LimitError
	if errors.As(err, &limit) {
		err = r.write(&wire.Answer{CallID: m.CallID, Failure: failureOf(err)})
	}
	if err != nil && isTimeout(err) {
		go r.shut(r.p.limits.passed(WriteStall)) // whoever reads sees its end
	}
}

// failureOf is what the guest sees of an error.
func failureOf(err error) *wire.Failure {
	var open *GuestError
	if !errors.As(err, &open) {
		return &wire.Failure{Kind: "host_error", Name: "Error", Message: "the function of the host failed"}
	}
	name := clean(open.Name, 100)
	if name == "" {
		name = "Error"
	}
	return &wire.Failure{Kind: "host_error", Name: name, Message: clean(open.Message, 8<<10)}
}

// member is one function of an object.
type member struct {
	name string
	fn   any
}

// membersOf lists the functions of an object in order of their names.
func membersOf(object any) ([]member, error) {
	v := reflect.ValueOf(object)
	var out []member
	switch {
	case !v.IsValid():
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		for _, k := range v.MapKeys() {
			out = append(out, member{k.String(), v.MapIndex(k).Interface()})
		}
		sortMembers(out)
	default:
		for i := range v.NumMethod() {
			name := v.Type().Method(i).Name
			out = append(out, member{strings.ToLower(name[:1]) + name[1:], v.Method(i).Interface()})
		}
	}
	if len(out) == 0 {
		return nil, &api.FieldError{Field: "object", Value: fmt.Sprintf("%T", object), Reason: "has no exported method and is no map of functions"}
	}
	return out, nil
}
