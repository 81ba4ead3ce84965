package glovebox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/cell"
)

// gating is the gate of a Box.
type gating struct {
	gate gate.Gate
	opts gate.Info // what every question has
}

// gating checks what the options say of a gate.
func (o Options) gating() (gating, error) {
	if o.GateTimeout < 0 || o.GateTimeout > gate.MaxTimeout {
		return gating{}, &FieldError{Field: "GateTimeout", Value: o.GateTimeout.String(), Reason: fmt.Sprintf("must be from 0, which is %v, to %v", gate.DefaultTimeout, gate.MaxTimeout)}
	}
	return gating{o.Gate, gate.Info{Timeout: o.GateTimeout}}, nil
}

// Judge asks Options.Gate about a program as [Box.Start] would, without a Box and
// without a cell: for a service that judges before it lets a program wait. The
// error is a *[gate.Denied], or a *[FieldError] for a program that is not well
// formed. Without a gate every program that is well formed passes.
func Judge(ctx context.Context, o Options, p Program) error {
	b, _, err := o.unopened()
	if err != nil {
		return err
	}
	job, err := b.resolve(&p)
	if err != nil {
		return err
	}
	return b.gate.program(ctx, &p, job)
}

// program asks about all of a program that can be code: its files, as the cell
// will get them, its command, and the variables that it brings, which steer
// interpreters. What it reads from its standard input, and the arguments of a
// program in a language, are data.
func (g gating) program(ctx context.Context, p *Program, job *cell.Job) error {
	if g.gate == nil {
		return nil
	}
	if len(p.Command) > 0 {
		if err := g.command(ctx, job.Argv); err != nil {
			return err
		}
	}
	if len(p.Env) > 0 {
		if err := g.json(ctx, gate.Env, p.Language, p.Env, slices.Concat(slices.Collect(maps.Keys(p.Env)), slices.Collect(maps.Values(p.Env)))); err != nil {
			return err
		}
	}
	entry := p.Entry
	if entry == "" && p.Language != "" {
		entry = job.Files[0].Name
	}
	for _, f := range job.Files {
		kind := gate.File
		if f.Name == entry {
			kind = gate.Program
		}
		if err := g.ask(ctx, f.Data, kind, p.Language, f.Name); err != nil {
			return err
		}
	}
	return nil
}

// command asks about what is run in a cell by its name.
func (g gating) command(ctx context.Context, argv []string) error {
	if g.gate == nil {
		return nil
	}
	return g.json(ctx, gate.Command, "", argv, argv)
}

// json asks about strings as JSON, which can say only what is UTF-8.
func (g gating) json(ctx context.Context, kind gate.Kind, language string, v any, all []string) error {
	for _, s := range all {
		if !utf8.ValidString(s) {
			return &gate.Denied{Kind: kind, Reason: "it is not UTF-8, so that the gate would not see what runs", Err: gate.ErrNoVerdict}
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return g.ask(ctx, text, kind, language, "")
}

func (g gating) ask(ctx context.Context, source []byte, kind gate.Kind, language, name string) error {
	info := g.opts
	info.Kind, info.Language, info.Name = kind, language, name
	return gate.Ask(ctx, g.gate, source, info)
}
