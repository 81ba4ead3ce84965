package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/internal/mcpserver"
	"github.com/glovebox-dev/glovebox/internal/termtext"
)

// tokenVar is the variable with the bearer token of --http.
const tokenVar = "GLOVEBOX_MCP_TOKEN"

const mcpLong = `Models get the sandbox by the Model Context Protocol. Without flags the client is whoever started this program: it writes
to its stdin and reads its stdout, which nothing else uses. That is how most clients start a server:

  {"mcpServers": {"glovebox": {"command": "glovebox", "args": ["mcp"]}}}

--http serves streamable HTTP at http://ADDRESS/mcp. Every request needs a bearer token: that of --token-file or
$GLOVEBOX_MCP_TOKEN, else one that is made at the start and printed to stderr once. It needs a Host that is the address,
localhost or of --allow-host too, and no Origin but those of --allow-origin. --socket makes a unix socket for this user
alone, on which a message is a line.

The tools are run_code, javascript (sessions with state), check_code and sandbox_status; docs/mcp.md tells of them. What a
program printed is filtered, cut and marked as untrusted. Where this host cannot seal a cell the tools say so and what mends it; the server goes on.

The exit status is
  0    the client went, or a signal ended the server     4  this host could seal no cell, from start to end
  125  Glovebox itself failed                            2  the command line is wrong`

const mcpExample = `glovebox mcp
glovebox mcp --http 127.0.0.1:8931 --token-file ~/.config/glovebox/token
glovebox mcp --socket "$XDG_RUNTIME_DIR/glovebox.sock"
glovebox mcp --max memory=512MiB --max wall=20s --in-flight 2`

// mcpFlags are the flags of mcp, as they were written.
type mcpFlags struct {
	hostFlags
	http, socket, tokenFile, sandbox string
	hosts, origins, max              []string
	remote                           bool
	inFlight, sessions               int
	policy                           policyFlag
}

func newMCP() *cobra.Command {
	f := &mcpFlags{}
	cmd := &cobra.Command{
		Use:         "mcp",
		Short:       "Serve the sandbox to models, by the Model Context Protocol.",
		Long:        mcpLong,
		Annotations: map[string]string{usageLines: "glovebox mcp [FLAGS]\nglovebox mcp --http ADDRESS [FLAGS]\nglovebox mcp --socket PATH [FLAGS]"},
		Example:     mcpExample,
		Args:        noArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.http, "http", "", "serve HTTP at this `address`, such as 127.0.0.1:8931, in place of stdin and stdout")
	flags.StringVar(&f.socket, "socket", "", "serve this user on a unix socket at this `path`, in place of stdin and stdout")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with bearer tokens, one a line, for --http; nobody else may read it (else $"+tokenVar+", else one is made and printed)")
	flags.StringArrayVar(&f.hosts, "allow-host", nil, "`NAME[:PORT]` that the Host of a request may be besides (repeatable)")
	flags.StringArrayVar(&f.origins, "allow-origin", nil, "`origin` of pages that may ask, such as https://example.com (repeatable; none by default)")
	flags.BoolVar(&f.remote, "allow-remote", false, "let --http listen on an address that is not loopback; the token then travels unencrypted unless a proxy adds TLS")
	flags.StringArrayVar(&f.max, "max", nil, "`NAME=VALUE`: the most that a program may ask of a limit of run, such as memory=512MiB (repeatable; default wall=1m, memory=1GiB and others)")
	flags.IntVar(&f.inFlight, "in-flight", 8, "`number` of programs of one client that may run at once")
	flags.IntVar(&f.sessions, "sessions", 16, "`number` of sessions that one client may have open, and of JavaScript sessions")
	flags.StringVar(&f.sandbox, "sandbox", "require", "`mode`: require every layer, or auto for what this host can give")
	f.policy.add(cmd)
	flags.Lookup("policy").Usage = "JSON `file` that says which sources may run (docs/gates.md); what it does not allow is an error with the code denied"
	f.add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("sandbox", cobra.FixedCompletions([]string{"require", "auto"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("max", cobra.FixedCompletions(limitNames("="), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	return cmd
}

func (f *mcpFlags) run(cmd *cobra.Command) error {
	opts, err := f.options()
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	opts.Logger = slog.New(slog.NewTextHandler(&lineWriter{stderr}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	serve, err := f.transport(cmd)
	if err != nil {
		return err
	}
	s, err := mcpserver.New(opts)
	if err != nil {
		return err
	}
	defer s.Close()
	err = serve(ctx, s)
	if errors.Is(context.Cause(ctx), errInterrupted) || errors.Is(err, io.EOF) {
		err = nil // that is how a server ends
	}
	if err = errors.Join(err, s.Close()); err == nil {
		err = s.Unopened()
	}
	return err
}

// options are those of the server.
func (f *mcpFlags) options() (o mcpserver.Options, err error) {
	switch {
	case f.http != "" && f.socket != "":
		return o, usagef("--http and --socket: give one of them")
	case f.http == "" && (f.tokenFile != "" || len(f.hosts) > 0 || len(f.origins) > 0 || f.remote):
		return o, usagef("--token-file, --allow-host, --allow-origin and --allow-remote are for --http")
	case slices.ContainsFunc(f.hosts, notHost):
		return o, usagef("--allow-host %q: must be NAME or NAME:PORT, such as example.com", f.hosts[slices.IndexFunc(f.hosts, notHost)])
	case slices.ContainsFunc(f.origins, notOrigin):
		return o, usagef("--allow-origin %q: must be an origin, such as https://example.com", f.origins[slices.IndexFunc(f.origins, notOrigin)])
	case f.inFlight < 1 || f.inFlight > 1000:
		return o, usagef("--in-flight %d: must be from 1 to 1000", f.inFlight)
	case f.sessions < 1 || f.sessions > 1000:
		return o, usagef("--sessions %d: must be from 1 to 1000", f.sessions)
	}
	if err := oneOf("sandbox", f.sandbox, []string{"require", "auto"}); err != nil {
		return o, err
	}
	if err := f.load(); err != nil {
		return o, err
	}
	o = mcpserver.Options{Version: strings.Fields(versionText())[1], InFlight: f.inFlight, Sessions: f.sessions}
	o.Box = f.hostFlags.options(glovebox.Options{Sandbox: glovebox.Sandbox(f.sandbox)})
	if o.Box.Gate, err = f.policy.gate(); err != nil {
		return o, err
	}
	o.Agent = agent.Options{Sandbox: f.sandbox, InitPath: besideOrSelf(), Gate: o.Box.Gate}
	for _, written := range f.max {
		name, value, ok := strings.Cut(written, "=")
		i := slices.IndexFunc(limitFlags[:], func(l limitFlag) bool { return l.name == name })
		if !ok || i < 0 {
			return o, usagef("--max %q: must be NAME=VALUE, and NAME one of %s", written, strings.Join(limitNames(""), ", "))
		}
		if err := limitFlags[i].parse(glovebox.Bounds, "--max", written, value, &o.Box.MaxLimits); err != nil {
			return o, err
		}
	}
	return o, nil
}

// notHost and notOrigin are true of what no header of a client would be equal to.
func notHost(s string) bool {
	u, err := url.Parse("http://" + s)
	return err != nil || s == "" || u.Host != s || u.User != nil
}

func notOrigin(s string) bool {
	u, err := url.Parse(s)
	return err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || s != u.Scheme+"://"+u.Host
}

// transport makes ready what the server is reached by.
func (f *mcpFlags) transport(cmd *cobra.Command) (func(context.Context, *mcpserver.Server) error, error) {
	stderr := cmd.ErrOrStderr()
	switch {
	case f.http != "":
		return f.listen(stderr)
	case f.socket != "":
		l, err := mcpserver.ListenSocket(f.socket)
		if err != nil {
			return nil, usagef("--socket: %s", err)
		}
		fmt.Fprintln(stderr, "glovebox: serving on "+termtext.String(l.Addr().String()))
		return func(ctx context.Context, s *mcpserver.Server) error { return s.ServeSocket(ctx, l) }, nil
	}
	if isTerminal(os.Stdin) {
		fmt.Fprintln(stderr, "glovebox: this serves a client of the Model Context Protocol on stdin and stdout, and you are at a terminal; glovebox mcp --help tells more")
	}
	in, out, err := takeStdio()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, s *mcpserver.Server) error { return s.ServeStdio(ctx, in, out) }, nil
}

// takeStdio moves the connection to the client away from descriptors 0 and 1, so that
// nothing else of this process, nor any other, reads from it or writes to it.
func takeStdio() (in, out *os.File, err error) {
	move := func(fd int, name, instead string, mode int) (*os.File, error) {
		moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, err
		}
		file := os.NewFile(uintptr(moved), name)
		with, err := unix.Open(instead, mode|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		defer unix.Close(with)
		return file, unix.Dup3(with, fd, 0)
	}
	if in, err = move(0, "stdin", os.DevNull, unix.O_RDONLY); err != nil {
		return nil, nil, err
	}
	out, err = move(1, "stdout", os.DevNull, unix.O_WRONLY)
	return in, out, err
}

// listen listens for HTTP and finds or makes a token.
func (f *mcpFlags) listen(stderr io.Writer) (func(context.Context, *mcpserver.Server) error, error) {
	host, port, err := net.SplitHostPort(f.http)
	if err != nil {
		return nil, usagef("--http %q: must be ADDRESS:PORT, such as 127.0.0.1:8931", f.http)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, usagef("--http %q: the port must be from 0 to 65535", f.http)
	}
	ip := net.ParseIP(host)
	switch {
	case host == "localhost":
		ip = net.IPv4(127, 0, 0, 1)
	case ip == nil:
		return nil, usagef("--http %q: must be an address in numbers, or localhost", f.http)
	}
	if !ip.IsLoopback() && !f.remote {
		return nil, usagef("--http %q: is not a loopback address; --allow-remote allows it, and the token then travels unencrypted", f.http)
	}
	tokens, made, err := f.tokens()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", strings.Replace(f.http, "localhost:", "127.0.0.1:", 1))
	if err != nil {
		return nil, usagef("--http: %s", err)
	}
	fmt.Fprintf(stderr, "glovebox: serving at http://%s%s\n", l.Addr(), mcpserver.Path)
	if made != "" {
		fmt.Fprintf(stderr, "glovebox: bearer token, shown this once: %s\n", made)
	}
	o := mcpserver.HTTPOptions{Tokens: tokens, Hosts: f.hosts, Origins: f.origins}
	return func(ctx context.Context, s *mcpserver.Server) error { return s.ServeHTTP(ctx, l, o) }, nil
}

// tokens are those of the file, of the variable, or a new one, which is returned. The
// variable is gone afterwards, so that no other process is given it.
func (f *mcpFlags) tokens() (tokens *mcpserver.Tokens, made string, err error) {
	given := os.Getenv(tokenVar)
	_ = os.Unsetenv(tokenVar)
	if f.tokenFile != "" {
		if tokens, err = mcpserver.ReadTokens(f.tokenFile); err != nil {
			return nil, "", usagef("--token-file: %s", err)
		}
		return tokens, "", nil
	}
	if given == "" {
		made = mcpserver.NewToken()
		given = made
	}
	tokens = &mcpserver.Tokens{}
	if err := tokens.Add(given); err != nil {
		return nil, "", usagef("$%s: %s", tokenVar, err)
	}
	return tokens, made, nil
}

// lineWriter writes what a logger says in a form that a terminal cannot obey.
type lineWriter struct{ w io.Writer }

func (w *lineWriter) Write(p []byte) (int, error) {
	_, err := fmt.Fprintln(w.w, "glovebox: "+termtext.String(strings.TrimSuffix(string(p), "\n")))
	return len(p), err
}
