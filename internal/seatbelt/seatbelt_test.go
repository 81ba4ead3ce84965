package seatbelt

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata anew")

// The text of the profiles is what testdata has: a change of it is read there.
//
// proves part of T-19
func TestGolden(t *testing.T) {
	for name, o := range map[string]Options{
		"interpreter.sb": {ReadBelow: DataBelow},
		"jit.sb":         {JIT: true, ReadBelow: DataBelow, Read: []string{"/private/var/db/example (1).dat"}},
	} {
		got, err := Profile(o)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile("testdata/"+name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// parsed is a profile as its reader sees it: expressions of one line, behind
// comments that are reasons.
func parsed(t *testing.T, text string) (out []rule) {
	t.Helper()
	why := ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case i == 0:
			if line != "(version 1)" {
				t.Errorf("it begins with %q", line)
			}
		case strings.HasPrefix(line, "; "):
			why = line[2:]
		default:
			verb, rest, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "("), ")"), " ")
			operations, filter, _ := strings.Cut(rest, " (")
			if verb != "allow" && verb != "deny" || why == "" || strings.Count(line, "(") != strings.Count(line, ")") || strings.Count(line, `"`)%2 != 0 {
				t.Errorf("line %d: %q", i+1, line)
			}
			out = append(out, rule{verb == "allow", operations, filter, why})
			why = ""
		}
	}
	return out
}

// Everything is denied first, what the claim names is denied by name, and all that
// is allowed afterwards is a signal to itself, the folders that were named and, if
// they were asked for, compilers. Each line has its reason.
//
// proves part of T-19
func TestDeniedByDefault(t *testing.T) {
	for _, jit := range []bool{false, true} {
		text, err := Profile(Options{JIT: jit, ReadBelow: DataBelow})
		if err != nil {
			t.Fatal(err)
		}
		lines := parsed(t, text)
		if lines[0].allow || lines[0].operations != "default" {
			t.Errorf("the first rule is %+v", lines[0])
		}
		var allowed, denied []string
		for _, l := range lines {
			if l.allow {
				allowed = append(allowed, l.operations+" "+l.filter)
			} else {
				denied = append(denied, l.operations)
			}
		}
		want := []string{"signal target self)", `file-read-data file-read-metadata subpath "/usr/share/icu")`}
		if jit {
			want = append([]string{"dynamic-code-generation "}, want...)
		} else {
			denied = slices.DeleteFunc(denied, func(s string) bool { return s == "dynamic-code-generation" })
			if !strings.Contains(text, "\n(deny dynamic-code-generation)\n") {
				t.Error("the interpreter may make code")
			}
		}
		if diff := cmp.Diff(want, allowed); diff != "" {
			t.Errorf("allowed: %s", diff)
		}
		for _, op := range []string{"process-info*", "sysctl*", "iokit-open", "iokit-get-properties", "ipc-sysv*", "syscall-unix", "system-fcntl"} {
			if !slices.Contains(denied, op) {
				t.Errorf("%s is not denied", op)
			}
		}
	}
}

// Each probe is refused by rules that deny, and what the claim names has one.
//
// proves part of T-19
func TestProbes(t *testing.T) {
	names := map[string]bool{}
	for _, p := range Probes() {
		if p.String() == "" || p.What() == "" || names[p.String()] || len(list[p].by) == 0 {
			t.Errorf("probe %d: %+v", p, list[p])
		}
		names[p.String()] = true
		for _, op := range list[p].by {
			if !slices.ContainsFunc(rules, func(r rule) bool { return !r.allow && r.operations == op }) {
				t.Errorf("%v: no rule denies %s", p, op)
			}
		}
	}
	for _, name := range []string{"process-info", "process-args", "sysctl", "iokit-uuid", "gethostuuid", "sysv-semaphores", "sysv-memory", "sysv-queues", "getpath", "read-file", "write-file", "exec", "socket"} {
		if !names[name] {
			t.Errorf("no probe %s", name)
		}
	}
}

// A path is a string of the profile or refused: none ends its string.
//
// proves part of T-19
func TestPaths(t *testing.T) {
	for _, p := range []string{
		"", "usr/share", "/", "/a/", "/a//b", "/a/../b", "/a/.", "/a\"", "/a\\", "/a\n", "/a\x00", "/a\x7f", "/a\xff", "/a\u2028", "/é", "/a;b", "/a#b", "/a|b", "/a'b", "/a`b",
		`/a")(allow default)("`, "/" + strings.Repeat("a", 1024),
	} {
		for _, o := range []Options{{Read: []string{p}}, {ReadBelow: []string{p}}} {
			if text, err := Profile(o); err == nil || text != "" {
				t.Errorf("%q: %s", p, text)
			}
		}
	}
	for _, p := range []string{"/usr/share/icu", "/a b", "/a(b)", "/Library/x-1.2_3+4@5", "/a,b=c%d~e"} {
		text, err := Profile(Options{Read: []string{p}})
		if err != nil || !strings.Contains(text, `(allow file-read-data file-read-metadata (literal "`+p+`"))`+"\n") {
			t.Errorf("%q: %v", p, err)
		}
	}
	if _, err := Profile(Options{Read: slices.Repeat([]string{"/a"}, maxPaths+1)}); err == nil {
		t.Error("too many paths")
	}
}

// Whatever the path, a profile that is made has the rules and one line more for it.
//
// proves part of T-13
func FuzzProfile(f *testing.F) {
	for _, s := range []string{"/usr/share/icu", `/a")(allow default)("`, "/a\nb", "/é"} {
		f.Add(s)
	}
	plain, err := Profile(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p string) {
		text, err := Profile(Options{ReadBelow: []string{p}})
		if err != nil {
			return
		}
		rest, ok := strings.CutPrefix(text, plain)
		if !ok || rest != "; a folder that the host named\n(allow file-read-data file-read-metadata (subpath \""+p+"\"))\n" || strings.Count(rest, "\n") != 2 || strings.Count(rest, `"`) != 2 {
			t.Errorf("%q: %s", p, rest)
		}
	})
}
