package jsc

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf16"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// ErrTerminated is the error of code that the time limit ended. The context is
// usable afterwards.
var ErrTerminated = errors.New("jsc: terminated by the time limit")

// Realm is one global object with built-ins of its own. Values go from one
// realm of a context to another as they are.
type Realm struct {
	c   *Context
	ref uintptr
}

// Context is what runs JavaScript, with the realm of the guest.
type Context struct {
	*Engine
	Realm
	group    uintptr
	class    uintptr   // of functions that call back
	handlers []Handler // of the function with the private number 1 and on
	limited  time.Duration
	decide   func() bool // asked when a time limit is over
	ended    bool        // the time limit has ended what runs
	panics   int
}

// NewContext makes the context. Once it is there, every handler of a signal that the
// engine has installed is checked (see settleSignals), and in the interpreter's
// mode that no memory is executable but the files'.
func (e *Engine) NewContext() (*Context, error) {
	if e.context != nil {
		return nil, ErrLoaded
	}
	c := &Context{Engine: e}
	c.enter()
	c.group = call(e.fn.contextGroupCreate)
	realm, err := c.NewRealm()
	if err != nil {
		return nil, err
	}
	c.Realm = *realm
	e.context, current = c, c
	if err := e.settleSignals(); err != nil {
		return nil, err
	}
	if err := c.makeClass(); err != nil {
		return nil, err
	}
	if e.options.Mode != Interpreter {
		return c, nil
	}
	code, err := Generated()
	if err == nil && len(code) > 0 {
		err = fmt.Errorf("jsc: %d mappings are executable and of no file in the interpreter's mode, the first %s %s %s",
			len(code), code[0].Range, code[0].Perms, code[0].Path)
	}
	return c, err
}

// NewRealm makes another realm. What the guest does to the built-ins of its own
// does not reach it, as long as no object of it reaches the guest.
func (c *Context) NewRealm() (*Realm, error) {
	c.enter()
	r := &Realm{c: c, ref: call(c.fn.globalContextCreateInGroup, c.group, 0)}
	if c.group == 0 || r.ref == 0 {
		return nil, errors.New("jsc: no realm")
	}
	if c.fn.setRemoteInspection != 0 {
		call(c.fn.setRemoteInspection, r.ref, 0)
	}
	return r, nil
}

// enter panics where another thread than the engine's calls: it would be
// registered with the collector, which then stops threads by signals. Whatever
// runs code looks; making and reading values does not, for it would take longer
// than they do.
func (c *Context) enter() {
	if unix.Gettid() != c.tid {
		panic("jsc: called from another thread than the engine's")
	}
}

// Exception is what JavaScript has thrown. Its text says nothing of the value,
// since asking it could run guest code.
type Exception struct{ Value *Value }

// Error returns a fixed text.
func (e *Exception) Error() string { return "jsc: JavaScript threw" }

// thrown makes an error of an exception that a call has left.
func (c *Context) thrown(exception uintptr) error {
	if c.terminated() {
		return ErrTerminated
	}
	if exception == 0 {
		return errors.New("jsc: the engine failed and threw nothing")
	}
	return &Exception{Value: c.keep(exception)}
}

// terminated tells, once, whether the time limit has ended what the last call ran.
// That may be a job of a promise behind the call's own end: the call has a value
// then, and the engine keeps the exception for the next call to take as its own.
func (c *Context) terminated() bool {
	if !c.ended {
		return false
	}
	c.ended = false
	var taken uintptr
	c.fn.valueToNumber(c.ref, call(c.fn.valueMakeUndefined, c.ref), &taken)
	return true
}

// Evaluate runs a script, its first line numbered line (1 or more), in the
// global scope. name is what stacks call it. Jobs of promises have run when it returns.
func (r *Realm) Evaluate(source, name string, line int) (*Value, error) {
	c := r.c
	c.enter()
	script, url := c.newString(utf16.Encode([]rune(source))), c.newString(utf16.Encode([]rune(name)))
	defer call(c.fn.stringRelease, script)
	defer call(c.fn.stringRelease, url)
	var exception uintptr
	ref := call(c.fn.evaluateScript, r.ref, script, 0, url, uintptr(line), uintptr(unsafe.Pointer(&exception)))
	if c.ended || exception != 0 || ref == 0 {
		return nil, c.thrown(exception)
	}
	return c.keep(ref), nil
}

// Parses tells whether the engine takes a text for a script. It runs nothing of
// it, and nothing that a guest has changed takes part.
func (r *Realm) Parses(source string) bool {
	c := r.c
	c.enter()
	script := c.newString(utf16.Encode([]rune(source)))
	defer call(c.fn.stringRelease, script)
	return call(c.fn.checkScriptSyntax, r.ref, script, 0, 1, 0)&0xff != 0 // a bool in C, of which only the low byte is defined
}

// Call calls a function; a nil this is undefined.
func (c *Context) Call(function, this *Value, args ...*Value) (*Value, error) {
	c.enter()
	var object uintptr
	if this != nil {
		object = this.word()
	}
	f := function.word()
	if function.Type() != Object {
		return nil, fmt.Errorf("%w: no function", ErrType)
	}
	words := make([]uintptr, len(args))
	for i, a := range args {
		words[i] = a.word()
	}
	var exception uintptr
	ref := call(c.fn.objectCallAsFunction, c.ref, f, object, uintptr(len(words)),
		uintptr(unsafe.Pointer(unsafe.SliceData(words))), uintptr(unsafe.Pointer(&exception)))
	if exception != 0 || ref == 0 || c.ended {
		return nil, c.thrown(exception)
	}
	return c.keep(ref), nil
}

// Global returns the global object.
func (r *Realm) Global() *Value {
	r.c.enter()
	return r.c.keep(call(r.c.fn.contextGetGlobalObject, r.ref))
}

// SetEval allows eval and the Function constructors, or makes them throw an
// EvalError with the text given.
func (r *Realm) SetEval(allowed bool, text string) {
	c := r.c
	c.enter()
	s := c.newString(utf16.Encode([]rune(text)))
	defer call(c.fn.stringRelease, s)
	var word uintptr
	if allowed {
		word = 1
	}
	call(c.fn.globalContextSetEvalEnabled, r.ref, word, s)
}

// OnUnhandledRejection has function called with promise and reason when a
// promise is rejected that nobody handles.
func (r *Realm) OnUnhandledRejection(function *Value) error {
	c := r.c
	var exception uintptr
	call(c.fn.unhandledRejection, r.ref, function.word(), uintptr(unsafe.Pointer(&exception)))
	if exception != 0 {
		return c.thrown(exception)
	}
	return nil
}

// ProxyTarget returns what a Proxy stands for, itself perhaps one, and whether
// it is a Proxy. No trap runs. A revoked one keeps its target.
func (c *Context) ProxyTarget(v *Value) (*Value, bool) {
	if c.fn.objectGetProxyTarget == 0 || v.Type() != Object {
		return nil, false
	}
	ref := call(c.fn.objectGetProxyTarget, v.word())
	if ref == 0 {
		return nil, false
	}
	return c.keep(ref), true
}

// SetTimeLimit has decide asked, on the engine's thread and in the midst of what runs,
// whenever code has used about limit of processor time since it was last asked or began;
// true ends the code with ErrTerminated. No limit starts with a limit of 0. A nil decide is always true.
// decide may call SetTimeLimit, and nothing else of the engine.
func (c *Context) SetTimeLimit(limit time.Duration, decide func() bool) {
	c.enter()
	if limit <= 0 {
		c.limited, c.decide = 0, nil
		call(c.fn.contextGroupClearTimeLimit, c.group)
		return
	}
	c.limited, c.decide = limit, decide
	c.fn.contextGroupSetTimeLimit(c.group, limit.Seconds(), callback(), limitMark)
}

// Collect runs a full collection now. For tests.
func (c *Context) Collect() {
	c.enter()
	call(c.fn.garbageCollect, c.ref)
}

// process-wide: what the engine calls, made once.
var entry uintptr

func callback() uintptr {
	if entry == 0 {
		entry = purego.NewCallback(dispatch)
	}
	return entry
}
