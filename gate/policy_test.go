package gate

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/glovebox-dev/glovebox/preflight"
)

// A policy reads each kind of text as what it is going to be, and what it cannot
// read it denies. Long because of its table.
//
// proves part of H-57
func TestPolicy(t *testing.T) {
	g := Policy(preflight.Policy{DenyEval: true, Members: []string{"x"}, Module: true, Await: true})
	for _, c := range []struct {
		kind             Kind
		language, name   string
		source, findings string
	}{
		{Script, "javascript", "a", "1", ""},
		{Script, "javascript", "a", "\n eval(1)", "2:2 eval"},
		{Script, "javascript", "a", "<!-- eval\n1", ""}, // a comment in a script, and code in a module
		{Module, "javascript", "a", "1 <!-- eval", "1:8 eval"},
		{Script, "javascript", "a", "await / eval / 1", "1:9 eval"}, // a name in a script, an operator in a module
		{Module, "javascript", "a", "await / eval / 1", ""},
		{Feed, "javascript", "a", "await / eval / 1", "1:9 eval"}, // one or the other in a feed
		{Feed, "javascript", "a", "await 1; return 2", ""},
		{Program, "node", "main.js", "1", ""},
		{Program, "node", "main.js", "await / eval / 1", "1:9 eval"},
		{Program, "node", "main.js", "1 <!-- eval", "1:8 eval"},
		{File, "node", "lib.mjs", "eval", "1:1 eval"},
		{File, "node", "a.json", `{"x": 1}`, ""},
		{File, "node", "a.js", `[{"x": 1}]`, "1:3 member"},
		{File, "node", "a.json", `eval`, "1:1 eval"},
		{Program, "node", "a.json", `[{"x": 1}]`, "1:3 member"},
		{JSON, "javascript", "a", `{"x": "eval"}`, ""},
		{JSON, "javascript", "a", `{"x": eval}`, "1:7 eval"},
		{JSON, "javascript", "a", `{"x": 1} eval`, "1:10 eval"},
		{"", "", "", "1", "denied"},
		{File, "", "a.js", "1", "denied"}, // of a command
		{"unknown", "", "", "1", "denied"},
		{"unknown", "javascript", "", "1", ""},
		{"unknown", "javascript", "", "eval", "1:1 eval"},
		{Program, "python", "main.py", "1", "denied"},
		{File, "python", "a.json", "1", "denied"},
		{Command, "", "", `["/bin/true"]`, "denied"},
		{Env, "node", "", `{}`, "denied"},
		{Script, "javascript", "a", "'", "1:1 syntax"},
	} {
		name := fmt.Sprintf("%s %s %s %q", c.kind, c.language, c.name, c.source)
		err := Ask(ctx, g, []byte(c.source), Info{Kind: c.kind, Language: c.language, Name: c.name})
		got := ""
		var d *Denied
		if errors.As(err, &d) {
			for _, f := range d.Findings {
				got += fmt.Sprintf(", %d:%d %s", f.Line, f.Column, f.Rule)
			}
			if got = fmt.Sprint(got + ", ")[2:]; got != "" {
				got = got[:len(got)-2]
			} else {
				got = "denied"
			}
		}
		if got != c.findings {
			t.Errorf("%s: %q, want %q", name, got, c.findings)
		}
	}
	// The lists are the policy's own.
	names := []string{"a"}
	g = Policy(preflight.Policy{Names: names})
	names[0] = "b"
	if Ask(ctx, g, []byte("a"), Info{Kind: Script}) == nil || Ask(ctx, g, []byte("b"), Info{Kind: Script}) != nil {
		t.Error("the policy changed")
	}
}

func TestMaxBytes(t *testing.T) {
	for n, want := range map[int]bool{4: false, 5: true, 0: false, -1: false} {
		if got := Ask(ctx, MaxBytes(n), []byte("12345"), Info{}) == nil; got != want {
			t.Errorf("%d: %v", n, got)
		}
	}
	if Ask(ctx, MaxBytes(0), nil, Info{}) != nil || Ask(ctx, MaxBytes(-1), nil, Info{}) == nil {
		t.Error("the empty text")
	}
}

func ExampleAllOf() {
	g := AllOf(MaxBytes(100), Policy(preflight.Policy{DenyEval: true}))
	fmt.Println(Ask(context.Background(), g, []byte("6 * 7"), Info{Kind: Script, Name: "sum.js"}))
	fmt.Println(Ask(context.Background(), g, []byte("1;\n(0, eval)('2')"), Info{Kind: Script, Name: "sum.js"}))
	// Output:
	// <nil>
	// gate: script sum.js is denied: the policy does not allow it (2:5 error [eval] eval makes code of text, which is not allowed.)
}
