package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/ownfile"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
	"github.com/glovebox-dev/glovebox/preflight"
)

// maxPolicy bounds the file of --policy.
const maxPolicy = 256 << 10

// policyFlag is the flag --policy of commands that run guest code.
type policyFlag struct{ file string }

func (f *policyFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "policy", "", "JSON `file` that says which sources may run (docs/gates.md); what it does not allow gets no cell, and exit status 2")
}

// gate is the gate of the file, nil without one.
func (f *policyFlag) gate() (gate.Gate, error) {
	if f.file == "" {
		return nil, nil
	}
	text, err := ownfile.Read(f.file, ownfile.Options{MaxBytes: maxPolicy})
	if err == nil {
		var g gate.Gate
		if g, err = parsePolicy(text); err == nil {
			return g, nil
		}
	}
	return nil, usagef("--policy %s: %s", f.file, cause(err))
}

// policyFile is the text of that file. What is missing is empty: an empty object
// lets all JavaScript run and nothing else.
type policyFile struct {
	// Of JavaScript, as fields of preflight.Policy.
	Names        []string `json:"names"`
	Members      []string `json:"members"`
	DenyImport   bool     `json:"deny_import"`
	DenyEval     bool     `json:"deny_eval"`
	DenyComputed bool     `json:"deny_computed"`
	// MaxBytes is of each text; zero is no limit of its own.
	MaxBytes int `json:"max_bytes"`
	// What passes unread.
	AllowSHA256    []string `json:"allow_sha256"`    // sources with these digests
	AllowLanguages []string `json:"allow_languages"` // all files of programs in them
	AllowFiles     []string `json:"allow_files"`     // further files of programs, by patterns of their names
	AllowCommands  []string `json:"allow_commands"`  // commands by their first word, whatever follows it
	AllowEnv       []string `json:"allow_env"`       // variables by their names, whatever they hold
}

func parsePolicy(text []byte) (gate.Gate, error) {
	p := &policyFile{}
	if err := strictjson.Decode(text, p, strictjson.Options{MaxBytes: maxPolicy}); err != nil {
		if field := (*glovebox.FieldError)(nil); errors.As(err, &field) && field.Field == "body" {
			err = errors.New(field.Reason)
		}
		return nil, err
	}
	if p.MaxBytes < 0 {
		return nil, errors.New(`"max_bytes" must not be negative`)
	}
	for _, s := range p.AllowSHA256 {
		if b, err := hex.DecodeString(s); err != nil || len(b) != sha256.Size || strings.ToLower(s) != s {
			return nil, fmt.Errorf("allow_sha256: %q is no digest of 64 hexadecimal digits", s)
		}
	}
	for _, s := range p.AllowLanguages {
		if s == "javascript" || s == "node" {
			return nil, fmt.Errorf("allow_languages: %s is what the policy reads", s)
		}
	}
	for _, s := range p.AllowFiles {
		if _, err := path.Match(s, ""); err != nil {
			return nil, fmt.Errorf("allow_files: %q is no pattern", s)
		}
	}
	read := gate.Policy(preflight.Policy{Names: p.Names, Members: p.Members, DenyImport: p.DenyImport, DenyEval: p.DenyEval, DenyComputed: p.DenyComputed})
	return func(ctx context.Context, source []byte, info gate.Info) gate.Verdict {
		return p.judge(ctx, source, info, read)
	}, nil
}

// judge says whether a text may run; read judges JavaScript.
func (p *policyFile) judge(ctx context.Context, source []byte, info gate.Info, read gate.Gate) gate.Verdict {
	deny := func(format string, args ...any) gate.Verdict {
		return gate.Verdict{Reason: fmt.Sprintf(format, args...)}
	}
	if p.MaxBytes > 0 && len(source) > p.MaxBytes {
		return deny("it has %d bytes, and the policy allows %d", len(source), p.MaxBytes)
	}
	switch info.Kind {
	case gate.Command:
		var argv []string
		if err := strictjson.Decode(source, &argv, strictjson.Options{}); err != nil || len(argv) == 0 {
			return deny("the policy cannot read it")
		}
		if !slices.Contains(p.AllowCommands, argv[0]) {
			return deny("%s is none of the commands that the policy allows", argv[0])
		}
		return gate.Verdict{Allow: true}
	case gate.Env:
		var env map[string]string
		if err := strictjson.Decode(source, &env, strictjson.Options{}); err != nil {
			return deny("the policy cannot read it")
		}
		for name := range env {
			if !slices.Contains(p.AllowEnv, name) {
				return deny("%s is none of the variables that the policy allows", name)
			}
		}
		return gate.Verdict{Allow: true}
	}
	sum := sha256.Sum256(source)
	allowed := slices.Contains(p.AllowSHA256, hex.EncodeToString(sum[:])) || slices.Contains(p.AllowLanguages, info.Language)
	if info.Kind == gate.File {
		allowed = allowed || slices.ContainsFunc(p.AllowFiles, func(pattern string) bool { ok, _ := path.Match(pattern, info.Name); return ok })
	}
	if allowed {
		return gate.Verdict{Allow: true}
	}
	return read(ctx, source, info)
}

// deniedName is what was denied: a file, or what kind of text it is.
func deniedName(d *gate.Denied) string { return cmp.Or(d.Name, string(d.Kind)) }

// findingLines says why, a line for each place.
func findingLines(d *gate.Denied) (lines []string) {
	name := deniedName(d)
	for _, f := range d.Findings {
		lines = append(lines, fmt.Sprintf("%s:%s", name, f))
	}
	if d.More > 0 {
		lines = append(lines, fmt.Sprintf("%s: %d more", name, d.More))
	}
	if len(lines) > 0 && typed[path.Ext(d.Name)] != "" {
		lines = append(lines, "Lines and columns are those of the JavaScript that "+name+" was made into.")
	}
	return lines
}
