package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/termtext"
)

const traceLong = `The program runs as under glovebox run, in a whole cell, and every system call that it or its compiler makes is counted. At
the end a table on stderr tells each call, how often it was made, and what it was answered:

  allowed    the profile allows it
  refused    it got the errno that it gets without a trace: calls that are always denied, and all that cannot be learnt
  learnable  the profile refuses it, and the trace let it through: one of a short list of calls that reach nothing beyond
             the cell. With --strict it is refused and only named
  killed     it ended the cell, as without a trace

Then comes what could be added to the profile, with what each addition risks, and as the text of a file for --profile. A
program that goes on without a call does not need it: many try a newer call first. Add one at a time, and the least.

Only the list of system calls is loosened, and only by the learnable ones. Where any other layer is missing nothing is
traced, whatever --sandbox says (exit status 4). Each call waits for its answer, some ten microseconds, under the same
limits as ever: a long program may need a longer --wall. A call that a signal meets while it waits can fail with EINTR
where it never did; with --refused the calls that are allowed do not wait, and are not counted. Those of futex and the
returns from signal handlers never wait. A program that a limit ends has counts that are lower bounds, at least half of
the truth. The flags, and the exit status, are those of run.`

// tracing is a trace that the command line asks for.
type tracing struct {
	how   glovebox.Tracing
	trace glovebox.Trace
}

// traced is the object of trace --json.
type traced struct {
	Result *glovebox.Result `json:"result"`
	Trace  *glovebox.Trace  `json:"trace"`
}

func newTrace() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Run a program in a sealed cell and tell which system calls it makes, and which it lacks.",
		Long:  traceLong,
		Annotations: map[string]string{usageLines: "glovebox trace [FLAGS] FILE|- [ARG]…\n" +
			"glovebox trace [FLAGS] -e CODE [ARG]…\nglovebox trace [FLAGS] -- COMMAND [ARG]…"},
		Example: "glovebox trace prog.py\nglovebox trace --strict -- /usr/bin/cat /etc/hosts\n" +
			"glovebox trace --json -l node -e 'console.log(1)' | jq -r '.trace.steps[].calls[] | select(.answer != \"allowed\") | .call'",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd, f, args, &tracing{how: glovebox.Tracing{Learn: !f.strict, Allowed: !f.refused}})
		},
	}
	f.add(cmd)
	completeRun(cmd)
	return cmd
}

// addTrace adds the flags of trace that run has not, or has in another form.
func (f *runFlags) addTrace(g *cobra.Command) {
	g.Flags().BoolVar(&f.strict, "strict", false, "let no refused call through, only name those that could be learnt")
	g.Flags().BoolVar(&f.refused, "refused", false, "count only what the profile does not allow; the program is as fast as ever")
	g.Flags().BoolFunc("json", "print one JSON object with the result and the trace", func(v string) error {
		on, err := strconv.ParseBool(v)
		if f.json = ""; on {
			f.json = "object"
		}
		if err != nil {
			return errors.New("events of a trace cannot be had; it is one object")
		}
		return nil
	})
}

// answerOrder is the order of the table.
var answerOrder = []string{api.TraceAllowed, api.TraceRefused, api.TraceLearnable, api.TraceKilled}

// write tells a person what was traced.
func (t *tracing) write(out io.Writer) {
	for _, s := range t.trace.Steps {
		t.table(out, s)
	}
	t.diff(out)
}

// table is one step's calls.
func (t *tracing) table(out io.Writer, s api.TracedStep) {
	whose, count := map[string]string{"compile": "compiler", "run": "program"}[s.Step], "exact"
	if !s.Exact {
		count = "lower bounds, since it was ended"
	}
	total := int64(0)
	for _, c := range s.Calls {
		total += c.Count
	}
	fmt.Fprintf(out, "\nThe %s made %d system calls of %d kinds (counts are %s):\n", whose, total, len(s.Calls), count)
	calls := slices.Clone(s.Calls)
	slices.SortStableFunc(calls, func(a, b api.TracedCall) int {
		return cmp.Compare(slices.Index(answerOrder, a.Answer), slices.Index(answerOrder, b.Answer))
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CALL\tCOUNT\tANSWER\tWHY")
	for _, c := range calls {
		answer, why := c.Answer, c.Reason
		switch {
		case c.Learnable:
			answer, why = "refused "+c.Errno+", learnable", "risk: "+why
		case c.Errno != "":
			answer += " " + c.Errno
		case c.Answer == api.TraceLearnable:
			answer, why = "learnable, let through", "risk: "+why
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s\t%d\t%s\t%s", termtext.String(c.Call), c.Count, answer, why), "\t"))
	}
	_ = w.Flush()
}

// diff is what could be added to the profile.
func (t *tracing) diff(out io.Writer) {
	if len(t.trace.Steps) == 0 {
		return
	}
	if len(t.trace.Additions) == 0 {
		fmt.Fprintf(out, "\nNothing to add to a profile: no learnable call was made.\n")
		return
	}
	profile := cmp.Or(t.trace.Profile, "language")
	fmt.Fprintf(out, "\n--- profile %s\n+++ profile %s with what was learnt\n", profile, profile)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, name := range t.trace.Additions {
		fmt.Fprintf(w, "+ %s\t# risk: %s\n", name, t.risk(name))
	}
	_ = w.Flush()
	text, err := json.Marshal(profileFile{profile, t.trace.Additions})
	if err == nil {
		fmt.Fprintf(out, "\nAs a file for --profile: %s\n", text)
	}
}

func (t *tracing) risk(name string) string {
	for _, s := range t.trace.Steps {
		for _, c := range s.Calls {
			if c.Call == name && (c.Learnable || c.Answer == api.TraceLearnable) {
				return c.Reason
			}
		}
	}
	return ""
}
