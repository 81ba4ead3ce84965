package seccomp

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// traceFiles are what the programs of every language call, by machine, and untraced.txt, which says why the list
// allows what none of them does.
//
//go:embed traces
var traceFiles embed.FS

// readLines gives f the words of each line of a file of traces.
func readLines(t *testing.T, name string, f func(line string, words []string)) {
	t.Helper()
	text, err := traceFiles.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		body, _, _ := strings.Cut(line, "#")
		if words := strings.Fields(body); len(words) > 0 {
			f(strings.TrimSpace(line), words)
		}
	}
}

// needed are the calls that traced programs made and were allowed, those of programs with a network apart. Calls that
// they were refused are checked: that is what the policy answers to some form of them.
func needed(t *testing.T) (always, loopback map[string]bool) {
	t.Helper()
	always, loopback = map[string]bool{}, map[string]bool{}
	files, err := fs.Glob(traceFiles, "traces/*/*.txt")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d traces: %v", len(files), err)
	}
	p := load(t, "language", Options{Loopback: true})
	for _, file := range files {
		calls := 0
		readLines(t, file, func(line string, words []string) {
			into := always
			if words[0] == "loopback" {
				into, words = loopback, words[1:]
			}
			calls++
			arch := X86_64
			if path.Base(path.Dir(file)) == Aarch64.String() {
				arch = Aarch64
			}
			if _, known := Number(arch, words[0]); !known {
				t.Errorf("%s: %s: there is no such call", file, line)
			}
			switch {
			case len(words) == 1:
				into[words[0]] = true
			case len(words) != 3 || words[1] != "refused" || !answersWith(p.rows[words[0]], words[2]) && !answersWith(load(t, "language", Options{}).rows[words[0]], words[2]):
				t.Errorf("%s: %s: that is not how the policy refuses it", file, line)
			}
		})
		if calls < 15 {
			t.Errorf("%s has %d calls", file, calls)
		}
	}
	return always, loopback
}

// answersWith tells whether some form of a call is refused with an errno.
func answersWith(r *row, errno string) bool {
	is := func(a Answer) bool {
		return a.Kind == Refuse && (errno == unix.ErrnoName(a.Errno) || errnos[errno] == a.Errno)
	}
	return r != nil && (is(r.last) || slices.ContainsFunc(r.branches, func(b branch) bool { return is(b.answer) }))
}

// untraced are the calls that the list allows although no traced program makes them, each with the reason.
func untraced(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	readLines(t, "traces/untraced.txt", func(line string, words []string) {
		_, reason, _ := strings.Cut(line, "#")
		if len(words) != 1 || strings.TrimSpace(reason) == "" || out[words[0]] != "" {
			t.Errorf("untraced.txt: %s: want one new name, # and a reason", line)
		}
		out[words[0]] = reason
	})
	return out
}

// unneeded says what is wrong between a list, the calls that programs need, and the reasons for the rest.
func unneeded(allowed []string, need map[string]bool, reasons map[string]string) []string {
	var wrong []string
	for _, name := range allowed {
		switch {
		case !need[name] && reasons[name] == "":
			wrong = append(wrong, name+": allowed, called by no traced program, and without a reason in untraced.txt")
		case need[name] && reasons[name] != "":
			wrong = append(wrong, name+": called by a traced program, so that untraced.txt need not say why it is allowed")
		}
	}
	for name := range need {
		if !slices.Contains(allowed, name) {
			wrong = append(wrong, name+": called by a traced program and not allowed")
		}
	}
	for name := range reasons {
		if !slices.Contains(allowed, name) {
			wrong = append(wrong, name+": in untraced.txt and not allowed")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// The profile allows what the programs of every language need, by their traces, and no more: what it allows besides has
// its reason, call by call.
//
// proves part of O-13
func TestProfileIsWhatProgramsNeed(t *testing.T) {
	always, loopback := needed(t)
	reasons := untraced(t)
	plain, wide := load(t, "language", Options{}).Allowed(), load(t, "language", Options{Loopback: true}).Allowed()
	both := map[string]bool{}
	for _, m := range []map[string]bool{always, loopback} {
		for name := range m {
			both[name] = true
		}
	}
	for _, w := range unneeded(wide, both, reasons) {
		t.Error(w)
	}
	for name := range always {
		if !slices.Contains(plain, name) {
			t.Errorf("%s: called by a traced program without a network and allowed only with one", name)
		}
	}

	// Controls: a call taken from the list, one added to it, a reason too many, a reason too few.
	if len(unneeded(slices.DeleteFunc(slices.Clone(wide), func(n string) bool { return n == "openat" }), both, reasons)) == 0 ||
		len(unneeded(append(slices.Clone(wide), "ptrace"), both, reasons)) == 0 {
		t.Error("control: a list that is wrong passes")
	}
	reasons["openat"] = "none"
	if len(unneeded(wide, both, reasons)) == 0 {
		t.Error("control: a reason too many passes")
	}
	delete(reasons, "openat")
	delete(reasons, "rt_sigreturn")
	if len(unneeded(wide, both, reasons)) == 0 {
		t.Error("control: a reason too few passes")
	}
}
