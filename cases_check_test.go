package glovebox_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// Each file has one entry, each entry a file, in the same order; what is not
// run says why.
func TestCasesTable(t *testing.T) {
	entries, err := os.ReadDir(caseDir)
	if err != nil {
		t.Fatal(err)
	}
	var files, listed []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	for _, e := range caseTable {
		listed = append(listed, e.file)
		if given := []bool{e.want.verdict != "", e.script != nil, e.later != ""}; len(slices.DeleteFunc(given, func(b bool) bool { return !b })) != 1 {
			t.Errorf("%s: want one of an expectation, a script and a reason", e.file)
		}
		if (e.later != "") != (e.issue != 0) {
			t.Errorf("%s: a reason and an issue go together", e.file)
		}
	}
	if !slices.Equal(files, listed) {
		t.Errorf("files and entries differ:\n%v\n%v", files, listed)
	}
}

// What is not run is exactly this; a new entry here needs a reason that holds.
func TestCasesLater(t *testing.T) {
	var later []string
	for _, e := range caseTable {
		if e.later != "" {
			later = append(later, fmt.Sprintf("%s: %s, issue %d", e.file, e.later, e.issue))
		}
	}
	want := []string{
		"200-nested-docker.json: needs docker, issue 4",
	}
	if !slices.Equal(later, want) {
		t.Errorf("not run: %q, want %q", later, want)
	}
	for _, s := range later {
		t.Log(s)
	}
}

// The table's comparison sees every kind of wrong expectation.
func TestCasesComparison(t *testing.T) {
	r, bad := (&caseBox{t, box(t)}).try(python("import sys; print('out'); sys.stderr.write('err\\n'); sys.exit(3)"))
	right := caseWant{verdict: api.Error, exit: 3, stdout: "out\n", stderrPattern: `e.r\n`, wall: between{1, 10_000}, peak: between{1, 256 * mebi}}
	if bad = append(bad, right.diff(r)...); len(bad) > 0 {
		t.Errorf("the right expectation fails: %q", bad)
	}
	for name, change := range map[string]func(w *caseWant){
		"verdict": func(w *caseWant) { w.verdict = api.OK }, "cause": func(w *caseWant) { w.cause = api.CauseWall },
		"exit": func(w *caseWant) { w.exit = 4 }, "no exit": func(w *caseWant) { w.exit = noExit },
		"signal": func(w *caseWant) { w.signal = "SIGTERM" }, "syscall": func(w *caseWant) { w.syscall = "bpf" },
		"stdout": func(w *caseWant) { w.stdout = "out" }, "stdout pattern": func(w *caseWant) { w.stdoutPattern = "out" },
		"stderr": func(w *caseWant) { w.stderrPattern = "" }, "cut": func(w *caseWant) { w.cut.Stderr = true },
		"oom": func(w *caseWant) { w.oom = true }, "forks": func(w *caseWant) { w.forks = true },
		"wall": func(w *caseWant) { w.wall = between{10_001, 20_000} }, "cpu": func(w *caseWant) { w.cpu = between{10_001, 20_000} },
		"peak": func(w *caseWant) { w.peak = between{1, 2} },
	} {
		wrong := right
		change(&wrong)
		if got := wrong.diff(r); len(got) != 1 {
			t.Errorf("a wrong %s: %q, want one difference", name, got)
		}
	}
}

// What is checked of every run fails when it should.
func TestCasesAlways(t *testing.T) {
	good := func() *glovebox.Result {
		r, bad := (&caseBox{t, box(t)}).try(python("print('out')"))
		if len(bad) > 0 {
			t.Errorf("a plain run fails: %q", bad)
		}
		return r
	}
	events := func(r *glovebox.Result, types ...string) []glovebox.Event {
		var all []glovebox.Event
		for _, typ := range types {
			all = append(all, glovebox.Event{Type: typ, Stream: "stdout", Data: "out\n", Result: r})
		}
		return all
	}
	r := good()
	if bad := caseEvents(r, events(r, "started", "chunk", "finished")); len(bad) > 0 {
		t.Errorf("good events: %q", bad)
	}
	for _, types := range [][]string{nil, {"started", "chunk"}, {"started", "chunk", "finished", "finished"}, {"started", "finished"},
		{"started", "chunk", "chunk", "finished"}, {"chunk", "started", "finished"}} {
		if bad := caseEvents(r, events(r, types...)); len(bad) == 0 {
			t.Errorf("events %v pass", types)
		}
	}
	for i := range caseLayers {
		r := good()
		r.Evidence.Layers = slices.DeleteFunc(r.Evidence.Layers, func(l glovebox.Layer) bool { return l.Name == caseLayers[i] })
		if bad := caseEvidence(r); len(bad) != 1 {
			t.Errorf("without evidence of %s: %q", caseLayers[i], bad)
		}
	}
	r.Verdict = api.SetupFailed
	if bad := caseEvidence(r); len(bad) != 1 {
		t.Errorf("setup_failed: %q", bad)
	}
	if bad := caseBounds(r, glovebox.Limits{WallMS: 1000}, 3*time.Second+time.Millisecond*time.Duration(r.QueueMS+r.SetupMS+2)); len(bad) != 1 {
		t.Errorf("a late end: %q", bad)
	}
	if bad := caseBounds(r, glovebox.Limits{MemoryBytes: 1}, 0); len(bad) != 1 {
		t.Errorf("a peak above the limit: %q", bad)
	}
	r.Stdout = "\xff"
	if bad := caseJSON(r); len(bad) != 1 {
		t.Errorf("bytes that JSON cannot hold: %q", bad)
	}
}

// A process of a run is found on the host while it lives, and only then.
func TestCasesProcesses(t *testing.T) {
	mark := newCaseMark()
	r := caseStarted(t, box(t), "echo said; sleep 600", mark)
	if n := len(caseProcesses(t, caseMark+"="+mark)); n == 0 {
		t.Error("a living process is not found")
	}
	if len(caseGroups(t, box(t))) == 0 {
		t.Error("the groups of a living Box are not found")
	}
	r.Kill()
	if res, err := r.Wait(); err != nil || res.Verdict != api.Canceled {
		t.Errorf("%+v, %v", res, err)
	}
	if left := caseProcesses(t, caseMark+"="+mark); len(left) > 0 {
		t.Errorf("processes %v outlived the run", left)
	}
}

// A guest that copies the marks of a verdict, its exit code or its signal, is
// an error like any other; TestCases has the guests that earn each verdict, and
// this one those that need the caller for it.
//
// proves X-04
func TestCasesFakes(t *testing.T) {
	b, err := glovebox.New(options())
	if err != nil {
		t.Fatal(err)
	}
	c := &caseBox{t, b}
	for _, code := range []int{1, 120, 121, 122, 123, 124, 125, 126, 127, 130, 134, 137, 139, 143, 152, 153, 159, 255} {
		c.run(caseBash(fmt.Sprintf("exit %d", code)), caseWant{verdict: api.Error, exit: code})
	}
	for _, name := range []string{"SIGHUP", "SIGKILL", "SIGSEGV", "SIGTERM", "SIGXCPU", "SIGXFSZ", "SIGSYS", "SIGPIPE"} {
		c.run(caseBash("kill -"+name+" $$"), caseWant{verdict: api.Error, exit: noExit, signal: name})
	}
	lies := `echo '{"verdict":"memory_limit","oom_kills":1}'; echo 'Killed' >&2`
	c.run(caseBash(lies), caseWant{verdict: api.OK, stdout: "{\"verdict\":\"memory_limit\",\"oom_kills\":1}\n", stderr: "Killed\n"})
	for _, end := range []struct {
		verdict api.Verdict
		by      func(r *glovebox.Running) error
	}{
		{api.Canceled, func(r *glovebox.Running) error { r.Kill(); return nil }},
		{api.Interrupted, func(*glovebox.Running) error { return b.Close() }},
	} {
		r := caseStarted(t, b, "echo said; sleep 600", newCaseMark())
		if err := end.by(r); err != nil {
			t.Error(err)
		}
		res, err := r.Wait()
		if err != nil {
			t.Fatal(err)
		}
		want := caseWant{verdict: end.verdict, exit: noExit, stdout: "said\n"}
		for _, s := range slices.Concat(want.diff(res), caseEvidence(res), caseJSON(res)) {
			t.Error(s)
		}
	}
}

// caseStarted starts a program that says something, and waits until it did.
func caseStarted(t *testing.T, b *glovebox.Box, source, mark string) *glovebox.Running {
	t.Helper()
	said := make(chan struct{}, 1)
	p := caseBash(source)
	p.Env, p.Limits.WallMS = map[string]string{caseMark: mark}, 600_000
	r, err := b.Start(context.Background(), p, glovebox.WithEvents(func(e glovebox.Event) {
		if e.Type == "chunk" {
			said <- struct{}{}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	<-said
	return r
}
