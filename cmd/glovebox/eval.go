package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/js"
)

// Exit statuses of eval. They are part of the contract.
const (
	exitScript      = 1
	exitScriptTime  = 3
	exitScriptOther = 5
	exitNoJSON      = 6
)

const evalLong = `The code runs in a worker of its own: a sealed process without files, network, clock of its own choosing or any function
of this host. What it comes to, the value of its last expression, is printed as JSON; a promise is awaited. undefined
prints nothing. What it writes to its console goes to stderr.

The engine is JavaScriptCore of this system; it interprets, so that no memory of the worker can become executable. --jit
lets its compilers run, behind the same wall.

A file that ends in .mjs, .ts, .mts, .tsx or .jsx, and any code with --module, is a module: what it exports is printed as an
object, without its functions. It imports what --modules gives: such files, .js and .json below a folder, by their
paths (import 'lib/a.js') or beside the module that asks (import './a.js'). import(…) in a script does too. Nothing else can be
imported. A module has await at its top; other code has not. Types are taken away and not checked, by a worker of its own; stacks then name lines of what it made.

The exit status is
  0  it came to a value                         2  the command line is wrong
  1  it threw, or is no JavaScript              4  this host cannot seal a worker
  3  it ran out of time or processor time     125  Glovebox itself failed
  5  another failure: memory, the worker died 130  you interrupted it: SIGINT, SIGTERM or SIGHUP to glovebox
  6  its value has no JSON form, such as a function or a bigint`

const evalExample = `glovebox eval '[1, 2, 3].map(x => x * 2)'
glovebox eval -f report.js --timeout 500ms --memory 64MiB
echo '({ now: Date.now() })' | glovebox eval --json
glovebox eval --raw '"text without quotes"'
glovebox eval --module 'export const answer = await Promise.resolve(42)'
glovebox eval -f main.mjs --modules src
glovebox eval --engine-info`

// evalFlags are the flags of eval, as they were written.
type evalFlags struct {
	file, timeout, memory, jit, sandbox, modules, factory, fragment string
	json, raw, strict, engine, module                               bool
	policy                                                          policyFlag

	given func(name string) bool // whether the flag was written
}

func newEval() *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use:         "eval",
		Short:       "Evaluate JavaScript in a sealed worker.",
		Long:        evalLong,
		Annotations: map[string]string{usageLines: "glovebox eval [FLAGS] CODE\nglovebox eval [FLAGS] -f FILE|-"},
		Example:     evalExample,
		Args:        cobra.ArbitraryArgs,
		RunE:        func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	f.given = flags.Changed
	flags.StringVarP(&f.file, "file", "f", "", "`file` with the code; - is standard input, which is also taken when there is no code")
	flags.BoolVar(&f.module, "module", false, "the code is a module, as it is in a file that ends in .mjs or .ts")
	flags.StringVar(&f.modules, "modules", "", "`folder` of modules that can be imported, no links in it")
	flags.StringVar(&f.factory, "jsx-factory", "", "`function` that tags of .tsx and .jsx files call, such as h")
	flags.StringVar(&f.fragment, "jsx-fragment", "", "`name` of what stands for <> there (default Fragment)")
	flags.BoolVar(&f.json, "json", false, "print one JSON object: status, result or error, stdout and stderr of the console, usage, engine")
	flags.BoolVar(&f.raw, "raw", false, "print a string as it is, without quotes")
	flags.StringVar(&f.timeout, "timeout", "", "`time` that the code may take (default 5s)")
	flags.StringVar(&f.memory, "memory", "", "`size` of the worker's memory (default 256MiB)")
	flags.StringVar(&f.jit, "jit", "", "`compilers` that run: baseline or full (default none)")
	flags.BoolVar(&f.strict, "strict-eval", false, "eval and the constructors of functions throw")
	f.policy.add(cmd)
	flags.StringVar(&f.sandbox, "sandbox", "require", "`mode`: require every layer, or auto for what this host can give")
	flags.BoolVar(&f.engine, "engine-info", false, "print engine, build id and mode, and run nothing")
	for name, words := range map[string][]string{"jit": {"baseline", "full"}, "sandbox": {"require", "auto"}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

// evalOutput is the object of --json: what came of the program, and where it ran.
type evalOutput struct {
	js.Execution
	Engine   js.Engine `json:"engine"`
	Complete bool      `json:"complete"` // every layer of the sandbox holds
}

func (f *evalFlags) run(cmd *cobra.Command, args []string) error {
	if err := errors.Join(oneOf("jit", f.jit, []string{"", "baseline", "full"}), oneOf("sandbox", f.sandbox, []string{"require", "auto"})); err != nil {
		return err
	}
	code, name, err := f.code(args)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	opts := js.Options{Sandbox: f.sandbox, InitPath: besideOrSelf(), JIT: js.JIT(f.jit), StrictEval: f.strict}
	if !f.json {
		opts.Console = func(_ js.Level, text string) { fmt.Fprintln(stderr, termtext.String(text)) }
	}
	if opts.Limits, err = f.limits(); err != nil {
		return err
	}
	maker := &transformer{factory: f.factory, fragment: f.fragment}
	if f.modules != "" {
		if opts.Modules, err = folderModules(f.modules); err != nil {
			return err
		}
		opts.Resolve = maker.resolver(opts.Modules)
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	if opts.Gate, err = f.judge(ctx, name, code); err != nil {
		return err
	}
	rt, err := js.New(ctx, opts)
	if err != nil {
		return evalFailed(ctx, err)
	}
	defer rt.Close()
	maker.rt = rt
	if f.engine {
		return f.engineInfo(cmd.OutOrStdout(), rt.Engine())
	}
	complete := warnLayers(stderr, rt.Evidence())
	script, err := f.script(ctx, maker, name, code)
	var wrong *js.Error
	switch {
	case f.json && errors.As(err, &wrong) && wrong.Kind == js.SyntaxError:
		e := js.Execution{Status: js.StatusError, Result: json.RawMessage("null"), Kind: wrong.Kind, ErrorType: wrong.Name, Error: wrong.Message}
		return f.object(cmd.OutOrStdout(), &evalOutput{e, rt.Engine(), complete})
	case err != nil:
		return evalFailed(ctx, err)
	}
	if f.json {
		e, err := rt.Execute(ctx, script)
		if err != nil {
			return evalFailed(ctx, err)
		}
		return f.object(cmd.OutOrStdout(), &evalOutput{e, rt.Engine(), complete})
	}
	v, _, err := rt.Run(ctx, script)
	if err != nil {
		return evalFailed(ctx, err)
	}
	return f.print(cmd.OutOrStdout(), v)
}

// warnLayers names the layers that do not hold, and tells whether all do.
func warnLayers(w io.Writer, e glovebox.Evidence) (complete bool) {
	complete = true
	for _, l := range e.Layers {
		if !l.Applied && l.Name != "speculation" && l.Name != "time" {
			complete = false
			fmt.Fprintln(w, "glovebox: warning: "+termtext.String("the layer "+l.Name+" does not hold: "+l.Detail))
		}
	}
	return complete
}

// script is what runs: a file's syntax is told by its name's end.
func (f *evalFlags) script(ctx context.Context, maker *transformer, name, code string) (s js.Script, err error) {
	s = f.written(name, code)
	if f.file == "" || f.file == "-" {
		return s, nil
	}
	s.Code, err = maker.transform(ctx, filepath.Base(f.file), code)
	return s, err
}

// written is what runs, as it is written.
func (f *evalFlags) written(name, code string) js.Script {
	s := js.Script{Name: name, Code: code, Module: f.module}
	if f.file == "" || f.file == "-" {
		return s
	}
	ext := filepath.Ext(f.file)
	if s.Module = s.Module || ext == ".mjs" || typed[ext] != ""; s.Module {
		s.Name = entryName(f.file, f.modules)
	}
	return s
}

// judge is the gate of --policy. It is asked about the code at once, before there
// is a worker, unless that has to be made JavaScript first; the runtime asks again.
func (f *evalFlags) judge(ctx context.Context, name, code string) (gate.Gate, error) {
	g, err := f.policy.gate()
	if err != nil || g == nil || f.engine || f.file != "-" && typed[filepath.Ext(f.file)] != "" {
		return g, err
	}
	s := f.written(name, code)
	kind := gate.Script
	if s.Module {
		kind = gate.Module
	}
	return g, gate.Ask(ctx, g, []byte(code), gate.Info{Kind: kind, Language: "javascript", Name: s.Name})
}

// code finds what is to be evaluated, and what stacks call it.
func (f *evalFlags) code(args []string) (code, name string, err error) {
	switch {
	case f.engine && (len(args) > 0 || f.file != ""):
		return "", "", usagef("--engine-info runs no code")
	case f.engine:
		return "", "", nil
	case len(args) > 1:
		return "", "", usagef("the code is one argument; put it in quotes")
	case len(args) == 1 && f.file != "":
		return "", "", usagef("the code is an argument or a file, not both")
	case len(args) == 1:
		return args[0], "eval", nil
	case f.file == "" || f.file == "-":
		if f.file == "" && isTerminal(os.Stdin) {
			return "", "", usagef("no code: give it as an argument, with -f FILE, or on standard input")
		}
		text, err := io.ReadAll(io.LimitReader(os.Stdin, 16<<20))
		return string(text), "stdin", err
	}
	file, err := os.Open(f.file)
	if err != nil {
		return "", "", usagef("-f %s: %s", f.file, cause(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 16<<20))
	if err != nil {
		return "", "", usagef("-f %s: %s", f.file, cause(err))
	}
	return string(text), f.file, nil
}

func (f *evalFlags) limits() (js.Limits, error) {
	var l js.Limits
	floor, ceiling := js.Bounds()
	for _, s := range []struct {
		flag, text string
		unit       unit
		of         func(*js.Limits) *int64
	}{
		{"timeout", f.timeout, duration, func(l *js.Limits) *int64 { return &l.TimeoutMS }},
		{"memory", f.memory, size, func(l *js.Limits) *int64 { return &l.MemoryBytes }},
	} {
		if !f.given(s.flag) {
			continue
		}
		n, err := s.unit.limit("--"+s.flag, s.text, s.text, *s.of(&floor), *s.of(&ceiling))
		if err != nil {
			return l, err
		}
		*s.of(&l) = n
	}
	return l, nil
}

func (f *evalFlags) engineInfo(w io.Writer, e js.Engine) error {
	if f.json {
		return writeJSON(w, e)
	}
	_, err := fmt.Fprintf(w, "%s\nbuild id %s\nmode %s\n", e.Name, e.BuildID, e.Mode)
	return err
}

// print prints a value as JSON.
func (f *evalFlags) print(w io.Writer, v js.Value) error {
	if v.IsUndefined() {
		return nil
	}
	if s, ok := v.Any().(string); ok && f.raw {
		_, err := fmt.Fprintln(w, forTerminal(w, s))
		return err
	}
	text, err := v.MarshalJSON()
	if err != nil {
		return &statusError{exitNoJSON, err}
	}
	_, err = fmt.Fprintln(w, forTerminal(w, string(text)))
	return err
}

// forTerminal is text of a guest: raw in a pipe, neutralised on a terminal.
func forTerminal(w io.Writer, s string) string {
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		return termtext.String(s)
	}
	return s
}

// object prints the object of --json; the exit status is the same as without.
func (f *evalFlags) object(w io.Writer, out *evalOutput) error {
	var end error
	switch {
	case out.Status != js.StatusOK:
		end = &statusError{code: evalStatus(out.Kind)}
	case out.NoJSON != "":
		end = &statusError{code: exitNoJSON}
	}
	return errors.Join(writeJSON(w, out), end)
}

// evalStatus is the exit status for a kind of failure.
func evalStatus(k js.Kind) int {
	switch k {
	case js.SyntaxError, js.Thrown, js.NeverSettles:
		return exitScript
	case js.Timeout, js.HardTimeout, js.CPULimit:
		return exitScriptTime
	case js.Unsupported:
		return exitNoJSON
	case js.Unavailable:
		return exitUnavailable
	case "":
		return exitFailed
	}
	return exitScriptOther
}

// evalFailed is the error with its exit status, and the guest's stack below it.
func evalFailed(ctx context.Context, err error) error {
	var e *js.Error
	if !errors.As(err, &e) {
		return err // bad options, or the policy
	}
	if denied := new(gate.Denied); errors.As(e.Err, &denied) { // a module that it imports
		return denied
	}
	if e.Kind == js.Canceled && errors.Is(context.Cause(ctx), errInterrupted) {
		return &statusError{exitInterrupted, errInterrupted}
	}
	text := e.Error()
	if e.Kind == js.Timeout || e.Kind == js.MemoryLimit { // words of the library, none of the guest's
		text = strings.NewReplacer("timeout_ms", "--timeout", "memory_bytes", "--memory").Replace(text)
	}
	return &statusError{evalStatus(e.Kind), &thrownError{text, e.Stack}}
}

// thrownError is what a guest threw. The lines of the stack stand below the sentence,
// indented: a guest has its words in them too.
type thrownError struct{ text, stack string }

func (e *thrownError) Error() string { return e.text }
