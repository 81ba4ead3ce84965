package cellproto

// Type is the first byte of a frame between a host and the init of a cell.
type Type byte

// Frames of the control socket.
const (
	TypeArm     Type = 1 // host to init: build and seal a cell
	TypeArmed   Type = 2 // init to host: what was applied and probed
	TypeJob     Type = 3 // host to init: the one program of this cell
	TypeStarted Type = 4 // init to host: the guest's exec succeeded
	TypeDenied  Type = 5 // init to host: a call of the kill class was made
	TypeExited  Type = 6 // init to host: the guest ended and every other process of the cell is gone
	TypeFailed  Type = 7 // init to host: a stage failed

	TypeFile   Type = 8 // host to init: a piece of a file, before the job
	TypeSignal Type = 9 // host to init: a signal for the guest, while it runs

	// Init to host, after TypeExited, if the job asks for files.
	TypeArtifact  Type = 10 // a piece of a file
	TypeRefused   Type = 11 // a file or pattern that gives nothing
	TypeCollected Type = 12 // there is no more

	TypeTraced Type = 13 // init to host: calls of a traced guest
)

// MaxPiece bounds the data of one frame of a file, and MaxPieceFrame such a
// frame's payload.
const (
	MaxPiece      = 256 << 10
	MaxPieceFrame = MaxPiece + 8<<10
)

// OpKind is one kind of step that builds the root.
type OpKind uint64

// Steps of a root, carried out in the order given.
const (
	OpDir     OpKind = 1 // Path, Mode
	OpSymlink OpKind = 2 // Path points to Source
	OpFile    OpKind = 3 // Path, Mode, Data
	OpBind    OpKind = 4 // the host's Source appears read-only at Path, with its submounts
	OpDevice  OpKind = 5 // the host's device node Source appears at Path
)

// Op is one step.
type Op struct {
	Kind   OpKind
	Path   string // relative to the new root, no dot parts
	Source string
	Mode   uint64
	Data   []byte
}

// StandIn is a file of /proc with made-up content. A Path with slashes lies in
// a made-up directory.
type StandIn struct {
	Path string // relative to /proc
	Data []byte
}

// LandlockRule allows Access beneath Path, inside the cell's root.
type LandlockRule struct {
	Path   string
	Access uint64
}

// Landlock is one ruleset.
type Landlock struct {
	HandledFS  uint64
	HandledNet uint64
	Scoped     uint64
	Rules      []LandlockRule
}

// Arm is everything init needs to build and seal a cell.
type Arm struct {
	Nonce    []byte
	Loopback bool

	// Passwd and Group are the cell's own /etc/passwd and /etc/group.
	Passwd, Group []byte
	// StandIns replace files of /proc with content of this cell alone, ProcCommon
	// names the entries that the launcher's stand-ins replace, ProcKeep those that
	// stay; every other entry is covered.
	StandIns   []StandIn
	ProcCommon []string
	ProcKeep   []string

	DiskBytes, DiskFiles uint64
	// Maker is a compiler's cell: its guest may write to the product's folder.
	Maker bool

	UID, GID   uint64
	DropGroups bool
	TimeNS     bool

	// Guest is the ruleset of the thread that execs, Init that of all others.
	Guest, Init Landlock
	// Filter is the seccomp program, 8 bytes an instruction in the machine's
	// byte order. Notify asks for a listener for the kill class.
	Filter []byte
	Notify bool
	// Watch and Judge make it a traced cell: Watch is a further filter of the
	// sealed thread, Judge the program by which the listener answers.
	Watch, Judge []byte

	CoreLimit uint64

	// Probes are the names of the attestation's probes to try.
	Probes []string
	// Off names layers that are left out: negative controls only.
	Off []string
}

// ProbeResult is one forbidden thing tried in the sealed thread.
type ProbeResult struct {
	Name  string
	Errno uint64 // 0 means that it worked
}

// Applied is what init did for one layer.
type Applied struct {
	Layer  string
	OK     bool
	Detail string
}

// Armed reports a sealed cell that waits for its job.
type Armed struct {
	Nonce  []byte
	Layers []Applied
	Probes []ProbeResult
	// Steps are names and nanoseconds since the start of init.
	Steps []Step
}

// Step is one timed step of init.
type Step struct {
	Name string
	NS   uint64
}

// Place is a folder that files are written to or collected from.
type Place uint64

// Places.
const (
	PlaceBox     Place = 0
	PlaceProduct Place = 1
)

// Piece is some of a file, of whose pieces the last has no More.
type Piece struct {
	Place Place // not used of artifacts, which the job's Collect names
	Name  string
	Mode  uint64
	Size  uint64 // what the whole file should have, with the first
	More  bool
	Data  []byte
}

// Job is the one program of a cell. Its files went before it.
type Job struct {
	Argv []string
	Env  []string
	Dir  string
	// StandIns are new contents of files of the same names in Arm.
	StandIns []StandIn

	FileBytes, OpenFiles uint64
	CPUSeconds           uint64
	// Tasks bounds what a guest without a control group may start, and init's
	// threads of its uid with it; 0 bounds nothing.
	Tasks uint64
	// DeadlineMS after the guest's exec init kills the cell by itself.
	DeadlineMS uint64
	// Signals says that there may be frames of TypeSignal.
	Signals bool
	// Collect asks for files, none if it has no Patterns.
	Collect Collect
}

// Collect says which files are given back.
type Collect struct {
	Place    Place
	Patterns []string // as in api.CheckPattern
	// Bytes bounds them together, FileBytes each, Files their number.
	Bytes, FileBytes, Files uint64
	// MS bounds the time.
	MS uint64
}

// Refused names a file or pattern that gives nothing.
type Refused struct{ Name, Reason string }

// Signal is one for the guest.
type Signal struct{ Number uint64 }

// Started says that the guest runs; PID is in the cell's own numbers.
type Started struct{ PID uint64 }

// Denied names a call of the kill class by its audit architecture and number.
type Denied struct{ Arch, Number uint64 }

// MaxTraced bounds the kinds of calls that a trace tells apart.
const MaxTraced = 1024

// Traced counts calls since the guest's exec.
type Traced struct {
	// Final says that the guest has ended and that every count is its last.
	// Before, a call is reported when its count has doubled.
	Final bool
	Calls []TracedCall
}

// TracedCall is one kind of call, by its audit architecture and number and the
// answer of the program Judge. Count is of all since the beginning.
type TracedCall struct{ Arch, Number, Answer, Count uint64 }

// Exited carries the guest's wait status.
type Exited struct {
	Status uint64
	// WallNS is from the guest's exec to its exit.
	WallNS uint64
}

// Failed says which stage could not be done.
type Failed struct {
	Stage   string
	Message string
	// Errno is nonzero when the guest's own exec failed (stage "exec").
	Errno uint64
}
