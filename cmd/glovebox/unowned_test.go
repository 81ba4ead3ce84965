package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// Few files are named one by one; of many, those that lie alone are, and folders stand
// for the rest. Nothing is lost, and no name reaches the terminal as it is.
//
// proves part of H-27
func TestUnownedText(t *testing.T) {
	for _, c := range []struct {
		name string
		in   unowned
		want string
	}{
		{"none", unowned{}, "0 files that programs can read belong to no package\n"},
		{"one", unowned{files: []string{"/usr/share/a"}}, "1 file that programs can read belongs to no package\n  /usr/share/a\n"},
		{"hostile", unowned{files: []string{"/usr/share/\x1b[2Ja", "/usr/share/b\n  /etc/shadow", "/usr/share/c\xff\u202e"}},
			"3 files that programs can read belong to no package\n  /usr/share/^[[2Ja\n  /usr/share/b^J  /etc/shadow\n  /usr/share/c\ufffd<U+202E>\n"},
		{"hostile, alone", unowned{files: []string{"/\x1b]0;x\a"}}, "1 file that programs can read belongs to no package\n  /^[]0;x^G\n"},
		{"unknown", unowned{unknown: errors.New("no list\n\x1b[m")}, "which files that programs can read belong to no package is not known: no list^J^[[m\n"},
		{"many", unowned{files: slices.Concat(made("/etc/x/a/", 12), []string{"/etc/x/b"}, made("/opt/go/src/", 30), made("/usr/share/left/", 9), []string{"/usr/share/token"})},
			"53 files that programs can read belong to no package\n  /etc/x/a/ (12)\n  /etc/x/b\n  /opt/go/src/ (30)\n" +
				"  " + strings.Join(made("/usr/share/left/", 9), "\n  ") + "\n  /usr/share/token\n"},
	} {
		if got := c.in.text(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// made are n files in a folder.
func made(folder string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%02d", folder, i))
	}
	return out
}

// However the files lie, there are no more places than asked for, each file is in one
// of them, in order, and as many as the places allow are named.
func TestFold(t *testing.T) {
	many := []string{}
	for i := range 30 {
		many = append(many, made(fmt.Sprintf("/f%02d/d/", i), 7)...)
	}
	for _, files := range [][]string{nil, {"/a"}, made("/a/b/", 20), made("/a/b/", 21), many,
		slices.Concat(made("/a-b/", 2), made("/a/", 2), made("/a/b/", 2), made("/ab/", 2)), append(made("/a/", 30), made("/ab/", 30)...), {"/a", "/a\n", "/a/", "/ab/c"}} {
		slices.Sort(files)
		places := fold(files, 20)
		var all []string
		for _, p := range places {
			all = append(all, p.files...)
			for _, f := range p.files {
				if f != p.path && (len(p.files) == 1 || !strings.HasPrefix(f, p.path+"/")) {
					t.Errorf("%q is in %q", f, p.path)
				}
			}
		}
		if len(places) > 20 || !slices.Equal(all, files) || len(files) <= 20 && len(places) != len(files) {
			t.Errorf("%d files in %d places", len(files), len(places))
		}
	}
}

// An interruption ends the command and is no answer; whatever else keeps the search
// from one is.
func TestFindUnowned(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if found, err := findUnowned(ctx, glovebox.Options{}); !errors.Is(err, errInterrupted) || found.files != nil {
		t.Errorf("interrupted: %d files, %v", len(found.files), err)
	}
	if found, err := findUnowned(t.Context(), glovebox.Options{Sandbox: "never"}); err != nil || found.unknown == nil || found.files != nil {
		t.Errorf("bad options: %d files, %v, %v", len(found.files), found.unknown, err)
	}
}

// JSON tells none from not known, and keeps the fields of the status where they were.
func TestStatusReport(t *testing.T) {
	for want, files := range map[string][]string{`,"unowned_files":[]}`: {}, `,"unowned_files":null}`: nil, `,"unowned_files":["/a"]}`: {"/a"}} {
		text, err := json.Marshal(unownedReport{statusReport{Status: glovebox.Status{Complete: true}}, files})
		if err != nil || !strings.HasPrefix(string(text), `{"complete":true,"layers":null,`) || !strings.HasSuffix(string(text), want) {
			t.Errorf("%s, %v; want …%s", text, err, want)
		}
	}
}
