package glovebox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/preflight"
)

// toy is a language with a compiler that has a cache, which every host can run.
const toy = `{"name": "toy", "title": "Toy", "extensions": [".toy"], "interpreters": [], "programs": ["/bin/sh"], "needs": [], "version": ["{program}", "-c", "echo toy 1"],
"file": "main.toy", "compile": ["{program}", "-c", "cp ./{entry} {out}/main"], "compile_env": {}, "run": ["/bin/sh", "{out}/main"], "paths": [], "env": {}, "reserved": [],
"limits": {}, "compile_limits": {}, "warm": {"env": "TOYCACHE", "fill": ["{program}", "-c", "echo warm >$TOYCACHE/file"], "with": {}},
"smoke": {"source": "echo hello from a cell\n", "stdout": "hello from a cell\n"}, "refusals": []}`

// questions notes what a gate is asked: "KIND LANGUAGE NAME: SOURCE".
type questions struct {
	mu   sync.Mutex
	seen []string
}

func (q *questions) asked() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	seen := q.seen
	q.seen = nil
	return seen
}

// gate denies what has the word DENY.
func (q *questions) gate(_ context.Context, source []byte, i gate.Info) gate.Verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen = append(q.seen, fmt.Sprintf("%s %s %s: %s", i.Kind, i.Language, i.Name, source))
	return gate.Verdict{Allow: !strings.Contains(string(source), "DENY"), Reason: "the word"}
}

// gatedBox is a Box with a gate, and with the toy language.
func gatedBox(t *testing.T, o glovebox.Options) *glovebox.Box {
	t.Helper()
	b, err := glovebox.New(withToy(t, o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func withToy(t *testing.T, o glovebox.Options) glovebox.Options {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // a cache must be readable for cells
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "toy.json")
	if err := os.WriteFile(file, []byte(toy), 0o600); err != nil {
		t.Fatal(err)
	}
	o.InitPath, o.Armed, o.Prepared, o.CacheDir, o.Languages = testenv.Init(), -1, -1, filepath.Join(dir, "cache"), []string{file}
	return o
}

// wantDenied holds that an error is a denial for a reason.
func wantDenied(t *testing.T, err error, reason string) {
	t.Helper()
	if d, ok := err.(*gate.Denied); !ok || d.Reason != reason {
		t.Errorf("%v, want a denial: %s", err, reason)
	}
}

// The gate of a Box gets every text of a program that can be code, as the cell
// will get it, and what it denies takes no cell.
//
// proves part of H-57
func TestBoxGate(t *testing.T) {
	var q questions
	b := gatedBox(t, glovebox.Options{Gate: q.gate})
	ctx := context.Background()
	for _, c := range []struct {
		p     glovebox.Program
		asked []string
	}{
		{glovebox.Program{Language: "toy", Source: "echo 1", Args: []string{"data"}, Stdin: []byte("data")}, []string{"program toy main.toy: echo 1"}},
		{glovebox.Program{Language: "toy", Files: []glovebox.File{{Name: "a.txt", Content: "ZGF0YQ==", Encoding: "base64"}, {Name: "m/n.toy", Content: "echo 2"}}, Entry: "m/n.toy"},
			[]string{"file toy a.txt: data", "program toy m/n.toy: echo 2"}},
		{glovebox.Program{Command: []string{"/bin/echo", "<a>"}, Args: []string{"é\n"}, Env: map[string]string{"B": "2", "A": "1"}},
			[]string{`command  : ["/bin/echo","\u003ca\u003e","é\n"]`, `env  : {"A":"1","B":"2"}`}},
		{glovebox.Program{Command: []string{"/bin/true"}, Files: []glovebox.File{{Name: "x", Content: "y"}}}, []string{`command  : ["/bin/true"]`, "file  x: y"}},
	} {
		r, err := b.Run(ctx, c.p)
		if err != nil || r.Verdict != "ok" {
			t.Errorf("%+v: %v, %+v", c.p, err, r)
		}
		if diff := cmp.Diff(c.asked, q.asked()); diff != "" {
			t.Error(diff)
		}
	}
	for name, p := range map[string]glovebox.Program{
		"source":  {Language: "toy", Source: "# DENY"},
		"file":    {Language: "toy", Files: []glovebox.File{{Name: "a.toy", Content: "echo"}, {Name: "b", Content: "REVOWQ==", Encoding: "base64"}}},
		"command": {Command: []string{"/bin/echo", "DENY"}},
		"args":    {Command: []string{"/bin/echo"}, Args: []string{"DENY"}},
		"env":     {Command: []string{"/bin/echo"}, Env: map[string]string{"A": "DENY"}},
		"env key": {Language: "toy", Source: "1", Env: map[string]string{"DENY": "1"}},
	} {
		_, err := b.Run(ctx, p)
		if wantDenied(t, err, "the word"); err == nil {
			t.Error(name)
		}
		_, err = b.Start(ctx, p)
		wantDenied(t, err, "the word")
	}
	for _, p := range []glovebox.Program{{Command: []string{"/bin/echo", "a\xff"}}, {Command: []string{"/bin/echo"}, Env: map[string]string{"A": "\xff"}}} {
		_, err := b.Run(ctx, p)
		wantDenied(t, err, "it is not UTF-8, so that the gate would not see what runs")
	}
	q.asked()
	if _, err := b.Run(ctx, glovebox.Program{Language: "toy", Source: "DENY", Limits: glovebox.Limits{WallMS: 1}}); !errors.As(err, new(*glovebox.FieldError)) || q.asked() != nil {
		t.Errorf("asked about what is not well formed: %v", err)
	}
}

// A gate that fails in any way lets nothing run; and Judge needs no Box.
//
// proves part of H-57
func TestBoxGateFailsClosed(t *testing.T) {
	p := glovebox.Program{Command: []string{"/bin/true"}}
	ctx := context.Background()
	block := make(chan struct{})
	defer close(block)
	for reason, g := range map[string]gate.Gate{
		"the gate panicked":               func(context.Context, []byte, gate.Info) gate.Verdict { panic(1) },
		"the gate ended its goroutine":    func(context.Context, []byte, gate.Info) gate.Verdict { runtime.Goexit(); return gate.Verdict{} },
		"the gate does not allow it":      func(context.Context, []byte, gate.Info) gate.Verdict { return gate.Verdict{} },
		"the gate did not answer in time": func(context.Context, []byte, gate.Info) gate.Verdict { <-block; return gate.Verdict{Allow: true} },
		"there is no gate to ask":         gate.AllOf(nil),
	} {
		o := withToy(t, glovebox.Options{Gate: g, GateTimeout: 50 * time.Millisecond})
		wantDenied(t, glovebox.Judge(ctx, o, p), reason)
	}
	if err := glovebox.Judge(ctx, withToy(t, glovebox.Options{}), p); err != nil { // the control
		t.Error(err)
	}
	var wrong *glovebox.FieldError
	for _, d := range []time.Duration{-1, gate.MaxTimeout + 1} {
		if _, err := glovebox.New(withToy(t, glovebox.Options{GateTimeout: d})); !errors.As(err, &wrong) || wrong.Field != "GateTimeout" {
			t.Error(err)
		}
	}
	if err := glovebox.Judge(ctx, withToy(t, glovebox.Options{}), glovebox.Program{}); !errors.As(err, &wrong) {
		t.Error(err)
	}
}

// A policy for JavaScript judges programs of Node.js and denies all else.
func TestBoxPolicy(t *testing.T) {
	o := withToy(t, glovebox.Options{Gate: gate.Policy(preflight.Policy{DenyEval: true})})
	ctx := context.Background()
	wantDenied(t, glovebox.Judge(ctx, o, glovebox.Program{Language: "toy", Source: "echo"}), "the policy reads JavaScript alone")
	wantDenied(t, glovebox.Judge(ctx, o, glovebox.Program{Command: []string{"/usr/bin/node", "-e", "1"}}), "the policy reads JavaScript alone")
	if known, err := glovebox.KnownLanguages(o); err != nil {
		t.Fatal(err)
	} else {
		for _, l := range known {
			if l.Name == "node" && l.Installed {
				wantDenied(t, glovebox.Judge(ctx, o, glovebox.Program{Language: "node", Source: "eval('1')"}), "the policy does not allow it")
				if err := glovebox.Judge(ctx, o, glovebox.Program{Language: "node", Source: "console.log(1)"}); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
