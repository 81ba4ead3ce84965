//go:build linux

package cells

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/matrix"
	"github.com/glovebox-dev/glovebox/redteam"
)

// The table has what it says: thirty machines and more, every kernel, userland
// and variant, and each of these on both architectures where the host can differ.
//
// proves part of T-16 T-20
func TestTable(t *testing.T) {
	all := Table()
	if len(all) < 30 {
		t.Errorf("%d cells", len(all))
	}
	seen := map[string]bool{}
	has := map[string]bool{}
	ciOn := map[string]int{}
	for _, c := range all {
		if err := c.check(); err != nil {
			t.Error(err)
		}
		if seen[c.Name()] {
			t.Errorf("%s is there twice", c.Name())
		}
		seen[c.Name()] = true
		for _, w := range []string{c.Kernel, c.Userland, c.Variant} {
			has[w+" "+c.Arch] = true
		}
		if c.CI {
			ciOn[c.Arch]++
		}
	}
	for _, arch := range matrix.Architectures() {
		for _, w := range slices.Concat(matrix.Names(), matrix.Userlands()) {
			if !has[w+" "+arch] {
				t.Errorf("%s is nowhere on %s", w, arch)
			}
		}
		for _, v := range []string{"full", "no-landlock", "no-userns", "no-seccomp", "hidepid", "cgroup-v1", "hybrid", "delegated", "user", "small-swap"} {
			if !has[v+" "+arch] {
				t.Errorf("%s is nowhere on %s", v, arch)
			}
		}
	}
	for _, v := range Variants() {
		if !has[v.Name+" amd64"] {
			t.Errorf("%s is nowhere on amd64", v.Name)
		}
	}
	if ciOn["amd64"]+ciOn["arm64"] < 6 || ciOn["arm64"] < 1 {
		t.Errorf("CI takes %v", ciOn)
	}
}

// All machines of an architecture together fire the whole battery, but for what a
// machine without a compiler cannot, at whole sandboxes: as root and as a user.
//
// proves part of T-16
func TestTableHasTheBattery(t *testing.T) {
	for _, arch := range matrix.Architectures() {
		fired := map[string]bool{}
		for _, c := range Table() {
			if c.Arch != arch || len(c.lacks()) > 0 {
				continue
			}
			for _, r := range redteam.List(commas(c.Attacks)) {
				fired[r.Attack] = true
			}
		}
		for _, r := range redteam.List("") {
			if !fired[r.Attack] {
				t.Errorf("%s is fired in no whole sandbox on %s", r.Attack, arch)
			}
		}
	}
}

// Where the kernel or the variant takes a layer away, the cell expects it.
func TestLacks(t *testing.T) {
	for _, tt := range []struct {
		c    Cell
		want string
	}{
		{Cell{Kernel: "6.1", Variant: "full"}, ""},
		{Cell{Kernel: "5.10", Variant: "full"}, "landlock"},
		{Cell{Kernel: "5.10", Variant: "no-landlock"}, "landlock"},
		{Cell{Kernel: "5.10", Variant: "no-seccomp"}, "landlock seccomp"},
		{Cell{Kernel: "6.12", Variant: "no-cgroup"}, "cgroup resource_probes"},
	} {
		if got := strings.Join(tt.c.lacks(), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.c.Name(), got, tt.want)
		}
	}
}

func TestPick(t *testing.T) {
	for only, least := range map[string]int{"": 30, "*-arm64-*": 10, "6.1-amd64-bookworm-full": 1} {
		if got, err := Pick(Table(), only, false); err != nil || len(got) < least {
			t.Errorf("%q: %d cells, %v", only, len(got), err)
		}
	}
	if got, err := Pick(Table(), "", true); err != nil || len(got) < 6 || len(got) > 10 {
		t.Errorf("CI: %d cells, %v", len(got), err)
	}
	for _, only := range []string{"[", "nothing"} {
		if _, err := Pick(Table(), only, false); err == nil {
			t.Errorf("%q picks something", only)
		}
	}
}

// Every cell is begun once, the longest first.
func TestLongestFirst(t *testing.T) {
	order := longestFirst(Table())
	if first := Table()[order[0]]; !strings.Contains(first.Tests, "host") {
		t.Errorf("%s is first", first.Name())
	}
	slices.Sort(order)
	for i, n := range order {
		if i != n {
			t.Fatalf("%v is no order of %d cells", order, len(Table()))
		}
	}
}

// layers are those of a host that lacks some.
func layers(lacks ...string) (out []api.Layer) {
	for _, n := range []string{"namespaces", "landlock", "seccomp", "cgroup", "time"} {
		out = append(out, api.Layer{Name: n, Applied: !slices.Contains(lacks, n) && n != "time"})
	}
	return out
}

// printed is an output with an object on stdout.
func printed(t *testing.T, code int, v any) matrix.Output {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return matrix.Output{ExitCode: code, Stdout: b}
}

func refusal(layer string) matrix.Output {
	return matrix.Output{ExitCode: 4, Stderr: []byte("glovebox: the sandbox is not available: " + layer + " does not hold (why)\n")}
}

// good are the outputs of a machine that lacks these layers, in which all is well.
func good(t *testing.T, steps []step, lacks ...string) []matrix.Output {
	t.Helper()
	out := make([]matrix.Output, len(steps))
	report := redteam.Report{Rows: []redteam.Row{{Attack: "a/b", Stopped: true, Through: true}, {Attack: "a/c", NotFired: "needs c"}}}
	for i, s := range steps {
		runs := api.Result{Verdict: api.OK, Evidence: api.Evidence{Layers: layers(lacks...)}}
		switch s.kind {
		case askStatus:
			st := api.Status{Complete: len(lacks) == 0, Layers: layers(lacks...), Kernel: "k", Arch: "amd64", User: "root"}
			out[i] = printed(t, min(len(lacks), 1), st)
		case askRequire, askRedteam:
			if out[i] = printed(t, 0, runs); len(lacks) > 0 {
				out[i] = refusal(lacks[0])
			}
		case askAuto:
			out[i] = printed(t, 0, runs)
		case fire:
			out[i] = printed(t, 0, report)
		case fireLine:
			out[i] = printed(t, 0, report)
			out[i].Stdout = slices.Concat([]byte("=== RUN\nredteam: "), out[i].Stdout, []byte("\n--- PASS\n"))
		case runTests:
			out[i] = matrix.Output{Stdout: []byte("=== RUN   TestA\n--- PASS: TestA (0.01s)\n    --- PASS: TestA/b (0.01s)\nPASS\n")}
		}
	}
	return out
}

var (
	whole   = Cell{Kernel: "6.1", Arch: "amd64", Userland: "bookworm", Variant: "full", Tests: "limits", Attacks: "network"}
	lacking = Cell{Kernel: "6.1", Arch: "amd64", Userland: "bookworm", Variant: "no-landlock", Tests: "limits", Attacks: "network"}
)

// A machine in which all is well holds, and what ran is counted.
func TestJudgeGood(t *testing.T) {
	for _, tt := range []struct {
		c     Cell
		lacks []string
		auto  string
	}{{whole, nil, "runs"}, {lacking, []string{"landlock"}, "runs without landlock"}} {
		steps := tt.c.steps()
		r := tt.c.judge(steps, good(t, steps, tt.lacks...))
		if !r.Good() || r.Tests != 1 || r.Attacks != 1 || r.Stopped != 1 || r.Through != 1 || r.NotFired != 1 || r.Auto != tt.auto {
			t.Errorf("%s: %+v", tt.c.Name(), r)
		}
	}
}

// Each thing that may be wrong with a machine makes it fail, and is said.
//
// proves part of T-16
func TestJudgeBad(t *testing.T) {
	status := func(complete bool, lacks ...string) api.Status {
		return api.Status{Complete: complete, Layers: layers(lacks...)}
	}
	result := func(lacks ...string) api.Result {
		return api.Result{Verdict: api.OK, Evidence: api.Evidence{Layers: layers(lacks...)}}
	}
	report := func(rows ...redteam.Row) redteam.Report { return redteam.Report{Rows: rows} }
	for _, tt := range []struct {
		name string
		c    Cell
		at   kind
		o    matrix.Output
		want string
	}{
		{"no tests", whole, runTests, matrix.Output{Stdout: []byte("testing: warning: no tests to run\nPASS\n")}, "no test ran"},
		{"a test fails", whole, runTests, matrix.Output{ExitCode: 1, Stdout: []byte("--- PASS: TestA (0s)\n--- FAIL: TestB (0s)\n")}, "FAIL: TestB"},
		{"a test skips", whole, runTests, matrix.Output{Stdout: []byte("--- PASS: TestA (0s)\n--- SKIP: TestB (0s)\n")}, "SKIP: TestB"},
		{"a test hangs", whole, runTests, matrix.Output{ExitCode: 137, TimedOut: true}, "longer than"},
		{"a test dies", whole, runTests, matrix.Output{ExitCode: 2, Stdout: []byte("--- PASS: TestA (0s)\npanic: x\n")}, "panic: x"},
		{"no attacks", whole, fire, printed(t, 0, report()), "no attack ran"},
		{"none fired", whole, fire, printed(t, 0, report(redteam.Row{NotFired: "needs python"})), "no attack ran"},
		{"no report", lacking, fireLine, matrix.Output{Stdout: []byte("PASS\n")}, "no report"},
		{"not stopped", whole, fire, printed(t, 1, report(redteam.Row{Attack: "a/b", Through: true, Reason: "got in"})), "got in"},
		{"control stopped", whole, fire, printed(t, 1, report(redteam.Row{Attack: "a/b", Stopped: true})), "through false"},
		{"fire refuses", whole, fire, refusal("landlock"), "no report"},
		{"require refuses what is complete", whole, askRequire, refusal("landlock"), "it does not run"},
		{"require runs what is incomplete", lacking, askRequire, printed(t, 0, result("landlock")), "it does not refuse"},
		{"require names another layer", lacking, askRequire, refusal("seccomp"), "none of the missing layers"},
		{"require fails otherwise", lacking, askRequire, matrix.Output{ExitCode: 125, Stderr: []byte("landlock does not hold")}, "it does not refuse"},
		{"redteam fires", lacking, askRedteam, printed(t, 0, report()), "it does not refuse"},
		{"auto refuses", lacking, askAuto, refusal("landlock"), "it does not run"},
		{"auto hides a layer", lacking, askAuto, printed(t, 0, result()), "the result lacks []"},
		{"auto names another layer", lacking, askAuto, printed(t, 0, result("seccomp")), `the result lacks ["seccomp"]`},
		{"the program fails", whole, askAuto, printed(t, 0, api.Result{Verdict: api.SetupFailed, Evidence: api.Evidence{Layers: layers()}}), "verdict setup_failed"},
		{"status hides a layer", lacking, askStatus, printed(t, 0, status(true)), `missing are [], not ["landlock"]`},
		{"status lacks another", whole, askStatus, printed(t, 1, status(false, "seccomp")), `missing are ["seccomp"]`},
		{"status contradicts itself", lacking, askStatus, printed(t, 0, status(true, "landlock")), "complete is true, and missing"},
		{"status exits with 0", lacking, askStatus, printed(t, 0, status(false, "landlock")), "the exit status 0"},
		{"status says nothing", whole, askStatus, matrix.Output{}, "unexpected end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps := tt.c.steps()
			out := good(t, steps, tt.c.lacks()...)
			i := slices.IndexFunc(steps, func(s step) bool { return s.kind == tt.at })
			out[i] = tt.o
			r := tt.c.judge(steps, out)
			if r.Good() || !strings.Contains(strings.Join(r.Failures, "\n"), tt.want) {
				t.Errorf("failures: %q, want %q", r.Failures, tt.want)
			}
			if Good([]*Result{r}) || !strings.HasPrefix(r.Line(), "FAIL") {
				t.Error("the whole is good")
			}
		})
	}
}

// A user without namespaces is refused by every mode, beside root who has them.
func TestJudgeUser(t *testing.T) {
	c := whole
	c.Variant = "no-userns"
	steps := c.steps()
	outputs := func() []matrix.Output {
		out := good(t, steps)
		for i, s := range steps {
			switch {
			case !s.user:
			case s.kind == askStatus:
				out[i] = printed(t, 1, api.Status{Layers: layers("namespaces", "landlock")})
			default:
				out[i] = refusal("namespaces")
			}
		}
		return out
	}
	if r := c.judge(steps, outputs()); !r.Good() || r.Auto != "runs; user refuses: namespaces" {
		t.Errorf("%+v", r)
	}
	out := outputs()
	out[slices.IndexFunc(steps, func(s step) bool { return s.user && s.kind == askAuto })] = printed(t, 0, api.Result{Verdict: api.OK})
	if r := c.judge(steps, out); r.Good() {
		t.Error("auto runs without namespaces")
	}
}

// No results are no success, and a result that is missing is none either.
func TestGood(t *testing.T) {
	if Good(nil) || Good([]*Result{{}, nil}) || !Good([]*Result{{}}) {
		t.Error("a run without results is good")
	}
}

// The page names each machine with its figures and each layer.
func TestMarkdown(t *testing.T) {
	steps := lacking.steps()
	r := lacking.judge(steps, good(t, steps, "landlock"))
	r.Seconds = 12.3
	var b bytes.Buffer
	date := time.Date(2026, 5, 17, 23, 0, 0, 0, time.UTC)
	if err := Markdown(&b, []*Result{r}, date, 1, 90*time.Second); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2026-05-17", fmt.Sprintf("| %s | k amd64 | root | refuses: landlock | runs without landlock | 1 | 1 | 1 | 1 | 1 | 12 |", lacking.Name()),
		"| machine | namespaces | landlock | seccomp | cgroup | time |", "| yes | **NO** | yes | yes | no |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}
