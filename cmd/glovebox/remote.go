package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/client"
	"github.com/glovebox-dev/glovebox/internal/ownfile"
	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/languages"
)

// Variables of those who use a service.
const (
	serverVar = "GLOVEBOX_SERVER"
	keyVar    = "GLOVEBOX_KEY"
)

// serviceFlags say which service is spoken with, and as whom.
type serviceFlags struct {
	server    string
	keyFile   string
	ca        string
	allowHTTP bool
	waitBusy  string
}

func (f *serviceFlags) add(cmd *cobra.Command, what string) {
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "`URL` of the service"+what+", such as https://glovebox.example (else $"+serverVar+")")
	flags.StringVar(&f.keyFile, "key-file", "", "`file` with the API key, or the access token, for it; nobody else may read it (else $"+keyVar+")")
	flags.StringVar(&f.ca, "ca-file", "", "PEM `file` of the certificates that may vouch for it, in place of the system's")
	flags.BoolVar(&f.allowHTTP, "allow-http", false, "let http:// leave this host; programs, their output, keys and tokens then travel for all to read")
	flags.StringVar(&f.waitBusy, "wait-busy", "30s", "`time` for which a service that is busy, or does not answer, is asked again")
}

// origin is the service that is meant, "" for none. written says that it was a flag.
func (f *serviceFlags) origin(written bool) string {
	if written {
		return f.server
	}
	return os.Getenv(serverVar)
}

// options are those of a client for the service.
func (f *serviceFlags) options(server string) (o client.Options, err error) {
	o = client.Options{URL: server, AllowHTTP: f.allowHTTP}
	ms, err := duration.parse(f.waitBusy)
	if err != nil || ms > 3_600_000 {
		return o, usagef("--wait-busy %q: must be %s, from 0 to 1h", f.waitBusy, duration.example())
	}
	if o.Patience = time.Duration(ms) * time.Millisecond; ms == 0 {
		o.Patience = -1
	}
	if o.Key, err = secretOf("--key-file", f.keyFile, keyVar); err != nil || f.ca == "" {
		return o, err
	}
	text, err := ownfile.Read(f.ca, ownfile.Options{MaxBytes: 1 << 20})
	if err != nil {
		return o, usagef("--ca-file %s: %s", f.ca, cause(err))
	}
	if o.RootCAs = x509.NewCertPool(); !o.RootCAs.AppendCertsFromPEM(text) {
		return o, usagef("--ca-file %s: has no certificate", f.ca)
	}
	return o, nil
}

// secretOf is what a file or else a variable has, which is in no sentence.
func secretOf(flag, file, variable string) (string, error) {
	if file == "" {
		return os.Getenv(variable), nil
	}
	text, err := ownfile.Read(file, ownfile.Options{Secret: true, MaxBytes: 4 << 10})
	if err != nil {
		return "", usagef("%s %s: %s", flag, file, cause(err))
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", usagef("%s %s: is empty", flag, file)
	}
	return secret, nil
}

// connect makes a client, in whose errors the options have the names of flags.
func connect(o client.Options) (*client.Client, error) {
	c, err := client.New(o)
	field := (*api.FieldError)(nil)
	if !errors.As(err, &field) {
		return c, err
	}
	named := *field
	switch field.Field {
	case "URL":
		named.Field = "--server"
		if strings.Contains(field.Reason, "https, or") {
			named.Reason += "; --allow-http allows it"
		}
	case "Key":
		named.Field = "the key"
	case "OperatorToken":
		named.Field = "the operator's token"
	}
	return nil, usagef("%s", named.Error())
}

// localOnly are flags of run that say something of this host.
var localOnly = []struct{ flag, why string }{
	{"folder", "a service shows programs no folder of this host; send its files with --file"},
	{"sandbox", "the service says which layers must hold"},
	{"profile", "the service says which system calls are allowed"},
	{"policy", "the service has a policy of its own, and this one would be asked by nobody"},
	{"language-file", "the service has languages of its own"},
	{"cache-dir", "compilers run on the service"},
}

// runRemote runs the program of a command line on a service.
func runRemote(cmd *cobra.Command, f *runFlags, args []string, server string) error {
	for _, l := range localOnly {
		if f.given(l.flag) {
			return usagef("--%s: does not go with a service (%s): %s", l.flag, serverName(f.given("server")), l.why)
		}
	}
	f.remote, f.languages = true, languages.Builtin()
	p, err := f.program(args, cmd.ArgsLenAtDash())
	if err != nil {
		return err
	}
	stdin, err := f.input()
	if err != nil {
		return err
	}
	o, err := f.service.options(server)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	o.Retrying = teller(stderr, f.json == "" && isTerminal(stderr), o.Patience)
	c, err := connect(o)
	if err != nil {
		return err
	}
	defer c.Close()
	dest, err := f.openOut() // the last that can be refused, since it may make a folder
	if err != nil {
		return err
	}
	defer dest.close()
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &remoteRun{c: c, p: p, sink: newSink(f.json, cmd.OutOrStdout(), stderr, dest, cancel)}
	return r.run(ctx, stdin)
}

func serverName(flag bool) string {
	if flag {
		return "--server"
	}
	return "$" + serverVar
}

// teller tells a person once why there is a wait.
func teller(w io.Writer, people bool, patience time.Duration) func(error, time.Duration) {
	told := map[string]bool{}
	return func(err error, _ time.Duration) {
		why := serviceSentence(err)
		if people && !told[why] && len(told) < 8 {
			told[why] = true
			fmt.Fprintf(w, "glovebox: %s: trying again for up to %s\n", termtext.String(why), duration.format(patience.Milliseconds(), " "))
		}
	}
}

// remoteRun is a program that runs on a service.
type remoteRun struct {
	c    *client.Client
	p    glovebox.Program
	sink *sink
	seen [2]tally // of stdout and stderr
}

func (r *remoteRun) run(ctx context.Context, stdin io.Reader) error {
	opts := []client.RunOption{client.WithEvents(r.event)}
	if stdin != nil {
		opts = append(opts, client.WithStdin(stdin))
	}
	running, err := r.c.Start(ctx, r.p, opts...)
	if err != nil {
		return err
	}
	result, err := running.Wait()
	broken := (*writeError)(nil)
	if err != nil && !errors.As(context.Cause(ctx), &broken) {
		return err
	}
	if err != nil { // nobody reads what is written, and the service does not answer either
		result = &glovebox.Result{ID: running.ID(), Verdict: api.Canceled}
	}
	r.rest(result)
	r.fetch(ctx, running, result)
	r.warn(result)
	return r.sink.end(result, r.limits(ctx, result), context.Cause(ctx))
}

// event takes one event of the run. The final one waits for the artifacts.
func (r *remoteRun) event(f api.Frame) {
	s := r.sink
	switch {
	case f.Type == "finished":
		return
	case f.Type == "queued" || f.Type == "compiling":
		if s.form == "stream" {
			if err := s.line(f); err != nil {
				s.cancel(&writeError{err})
			}
		} else if f.Position != nil && *f.Position > 0 && s.form == "" && s.people {
			fmt.Fprintf(s.stderr, "glovebox: waits on the service, behind %d others\n", *f.Position)
		}
		return
	case f.Type == "chunk":
		r.tally(f.Stream).add(f.Data, f.Base64)
	}
	s.event(f.Event)
}

func (r *remoteRun) tally(stream string) *tally {
	if stream == "stderr" {
		return &r.seen[1]
	}
	return &r.seen[0]
}

// rest writes what the result has of the output and the events had not: a service
// keeps a bounded number of events.
func (r *remoteRun) rest(result *glovebox.Result) {
	if r.sink.form != "" {
		return
	}
	for stream, text := range map[string][2]string{"stdout": {result.Stdout, result.StdoutBase64}, "stderr": {result.Stderr, result.StderrBase64}} {
		more, ok := r.tally(stream).rest(bytesOf(text[0], text[1]))
		if !ok {
			fmt.Fprintf(r.sink.stderr, "glovebox: warning: parts of %s did not come; --json has all of it\n", stream)
		} else if len(more) > 0 {
			r.sink.event(glovebox.Event{Type: "chunk", Stream: stream, Base64: base64.StdEncoding.EncodeToString(more)})
		}
	}
}

func bytesOf(text, base string) []byte {
	if data, err := base64.StdEncoding.DecodeString(base); err == nil && base != "" {
		return data
	}
	return []byte(text)
}

// tally is what has been written of a stream.
type tally struct {
	n   int
	sum hash.Hash
}

func (t *tally) add(text, base string) {
	if t.sum == nil {
		t.sum = sha256.New()
	}
	data := bytesOf(text, base)
	t.sum.Write(data)
	t.n += len(data)
}

// rest is what follows in all of a stream; false if it does not begin with what was
// written.
func (t *tally) rest(all []byte) ([]byte, bool) {
	if t.sum == nil {
		return all, true
	}
	if t.n > len(all) { // a result without its output, as that of a run that was interrupted
		return nil, true
	}
	have := sha256.Sum256(all[:t.n])
	return all[t.n:], bytes.Equal(have[:], t.sum.Sum(nil))
}

// fetch gets the artifacts. One that does not come, or not as the result tells of it,
// is among the refused ones.
func (r *remoteRun) fetch(ctx context.Context, running *client.Running, result *glovebox.Result) {
	if r.sink.dest == nil && r.sink.form == "" {
		return
	}
	var have []api.Artifact
	for _, a := range result.Artifacts {
		file, err := running.Artifact(ctx, a.Name)
		if err == nil {
			a.Content, err = io.ReadAll(file)
			a.URL = ""
		}
		if err != nil {
			result.RefusedArtifacts = append(result.RefusedArtifacts, api.RefusedArtifact{Name: a.Name, Reason: "cannot be fetched: " + serviceSentence(err)})
			r.sink.unfetched++
			continue
		}
		have = append(have, a)
	}
	result.Artifacts = have
}

// warn names the layers that did not hold, where the service runs without.
func (r *remoteRun) warn(result *glovebox.Result) {
	if result.Evidence.Sandbox == "require" {
		return
	}
	var names []string
	for _, l := range result.Evidence.Layers {
		if !l.Applied && l.Name != "speculation" && l.Name != "time" && len(names) < 10 {
			names = append(names, l.Name)
		}
	}
	if len(names) > 0 {
		fmt.Fprintln(r.sink.stderr, "glovebox: warning: "+termtext.String("the service ran it in an incomplete sandbox: without "+strings.Join(names, ", ")))
	}
}

// limits are those that the program ran under, for the words about them.
func (r *remoteRun) limits(ctx context.Context, result *glovebox.Result) glovebox.Limits {
	ceiling := api.ServiceMaxLimits(1 << 10)
	if said := result.Verdict != api.OK && result.Verdict != api.Error; said && ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if info, err := r.c.Limits(ctx); err == nil {
			ceiling = info.Ceilings.Over(ceiling)
		}
	}
	return effective(r.p, languages.Builtin(), ceiling)
}

// maxSaid is how much of a service's sentence is said.
const maxSaid = 1000

// serviceSentence is what is said of an error of a service.
func serviceSentence(err error) string {
	said := err.Error()
	var told *api.ServiceError
	if errors.As(err, &told) {
		said = "the service: " + told.Message + " (" + string(told.Code) + ")"
		if rest, ok := strings.CutPrefix(told.Message, told.Field); ok && told.Code == api.CodeBadField {
			said = flagName(told.Field) + inFlags(rest)
		}
		if told.RetryAfterMS >= 1000 {
			said += fmt.Sprintf("; again in %s", time.Duration(min(told.RetryAfterMS, 1<<40)/1000)*time.Second)
		}
		if told.Code == api.CodeInternal {
			said = join(said, "request "+told.RequestID)
		}
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		said = cmp.Or(u.Err.Error(), said)
	}
	return said[:min(len(said), maxSaid)]
}

// serviceStatus is the exit status for an error of a service.
func serviceStatus(e *api.ServiceError) int {
	switch e.Code {
	case api.CodeBadField, api.CodeBadRequest, api.CodeDeniedByPolicy, api.CodeTooLarge:
		return exitUsage
	case api.CodeUnavailable:
		return exitUnavailable
	}
	return exitFailed
}
