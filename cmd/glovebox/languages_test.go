package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// checks are the answers of a checker, by name; no answer ends the context.
type checks struct {
	answers map[string]error
	cancel  func()
}

func (c checks) CheckLanguage(_ context.Context, name string) (*glovebox.Result, error) {
	err, ok := c.answers[name]
	if !ok {
		c.cancel()
		return &glovebox.Result{Verdict: api.Canceled}, errors.New("canceled")
	}
	return &glovebox.Result{Verdict: api.CompileError, Compile: &api.Compile{Stderr: "no\x1b[2J such\nthing\n"}}, err
}

// report are languages of which one works, one does not compile, one is not
// installed and one is cold and hostile.
func report() []languageReport {
	return []languageReport{
		{Language: glovebox.Language{Name: "good", Title: "Good", Installed: true, Version: "Good 1", Extensions: []string{".g", ".gd"}, File: "main.g", Refusals: []string{"one", "two"}}},
		{Language: glovebox.Language{Name: "broken", Title: "Broken", Installed: true, Version: "Broken 2, of a long name that goes on", Extensions: []string{".b"}, Compiled: true}},
		{Language: glovebox.Language{Name: "gone", Title: "Gone", Missing: "/usr/bin/gone, /opt/gone", Extensions: []string{".o"}, Compiled: true}},
		{Language: glovebox.Language{Name: "cold", Title: "Cold", Installed: true, Version: "\x1b[2Jcold\u202e", Extensions: []string{".c"}, Cold: true}},
	}
}

func answers() checks {
	return checks{answers: map[string]error{
		"good": nil, "cold": nil, "broken": errors.New("compile_error: the compiler refused the program"),
		"gone": &glovebox.FieldError{Field: "language", Value: "gone", Reason: "is not installed"},
	}}
}

// blank puts one time in the place of any.
func blank(l languageReport) languageReport {
	if l.Check != nil {
		l.Check.MS = 7
	}
	return l
}

// The table shows each check with its reason, whatever is in it; what is not
// installed has failed only if it was asked for.
func TestLanguageChecks(t *testing.T) {
	for _, c := range []struct {
		name  string
		width int
		named bool
		want  string
	}{
		{"all", 0, false, "" +
			"NAME    INSTALLED  VERSION                                FILE NAMES  CHECK        NOTES\n" +
			"good    yes        Good 1                                 .g .gd      ok 7 ms\n" +
			"broken  yes        Broken 2, of a long name that goes on  .b          FAILED       compiled\n" +
			"        compile_error: the compiler refused the program\n        no^[[2J such\n        thing\n" +
			"gone    no         -                                      .o          -            not installed: looked for /usr/bin/gone, /opt/gone; compiled\n" +
			"cold    yes        ^[[2Jcold<U+202E>                      .c          ok 7 ms      cold\n"},
		{"named, narrow", 72, true, "" +
			"NAME    INSTALLED  VERSION           FILE NAMES  CHECK        NOTES\n" +
			"good    yes        Good 1            .g .gd      ok 7 ms\n" +
			"broken  yes        Broken 2, of a …  .b          FAILED       compiled\n" +
			"        compile_error: the compiler refused the program\n        no^[[2J such\n        thing\n" +
			"gone    no         -                 .o          FAILED       not insta…\n        is not installed\n" +
			"cold    yes        ^[[2Jcold<U+202…  .c          ok 7 ms      cold\n"},
	} {
		var out strings.Builder
		list := report()
		table := newLanguageTable(&out, list, true, c.width)
		f := &languageFlags{check: true}
		failed, err := f.checkAll(t.Context(), answers(), list, c.named, func(l languageReport) error { return table.row(blank(l)) })
		if !failed || err != nil {
			t.Errorf("%s: failed %v, %v", c.name, failed, err)
		}
		if d := cmp.Diff(c.want, out.String()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// Only a failure is one; without a check nothing is run; nothing checked at all
// is not a success; a signal ends it.
func TestLanguageCheckStatus(t *testing.T) {
	quiet := func(languageReport) error { return nil }
	f := &languageFlags{check: true}
	if failed, err := f.checkAll(t.Context(), answers(), report()[:1], true, quiet); failed || err != nil {
		t.Errorf("one that works: %v, %v", failed, err)
	}
	if failed, err := (&languageFlags{}).checkAll(t.Context(), checks{cancel: func() { t.Error("run without being asked") }}, report(), true, quiet); failed || err != nil {
		t.Errorf("without a check: %v, %v", failed, err)
	}
	_, err := f.checkAll(t.Context(), answers(), report()[2:3], false, quiet)
	if code, say := explain(err); code != 1 || say != "no language is installed" {
		t.Errorf("none installed: %d, %q", code, say)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = f.checkAll(ctx, checks{cancel: func() { cancel(errInterrupted) }}, report(), false, func(languageReport) error {
		t.Error("a check that was interrupted is shown")
		return nil
	})
	if code, _ := explain(err); code != exitInterrupted {
		t.Errorf("interrupted: %d", code)
	}
}

// The whole reason is in the object; a table tells it in few lines.
func TestLanguageReasons(t *testing.T) {
	l := languageReport{Check: &languageCheck{Reason: strings.Repeat("line\r\n", 50)}}
	if got := reasons(l, "> "); strings.Count(got, "> line\n") != maxReasons || !strings.HasSuffix(got, "> line\n> …\n") {
		t.Errorf("%q", got)
	}
	text, err := json.Marshal(languageReport{Check: &languageCheck{Reason: "a\nb", MS: 1.5}})
	if err != nil || !strings.HasSuffix(string(text), `,"check":{"ok":false,"ms":1.5,"reason":"a\nb"}}`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestLanguageDetails(t *testing.T) {
	list := report()
	list[0].Limits = api.DefaultLimits()
	list[0].Check = &languageCheck{OK: true, MS: 12.3}
	list[2].Check = &languageCheck{Reason: "is not installed"}
	limits := "limits       wall 10s, cpu-time 10s, cpu 100, memory 256MiB, pids 64, output 1MiB, disk 128MiB, disk-files 10000, file-size 64MiB, open-files 256\n"
	for i, want := range map[int]string{
		0: "name         good (Good)\ninstalled    yes\nversion      Good 1\nfile names   .g .gd; a program given as text is main.g\n" + limits +
			"refusals     one\n             two\ncheck        ok 12 ms\n",
		2: "name         gone (Gone)\ninstalled    no: looked for /usr/bin/gone, /opt/gone\nversion      -\nfile names   .o; a program given as text is main.o\n" + limits +
			"check        FAILED\n             is not installed\n",
	} {
		var out strings.Builder
		list[i].File, list[i].Limits = "main"+list[i].Extensions[0], api.DefaultLimits()
		if err := details(&out, list[i]); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Error(d)
		}
	}
}

// Without cells the languages are listed all the same and the want of versions is
// told; a check is refused.
func TestLanguagesUnavailableAsRoot(t *testing.T) {
	as := func(args ...string) (*process, string) {
		p := prepare(t, append([]string{"languages"}, args...)...)
		p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64903, Gid: 64903}}
		p.Dir = "/"
		p.begin(t)
		out, err := io.ReadAll(p.out)
		if err != nil {
			t.Fatal(err)
		}
		return p, string(out)
	}
	for _, args := range [][]string{{"python", "bash"}, {"python", "--json"}, {"python"}} {
		p, out := as(args...)
		p.ends(t, 0)
		if !strings.Contains(out, "python") || strings.Contains(out, "Python 3") {
			t.Errorf("%v: stdout %q, want python without a version", args, out)
		}
		if got := p.stderr.String(); !strings.HasPrefix(got, "glovebox: warning: versions are not known: the sandbox is not available: cgroup does not hold (") || strings.Count(got, "\n") != 1 {
			t.Errorf("%v: stderr %q", args, got)
		}
	}
	p, out := as("--check", "python")
	p.ends(t, exitUnavailable)
	if got := p.stderr.String(); out != "" || !strings.HasPrefix(got, "glovebox: the sandbox is not available: cgroup does not hold (") {
		t.Errorf("stdout %q, stderr %q", out, got)
	}
	p, out = as("--check", "--sandbox", "auto", "python", "bash")
	p.ends(t, 0)
	if got := p.stderr.String(); !strings.Contains(out, "Python 3") || strings.Count(out, "  ok ") != 2 || !strings.HasPrefix(got, "glovebox: warning: the sandbox is incomplete (cgroup") {
		t.Errorf("stdout %q, stderr %q", out, got)
	}
}
