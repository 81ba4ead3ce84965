package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/picture"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
	"github.com/glovebox-dev/glovebox/internal/termtext"
)

// runArgs are the arguments of run_code: the fields of a Program that a client may
// set, by the same names. Only stdin is text here, since models write text.
type runArgs struct {
	Language  string            `json:"language,omitempty"`
	Source    string            `json:"source,omitempty"`
	Files     []glovebox.File   `json:"files,omitempty"`
	Entry     string            `json:"entry,omitempty"`
	Command   []string          `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Stdin     string            `json:"stdin,omitempty"`
	StdinKind string            `json:"stdin_encoding,omitempty"`
	Limits    glovebox.Limits   `json:"limits,omitzero"`
	Artifacts []string          `json:"artifacts,omitempty"`
	Network   string            `json:"network,omitempty"`
}

// program is the Program that the arguments ask for.
func (a *runArgs) program() (glovebox.Program, error) {
	p := glovebox.Program{Language: a.Language, Source: a.Source, Files: a.Files, Entry: a.Entry, Command: a.Command, Args: a.Args, Env: a.Env,
		Limits: a.Limits, Artifacts: a.Artifacts, Network: a.Network}
	switch a.StdinKind {
	case "", "utf-8":
		if a.Stdin != "" {
			p.Stdin = []byte(a.Stdin)
		}
	case "base64":
		b, err := base64.StdEncoding.DecodeString(a.Stdin)
		if err != nil {
			return p, &glovebox.FieldError{Field: "stdin", Reason: "is not base64"}
		}
		p.Stdin = b
	default:
		return p, &glovebox.FieldError{Field: "stdin_encoding", Value: fmt.Sprintf("%q", a.StdinKind), Reason: "must be utf-8 or base64"}
	}
	return p, nil
}

// arguments decodes the arguments of a tool. Names are exact and stand once; what a
// client may not set is refused. No arguments are an empty object.
func arguments(raw json.RawMessage, v any) error {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	return strictjson.Decode(raw, v, strictjson.Options{})
}

const runDescription = `Runs a program in a sealed, single-use cell of this machine and waits for its end. There is no network and no file of the
host but its compilers and interpreters; nothing is kept from one call to the next. Give "language" and "source", or "files" for several, or
"command" for a raw argv. Files that the program leaves below its working directory /box come back if "artifacts" names them: pictures are shown,
all can be read as resources. The result has the verdict (ok, error, timeout, memory_limit, output_limit, compile_error, denied, canceled,
setup_failed), the exit code and, in "untrusted", what the program wrote. Output beyond 64 KiB a stream is cut in its middle.`

func (s *Server) runCode() tool {
	no := false
	return tool{
		tool: &mcp.Tool{Name: "run_code", Title: "Run code in a sealed cell", Description: runDescription, InputSchema: s.runSchema(),
			Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}},
		call: func(ctx context.Context, c *client, req *mcp.CallToolRequest, raw json.RawMessage) (*mcp.CallToolResult, error) {
			var a runArgs
			if err := arguments(raw, &a); err != nil {
				return nil, err
			}
			p, err := a.program()
			if err != nil {
				return nil, err
			}
			return c.run(ctx, req, p)
		},
	}
}

// run runs a program and tells what came of it.
func (c *client) run(ctx context.Context, req *mcp.CallToolRequest, p glovebox.Program) (*mcp.CallToolResult, error) {
	release, err := c.slot()
	if err != nil {
		return nil, err
	}
	defer release()
	box, err := c.s.Box(ctx)
	if err != nil {
		return nil, err
	}
	var opts []glovebox.RunOption
	if p := newProgress(ctx, req); p != nil {
		defer p.stop()
		opts = append(opts, glovebox.WithEvents(p.event))
	}
	r, err := box.Run(ctx, p, opts...)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return c.answer(r), nil
}

// outcome is the result of run_code. All of it but Untrusted is the host's word.
type outcome struct {
	Verdict   api.Verdict     `json:"verdict"`
	Cause     string          `json:"cause,omitempty"`
	Stage     string          `json:"stage,omitempty"`
	Syscall   string          `json:"syscall,omitempty"`
	ExitCode  *int            `json:"exit_code"`
	Signal    string          `json:"signal,omitempty"`
	WallMS    float64         `json:"wall_ms"`
	CPUMS     *float64        `json:"cpu_ms"`
	PeakBytes *int64          `json:"peak_bytes"`
	Truncated api.Truncated   `json:"truncated"`
	Compile   *compileOutcome `json:"compile,omitempty"`
	Message   string          `json:"message,omitempty"`
	Warnings  []string        `json:"warnings,omitempty"`
	Sandbox   string          `json:"sandbox"` // require or auto
	Missing   []string        `json:"missing_layers,omitempty"`
	Untrusted untrusted       `json:"untrusted"`
}

type compileOutcome struct {
	ExitCode *int    `json:"exit_code"`
	WallMS   float64 `json:"wall_ms"`
}

// untrusted is what the program and its compiler made.
type untrusted struct {
	Notice         string                `json:"notice"`
	Stdout         string                `json:"stdout"`
	Stderr         string                `json:"stderr"`
	StdoutOmitted  int                   `json:"stdout_omitted_bytes,omitempty"`
	StderrOmitted  int                   `json:"stderr_omitted_bytes,omitempty"`
	CompilerStdout string                `json:"compiler_stdout,omitempty"`
	CompilerStderr string                `json:"compiler_stderr,omitempty"`
	Artifacts      []artifactInfo        `json:"artifacts,omitempty"`
	Refused        []api.RefusedArtifact `json:"refused_artifacts,omitempty"`
}

// artifactInfo is one artifact. Text is there where it is short and plain.
type artifactInfo struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	MIME   string `json:"mime_type"`
	URI    string `json:"uri,omitempty"`
	Note   string `json:"note,omitempty"`
	Text   string `json:"text,omitempty"`
}

// What of a result stands in the answer to a model.
const (
	maxStream     = 64 << 10 // bytes of one stream
	maxCompiler   = 16 << 10
	maxInlineText = 4 << 10 // an artifact that is text
	maxInline     = 32 << 10
	maxListed     = 100 // artifacts and refused ones
	maxImages     = 8
	maxImageBytes = 4 << 20 // together
)

// answer is the result of a run for a model.
func (c *client) answer(r *glovebox.Result) *mcp.CallToolResult {
	o := outcome{Verdict: r.Verdict, Cause: r.Cause, Stage: r.Stage, Syscall: r.Syscall, ExitCode: r.ExitCode, Signal: r.Signal, WallMS: r.WallMS,
		CPUMS: r.CPUMS, PeakBytes: r.PeakBytes, Truncated: r.Truncated, Sandbox: r.Evidence.Sandbox}
	o.Message, _ = guest(r.Message, 2000)
	for _, w := range r.Warnings {
		w, _ = guest(w, 500)
		o.Warnings = append(o.Warnings, w)
	}
	for _, l := range r.Evidence.Layers {
		if !l.Applied {
			o.Missing = append(o.Missing, l.Name)
		}
	}
	u := &o.Untrusted
	u.Notice = notice
	u.Stdout, u.StdoutOmitted = guest(r.Stdout, maxStream)
	u.Stderr, u.StderrOmitted = guest(r.Stderr, maxStream)
	if k := r.Compile; k != nil {
		o.Compile = &compileOutcome{k.ExitCode, k.WallMS}
		u.CompilerStdout, _ = guest(k.Stdout, maxCompiler)
		u.CompilerStderr, _ = guest(k.Stderr, maxCompiler)
	}
	more := c.keep(r.Artifacts, u)
	for i, x := range r.RefusedArtifacts {
		if i == maxListed {
			u.Refused = append(u.Refused, api.RefusedArtifact{Name: "…", Reason: fmt.Sprintf("and %d more", len(r.RefusedArtifacts)-i)})
			break
		}
		u.Refused = append(u.Refused, api.RefusedArtifact{Name: termtext.Plain(x.Name), Reason: termtext.Plain(x.Reason)})
	}
	res := structured(&o)
	res.Content = append(res.Content, more...)
	res.IsError = r.Verdict == api.SetupFailed || r.Verdict == api.Interrupted || r.Verdict == api.Canceled
	return res
}

// keep stores artifacts, lists them, and returns pictures and links.
func (c *client) keep(list []api.Artifact, u *untrusted) []mcp.Content {
	var out, links []mcp.Content
	pixels, imageBytes, inline := int64(picture.MaxPixels), maxImageBytes, maxInline
	for i, a := range list {
		if i == maxListed {
			u.Refused = append(u.Refused, api.RefusedArtifact{Name: "…", Reason: fmt.Sprintf("%d more artifacts are not listed", len(list)-i)})
			break
		}
		info := artifactInfo{Name: termtext.Plain(a.Name), Size: a.Size, SHA256: a.SHA256, MIME: "application/octet-stream"}
		if mime, err := picture.Prove(a.Content, &pixels); err == nil {
			info.MIME = mime
			if len(out) < maxImages && len(a.Content) <= imageBytes {
				imageBytes -= len(a.Content)
				out = append(out, &mcp.ImageContent{Data: a.Content, MIMEType: mime, Meta: mcp.Meta{untrustedKey: true, "glovebox/name": info.Name}})
			}
		} else if isPlain(a.Content) {
			info.MIME = "text/plain; charset=utf-8"
			if n := len(a.Content); n <= maxInlineText && n <= inline {
				inline -= n
				info.Text = string(a.Content)
			}
		}
		if uri, ok := c.artifacts.put(artifact{name: info.Name, mime: info.MIME, sha256: a.SHA256, data: a.Content}); ok {
			info.URI = uri
			links = append(links, &mcp.ResourceLink{URI: uri, Name: info.Name, MIMEType: info.MIME, Size: &a.Size, Meta: mcp.Meta{untrustedKey: true}})
		} else {
			info.Note = "is larger than what this server keeps of a client"
		}
		u.Artifacts = append(u.Artifacts, info)
	}
	return append(out, links...)
}

// isPlain reports whether bytes are text in which nothing is hidden, so that it can
// be shown as it is.
func isPlain(b []byte) bool {
	return utf8.Valid(b) && termtext.Plain(string(b)) == string(b)
}
