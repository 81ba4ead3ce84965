package api

// Trace is which system calls a traced program made, and what each was answered.
type Trace struct {
	// Profile is the name of the list in force, additions of the host included.
	Profile string `json:"profile" for:"library"`
	// Steps are the compiler's, if there was one, and the program's.
	Steps []TracedStep `json:"steps" for:"library"`
	// Additions are the learnable calls that were used: what a host could add to
	// the profile, each at the risk that its Reason names. A program that goes on
	// without a call does not need it.
	Additions []string `json:"additions" for:"library"`
}

// TracedStep is what one process tree did, its calls in order of name.
type TracedStep struct {
	// Step is "compile" or "run".
	Step string `json:"step" for:"library"`
	// Exact is false if the step was ended from outside, by a limit or the caller:
	// each count may then be as little as half of the truth.
	Exact bool         `json:"exact" for:"library"`
	Calls []TracedCall `json:"calls" for:"library"`
}

// Answers to a traced call.
const (
	TraceAllowed   = "allowed"   // the profile allows it; only counted if that was asked
	TraceLearnable = "learnable" // the profile refuses it, this trace let it through
	TraceRefused   = "refused"   // it got Errno, as without a trace
	TraceKilled    = "killed"    // of the kill class: it ended the cell, as without a trace
)

// TracedCall is one kind of call with one answer.
type TracedCall struct {
	// Call is the name, with "i386:" or "x32:" before it for a foreign entry of the
	// machine, the number for a call that no table has, and "other" for all further
	// numbers together when there are very many.
	Call  string `json:"call" for:"library"`
	Count int64  `json:"count" for:"library"`
	// Answer is one of the constants above, Errno the name of the errno that a
	// refused call got.
	Answer string `json:"answer" for:"library"`
	Errno  string `json:"errno,omitempty" for:"library"`
	// Learnable says of a call refused under a trace that lets nothing through that
	// another would have let it through.
	Learnable bool `json:"learnable,omitempty" for:"library"`
	// Reason is why a call that is not allowed is refused; of a learnable one, what
	// is risked by adding it.
	Reason string `json:"reason,omitempty" for:"library"`
}
