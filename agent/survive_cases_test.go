package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/js"
)

// surviveCases holds programs that broke systems like this one, one complaint each.
const surviveCases = "testdata/cases"

// sessionCase says what becomes of one file as a feed.
type sessionCase struct {
	file   string
	limits Limits
	want   string // the value as JSON, or the error
	times  int    // in one session; 0 is once
	script func(t *testing.T, body string)
}

var sessionCaseTable = []sessionCase{
	// A hundred thousand calls at once: those past the calls that may wait are refused, and no tool sees them.
	{file: "171-many-calls.js", limits: Limits{FeedMS: 60_000, MemoryBytes: 1 << 30}, script: caseManyCalls},
	{file: "172-two-awaits.js", want: `["a","b",100]`},
	{file: "173-parallel-order.js", script: caseParallelOrder},
	{file: "174-late-result.js", want: `"early"`, times: 50},
	{file: "175-replay-random.js", script: caseReplayRandom},
	{file: "177-odd-values.js", want: `{"undef":"same","nan":"same","inf":"same","negz":"same","big":"same","big53":"same","date":"[object Date]Thu Jan 01 1970 00:0",` +
		`"map":"[object Map][object Map]","set":"[object Set][object Set]","u8":"[object Uint8Array]1,2","fn":"TypeError","sym":"TypeError","re":"TypeError",` +
		`"err":"[object Error]TypeError: t","hole":"[object Array]1,,3","lone":"same","nul":"same","empty":"[object Object][object Object]","long":"same"}`},
	{file: "179-tool-throws.js", want: `[["string","string","ok"],"done"]`},
	{file: "180-unhandled.js", script: caseSessionUnhandled},
	{file: "181-big-tool-result.js", limits: Limits{MemoryBytes: 48 << 20}, want: `"ToolError"`},
	{file: "183-journal-torn-tail.py", script: caseTornTail},
	{file: "184-journal-torn-utf8.json", script: caseTornText},
	{file: "186-crash-window.json", script: func(*testing.T, string) {}}, // see TestSurviveCrash
	{file: "191-js-global-left.js", script: caseGlobalsLeft},
}

// caseTools are those that the cases name. The catalog takes them all: the names are
// in a namespace, so none is a guest's own.
func caseTools(t *testing.T) *Catalog {
	const plenty = 1_000_000
	return catalogOf(t,
		Tool{Name: "tools.echo", MaxCalls: plenty, Func: func(v *js.Value) any {
			if v == nil {
				return js.Undefined
			}
			return *v
		}},
		Tool{Name: "tools.upper", Func: strings.ToUpper},
		Tool{Name: "tools.slow", Func: func(ctx context.Context, ms int) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(ms) * time.Millisecond):
			}
		}},
		Tool{Name: "tools.fail", Func: func(message string) error { return &js.GuestError{Message: message} }},
		Tool{Name: "tools.never", Func: func(ctx context.Context) { <-ctx.Done() }},
		Tool{Name: "tools.bytes", Func: func(n int) string { return strings.Repeat("b", n) }})
}

// caseSession is a session with the tools of the cases.
func caseSession(t *testing.T, l Limits) *Session {
	t.Helper()
	return checkout(t, newPool(t, Options{Keys: surviveKeys, Limits: l}), SessionOptions{Tools: caseTools(t)})
}

// feedBody is a body of a function as a feed: it may be fed more than once.
func feedBody(body string) string { return "return await (async function () {\n" + body + "\n})()" }

// TestSurviveCases: every file has exactly its own outcome as a feed of a session,
// which goes on and replays to the same.
func TestSurviveCases(t *testing.T) {
	entries, err := os.ReadDir(surviveCases)
	if err != nil {
		t.Fatal(err)
	}
	var files, listed []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	for _, c := range sessionCaseTable {
		listed = append(listed, c.file)
	}
	if !slices.Equal(files, listed) {
		t.Fatalf("files and table differ:\n%v\n%v", files, listed)
	}
	for _, c := range sessionCaseTable {
		t.Run(c.file, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join(surviveCases, c.file))
			if err != nil {
				t.Fatal(err)
			}
			if c.script != nil {
				c.script(t, string(body))
				return
			}
			s := caseSession(t, c.limits)
			for range max(c.times, 1) {
				if got := fed(s, feedBody(string(body))); got != c.want {
					t.Errorf("%s, not %s", got, c.want)
				}
			}
			l := reloaded(t, s, s.pool)
			if a, b := fed(s, "typeof late + 20"), fed(l, "typeof late + 20"); a != `"undefined20"` || a != b || s.Usage().Calls != l.Usage().Calls {
				t.Errorf("%s, %s", a, b)
			}
		})
	}
}

// caseManyCalls: at most a thousand calls of a feed are admitted, the others are
// refused by name, and more refusals than the session may have end the feed.
func caseManyCalls(t *testing.T, body string) {
	s := caseSession(t, Limits{FeedMS: 60_000, MemoryBytes: 1 << 30, Waiting: 4_096})
	if got := fed(s, feedBody(body)); got != "[true,100000]" {
		t.Errorf("%s", got)
	}
	// 4,096 may wait at one time, of which 1,000 are admitted; what is beyond throws in the guest itself.
	if u := s.Usage(); u.Calls != 1_000 || u.Refused != 4_096-1_000 {
		t.Errorf("%+v", u)
	}
	l := reloaded(t, s, s.pool)
	if fed(l, "1") != "1" || l.Usage().Calls != 1_000 {
		t.Errorf("%+v", l.Usage())
	}
	s = caseSession(t, Limits{FeedMS: 60_000, Waiting: 4_096, Refused: 100})
	if _, err := s.Feed(t.Context(), feedBody(strings.ReplaceAll(body, "100000", "2000")), FeedOptions{}); !errors.Is(err, SessionBudget) || s.Usage().Calls != 1_000 {
		t.Errorf("%v, %+v", err, s.Usage())
	}
}

// caseParallelOrder: what was the order, and who won, is on record, and comes again
// with other delays.
func caseParallelOrder(t *testing.T, body string) {
	s := caseSession(t, Limits{})
	if got := fed(s, "globalThis.got = await (async function () {\n"+body+"\n})(); got"); got != `[[50,10,30],[10,30,50],"y"]` {
		t.Errorf("%s", got)
	}
	p := newPool(t, Options{Keys: surviveKeys})
	begin := time.Now()
	l := reloaded(t, s, p)
	if got := fed(l, "got"); got != `[[50,10,30],[10,30,50],"y"]` {
		t.Errorf("%s in %v", got, time.Since(begin))
	}
}

// caseReplayRandom: random numbers, time and what was called by them are the same in
// each replay, and another session's are not.
func caseReplayRandom(t *testing.T, body string) {
	s := caseSession(t, Limits{})
	code := "globalThis.got = [...(globalThis.got ?? []), await (async function () {\n" + body + "\n})()]; got"
	var got string
	for range 8 {
		got = fed(s, code)
	}
	if !strings.Contains(got, `"echo"`) && !strings.Contains(got, `"upper"`) || strings.Contains(got, "false") {
		t.Errorf("%s", got)
	}
	for range 2 {
		l := reloaded(t, s, newPool(t, Options{Keys: surviveKeys}))
		if again := fed(l, "got"); again != got {
			t.Errorf("%s\n%s", got, again)
		}
	}
	if other := fed(caseSession(t, Limits{}), code); strings.Contains(got, other[1:len(other)-1]) {
		t.Errorf("another session has %s", other)
	}
}

// caseSessionUnhandled: rejections that nobody handles are told on the console, and
// the session goes on.
func caseSessionUnhandled(t *testing.T, body string) {
	s := caseSession(t, Limits{})
	r, err := s.Feed(t.Context(), feedBody(body), FeedOptions{})
	if got := said(r, err); got != `"kept"` || !strings.Contains(r.Output, "nobody listens") || !strings.Contains(r.Output, "async lost") {
		t.Errorf("%s, %q", got, r.Output)
	}
	if got := fed(reloaded(t, s, s.pool), feedBody(body)); got != `"kept"` {
		t.Errorf("again: %s", got)
	}
}

// caseTornTail: half a last record is dropped, the next stands on its own, and a
// second load sees all.
func caseTornTail(t *testing.T, body string) {
	if !strings.Contains(body, "cut = int(sys.argv[2]) if len(sys.argv) > 2 else 9") {
		t.Fatal("the case cuts something else")
	}
	tornTail(t, []int{9}, "cut me")
}

// caseTornText: the same for each cut within the last 64 bytes, with text that is not
// ASCII.
func caseTornText(t *testing.T, body string) {
	var c struct {
		Make struct {
			Calls int    `json:"calls"`
			Arg   string `json:"arg"`
		} `json:"make"`
		Cut string `json:"cut_bytes"`
	}
	if err := json.Unmarshal([]byte(body), &c); err != nil || c.Make.Calls != 5 || c.Cut != "1..64" {
		t.Fatalf("%+v %v", c, err)
	}
	var cuts []int
	for n := 1; n <= 64; n += tornStep {
		cuts = append(cuts, n)
	}
	tornTail(t, cuts, c.Make.Arg)
}

// tornStep is 1 in a soak: the journal's own tests cut at each byte.
const tornStep = 9

// tornTail cuts a journal of five calls and loads, appends and loads it again.
func tornTail(t *testing.T, cuts []int, arg string) {
	s := caseSession(t, Limits{})
	for i := range 5 {
		if got := fed(s, "globalThis.log = [...(globalThis.log ?? []), await tools.echo("+strconv.Quote(arg)+" + "+strconv.Itoa(i)+")]; log.length"); got != strconv.Itoa(i+1) {
			t.Fatal(got)
		}
	}
	data := dump(t, s).Journal
	for _, cut := range cuts {
		l, err := load(t, s, s.pool, data[:len(data)-cut])
		if err != nil {
			t.Errorf("cut by %d: %v", cut, err)
			continue
		}
		// The last record was the outcome of the fifth feed: it is made again.
		if step := l.Step(); step == nil || !step.Done || said(step.Result, nil) != "5" || l.Usage().Calls != 5 || l.Usage().Feeds != 5 {
			t.Errorf("cut by %d: %+v", cut, step)
		}
		if got := fed(l, "log.push(await tools.echo('next')); log.at(-1) + log.length"); got != `"next6"` {
			t.Errorf("cut by %d: %s", cut, got)
		}
		again := reloaded(t, l, s.pool)
		if got := fed(again, "log[4] + log.length"); got != `"`+arg+`46"` {
			t.Errorf("cut by %d, loaded again: %s", cut, got)
		}
		for _, one := range []*Session{l, again} {
			if err := one.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// caseGlobalsLeft: of thirty sessions of two owners none sees another's globals or
// prototypes; within one they stay, as they should.
func caseGlobalsLeft(t *testing.T, body string) {
	p := newPool(t, Options{Warm: 2, Max: 2})
	for i := range 30 {
		s := checkout(t, p, SessionOptions{Owner: []byte{byte(i % 2)}, Tools: caseTools(t)})
		if got := fed(s, feedBody(body)); got != `[1,"native",null]` && !strings.HasPrefix(got, `[1,"native",{"$undefined"`) {
			t.Errorf("session %d: %s", i, got)
		}
		if i == 0 {
			if got := fed(s, feedBody(body)); got != `[2,"PATCHED","yes"]` {
				t.Errorf("the control: %s", got)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
