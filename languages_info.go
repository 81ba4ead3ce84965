package glovebox

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/languages"
)

// Language is what is known of a language on this host.
type Language = api.Language

// Languages tells which languages there are and which of them are installed, in
// order of name. With versions it asks each for its version, in a cell of its own,
// all of them at once as far as there are cells; the context bounds that.
func (b *Box) Languages(ctx context.Context, versions bool) []Language {
	out := make([]Language, len(b.languages))
	var wait sync.WaitGroup
	for i, l := range b.languages {
		out[i] = b.describe(l)
		if versions && out[i].Installed && len(l.Version) > 0 {
			wait.Go(func() { out[i].Version = b.version(ctx, l) })
		}
	}
	wait.Wait()
	return out
}

// KnownLanguages is [Box.Languages] without versions, for a host that has no cells
// to give. The error is or wraps a *[FieldError] where it is about one field;
// otherwise it names the file of Options.Languages that cannot be read.
func KnownLanguages(o Options) ([]Language, error) {
	b, _, err := o.unopened()
	if err != nil {
		return nil, err
	}
	return b.Languages(context.Background(), false), nil
}

func (b *Box) describe(l *languages.Language) Language {
	_, missing := l.Program()
	d := Language{Name: l.Name, Title: l.Title, Installed: missing == "", Missing: missing, Extensions: l.Extensions, File: l.File,
		Compiled: len(l.Compile) > 0, Cold: missing == "" && l.Warm != nil && !b.warm.has(l.Name), Limits: l.Limits.Over(api.DefaultLimits()).Lower(b.max), Refusals: l.Refusals}
	if d.Compiled {
		c := l.CompileLimits.Over(api.DefaultCompileLimits()).Lower(b.max)
		d.Limits.Compile = &c
	}
	return d
}

// version is the first line of what the language's program says of itself, empty
// if it says nothing.
func (b *Box) version(ctx context.Context, l *languages.Language) string {
	program, _ := l.Program()
	limits := l.Limits
	limits.Compile = nil
	r, err := b.Run(ctx, Program{Command: languages.Places{Program: program}.Fill(l.Version), Limits: limits})
	if err != nil {
		return ""
	}
	for line := range strings.Lines(r.Stdout + r.Stderr) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// CheckLanguage runs the smoke program of a language. The error says what is not
// as it should be; the result is there whenever the program ran.
func (b *Box) CheckLanguage(ctx context.Context, name string) (*Result, error) {
	l, err := b.language(name)
	if err != nil {
		return nil, err
	}
	r, err := b.Run(ctx, Program{Language: name, Source: l.Smoke.Source})
	switch {
	case err != nil:
		return nil, err
	case r.Verdict != api.OK && r.Message != "":
		return r, fmt.Errorf("%s: %s", r.Verdict, r.Message)
	case r.Verdict != api.OK:
		return r, fmt.Errorf("%s: %s", r.Verdict, strings.TrimSpace(r.Stderr))
	case r.Stdout != l.Smoke.Stdout:
		return r, fmt.Errorf("printed %q in place of %q", r.Stdout, l.Smoke.Stdout)
	}
	return r, nil
}
