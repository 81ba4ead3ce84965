package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/redteam"
)

// redteamFlags are the flags of redteam, as they were written.
type redteamFlags struct {
	json bool
	only string
}

func newRedteam() *cobra.Command {
	f := &redteamFlags{}
	cmd := &cobra.Command{
		Use:   "redteam",
		Short: "Attack the cells of this host, and show that what holds is what stops it.",
		Long: "Each attack runs twice: in a whole cell, which must stop it, and as its control in a cell that lacks exactly the layer that\n" +
			"stops it, where the same program must get through. What the attacks reach for are files, listeners and processes that\n" +
			"this command makes for them and takes away again; none of them harms a host, also where it gets through.\n\n" +
			"Nothing is fired, and the exit status is 4, unless every layer holds (glovebox status tells). It is 0 if every attack was\n" +
			"stopped and every control got through, 1 if one was not, 2 if the command line is wrong, 125 if Glovebox itself failed and\n" +
			"130 if you interrupted it (SIGINT, SIGTERM or SIGHUP). An attack in a language that is not installed, or that needs root or\n" +
			"an ordinary user, is shown as not fired and counts as neither. The battery is fixed: no program of yours can be run without\n" +
			"a layer.",
		Annotations: map[string]string{usageLines: "glovebox redteam [--json] [--only PATTERN]"},
		Example:     "glovebox redteam\nglovebox redteam --only network\nglovebox redteam --only 'filesystem/read-*,identity'\nglovebox redteam --json | jq -r '.rows[] | select(.stopped | not) | .attack'",
		Args:        noArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&f.only, "only", "", "only the attacks whose name, GROUP/ATTACK, or group matches this `pattern`, or one of several with commas between")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(redteam.Groups(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *redteamFlags) run(cmd *cobra.Command) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	out := cmd.OutOrStdout()
	var wrong error
	opts := redteam.Options{InitPath: besideOrSelf(), Only: f.only}
	if !f.json {
		table := newAttackTable(out, redteam.List(f.only), width(out))
		opts.Done = func(r redteam.Row) { wrong = errors.Join(wrong, table.row(r)) }
	}
	report, err := redteam.Fire(ctx, opts)
	switch {
	case errors.Is(err, redteam.ErrPattern):
		return usagef("--only: %s", err)
	case err != nil:
		return err
	case f.json:
		wrong = writeJSON(out, report)
	default:
		_, err := io.WriteString(out, summary(report))
		wrong = errors.Join(wrong, err)
	}
	if wrong == nil && !report.Good() {
		return &statusError{code: 1}
	}
	return wrong
}

// besideOrSelf is the glovebox-init beside this program, or else this program
// itself, which can be its own: main calls glovebox.Init first.
func besideOrSelf() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(self), "glovebox-init")); err == nil {
		return ""
	}
	return self
}

// attackTable prints a row an attack. Every column but the last two is as wide as
// what it will hold; what went wrong stands in full below its row.
type attackTable struct {
	w             io.Writer
	width         int // of the terminal, 0 for none
	attack, layer int // widths
	short         bool
	headed        bool
}

// answerWidth is room for what the kernel answered, controlWidth for the control.
const (
	answerWidth  = 28
	controlWidth = 11
	msWidth      = 5
)

func newAttackTable(w io.Writer, list []redteam.Row, width int) *attackTable {
	t := &attackTable{w: w, width: width}
	measure := func() {
		t.attack, t.layer = len("GROUP/ATTACK"), len("LAYER")
		for _, r := range list {
			t.attack, t.layer = max(t.attack, len(r.Attack)), max(t.layer, len(t.layers(r)))
		}
	}
	measure()
	if width > 0 && t.attack+t.layer+answerWidth+controlWidth+msWidth+8 > width {
		t.short = true
		measure()
	}
	return t
}

// layers are those that stop an attack; where there is no room the first and how
// many more.
func (t *attackTable) layers(r redteam.Row) string {
	if t.short && len(r.Layers) > 1 {
		return fmt.Sprintf("%s +%d", r.Layers[0], len(r.Layers)-1)
	}
	return strings.Join(r.Layers, "+")
}

func (t *attackTable) row(r redteam.Row) error {
	var b strings.Builder
	line := func(attack, layer, answer, control, ms string) {
		text := fmt.Sprintf("%-*s  %-*s  %-*s  %-*s  %*s", t.attack, attack, t.layer, layer,
			answerWidth, shorten(termtext.String(answer), answerWidth), controlWidth, control, msWidth, ms)
		b.WriteString(shorten(strings.TrimRight(text, " "), t.width) + "\n")
	}
	if !t.headed {
		t.headed = true
		line("GROUP/ATTACK", "LAYER", "STOPPED BY", "CONTROL", "MS")
	}
	answer, control := r.StoppedBy, "got through"
	if !r.Stopped {
		answer = "NOT STOPPED"
	}
	if !r.Through {
		control = "STOPPED TOO"
	}
	if r.NotFired != "" {
		line(r.Attack, t.layers(r), "not fired: "+r.NotFired, "-", "-")
	} else {
		line(r.Attack, t.layers(r), answer, control, fmt.Sprintf("%.0f", r.MS))
	}
	for text := range strings.Lines(r.Reason) {
		fmt.Fprintf(&b, "  %s\n", termtext.String(strings.TrimSpace(text)))
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// summary is the last line of the table.
func summary(r *redteam.Report) string {
	text := fmt.Sprintf("\n%d attacks, %d stopped, %d controls got through", r.Attacks, r.Stopped, r.Through)
	if r.NotFired > 0 {
		text += fmt.Sprintf("; %d not fired", r.NotFired)
	}
	return fmt.Sprintf("%s (%s, kernel %s)\n", text, r.User, termtext.String(r.Kernel))
}
