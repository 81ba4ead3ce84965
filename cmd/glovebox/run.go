package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/languages"
)

const runLong = `The program runs in a cell of its own: no network, no files of this host but /usr, what of /etc belongs to it and the
folders of --folder, no privileges, bounded memory, processor time, processes, files and output. Its language is told by
-l, by the file's name or by its "#!" line (glovebox languages lists them). Flags come first: what follows the first
argument that is none is the program's. Standard input goes to the program if it is a pipe or a file. On a terminal what
the program prints is shown without control sequences, except for colours. What a compiler writes goes to stderr.

A program of several files gets the others by --file. A folder goes into /box under its name, and what is in the working
directory (--file .) into /box itself; names that begin with a dot stay behind. A program that lies in such a folder runs
where it lies there. What is larger than 8 MiB can be shown with --folder.

With --artifact and --out the files that the program leaves are kept, with their folders and permission bits; nothing
that is in the folder already is changed. A file that is wanted and missing, or not given since it is no plain file, is
told on stderr. One that could not be written, too; if the program ended well the exit status is 125 then.

With --server, or $GLOVEBOX_SERVER, the program runs on a service (glovebox serve) in place of this host: --server '' keeps it here.
Output comes as it is printed, over as many connections as that takes; the submission is one run however often it is sent. A
signal to glovebox cancels it there. Flags that say something of this host are refused; the bounds of limits are the service's.

The exit status is the program's own, 128 + n if signal n ended it, or
  120  it needed more memory than allowed       124  it ran out of time
  121  it printed more than allowed             125  Glovebox itself failed
  122  it made a forbidden system call          130  you interrupted it: SIGINT, SIGTERM or SIGHUP to glovebox
  123  it could not be compiled                   2  the command line is wrong
                                                  4  this host cannot seal a cell
A program can exit with such a number too; --json tells them apart. A command that is not in the cell gives 127, one that
cannot be run 126, as in a shell.`

const runExample = `glovebox run prog.py one two
glovebox run --wall 500ms --memory 64MiB prog.py < data.txt
glovebox run -l python -e 'print(6 * 7)'
glovebox run --file data.csv --file lib --env MODE=fast prog.py
glovebox run --file . cmd/app/main.go
glovebox run --artifact '*.png' --out plots --folder /srv/data:/data prog.py
glovebox run --compile-limit wall=1m main.rs
glovebox run --json -- /bin/sh -c 'echo $0' | jq .verdict
glovebox run --server http://127.0.0.1:8080 --artifact '*.png' --out plots prog.py`

func newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a program in a sealed cell.",
		Long:  runLong,
		Annotations: map[string]string{usageLines: "glovebox run [FLAGS] FILE|- [ARG]…\n" +
			"glovebox run [FLAGS] -e CODE [ARG]…\nglovebox run [FLAGS] -- COMMAND [ARG]…"},
		Example: runExample,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if server := f.service.origin(f.given("server")); server != "" {
				return runRemote(cmd, f, args, server)
			}
			return run(cmd, f, args, nil)
		},
	}
	f.add(cmd)
	completeRun(cmd)
	return cmd
}

// completeRun completes the flags of run, which trace has too.
func completeRun(cmd *cobra.Command) {
	cmd.Flags().SetInterspersed(false)
	complete := func(flag string, words ...string) {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	complete("language", languages.Builtin().Names()...)
	complete("network", "none", "loopback")
	complete("sandbox", "require", "auto")
	if cmd.Name() == "run" {
		complete("json", "stream")
	}
	complete("artifact")
	for _, flag := range []string{"out", "folder"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	}
	_ = cmd.RegisterFlagCompletionFunc("compile-limit",
		cobra.FixedCompletions(limitNames("="), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// run runs the program of a command line, and traces it if there is a tracing.
func run(cmd *cobra.Command, f *runFlags, args []string, tracing *tracing) error {
	if err := f.load(); err != nil {
		return err
	}
	p, err := f.program(args, cmd.ArgsLenAtDash())
	if err != nil {
		return err
	}
	stdin, err := f.input()
	if err != nil {
		return err
	}
	opts, err := f.options(stdin)
	if err != nil {
		return err
	}
	profiles, err := f.additions()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	o, err := f.judged(ctx, p, profiles)
	if err != nil {
		return err
	}
	dest, err := f.openOut() // the last that can be refused, since it may make a folder
	if err != nil {
		return err
	}
	defer dest.close()
	box, err := glovebox.New(o)
	if err != nil {
		return err
	}
	defer box.Close()
	stderr := cmd.ErrOrStderr()
	warnIncomplete(stderr, box.Status())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := newSink(f.json, cmd.OutOrStdout(), stderr, dest, cancel)
	if tracing != nil {
		opts = append(opts, glovebox.WithTrace(&tracing.trace, tracing.how))
		out.tracing = tracing
	}
	running, err := box.Start(ctx, p, append(opts, glovebox.WithEvents(out.event))...)
	if err != nil {
		return err
	}
	result, err := running.Wait()
	if err != nil {
		return err
	}
	_, ceiling := glovebox.Bounds()
	return out.end(result, effective(p, f.languages, ceiling), context.Cause(ctx))
}

// judged are the options of the Box for a program that the policy, if there is one,
// allows. It is asked here, since New proves the sandbox on a cell.
func (f *runFlags) judged(ctx context.Context, p glovebox.Program, profiles map[string][]string) (o glovebox.Options, err error) {
	// Nobody waits for a second program, so no cell is kept armed for it.
	o = f.hostFlags.options(glovebox.Options{Sandbox: glovebox.Sandbox(f.sandbox), Once: true, MaxCells: 1, Profiles: profiles})
	if o.Gate, err = f.policy.gate(); err != nil || o.Gate == nil {
		return o, err
	}
	return o, glovebox.Judge(ctx, o, p)
}

// effective are the limits in force for a program, for the words about them.
func effective(p glovebox.Program, known languages.Set, ceiling glovebox.Limits) glovebox.Limits {
	l, compile := p.Limits, glovebox.Limits{}
	if l.Compile != nil {
		compile = *l.Compile
	}
	if lang := known.Find(p.Language); lang != nil {
		l, compile = l.Over(lang.Limits), compile.Over(lang.CompileLimits)
	}
	compile = compile.Over(api.DefaultCompileLimits()).Lower(ceiling)
	l = l.Over(api.DefaultLimits()).Lower(ceiling)
	l.Compile = &compile
	return l
}

// warnIncomplete names the layers that are missing, if there are any.
func warnIncomplete(w io.Writer, s glovebox.Status) {
	if !s.Complete {
		fmt.Fprintln(w, "glovebox: warning: "+termtext.String("the sandbox is incomplete ("+strings.Join(missing(s), ", ")+"); glovebox status tells more"))
	}
}

// errInterrupted is why a context ended that the user's signal ended.
var errInterrupted = errors.New("canceled: interrupted")

// interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP
// ends; a second one ends this process in the usual way, and every cell with
// it. A signal that was ignored when this process started stays so. Of SIGPIPE
// only the error of the write is left, so that cells are put away first.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	got := make(chan os.Signal, 1)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	go func() {
		select {
		case <-got:
			signal.Stop(got)
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); signal.Stop(got) }
}
