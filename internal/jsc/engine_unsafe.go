package jsc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/jsc/library"
)

// ErrLoaded is the error of a second Load or NewContext: a process has one
// engine and one context, and neither can leave it.
var ErrLoaded = errors.New("jsc: the process has its engine already")

// Engine is the library, loaded into this process.
type Engine struct {
	lib     library.Library
	options Options
	dropped int
	tid     int // the thread that may use it
	handle  uintptr
	fn      symbols
	before  [lastSignal + 1]action
	context *Context
}

var loaded atomic.Bool

// Load drops what the environment would tell the engine, sets the options and
// maps the library by its absolute name; a file that is not among Options.Files
// and was mapped all the same is an error. The calling goroutine must be locked to its
// thread (runtime.LockOSThread) and stay so: only it may use the engine from
// then on. A failed Load cannot be repeated.
func Load(lib library.Library, o Options) (*Engine, error) { return load(lib, o) }

// load takes further settings of the engine, for tests.
func load(lib library.Library, o Options, more ...string) (*Engine, error) {
	settings, err := o.settings()
	if err != nil {
		return nil, err
	}
	files := o.Files
	if files == nil {
		if files, err = lib.Files(); err != nil {
			return nil, err
		}
	}
	if !loaded.CompareAndSwap(false, true) {
		return nil, ErrLoaded
	}
	e := &Engine{lib: lib, options: o, tid: unix.Gettid()}
	if e.dropped, err = cleanEnvironment(); err != nil {
		return nil, err
	}
	for _, s := range append(settings, more...) {
		name, value, _ := strings.Cut(s, "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("jsc: %w", err)
		}
	}
	before, err := Mappings()
	if err != nil {
		return nil, err
	}
	if e.handle, err = purego.Dlopen(lib.Path, purego.RTLD_NOW|purego.RTLD_LOCAL); err != nil {
		return nil, fmt.Errorf("jsc: %w", err)
	}
	if err := onlyFiles(before, files); err != nil {
		return nil, err
	}
	if err := e.fn.resolve(e.handle); err != nil {
		return nil, err
	}
	return e, e.chooseSignal()
}

// onlyFiles compares the files that are mapped now with those that were, and
// refuses a new one that is not in the list.
func onlyFiles(before []Mapping, files []string) error {
	now, err := Mappings()
	if err != nil {
		return err
	}
	for _, m := range now {
		known := slices.ContainsFunc(before, func(b Mapping) bool { return b.Path == m.Path })
		if strings.HasPrefix(m.Path, "/") && !known && !slices.Contains(files, m.Path) {
			return fmt.Errorf("jsc: %s was mapped with the engine and does not belong to it", m.Path)
		}
	}
	return nil
}

// Dropped is how many variables of the environment Load has removed.
func (e *Engine) Dropped() int { return e.dropped }

// Library is the file that was loaded.
func (e *Engine) Library() library.Library { return e.lib }

// Options are what the engine was loaded with.
func (e *Engine) Options() Options { return e.options }
