package seccomp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// traced are the programs of a trace, as interpreters.
func traced(t *testing.T, v variant, learn Learn, allowed bool) (base, watch, judge *machine) {
	t.Helper()
	p, err := v.policy.CompileTrace(v.arch, learn, allowed)
	if err != nil {
		t.Fatal(err)
	}
	return newMachine(t, p.Base), newMachine(t, p.Watch), newMachine(t, p.Judge)
}

// everyCall gives f each number with two sets of arguments, and each call of the policy around every boundary.
func everyCall(v variant, f func(nr int, args [6]uint64)) {
	for _, nr := range numbers() {
		f(nr, [6]uint64{})
		f(nr, [6]uint64{1, 2, 3, 4, 5, 6})
	}
	for name, r := range v.policy.rows {
		if nr, ok := Number(v.arch, name); ok {
			for _, args := range calls(r) {
				f(nr, args)
			}
		}
	}
}

// The program by which a trace judges says what the policy says, for every number and around every boundary, but
// for the calls of the learnable list, and those only in a trace that learns. A negative control lets all through.
//
// proves part of H-19
func TestTraceJudgesAsThePolicy(t *testing.T) {
	for _, v := range variants(t) {
		for _, learn := range []Learn{LearnNothing, LearnListed, LearnAll} {
			_, _, judge := traced(t, v, learn, true)
			wrong, learned := 0, map[string]bool{}
			everyCall(v, func(nr int, args [6]uint64) {
				want := value(v.policy.Action(v.arch, nr, args), true)
				name := Name(v.arch, nr)
				switch {
				case learn == LearnAll && want != JudgeAllow:
					want = JudgeLearn
				case learn == LearnListed && Risk(name) != "" && want != JudgeAllow:
					want, learned[name] = JudgeLearn, true
				}
				if got := judge.run(t, v.arch.audit(), nr, args); got != want && wrong < 5 {
					wrong++
					t.Errorf("%s, learn %d: %s (%#x) %#x: %#x, want %#x", v.name, learn, name, nr, args, got, want)
				}
			})
			if learn == LearnListed && len(learned) != len(Risks()) {
				t.Errorf("%s: of the learnable calls only %v can be learnt", v.name, learned)
			}
			for _, foreign := range []uint32{auditI386, auditARM, 0} {
				want := uint32(JudgeKill)
				if learn == LearnAll {
					want = JudgeLearn
				}
				if got := judge.run(t, foreign, 20, [6]uint64{}); got != want {
					t.Errorf("%s, learn %d: a call of %#x: %#x", v.name, learn, foreign, got)
				}
			}
		}
	}
}

// What stands below the listener lets nothing through that the policy refuses, but for the two things that init
// needs to load the other filter, which no guest gets to: there every call is held, or every one that is not allowed.
//
// proves part of H-19
func TestTraceBaseAndWatch(t *testing.T) {
	for _, v := range variants(t) {
		if strings.HasPrefix(v.name, "worker") || strings.HasPrefix(v.name, "sealed") { // which run no program of a caller
			continue
		}
		base, watch, _ := traced(t, v, LearnListed, true)
		_, few, _ := traced(t, v, LearnListed, false)
		unwatched := map[string]bool{}
		everyCall(v, func(nr int, args [6]uint64) {
			name, allowed := Name(v.arch, nr), v.policy.Action(v.arch, nr, args).Kind == Allow
			want := uint32(unix.SECCOMP_RET_TRACE)
			if allowed || name == "seccomp" || name == "ioctl" && args[1] == setNotifFlags {
				want = unix.SECCOMP_RET_ALLOW
			}
			if got := base.run(t, v.arch.audit(), nr, args); got != want {
				t.Errorf("%s: base: %s (%#x) %#x: %#x, want %#x", v.name, name, nr, args, got, want)
			}
			few := few.run(t, v.arch.audit(), nr, args)
			if few == unix.SECCOMP_RET_ALLOW != (allowed && name != "execve") || few != unix.SECCOMP_RET_ALLOW && few != unix.SECCOMP_RET_USER_NOTIF {
				t.Errorf("%s: watch of refused calls: %s (%#x) %#x: %#x", v.name, name, nr, args, few)
			}
			switch got := watch.run(t, v.arch.audit(), nr, args); {
			case got == unix.SECCOMP_RET_ALLOW && allowed && slices.Contains(Unwatched, name):
				unwatched[name] = true
			case got != unix.SECCOMP_RET_USER_NOTIF:
				t.Errorf("%s: watch: %s (%#x): %#x", v.name, name, nr, got)
			}
		})
		if len(unwatched) != len(Unwatched) {
			t.Errorf("%s: only %v are not watched", v.name, unwatched)
		}
		for _, m := range []*machine{watch, few} {
			if got := m.run(t, auditI386, 173, [6]uint64{}); got != unix.SECCOMP_RET_USER_NOTIF {
				t.Errorf("%s: a foreign call is not watched: %#x", v.name, got)
			}
		}
	}
}

// The learnable calls are calls that With would add, each with its risk; none is of the kill class, always denied or
// allowed within limits.
//
// proves part of H-19
func TestLearnableList(t *testing.T) {
	if _, err := learnable(); err != nil {
		t.Fatal(err)
	}
	if len(Risks()) < 10 {
		t.Fatalf("only %v", Risks())
	}
	for _, v := range variants(t) {
		for _, name := range Risks() {
			if !slices.Contains(v.policy.Learnable(), name) {
				t.Errorf("%s: %s is no call that the profile refuses and With would add", v.name, name)
			}
		}
		for _, name := range slices.Concat(v.policy.Denied(), v.policy.Killed(), []string{"read", "ptrace", "socket", "ioctl", "nothing"}) {
			if Risk(name) != "" {
				t.Errorf("%s: %s may be learnt", v.name, name)
			}
		}
	}
	// Watchers of other cells, what the whole host shares or would feel.
	for _, name := range []string{"inotify_init", "inotify_init1", "mincore", "cachestat", "sync", "syncfs", "io_setup", "move_pages", "readahead", "process_madvise"} {
		if Risk(name) != "" {
			t.Errorf("%s reaches beyond the cell and may be learnt", name)
		}
	}
}

// An error in the learnable list is an error of every trace, and makes nothing learnable.
func TestTraceNeedsATable(t *testing.T) {
	p := load(t, "language", Options{})
	if _, err := p.CompileTrace(I386, LearnListed, true); err == nil {
		t.Error("there is a trace for i386")
	}
	if got := fmt.Sprint(Answer{Kind: learnt}); got != "learnt" {
		t.Errorf("%q", got)
	}
	if text := p.String(); strings.Contains(text, "learnt") {
		t.Error("a policy knows of traces")
	}
}
