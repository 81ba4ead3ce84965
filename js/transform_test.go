package js_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

// What a source is made of crosses a worker of its own, and the result runs.
//
// proves part of H-57
func TestTransform(t *testing.T) {
	rt := open(t, js.Options{})
	for _, c := range []struct {
		s    js.Source
		want string
	}{
		{js.Source{Code: "enum Color { Red = 3 }\nconst x: number = Color.Red; class A { constructor(readonly n: number) {} }\n[x, new A(4).n]", Syntax: js.TypeScript}, "[3,4]"},
		{js.Source{Code: "const h = (t: string, p: unknown, ...k: unknown[]) => [t, ...k]; const Fragment = 'f'; (<a>x{1 + 1}<></></a>)", Syntax: js.TSX, Factory: "h"}, `["a","x",2,["f"]]`},
		{js.Source{Code: "var o = { h: (t) => t }; <b-c/>", Syntax: js.JSX, Factory: "o.h"}, `"b-c"`},
	} {
		begin := time.Now()
		code, err := rt.Transform(ctx, c.s)
		t.Logf("%v", time.Since(begin))
		if err != nil {
			t.Errorf("%s: %v", c.s.Code, err)
			continue
		}
		if got := text(t, rt, "{"+code+"}"); got != c.want {
			t.Errorf("%s: %s, not %s", c.s.Code, got, c.want)
		}
	}
	for code, want := range map[string]js.Kind{"let x: = 1": js.SyntaxError, "/** @jsx eval */ 1": js.SyntaxError, strings.Repeat("(", 3<<20): "deep", strings.Repeat("!", 3<<20): "deep"} {
		_, err := rt.Transform(ctx, js.Source{Code: code, Syntax: js.TypeScript})
		if got := js.KindOf(err); got != want && (want != "deep" || got != js.Crashed && got != js.MemoryLimit && got != js.SyntaxError && got != js.HardTimeout) {
			t.Errorf("%.20s: %v", code, err)
		}
	}
	for field, s := range map[string]js.Source{"syntax": {Syntax: "js"}, "factory": {Syntax: js.TSX}, "fragment": {Syntax: js.TSX, Factory: "h", Fragment: "a b"}, "code": {Syntax: js.TypeScript, Code: strings.Repeat(" ", 4<<20)}} {
		_, err := rt.Transform(ctx, s)
		var f *api.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := rt.Transform(ctx, js.Source{Code: "1", Syntax: js.TypeScript, Factory: "h"}); err == nil {
		t.Error("a factory without JSX was taken")
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := rt.Transform(over, js.Source{Code: "1", Syntax: js.TypeScript}); js.KindOf(err) != js.Canceled {
		t.Errorf("%v", err)
	}
	if got := text(t, rt, "'alive'"); got != `"alive"` {
		t.Error(got)
	}
}

// A resolver may transform what it gives, while the guest stands still.
func TestTransformModules(t *testing.T) {
	var rt *js.Runtime
	rt = open(t, js.Options{Resolve: func(ctx context.Context, specifier, _ string) (string, string, error) {
		code, err := rt.Transform(ctx, js.Source{Name: specifier, Code: "export const x: string = 'typed'", Syntax: js.TypeScript})
		return specifier, code, err
	}})
	if got := module(t, rt, "import { x } from 'a.ts'; export { x }"); got != `{"x":"typed"}` {
		t.Error(got)
	}
}
