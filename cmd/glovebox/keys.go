package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/client"
	"github.com/glovebox-dev/glovebox/internal/termtext"
)

// operatorVar is the variable with the operator's token; operatorFileVar names a file.
const (
	operatorVar     = "GLOVEBOX_OPERATOR_TOKEN"
	operatorFileVar = "GLOVEBOX_OPERATOR_TOKEN_FILE"
)

const keysLong = `A key makes its holder a client of the service, with quotas of its own, wherever it is used from; nobody signs up for one. Requests
show it as the header Authorization: Bearer KEY; glovebox run --server takes it from $GLOVEBOX_KEY or --key-file.

create prints a new key, once: the service keeps only a hash of it. show and revoke are about the key that is given. list, and
revoke with the ID of a key, are the operator's, whose token is that of --operator-token-file or $GLOVEBOX_OPERATOR_TOKEN.

The exit status is
  0    done                                  125  the service refuses, or does not answer
  2    the command line is wrong`

const keysExample = `glovebox keys create --server https://glovebox.example --out ~/.config/glovebox/key
glovebox keys show --key-file ~/.config/glovebox/key
glovebox keys revoke --key-file ~/.config/glovebox/key
glovebox keys list --operator-token-file /etc/glovebox/operator --json`

// keysFlags are the flags of all commands of keys.
type keysFlags struct {
	service  serviceFlags
	json     bool
	out      string
	operator string // the file of the token
	given    func(name string) bool
}

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "keys",
		Short:       "Make, show and revoke the API keys of a service.",
		Long:        keysLong,
		Annotations: map[string]string{usageLines: "glovebox keys create|show|revoke [FLAGS]\nglovebox keys list [FLAGS]\nglovebox keys revoke [FLAGS] ID"},
		Example:     keysExample,
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("keys has no %q; it has create, show, revoke and list", args[0])
			}
			return usagef("keys needs one of create, show, revoke and list (glovebox keys --help tells more)")
		},
	}
	cmd.AddCommand(
		keysCommand("create", "Make an API key, and print it once.", createKey),
		keysCommand("show", "Show what the service knows of the key, and its quota.", showKey),
		keysCommand("revoke", "Revoke the key; for the operator, the one with an ID.", revokeKey),
		keysCommand("list", "List all keys, for the operator.", listKeys))
	flagGroups["keys"] = nil // they are the commands'
	return cmd
}

// keysCommand makes one of the commands of keys.
func keysCommand(name, short string, do func(context.Context, *cobra.Command, *keysFlags, []string) error) *cobra.Command {
	f := &keysFlags{}
	cmd := &cobra.Command{Use: name, Short: short, Annotations: map[string]string{usageLines: "glovebox keys " + name + " [FLAGS]"},
		Example: keysExampleOf(name), DisableFlagsInUseLine: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return do(ctx, cmd, f, args)
		}}
	f.given = cmd.Flags().Changed
	f.service.add(cmd, "")
	cmd.Flags().BoolP("help", "h", false, "show this help")
	switch name {
	case "create":
		cmd.Flags().StringVar(&f.out, "out", "", "`file` for the key, which is made, for you alone to read, and must not be there yet; the key is not printed then")
	case "revoke":
		cmd.Annotations[usageLines] += " [ID]"
		cmd.Args = cobra.ArbitraryArgs
	}
	if name != "revoke" {
		cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	}
	if name != "show" {
		cmd.Flags().StringVar(&f.operator, "operator-token-file", "", "`file` with the operator's token; nobody else may read it (else $"+operatorVar+", or the file $"+operatorFileVar+")")
	}
	return cmd
}

func keysExampleOf(name string) string {
	var lines []string
	for line := range strings.Lines(keysExample) {
		if strings.HasPrefix(line, "glovebox keys "+name+" ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return strings.Join(lines, "\n")
}

// client makes a client that shows the key, or the operator's token. must says that it
// cannot be nobody's.
func (f *keysFlags) client(operator, must bool) (*client.Client, error) {
	server := f.service.origin(f.given("server"))
	if server == "" {
		return nil, usagef("give the service with --server URL or $%s", serverVar)
	}
	o, err := f.service.options(server)
	if err != nil {
		return nil, err
	}
	if operator {
		file := f.operator
		if file == "" {
			file = os.Getenv(operatorFileVar)
		}
		o.Key = ""
		if o.OperatorToken, err = secretOf("--operator-token-file", file, operatorVar); err != nil {
			return nil, err
		}
	}
	switch {
	case must && operator && o.OperatorToken == "":
		return nil, usagef("this is the operator's; give the token with --operator-token-file or $%s", operatorVar)
	case must && o.Key+o.OperatorToken == "":
		return nil, usagef("give the key with --key-file or $%s", keyVar)
	}
	return connect(o)
}

func createKey(ctx context.Context, cmd *cobra.Command, f *keysFlags, _ []string) (err error) {
	c, err := f.client(f.given("operator-token-file"), false)
	if err != nil {
		return err
	}
	defer c.Close()
	var file *os.File
	if f.given("out") { // before there is a key that could be lost
		if file, err = os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return usagef("--out %s: %s", f.out, cause(err))
		}
		defer file.Close()
	}
	k, err := c.CreateKey(ctx)
	if err != nil {
		if file != nil {
			_ = os.Remove(f.out)
		}
		return err
	}
	if file != nil {
		_, err = fmt.Fprintln(file, k.Key)
		if err == nil {
			err = file.Sync()
		}
		if err == nil {
			k.Key = ""
		} else { // it is printed then
			err = &writeError{err}
		}
	}
	if e := f.print(cmd.OutOrStdout(), k); e != nil {
		return &writeError{e}
	}
	return err
}

func showKey(ctx context.Context, cmd *cobra.Command, f *keysFlags, _ []string) error {
	c, err := f.client(false, true)
	if err != nil {
		return err
	}
	defer c.Close()
	k, err := c.Key(ctx)
	if err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), k)
}

func revokeKey(ctx context.Context, cmd *cobra.Command, f *keysFlags, args []string) error {
	if len(args) > 1 {
		return usagef("%s takes one ID at most, not %q too", cmd.CommandPath(), args[1])
	}
	c, err := f.client(len(args) == 1, true)
	if err != nil {
		return err
	}
	defer c.Close()
	if len(args) == 0 {
		err = c.RevokeKey(ctx)
	} else {
		err = c.RevokeKeyID(ctx, args[0])
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), "revoked")
	return err
}

func listKeys(ctx context.Context, cmd *cobra.Command, f *keysFlags, _ []string) error {
	c, err := f.client(true, true)
	if err != nil {
		return err
	}
	defer c.Close()
	keys, err := c.Keys(ctx)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if f.json {
		return writeJSON(out, api.KeyList{Keys: keys, APIVersion: api.Version})
	}
	for _, k := range keys {
		if _, err := fmt.Fprintf(out, "%-33s  made %s  until %s\n", termtext.String(k.ID), day(k.Created), day(k.Expires)); err != nil {
			return err
		}
	}
	return nil
}

// print prints a key. What a service says of one is a stranger's text.
func (f *keysFlags) print(w io.Writer, k *api.KeyInfo) error {
	if f.json {
		return writeJSON(w, k)
	}
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-15s %s\n", name, termtext.String(value))
		}
	}
	line("key", k.Key)
	line("webhook secret", k.WebhookSecret)
	line("id", k.ID)
	line("made", day(k.Created))
	line("until", day(k.Expires))
	if q := k.Runs; q != nil {
		line("runs this hour", fmt.Sprintf("%d of %d, again from %s", q.Used, q.Limit, day(q.Reset)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
