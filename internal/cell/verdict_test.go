package cell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// fact is one thing that is known of an ending.
type fact struct {
	name string
	want api.Verdict
	set  func(*run)
}

// facts are in the order of precedence that the contract gives.
var facts = []fact{
	{"setup failed", api.SetupFailed, func(r *run) { r.failed(&stageError{"job", errors.New("lost")}) }},
	{"denied", api.Denied, func(r *run) { r.end.denied = &cellproto.Denied{Arch: 0xc000003e, Number: 101} }},
	{"canceled", api.Canceled, func(r *run) { r.end.die(causeCanceled) }},
	{"closed", api.Interrupted, func(r *run) { r.end.die(causeClosed) }},
	{"oom kill", api.MemoryLimit, func(r *run) { n := int64(1); r.result.OOMKills = &n }},
	{"stdout", api.OutputLimit, func(r *run) { r.out.stdout.over = true }},
	{"stderr", api.OutputLimit, func(r *run) { r.out.stderr.over = true }},
	{"wall", api.Timeout, func(r *run) { r.end.die(causeWall) }},
	{"cpu", api.Timeout, func(r *run) { used := 1000.0; r.result.CPUMS = &used }},
	{"exit 3", api.Error, func(r *run) { r.end.exited = &cellproto.Exited{Status: 3 << 8} }},
	{"SIGSEGV", api.Error, func(r *run) { r.end.exited = &cellproto.Exited{Status: 11} }},
	{"exec failed", api.Error, func(r *run) { r.end.execFailed(unix.ENOENT) }},
	{"exit 0", api.OK, func(r *run) { r.end.exited = &cellproto.Exited{Status: 0} }},
}

// judged makes a run of the facts, in the order given, and returns its result.
func judged(order ...fact) *api.Result {
	l := api.DefaultLimits()
	l.CPUMS = 1000
	r := &run{h: &Host{}, job: &Job{Limits: l}, started: time.Now()}
	r.out = &output{stdout: &stream{}, stderr: &stream{}}
	for _, f := range order {
		f.set(r)
	}
	r.ended = time.Now()
	r.verdict()
	return &r.result
}

// Of every two things known of an ending, in whichever order they came to be
// known, the one that stands first in the contract decides.
//
// proves part of X-04
func TestVerdictPrecedence(t *testing.T) {
	for i, a := range facts {
		if got := judged(a).Verdict; got != a.want {
			t.Errorf("%s alone: %s, want %s", a.name, got, a.want)
		}
		for j, b := range facts[i+1:] {
			if !compatible(a.name, b.name) {
				continue
			}
			want := a.want
			if a.name == "setup failed" && b.name == "oom kill" {
				want = api.MemoryLimit // the program's own files
			}
			if got := judged(a, b).Verdict; got != want {
				t.Errorf("%s, then %s (%d): %s, want %s", a.name, b.name, j, got, want)
			}
			if got := judged(b, a).Verdict; got != want && !first(b.name, a.name) {
				t.Errorf("%s, then %s: %s, want %s", b.name, a.name, got, want)
			}
		}
	}
}

// compatible tells whether two facts can be known of one run.
func compatible(a, b string) bool {
	exits := []string{"exit 3", "SIGSEGV", "exec failed", "exit 0"}
	if a == "wall" && b != "exec failed" {
		return !slices.Contains(exits, b) // its own time decides, see below
	}
	return !(slices.Contains(exits, a) && slices.Contains(exits, b))
}

// first tells whether the earlier fact shuts the later one out: the host ends a
// run for one cause only, and for none once the guest has ended by itself.
func first(earlier, later string) bool {
	causes := []string{"setup failed", "canceled", "closed", "wall"}
	exits := []string{"exit 3", "SIGSEGV", "exit 0"}
	return slices.Contains(causes, later) && (slices.Contains(causes, earlier) || slices.Contains(exits, earlier))
}

// A limit that a program reaches exactly, and one that it passes, on the clocks
// that count: its own wall time and its processor time.
func TestVerdictEdges(t *testing.T) {
	exit := func(wall time.Duration) fact {
		return fact{set: func(r *run) {
			r.started = time.Now().Add(-time.Hour)
			r.end.exited = &cellproto.Exited{WallNS: uint64(wall)}
		}}
	}
	cpu := func(used float64) fact { return fact{set: func(r *run) { r.result.CPUMS = &used }} }
	for _, c := range []struct {
		name  string
		facts []fact
		want  string
	}{
		{"wall not reached", []fact{exit(9999 * time.Millisecond)}, "ok "},
		{"wall reached", []fact{exit(10 * time.Second)}, "ok "},
		{"wall passed", []fact{exit(10*time.Second + 1)}, "timeout wall"},
		{"cpu not reached", []fact{exit(1), cpu(999.9)}, "ok "},
		{"cpu reached", []fact{exit(1), cpu(1000)}, "timeout cpu"},
		{"wall before cpu", []fact{exit(11 * time.Second), cpu(2000)}, "timeout wall"},
		{"silence before the limit", nil, "setup_failed "},
		{"silence after the limit", []fact{{set: func(r *run) { r.started = time.Now().Add(-11 * time.Second) }}}, "timeout wall"},
	} {
		res := judged(c.facts...)
		if got := fmt.Sprintf("%s %s", res.Verdict, res.Cause); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Every wait status has an exit code or the name of a signal, and one that is
// neither is no word of a guest.
func TestVerdictStatus(t *testing.T) {
	for status := range 256 {
		res := judged(fact{set: func(r *run) { r.end.exited = &cellproto.Exited{Status: uint64(status) << 8} }})
		if res.ExitCode == nil || *res.ExitCode != status || res.Signal != "" {
			t.Errorf("exit %d: %+v", status, res)
		}
	}
	names := map[string]bool{}
	for s := 1; s <= 64; s++ {
		res := judged(fact{set: func(r *run) { r.end.exited = &cellproto.Exited{Status: uint64(s) | 0x80} }})
		if res.Verdict != api.Error || !strings.HasPrefix(res.Signal, "SIG") || names[res.Signal] || res.ExitCode != nil {
			t.Errorf("signal %d: %s %q", s, res.Verdict, res.Signal)
		}
		names[res.Signal] = true
	}
	for _, nonsense := range []uint64{0x7f, 0x137f, 0xffff, 1 << 32, 1<<63 | 3<<8, 0x10000} {
		if res := judged(fact{set: func(r *run) { r.end.exited = &cellproto.Exited{Status: nonsense} }}); res.Verdict != api.SetupFailed {
			t.Errorf("status %#x: %s, exit %v, signal %q", nonsense, res.Verdict, res.ExitCode, res.Signal)
		}
	}
}

// A time that init makes up is not longer than what the host has seen.
//
// proves part of H-6
func TestVerdictWallTime(t *testing.T) {
	for _, lie := range []uint64{1 << 63, 1<<64 - 1, 1 << 62, uint64(time.Hour)} {
		res := judged(fact{set: func(r *run) {
			r.started = time.Now().Add(-50 * time.Millisecond)
			r.end.exited = &cellproto.Exited{WallNS: lie}
		}})
		if res.WallMS < 0 || res.WallMS > 1000 {
			t.Errorf("%d ns said, %.0f ms in the result", lie, res.WallMS)
		}
	}
}
