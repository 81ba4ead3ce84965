package cell

import (
	"errors"
	"math"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/seccomp"
)

// Trace has the system calls of a job counted.
type Trace struct {
	// Learn lets calls of the learnable list through. Otherwise every call is
	// answered as without a trace.
	Learn bool
	// Allowed has the calls that the profile allows counted too.
	Allowed bool
	// Result is filled before Run returns.
	Result api.Trace
}

// traced is the form of a trace that a cell is sealed for; the zero value is none.
type traced struct{ on, learn, allowed bool }

func (t *Trace) kind() traced {
	if t == nil {
		return traced{}
	}
	return traced{true, t.Learn, t.Allowed}
}

// tracePolicy compiles a profile for a traced cell, which is one of a negative
// control if all is let through.
func tracePolicy(p *seccomp.Policy, arch seccomp.Arch, form traced, all bool) (*policy, error) {
	learn := seccomp.LearnNothing
	switch {
	case all:
		learn = seccomp.LearnAll
	case form.learn:
		learn = seccomp.LearnListed
	}
	programs, err := p.CompileTrace(arch, learn, form.allowed)
	if err != nil {
		return nil, err
	}
	return &policy{Policy: p, program: seccomp.Encode(programs.Base), watch: seccomp.Encode(programs.Watch), judge: seccomp.Encode(programs.Judge)}, nil
}

// traceable refuses a trace where another layer is missing: it loosens the filter,
// and the others must stand in for it.
func (h *Host) traceable(t *Trace) error {
	if t == nil {
		return nil
	}
	for _, l := range h.status.Layers {
		if !l.Applied && slices.Contains(requiredLayers, l.Name) {
			return &api.SandboxError{Status: h.status, Reason: "a trace needs every layer: " + l.Name + ": " + l.Detail}
		}
	}
	if h.off("notify") {
		return &api.SandboxError{Status: h.status, Reason: "a trace needs the kernel's notifications"}
	}
	return nil
}

// callCounts are the counts that init of a traced cell has reported.
type callCounts struct {
	all   map[callKey]uint64
	exact bool
}

type callKey struct{ arch, number, answer uint64 }

// maxDoublings is how often a count can be reported.
const maxDoublings = 64

// traceFrames is how many further frames the init of a traced cell may send.
func (r *run) traceFrames() int {
	if r.job.Trace == nil {
		return 0
	}
	return cellproto.MaxTraced*maxDoublings + 1
}

// take adds a report, which is as hostile as all that init says.
func (c *callCounts) take(p []byte, asked *Trace) error {
	if asked == nil {
		return errors.New("an unexpected frame")
	}
	v, err := cellproto.DecodeTraced(p)
	if err != nil {
		return err
	}
	if c.all == nil || v.Final {
		c.all = map[callKey]uint64{}
	}
	for _, k := range v.Calls {
		c.all[callKey{k.Arch, k.Number, k.Answer}] = k.Count
	}
	if len(c.all) > cellproto.MaxTraced {
		return errors.New("too many system calls")
	}
	c.exact = v.Final
	return nil
}

// firstFrame reads init's answer to the job. The guest of a traced cell may have
// made calls before init could say that it started.
func (r *run) firstFrame() (cellproto.Type, []byte, error) {
	for range 1 + r.traceFrames() {
		t, p, err := cellproto.ReadFrame(r.c.control, maxReply)
		if err != nil || t != cellproto.TypeTraced {
			return t, p, err
		}
		if err := r.calls.take(p, r.job.Trace); err != nil {
			return 0, nil, err
		}
	}
	return 0, nil, errors.New("init says too much")
}

// traced adds what this run's calls were to the job's trace.
func (r *run) traced() {
	t := r.job.Trace
	if t == nil {
		return
	}
	pol := r.c.policy.Policy
	step := api.TracedStep{Step: "run", Exact: r.calls.exact, Calls: []api.TracedCall{}}
	if r.job.kind().maker() {
		step.Step = "compile"
	} else {
		t.Result.Profile = r.job.Profile
	}
	if r.end.exec != 0 { // what was counted is of the process that should have become the guest
		r.calls = callCounts{}
		step.Exact = true
	}
	for k, n := range r.calls.all {
		if !t.Allowed && uint32(k.answer) == seccomp.JudgeAllow {
			continue // the execs, which are always reported
		}
		step.Calls = append(step.Calls, tracedCall(pol, k, n))
	}
	slices.SortFunc(step.Calls, func(a, b api.TracedCall) int {
		return strings.Compare(a.Call+"\x00"+a.Answer+a.Errno, b.Call+"\x00"+b.Answer+b.Errno)
	})
	t.Result.Steps = append(t.Result.Steps, step)
	for _, c := range step.Calls {
		if (c.Answer == api.TraceLearnable || c.Learnable) && !slices.Contains(t.Result.Additions, c.Call) {
			t.Result.Additions = append(t.Result.Additions, c.Call)
		}
	}
	slices.Sort(t.Result.Additions)
}

// tracedCall puts one count into words.
func tracedCall(p *seccomp.Policy, k callKey, n uint64) api.TracedCall {
	c := api.TracedCall{Call: "other", Count: int64(min(n, math.MaxInt64))}
	if k.number < 1<<31 && k.arch <= math.MaxUint32 {
		c.Call = seccomp.Describe(uint32(k.arch), int32(k.number))
	}
	c.Reason = p.Reason(c.Call)
	switch answer := uint32(k.answer); answer & unix.SECCOMP_RET_ACTION_FULL {
	case seccomp.JudgeAllow:
		c.Answer, c.Reason = api.TraceAllowed, ""
	case seccomp.JudgeLearn:
		c.Answer = api.TraceLearnable
	case seccomp.JudgeErrno:
		errno := unix.Errno(answer & unix.SECCOMP_RET_DATA)
		c.Answer, c.Errno = api.TraceRefused, unix.ErrnoName(errno)
		c.Learnable = seccomp.Risk(c.Call) != "" && slices.Contains(p.Learnable(), c.Call)
	default:
		c.Answer = api.TraceKilled
	}
	if c.Answer == api.TraceLearnable || c.Learnable {
		c.Reason = seccomp.Risk(c.Call)
	}
	if c.Reason == "" && c.Answer != api.TraceAllowed {
		c.Reason = "no system call of this machine's tables"
	}
	return c
}
