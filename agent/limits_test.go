package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/js"
	"github.com/glovebox-dev/glovebox/preflight"
)

// TestLimitsDocumented: the table of docs/agent.md has every limit with its default.
func TestLimitsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2]
	}
	units := map[string]int64{"": 1, " KiB": 1 << 10, " MiB": 1 << 20, " days": 24 * hour}
	l, err := Limits{}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range l.table() {
		m := regexp.MustCompile(`^([0-9,]+)( KiB| MiB| days|)$`).FindStringSubmatch(rows[b.name])
		if m == nil {
			t.Errorf("%s: %q", b.name, rows[b.name])
			continue
		}
		if n, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64); err != nil || n*units[m[2]] != *b.value {
			t.Errorf("%s is %d, and documented as %s", b.name, *b.value, m[0])
		}
	}
}

// TestLimitsRefused: what is out of bounds is refused by its name.
func TestLimitsRefused(t *testing.T) {
	l := Limits{}
	for i, b := range l.table() {
		for _, bad := range []int64{-1, b.floor - 1, b.ceiling + 1} {
			if bad == 0 {
				continue
			}
			l := Limits{}
			*l.table()[i].value = bad
			var field *api.FieldError
			if _, err := l.resolve(); !errors.As(err, &field) || field.Field != "limits."+b.name {
				t.Errorf("%s of %d: %v", b.name, bad, err)
			}
		}
	}
	if _, err := Open(context.Background(), Options{Limits: Limits{FeedMS: -1}}); err == nil {
		t.Error("a pool is opened")
	}
}

// TestPrint: console text is collected and cut, or handed over.
//
// proves B-14
func TestPrint(t *testing.T) {
	s := newSession(t, Options{})
	r, err := s.Feed(t.Context(), "console.log('a', 1); console.error('b')", FeedOptions{})
	if err != nil || r.Output != "a 1\nb\n" || r.Truncated {
		t.Errorf("%q %v", r.Output, err)
	}
	var lines []string
	r, err = s.Feed(t.Context(), "console.log('a', 1); console.warn('b')", FeedOptions{Print: func(l js.Level, text string) { lines = append(lines, string(l)+" "+text) }})
	if err != nil || r.Output != "" || strings.Join(lines, "|") != "log a 1|warn b" {
		t.Errorf("%q %v", lines, err)
	}
	r, err = s.Feed(t.Context(), "const line = 'x'.repeat(1000); for (let i = 0; i < 3000; i++) console.log(line); 1", FeedOptions{})
	const cut = "\n[truncated]\n"
	if err != nil || !r.Truncated || !strings.HasSuffix(r.Output, cut) || len(r.Output) < 1<<20-1001 || len(r.Output) > 1<<20+len(cut) {
		t.Errorf("%d bytes, %v", len(r.Output), err)
	}
}

// TestInputs: inputs are variables of the feed and stay; what cannot be one is
// refused by name, and leaves nothing on record.
func TestInputs(t *testing.T) {
	p := newPool(t, Options{})
	s := checkout(t, p, SessionOptions{Tools: catalogOf(t, Tool{Name: "tool", Func: func() {}})})
	r, err := s.Feed(t.Context(), "rows.length + text", FeedOptions{Inputs: map[string]any{"rows": []int{1, 2}, "text": "é"}})
	if err != nil || r.Value.Any() != "2é" {
		t.Fatal(err)
	}
	for name, in := range map[string]map[string]any{
		"a word": {"class": 1}, "a global": {"Math": 1}, "a tool": {"tool": 1}, "no identifier": {"a b": 1}, "what cannot cross": {"f": func() {}},
	} {
		before := s.Usage()
		if _, err := s.Feed(t.Context(), "1", FeedOptions{Inputs: in}); !errors.As(err, new(*api.FieldError)) || s.Usage() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := fed(reloaded(t, s, p), "[text, rows]"); got != `["é",[1,2]]` {
		t.Error(got)
	}
}

// TestGated: what the gate denies runs nothing, costs nothing and is not on record.
func TestGated(t *testing.T) {
	var asked []gate.Info
	policy := gate.Policy(preflight.Policy{DenyEval: true, Names: []string{"secret"}, Await: true})
	p := newPool(t, Options{Gate: func(ctx context.Context, source []byte, info gate.Info) gate.Verdict {
		asked = append(asked, info)
		return policy(ctx, source, info)
	}})
	s := checkout(t, p, SessionOptions{Owner: []byte("me")})
	if got := fed(s, "let n = 1; n"); got != "1" {
		t.Fatal(got)
	}
	before := s.Usage()
	for _, code := range []string{"n = 2; secret", "n = 3; eval('1')", "n = 4; ({}).constructor.constructor('return 1')()"} {
		var denied *gate.Denied
		if r, err := s.Feed(t.Context(), code, FeedOptions{}); r != nil || !errors.As(err, &denied) {
			t.Errorf("%s: %v", code, err)
		}
		if _, err := s.Start(t.Context(), code, FeedOptions{}); !errors.As(err, &denied) {
			t.Errorf("%s: %v", code, err)
		}
		if e, err := s.Execute(t.Context(), code, FeedOptions{}); !errors.As(err, &denied) {
			t.Errorf("%s: %v, %v", code, e, err)
		}
	}
	if s.Usage() != before || fed(s, "n") != "1" {
		t.Errorf("%v, %v", before, s.Usage())
	}
	if asked[0].Owner != "me" || asked[0].Session != s.ID() || asked[0].Kind != gate.Feed {
		t.Errorf("%+v", asked[0])
	}
	n := len(asked)
	if fed(reloaded(t, s, p), "n") != "1" || len(asked) != n+3 {
		t.Errorf("asked %d times more", len(asked)-n)
	}
}

// TestExecuteUntransformed: a source that is no TypeScript is what the guest has
// caused, told like one that is no JavaScript; the feed never began.
func TestExecuteUntransformed(t *testing.T) {
	s := checkout(t, newPool(t, Options{}), SessionOptions{})
	e, err := s.Execute(t.Context(), "const x: number = = 1", FeedOptions{Syntax: js.TypeScript})
	if err != nil || e.Status != js.StatusError || e.Kind != js.SyntaxError || e.ErrorType != "SyntaxError" || e.Error == "" {
		t.Errorf("%+v, %v", e, err)
	}
	if u := s.Usage(); u.Feeds != 0 {
		t.Error(u)
	}
	if _, err := s.Execute(t.Context(), "1", FeedOptions{Syntax: "py"}); err == nil {
		t.Error("a syntax that there is not: no error")
	}
	if e, err := s.Execute(t.Context(), "const x: number = 1; x", FeedOptions{Syntax: js.TypeScript}); err != nil || string(e.Result) != "1" {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestInputsField: the field of a refused input is the caller's own, for the name
// as for the value.
func TestInputsField(t *testing.T) {
	s := checkout(t, newPool(t, Options{}), SessionOptions{})
	for what, inputs := range map[string]map[string]any{"name": {"a b": 1}, "taken": {"Object": 1}, "value": {"f": func() {}}} {
		var field *api.FieldError
		if _, err := s.Feed(t.Context(), "1", FeedOptions{Inputs: inputs}); !errors.As(err, &field) || field.Field != "inputs" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTimeIsFeedMS: a feed that runs out of time is told by the name of the limit that
// a caller of this package has, be it that of the feed or what is left of the session.
func TestTimeIsFeedMS(t *testing.T) {
	p := newPool(t, Options{Limits: Limits{FeedMS: 300, MS: 400}})
	s := checkout(t, p, SessionOptions{})
	for i, want := range []string{"it took longer than feed_ms, 300 ms", "it took longer than what was left of ms, "} {
		var failure *js.Error
		_, err := s.Feed(t.Context(), "for (;;) ;", FeedOptions{})
		if !errors.As(err, &failure) || failure.Kind != js.Timeout && failure.Kind != js.HardTimeout {
			t.Fatalf("%d: %v", i, err)
		}
		if failure.Kind == js.Timeout && !strings.HasPrefix(failure.Message, want) {
			t.Errorf("%d: %v", i, err)
		}
		if s.Usage().MS >= 400 {
			break // a slow machine: nothing is left for the second feed
		}
	}
}

// TestForeignJournalSaysWhy: a journal of other keys or settings is refused with what
// to look at, and one that was changed under keys that are right without it.
func TestForeignJournalSaysWhy(t *testing.T) {
	keys := &Keys{Current: "a", Roots: map[string][]byte{"a": bytes.Repeat([]byte("k"), 32)}}
	load := func(from, to *Pool, change bool) string {
		s := checkout(t, from, SessionOptions{})
		fed(s, "1")
		d, err := s.Dump()
		if err != nil {
			t.Fatal(err)
		}
		if change {
			d.Journal[len(d.Journal)-1] ^= 1
		}
		_, err = to.Load(t.Context(), d.Journal, LoadOptions{Head: d.Head})
		if !errors.Is(err, SessionJournal) {
			t.Fatal(err)
		}
		return err.Error()
	}
	const random, settings = "Options.Keys", "StrictEval"
	if got := load(newPool(t, Options{}), newPool(t, Options{}), false); !strings.Contains(got, random) {
		t.Error(got)
	}
	same := newPool(t, Options{Keys: keys})
	if got := load(same, newPool(t, Options{Keys: keys, StrictEval: true}), false); !strings.Contains(got, settings) {
		t.Error(got)
	}
	if got := load(same, same, true); strings.Contains(got, random) || strings.Contains(got, settings) {
		t.Error(got)
	}
}

// TestToldErrors: a guest sees a fixed sentence of a tool's error, unless the host
// shows them.
func TestToldErrors(t *testing.T) {
	tool := Tool{Name: "fail", Func: func() error { return errors.New("host secret") }}
	const code = "try { await fail() } catch (e) { return e.message }"
	if got := fed(newSession(t, Options{}, tool), code); got != `"the function of the host failed"` {
		t.Error(got)
	}
	if got := fed(newSession(t, Options{ShowErrors: true}, tool), code); got != `"host secret"` {
		t.Error(got)
	}
}
