package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/preflight"
)

const checkLong = `The text is read and nothing is run. A line of output is FILE:LINE:COL SEVERITY [RULE] SENTENCE; columns count UTF-16 code
units, as stacks of eval do. Errors fail when they run: modules, require, fetch, process and what else other hosts have.
Warnings and notes work and are seldom meant.

The check helps authors and is no boundary: a program that wants to pass it does, and what holds it is the worker.

The exit status is
  0  no error was found            2  the command line is wrong, or a file cannot be read
  1  there are errors            125  Glovebox itself failed`

const checkExample = `glovebox check script.js
glovebox check --allow-import src/*.js
glovebox check --bound fetch --report-eval=false - < script.js
glovebox check --json script.js | jq -r '.files[].findings[] | select(.severity == "error") | .message'`

// checkFlags are the flags of check, as they were written.
type checkFlags struct {
	json, imports, dynamic, eval, script bool
	bound                                []string
	max                                  int
}

func newCheck() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:         "check",
		Short:       "Tell what in a JavaScript file will not work in a sealed worker.",
		Long:        checkLong,
		Annotations: map[string]string{usageLines: "glovebox check [FLAGS] FILE|-…"},
		Example:     checkExample,
		Args:        cobra.ArbitraryArgs,
		RunE:        func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object: ok, and for each file its findings")
	flags.BoolVar(&f.imports, "allow-import", false, "the files are modules, as those that end in .mjs are: import and export are in order")
	flags.BoolVar(&f.dynamic, "allow-dynamic-import", false, "import() is in order")
	flags.BoolVar(&f.script, "script", false, "the files run as scripts and are fed to no session: await and return at their top are not in order")
	flags.BoolVar(&f.eval, "report-eval", true, "report eval and the constructor of functions")
	flags.StringArrayVar(&f.bound, "bound", nil, "`name` that the host binds, such as fetch; repeatable")
	flags.IntVar(&f.max, "max", preflight.MaxFindings, "`number` of findings that are shown of each file")
	return cmd
}

// identifier is what a name of --bound looks like; what it says of letters is wider
// than the language.
var identifier = regexp.MustCompile(`^[\pL\pNl_$][\pL\pN\pM_$\x{200c}\x{200d}]*$`)

// checkOutput is the object of --json.
type checkOutput struct {
	OK    bool        `json:"ok"` // every file was read, and none has an error
	Files []checkFile `json:"files"`
}

type checkFile struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	preflight.Result
}

func (f *checkFlags) run(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("no file: give one or more, or - for standard input")
	case f.max < 0 || f.max > 1_000_000:
		return usagef("--max %d: must be from 0 to 1000000", f.max)
	}
	for _, name := range f.bound {
		if !identifier.MatchString(name) {
			return usagef("--bound %q: must be an identifier, such as fetch", name)
		}
	}
	opts := preflight.Options{AllowImport: f.imports, AllowDynamicImport: f.dynamic, Script: f.script, IgnoreEval: !f.eval, Bound: f.bound, MaxFindings: f.max}
	if f.max == 0 {
		opts.MaxFindings = -1
	}
	out := checkOutput{OK: true, Files: []checkFile{}}
	var missing []error
	for _, name := range args {
		text, err := readSource(name)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		opts := opts
		switch ext := filepath.Ext(name); {
		case typed[ext] != "":
			missing = append(missing, usagef("%s: is TypeScript or JSX, and what runs is the JavaScript that is made of it: check that", name))
			continue
		case ext == ".mjs":
			opts.AllowImport = true
		}
		r := preflight.Check(text, opts)
		out.OK = out.OK && r.OK()
		out.Files = append(out.Files, checkFile{name, r.OK(), r})
	}
	sound := out.OK
	out.OK = sound && missing == nil
	var err error
	if f.json {
		err = writeJSON(cmd.OutOrStdout(), out)
	} else {
		err = out.print(cmd.OutOrStdout())
	}
	if err == nil && !sound && missing == nil {
		err = &statusError{code: 1}
	}
	return errors.Join(append(missing, err)...)
}

// readSource reads a file, or standard input for "-", no more than can be checked and a byte.
func readSource(name string) (string, error) {
	in := io.Reader(os.Stdin)
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", usagef("%s: %s", name, cause(err))
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, preflight.MaxSource+1))
	if err != nil {
		return "", usagef("%s: %s", name, cause(err))
	}
	return string(text), nil
}

// print prints a line for each finding. Names of files are not to be trusted either.
func (o checkOutput) print(w io.Writer) error {
	for _, f := range o.Files {
		name := termtext.String(f.File)
		for _, x := range f.Findings {
			if _, err := fmt.Fprintf(w, "%s:%s\n", name, x); err != nil {
				return err
			}
		}
		if f.More > 0 {
			if _, err := fmt.Fprintf(w, "%s: %d more\n", name, f.More); err != nil {
				return err
			}
		}
	}
	return nil
}
