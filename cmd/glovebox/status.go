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

// statusFlags are the flags of status, as they were written.
type statusFlags struct {
	hostFlags
	json, files bool
	sandbox     string
}

func newStatus() *cobra.Command {
	f := &statusFlags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell which layers of the sandbox this host can enforce, and how to mend the rest.",
		Long: "A throwaway cell is sealed and asked; no program is run. The exit status is 0 if every layer holds, which is what\n" +
			"--sandbox require insists on, 1 if not, 2 if the command line is wrong, 125 if Glovebox itself failed and 130 if you\n" +
			"interrupted --files (SIGINT, SIGTERM or SIGHUP). A layer that is missing shows NO; one that is good to have and not insisted\n" +
			"on (time, speculation) shows no.\n\n" +
			"The line on JavaScript names the engine that eval would load: its release, build id and, with --json, file; or the\n" +
			"package to install. Nothing of it is loaded, and programs of other languages do not need it.\n\n" +
			"Programs can read what packages put into /usr, and what languages name. With --files the status goes on with the\n" +
			"files among these that no package of Debian's owns: what somebody left there is no secret any more. A folder stands\n" +
			"for what would be many lines; --json has every name. It takes a second or two, and the exit status stays the same.",
		Annotations: map[string]string{usageLines: "glovebox status [--json] [--files] [--language-file FILE] [--sandbox require|auto]"},
		Example: "glovebox status\nglovebox status --json | jq -r '.layers[] | select(.applied | not) | .remedy'\n" +
			"glovebox status --files --json | jq -r '.unowned_files[]'",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&f.files, "files", false, "look for files that programs can read and that belong to no package")
	cmd.Flags().StringVar(&f.sandbox, "sandbox", "require", "`mode` that the last line speaks of: require or auto")
	f.addLanguages(cmd)
	_ = cmd.RegisterFlagCompletionFunc("sandbox", cobra.FixedCompletions([]string{"require", "auto"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command) error {
	if err := oneOf("sandbox", f.sandbox, []string{"require", "auto"}); err != nil {
		return err
	}
	opts := glovebox.Options{Sandbox: glovebox.Sandbox(f.sandbox)}
	if f.files || len(f.languageFiles) > 0 { // else a bad file of a language hides nothing
		if err := f.load(); err != nil {
			return err
		}
		opts = f.options(opts)
	}
	status := glovebox.CheckHost(opts)
	engine := findEngine()
	out, err := cmd.OutOrStdout(), error(nil)
	if !f.json {
		err = table(out, status, engine.text(), f.sandbox, width(out))
	}
	var found unowned
	if err == nil && f.files {
		found, err = findUnowned(cmd.Context(), opts)
	}
	switch {
	case err != nil:
	case f.json && f.files:
		if found.unknown != nil {
			fmt.Fprint(cmd.ErrOrStderr(), "glovebox: warning: "+found.text())
		}
		err = writeJSON(out, unownedReport{statusReport{status, engine}, found.files})
	case f.json:
		err = writeJSON(out, statusReport{status, engine})
	case f.files:
		_, err = io.WriteString(out, found.text())
	}
	if err == nil && !status.Complete {
		return &statusError{code: 1}
	}
	return err
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
// remedy in full below what is missing, and a line on the JavaScript engine.
func table(w io.Writer, s glovebox.Status, engine, mode string, width int) error {
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
	b.WriteString("\n" + shorten(engine, width) + "\n")
	fmt.Fprintf(&b, "%s: %s, kernel %s, %s\n", verdictOf(s, mode), s.User, s.Kernel, s.Arch)
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
