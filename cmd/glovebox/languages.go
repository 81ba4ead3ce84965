package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/languages"
)

// languageFlags are the flags of languages, as they were written.
type languageFlags struct {
	hostFlags
	json, check, warm bool
	sandbox           string
}

// languageReport is what is told of a language: what is known of it, and whether
// it works if that was asked.
type languageReport struct {
	glovebox.Language
	Check *languageCheck `json:"check,omitempty"`
}

// languageCheck is how the smoke program of a language ended.
type languageCheck struct {
	OK bool `json:"ok"`
	// MS is how long it took, from asking for a cell to the verdict, the compiler
	// included.
	MS float64 `json:"ms"`
	// Reason says what is wrong, empty if nothing is.
	Reason string `json:"reason"`
}

// checker runs smoke programs; a [glovebox.Box] does.
type checker interface {
	CheckLanguage(ctx context.Context, name string) (*glovebox.Result, error)
}

func newLanguages() *cobra.Command {
	f := &languageFlags{}
	cmd := &cobra.Command{
		Use:   "languages",
		Short: "Tell which languages can be run here, in which version, and whether they work.",
		Long: "A language is there when its program is installed on this host; nothing is downloaded. Versions are asked of these\n" +
			"programs in cells; on a host that cannot seal one they are left out. One NAME shows all that is known of it: its limits\n" +
			"where a program sets none, and what does not work in a cell.\n\n" +
			"With --check a small program in each language is compiled and run. The exit status is 1 if one of them does not work,\n" +
			"or if a NAME is not installed, 2 if the command line is wrong, 4 if this host cannot seal a cell, 125 if Glovebox itself\n" +
			"failed and 130 if you interrupted it (SIGINT, SIGTERM or SIGHUP).\n\n" +
			"A language that is cold has a compiler which is slow without its cache. --warm fills that, in a cell and from nothing but\n" +
			"the language's own installation, once for each version of it.\n\n" +
			"A --language-file is JSON; docs/languages.md of Glovebox tells how one is written.",
		Annotations:       map[string]string{usageLines: "glovebox languages [FLAGS] [NAME]…"},
		Example:           "glovebox languages\nglovebox languages python\nglovebox languages --check c rust\nglovebox languages --warm\nglovebox languages --json | jq -r '.languages[] | select(.installed) | .name'",
		ValidArgsFunction: cobra.FixedCompletions(languages.Builtin().Names(), cobra.ShellCompDirectiveNoFileComp),
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&f.check, "check", false, "run a small program in each language that is installed")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&f.warm, "warm", false, "fill the caches of the compilers that have one and whose is cold")
	f.add(cmd)
	cmd.Flags().StringVar(&f.sandbox, "sandbox", "require", "`mode`: require every layer for these cells, or auto: what this host has")
	_ = cmd.RegisterFlagCompletionFunc("sandbox", cobra.FixedCompletions([]string{"require", "auto"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *languageFlags) run(cmd *cobra.Command, names []string) error {
	if err := oneOf("sandbox", f.sandbox, []string{"require", "auto"}); err != nil {
		return err
	}
	if err := f.load(); err != nil {
		return err
	}
	opts := f.options(glovebox.Options{Sandbox: glovebox.Sandbox(f.sandbox), Armed: -1, Prepared: -1})
	known, err := glovebox.KnownLanguages(opts)
	if err != nil {
		return err
	}
	list, err := pick(known, names)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	stderr := cmd.ErrOrStderr()
	box, err := glovebox.New(opts)
	if err == nil && f.warm {
		if box, err = f.fill(ctx, stderr, box, opts, list); err != nil {
			return err
		}
	}
	switch {
	case err == nil:
		defer box.Close()
		warnIncomplete(stderr, box.Status())
		if list, err = pick(box.Languages(ctx, true), names); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	case f.check || f.warm || !errors.Is(err, glovebox.ErrSandboxUnavailable):
		return err
	default:
		fmt.Fprintln(stderr, "glovebox: warning: versions are not known: "+termtext.String(err.Error()))
	}
	show := f.show(cmd.OutOrStdout(), list, len(names) == 1)
	failed, err := f.checkAll(ctx, box, list, len(names) > 0, show)
	if err == nil && f.json {
		err = writeJSON(cmd.OutOrStdout(), struct {
			Languages  []languageReport `json:"languages"`
			APIVersion string           `json:"api_version"`
		}{list, api.Version})
	}
	if err == nil && failed {
		return &statusError{code: 1}
	}
	return err
}

// fill fills the cold caches among the languages, and returns a Box that uses
// them.
func (f *languageFlags) fill(ctx context.Context, stderr io.Writer, box *glovebox.Box, opts glovebox.Options, list []languageReport) (*glovebox.Box, error) {
	filled := false
	for _, l := range list {
		if !l.Cold {
			continue
		}
		begin := time.Now()
		fmt.Fprintf(stderr, "glovebox: filling the cache of %s; this may take a minute\n", l.Name)
		if err := box.Warm(ctx, l.Name); err != nil {
			return nil, errors.Join(err, box.Close())
		}
		fmt.Fprintf(stderr, "glovebox: filled the cache of %s in %.0f s\n", l.Name, time.Since(begin).Seconds())
		filled = true
	}
	if !filled {
		return box, nil
	}
	if err := box.Close(); err != nil {
		return nil, err
	}
	return glovebox.New(opts)
}

// pick takes the named languages, in order of name; all without names.
func pick(all []glovebox.Language, names []string) ([]languageReport, error) {
	var known []string
	var out []languageReport
	for _, l := range all {
		known = append(known, l.Name)
		if len(names) == 0 || slices.Contains(names, l.Name) {
			out = append(out, languageReport{Language: l})
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, usagef("there is no language %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// checkAll checks the languages with --check, one after the other since time is
// one of the things that a check can lack, and shows each. One that is not
// installed is left out, or has failed if it was named.
func (f *languageFlags) checkAll(ctx context.Context, c checker, list []languageReport, named bool, show func(languageReport) error) (failed bool, err error) {
	checked := 0
	for i := range list {
		l := &list[i]
		if f.check && (named || l.Installed) {
			l.Check = checkLanguage(ctx, c, l.Name)
			failed = failed || !l.Check.OK
			checked++
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err := show(*l); err != nil {
			return false, err
		}
	}
	if f.check && checked == 0 {
		return false, &statusError{1, errors.New("no language is installed")}
	}
	return failed, nil
}

func checkLanguage(ctx context.Context, c checker, name string) *languageCheck {
	begin := time.Now()
	r, err := c.CheckLanguage(ctx, name)
	out := &languageCheck{OK: err == nil, MS: float64(time.Since(begin).Microseconds()) / 1000}
	var field *glovebox.FieldError
	switch {
	case errors.As(err, &field):
		out.Reason = field.Reason
	case err != nil:
		out.Reason = err.Error()
		if r != nil && r.Verdict == api.CompileError && r.Compile != nil {
			out.Reason = strings.TrimSpace(out.Reason + "\n" + r.Compile.Stdout + r.Compile.Stderr)
		}
	}
	return out
}

// show returns what shows one language: a row of a table, or with alone all that
// is known of it, or nothing yet with --json.
func (f *languageFlags) show(w io.Writer, list []languageReport, alone bool) func(languageReport) error {
	switch {
	case f.json:
		return func(languageReport) error { return nil }
	case alone:
		return func(l languageReport) error { return details(w, l) }
	}
	t := newLanguageTable(w, list, f.check, width(w))
	return t.row
}

// languageTable prints a row a language. Every column but the last is as wide as
// what it will hold; on a terminal the version gets what the others leave.
type languageTable struct {
	w       io.Writer
	check   bool
	width   int
	columns [5]int
	headed  bool
}

// checkWidth is room for "ok 12345 ms", notesWidth what is left for the notes.
const (
	checkWidth   = 11
	notesWidth   = 10
	versionWidth = 12 // at least
)

var languageHead = [...]string{"NAME", "INSTALLED", "VERSION", "FILE NAMES", "CHECK", "NOTES"}

func newLanguageTable(w io.Writer, list []languageReport, check bool, width int) *languageTable {
	t := &languageTable{w: w, check: check, width: width}
	for i := range t.columns {
		t.columns[i] = len(languageHead[i])
	}
	for _, l := range list {
		for i, cell := range cells(l) {
			if i < len(t.columns) {
				t.columns[i] = max(t.columns[i], len([]rune(cell)))
			}
		}
	}
	t.columns[4] = checkWidth
	if width > 0 {
		left := width - notesWidth
		for i, n := range t.columns {
			if i != 2 && (i != 4 || check) {
				left -= n + 2
			}
		}
		t.columns[2] = min(t.columns[2], max(versionWidth, left-2))
	}
	return t
}

// cells are the texts of a row.
func cells(l languageReport) [len(languageHead)]string {
	installed := "no"
	if l.Installed {
		installed = "yes"
	}
	out := [...]string{l.Name, installed, cmp.Or(l.Version, "-"), strings.Join(l.Extensions, " "), checkText(l), notes(l)}
	for i, text := range out {
		out[i] = termtext.String(text)
	}
	return out
}

func checkText(l languageReport) string {
	switch {
	case l.Check == nil:
		return "-"
	case l.Check.OK:
		return fmt.Sprintf("ok %.0f ms", l.Check.MS)
	}
	return "FAILED"
}

// notes are what else is to be known in short.
func notes(l languageReport) string {
	var out []string
	if !l.Installed {
		out = append(out, "not installed: looked for "+l.Missing)
	}
	if l.Compiled {
		out = append(out, "compiled")
	}
	if l.Cold {
		out = append(out, "cold")
	}
	return strings.Join(out, "; ")
}

func (t *languageTable) row(l languageReport) error {
	var b strings.Builder
	line := func(texts [len(languageHead)]string) {
		row := ""
		for i, text := range texts {
			switch {
			case i == len(t.columns):
				row += text
			case i != 4 || t.check:
				row += fmt.Sprintf("%-*s  ", t.columns[i], shorten(text, t.columns[i]))
			}
		}
		b.WriteString(shorten(strings.TrimRight(row, " "), t.width) + "\n")
	}
	if !t.headed {
		t.headed = true
		line(languageHead)
	}
	line(cells(l))
	b.WriteString(reasons(l, strings.Repeat(" ", t.columns[0]+2)))
	_, err := io.WriteString(t.w, b.String())
	return err
}

// maxReasons bounds the lines that a failed check is told in; --json has all.
const maxReasons = 12

// reasons is why a check failed, a line each.
func reasons(l languageReport, indent string) string {
	if l.Check == nil || l.Check.OK {
		return ""
	}
	var b strings.Builder
	n := 0
	for text := range strings.Lines(l.Check.Reason) {
		if n++; n > maxReasons {
			b.WriteString(indent + "…\n")
			break
		}
		b.WriteString(indent + termtext.String(strings.TrimRight(text, "\r\n")) + "\n")
	}
	return b.String()
}

// details prints all that is known of a language.
func details(w io.Writer, l languageReport) error {
	var b strings.Builder
	line := func(key string, texts ...string) {
		for _, text := range texts {
			b.WriteString(strings.TrimRight(fmt.Sprintf("%-12s %s", key, termtext.String(text)), " ") + "\n")
			key = ""
		}
	}
	line("name", l.Name+" ("+l.Title+")")
	installed := "yes"
	if !l.Installed {
		installed = "no: looked for " + l.Missing
	}
	line("installed", installed)
	line("version", cmp.Or(l.Version, "-"))
	line("file names", strings.Join(l.Extensions, " ")+"; a program given as text is "+l.File)
	line("limits", limitsText(l.Limits))
	if l.Limits.Compile != nil {
		line("compiler", limitsText(*l.Limits.Compile))
	}
	if l.Cold {
		line("cold", "the first use in a cell is slow, since the compiler's cache was not filled")
	}
	line("refusals", l.Refusals...)
	if l.Check != nil {
		line("check", checkText(l))
		b.WriteString(reasons(l, strings.Repeat(" ", 13)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// limitsText is every limit by the name of its flag.
func limitsText(l glovebox.Limits) string {
	var out []string
	for _, f := range limitFlags {
		out = append(out, f.name+" "+f.unit.format(*f.of(&l)[0], ""))
	}
	return strings.Join(out, ", ")
}
