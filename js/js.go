// Package js runs JavaScript that nobody trusts. Each runtime is a process of
// its own, a worker, in a sealed cell: it sees no file, no network, no other
// process and no clock but the one it is given, and functions of the host are
// its only way out.
//
//	rt, err := js.New(ctx, js.Options{})
//	defer rt.Close()
//	v, err := rt.Eval(ctx, "[1, 2, 3].map(x => x * 2)")
//	var list []int
//	err = v.Decode(&list)
//
// A [Pool] keeps workers warm. A worker serves one runtime and ends with it.
// Errors are of type [*Error], with a [Kind] from a closed list; bad options
// are [*api.FieldError], and sources that Options.Gate denies [*gate.Denied].
package js

import (
	"context"
	"log/slog"
	"time"

	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// JIT says which of the engine's compilers run. The empty string is none: the
// engine interprets, and no memory of the worker can become executable.
type JIT string

// The compilers. Either needs memory that is writable and executable, mapped
// before the guest comes; the evidence says so.
const (
	Baseline JIT = "baseline" // template code, no speculation
	Full     JIT = "full"     // every compiler that the engine has
)

// mode is the worker's word for it.
func (j JIT) mode() string {
	if j == "" {
		return "interpreter"
	}
	return string(j)
}

// Level is a level of the console.
type Level string

var levels = map[wire.Level]Level{
	wire.LevelLog: "log", wire.LevelDebug: "debug", wire.LevelInfo: "info", wire.LevelWarn: "warn", wire.LevelError: "error",
}

// Options of a runtime or of a pool. The zero value is safe: the interpreter,
// default limits, a sandbox that must hold in every layer, no clock but a
// running one, real randomness, no optional global.
type Options struct {
	// Sandbox is "require", which is the default, or "auto": run with the layers
	// that this host can give, and say so in the evidence.
	Sandbox string
	// InitPath is the glovebox-init to use, WorkerPath the glovebox-js; by default
	// they are beside the program.
	InitPath, WorkerPath string
	JIT                  JIT
	Limits               Limits
	// Seed makes Math.random repeatable; nil is a fresh one for each runtime.
	Seed *[32]byte
	// Clock, when it is not nil, is what every source of time says, in ms since
	// 1970, for as long as the runtime lives.
	Clock *int64
	// StrictEval makes eval and the constructors of functions throw.
	StrictEval bool
	// Gate judges every source before the engine can see it: scripts, modules, what
	// Modules and Resolve give. It gets the bytes that are sent to the worker, of
	// TypeScript and JSX what they were transformed into. What it denies does not
	// run: the error is a *gate.Denied, of NewPool for one of Modules, and a module of
	// Resolve is a TypeError for the guest. StrictEval is set beside it, and
	// WebAssembly refused. Nil lets everything pass.
	Gate gate.Gate
	// GateTimeout is what the gate may take for one source; zero is 5 s, the most 10
	// minutes. For what Resolve gives it counts as time of the host too.
	GateTimeout time.Duration
	// Allow gives back globals that are absent by default: "WebAssembly",
	// "Atomics" (the engine has no SharedArrayBuffer) and "WeakRef" (with FinalizationRegistry).
	Allow []string
	// Modules are modules by their names, at most 1,024 and 16 MiB. A specifier that
	// begins with ./ or ../ is looked for beside the module that has it.
	Modules map[string]string
	// Resolve gives modules that Modules has not. Without both, import(…) is rejected.
	Resolve Resolver
	// Console gets what the guest writes to its console, one call at a time and
	// before the evaluation ends; its time counts as the guest's. By default it is
	// dropped. The text has passed the output filter.
	Console func(Level, string)
	// Log gets what a host program may want to know. By default nothing.
	Log *slog.Logger
}

// New starts a worker and returns its runtime. It is [NewPool] with one worker,
// which ends with the runtime.
func New(ctx context.Context, o Options) (*Runtime, error) {
	p, err := NewPool(ctx, o, PoolOptions{Max: 1})
	if err != nil {
		return nil, err
	}
	rt, err := p.Checkout(ctx)
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	rt.pool = p
	return rt, nil
}
