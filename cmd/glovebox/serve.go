package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
	"github.com/glovebox-dev/glovebox/internal/termtext"
)

const serveLong = `Programs come over HTTP, wait in a queue on the disk, run in sealed cells, and end with a verdict that is kept for a day. What was
accepted is not lost: after a crash what had not begun runs, and the rest is interrupted. GET /openapi.json has the whole interface.

At the start it prints what this host can enforce, as status does, and its URL. It listens at --addr and nowhere else: the queue has no port.
Beyond loopback it needs TLS, by --tls-cert and --tls-key or by a proxy that --trusted-proxy names, and the hourly quotas are in force.
A folder of --data has one service at a time.

SIGTERM or SIGINT ends it in order: /readyz says no, nothing more is taken, what runs has --drain-timeout to end and is interrupted then; what
waits runs after the next start. A second signal ends what runs at once. SIGHUP reads the certificates again.

A flag wins over its variable GLOVEBOX_NAME, that over the file of --config, that over the default; --print-config shows what holds and why.
Secrets come from files or variables. docs/serve.md has every setting, docs/runbook.md how it is operated.

The exit status is
  0    a signal ended it, in order               4  this host cannot seal a cell as --sandbox demands
  2    the command line, a variable or the       125  Glovebox itself failed: the address or the folder
       file is wrong                                  is in use, the store cannot be opened, …`

const serveExample = `glovebox serve
glovebox serve --addr 127.0.0.1:0 --data /tmp/glovebox --slots 2
glovebox serve --addr 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem --allow-host run.example.com
GLOVEBOX_OPERATOR_TOKEN_FILE=/etc/glovebox/operator glovebox serve --config /etc/glovebox/glovebox.json --print-config
curl -s 'http://127.0.0.1:8080/v1/runs?wait=30s' -H 'Content-Type: application/json' -d '{"language":"python","source":"print(6*7)"}'`

// serveFlags are the flags of serve, as they were written.
type serveFlags struct {
	config  string
	print   bool
	written map[string][]string
}

func newServe() *cobra.Command {
	f := &serveFlags{written: map[string][]string{}}
	cmd := &cobra.Command{
		Use:         "serve",
		Short:       "Serve the sandbox over HTTP: a queue, results, streams, keys, quotas.",
		Long:        serveLong,
		Annotations: map[string]string{usageLines: "glovebox serve [--config FILE] [FLAGS]\nglovebox serve --print-config [FLAGS]"},
		Example:     serveExample,
		Args:        noArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	general := &cobra.Command{}
	general.Flags().StringVar(&f.config, "config", "", "JSON `file` of settings (else $"+config.FileVar+"); it must be root's or yours, and nobody else's to write")
	general.Flags().BoolVar(&f.print, "print-config", false, "print what every setting is and where it was said, and do nothing")
	groups := []flagGroup{{"Configuration", general.Flags().FlagUsages()}}
	cmd.Flags().AddFlagSet(general.Flags())
	for _, g := range config.Flags(machine()) {
		part := &cobra.Command{}
		part.Flags().SortFlags = false
		for _, s := range g.Flags {
			value := &writtenValue{to: f.written, flag: s}
			added := part.Flags().VarPF(value, s.Name, "", s.Help)
			if added.DefValue = s.Default; s.Bool {
				added.NoOptDefVal = "true"
			}
		}
		groups = append(groups, flagGroup{g.Title, part.Flags().FlagUsages()})
		cmd.Flags().AddFlagSet(part.Flags())
		for _, s := range g.Flags {
			if s.Words != nil {
				_ = cmd.RegisterFlagCompletionFunc(s.Name, cobra.FixedCompletions(s.Words, cobra.ShellCompDirectiveNoFileComp))
			}
		}
	}
	flagGroups["serve"] = groups
	_ = cmd.RegisterFlagCompletionFunc("max", cobra.FixedCompletions(limitNames("="), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	return cmd
}

// writtenValue keeps what was written after a flag; package config judges it.
type writtenValue struct {
	to   map[string][]string
	flag config.Flag
}

var _ pflag.Value = (*writtenValue)(nil)

// Set adds to a list, and replaces another value.
func (v *writtenValue) Set(s string) error {
	if !v.flag.List {
		delete(v.to, v.flag.Name)
	}
	v.to[v.flag.Name] = append(v.to[v.flag.Name], s)
	return nil
}

func (v *writtenValue) String() string { return strings.Join(v.to[v.flag.Name], ",") }

// Type is for the help.
func (v *writtenValue) Type() string {
	if v.flag.Bool {
		return "bool"
	}
	return "value"
}

// machine is this one, for the defaults and bounds of settings.
func machine() config.Machine {
	_, ceiling := glovebox.Bounds()
	return config.ThisMachine(ceiling.MemoryBytes)
}

func (f *serveFlags) run(cmd *cobra.Command) error {
	c, err := config.Load(config.Sources{Flags: f.written, Environ: os.Environ(), File: f.config, Machine: machine()})
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	for _, name := range c.Unknown {
		fmt.Fprintln(stderr, "glovebox: warning: $"+termtext.String(name)+" is no setting")
	}
	if f.print {
		return c.Print(cmd.OutOrStdout())
	}
	dropSecrets()
	s := &serving{config: c, log: newLog(stderr, c), out: cmd.OutOrStdout()}
	return s.run(cmd.Context())
}

// dropSecrets takes what opens something out of the environment, so that no process
// that this one starts is given it.
func dropSecrets() {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if config.IsSecret(name) {
			_ = os.Unsetenv(name)
		}
	}
}

// newLog is the log on standard error, as the configuration wants it. No text in it is
// one that a terminal would obey, or that looks like another line.
func newLog(w io.Writer, c *config.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // one of four words
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == config.LogJSON {
		return slog.New(telemetry.Guard(slog.NewJSONHandler(w, o)))
	}
	return slog.New(telemetry.Guard(slog.NewTextHandler(&lineWriter{w}, o)))
}

// serving is a service from its start to its end.
type serving struct {
	config  *config.Config
	log     *slog.Logger
	out     io.Writer
	opts    service.Options
	sockets []*os.File // what is listened on
	told    bool       // where it serves
}

// options makes the service's from the configuration and the files that it names.
func (s *serving) options() (err error) {
	c := s.config
	if s.opts, err = service.FromConfig(c, s.log); err != nil {
		return usagef("--tls-cert: %s", err)
	}
	policy := policyFlag{c.Policy}
	if s.opts.Box.Gate, err = policy.gate(); err != nil {
		return err
	}
	if c.Profile != "" {
		name, allow, err := readProfile(c.Profile)
		if err != nil {
			return usagef("--profile %s: %s", c.Profile, cause(err))
		}
		s.opts.Box.Profiles = map[string][]string{name: allow}
	}
	s.opts.Server.Version = strings.Fields(versionText())[1]
	return nil
}
