package js

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// Syntax is what a source is written in that is not JavaScript yet.
type Syntax string

// The syntaxes.
const (
	TypeScript Syntax = "ts"
	TSX        Syntax = "tsx" // TypeScript with JSX
	JSX        Syntax = "jsx"
)

// Source is what [Pool.Transform] makes JavaScript of.
type Source struct {
	Name   string // in errors
	Code   string // less than 4 MiB
	Syntax Syntax
	// Factory is the function that tags of JSX call, such as "h" or "React.createElement",
	// and Fragment what stands for <>. With JSX a factory is needed: nothing is
	// assumed, and a source that names its own in a comment is refused.
	Factory, Fragment string
}

// maxSource bounds a source that is transformed, in bytes.
const maxSource = 4 << 20

// Transform returns a source as JavaScript: types are taken away without being
// checked, enumerations, parameter properties and decorators become code, JSX
// becomes calls. It runs in a sealed worker of its own, which has no engine, sees
// nothing but this source, and ends with it; a pool has one at a time, beside its
// others. What is no program is [SyntaxError].
//
// What comes back is what to judge, and to give to [Runtime.Run]: nothing changes
// it on the way to the engine but import(…) and modules, see docs/javascript.md.
// Its lines are not those of the source. Limits.HardMS and Limits.MemoryBytes
// bound the work.
func (p *Pool) Transform(ctx context.Context, s Source) (string, error) {
	m, err := s.message()
	if err != nil {
		return "", err
	}
	select {
	case p.making <- struct{}{}:
		defer func() { <-p.making }()
	case <-ctx.Done():
		return "", ctxEnded(ctx, "before it began")
	case <-p.ctx.Done():
		return "", failed(Closed, "the pool is closed")
	}
	w, err := p.startAs(ctx, []string{cell.WorkerPath, wire.TransformMode}, (*worker).greetTransform)
	if err != nil {
		return "", err
	}
	defer w.end()
	defer context.AfterFunc(ctx, w.cancel)()
	_ = w.ch.SetDeadline(time.Now().Add(time.Duration(p.limits.HardMS) * time.Millisecond))
	code, err := w.transform(p, m)
	switch {
	case err == nil:
		return code, nil
	case ctx.Err() != nil:
		return "", ctxEnded(ctx, "while it ran")
	case isTimeout(err):
		return "", p.limits.passed(HardTimeout)
	case errors.As(err, new(*Error)):
		return "", err
	case errors.Is(err, wire.ErrMalformed), errors.Is(err, wire.ErrLimit):
		return "", &Error{Kind: Protocol, Message: err.Error(), Err: err}
	}
	return "", w.cause(&p.limits)
}

// Transform is [Pool.Transform] with the limits of this runtime. It may be called
// while the runtime is busy, also by its resolver of modules.
func (r *Runtime) Transform(ctx context.Context, s Source) (string, error) {
	return r.p.Transform(ctx, s)
}

// message checks a source.
func (s *Source) message() (*wire.Transform, error) {
	m := &wire.Transform{ID: 1, Name: s.Name, Factory: s.Factory, Fragment: s.Fragment}
	switch s.Syntax {
	case TypeScript:
		m.Syntax = 1
	case TSX:
		m.Syntax = 2
	case JSX:
		m.Syntax = 3
	default:
		return nil, &api.FieldError{Field: "syntax", Value: clean(string(s.Syntax), 100), Reason: `must be "ts", "tsx" or "jsx"`}
	}
	for field, name := range map[string]string{"factory": s.Factory, "fragment": s.Fragment} {
		if name != "" && !pathForm.MatchString(name) {
			return nil, &api.FieldError{Field: field, Value: clean(name, 100), Reason: "must be identifiers joined by dots"}
		}
	}
	switch {
	case s.Syntax != TypeScript && s.Factory == "":
		return nil, &api.FieldError{Field: "factory", Reason: "must be given for JSX"}
	case s.Syntax == TypeScript && s.Factory+s.Fragment != "":
		return nil, &api.FieldError{Field: "factory", Value: clean(s.Factory, 100), Reason: "is for JSX alone"}
	case len(s.Code) >= maxSource:
		return nil, &api.FieldError{Field: "code", Value: len(s.Code), Reason: "must be less than 4 MiB"}
	}
	if m.Fragment == "" {
		m.Fragment = "Fragment"
	}
	m.Source = s.Code
	if _, err := wire.AppendPayload(nil, m); err != nil {
		return nil, &api.FieldError{Field: "code", Value: clean(s.Name, 100), Reason: "code and name must be UTF-8, the name at most 1,024 bytes"}
	}
	return m, nil
}

// greetTransform opens the conversation with a worker that has no engine.
func (w *worker) greetTransform(p *Pool) error {
	if err := w.out.Write(&wire.HostHello{Version: wire.Version}); err != nil {
		return err
	}
	m, err := w.in.Read()
	if err != nil {
		return err
	}
	if hello, ok := m.(*wire.WorkerHello); !ok || hello.Mode != wire.TransformMode {
		return fatal(m)
	}
	if m, err = w.in.Read(); err != nil {
		return err
	}
	if _, ok := m.(*wire.Ready); !ok {
		return fatal(m)
	}
	sealed, err := w.ch.Sealed()
	if err != nil {
		return fmt.Errorf("attest: %w", err)
	}
	if len(sealed.Code) > 0 {
		return fmt.Errorf("attest: memory is executable: %s", sealed.Code[0])
	}
	return nil
}

// transform has one source transformed.
func (w *worker) transform(p *Pool, m *wire.Transform) (string, error) {
	if err := w.out.Write(m); err != nil {
		return "", err
	}
	answer, err := w.in.Read()
	if err != nil {
		return "", err
	}
	done, ok := answer.(*wire.Done)
	if !ok || done.ID != m.ID {
		return "", failed(Protocol, "%v", fatal(answer))
	}
	if f := done.Failure; f != nil {
		if f.Kind != string(SyntaxError) {
			return "", failed(Protocol, "an error of kind %q", f.Kind)
		}
		return "", &Error{Kind: SyntaxError, Name: "SyntaxError", Message: clean(f.Message, 8<<10)}
	}
	v, err := decodeValue("code", done.Value, p.limits.budget())
	if err != nil {
		return "", &Error{Kind: Protocol, Message: err.Error(), Err: err}
	}
	code, ok := v.Any().(string)
	if !ok {
		return "", failed(Protocol, "the code is no string")
	}
	return code, nil
}
