package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/languages"
)

// runFlags are the flags of run, as they were written.
type runFlags struct {
	language string
	code     string
	stdin    string
	limits   [len(limitFlags)]string
	env      []string
	network  string
	files    []string
	profile  string
	sandbox  string
	json     string

	given     func(name string) bool // whether the flag was written
	fromStdin bool                   // the program was read from standard input
}

// limitFlag is one limit: the name of its flag, of its field in the contract,
// and where it goes.
type limitFlag struct {
	name, field string
	unit        unit
	usage       string
	of          func(*glovebox.Limits) []*int64
}

var limitFlags = [...]limitFlag{
	{"wall", "wall_ms", duration, "`time` from the program's start to its end",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.WallMS} }},
	{"cpu-time", "cpu_ms", duration, "processor `time` of all its processes",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.CPUMS} }},
	{"cpu", "cpu_percent", percent, "`percent` of one core",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.CPUPercent} }},
	{"memory", "memory_bytes", size, "`size` of its memory, its files included",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.MemoryBytes} }},
	{"pids", "pids", count, "`number` of its processes and threads",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.Pids} }},
	{"output", "stdout_bytes", size, "`size` of what it writes to stdout, and the same for stderr",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.StdoutBytes, &l.StderrBytes} }},
	{"disk", "disk_bytes", size, "`size` of all its files",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.DiskBytes} }},
	{"disk-files", "disk_files", count, "`number` of its files",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.DiskFiles} }},
	{"file-size", "file_bytes", size, "`size` of one file",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.FileBytes} }},
	{"open-files", "open_files", count, "`number` of open descriptors of one process",
		func(l *glovebox.Limits) []*int64 { return []*int64{&l.OpenFiles} }},
}

// add puts the flags on the command and their help into its groups.
func (f *runFlags) add(cmd *cobra.Command) {
	group := func(title string, fill func(g *cobra.Command)) {
		g := &cobra.Command{}
		g.Flags().SortFlags = false
		fill(g)
		cmd.Flags().AddFlagSet(g.Flags())
		text := strings.Replace(g.Flags().FlagUsages(), `--json form[="object"]`, `--json[=stream]       `, 1)
		flagGroups[cmd.Name()] = append(flagGroups[cmd.Name()], flagGroup{title, text})
	}
	group("Program", func(g *cobra.Command) {
		g.Flags().StringVarP(&f.language, "language", "l", "", "`name` of its language: "+strings.Join(languages.Builtin().Names(), ", "))
		g.Flags().StringVarP(&f.code, "code", "e", "", "run this `text` in place of a file")
		g.Flags().StringVarP(&f.stdin, "stdin", "i", "", "`file` for its standard input, - for the own even if that is a terminal")
		g.Flags().StringArrayVar(&f.files, "file", nil, "a further `file`, put beside the program into /box (repeatable; all together at most 8MiB)")
		g.Flags().StringArrayVar(&f.env, "env", nil, "`K=V` in its environment (repeatable)")
	})
	group("Limits", func(g *cobra.Command) {
		def := api.DefaultLimits()
		for i, l := range limitFlags {
			usage := fmt.Sprintf("%s (default %s)", l.usage, l.unit.format(*l.of(&def)[0], ""))
			g.Flags().StringVar(&f.limits[i], l.name, "", usage)
		}
	})
	group("Cell", func(g *cobra.Command) {
		g.Flags().StringVar(&f.network, "network", "none", "`kind` of network: none, or loopback within the cell")
		g.Flags().StringVar(&f.sandbox, "sandbox", "require", "`mode`: require every layer, or auto: what this host has")
		g.Flags().StringVar(&f.profile, "profile", "", `JSON `+"`file`"+` of system calls to allow besides: {"profile":"language","allow":["CALL"]}; "language" is the one profile`)
	})
	group("Result", func(g *cobra.Command) {
		g.Flags().StringVar(&f.json, "json", "", "print JSON, in one `form`: an object with output, verdict and evidence; with =stream events as they happen, one a line")
		g.Flags().Lookup("json").NoOptDefVal = "object"
	})
	f.given = cmd.Flags().Changed
}

// parseLimits reads the limits that were given. What is out of bounds is
// refused here, by the name of its flag; the library checks once more.
func (f *runFlags) parseLimits() (glovebox.Limits, error) {
	var out glovebox.Limits
	floor, ceiling := glovebox.Bounds()
	for i, l := range limitFlags {
		if !f.given(l.name) {
			continue
		}
		lo, hi := max(*l.of(&floor)[0], 1), *l.of(&ceiling)[0]
		n, err := l.unit.parse(f.limits[i])
		switch {
		case err == errForm:
			return out, usagef("--%s %q: must be %s, from %s to %s", l.name, f.limits[i], l.unit.example(), l.unit.format(lo, ""), l.unit.format(hi, ""))
		case err != nil || n < lo || n > hi:
			return out, usagef("--%s %s: must be from %s to %s", l.name, f.limits[i], l.unit.format(lo, ""), l.unit.format(hi, ""))
		}
		for _, to := range l.of(&out) {
			*to = n
		}
	}
	return out, nil
}

// check refuses words that are not among those allowed.
func (f *runFlags) check() error {
	for _, c := range []struct {
		flag, value string
		words       []string
	}{
		{"network", f.network, []string{"none", "loopback"}},
		{"sandbox", f.sandbox, []string{"require", "auto"}},
		{"json", f.json, []string{"", "object", "stream"}},
	} {
		if err := oneOf(c.flag, c.value, c.words); err != nil {
			return err
		}
	}
	if f.given("language") && languages.Builtin().Find(f.language) == nil {
		return usagef("-l %q: must be one of %s", f.language, strings.Join(languages.Builtin().Names(), ", "))
	}
	return nil
}

func oneOf(flag, value string, words []string) error {
	for _, w := range words {
		if value == w {
			return nil
		}
	}
	if words[0] == "" {
		words = words[1:]
	}
	return usagef("--%s %q: must be %s", flag, value, strings.Join(words, " or "))
}

// flagOf is the sentence for a field that the library refused, in terms of the
// command line.
func flagOf(e *glovebox.FieldError) string {
	flag := e.Field
	for _, l := range limitFlags {
		if e.Field == "limits."+l.field {
			flag = "--" + l.name
		}
	}
	switch {
	case e.Field == "language":
		flag = "-l"
	case e.Field == "network", e.Field == "sandbox", e.Field == "profile":
		flag = "--" + e.Field
	case strings.HasPrefix(e.Field, "Profiles."):
		flag = fmt.Sprintf("--profile: profile %q", strings.TrimPrefix(e.Field, "Profiles."))
	case e.Field == "env":
		flag = "--env"
	case strings.HasPrefix(e.Field, "env."):
		flag = "--env " + strings.TrimPrefix(e.Field, "env.")
	}
	named := *e
	named.Field = flag
	return named.Error()
}
