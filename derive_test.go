package glovebox_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/seccomp"
	"github.com/glovebox-dev/glovebox/languages"
)

// updateTraces writes what the programs of every language call anew; whoever commits that reads the diff.
//
//	go test -run Derive -update-traces -timeout 60m .
var updateTraces = flag.Bool("update-traces", false, "write internal/seccomp/traces anew from traces of this host")

// traceDir has a file for each language: the calls of its smoke program and of the programs that must not break.
func traceDir(t testing.TB) string {
	t.Helper()
	arch, ok := seccomp.Host()
	if !ok {
		t.Fatal("no table for this machine")
	}
	return filepath.Join("internal", "seccomp", "traces", arch.String())
}

// The list of system calls is derived again from traces of real programs: those that must not break, in every language,
// with their compilers. Under a trace that lets nothing more through each does what it does without, and what it calls
// is what the checked-in traces say, if they are to be written anew; else a sample of them is run: the first program of
// each language, whose calls the profile must allow. A trace does not know whose the
// program is.
//
// proves part of O-13
func TestDeriveTracesAsRoot(t *testing.T) {
	for _, l := range languages.Builtin() {
		t.Run(l.Name, func(t *testing.T) {
			cases := languageCases(t, l)
			if !*updateTraces {
				cases = cases[:1]
			}
			d := derived{t: t, lines: map[string]bool{}}
			smoke := glovebox.Program{Language: l.Name, Source: l.Smoke.Source}
			d.add(smoke, len(l.Compile) > 0, l.Smoke.Stdout)
			for _, c := range cases {
				d.add(c.program(t), len(c.lang.Compile) > 0, c.stdout)
			}
			if *updateTraces {
				d.write(l)
			}
		})
	}
}

// derived are the lines of one language's file.
type derived struct {
	t     *testing.T
	lines map[string]bool
}

// add traces a program. It prints what it does without a trace.
func (d *derived) add(p glovebox.Program, compiled bool, stdout string) {
	d.t.Helper()
	p.Limits.WallMS, p.Limits.CPUMS = 600_000, 600_000
	if compiled && p.Language != "" {
		p.Limits.Compile = &glovebox.Limits{WallMS: 600_000, CPUMS: 600_000}
	}
	var tr glovebox.Trace
	r, err := box(d.t).Run(d.t.Context(), p, glovebox.WithTrace(&tr, glovebox.Tracing{Allowed: true}))
	if err != nil {
		d.t.Fatal(err)
	}
	if r.Stdout != stdout {
		d.t.Errorf("%s %s %s: stdout %q, want %q; stderr %q", r.Verdict, r.Message, r.Syscall, r.Stdout, stdout, r.Stderr)
	}
	loopback := ""
	if p.Network == api.NetworkLoopback {
		loopback = "loopback "
	}
	for _, s := range tr.Steps {
		if !s.Exact {
			d.t.Errorf("%s: the counts are not exact", s.Step)
		}
		where := loopback
		if s.Step == "compile" {
			where = ""
		}
		for _, c := range s.Calls {
			line := where + c.Call
			if c.Answer != api.TraceAllowed {
				line += strings.TrimRight(" "+c.Answer+" "+c.Errno, " ")
			}
			d.lines[line] = true
		}
	}
}

func (d *derived) write(l *languages.Language) {
	for line := range d.lines {
		if rest, ok := strings.CutPrefix(line, "loopback "); ok && d.lines[rest] {
			delete(d.lines, line)
		}
	}
	known := box(d.t).Languages(d.t.Context(), true)
	version := known[slices.IndexFunc(known, func(k glovebox.Language) bool { return k.Name == l.Name })].Version
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		d.t.Fatal(err)
	}
	kernel, _, _ := strings.Cut(unix.ByteSliceToString(uts.Release[:]), "-")
	release := "an unknown release"
	text, _ := os.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			release = strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	out := fmt.Sprintf("# The system calls of %s's smoke program and of testdata/languages/%s, compilers included: what is allowed, and what\n"+
		"# was refused with its errno. \"loopback\" stands before what only programs with that network call.\n"+
		"# From %s, %s, Linux %s, by go test -run Derive -update-traces .\n",
		l.Title, l.Name, version, release, kernel)
	for _, line := range slices.Sorted(maps.Keys(d.lines)) {
		out += line + "\n"
	}
	if err := os.MkdirAll(traceDir(d.t), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(traceDir(d.t), l.Name+".txt"), []byte(out), 0o644); err != nil {
		d.t.Fatal(err)
	}
}
