package js

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/jsc/library"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// PoolOptions say how many workers a pool has. The zero value keeps none warm
// and has no cap.
type PoolOptions struct {
	Warm int // workers kept ready; a checkout takes one, and another is started behind it
	Max  int // workers alive at one time, warm ones among them; 0 is no cap of its own. At the cap a checkout waits
}

// Pool starts workers ahead of need. Each serves one runtime and ends with it.
// It is safe for concurrent use.
type Pool struct {
	opts    Options
	size    PoolOptions
	limits  Limits
	allow   wire.Globals
	library library.Library
	files   []string // that the engine maps
	log     *slog.Logger
	host    *cell.Host

	tokens chan struct{} // one for each worker that may still be started
	making chan struct{} // the turn of a transform, which has a worker beside them
	ready  chan *worker
	refill chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	work   sync.WaitGroup
	out    sync.Map // *Runtime that were checked out
	err    error
}

// Stats of a pool at one moment.
type Stats struct {
	Warm int // workers that wait
	Out  int // runtimes that are checked out
}

// most is how many workers a pool without a cap may have: each is a cell.
const most = 4096

// NewPool finds the engine, proves the sandbox and starts the first worker, so
// that what is wrong with this host shows at once: a *api.FieldError for
// options, an [*Error] otherwise.
func NewPool(ctx context.Context, o Options, size PoolOptions) (*Pool, error) {
	p, cfg, err := newPool(o, size)
	if err != nil {
		return nil, err
	}
	if err := p.judgeModules(ctx); err != nil {
		return nil, err
	}
	if p.host, err = cell.Open(*cfg); err != nil {
		var sandbox *api.SandboxError
		if errors.As(err, &sandbox) {
			return nil, &Error{Kind: Unavailable, Message: err.Error(), Err: err}
		}
		return nil, &Error{Kind: SetupFailed, Message: err.Error(), Err: err}
	}
	<-p.tokens
	first, err := p.start(ctx)
	if err != nil {
		p.cancel()
		_ = p.host.Close()
		return nil, err
	}
	p.ready <- first
	p.work.Go(p.fill)
	return p, nil
}

// newPool checks the options and says how the cells of the pool are made.
func newPool(o Options, size PoolOptions) (*Pool, *cell.Config, error) {
	o.Modules = maps.Clone(o.Modules) // what was looked at is what workers get
	p := &Pool{opts: o, size: size, log: o.Log, refill: make(chan struct{}, 1)}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if size.Max == 0 {
		p.size.Max = most
	}
	if size.Warm < 0 || p.size.Max < 1 || p.size.Max > most || size.Warm > p.size.Max {
		return nil, nil, &api.FieldError{Field: "pool", Value: fmt.Sprintf("warm %d, max %d", size.Warm, p.size.Max),
			Reason: fmt.Sprintf("warm must be from 0 to max, and max at most %d", most)}
	}
	mode, err := p.check()
	if err != nil {
		return nil, nil, err
	}
	if p.library, err = library.Find(); err != nil {
		return nil, nil, &Error{Kind: EngineMissing, Message: err.Error(), Err: err}
	}
	program, err := findWorker(o.WorkerPath)
	if err != nil {
		return nil, nil, &Error{Kind: SetupFailed, Message: err.Error(), Err: err}
	}
	files, err := library.Closure(p.library.Path, program)
	if err != nil {
		return nil, nil, &Error{Kind: EngineMissing, Message: err.Error(), Err: err}
	}
	p.files = slices.DeleteFunc(files, func(f string) bool { return f == program })
	p.making = make(chan struct{}, 1)
	p.tokens, p.ready = make(chan struct{}, p.size.Max), make(chan *worker, p.size.Max)
	for range p.size.Max {
		p.tokens <- struct{}{}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, &cell.Config{
		Mode: mode, InitPath: o.InitPath, Armed: min(size.Warm, 1), MaxCells: p.size.Max + 1, MaxWaiting: most,
		Max: api.MaxLimits(runtime.NumCPU(), 64<<30), Log: o.Log,
		Worker: &cell.Worker{Program: program, Files: p.files, Limits: p.limits.cell()},
	}, nil
}

// check looks at the options, all of them before anything is started.
func (p *Pool) check() (cell.Mode, error) {
	o := &p.opts
	var err error
	if p.limits, err = o.Limits.resolve(); err != nil {
		return "", err
	}
	mode := cell.Mode(o.Sandbox)
	switch {
	case mode == "":
		mode = cell.Require
	case mode != cell.Require && mode != cell.Auto:
		return "", &api.FieldError{Field: "sandbox", Value: o.Sandbox, Reason: `must be "require" or "auto"`}
	}
	if o.JIT != "" && o.JIT != Baseline && o.JIT != Full {
		return "", &api.FieldError{Field: "jit", Value: string(o.JIT), Reason: `must be "baseline" or "full", or empty for the interpreter`}
	}
	if o.Clock != nil && (*o.Clock < 0 || *o.Clock > maxClock) {
		return "", &api.FieldError{Field: "clock", Value: *o.Clock, Reason: "must be from 0 to 8640000000000000 ms"}
	}
	if err := o.checkModules(); err != nil {
		return "", err
	}
	if err := p.gateOptions(); err != nil {
		return "", err
	}
	globals := map[string]wire.Globals{"WebAssembly": wire.GlobalWebAssembly, "Atomics": wire.GlobalAtomics, "WeakRef": wire.GlobalWeakRef}
	for _, name := range o.Allow {
		g, ok := globals[name]
		if !ok {
			return "", &api.FieldError{Field: "allow", Value: name, Reason: `must be "WebAssembly", "Atomics" or "WeakRef"`}
		}
		p.allow |= g
	}
	return mode, nil
}

// findWorker is the program of a worker: as given, or beside this one.
func findWorker(path string) (string, error) {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		path = filepath.Join(filepath.Dir(self), "glovebox-js")
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("glovebox-js is not beside %s: install it there or set Options.WorkerPath", filepath.Base(self))
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("worker program: %w", err)
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", err
	}
	return real, cell.Trusted(real)
}

// Checkout returns a runtime on a warm worker, or starts one. At the cap it
// waits for a worker to end, or for its context, whose end is [PoolFull].
func (p *Pool) Checkout(ctx context.Context) (*Runtime, error) {
	for {
		w, err := p.take(ctx)
		if err != nil {
			return nil, err
		}
		if w == nil {
			if w, err = p.start(ctx); err != nil {
				p.tokens <- struct{}{}
				return nil, err
			}
		}
		if w.stale() {
			p.drop(w)
			continue
		}
		p.want()
		r := newRuntime(p, w)
		p.out.Store(r, nil)
		if p.ctx.Err() != nil { // closed meanwhile
			_ = r.Close()
			return nil, failed(Closed, "the pool is closed")
		}
		return r, nil
	}
}

// take returns a warm worker, or nil and the right to start one.
func (p *Pool) take(ctx context.Context) (*worker, error) {
	if p.ctx.Err() != nil {
		return nil, failed(Closed, "the pool is closed")
	}
	select {
	case w := <-p.ready:
		return w, nil
	default:
	}
	select {
	case w := <-p.ready:
		return w, nil
	case <-p.tokens:
		return nil, nil
	case <-ctx.Done():
		return nil, &Error{Kind: PoolFull, Message: fmt.Sprintf("the context ended while all %d workers were out", p.size.Max), Err: context.Cause(ctx)}
	case <-p.ctx.Done():
		return nil, failed(Closed, "the pool is closed")
	}
}

// want has the pool look at its warm workers.
func (p *Pool) want() {
	select {
	case p.refill <- struct{}{}:
	default:
	}
}

// drop ends a worker and gives its place back.
func (p *Pool) drop(w *worker) {
	w.end()
	p.tokens <- struct{}{}
	p.want()
}

// fill keeps the warm workers. A start that fails is not repeated until
// somebody has come for a worker, and then sees the error.
func (p *Pool) fill() {
	for {
		for p.warmOne() {
		}
		select {
		case <-p.refill:
		case <-p.ctx.Done():
			return
		}
	}
}

// warmOne starts one worker if one is missing and may be started.
func (p *Pool) warmOne() bool {
	if len(p.ready) >= p.size.Warm || p.ctx.Err() != nil {
		return false
	}
	select {
	case <-p.tokens:
	default:
		return false
	}
	w, err := p.start(p.ctx)
	if err != nil {
		p.tokens <- struct{}{}
		p.log.Warn("a warm worker was not started", "error", err)
		return false
	}
	p.ready <- w
	return true
}

// Engine is what runs the guests of this pool.
func (p *Pool) Engine() Engine {
	return Engine{Name: "JavaScriptCore " + p.library.Version, BuildID: p.library.BuildID, Mode: p.opts.JIT.mode()}
}

// Stats says how many workers wait and how many are out.
func (p *Pool) Stats() Stats {
	s := Stats{Warm: len(p.ready)}
	p.out.Range(func(any, any) bool { s.Out++; return true })
	return s
}

// Close closes every runtime of the pool and ends every worker. It is
// idempotent, and returns when nothing is left.
func (p *Pool) Close() error {
	p.once.Do(func() {
		p.cancel()
		p.work.Wait()
		p.out.Range(func(r, _ any) bool { r.(*Runtime).shut(failed(Closed, "the pool is closed")); return true })
		for {
			select {
			case w := <-p.ready:
				w.end()
				continue
			default:
			}
			break
		}
		p.err = p.host.Close()
	})
	return p.err
}
