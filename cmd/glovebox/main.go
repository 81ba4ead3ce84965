// Command glovebox runs untrusted programs in sealed cells and tells what this
// host can enforce. See glovebox help.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/termtext"
)

// Exit statuses that are not the guest's own. They are part of the contract.
const (
	exitUsage       = 2
	exitUnavailable = 4
	exitMemory      = 120
	exitOutput      = 121
	exitDenied      = 122
	exitCompile     = 123
	exitTimeout     = 124
	exitFailed      = 125
	exitSignal      = 128 // and the signal's number
	exitInterrupted = 130
)

// The main goroutine stays on the main thread, for the case in which this
// process becomes a launcher or the first process of a cell.
func init() { runtime.LockOSThread() }

func main() {
	glovebox.Init() // for an installation of one file
	done := make(chan int)
	// The rest is an ordinary program, whose goroutines may change threads.
	go func() { done <- command(os.Args[1:], os.Stdout, os.Stderr) }()
	os.Exit(<-done)
}

// command runs one command line and returns the exit status.
func command(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return 0
	}
	code, say := explain(err)
	if say != "" {
		fmt.Fprintln(stderr, "glovebox: "+termtext.String(say))
	}
	if thrown := (*thrownError)(nil); errors.As(err, &thrown) {
		for line := range strings.Lines(thrown.stack) {
			fmt.Fprintln(stderr, "  "+termtext.String(strings.TrimSuffix(line, "\n")))
		}
	}
	if denied := (*gate.Denied)(nil); errors.As(err, &denied) {
		for _, line := range findingLines(denied) {
			fmt.Fprintln(stderr, termtext.String(line))
		}
	}
	return code
}

// usageError is a command line that cannot be meant: exit status 2.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// statusError ends the program with a status and, if there is an error, says it.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string { return fmt.Sprint("exit status ", e.code) }

func (e *statusError) Unwrap() error { return e.err }

// explain gives the exit status for an error and the sentence to say.
func explain(err error) (code int, say string) {
	var (
		usage  *usageError
		status *statusError
		field  *glovebox.FieldError
		denied *gate.Denied
		told   *api.ServiceError
	)
	switch {
	case errors.As(err, &status):
		if status.err == nil {
			return status.code, ""
		}
		return status.code, status.err.Error()
	case errors.As(err, &usage):
		return exitUsage, usage.text
	case errors.As(err, &field):
		return exitUsage, flagOf(field)
	case errors.As(err, &denied):
		return exitUsage, fmt.Sprintf("%s is not run: %s", deniedName(denied), denied.Reason)
	case errors.Is(err, glovebox.ErrSandboxUnavailable):
		return exitUnavailable, err.Error()
	case errors.Is(err, errInterrupted): // before there was a cell
		return exitInterrupted, err.Error()
	case errors.As(err, &told):
		return serviceStatus(told), serviceSentence(err)
	}
	return exitFailed, err.Error()
}

// wrongValue finds the flag in what cobra says of a value of another type.
var wrongValue = regexp.MustCompile(`(?s)^invalid argument .* for "(?:-., )?--([a-z-]+)" flag: `)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "glovebox",
		Short:         "Run untrusted programs in sealed cells, and survive them.",
		Annotations:   map[string]string{usageLines: "glovebox COMMAND …"},
		Example:       "glovebox run prog.py\nglovebox run --wall 500ms -- /bin/sh -c 'echo hello'\nglovebox status",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if v, _ := cmd.Flags().GetBool("version"); v {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
				return err
			}
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			cmd.SetOut(cmd.ErrOrStderr())
			return errors.Join(cmd.Help(), &statusError{code: exitUsage})
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.DisableDefaultCmd = true
	root.Flags().Bool("version", false, "print the version")
	root.SetHelpFunc(help)
	root.SetHelpCommand(newHelp())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var wrong interface{ GetValue() string }
		if m := wrongValue.FindStringSubmatch(err.Error()); m != nil && errors.As(err, &wrong) {
			switch cmd.Flags().Lookup(m[1]).Value.Type() {
			case "bool":
				return usagef("--%s %q: must be true or false", m[1], wrong.GetValue())
			case "int":
				return usagef("--%s %q: must be a whole number", m[1], wrong.GetValue())
			}
		}
		return usagef("%s (%s --help tells the flags)", err, cmd.CommandPath())
	})
	root.AddCommand(newRun(), newServe(), newStatus(), newEval(), newCheck(), newLanguages(), newTrace(), newRedteam(), newMCP(), newKeys(), newVersion(), newCompletion())
	for _, c := range append(root.Commands(), root) {
		c.Flags().BoolP("help", "h", false, "show this help")
		c.DisableFlagsInUseLine = true
	}
	return root
}

func unknownCommand(root *cobra.Command, name string) error {
	if exists(name) {
		return usagef("there is no command %q; a program is run by glovebox run %s", name, name)
	}
	for _, s := range root.SuggestionsFor(name) {
		return usagef("there is no command %q; did you mean %q?", name, s)
	}
	return usagef("there is no command %q (glovebox help lists them)", name)
}

// noArgs refuses arguments to a command that takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, not %q", cmd.CommandPath(), args[0])
	}
	return nil
}
