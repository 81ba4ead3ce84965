//go:build linux

package cells

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/matrix"
	"github.com/glovebox-dev/glovebox/redteam"
)

// Result is what came of a cell.
type Result struct {
	Cell    string `json:"cell"`
	Release string `json:"release"` // of the kernel that ran
	Machine string `json:"machine"` // its architecture
	User    string `json:"user"`    // root, or the ordinary user's status

	// Layers says for each whether it holds.
	Layers []api.Layer `json:"layers"`
	// Require and Auto are "runs" or "refuses", and what the refusal names.
	Require string `json:"require"`
	Auto    string `json:"auto"`

	Tests    int      `json:"tests"`   // that passed
	Attacks  int      `json:"attacks"` // that were fired
	Stopped  int      `json:"stopped"`
	Through  int      `json:"through"`   // controls
	NotFired int      `json:"not_fired"` // that this machine is not for
	Fired    []string `json:"fired"`

	Steps    []Step   `json:"steps"`
	Seconds  float64  `json:"seconds"`
	Failures []string `json:"failures"` // empty if all is well
}

// Step is a program that ran in a cell.
type Step struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
}

// Good tells whether the cell holds.
func (r *Result) Good() bool { return len(r.Failures) == 0 }

// fail notes what is wrong.
func (r *Result) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// judge makes a result of what the programs of a cell printed.
func (c Cell) judge(steps []step, outputs []matrix.Output) *Result {
	v, _ := find(c.Variant)
	r := &Result{Cell: c.Name(), Layers: []api.Layer{}, Fired: []string{}, Failures: []string{}}
	r.agree(steps, outputs, false, c.lacks(), v.Refuses)
	if len(v.UserLacks) > 0 {
		lacks := slices.Clone(v.UserLacks)
		for _, l := range c.lacks() {
			lacks = append(lacks, l)
		}
		r.agree(steps, outputs, true, lacks, true)
	}
	for i, s := range steps {
		before := len(r.Failures)
		var err error
		switch s.kind {
		case fire:
			err = r.report(outputs[i].Stdout)
		case fireLine:
			err = r.report(reportLine(outputs[i].Stdout))
		case runTests:
			err = r.tests(string(outputs[i].Stdout) + string(outputs[i].Stderr))
		}
		if end := ended(s, outputs[i]); end != nil && (len(r.Failures) == before || s.kind == runTests) {
			err = errors.Join(err, end) // the rows of a report say more
		}
		if err != nil {
			r.fail("%s: %v", s.what, err)
		}
	}
	if r.Tests == 0 {
		r.fail("no test ran")
	}
	if r.Attacks == 0 {
		r.fail("no attack ran")
	}
	return r
}

// ended tells how a program ended that should have ended well. Those that ask
// may refuse; agree looks at how.
func ended(s step, o matrix.Output) error {
	switch {
	case o.Err != "":
		return errors.New(o.Err)
	case o.TimedOut:
		return fmt.Errorf("it took longer than %v: %s", s.Limit(), tail(o))
	case o.Cut:
		return errors.New("it printed too much")
	case o.Signal != "":
		return fmt.Errorf("it ended with %s", o.Signal)
	case o.ExitCode != 0 && slices.Contains([]kind{fire, fireLine, runTests}, s.kind):
		return fmt.Errorf("exit status %d: %s", o.ExitCode, tail(o))
	}
	return nil
}

// tail is the end of what a program printed, without what went well.
func tail(o matrix.Output) string {
	var keep []string
	for line := range strings.Lines(string(o.Stdout) + string(o.Stderr)) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "===") && !strings.Contains(line, "--- PASS") && !strings.HasPrefix(line, "{") && !strings.HasPrefix(line, "redteam: {") {
			keep = append(keep, line)
		}
	}
	if len(keep) > 20 {
		keep = keep[len(keep)-20:]
	}
	return strings.Join(keep, "\n")
}

// reportPrefix begins the line with the report in the output of a test.
const reportPrefix = "redteam: "

func reportLine(out []byte) []byte {
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, reportPrefix); ok {
			return []byte(rest)
		}
	}
	return nil
}

// report adds the report of a battery.
func (r *Result) report(text []byte) error {
	var b redteam.Report
	if err := json.Unmarshal(text, &b); err != nil {
		return fmt.Errorf("no report: %w", err)
	}
	for _, row := range b.Rows {
		switch {
		case row.NotFired != "":
			r.NotFired++
			continue
		case !row.Good():
			r.fail("%s: stopped %v, control got through %v: %s", row.Attack, row.Stopped, row.Through, row.Reason)
		}
		r.Attacks++
		r.Fired = append(r.Fired, row.Attack)
		if row.Stopped {
			r.Stopped++
		}
		if row.Through {
			r.Through++
		}
	}
	return nil
}

var (
	passed = regexp.MustCompile(`(?m)^--- PASS: `)
	failed = regexp.MustCompile(`(?m)^\s*--- (?:FAIL|SKIP): (\S+)`)
)

// tests adds what a test program printed. One in which nothing ran has failed.
func (r *Result) tests(out string) error {
	for _, m := range failed.FindAllStringSubmatch(out, -1) {
		r.fail("%s", m[0])
	}
	n := len(passed.FindAllString(out, -1))
	r.Tests += n
	if n == 0 {
		return errors.New("no test ran")
	}
	return nil
}

// seconds of a duration, to a tenth.
func seconds(d time.Duration) float64 {
	return float64(d.Round(100*time.Millisecond).Milliseconds()) / 1000
}
