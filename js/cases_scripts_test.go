package js_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// No name of a host means anything: what is not "undefined" is the promise or
// the generator that calling such a function gives.
func caseCtorChain(t *testing.T, body string) {
	var got []string
	if err := json.Unmarshal([]byte(caseRun(t, js.Options{}, body)), &got); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, kind := range []string{"undefined", "object"} {
		for _, name := range []string{"process", "require", "module", "Deno", "Bun", "std", "os", "scriptArgs", "__host", "XMLHttpRequest", "fs"} {
			want = append(want, name+":"+kind)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	sync := strings.Replace(body, "const F = [", "const F = [(() => {}).constructor, tools.echo.constructor].concat([] || [", 1)
	sync = strings.Replace(sync, "].filter(Boolean)", "]).filter(Boolean)", 1)
	if got := caseRun(t, js.Options{}, sync); strings.Contains(got, "object") || !strings.Contains(got, "process:undefined") {
		t.Errorf("of plain functions: %s", got)
	}
}

// Time spent waiting for tools is counted, whether they answer late or never.
func caseToolWait(t *testing.T, body string) {
	limits := js.Limits{HostWaitMS: 1000}
	for _, b := range []string{body, "for (;;) await tools.slow(100)"} {
		begin := time.Now()
		if got := caseRun(t, js.Options{Limits: limits}, b); got != "host_wait" {
			t.Errorf("%s", got)
		}
		if took := time.Since(begin); took < time.Second || took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
	}
}

// Each line alone ends at the soft deadline, as does the whole.
func caseBuiltinScan(t *testing.T, body string) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 500, HardMS: 20_000, MemoryBytes: 2 << 30}}) // fill makes properties
	caseTools(t, rt)
	calls := regexp.MustCompile(`\(\) => (Array[^;]*?\}(?:, \d)?\))`).FindAllStringSubmatch(body, -1)
	if len(calls) != 4 {
		t.Fatalf("%d calls: %q", len(calls), calls)
	}
	for _, c := range calls {
		if got := caseEval(t, rt, c[1]); got != "timeout" {
			t.Errorf("%s: %s", c[1], got)
		}
	}
	if got := caseEval(t, rt, caseBody(body)); got != "timeout" {
		t.Errorf("%s", got)
	}
}

// WebAssembly is absent, and what asks for it to be there is charged.
func caseWasm(t *testing.T, body string) {
	for _, c := range []struct {
		allow []string
		want  string
	}{{nil, `["undefined","undefined","refused","refused"]`}, {[]string{"WebAssembly"}, `["object","undefined","refused","refused"]`}} {
		if got := caseRun(t, js.Options{Limits: js.Limits{MemoryBytes: 64 << 20}, Allow: c.allow}, body); got != c.want {
			t.Errorf("%v: %s", c.allow, got)
		}
	}
}

// Deep sources are errors, in the program and as the program.
func caseParserDepth(t *testing.T, body string) {
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 30_000}})
	if got, want := caseEval(t, rt, caseBody(body)), `["RangeError","RangeError","RangeError","parsed","RangeError","RangeError","RangeError","parsed","RangeError"]`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	for _, p := range [][3]string{{"(", "1", ")"}, {"[", "", "]"}, {"{a:", "1", "}"}, {"!", "1", ""}, {"1?", "1", ":1"}, {"`${", "1", "}`"}, {"a=>", "1", ""}} {
		code := "(" + strings.Repeat(p[0], 50_000) + p[1] + strings.Repeat(p[2], 50_000) + ")"
		want := "syntax_error RangeError"
		if p[0] == "!" {
			want = "thrown RangeError" // it parses
		}
		if got := caseEval(t, rt, code); got != want {
			t.Errorf("%s as the program: %s", p[0], got)
		}
	}
	if got := caseEval(t, rt, "'alive'"); got != `"alive"` {
		t.Errorf("afterwards: %s", got)
	}
}

// A flood of lines is cut at its limit and stretches no deadline.
func caseConsoleFlood(t *testing.T, body string) {
	size, last := 0, ""
	rt := open(t, js.Options{Limits: js.Limits{TimeoutMS: 500, HardMS: 20_000, ConsoleBytes: 64 << 10}, Console: func(_ js.Level, s string) { size += len(s) + 1; last = s }})
	if got := caseEval(t, rt, caseBody(body)); got != "timeout" {
		t.Errorf("%s", got)
	}
	if size < 64<<10 || size > 64<<10+100 || !strings.HasSuffix(last, "[truncated]") {
		t.Errorf("%d bytes, the last line ends in %q", size, last[max(0, len(last)-20):])
	}
}

// Short deadlines, many of them, end in a value or a timeout and cost no runtime.
func caseShortDeadlines(t *testing.T, body string) {
	var c struct {
		Repeat int
		WallMS []int64 `json:"wall_ms"`
		Worker struct{ Source string }
	}
	if err := json.Unmarshal([]byte(body), &c); err != nil || c.Repeat != 2000 {
		t.Fatal(err)
	}
	rt := open(t, js.Options{Limits: js.Limits{HardMS: 60_000}})
	seen := map[string]int{}
	for i := range c.Repeat {
		v, _, err := rt.Run(ctx, js.Script{Code: "(() => {" + c.Worker.Source + "})()", TimeoutMS: c.WallMS[i%len(c.WallMS)]})
		got := v.String()
		if err != nil {
			got = string(js.KindOf(err))
		}
		seen[got]++
	}
	if seen["timeout"]+seen["44999850000"] != c.Repeat || seen["timeout"] == 0 {
		t.Errorf("%v", seen)
	}
	t.Log(seen)
}

// With a seed and a clock, the same is drawn, asked and answered again.
func caseSeeded(t *testing.T, body string) {
	clock := int64(1_700_000_000_000)
	o := js.Options{Seed: &[32]byte{7}, Clock: &clock}
	first, second := caseRun(t, o, body), caseRun(t, o, body)
	if first != second || !strings.Contains(first, "17000000000000.") || !strings.HasSuffix(first, "true]") {
		t.Errorf("%s, then %s", first, second)
	}
	if other := caseRun(t, js.Options{}, body); other == first {
		t.Error("without them it is the same")
	}
}

// What nobody listens to is said on the console and costs nothing else.
func caseUnhandled(t *testing.T, body string) {
	var lines []string
	rt := open(t, js.Options{Console: func(l js.Level, s string) { lines = append(lines, string(l)+" "+s) }})
	caseTools(t, rt)
	if got := caseEval(t, rt, caseBody(body)); got != `"kept"` {
		t.Errorf("%s", got)
	}
	want := []string{"error Uncaught (in promise) Error: nobody listens", "error Uncaught (in promise) Error: async lost"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
	lines = nil
	for code, want := range map[string]string{
		"1": "1", "Promise.reject(new Error('awaited'))": "thrown Error", "(async () => { throw new Error('awaited') })()": "thrown Error", "Promise.reject(1).catch(() => 'caught')": `"caught"`,
	} {
		if got := caseEval(t, rt, code); got != want {
			t.Errorf("%s: %s", code, got)
		}
	}
	if len(lines) > 0 {
		t.Errorf("%q", lines)
	}
}

// A runtime that comes after another finds nothing of it, and one that goes on
// finds what it left.
func caseGlobalLeft(t *testing.T, body string) {
	p, err := js.NewPool(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()}, js.PoolOptions{Warm: 1, Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 3 {
		rt, err := p.Checkout(ctx)
		if err != nil {
			t.Fatal(err)
		}
		v, err := rt.Eval(ctx, caseBody(body))
		if err != nil || v.String() != `[1, "native", undefined]` {
			t.Errorf("%s, %v", v, err)
		}
		v, err = rt.Eval(ctx, caseBody(body))
		if err != nil || v.String() != `[2, "PATCHED", "yes"]` {
			t.Errorf("a second time in one runtime: %s, %v", v, err)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}
