// Package cell runs one program in one sealed, single-use process tree and says
// how it ended. It is the host's side of the wall: it starts the launcher,
// keeps cells armed, checks from outside what init reports from inside, hands
// over the job, drains the output, holds the deadlines, and gives the verdict
// from the kernel's counters.
//
// Data flows one way: [Open] finds out what this host can enforce; [Host.Run]
// takes or makes an armed cell ([Host.acquire]), hands it the job, watches it
// and settles it.
package cell

import (
	"log/slog"
	"os"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// Mode is how much of the sandbox must hold.
type Mode string

// The modes. Off exists for the negative controls of tests alone.
const (
	Require Mode = "require"
	Auto    Mode = "auto"
	Off     Mode = "off"
)

// Config is what a host program decides once.
type Config struct {
	Mode     Mode
	InitPath string // the glovebox-init to use; empty: beside the program
	Armed    int    // cells kept armed; 0 none
	Reserve  int    // cells kept prepared, not armed; 0 none
	Once     bool   // there will be one run: it gets the cell that Open proves the sandbox on
	MaxCells int    // cells alive at once, armed ones not counted
	// MaxWaiting bounds the calls of Run that wait for one.
	MaxWaiting int
	// Folders of the host that every cell shows.
	Folders []Folder
	Paths   []string // what languages need of the host beside /usr
	Worker  *Worker  // the one program of this host; nil: any
	// Additions are system calls allowed beside the profile's, by profile.
	Additions map[string][]string
	Max       api.Limits // ceilings
	Log       *slog.Logger
	// Trace gets the time of each step of every run, for the benchmarks.
	Trace func(step string, took time.Duration)
	// ControlOff names layers that are left out: negative controls only.
	ControlOff []string

	// Tests of this package alone: layers that init leaves out although the host
	// asks for their proof, and the core limit in place of the one found.
	insideOff []string
	// start and patience stand in for startLauncher and armTimeout in tests that
	// play launcher and init.
	start     func(init *os.File, ids *idRange, env []string) (*launcher, error)
	patience  time.Duration
	coreLimit *uint64
	// probed, when set, has every probe tried and gets the answers in place of
	// the judge.
	probed func([]cellproto.ProbeResult)
}

// Job is one program, resolved: nothing of it is a name to be looked up on the
// host any more.
type Job struct {
	Profile  string
	Loopback bool
	Argv     []string
	Env      []string
	Files    []File
	Limits   api.Limits // every field set
	// Artifacts are the patterns of files to give back.
	Artifacts []string
	// Compile, if there is one, comes first, in a cell of its own that has the same
	// files. What it leaves in ProductDir the program has there, read-only.
	Compile *Step
	// Folders of the host that this job alone sees.
	Folders []Folder
	// Trace, if there is one, has every system call counted, and is filled.
	Trace *Trace
}

// Folder is a folder of the host, shown read-only at a path of the cell.
type Folder struct{ Source, At string }

// Step is the compiler's part of a job.
type Step struct {
	Argv   []string
	Env    []string
	Limits api.Limits // every field set
}

// ProductDir is where a compiler leaves its product and a program finds it.
const ProductDir = "/prog"

// File is one file to be written below /box.
type File struct {
	Name string
	Mode uint32
	Data []byte
}

// kind is what an armed cell is fixed to; a job takes only a cell of its own
// kind.
type kind struct {
	profile              string
	loopback             bool
	diskBytes, diskFiles int64
	traced               traced
}

func (j *Job) kind() kind {
	return kind{j.Profile, j.Loopback, j.Limits.DiskBytes, j.Limits.DiskFiles, j.Trace.kind()}
}

// listed is what the lists of a kind depend on.
func (k kind) listed() kind { return kind{profile: k.profile, loopback: k.loopback, traced: k.traced} }

// maker tells a compiler's cell.
func (k kind) maker() bool { return k.profile == CompileProfile }

// defaultKind is what the pool arms.
func defaultKind() kind {
	d := api.DefaultLimits()
	return kind{profile: DefaultProfile, diskBytes: d.DiskBytes, diskFiles: d.DiskFiles}
}

// makerKind is that of a compiler whose language says nothing of its disk.
func makerKind() kind {
	d := api.DefaultCompileLimits()
	return kind{profile: CompileProfile, diskBytes: d.DiskBytes, diskFiles: d.DiskFiles}
}

// DefaultProfile is the profile of a raw command and of every language that
// names none.
const DefaultProfile = "language"

// CompileProfile is the profile of compilers.
const CompileProfile = "compile"
