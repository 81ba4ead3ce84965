package transform

import (
	"errors"
	"strings"
	"testing"
)

var cases = []struct {
	syntax    Syntax
	src, want string
}{
	{TypeScript, "const x: number = 1; interface A {} type B = string; let y = x as any; let z = x!; export type C = B", "const x = 1;\nlet y = x;\nlet z = x;\n"},
	{TypeScript, "import type { A } from 'a'; import { B, c } from 'b'; let d: B = c", "import { c } from \"b\";\nlet d = c;\n"},
	{TypeScript, "class A { constructor(private x: number) {} declare y: string; abstract_ = 1 }", "class A {\n  constructor(x) {\n    this.x = x;\n  }\n  x;\n  abstract_ = 1;\n}\n"},
	{TypeScript, "function f<T,>(this: any, x?: T): x is any { return <any>x } f<string>('é')", "function f(x) {\n  return x;\n}\nf(\"é\");\n"},
	{TSX, "<div a={1 as number} {...b}>t<>{c}</></div>", "/* @__PURE__ */ h(\"div\", { a: 1, ...b }, \"t\", /* @__PURE__ */ h(Frag, null, c));\n"},
	{JSX, "<A.b/>", "/* @__PURE__ */ h(A.b, null);\n"},
}

func TestDo(t *testing.T) {
	for _, c := range cases {
		if got, err := Do(Source{"x", c.src, c.syntax, "h", "Frag"}); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.src, got, err)
		}
	}
	for _, src := range []string{"/** @jsx eval */ <a/>", "// @jsxImportSource evil\n<a/>", "// #jsx eval\n<a/>", "/* @jsxRuntime automatic */", "'@jsxFrag x'"} {
		if got, err := Do(Source{"x", src, TSX, "h", "Frag"}); !errors.Is(err, ErrPragma) {
			t.Errorf("%s: %q, %v", src, got, err)
		}
	}
	var e *Error
	if _, err := Do(Source{"x", "\n let x: = 1", TypeScript, "", ""}); !errors.As(err, &e) || e.Line != 2 || e.Column != 9 {
		t.Errorf("%v", err)
	}
	if got, err := Do(Source{"x", "function dec(x, c) {} @dec class A {}", TypeScript, "", ""}); err != nil || strings.Contains(got, "@dec") {
		t.Errorf("decorators: %s, %v", got, err)
	}
}

// proves part of T-13
func FuzzDo(f *testing.F) {
	for _, c := range cases {
		f.Add(c.src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		for s := TypeScript; s <= JSX; s++ {
			_, _ = Do(Source{"x", src, s, "h", "Frag"})
		}
	})
}
