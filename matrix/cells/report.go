//go:build linux

package cells

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Line is a result in one line, and a line for each failure.
func (r *Result) Line() string {
	word := "ok  "
	if !r.Good() {
		word = "FAIL"
	}
	s := fmt.Sprintf("%s %-36s %s %s, require %s, auto %s, %d tests, %d attacks, %d stopped, %d controls through, %.0f s",
		word, r.Cell, r.Release, r.Machine, r.Require, r.Auto, r.Tests, r.Attacks, r.Stopped, r.Through, r.Seconds)
	for _, f := range r.Failures {
		s += "\n       " + strings.ReplaceAll(f, "\n", "\n       ")
	}
	return s
}

// JSON writes the results as one object.
func JSON(w io.Writer, results []*Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(struct {
		Cells []*Result `json:"cells"`
		Good  bool      `json:"good"`
	}{results, Good(results)})
}

// Good tells whether there are results and all of them hold.
func Good(results []*Result) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(r *Result) bool { return r == nil || !r.Good() })
}

// columns are the layers in the order of the first result that has them.
func columns(results []*Result) (out []string) {
	for _, r := range results {
		for _, l := range r.Layers {
			if !slices.Contains(out, l.Name) {
				out = append(out, l.Name)
			}
		}
	}
	return out
}

// layer says whether a layer holds in a cell: yes, NO, or no for one that is not
// insisted on.
func (r *Result) layer(name string) string {
	for _, l := range r.Layers {
		switch {
		case l.Name != name:
		case l.Applied:
			return "yes"
		case slices.Contains(notInsisted, name):
			return "no"
		default:
			return "**NO**"
		}
	}
	return "-"
}

// Markdown writes the page of a whole, good run.
func Markdown(w io.Writer, results []*Result, date time.Time, jobs int, took time.Duration) error {
	var b strings.Builder
	tests, attacks, through := 0, 0, 0
	fired := map[string]map[string]bool{}
	for _, r := range results {
		tests, attacks, through = tests+r.Tests, attacks+r.Attacks, through+r.Through
		if fired[r.Machine] == nil {
			fired[r.Machine] = map[string]bool{}
		}
		for _, a := range r.Fired {
			fired[r.Machine][a] = true
		}
	}
	fmt.Fprintf(&b, "# Matrix\n\nWritten by `make matrix` on %s: %d machines, %d at a time, %.0f minutes. All of them held: %d tests passed, %d attacks were\n"+
		"stopped, %d controls got through.", date.UTC().Format(time.DateOnly), len(results), max(jobs, 1), took.Minutes(), tests, attacks, through)
	for _, arch := range slices.Sorted(maps.Keys(fired)) {
		fmt.Fprintf(&b, " On %s %d different attacks were fired.", arch, len(fired[arch]))
	}
	b.WriteString("\n\nProcessors are emulated. In each machine `status`, `--sandbox require` and `--sandbox auto` agree: require runs where the\n" +
		"status is complete, and else names a layer that the status says is missing; auto then runs and the result lacks the same layers, or\n" +
		"it refuses and names one of them. The battery fires at a whole sandbox only; where a layer is missing, what auto runs is attacked by\n" +
		"a test with the same attacks.\n\n## Machines\n\n")
	b.WriteString("| machine | kernel | who | require | auto | tests | attacks | stopped | controls through | not fired | seconds |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s %s | %s | %s | %s | %d | %d | %d | %d | %d | %.0f |\n", r.Cell, r.Release, r.Machine, r.User, r.Require, r.Auto,
			r.Tests, r.Attacks, r.Stopped, r.Through, r.NotFired, r.Seconds)
	}
	b.WriteString("\n## Layers\n\n`no` is a layer that is good to have and not insisted on.\n\n| machine |")
	names := columns(results)
	for _, n := range names {
		b.WriteString(" " + n + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(names)) + "\n")
	for _, r := range results {
		b.WriteString("| " + r.Cell + " |")
		for _, n := range names {
			b.WriteString(" " + r.layer(n) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## What is special about each\n\n")
	for _, v := range variants {
		fmt.Fprintf(&b, "- `%s`: %s.\n", v.Name, v.About)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
