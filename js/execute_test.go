package js_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/js"
)

// Whatever becomes of a program is in one result: its value, its error, what it
// wrote, cut at the limit.
func TestExecute(t *testing.T) {
	limits := js.Limits{ConsoleBytes: 100, TimeoutMS: 1000, HardMS: 20_000, ResultBytes: 1000, MemoryBytes: 64 << 20}
	rt := open(t, js.Options{Limits: limits})
	x := strings.Repeat("x", 200)
	for code, want := range map[string]js.Execution{
		"1 + 1":            {Status: js.StatusOK, Result: json.RawMessage("2")},
		"var quiet":        {Status: js.StatusOK, Result: json.RawMessage("null")},
		"(x) => x":         {Status: js.StatusOK, Result: json.RawMessage("null"), NoJSON: "a function cannot cross"},
		"new Set([1])":     {Status: js.StatusOK, Result: json.RawMessage("null"), NoJSON: "result: Set has no JSON form", Text: "Set(1) {1}"},
		"let (":            {Status: js.StatusError, Result: json.RawMessage("null"), Kind: js.SyntaxError, ErrorType: "SyntaxError"},
		"throw 'a\\x1bb'":  {Status: js.StatusError, Result: json.RawMessage("null"), Kind: js.Thrown, Error: "ab"},
		"'" + x + "' + 1n": {Status: js.StatusOK, Result: json.RawMessage(`"` + x + `1"`)},
		"'\\x01'.repeat(500)": {Status: js.StatusError, Result: json.RawMessage("null"), Kind: js.ResultLimit,
			Error: "the result as JSON has more bytes than result_bytes, 1000"},
		"for (;;) ;": {Status: js.StatusTimeout, Result: json.RawMessage("null"), Kind: js.Timeout, Error: "it took longer than timeout_ms, 1000 ms"},
		"console.log('a', { b: 1 }, '\\u202e'); console.error('c'); console.debug('d'); console.warn('e')": {Status: js.StatusOK, Result: json.RawMessage("null"), Stdout: "a { b: 1 } \nd\n", Stderr: "c\ne\n"},
		"console.log('" + x + "'); console.error('c')": {Status: js.StatusOK, Result: json.RawMessage("null"), Stdout: strings.Repeat("x", 96) + "…\n",
			Truncated: js.Truncated{Stdout: true, Stderr: true}},
	} {
		got, err := rt.Execute(ctx, js.Script{Code: code})
		if got.Usage.Guest <= 0 {
			t.Errorf("%s: %+v", code, got.Usage)
		}
		got.Usage, got.Stack = js.Usage{}, ""
		if want.Kind == js.SyntaxError {
			got.Error = ""
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", code, err, diff)
		}
	}
	got, err := rt.Execute(ctx, js.Script{Code: "const all = []; for (;;) all.push('x'.repeat(1 << 20) + all.length)"})
	if err != nil || got.Status != js.StatusMemory || got.Kind != js.MemoryLimit {
		t.Errorf("memory: %+v, %v", got, err)
	}
	// What the program has not caused is an error.
	if _, err := rt.Execute(ctx, js.Script{Code: "1"}); js.KindOf(err) != js.Closed {
		t.Errorf("afterwards: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := open(t, js.Options{}).Execute(over, js.Script{Code: "1"}); js.KindOf(err) != js.Canceled {
		t.Errorf("canceled: %v", err)
	}
	var field *api.FieldError
	if _, err := open(t, js.Options{}).Execute(ctx, js.Script{TimeoutMS: -1}); !errors.As(err, &field) {
		t.Errorf("a time below zero: %v", err)
	}
}

// The names of the result are those of the contract's style, and the console goes
// to whoever listens as well; the next evaluation's is not collected.
func TestExecutionJSON(t *testing.T) {
	heard := ""
	rt := open(t, js.Options{Console: func(_ js.Level, s string) { heard += s }})
	if err := rt.Bind(ctx, "f", func() int { return 1 }); err != nil {
		t.Fatal(err)
	}
	e, err := rt.Execute(ctx, js.Script{Code: "console.log('one'); f()"})
	if err != nil || heard != "one" {
		t.Errorf("%v, %q", err, heard)
	}
	e.Usage.Guest, e.Usage.Host = 1_500_000, 0
	b, err := json.Marshal(e)
	const want = `{"status":"ok","result":1,"stdout":"one\n","stderr":"","truncated":{"stdout":false,"stderr":false},"usage":{"host_calls":1,"guest_ms":1.5,"host_ms":0,"console_bytes":4}}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := rt.Eval(ctx, "console.log('two')"); err != nil || heard != "onetwo" || e.Stdout != "one\n" {
		t.Errorf("%v, %q, %q", err, heard, e.Stdout)
	}
}

// What a guest throws never passes for a source that is no script, and the other
// way round, whatever it has done to the constructor.
func TestSyntaxErrorIsTheParsers(t *testing.T) {
	rt := open(t, js.Options{})
	for _, code := range []string{
		"throw new SyntaxError('x')", "{ const e = new SyntaxError('x'); delete e.stack; throw e }", "{ const e = new SyntaxError('x'); e.stack = ''; throw e }",
		"Promise.reject(Object.assign(new SyntaxError('x'), { stack: '' }))", "eval('let (')", "new Function('(')", "JSON.parse('{')", "throw Object.setPrototypeOf(new Error(''), SyntaxError.prototype)",
		"Error.stackTraceLimit = 0; throw new SyntaxError('x')", "null.x",
	} {
		if got := kind(t, rt, code); got != js.Thrown {
			t.Errorf("%s: %s", code, got)
		}
	}
	if _, err := rt.Eval(ctx, "SyntaxError.prototype.name = 'Nothing'; Object.setPrototypeOf(SyntaxError.prototype, null); Error.stackTraceLimit = 10; Object.freeze(SyntaxError); 1"); err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"let (", "(", "return 1", "a b"} {
		if got := kind(t, rt, code); got != js.SyntaxError {
			t.Errorf("%s: %s", code, got)
		}
	}
}
