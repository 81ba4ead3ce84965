package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/languages"
)

// runFlags are the flags of run, as they were written.
type runFlags struct {
	hostFlags
	language string
	code     string
	stdin    string
	limits   [len(limitFlags)]string
	compile  []string // limits of the compiler, NAME=VALUE
	env      []string
	network  string
	files    []string
	profile  string
	policy   policyFlag
	sandbox  string
	json     string
	strict   bool // of trace, as refused is
	refused  bool
	service  serviceFlags
	remote   bool // the program runs on a service

	artifacts []string // patterns
	out       string
	folders   []string // HOST[:AT]

	given     func(name string) bool // whether the flag was written
	fromStdin bool                   // the program was read from standard input
	entryPath string                 // the absolute path of the file that is the program
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
		g.Flags().StringArrayVar(&f.files, "file", nil, "`PATH[:AT]`: a further file, or all files of a folder, put beside the program into /box or at AT below it (repeatable; at most 8MiB together)")
		g.Flags().StringArrayVar(&f.env, "env", nil, "`K=V` in its environment (repeatable)")
	})
	group("Limits", func(g *cobra.Command) {
		def := api.DefaultLimits()
		for i, l := range limitFlags {
			usage := fmt.Sprintf("%s (default %s)", l.usage, l.unit.format(*l.of(&def)[0], ""))
			g.Flags().StringVar(&f.limits[i], l.name, "", usage)
		}
		g.Flags().StringArrayVar(&f.compile, "compile-limit", nil, "one of these limits for the compiler: `NAME=VALUE`, such as memory=2GiB (repeatable)")
	})
	group("Cell", func(g *cobra.Command) {
		g.Flags().StringVar(&f.network, "network", "none", "`kind` of network: none, or loopback within the cell")
		g.Flags().StringArrayVar(&f.folders, "folder", nil, "`HOST[:AT]`: a folder of this host that the program can read, at AT or else at the same path (repeatable)")
		g.Flags().StringVar(&f.sandbox, "sandbox", "require", "`mode`: require every layer, or auto: what this host has")
		g.Flags().StringVar(&f.profile, "profile", "", `JSON `+"`file`"+` of system calls to allow besides: {"profile":"language","allow":["CALL"]}; "language" is the one profile`)
		f.policy.add(g)
		f.hostFlags.add(g)
	})
	group("Result", func(g *cobra.Command) {
		g.Flags().StringArrayVar(&f.artifacts, "artifact", nil, "`pattern` of files below /box to keep: out.csv, plots, '**/*.png' (repeatable)")
		g.Flags().StringVar(&f.out, "out", "", "`folder` for them, made if it is missing; no file in it is overwritten; without it they are in the object of --json")
		if cmd.Name() == "trace" {
			f.addTrace(g)
			return
		}
		g.Flags().StringVar(&f.json, "json", "", "print JSON, in one `form`: an object with output, verdict and evidence; with =stream events as they happen, one a line")
		g.Flags().Lookup("json").NoOptDefVal = "object"
	})
	if cmd.Name() == "run" {
		group("Service", func(g *cobra.Command) { f.service.add(g, " that runs it in place of this host") })
	}
	f.given = cmd.Flags().Changed
}

// parseLimits reads the limits that were given. What is out of bounds is
// refused here, by the name of its flag; the library checks once more.
func (f *runFlags) parseLimits() (glovebox.Limits, error) {
	var out glovebox.Limits
	for i, l := range limitFlags {
		if f.given(l.name) {
			if err := l.parse(f.bounds, "--"+l.name, f.limits[i], f.limits[i], &out); err != nil {
				return out, err
			}
		}
	}
	for _, written := range f.compile {
		name, value, ok := strings.Cut(written, "=")
		if !ok {
			return out, usagef("--compile-limit %q: must be NAME=VALUE, such as memory=2GiB", written)
		}
		i := slices.IndexFunc(limitFlags[:], func(l limitFlag) bool { return l.name == name })
		if i < 0 {
			return out, usagef("--compile-limit %q: there is no limit %q; there are %s", written, name, strings.Join(limitNames(""), ", "))
		}
		if out.Compile == nil {
			out.Compile = &glovebox.Limits{}
		}
		if err := limitFlags[i].parse(f.bounds, "--compile-limit", written, value, out.Compile); err != nil {
			return out, err
		}
	}
	return out, nil
}

// bounds are those of this host; a service has its own, and says so.
func (f *runFlags) bounds() (floor, ceiling glovebox.Limits) {
	if f.remote {
		return api.MinLimits(), api.MaxLimits(1<<10, 1<<40)
	}
	return glovebox.Bounds()
}

// parse reads a value into the limits; 0 leaves the default there.
func (l limitFlag) parse(bounds func() (floor, ceiling glovebox.Limits), flag, written, value string, out *glovebox.Limits) error {
	floor, ceiling := bounds()
	n, err := l.unit.limit(flag, written, value, max(*l.of(&floor)[0], 1), *l.of(&ceiling)[0])
	if err != nil {
		return err
	}
	for _, to := range l.of(out) {
		*to = n
	}
	return nil
}

// limitNames are the names of all limits, each with an ending.
func limitNames(ending string) []string {
	var names []string
	for _, l := range limitFlags {
		names = append(names, l.name+ending)
	}
	return names
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
	if f.given("language") && !f.remote && f.languages.Find(f.language) == nil {
		return usagef("-l %q: must be one of %s", f.language, strings.Join(f.languages.Names(), ", "))
	}
	return f.checkArtifacts()
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
	named := *e
	named.Field, named.Reason = flagName(e.Field), inFlags(e.Reason)
	return named.Error()
}

// flagName is the flag for a field of the library.
func flagName(field string) string {
	switch {
	case field == "language":
		return "-l"
	case field == "network", field == "sandbox", field == "profile", field == "env":
		return "--" + field
	case field == "limits.compile":
		return "--compile-limit"
	case field == "artifacts", strings.HasPrefix(field, "artifacts["):
		return "--artifact"
	case field == "folders", strings.HasPrefix(field, "folders["):
		return "--folder"
	case strings.HasPrefix(field, "Profiles."):
		return fmt.Sprintf("--profile: profile %q", strings.TrimPrefix(field, "Profiles."))
	case strings.HasPrefix(field, "env."):
		return "--env " + strings.TrimPrefix(field, "env.")
	}
	return inFlags(field)
}

// inFlags puts the names of flags in place of the library's names of limits.
func inFlags(text string) string {
	for _, l := range limitFlags {
		text = strings.NewReplacer("limits.compile."+l.field, "--compile-limit "+l.name, "limits."+l.field, "--"+l.name).Replace(text)
	}
	return text
}
