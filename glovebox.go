package glovebox

import (
	"log/slog"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/languages"
)

// The data of a run; see package api.
type (
	Program  = api.Program
	File     = api.File
	Limits   = api.Limits
	Result   = api.Result
	Status   = api.Status
	Layer    = api.Layer
	Evidence = api.Evidence
	Event    = api.Event
	Trace    = api.Trace

	FieldError   = api.FieldError
	SandboxError = api.SandboxError
)

// Errors that mean that Glovebox could not do its work. How a program ended is
// never an error; it is the Verdict of its Result. ErrBusy is for a program for
// which there is neither a cell nor a place to wait, see Options.MaxWaiting.
var (
	ErrSandboxUnavailable = api.ErrSandboxUnavailable
	ErrBusy               = api.ErrBusy
	ErrClosed             = api.ErrClosed
)

// Sandbox is how much of the wall must stand.
type Sandbox string

const (
	// Require refuses to run anything unless every layer holds. The default.
	Require Sandbox = "require"
	// Auto runs with what this host can enforce and says in every Result what
	// that was.
	Auto Sandbox = "auto"
)

// Options of [New]. The zero value is the safe default.
type Options struct {
	// Sandbox is [Require] or [Auto]; empty means Require.
	Sandbox Sandbox
	// InitPath is the glovebox-init program. Empty means the one beside the
	// running program, or the running program itself when [Init] was called.
	// The file must belong to root or this user and be writable by no other.
	InitPath string
	// Armed is how many sealed cells wait for a program, so that a Run need not
	// wait for one to be built. Zero means 2; a negative number means none. An
	// armed cell takes about 1 MB of its own.
	Armed int
	// Prepared is how many cells are begun ahead of need as far as nothing depends
	// on the program: control groups with their limits written, namespaces, and a
	// started init, about 1 MB each. Zero means 2; a negative number means none.
	Prepared int
	// Once says that this Box will run one program. Nothing is then made ahead of
	// need, and the program gets the cell on which New proves the sandbox.
	Once bool
	// MaxCells bounds the programs that run at once; a Run beyond it waits, in
	// order of arrival, until a cell is free or its context ends. Zero means four
	// for each processor.
	MaxCells int
	// MaxWaiting bounds the programs that wait; one more gets ErrBusy. Zero means
	// 1000; a negative number means that none waits.
	MaxWaiting int
	// MaxLimits lowers the ceilings of a program's limits. Zero fields keep the
	// library's own; New refuses one below the limit's floor.
	MaxLimits Limits
	// Languages are files of further languages, or of others in the place of those
	// that come with Glovebox; see package languages. Each must belong to root or
	// this user and be writable by no other.
	Languages []string
	// CacheDir is the folder of the compilers' caches that [Box.Warm] fills. Empty
	// means /var/cache/glovebox for root, /var/tmp/glovebox-UID for others. Cells only
	// read them, and can read the folder's path in mountinfo. One that somebody else
	// may write to is not used.
	CacheDir string
	// Profiles adds system calls to a profile, by its name. A call that is always
	// denied is refused by [New].
	Profiles map[string][]string
	// Gate judges each program before it gets a cell: every file, the command if it
	// is one, and the variables of Program.Env; see package gate. It is asked by
	// [Box.Run] and [Box.Start], which then take as long as the gate, and by whatever
	// else runs something in a cell. What it denies is a *[gate.Denied]. Nil lets
	// every program pass. What lies in a folder of [WithFolder], and what a program
	// reads from its standard input, it does not see.
	Gate gate.Gate
	// GateTimeout is what the gate may take for one file; zero means 5 s, the most
	// is 10 minutes.
	GateTimeout time.Duration
	// Logger gets what is of interest to an operator. It never sees source,
	// input or output. Nil means silence.
	Logger *slog.Logger

	controlOff []string // negative controls of this package's tests
}

// Box runs programs. It is safe for concurrent use; Close it.
type Box struct {
	host      *cell.Host
	max       api.Limits
	languages languages.Set
	warm      *warmth
	gate      gating
	cacheDir  string
}

// New finds out what this host can enforce, proves it on a throwaway cell, and
// arms the first cells. The error wraps [ErrSandboxUnavailable] when a layer is
// missing under [Require], or when nothing can be sealed at all; it is then a
// *[SandboxError] with the Status of each layer.
func New(o Options) (*Box, error) {
	b, cfg, err := o.unopened()
	if err != nil {
		return nil, err
	}
	if b.host, err = cell.Open(cfg); err != nil {
		return nil, err
	}
	return b, nil
}

// unopened makes all of a Box that needs no cell.
func (o Options) unopened() (*Box, cell.Config, error) {
	cfg, err := o.config()
	if err != nil {
		return nil, cfg, err
	}
	b := &Box{max: cfg.Max, cacheDir: o.cacheDir()}
	if b.gate, err = o.gating(); err != nil {
		return nil, cfg, err
	}
	if b.languages, err = languages.WithFiles(o.Languages); err != nil {
		return nil, cfg, err
	}
	cfg.Paths = b.languages.Paths()
	b.warm, cfg.Folders = findWarm(b.cacheDir, b.languages, o.Logger)
	return b, cfg, nil
}

func (o Options) config() (cell.Config, error) {
	cfg := cell.Config{
		Mode: cell.Mode(o.Sandbox), InitPath: o.InitPath, Armed: o.Armed, MaxCells: o.MaxCells,
		Additions: o.Profiles, Log: o.Logger, ControlOff: o.controlOff,
		Max: api.MaxLimits(runtime.NumCPU(), machineMemory()).Lower(o.MaxLimits),
	}
	switch o.Sandbox {
	case "":
		cfg.Mode = cell.Require
	case Require, Auto:
	default:
		return cfg, &FieldError{Field: "Sandbox", Value: o.Sandbox, Reason: `must be "require" or "auto"`}
	}
	if len(o.controlOff) > 0 {
		cfg.Mode = cell.Off
	}
	if err := o.MaxLimits.CheckCeilings(); err != nil {
		return cfg, err
	}
	cfg.Armed = ahead(o.Armed)
	cfg.Reserve = ahead(o.Prepared)
	if o.Once {
		cfg.Armed, cfg.Reserve, cfg.Once = 0, 0, true
	}
	if cfg.MaxCells < 0 {
		return cfg, &FieldError{Field: "MaxCells", Value: o.MaxCells, Reason: "must not be negative"}
	}
	if cfg.MaxCells == 0 {
		cfg.MaxCells = 4 * runtime.NumCPU()
	}
	if cfg.MaxWaiting = max(o.MaxWaiting, 0); o.MaxWaiting == 0 {
		cfg.MaxWaiting = 1000
	}
	return cfg, checkProfiles(o.Profiles)
}

// ahead reads a number of things to have ready: zero means two, a negative
// number none.
func ahead(n int) int {
	if n == 0 {
		return 2
	}
	return max(n, 0)
}

// machineMemory is the ceiling of a cell's memory.
func machineMemory() int64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 1 << 30
	}
	return int64(si.Totalram) * int64(si.Unit)
}

// Status is what this host can enforce, as found by New.
func (b *Box) Status() Status { return b.host.Status() }

// Close ends every running program with the verdict interrupted and returns
// when nothing is left of any cell. It is idempotent.
func (b *Box) Close() error { return b.host.Close() }

// CheckHost tells what this host can enforce, without running a program. It
// never fails: what keeps it from an answer is in the answer.
func CheckHost(o Options) Status {
	o.Sandbox, o.Armed, o.Prepared, o.Once = Auto, -1, -1, false
	b, err := New(o)
	if err != nil {
		return statusOf(err)
	}
	defer b.Close()
	return b.Status()
}

func statusOf(err error) Status {
	var s *SandboxError
	if asSandbox(err, &s) {
		return s.Status
	}
	return Status{Warnings: []string{strings.TrimSpace(err.Error())}, APIVersion: api.Version}
}
