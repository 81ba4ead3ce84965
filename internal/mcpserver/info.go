package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/preflight"
)

// checkArgs are the arguments of check_code, by the names of glovebox check's flags.
type checkArgs struct {
	Source        string   `json:"source"`
	Imports       bool     `json:"allow_import,omitempty"`
	DynamicImport bool     `json:"allow_dynamic_import,omitempty"`
	Eval          *bool    `json:"report_eval,omitempty"`
	Bound         []string `json:"bound,omitempty"`
	Max           int      `json:"max,omitempty"`
}

// maxFindings is how many findings a client can ask for.
const maxFindings = 1000

func (s *Server) checkCode() tool {
	no := false
	return tool{
		tool: &mcp.Tool{Name: "check_code", Title: "Check JavaScript before it runs",
			Description: "Reads JavaScript and tells what in it will not work in a sealed worker: each finding has line, column, severity, rule and one sentence. Nothing is run. " +
				"It is for authors, and no boundary.",
			InputSchema: object([]string{"source"}, map[string]any{
				"source":               text("the text of a script or module"),
				"allow_import":         flag("the text is a module: import and export are in order"),
				"allow_dynamic_import": flag("import() is in order"),
				"report_eval":          flag("report eval and the constructor of functions; true by default"),
				"bound":                texts("names that the host binds, such as fetch", 1000),
				"max":                  map[string]any{"type": "integer", "minimum": 1, "maximum": maxFindings, "description": "how many findings are listed; 100 by default"},
			}),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}},
		call: func(_ context.Context, c *client, _ *mcp.CallToolRequest, raw json.RawMessage) (*mcp.CallToolResult, error) {
			var a checkArgs
			if err := arguments(raw, &a); err != nil {
				return nil, err
			}
			switch {
			case a.Source == "":
				return nil, &glovebox.FieldError{Field: "source", Reason: "is missing"}
			case a.Max < 0 || a.Max > maxFindings:
				return nil, &glovebox.FieldError{Field: "max", Value: a.Max, Reason: fmt.Sprintf("must be from 1 to %d", maxFindings)}
			}
			release, err := c.slot()
			if err != nil {
				return nil, err
			}
			defer release()
			r := preflight.Check(a.Source, preflight.Options{AllowImport: a.Imports, AllowDynamicImport: a.DynamicImport,
				IgnoreEval: a.Eval != nil && !*a.Eval, Bound: a.Bound, MaxFindings: a.Max})
			for i := range r.Findings { // sentences may repeat names of the source
				r.Findings[i].Message, _ = guest(r.Findings[i].Message, 1000)
			}
			return structured(struct {
				OK bool `json:"ok"`
				preflight.Result
			}{r.OK(), r}), nil
		},
	}
}

// statusOutcome is the result of sandbox_status.
type statusOutcome struct {
	Available bool             `json:"available"` // programs run
	Complete  bool             `json:"complete"`  // every layer holds
	Layers    []api.Layer      `json:"layers"`
	Warnings  []string         `json:"warnings"`
	Error     string           `json:"error,omitempty"`
	Kernel    string           `json:"kernel,omitempty"`
	Arch      string           `json:"arch,omitempty"`
	User      string           `json:"user,omitempty"`
	Languages []statusLanguage `json:"languages"`
	Limits    statusLimits     `json:"limits"`
	Version   string           `json:"version"`
}

type statusLanguage struct {
	Name      string   `json:"name"`
	Title     string   `json:"title"`
	Installed bool     `json:"installed"`
	Refusals  []string `json:"refusals,omitempty"` // what does not work in a cell
}

type statusLimits struct {
	Defaults    glovebox.Limits `json:"defaults"`
	Ceilings    glovebox.Limits `json:"ceilings"`
	InFlight    int             `json:"programs_at_once"`
	KeptBytes   int64           `json:"artifact_bytes_kept"`
	KeptSeconds int64           `json:"artifact_seconds_kept"`
}

func (s *Server) sandboxStatus() tool {
	no := false
	return tool{
		tool: &mcp.Tool{Name: "sandbox_status", Title: "What the sandbox enforces",
			Description: "Tells which layers of the sandbox hold on this host and how to mend the others, which languages are installed, and the limits of programs. Nothing is run.",
			InputSchema: object(nil, map[string]any{}),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}},
		call: func(ctx context.Context, c *client, _ *mcp.CallToolRequest, raw json.RawMessage) (*mcp.CallToolResult, error) {
			if err := arguments(raw, &struct{}{}); err != nil {
				return nil, err
			}
			return structured(c.s.status(ctx, c.principal.local)), nil
		},
	}
}

// status is what this host can enforce. A client from elsewhere learns no release,
// user or detail of the host.
func (s *Server) status(ctx context.Context, local bool) *statusOutcome {
	box, err := s.Box(ctx)
	var status glovebox.Status
	var sandbox *glovebox.SandboxError
	switch {
	case err == nil:
		status = box.Status()
	case errors.As(err, &sandbox):
		status = sandbox.Status
	}
	_, ceiling := glovebox.Bounds()
	out := &statusOutcome{Available: err == nil, Complete: status.Complete, Layers: []api.Layer{}, Warnings: []string{}, Languages: []statusLanguage{}, Version: s.o.Version,
		Limits: statusLimits{Defaults: api.DefaultLimits(), Ceilings: ceiling.Lower(s.o.Box.MaxLimits), InFlight: s.o.InFlight,
			KeptBytes: s.o.ArtifactBytes, KeptSeconds: int64(s.o.ArtifactTime.Seconds())}}
	for _, l := range status.Layers {
		l.Detail, l.Remedy = termtext.Plain(l.Detail), termtext.Plain(l.Remedy)
		if !local {
			l.Detail, l.Remedy = "", ""
		}
		out.Layers = append(out.Layers, l)
	}
	if local {
		out.Kernel, out.Arch, out.User = status.Kernel, status.Arch, status.User
		for _, w := range status.Warnings {
			out.Warnings = append(out.Warnings, termtext.Plain(w))
		}
	}
	switch {
	case err != nil && local:
		out.Error = words(err)
	case err != nil:
		out.Error = glovebox.ErrSandboxUnavailable.Error()
	}
	for _, l := range s.known {
		out.Languages = append(out.Languages, statusLanguage{l.Name, l.Title, l.Installed, l.Refusals})
	}
	return out
}
