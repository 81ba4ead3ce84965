package api

// Verdict is how a run ended.
type Verdict string

// The verdicts. When several apply at once the first of setup_failed, denied,
// canceled, memory_limit, output_limit, timeout, error, ok is given.
const (
	OK           Verdict = "ok"            // exit status 0
	Error        Verdict = "error"         // another exit status, or a signal of the guest's own doing
	Timeout      Verdict = "timeout"       // Cause says "wall" or "cpu"
	MemoryLimit  Verdict = "memory_limit"  // any oom kill in the cell, whatever the exit status
	OutputLimit  Verdict = "output_limit"  // more output than the limit; Cause says "stdout" or "stderr"
	CompileError Verdict = "compile_error" // the compiler refused the program
	Denied       Verdict = "denied"        // a system call of the kill class; Syscall names it
	Canceled     Verdict = "canceled"      // by the caller
	Interrupted  Verdict = "interrupted"   // the service or the host died under the run
	SetupFailed  Verdict = "setup_failed"  // Glovebox's own failure; Stage names the step
)

// Causes of a verdict.
const (
	CauseWall   = "wall"
	CauseCPU    = "cpu"
	CauseStdout = "stdout"
	CauseStderr = "stderr"
	CauseMemory = "memory" // of the compiler, with compile_error
)

// Result is everything known of one run after it has ended. Counters come from
// the kernel; what the kernel cannot tell is nil, with a warning, never 0.
type Result struct {
	ID      string  `json:"id"`
	Verdict Verdict `json:"verdict"`
	// Cause narrows the verdict, see the Cause constants.
	Cause string `json:"cause,omitempty"`
	// Stage is the step that failed, with setup_failed.
	Stage string `json:"stage,omitempty"`
	// Syscall is the name of the refused call, with denied.
	Syscall string `json:"syscall,omitempty"`
	// ExitCode is nil when the program did not exit by itself.
	ExitCode *int `json:"exit_code"`
	// Signal is the name ("SIGSEGV") of the signal that ended the program.
	Signal string `json:"signal,omitempty"`
	// WallMS is from the guest's exec to its exit.
	WallMS float64 `json:"wall_ms"`
	// CPUMS is the processor time of all processes of the guest.
	CPUMS *float64 `json:"cpu_ms"`
	// PeakBytes is the highest memory charge of the cell.
	PeakBytes *int64 `json:"peak_bytes"`
	// OOMKills counts the kernel's out-of-memory kills in the cell.
	OOMKills *int64 `json:"oom_kills"`
	// PidsMaxHits counts the forks refused by the pids limit.
	PidsMaxHits *int64 `json:"pids_max_hits"`
	// Stdout and Stderr are what was kept, as text. When the bytes are not valid
	// UTF-8, the text has U+FFFD in their place and the base64 field has the bytes.
	Stdout       string    `json:"stdout"`
	Stderr       string    `json:"stderr"`
	StdoutBase64 string    `json:"stdout_base64,omitempty"`
	StderrBase64 string    `json:"stderr_base64,omitempty"`
	Truncated    Truncated `json:"truncated"`
	// Compile is what the compiler did, nil for a language without one.
	Compile *Compile `json:"compile,omitempty"`
	// Artifacts are the files that the program was asked for, in order of their
	// names, RefusedArtifacts what was found or asked for and not given, with the
	// reason. There are none unless the program exited by itself.
	Artifacts        []Artifact        `json:"artifacts,omitempty"`
	RefusedArtifacts []RefusedArtifact `json:"refused_artifacts,omitempty"`
	// QueueMS is the time spent waiting for a free cell, SetupMS the time from
	// then to the guest's exec. Warm says that the cell was already armed.
	QueueMS  float64  `json:"queue_ms"`
	SetupMS  float64  `json:"setup_ms"`
	Warm     bool     `json:"warm"`
	Warnings []string `json:"warnings,omitempty"`
	// Message is one sentence for a person, when the verdict needs one.
	Message    string   `json:"message,omitempty"`
	Evidence   Evidence `json:"evidence"`
	APIVersion string   `json:"api_version"`
}

// Compile is what the compiler did, in a cell of its own.
type Compile struct {
	// ExitCode is nil when the compiler did not exit by itself.
	ExitCode  *int      `json:"exit_code"`
	Stdout    string    `json:"stdout"`
	Stderr    string    `json:"stderr"`
	Truncated Truncated `json:"truncated"`
	WallMS    float64   `json:"wall_ms"`
	CPUMS     *float64  `json:"cpu_ms"`
	PeakBytes *int64    `json:"peak_bytes"`
	// Cached says that the product was not made for this run. It is false: no
	// product is ever used twice.
	Cached bool `json:"cached"`
}

// Artifact is one file that a program left below /box.
type Artifact struct {
	// Name is relative to /box and keeps to the grammar of [CheckFileName].
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Mode is the permission bits.
	Mode   uint32 `json:"mode"`
	SHA256 string `json:"sha256"` // of the content, in hexadecimal
	// Content is the bytes; in JSON their base64 form. URL is where a service
	// keeps them instead.
	Content []byte `json:"content,omitempty"`
	URL     string `json:"url,omitempty"`
}

// RefusedArtifact is a file or pattern that gave nothing.
type RefusedArtifact struct {
	// Name is the file's or the pattern's. What a file name must not have is
	// written as in a Go string literal: "a\nb".
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Truncated says which stream lost bytes to its limit.
type Truncated struct {
	Stdout bool `json:"stdout"`
	Stderr bool `json:"stderr"`
}

// Evidence is what the sealed process and its parent saw of the confinement
// before the guest's first instruction.
type Evidence struct {
	// Sandbox is the mode that was in force: "require", "auto" or "off".
	Sandbox string `json:"sandbox"`
	Profile string `json:"profile"`
	// PolicyHash identifies every list of the profile.
	PolicyHash string  `json:"policy_hash"`
	Layers     []Layer `json:"layers"`
	// Probes is the number of forbidden things tried and refused inside.
	Probes int `json:"probes"`
	// AttestedMS is the age of the attestation at the hand-over.
	AttestedMS float64 `json:"attested_ms"`
	Kernel     string  `json:"kernel"`
}

// Layer is one protection.
type Layer struct {
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
	// Detail says how, by which witnesses, or why not.
	Detail string `json:"detail"`
	// Remedy is the narrowest thing that would make it hold, when it does not.
	Remedy string `json:"remedy,omitempty"`
}

// Status is what a host can enforce.
type Status struct {
	// Complete is exactly what the mode "require" would accept. The layers "time"
	// and "speculation" do not count.
	Complete   bool     `json:"complete"`
	Layers     []Layer  `json:"layers"`
	Warnings   []string `json:"warnings"`
	Kernel     string   `json:"kernel"`
	Arch       string   `json:"arch"`
	User       string   `json:"user"`
	ElapsedMS  float64  `json:"elapsed_ms"`
	APIVersion string   `json:"api_version"`
}

// Event is one moment of a run as it happens.
type Event struct {
	// Type is "compiled", "started", "chunk", "stats" or "finished". A program
	// that must be compiled begins with "compiled"; it has no "started" when the
	// compiler refused it.
	Type string `json:"type"`
	// Compile belongs to "compiled".
	Compile *Compile `json:"compile,omitempty"`
	// Stream is "stdout" or "stderr" of a chunk.
	Stream string `json:"stream,omitempty"`
	// Data is the text of a chunk. A chunk never splits a UTF-8 character;
	// bytes that are not UTF-8 are in Base64 instead.
	Data   string `json:"data,omitempty"`
	Base64 string `json:"base64,omitempty"`
	// TMS is the host's time since "started", in ms. WallMS of the Result is the
	// cell's own, and a little more where the host heard of the start late.
	TMS float64 `json:"t_ms"`
	// MemoryBytes and CPUMS belong to "stats".
	MemoryBytes *int64   `json:"memory_bytes,omitempty"`
	CPUMS       *float64 `json:"cpu_ms,omitempty"`
	Result      *Result  `json:"result,omitempty"`
}
