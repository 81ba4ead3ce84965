package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// usageLines is the annotation with a command's usage, one form a line.
const usageLines = "usage"

// flagGroup is a titled part of a command's flags.
type flagGroup struct{ title, text string }

// flagGroups are the groups of a command's help, by its name. A command that is
// not in here shows its flags in one group.
var flagGroups = map[string][]flagGroup{}

// help prints the help of a command.
func help(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s\n", cmd.Short)
	if cmd.Long != "" {
		fmt.Fprintf(out, "\n%s\n", cmd.Long)
	}
	usage := cmd.Annotations[usageLines]
	if usage == "" {
		usage = cmd.UseLine()
	}
	section(out, "Usage", usage)
	var commands []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			commands = append(commands, fmt.Sprintf("%-12s %s", c.Name(), strings.TrimSuffix(c.Short, ".")))
		}
	}
	section(out, "Commands", strings.Join(commands, "\n"))
	if groups, ok := flagGroups[cmd.Name()]; ok {
		for _, g := range groups {
			fmt.Fprintf(out, "\n%s:\n%s", g.title, g.text)
		}
	} else {
		fmt.Fprintf(out, "\nFlags:\n%s", cmd.LocalFlags().FlagUsages())
	}
	section(out, "Examples", cmd.Example)
}

func section(out io.Writer, title, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	for line := range strings.Lines(text) {
		fmt.Fprintf(out, "  %s\n", strings.TrimRight(line, "\n"))
	}
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command.",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), strings.Join(args, " "))
			}
			return target.Help()
		},
	}
}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a script that completes commands and flags in your shell.",
		Long:      "Load it for one session with the example, or put it where your shell keeps its completions.\nBash needs its package bash-completion besides.",
		Example:   "source <(glovebox completion bash)\nsource <(glovebox completion zsh)\nglovebox completion fish | source",
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			out, root := cmd.OutOrStdout(), cmd.Root()
			if len(args) != 1 {
				return usagef("completion needs one shell: bash, zsh or fish")
			}
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return usagef("completion %q: must be bash, zsh or fish", args[0])
		},
	}
}
