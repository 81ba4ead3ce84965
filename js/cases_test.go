package js_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// jsCases holds programs that broke systems like this one, one complaint each.
// They are bodies of asynchronous functions.
const jsCases = "testdata/cases"

// jsCase says what becomes of one file.
type jsCase struct {
	file   string
	limits js.Limits
	want   string // the value as JSON, or the kind of the error and its name
	or     string // another that is as good
	times  int    // in one runtime; 0 is once
	// script runs a file that is no program, or one that needs more than its value.
	script func(t *testing.T, body string)
}

// short are the limits of a case that must end by its deadline.
var short = js.Limits{TimeoutMS: 500, HardMS: 5000}

var jsCaseTable = []jsCase{
	{file: "143-ctor-chain.js", script: caseCtorChain},
	{file: "144-stack-hook.js", want: "[]"},
	{file: "145-host-error.js", want: `[true,true,"boom",false,"string"]`},
	{file: "147-dynamic-import.js", want: `{"fs":"refused","node:child_process":"refused","node:sqlite":"refused","./x.js":"refused","/etc/passwd":"refused","file:///etc/passwd":"refused",` +
		`"data:text/javascript,export default 1":"refused","https://example.com/x.js":"refused","std":"refused","os":"refused","qjs:os":"refused"}`},
	{file: "148-proto-args.js", want: `[["__proto__","a","constructor"],true]`},
	{file: "150-proxy-args.js", want: `[["{}","err","err","err"],0]`},
	{file: "152-spin.js", limits: short, want: "timeout"},
	// The engine cannot always be stopped in an endless chain of jobs.
	{file: "154-microtask-loop.js", limits: js.Limits{TimeoutMS: 300, HardMS: 500}, want: "hard_timeout", or: "timeout"},
	{file: "155-never-settles.js", want: "never_settles Error"},
	{file: "156-tool-wait.js", script: caseToolWait},
	{file: "157-redos.js", limits: js.Limits{TimeoutMS: 500, HardMS: 60_000}, want: "timeout"},
	{file: "158-builtin-scan.js", script: caseBuiltinScan},
	{file: "161-spread-string.js", limits: js.Limits{MemoryBytes: 64 << 20}, want: "memory_limit"},
	{file: "162-buffer-copy.js", limits: js.Limits{MemoryBytes: 64 << 20}, want: "thrown RangeError"},
	{file: "163-wasm-memory.js", script: caseWasm},
	{file: "164-recursion.js", limits: js.Limits{TimeoutMS: 60_000}, want: "[true,true,true,true,true]"},
	{file: "165-parser-depth.js", script: caseParserDepth},
	{file: "169-console-flood.js", script: caseConsoleFlood},
	{file: "170-short-deadlines.json", script: caseShortDeadlines},
	{file: "171-many-calls.js", limits: js.Limits{TimeoutMS: 60_000, MemoryBytes: 512 << 20}, want: "[true,100000]"},
	{file: "172-two-awaits.js", want: `["a","b",100]`},
	{file: "173-parallel-order.js", want: `[[50,10,30],[10,30,50],"y"]`},
	{file: "174-late-result.js", want: `"early"`, times: 500},
	{file: "175-replay-random.js", script: caseSeeded},
	{file: "177-odd-values.js", want: `{"undef":"same","nan":"same","inf":"same","negz":"same","big":"same","big53":"same","date":"[object Date]Thu Jan 01 1970 00:0",` +
		`"map":"[object Map][object Map]","set":"[object Set][object Set]","u8":"[object Uint8Array]1,2","fn":"TypeError","sym":"TypeError","re":"TypeError",` +
		`"err":"[object Error]TypeError: t","hole":"[object Array]1,,3","lone":"same","nul":"same","empty":"[object Object][object Object]","long":"same"}`},
	{file: "179-tool-throws.js", want: `[["string","string","ok"],"done"]`},
	{file: "180-unhandled.js", script: caseUnhandled},
	{file: "181-big-tool-result.js", limits: js.Limits{MemoryBytes: 48 << 20}, want: `"Error"`},
	{file: "191-js-global-left.js", script: caseGlobalLeft},
}

// caseTools gives a runtime the tools that the cases name.
func caseTools(t *testing.T, rt *js.Runtime) {
	t.Helper()
	for name, fn := range map[string]any{
		"tools.echo":  func(v js.Value) any { return v },
		"tools.upper": strings.ToUpper,
		"tools.slow":  func(ctx context.Context, ms int) { pause(ctx, time.Duration(ms)*time.Millisecond) },
		"tools.fail":  func(message string) error { return &js.GuestError{Message: message} },
		"tools.never": func(ctx context.Context) { <-ctx.Done() },
		"tools.bytes": func(n int) string { return strings.Repeat("b", n) },
	} {
		if err := rt.BindAsync(ctx, name, fn); err != nil {
			t.Fatal(err)
		}
	}
}

// pause waits for a time or for the end of what is waited for.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func caseBody(body string) string { return "(async function () {\n" + body + "\n})()" }

// caseRun opens a runtime with the tools and runs a body in it.
func caseRun(t *testing.T, o js.Options, body string) string {
	t.Helper()
	rt := open(t, o)
	caseTools(t, rt)
	return caseEval(t, rt, caseBody(body))
}

// caseEval gives the value as JSON, or kind and name of the error.
func caseEval(t *testing.T, rt *js.Runtime, code string) string {
	t.Helper()
	v, err := rt.Eval(ctx, code)
	var e *js.Error
	if errors.As(err, &e) {
		return strings.TrimSpace(string(e.Kind) + " " + e.Name)
	}
	b, err := v.MarshalJSON()
	if err != nil {
		t.Errorf("%v", err)
	}
	return string(b)
}

// Every file has exactly its own outcome, and nothing is left of its worker.
func TestJSCasesAsRoot(t *testing.T) {
	entries, err := os.ReadDir(jsCases)
	if err != nil {
		t.Fatal(err)
	}
	var files, listed []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	for _, c := range jsCaseTable {
		listed = append(listed, c.file)
	}
	if !slices.Equal(files, listed) {
		t.Errorf("files and table differ:\n%v\n%v", files, listed)
	}
	for _, c := range jsCaseTable {
		t.Run(c.file, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join(jsCases, c.file))
			if err != nil {
				t.Fatal(err)
			}
			before := len(testenv.Descendants(os.Getpid()))
			t.Cleanup(func() { // after the runtimes are closed
				if after := len(testenv.Descendants(os.Getpid())); after != before {
					t.Errorf("%d processes became %d", before, after)
				}
			})
			if c.script != nil {
				c.script(t, string(body))
				return
			}
			rt := open(t, js.Options{Limits: c.limits})
			caseTools(t, rt)
			for range max(c.times, 1) {
				if got := caseEval(t, rt, caseBody(string(body))); got != c.want && (c.or == "" || got != c.or) {
					t.Errorf("%s, not %s", got, c.want)
				}
			}
			if got := caseEval(t, open(t, js.Options{}), "'next'"); got != `"next"` {
				t.Errorf("the next runtime: %s", got)
			}
		})
	}
}
