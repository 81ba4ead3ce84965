package agent

import (
	"context"
	"crypto/rand"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/keyring"
	"github.com/glovebox-dev/glovebox/js"
)

// Options of a pool of sessions. The zero value is safe: a sandbox that must hold
// in every layer, the interpreter, default limits, journals under a random key
// that ends with the pool, and no word of a tool's errors for the guest.
type Options struct {
	// Sandbox, InitPath, WorkerPath, JIT, StrictEval, Allow, Modules and Log are those
	// of [js.Options]. The modules are part of what a journal must be loaded with.
	Sandbox, InitPath, WorkerPath string
	JIT                           js.JIT
	StrictEval                    bool
	Allow                         []string
	Modules                       map[string]string
	Log                           *slog.Logger

	Limits Limits
	// Keys are the root keys of journals. nil is a random one: what is dumped can be
	// loaded by this pool alone. A Store that outlives the program needs them.
	Keys *Keys
	// Seal encrypts the records of journals (AES-256-GCM); otherwise they are
	// authenticated and can be read by who has the bytes. Journals of a Store that
	// outlives the program are sealed unless Unsealed says otherwise.
	Seal, Unsealed bool
	// ShowErrors gives guests the text of their tools' errors. Otherwise they see a
	// fixed sentence, but for a [*js.GuestError].
	ShowErrors bool
	// Gate judges every feed, as it is given or as it was made JavaScript, and every
	// module, before it is on record or costs anything; see [js.Options]. It also
	// judges the feeds of a journal that is loaded. The error is a *gate.Denied.
	Gate        gate.Gate
	GateTimeout time.Duration
	// Store keeps sessions under names, see [Pool.Acquire]. It is the caller's, who
	// closes it after the pool.
	Store store.Store
	// Warm workers are kept ready, Max may be alive at one time; see [js.PoolOptions].
	Warm, Max int
	// Residents are guests of released sessions that are kept, besides those that are
	// out; see [Pool.Acquire]. Default 0: every Acquire of a session that exists is a
	// replay.
	Residents int
}

// Keys are root keys with ids, see [Options]. A root has at least 32 bytes of a
// good random source; ids have 1 to 32 small letters, digits, dots, hyphens and
// underscores. New journals are made under the one called Current, the others
// load older ones.
type Keys struct {
	Current string
	Roots   map[string][]byte
}

// Pool is where sessions come from. It is safe for concurrent use.
type Pool struct {
	o      Options
	limits Limits
	js     *js.Pool
	ring   *keyring.Ring
	made   made
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	residents *residents

	mu       sync.Mutex
	sessions map[*Session]struct{}
	closed   bool
}

// made says by what journals are made.
type made struct{ release, engine, platform string }

// form is that of what sessions do: it grows when the same code could come
// to something else.
const form = "1"

// Open proves the sandbox, starts the first worker and returns the pool. The
// error is an *api.FieldError or a *js.Error.
func Open(ctx context.Context, o Options) (*Pool, error) {
	if o.Residents < 0 || o.Residents > 4096 {
		return nil, fieldError("residents", o.Residents, "must be from 0 to 4096")
	}
	limits, err := o.Limits.resolve()
	if err != nil {
		return nil, err
	}
	if err := o.stored(); err != nil {
		return nil, err
	}
	ring, err := o.Keys.ring()
	if err != nil {
		return nil, err
	}
	o.StrictEval = o.StrictEval || o.Gate != nil // as package js has it, and as journals say it
	zero := int64(0)
	workers, err := js.NewPool(ctx, js.Options{
		Sandbox: o.Sandbox, InitPath: o.InitPath, WorkerPath: o.WorkerPath, JIT: o.JIT, StrictEval: o.StrictEval, Allow: o.Allow,
		Modules: o.Modules, Log: o.Log, Gate: o.Gate, GateTimeout: o.GateTimeout, Limits: limits.worker(), Clock: &zero, Seed: new([32]byte),
	}, js.PoolOptions{Warm: o.Warm, Max: o.Max})
	if err != nil {
		return nil, err
	}
	engine := workers.Engine()
	life, cancel := context.WithCancel(context.Background())
	return &Pool{
		ctx: life, cancel: cancel, residents: newResidents(o.Residents),
		o: o, limits: limits, js: workers, ring: ring, sessions: map[*Session]struct{}{},
		made: made{form, engine.Name + " " + engine.BuildID + " " + engine.Mode, runtime.GOOS + "/" + runtime.GOARCH},
	}, nil
}

// stored is what a store that outlives the program asks for.
func (o *Options) stored() error {
	if o.Seal && o.Unsealed {
		return fieldError("unsealed", true, "cannot be said beside seal")
	}
	if e, ok := o.Store.(interface{ Ephemeral() bool }); o.Store == nil || ok && e.Ephemeral() {
		return nil
	}
	if o.Keys == nil {
		return fieldError("keys", nil, "must be set with a store that outlives the program: nobody could load its sessions again")
	}
	o.Seal = !o.Unsealed
	return nil
}

// ring checks the keys.
func (k *Keys) ring() (*keyring.Ring, error) {
	if k == nil {
		root := make([]byte, keyring.Size)
		_, _ = rand.Read(root) // never fails
		return keyring.New("pool", map[string][]byte{"pool": root})
	}
	ring, err := keyring.New(k.Current, k.Roots)
	if err != nil {
		return nil, fieldError("keys", nil, "%v", err)
	}
	return ring, nil
}

// Engine is what runs the guests of this pool.
func (p *Pool) Engine() js.Engine { return p.js.Engine() }

// Stats says how many workers wait for a session, and how many are out.
func (p *Pool) Stats() js.Stats { return p.js.Stats() }

// Limits are those that hold, defaults filled in.
func (p *Pool) Limits() Limits { return p.limits }

// Close ends every session and every worker, whatever they do, and returns when
// nothing is left. It is idempotent.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cancel()
	sessions := p.sessions
	p.sessions = map[*Session]struct{}{}
	p.mu.Unlock()
	p.residents.close()
	err := p.js.Close()
	var all sync.WaitGroup
	for s := range sessions { // each may have to wait for its store
		all.Go(s.abandon)
	}
	all.Wait()
	return err
}

// add registers a session; false after Close.
func (p *Pool) add(s *Session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.sessions[s] = struct{}{}
	return true
}

func (p *Pool) remove(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
}
