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
	ID      string  `json:"id" for:"library"`
	Verdict Verdict `json:"verdict" for:"library"`
	// Cause narrows the verdict, see the Cause constants.
	Cause string `json:"cause,omitempty" for:"library"`
	// Stage is the step that failed, with setup_failed.
	Stage string `json:"stage,omitempty" for:"library"`
	// Syscall is the name of the refused call, with denied.
	Syscall string `json:"syscall,omitempty" for:"library"`
	// ExitCode is nil when the program did not exit by itself.
	ExitCode *int `json:"exit_code" for:"library"`
	// Signal is the name ("SIGSEGV") of the signal that ended the program.
	Signal string `json:"signal,omitempty" for:"library"`
	// WallMS is from the guest's exec to its exit.
	WallMS float64 `json:"wall_ms" for:"library"`
	// CPUMS is the processor time of all processes of the guest.
	CPUMS *float64 `json:"cpu_ms" for:"library"`
	// PeakBytes is the highest memory charge of the cell.
	PeakBytes *int64 `json:"peak_bytes" for:"library"`
	// OOMKills counts the kernel's out-of-memory kills in the cell.
	OOMKills *int64 `json:"oom_kills" for:"library"`
	// PidsMaxHits counts the forks refused by the pids limit.
	PidsMaxHits *int64 `json:"pids_max_hits" for:"library"`
	// Stdout and Stderr are what was kept, as text. When the bytes are not valid
	// UTF-8, the text has U+FFFD in their place and the base64 field has the bytes.
	Stdout       string    `json:"stdout" for:"library"`
	Stderr       string    `json:"stderr" for:"library"`
	StdoutBase64 string    `json:"stdout_base64,omitempty" for:"library"`
	StderrBase64 string    `json:"stderr_base64,omitempty" for:"library"`
	Truncated    Truncated `json:"truncated" for:"library"`
	// Compile is what the compiler did, nil for a language without one.
	Compile *Compile `json:"compile,omitempty" for:"library"`
	// Artifacts are the files that the program was asked for, in order of their
	// names, RefusedArtifacts what was found or asked for and not given, with the
	// reason. There are none unless the program exited by itself.
	Artifacts        []Artifact        `json:"artifacts,omitempty" for:"library"`
	RefusedArtifacts []RefusedArtifact `json:"refused_artifacts,omitempty" for:"library"`
	// QueueMS is the time spent waiting for a free cell, SetupMS the time from
	// then to the guest's exec. Warm says that the cell was already armed.
	QueueMS  float64  `json:"queue_ms" for:"library"`
	SetupMS  float64  `json:"setup_ms" for:"library"`
	Warm     bool     `json:"warm" for:"library"`
	Warnings []string `json:"warnings,omitempty" for:"library"`
	// Message is one sentence for a person, when the verdict needs one.
	Message    string   `json:"message,omitempty" for:"library"`
	Evidence   Evidence `json:"evidence" for:"library"`
	APIVersion string   `json:"api_version" for:"library"`
}

// Compile is what the compiler did, in a cell of its own.
type Compile struct {
	// ExitCode is nil when the compiler did not exit by itself.
	ExitCode  *int      `json:"exit_code" for:"library"`
	Stdout    string    `json:"stdout" for:"library"`
	Stderr    string    `json:"stderr" for:"library"`
	Truncated Truncated `json:"truncated" for:"library"`
	WallMS    float64   `json:"wall_ms" for:"library"`
	CPUMS     *float64  `json:"cpu_ms" for:"library"`
	PeakBytes *int64    `json:"peak_bytes" for:"library"`
	// Cached says that the product was not made for this run. It is false: no
	// product is ever used twice.
	Cached bool `json:"cached" for:"library"`
}

// Artifact is one file that a program left below /box.
type Artifact struct {
	// Name is relative to /box and keeps to the grammar of [CheckFileName].
	Name string `json:"name" for:"library"`
	Size int64  `json:"size" for:"library"`
	// Mode is the permission bits.
	Mode   uint32 `json:"mode" for:"library"`
	SHA256 string `json:"sha256" for:"library"` // of the content, in hexadecimal
	// Content is the bytes; in JSON their base64 form. URL is where a service
	// keeps them instead.
	Content []byte `json:"content,omitempty" for:"library"`
	URL     string `json:"url,omitempty" for:"library"`
}

// RefusedArtifact is a file or pattern that gave nothing.
type RefusedArtifact struct {
	// Name is the file's or the pattern's. What a file name must not have is
	// written as in a Go string literal: "a\nb".
	Name   string `json:"name" for:"library"`
	Reason string `json:"reason" for:"library"`
}

// Truncated says which stream lost bytes to its limit.
type Truncated struct {
	Stdout bool `json:"stdout" for:"library"`
	Stderr bool `json:"stderr" for:"library"`
}

// Evidence is what the sealed process and its parent saw of the confinement
// before the guest's first instruction.
type Evidence struct {
	// Sandbox is the mode that was in force: "require", "auto" or "off".
	Sandbox string `json:"sandbox" for:"library"`
	Profile string `json:"profile" for:"library"`
	// PolicyHash identifies every list of the profile.
	PolicyHash string  `json:"policy_hash" for:"library"`
	Layers     []Layer `json:"layers" for:"library"`
	// Probes is the number of forbidden things tried and refused inside.
	Probes int `json:"probes" for:"library"`
	// AttestedMS is the age of the attestation at the hand-over.
	AttestedMS float64 `json:"attested_ms" for:"library"`
	Kernel     string  `json:"kernel" for:"library"`
}

// Layer is one protection.
type Layer struct {
	Name    string `json:"name" for:"library"`
	Applied bool   `json:"applied" for:"library"`
	// Detail says how, by which witnesses, or why not.
	Detail string `json:"detail" for:"library"`
	// Remedy is the narrowest thing that would make it hold, when it does not.
	Remedy string `json:"remedy,omitempty" for:"library"`
}

// Status is what a host can enforce.
type Status struct {
	// Complete is exactly what the mode "require" would accept. The layers "time"
	// and "speculation" do not count.
	Complete   bool     `json:"complete" for:"library"`
	Layers     []Layer  `json:"layers" for:"library"`
	Warnings   []string `json:"warnings" for:"library"`
	Kernel     string   `json:"kernel" for:"library"`
	Arch       string   `json:"arch" for:"library"`
	User       string   `json:"user" for:"library"`
	ElapsedMS  float64  `json:"elapsed_ms" for:"library"`
	APIVersion string   `json:"api_version" for:"library"`
}

// Event is one moment of a run as it happens.
type Event struct {
	// Type is "compiled", "started", "chunk", "stats" or "finished". A program
	// that must be compiled begins with "compiled"; it has no "started" when the
	// compiler refused it.
	Type string `json:"type" for:"library"`
	// Compile belongs to "compiled".
	Compile *Compile `json:"compile,omitempty" for:"library"`
	// Stream is "stdout" or "stderr" of a chunk.
	Stream string `json:"stream,omitempty" for:"library"`
	// Data is the text of a chunk. A chunk never splits a UTF-8 character;
	// bytes that are not UTF-8 are in Base64 instead.
	Data   string `json:"data,omitempty" for:"library"`
	Base64 string `json:"base64,omitempty" for:"library"`
	// TMS is the host's time since "started", in ms. WallMS of the Result is the
	// cell's own, and a little more where the host heard of the start late.
	TMS float64 `json:"t_ms" for:"library"`
	// MemoryBytes and CPUMS belong to "stats".
	MemoryBytes *int64   `json:"memory_bytes,omitempty" for:"library"`
	CPUMS       *float64 `json:"cpu_ms,omitempty" for:"library"`
	Result      *Result  `json:"result,omitempty" for:"library"`
}
