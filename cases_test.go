package glovebox_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// caseDir holds programs that broke systems like this one, one complaint each.
const caseDir = "testdata/cases"

// caseEntry says what becomes of one file of caseDir. It has a want, or a
// script, or the reason why it is not run.
type caseEntry struct {
	file    string
	limits  glovebox.Limits
	network string
	stdin   string
	want    caseWant
	// times is how often make soak runs the file; zero is once. The share of
	// caseShare is run every day.
	times int
	// also looks further after the file's own run.
	also func(c *caseBox, r *glovebox.Result)
	// script runs a file that is no program, or one that needs more than one run.
	script func(c *caseBox, file []byte)
	// later is what a file needs that is not there, and issue where it will be run.
	later string
	issue int
}

// caseWant is how a run must end. Where a field has a pattern, the whole text
// must match it; a counter that is not named must be zero.
type caseWant struct {
	verdict         api.Verdict
	cause           string
	exit            int // noExit when the program did not exit by itself
	signal, syscall string
	stdout          string
	stdoutPattern   string
	stderr          string
	stderrPattern   string
	cut             api.Truncated
	oom, forks      bool    // oom kills, refused forks
	wall, cpu       between // milliseconds
	peak            between // bytes
}

// noExit stands for the missing exit code of a program that was ended.
const noExit = -1

// between is a range; the zero value is any number.
type between struct{ low, high float64 }

func (b between) holds(v float64) bool { return b == between{} || v >= b.low && v <= b.high }

// diff lists what a result has otherwise than wanted.
func (w *caseWant) diff(r *glovebox.Result) []string {
	var bad []string
	say := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	exit := noExit
	if r.ExitCode != nil {
		exit = *r.ExitCode
	}
	say(r.Verdict == w.verdict, "verdict %q, want %q (%s %s)", r.Verdict, w.verdict, r.Stage, r.Message)
	say(r.Cause == w.cause, "cause %q, want %q", r.Cause, w.cause)
	say(exit == w.exit, "exit code %d, want %d", exit, w.exit)
	say(r.Signal == w.signal, "signal %q, want %q", r.Signal, w.signal)
	say(r.Syscall == w.syscall, "syscall %q, want %q", r.Syscall, w.syscall)
	say(r.Truncated == w.cut, "truncated %+v, want %+v", r.Truncated, w.cut)
	bad = append(bad, caseDiffText("stdout", caseRawText(r.Stdout, r.StdoutBase64), w.stdout, w.stdoutPattern)...)
	bad = append(bad, caseDiffText("stderr", caseRawText(r.Stderr, r.StderrBase64), w.stderr, w.stderrPattern)...)
	if r.Verdict == api.CompileError { // the program never ran
		return bad
	}
	if r.OOMKills == nil || r.PidsMaxHits == nil || r.CPUMS == nil || r.PeakBytes == nil {
		return append(bad, fmt.Sprintf("a counter is missing: %v", r.Warnings))
	}
	say(*r.OOMKills > 0 == w.oom, "%d oom kills, want some: %v", *r.OOMKills, w.oom)
	say(*r.PidsMaxHits > 0 == w.forks, "%d refused forks, want some: %v", *r.PidsMaxHits, w.forks)
	say(w.wall.holds(r.WallMS), "wall %.1f ms, want %v", r.WallMS, w.wall)
	say(w.cpu.holds(*r.CPUMS), "cpu %.1f ms, want %v", *r.CPUMS, w.cpu)
	say(w.peak.holds(float64(*r.PeakBytes)), "peak %d bytes, want %.0f", *r.PeakBytes, w.peak)
	return bad
}

func caseDiffText(name, got, want, pattern string) []string {
	if pattern == "" && got == want {
		return nil
	}
	if pattern != "" {
		if regexp.MustCompile(`\A(?:` + pattern + `)\z`).MatchString(got) {
			return nil
		}
		want = pattern
	}
	return []string{fmt.Sprintf("%s %s, want %s", name, caseShown(got), caseShown(want))}
}

// caseShown quotes a text and shortens a long one.
func caseShown(s string) string {
	if len(s) > 2000 {
		return fmt.Sprintf("%q… (%d bytes)", s[:1000], len(s))
	}
	return strconv.Quote(s)
}

// caseRawText is the bytes of a stream of a result.
func caseRawText(text, encoded string) string {
	if encoded == "" {
		return text
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "not base64: " + encoded
	}
	return string(b)
}

// caseBox runs the programs of one test in a Box.
type caseBox struct {
	*testing.T
	box *glovebox.Box
}

// caseMark is the variable of the environment by which a process of a run is
// known on the host. Its values begin with the number of this process, so that
// two runs of the tests do not find each other's.
const caseMark = "CASE_MARK"

func newCaseMark() string { return fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()) }

// run runs a program to its end and checks it against what is wanted, and
// against what holds for every run.
func (c *caseBox) run(p glovebox.Program, w caseWant) *glovebox.Result {
	c.Helper()
	r, bad := c.try(p)
	for _, s := range append(w.diff(r), bad...) {
		c.Error(s)
	}
	return r
}

// try runs a program to its end and lists what does not hold that holds for
// every run.
func (c *caseBox) try(p glovebox.Program) (*glovebox.Result, []string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	mark := newCaseMark()
	p.Env = maps.Clone(p.Env)
	if p.Env == nil {
		p.Env = map[string]string{}
	}
	p.Env[caseMark] = mark
	var events []glovebox.Event
	begin := time.Now()
	running, err := c.box.Start(ctx, p, glovebox.WithEvents(func(e glovebox.Event) { events = append(events, e) }))
	if err != nil {
		c.Fatal(err)
	}
	r, err := running.Wait()
	if err != nil {
		c.Fatal(err)
	}
	took := time.Since(begin)
	bad := slices.Concat(caseEvents(r, events), caseEvidence(r), caseJSON(r), caseBounds(r, p.Limits, took))
	if left := caseProcesses(c, caseMark+"="+mark); len(left) > 0 {
		bad = append(bad, fmt.Sprintf("processes %v outlived the run", left))
	}
	return r, bad
}

// caseEvents checks the events of a run: one beginning, one end, and between
// them the same output as in the result, no character of it split.
func caseEvents(r *glovebox.Result, events []glovebox.Event) []string {
	var bad []string
	count := map[string]int{}
	streams := map[string]*strings.Builder{"stdout": {}, "stderr": {}}
	for _, e := range events {
		count[e.Type]++
		if e.Type == "chunk" {
			streams[e.Stream].WriteString(caseRawText(e.Data, e.Base64))
			if r.StdoutBase64 == "" && r.StderrBase64 == "" && e.Base64 != "" {
				bad = append(bad, "a chunk of text came as base64")
			}
		}
	}
	began := "started"
	if r.Compile != nil {
		if events[0].Type != "compiled" || events[0].Compile == nil || count["compiled"] != 1 {
			bad = append(bad, "the compiler is not the first event")
		}
		events = events[1:]
	}
	if r.Verdict == api.CompileError {
		began, count["started"] = "finished", count["started"]+1
	}
	if count["started"] != 1 || count["finished"] != 1 {
		return append(bad, fmt.Sprintf("events %v, want one started and one finished", count))
	}
	if last := events[len(events)-1]; events[0].Type != began || last.Type != "finished" || last.Result.ID != r.ID {
		bad = append(bad, "the events are not in order")
	}
	bad = append(bad, caseDiffText("streamed stdout", streams["stdout"].String(), caseRawText(r.Stdout, r.StdoutBase64), "")...)
	return append(bad, caseDiffText("streamed stderr", streams["stderr"].String(), caseRawText(r.Stderr, r.StderrBase64), "")...)
}

// caseLayers are those that every result must name as holding.
var caseLayers = []string{"namespaces", "root", "proc", "landlock", "seccomp", "cgroup", "rlimits", "privileges", "self_test"}

func caseEvidence(r *glovebox.Result) []string {
	var bad []string
	held := map[string]bool{}
	for _, l := range r.Evidence.Layers {
		held[l.Name] = l.Applied
	}
	for _, name := range caseLayers {
		if !held[name] {
			bad = append(bad, "no evidence of the layer "+name)
		}
	}
	if e := r.Evidence; e.Sandbox != "require" || e.PolicyHash == "" || e.Probes == 0 || e.Kernel == "" {
		bad = append(bad, fmt.Sprintf("evidence is incomplete: sandbox %q, policy %q, %d probes, kernel %q", e.Sandbox, e.PolicyHash, e.Probes, e.Kernel))
	}
	if r.Verdict == api.SetupFailed {
		bad = append(bad, "setup_failed at "+r.Stage+": "+r.Message)
	}
	return bad
}

// caseJSON wants a result that is the same after it went through JSON.
func caseJSON(r *glovebox.Result) []string {
	b, err := json.Marshal(r)
	if err != nil {
		return []string{err.Error()}
	}
	var back glovebox.Result
	if err := json.Unmarshal(b, &back); err != nil {
		return []string{err.Error()}
	}
	if !reflect.DeepEqual(&back, r) {
		return []string{"the result is another one after JSON"}
	}
	return nil
}

// caseBounds wants the run settled two seconds after its wall limit at the
// latest, and its memory never above the limit.
func caseBounds(r *glovebox.Result, l glovebox.Limits, took time.Duration) []string {
	var bad []string
	l = l.Over(api.DefaultLimits())
	ran := float64(took)/float64(time.Millisecond) - r.QueueMS - r.SetupMS
	if r.Compile != nil {
		ran -= r.Compile.WallMS + 2000 // which has limits of its own
	}
	if limit := float64(l.WallMS) + 2000; ran > limit {
		bad = append(bad, fmt.Sprintf("settled after %.0f ms, want at most %.0f", ran, limit))
	}
	if r.PeakBytes != nil && *r.PeakBytes > l.MemoryBytes {
		bad = append(bad, fmt.Sprintf("peak %d bytes, above the limit of %d", *r.PeakBytes, l.MemoryBytes))
	}
	return bad
}

// caseProcesses finds the processes of this host that have a text in their
// arguments or environment. Its reader is not among them.
func caseProcesses(t testing.TB, text string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, name := range []string{"environ", "cmdline"} {
			b, err := os.ReadFile(filepath.Join("/proc", e.Name(), name))
			if err == nil && strings.Contains(string(b), text) {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// caseGroups lists the directories of control groups that this process made, for
// all of its Boxes, as a Box's status tells where they are.
func caseGroups(t testing.TB, b *glovebox.Box) []string { return caseGroupsOf(t, b, os.Getpid()) }

func caseGroupsOf(t testing.TB, b *glovebox.Box, pid int) []string {
	t.Helper()
	var found []string
	for _, l := range b.Status().Layers {
		if l.Name != "cgroup" {
			continue
		}
		for _, m := range regexp.MustCompile(`in (/[^,;]*/glovebox)`).FindAllStringSubmatch(l.Detail, -1) {
			dirs, err := filepath.Glob(fmt.Sprintf("%s/i%d-*", m[1], pid))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, dirs...)
		}
	}
	return found
}

// program makes a program of a file.
func (e *caseEntry) program(t testing.TB, source string) glovebox.Program {
	t.Helper()
	var p glovebox.Program
	switch filepath.Ext(e.file) {
	case ".py":
		p = python(source)
	case ".sh":
		p = glovebox.Program{Language: "bash", Source: source}
	case ".js":
		p = glovebox.Program{Language: "node", Source: source}
	case ".c":
		p = cProgram(t, source, "-pthread")
	default:
		t.Fatalf("%s is no program", e.file)
	}
	p.Limits, p.Network, p.Stdin = e.limits, e.network, []byte(e.stdin)
	return p
}

// many calls f n times, a few at once.
func (c *caseBox) many(n, atOnce int, f func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			f(i)
			<-slots
		})
	}
	wg.Wait()
}

func (e *caseEntry) test(c *caseBox) {
	file, err := os.ReadFile(filepath.Join(caseDir, e.file))
	if err != nil {
		c.Fatal(err)
	}
	if e.script != nil {
		e.script(c, file)
		return
	}
	e.repeat(c, string(file), max(e.times/caseShare, 1))
}

// caseShare is the part of a file's runs that TestCases does; TestSoakCases does all.
const caseShare = 5

// repeat runs a program of caseDir so many times.
func (e *caseEntry) repeat(c *caseBox, file string, times int) {
	p := e.program(c, file)
	c.many(times, 4, func(int) {
		r := c.run(p, e.want)
		if e.also != nil {
			e.also(c, r)
		}
	})
}

// Every file ends exactly as the table says, whatever it does to get out of
// its limits or to be taken for something else; and when its Box is closed
// nothing of it is on the host.
//
// proves X-03 X-06 O-10 O-24
func TestCases(t *testing.T) {
	// What 075 looks for.
	if err := os.Setenv("GLOVEBOX_CANARY", "s3cr3t"); err != nil {
		t.Fatal(err)
	}
	defer os.Unsetenv("GLOVEBOX_CANARY")
	others := caseGroups(t, box(t))
	b, err := glovebox.New(options())
	if err != nil {
		t.Fatal(err)
	}
	own := slices.DeleteFunc(caseGroups(t, b), func(dir string) bool { return slices.Contains(others, dir) })
	if len(own) == 0 {
		t.Error("this Box has no control groups")
	}
	t.Run("all", func(t *testing.T) {
		for i := range caseTable {
			e := &caseTable[i]
			if e.later != "" {
				continue
			}
			t.Run(strings.TrimSuffix(e.file, filepath.Ext(e.file)), func(t *testing.T) {
				t.Parallel()
				e.test(&caseBox{t, b})
			})
		}
	})
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for _, dir := range own {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left after Close", dir)
		}
	}
	if left := caseProcesses(t, fmt.Sprintf("%s=%d-", caseMark, os.Getpid())); len(left) > 0 {
		t.Errorf("processes %v are left after Close", left)
	}
}
