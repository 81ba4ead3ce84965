package seccomp

import (
	_ "embed"
	"fmt"
	"sort"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

//go:embed learnable.txt
var learnableFile string

// learnable are the calls of learnable.txt, each with what it risks.
var learnable = sync.OnceValues(func() (map[string]string, error) {
	out := map[string]string{}
	for i, line := range strings.Split(learnableFile, "\n") {
		name, risk, found := strings.Cut(line, "#")
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if risk = strings.TrimSpace(risk); !found || risk == "" || out[name] != "" || len(strings.Fields(name)) != 1 {
			return nil, fmt.Errorf("seccomp: learnable.txt:%d: want one new name, # and its risk", i+1)
		}
		out[name] = risk
	}
	return out, nil
})

// Risk is what is risked by adding the call to a profile, "" for a call that no trace lets through.
func Risk(name string) string {
	all, err := learnable()
	if err != nil {
		return "" // which makes it learnable to nobody
	}
	return all[name]
}

// Learn is how much of what the policy refuses a trace lets through.
type Learn int

// The forms of a trace.
const (
	LearnNothing Learn = iota // every call is answered as without the trace
	LearnListed               // the calls of learnable.txt that the policy refuses whatever their arguments
	LearnAll                  // everything: negative controls only
)

// Answers of the program Judge, which no kernel sees.
const (
	JudgeAllow = unix.SECCOMP_RET_ALLOW      // the policy allows the call
	JudgeLearn = unix.SECCOMP_RET_LOG        // it does not, and the trace lets it through
	JudgeErrno = unix.SECCOMP_RET_ERRNO      // and the errno in the lower half
	JudgeKill  = unix.SECCOMP_RET_USER_NOTIF // the cell ends
)

// TracePrograms are what a traced cell is sealed with, in the place of one filter.
type TracePrograms struct {
	// Base is for every thread of init, and so for the guest: what the policy
	// allows, and ENOSYS for the rest, unless Watch says more.
	Base []unix.SockFilter
	// Watch is for the guest and the thread that starts it: a call is held and
	// reported to the listener. execve and seccomp always are.
	Watch []unix.SockFilter
	// Judge is not for the kernel: the listener runs it to find the answer to a call
	// that is held. It is the policy's own filter, but for what is learnt.
	Judge []unix.SockFilter
}

// CompileTrace makes the programs of a trace for X86_64 or Aarch64. With allowed, the calls that the policy
// allows are held too, but for the unwatched ones. The answer to a call that no listener gives is ENOSYS. It
// returns the errors of Compile.
func (p *Policy) CompileTrace(a Arch, learn Learn, allowed bool) (*TracePrograms, error) {
	var t TracePrograms
	var err error
	// To the kernel a notification outranks SECCOMP_RET_TRACE, and the latter is ENOSYS where nobody traces.
	base := &builder{memo: map[node]int{}, kill: unix.SECCOMP_RET_TRACE, refuse: unix.SECCOMP_RET_TRACE}
	if t.Base, err = p.forTracer().compile(a, base); err != nil {
		return nil, err
	}
	listed, err := p.learning(learn)
	if err != nil {
		return nil, err
	}
	judge := &builder{memo: map[node]int{}, kill: JudgeKill}
	if learn == LearnAll {
		judge.kill, judge.refuse = JudgeLearn, JudgeLearn
	}
	if t.Judge, err = listed.compile(a, judge); err != nil {
		return nil, err
	}
	if allowed {
		t.Watch = watchProgram(a)
		return &t, nil
	}
	hold := &builder{memo: map[node]int{}, kill: unix.SECCOMP_RET_USER_NOTIF, refuse: unix.SECCOMP_RET_USER_NOTIF}
	rows := p.copyRows()
	rows["execve"] = &row{name: "execve", last: Answer{Kind: Kill}} // which is held: the guest begins with one
	t.Watch, err = (&Policy{rows: rows}).compile(a, hold)
	return &t, err
}

// Unwatched are the calls that no trace holds: a signal that comes while a call waits for its answer can make it
// return EINTR, and these never do. They are the kernel's own returns from a signal handler and to an interrupted
// call, and futex, whose callers in libc end the process then.
var Unwatched = []string{"rt_sigreturn", "restart_syscall", "futex"}

// watchProgram holds every call but the unwatched ones of the machine's own entry.
func watchProgram(a Arch) []unix.SockFilter {
	b := &builder{memo: map[node]int{}}
	hold := b.ret(unix.SECCOMP_RET_USER_NOTIF)
	next := hold
	for _, name := range Unwatched {
		if n, ok := Number(a, name); ok {
			next = b.jump(unix.BPF_JEQ, uint32(n), b.ret(unix.SECCOMP_RET_ALLOW), next)
		}
	}
	next = b.load(offNumber, next)
	next = b.jump(unix.BPF_JEQ, a.audit(), next, hold)
	b.load(offArch, next)
	return b.program()
}

// setNotifFlags is SECCOMP_IOCTL_NOTIF_SET_FLAGS.
const setNotifFlags = 0x40082104

// forTracer allows what the thread that listens needs beside a guest's calls, and only init has: it is laid
// over the guest's own answers by Watch.
func (p *Policy) forTracer() *Policy {
	rows := p.copyRows()
	rows["seccomp"] = &row{name: "seccomp", last: Answer{Kind: Allow}} // to load Watch after Base
	ioctl := *rows["ioctl"]
	quick := branch{conds: []cond{{arg: 1, width: 32, op: opIs, mask: widthMask(32), values: []uint64{setNotifFlags}}}, answer: Answer{Kind: Allow}}
	ioctl.branches = append([]branch{quick}, ioctl.branches...)
	rows["ioctl"] = &ioctl
	return &Policy{rows: rows}
}

// learning marks the calls that a trace lets through.
func (p *Policy) learning(learn Learn) (*Policy, error) {
	rows := p.copyRows()
	listed, err := learnable()
	if err != nil {
		return nil, err
	}
	if learn == LearnListed {
		for _, name := range p.Learnable() {
			if listed[name] != "" {
				rows[name] = &row{name: name, last: Answer{Kind: learnt}}
			}
		}
	}
	return &Policy{rows: rows}, nil
}

func (p *Policy) copyRows() map[string]*row {
	rows := make(map[string]*row, len(p.rows))
	for n, r := range p.rows {
		rows[n] = r
	}
	return rows
}

// Allowed lists, sorted, the calls that have at least one form which the policy allows.
func (p *Policy) Allowed() []string {
	return p.pick(func(r *row) bool {
		for _, b := range r.branches {
			if b.answer.Kind == Allow {
				return true
			}
		}
		return r.last.Kind == Allow
	})
}

// Risks lists, sorted, the calls that a trace may let through.
func Risks() []string {
	all, _ := learnable()
	out := make([]string, 0, len(all))
	for name := range all {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}
