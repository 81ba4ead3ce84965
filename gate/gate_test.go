package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox/preflight"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var ctx = context.Background()

// gates of every bad kind, and a good one.
func yes(context.Context, []byte, Info) Verdict    { return Verdict{Allow: true} }
func no(context.Context, []byte, Info) Verdict     { return Verdict{Reason: "no"} }
func zero(context.Context, []byte, Info) Verdict   { return Verdict{} }
func panics(context.Context, []byte, Info) Verdict { panic("secret of the host") }
func exits(context.Context, []byte, Info) Verdict  { runtime.Goexit(); return Verdict{Allow: true} }

// blocks returns a gate that waits, whatever its context says, and the function
// that lets it go.
func blocks(t *testing.T) Gate {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(context.Context, []byte, Info) Verdict {
		<-end
		return Verdict{Allow: true}
	}
}

// want holds an error of Ask against a reason; "" is none.
func want(t *testing.T, err error, reason string) *Denied {
	t.Helper()
	var d *Denied
	switch {
	case reason == "" && err == nil:
		return nil
	case !errors.As(err, &d) || reason == "":
		t.Fatalf("%v, want %q", err, reason)
	case d.Reason != reason:
		t.Errorf("reason %q, want %q", d.Reason, reason)
	}
	return d
}

// Whatever a gate does but allow is a denial; the control allows.
//
// proves part of H-57
func TestAsk(t *testing.T) {
	for name, c := range map[string]struct {
		g       Gate
		reason  string
		verdict bool // its own
	}{
		"allows": {yes, "", true},
		"denies": {no, "no", true},
		"zero":   {zero, "the gate does not allow it", true},
		"panics": {panics, "the gate panicked", false},
		"exits":  {exits, "the gate ended its goroutine", false},
		"nil":    {nil, "there is no gate to ask", false},
		"nil panic": {func(context.Context, []byte, Info) Verdict { panic(nil) },
			"the gate panicked", false},
		"reason and nothing else": {func(context.Context, []byte, Info) Verdict { return Verdict{Reason: "allowed"} }, "allowed", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := want(t, Ask(ctx, c.g, []byte("1"), Info{Kind: Script, Name: "a"}), c.reason)
			if d != nil && errors.Is(d, ErrNoVerdict) == c.verdict {
				t.Errorf("no verdict: %v", d.Err)
			}
			if d != nil && (d.Kind != Script || d.Name != "a") {
				t.Errorf("%+v", d)
			}
		})
	}
	if err := Ask(ctx, panics, nil, Info{}); strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// A gate that blocks is left behind when its time or its context is over, and
// what it says later counts for nothing. When too many are left behind everything
// is denied until one has come back.
//
// proves part of H-57
func TestLate(t *testing.T) {
	for late.Load() > 0 { // of tests before
		runtime.Gosched()
	}
	before := late.Load()
	want(t, Ask(ctx, blocks(t), nil, Info{Timeout: time.Millisecond}), "the gate did not answer in time")
	if n := late.Load(); n != before+1 {
		t.Errorf("%d left behind, then %d", before, n)
	}
	canceled, cancel := context.WithCancel(ctx)
	asked := make(chan struct{})
	block := blocks(t)
	go func() { <-asked; cancel() }()
	d := want(t, Ask(canceled, func(ctx context.Context, s []byte, i Info) Verdict { close(asked); return block(ctx, s, i) }, nil, Info{}), "the gate did not answer in time")
	if !errors.Is(d, context.Canceled) {
		t.Error(d.Err)
	}
	want(t, Ask(canceled, yes, nil, Info{}), "the context ended before the gate was asked")
	// One that allows when it sees that the time is over is too late.
	want(t, Ask(ctx, func(ctx context.Context, _ []byte, _ Info) Verdict { <-ctx.Done(); return Verdict{Allow: true} }, nil, Info{Timeout: time.Millisecond}),
		"the gate did not answer in time")
	for _, d := range []time.Duration{-1, MaxTimeout + 1} {
		want(t, Ask(ctx, yes, nil, Info{Timeout: d}), "the gate's time limit is out of bounds")
	}
	want(t, Ask(ctx, yes, nil, Info{Timeout: MaxTimeout}), "")
	if err := Ask(ctx, func(ctx context.Context, _ []byte, i Info) Verdict {
		end, ok := ctx.Deadline()
		return Verdict{Allow: ok && time.Until(end) <= DefaultTimeout && time.Until(end) > DefaultTimeout-time.Second && i.Timeout == DefaultTimeout}
	}, nil, Info{}); err != nil {
		t.Error("the default is not 5 s")
	}
}

// When too many are left behind everything is denied until one has come back.
func TestTooManyLate(t *testing.T) {
	end := make(chan struct{})
	var back sync.WaitGroup
	stuck := func(context.Context, []byte, Info) Verdict { defer back.Done(); <-end; return Verdict{} }
	for late.Load() < maxLate {
		back.Add(1)
		want(t, Ask(ctx, stuck, nil, Info{Timeout: time.Microsecond * 100}), "the gate did not answer in time")
	}
	want(t, Ask(ctx, yes, nil, Info{}), "too many gates have not answered")
	close(end)
	back.Wait()
	for late.Load() >= maxLate { // the last lines of a goroutine
		runtime.Gosched()
	}
	want(t, Ask(ctx, yes, nil, Info{}), "")
}

// What a gate does to its bytes, or to the findings that it gave, changes nothing
// for anybody else.
//
// proves part of H-57
func TestCopies(t *testing.T) {
	source := []byte("the source")
	scribbles := func(_ context.Context, s []byte, _ Info) Verdict {
		if string(s) != "the source" {
			return Verdict{Reason: "another one"}
		}
		for i := range s {
			s[i] = 'x'
		}
		return Verdict{Allow: true}
	}
	for _, g := range []Gate{scribbles, AllOf(scribbles, scribbles), AnyOf(AllOf(scribbles, no), scribbles)} {
		if err := Ask(ctx, g, source, Info{}); err != nil || string(source) != "the source" {
			t.Errorf("%v, %s", err, source)
		}
	}
	found := []preflight.Finding{{Line: 1, Column: 1, Message: "mine"}}
	d := want(t, Ask(ctx, func(context.Context, []byte, Info) Verdict { return Verdict{Findings: found} }, nil, Info{}), "the gate does not allow it")
	if found[0].Message = "changed"; d.Findings[0].Message != "mine" {
		t.Error(d)
	}
	members := []Gate{no}
	all, any := AllOf(members...), AnyOf(members...)
	members[0] = yes
	want(t, Ask(ctx, all, nil, Info{}), "no")
	want(t, Ask(ctx, any, nil, Info{}), "no")
}

// All and any, with members of every kind.
//
// proves part of H-57
func TestCombined(t *testing.T) {
	for name, c := range map[string]struct {
		members  []Gate
		all, any string
	}{
		"none":              {nil, "there is no gate to ask", "there is no gate to ask"},
		"yes":               {[]Gate{yes}, "", ""},
		"no":                {[]Gate{no}, "no", "no"},
		"yes, no":           {[]Gate{yes, no}, "no", ""},
		"no, yes":           {[]Gate{no, yes}, "no", ""},
		"panics, yes":       {[]Gate{panics, yes}, "the gate panicked", ""},
		"yes, panics":       {[]Gate{yes, panics}, "the gate panicked", ""},
		"panics":            {[]Gate{panics}, "the gate panicked", "the gate panicked"},
		"panics, no":        {[]Gate{panics, no}, "the gate panicked", "no"},
		"no, panics":        {[]Gate{no, panics}, "no", "no"},
		"exits, yes":        {[]Gate{exits, yes}, "the gate ended its goroutine", ""},
		"nil, yes":          {[]Gate{nil, yes}, "there is no gate to ask", ""},
		"zero, yes":         {[]Gate{zero, yes}, "the gate does not allow it", ""},
		"zero":              {[]Gate{zero, zero}, "the gate does not allow it", "the gate does not allow it"},
		"nested":            {[]Gate{AllOf(yes, AnyOf(panics, yes)), AnyOf(no, AllOf(yes))}, "", ""},
		"nested and empty":  {[]Gate{AllOf(), AnyOf()}, "there is no gate to ask", "there is no gate to ask"},
		"yes, then a block": {[]Gate{yes, blocks(t)}, "the gate did not answer in time", ""},
		"a block, then yes": {[]Gate{blocks(t), yes}, "the gate did not answer in time", "the gate did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			info := Info{Timeout: 2 * time.Second}
			if strings.Contains(name, "block") {
				info.Timeout = 20 * time.Millisecond
			}
			want(t, Ask(ctx, AllOf(c.members...), nil, info), c.all)
			want(t, Ask(ctx, AnyOf(c.members...), nil, info), c.any)
		})
	}
}

// What a gate says can be shown: it is cleaned and cut, reason and findings.
func TestShown(t *testing.T) {
	long := strings.Repeat("é\x1b[31m\u202e", 100_000)
	var many []preflight.Finding
	for range 3 * preflight.MaxFindings {
		many = append(many, preflight.Finding{Line: -1, Column: -5, Severity: "e\x07", Rule: preflight.Rules()[0] + "\n", Message: long})
	}
	err := Ask(ctx, func(context.Context, []byte, Info) Verdict { return Verdict{Reason: "a\nb\x00" + long, Findings: many} }, nil, Info{Kind: "k\x1b", Name: "n\u2066" + long})
	var d *Denied
	if !errors.As(err, &d) {
		t.Fatal(err)
	}
	if len(d.Findings) != preflight.MaxFindings || d.More != 2*preflight.MaxFindings || len(d.Reason) > maxReason || len(d.Name) > maxName || len(d.Findings[99].Message) > maxMessage {
		t.Errorf("%d findings and %d more, a reason of %d bytes", len(d.Findings), d.More, len(d.Reason))
	}
	if f := d.Findings[0]; f.Line != 0 || f.Column != 0 || f.Severity != "e" || f.Rule != "import " {
		t.Errorf("%+v", f)
	}
	text := d.Error()
	if strings.ContainsAny(text, "\n\x1b\x00\u202e\u2066") || !strings.HasPrefix(text, "gate: k né[31mé") || !strings.Contains(text, "is denied: a b") || !strings.HasSuffix(text, "and 299 more)") {
		t.Errorf("%q", text)
	}
	if !strings.HasSuffix(d.Reason, "…") {
		t.Errorf("%q", d.Reason)
	}
	if got := (&Denied{Kind: Script, Reason: "no"}).Error(); got != "gate: script is denied: no" {
		t.Error(got)
	}
}

// Whose session it is reaches the gate, and a caller's own word goes first.
func TestWithSession(t *testing.T) {
	var got []string
	g := func(_ context.Context, _ []byte, i Info) Verdict {
		got = append(got, i.Owner+"/"+i.Session)
		return Verdict{Allow: true}
	}
	in := WithSession(ctx, "ann", "s1")
	for _, c := range []struct {
		ctx  context.Context
		info Info
	}{{ctx, Info{}}, {in, Info{}}, {in, Info{Owner: "bob", Session: "s2"}}, {WithSession(in, "eve", "s3"), Info{}}} {
		if err := Ask(c.ctx, g, nil, c.info); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, []string{"/", "ann/s1", "bob/s2", "eve/s3"}) {
		t.Error(got)
	}
}
