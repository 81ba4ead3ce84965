package languages

import (
	"slices"
	"strings"
	"testing"
)

// The languages that come with Glovebox are valid, in order of name, complete
// and told apart by their files.
//
// proves part of X-20
func TestBuiltin(t *testing.T) {
	want := []string{"bash", "c", "c++", "go", "java", "lua", "node", "perl", "php", "python", "ruby", "rust"}
	if got := Builtin().Names(); !slices.Equal(got, want) {
		t.Errorf("languages %q, want %q", got, want)
	}
	for _, l := range Builtin() {
		if err := l.Validate(); err != nil {
			t.Errorf("%s: %v", l.Name, err)
		}
		if _, missing := l.Program(); missing != "" {
			t.Errorf("%s is not installed here: %s", l.Name, missing)
		}
		if got := Builtin().Detect(l.File, nil); got != l.Name {
			t.Errorf("%s is taken for %q, not for %s", l.File, got, l.Name)
		}
		for _, r := range l.Refusals {
			if !strings.HasSuffix(r, ".") {
				t.Errorf("%s: %q is no sentence", l.Name, r)
			}
		}
	}
	if again, err := Builtin().With(); err != nil || !slices.Equal(again, Builtin()) {
		t.Errorf("With() gives %q, %v", again.Names(), err)
	}
}

// A cell shows the union of what languages need, each path once.
func TestPaths(t *testing.T) {
	a, b := &Language{Paths: []string{"/usr/local/b", "/etc/a"}}, &Language{Paths: []string{"/etc/a"}}
	if got := (Set{a, b}).Paths(); !slices.Equal(got, []string{"/etc/a", "/usr/local/b"}) {
		t.Errorf("paths %q", got)
	}
}

// Places are filled in one pass, and {sources} becomes one element a file.
func TestFill(t *testing.T) {
	pl := Places{Program: "/usr/bin/x", Entry: "sub/a.c", Sources: []string{"sub/a.c", "{out}.c"}, Out: "/prog", Stem: "a", Memory: 256 << 20, CPUs: 2}
	got := pl.Fill([]string{"{program}", "-o{out}/{stem}", "{sources}", "./{entry}", "./{dir}", "-Xmx{heap_mib}m", "{memory_bytes}", "{memory_mib}", "{cpus}", "{cpus", "x{y}"})
	want := []string{"/usr/bin/x", "-o/prog/a", "./sub/a.c", "./{out}.c", "./sub/a.c", "./sub", "-Xmx170m", "268435456", "256", "2", "{cpus", "x{y}"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Places{Entry: "main.go"}).Fill([]string{"./{dir}"}); !slices.Equal(got, []string{"./."}) {
		t.Errorf("the folder of an entry without one is %q", got)
	}
	if got := (Places{Entry: "{out}", Out: "/prog"}).Text("{entry}"); got != "{out}" {
		t.Errorf("a place was looked into: %q", got)
	}
}

// Sources are the files with the language's extensions, the entry first.
func TestSources(t *testing.T) {
	l := &Language{Extensions: []string{".c"}}
	got := l.Sources("main", []string{"a.c", "main", "b.h", "sub/c.c", "d.C", "c"})
	if want := []string{"main", "a.c", "sub/c.c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A language is told by the extension, else by the first line, else not.
func TestDetect(t *testing.T) {
	for _, is := range []struct{ name, head, want string }{
		{"a.py", "", "python"}, {"a.cc", "", "c++"}, {"a.c", "", "c"}, {"A.java", "", "java"}, {"a.mjs", "", "node"},
		{"a.py", "#!/bin/bash\n", "python"}, {"a", "#!/bin/sh\n", "bash"}, {"a", "#! /usr/bin/env node\n", "node"},
		{"a", "#!/usr/bin/perl -w", "perl"}, {"a.txt", "#!/usr/bin/env lua\n", "lua"}, {"a", "#!/usr/bin/env php", "php"},
		{"a", "#!\n", ""}, {"a", "#", ""}, {"a", "", ""}, {"a.", "", ""}, {".py", "", "python"}, {"a", "#!/usr/bin/unknown\n", ""},
		{"a", "text #!/bin/sh\n", ""}, {"a.h", "", ""}, {"a.PY", "", ""},
	} {
		if got := Builtin().Detect(is.name, []byte(is.head)); got != is.want {
			t.Errorf("%q, %q: %q, want %q", is.name, is.head, got, is.want)
		}
	}
}

// What is not installed says what was looked for.
func TestProgram(t *testing.T) {
	for _, is := range []struct {
		programs, needs []string
		path, missing   string
	}{
		{[]string{"/no/such/x", "/bin/sh"}, nil, "/bin/sh", ""},
		{[]string{"/no/such/x", "/no/such/y"}, nil, "", "/no/such/x, /no/such/y"},
		{[]string{"/bin/sh"}, []string{"/no/such/*"}, "", "/no/such/*"},
		{[]string{"/bin/sh"}, []string{"/bin/s?", "/bin/sh"}, "/bin/sh", ""},
		{[]string{"/bin"}, nil, "", "/bin"},
		{[]string{"/etc/passwd"}, nil, "", "/etc/passwd"},
	} {
		path, missing := (&Language{Programs: is.programs, Needs: is.needs}).Program()
		if path != is.path || missing != is.missing {
			t.Errorf("%q, %q: %q, %q", is.programs, is.needs, path, missing)
		}
	}
}
