package jsc

import (
	"errors"
	"fmt"
	"os"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Handler answers the calls of a function that NewFunction has made. What it
// returns is released; nil is undefined. An error is thrown: an *Exception as
// its value, another one as an Error with its text. It may call the engine.
type Handler func(*Call) (*Value, error)

// Call is one call of a function, valid until the handler returns.
type Call struct {
	c    *Context
	argc int
	argv uintptr
	over bool
}

// Len is how many arguments there are.
func (k *Call) Len() int { return k.argc }

// Arg returns an argument, undefined beyond the last. It ends with the call and
// needs no Release.
func (k *Call) Arg(i int) *Value {
	if k.over {
		panic("jsc: an argument was asked for after the call")
	}
	if i < 0 || i >= k.argc {
		return &Value{c: k.c, ref: call(k.c.fn.valueMakeUndefined, k.c.ref), over: &k.over}
	}
	args := unsafe.Slice((*uintptr)(pointer(k.argv)), k.argc)
	return &Value{c: k.c, ref: args[i], over: &k.over}
}

// limitMark is what the engine hands back when a time limit is over. It tells
// that call from a function's, whose second word is an object's address.
const limitMark = 1

// classDefinition is the C API's struct of version 0.
type classDefinition struct {
	version, attributes                                                 int32
	className, parent, staticValues, staticFunctions                    uintptr
	initialize, finalize, hasProperty, getProperty, setProperty         uintptr
	deleteProperty, getPropertyNames, callAsFunction, callAsConstructor uintptr
	hasInstance, convertToType                                          uintptr
}

// className is what Object.prototype.toString would call such a function.
var className = [...]byte{'F', 'u', 'n', 'c', 't', 'i', 'o', 'n', 0}

// noAutomaticPrototype keeps the class from making a prototype of its own.
const noAutomaticPrototype = 1 << 1

func (c *Context) makeClass() error {
	def := classDefinition{attributes: noAutomaticPrototype, callAsFunction: callback()}
	def.className = uintptr(unsafe.Pointer(&className))
	c.class = call(c.fn.classCreate, uintptr(unsafe.Pointer(&def)))
	if c.class == 0 {
		return errors.New("jsc: no class")
	}
	return nil
}

// maxFunctions bounds the functions of a context, which are never freed.
const maxFunctions = 1 << 12

// NewFunction returns an object that calls h when it is called. It is for code of
// ours alone: it is no Function object of the language. There may be 4096, and
// they last as long as the process.
func (r *Realm) NewFunction(h Handler) (*Value, error) {
	c := r.c
	c.enter()
	if len(c.handlers) == maxFunctions {
		return nil, errors.New("jsc: too many functions")
	}
	c.handlers = append(c.handlers, h)
	return c.keep(call(c.fn.objectMake, r.ref, c.class, uintptr(len(c.handlers)))), nil
}

// Panics is how many panics of the handler were turned into exceptions.
func (c *Context) Panics() int { return c.panics }

// current is the process's context, for the callback.
var current *Context

// dispatch is all that the engine ever calls: a function of ours, or the question
// whether a time limit ends what runs. It runs in the midst of C frames, so nothing may unwind it.
func dispatch(ctx, function, _, argc, argv, exception uintptr) (result uintptr) {
	c, finished := current, false
	defer func() {
		if finished {
			return
		}
		p := recover()
		if p == nil {
			// runtime.Goexit would leave the engine's frames behind.
			die("jsc: a callback ended its goroutine")
		}
		if function == limitMark {
			result = 1 // it cannot say, so the code ends
			return
		}
		c.panics++
		result = c.throw(exception, errors.New("host function panicked"))
	}()
	switch {
	case c == nil || unix.Gettid() != c.tid:
		die("jsc: called back on another thread")
	case function == limitMark:
		result = c.limit()
	default:
		result = c.answer(function, int(argc), argv, exception)
	}
	finished = true
	return result
}

// die ends the process at once: what holds no longer cannot be mended here.
func die(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(3)
}

// limit answers whether the code ends; c.limited is what SetTimeLimit was given last.
func (c *Context) limit() uintptr {
	if c.decide == nil || c.decide() {
		c.ended = true
		return 1
	}
	// The engine's timer does not start again by itself.
	c.SetTimeLimit(c.limited, c.decide)
	return 0
}

// answer has the handler answer one call.
func (c *Context) answer(function uintptr, argc int, argv, exception uintptr) uintptr {
	id := call(c.fn.objectGetPrivate, function) // from 1; 0 is an object of another class
	if id == 0 || id > uintptr(len(c.handlers)) {
		return c.throw(exception, errors.New("no host function"))
	}
	k := &Call{c: c, argc: argc, argv: argv}
	defer func() { k.over = true }()
	v, err := c.handlers[id-1](k)
	if err != nil {
		return c.throw(exception, err)
	}
	if v == nil {
		return call(c.fn.valueMakeUndefined, c.ref)
	}
	ref := v.word()
	// Nothing is allocated between this and the return to the engine.
	v.Release()
	return ref
}

// throw leaves err for the engine to throw.
func (c *Context) throw(exception uintptr, err error) uintptr {
	undefined := call(c.fn.valueMakeUndefined, c.ref)
	var thrown *Exception
	var ref uintptr
	if errors.As(err, &thrown) && !thrown.Value.gone() {
		ref = thrown.Value.word()
		thrown.Value.Release()
	} else {
		s := c.newString(utf16.Encode([]rune(err.Error())))
		message := [1]uintptr{call(c.fn.valueMakeString, c.ref, s)}
		call(c.fn.stringRelease, s)
		call(c.fn.valueProtect, c.ref, message[0])
		ref = call(c.fn.objectMakeError, c.ref, 1, uintptr(unsafe.Pointer(&message)), 0)
		call(c.fn.valueUnprotect, c.ref, message[0])
	}
	*(*uintptr)(pointer(exception)) = ref
	return undefined
}
