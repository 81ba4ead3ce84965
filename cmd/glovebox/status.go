package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/termtext"
)

func newStatus() *cobra.Command {
	var (
		asJSON bool
		mode   string
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell which layers of the sandbox this host can enforce, and how to mend the rest.",
		Long: "A throwaway cell is sealed and asked; no program is run. The exit status is 0 if every layer holds, which is what\n" +
			"--sandbox require insists on, and 1 if not. A layer that is missing shows NO; one that is good to have and not\n" +
			"insisted on (time, speculation) shows no.",
		Annotations: map[string]string{usageLines: "glovebox status [--json] [--sandbox require|auto]"},
		Example:     "glovebox status\nglovebox status --json | jq -r '.layers[] | select(.applied | not) | .remedy'",
		Args:        noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("sandbox", mode, []string{"require", "auto"}); err != nil {
				return err
			}
			status := glovebox.CheckHost(glovebox.Options{Sandbox: glovebox.Sandbox(mode)})
			out, err := cmd.OutOrStdout(), error(nil)
			if asJSON {
				err = writeJSON(out, status)
			} else {
				err = table(out, status, mode, width(out))
			}
			if err == nil && !status.Complete {
				return &statusError{code: 1}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&mode, "sandbox", "require", "`mode` that the last line speaks of: require or auto")
	_ = cmd.RegisterFlagCompletionFunc("sandbox", cobra.FixedCompletions([]string{"require", "auto"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// width is the width of the terminal behind w, 0 if there is none.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// table prints one line a layer, shortened to a width that is not 0, with the
// remedy in full below what is missing.
func table(w io.Writer, s glovebox.Status, mode string, width int) error {
	var b strings.Builder
	names := len("LAYER")
	for _, l := range s.Layers {
		names = max(names, len(l.Name))
	}
	line := func(name, holds, detail string) {
		text := fmt.Sprintf("%-*s  %-5s  ", names, name, holds) + termtext.String(detail)
		b.WriteString(shorten(text, width) + "\n")
	}
	line("LAYER", "HOLDS", "DETAIL")
	counts := missing(s)
	for _, l := range s.Layers {
		switch {
		case l.Applied:
			line(l.Name, "yes", l.Detail)
			continue
		case slices.Contains(counts, l.Name):
			line(l.Name, "NO", l.Detail)
		default: // the sandbox is complete without it
			line(l.Name, "no", l.Detail)
		}
		if l.Remedy != "" {
			fmt.Fprintf(&b, "%-*s  %-5s  remedy: %s\n", names, "", "", termtext.String(l.Remedy))
		}
	}
	fmt.Fprintf(&b, "\n%s: %s, kernel %s, %s\n", verdictOf(s, mode), s.User, s.Kernel, s.Arch)
	_, err := io.WriteString(w, b.String())
	return err
}

// missing names the layers for want of which a host is incomplete; the status
// warns of each. When nothing could be found out it is the warnings themselves.
func missing(s glovebox.Status) []string {
	var names []string
	for _, l := range s.Layers {
		warned := func(w string) bool { return strings.HasPrefix(w, l.Name+":") }
		if !l.Applied && slices.ContainsFunc(s.Warnings, warned) {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 && !s.Complete {
		return s.Warnings
	}
	return names
}

// verdictOf is the beginning of the last line.
func verdictOf(s glovebox.Status, mode string) string {
	if s.Complete {
		return "complete"
	}
	what := "nothing runs with --sandbox require"
	if mode == "auto" {
		what = "with --sandbox auto every result says so"
	}
	return termtext.String("incomplete (" + strings.Join(missing(s), ", ") + "; " + what + ")")
}

// shorten cuts a line to a width and marks the cut; 0 leaves it whole.
func shorten(s string, width int) string {
	if r := []rune(s); width > 0 && len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}
