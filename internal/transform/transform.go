// Package transform makes JavaScript of TypeScript and JSX. Types are taken away
// and nothing is checked. It reads what nobody trusts, so it runs in a worker.
package transform

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// Syntax is what a source is written in.
type Syntax int

// The syntaxes.
const (
	TypeScript Syntax = iota + 1
	TSX               // TypeScript with JSX
	JSX
)

// Source is what is transformed.
type Source struct {
	Name     string // in errors
	Code     string
	Syntax   Syntax
	Factory  string // what a tag of JSX calls, such as "h"
	Fragment string // what stands for <>
}

// Error is a source that is no program of its syntax.
type Error struct {
	Line, Column int // from 1
	Message      string
}

// Error is the message with its place.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (line %d, column %d)", e.Message, e.Line, e.Column)
}

// ErrPragma is the error of a source that has what could be a pragma of JSX:
// it would decide what its tags call, in a comment, where nobody looks for code.
var ErrPragma = errors.New("a source with @jsx or #jsx in it, also in a comment or string, is refused: the host says what tags call")

// maxStack bounds the stack of a goroutine, in bytes: what is nested more deeply
// ends the process.
const maxStack = 64 << 20

// Do returns the JavaScript. Lines are not those of the source. It changes the
// stack's bound for the whole process.
func Do(s Source) (string, error) {
	debug.SetMaxStack(maxStack)
	for _, pragma := range []string{"@jsx", "#jsx"} {
		if strings.Contains(s.Code, pragma) {
			return "", ErrPragma
		}
	}
	r := api.Transform(s.Code, api.TransformOptions{
		LogLevel: api.LogLevelSilent, Sourcefile: s.Name, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsInline,
		Loader: map[Syntax]api.Loader{TypeScript: api.LoaderTS, TSX: api.LoaderTSX, JSX: api.LoaderJSX}[s.Syntax],
		Target: api.ESNext, Supported: map[string]bool{"decorators": false, "using": false},
		JSX: api.JSXTransform, JSXFactory: s.Factory, JSXFragment: s.Fragment, TsconfigRaw: "{}",
	})
	if len(r.Errors) > 0 {
		e := &Error{Line: 1, Column: 1, Message: r.Errors[0].Text}
		if at := r.Errors[0].Location; at != nil {
			e.Line, e.Column = at.Line, at.Column+1
		}
		return "", e
	}
	return string(r.Code), nil
}
