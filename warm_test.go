package glovebox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// hoarder is a language whose compiler copies what its cache has, and tries to
// write to it.
const hoarder = `"name": "hoarder", "extensions": [".h8"], "run": ["/bin/cat", "{out}/seen"],
"compile_env": {"HOARD": "/tmp/hoard"},
"compile": ["{program}", "-c", "import os, sys\nd = os.environ['HOARD']\ntry:\n open(d + '/poison', 'w').write(open(sys.argv[2]).read())\n said = 'written'\nexcept OSError as e:\n said = e.strerror\ntry:\n seen = [f + '=' + open(d + '/' + f).read() for f in sorted(os.listdir(d))]\nexcept OSError as e:\n seen = e.strerror\nopen(sys.argv[1] + '/seen', 'w').write(repr((said, seen)))", "{out}", "{sources}"],
"warm": {"env": "HOARD", "fill": ["{program}", "-c", "import os\nopen(os.environ['HOARD'] + '/std', 'w').write('compiled')"]}`

// A compiler's cache is filled once, from nothing of a program; every later
// compiler reads it and none can write to it, and one that was changed is not used.
//
// proves H-28
func TestWarm(t *testing.T) {
	o := options()
	o.CacheDir = filepath.Join(t.TempDir(), "cache")
	for p := filepath.Dir(o.CacheDir); p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil { // root's cells have ids of their own
			t.Fatal(err)
		}
	}
	o.Languages = []string{languageFile(t, hoarder)}
	program := func(text string) glovebox.Program { return glovebox.Program{Language: "hoarder", Source: text} }
	cold := newBox(t, o)
	if r := run(t, cold, program("evil")); r.Stdout != "('No such file or directory', 'No such file or directory')" {
		t.Errorf("without a cache: %s %q", r.Verdict, r.Stdout)
	}
	find := func(b *glovebox.Box) glovebox.Language {
		for _, l := range b.Languages(t.Context(), false) {
			if l.Name == "hoarder" {
				return l
			}
		}
		return glovebox.Language{}
	}
	if l := find(cold); !l.Cold || !l.Installed || !l.Compiled {
		t.Errorf("%+v", l)
	}
	if err := cold.Warm(t.Context(), "hoarder"); err != nil {
		t.Fatal(err)
	}
	warm := newBox(t, o)
	for range 2 { // the second sees nothing of the first
		if r := run(t, warm, program("evil")); r.Verdict != api.OK || r.Stdout != "('Read-only file system', ['std=compiled'])" {
			t.Errorf("%s %q", r.Verdict, r.Stdout)
		}
	}
	if l := find(warm); l.Cold {
		t.Errorf("%+v", l)
	}
	if err := warm.Warm(t.Context(), "python"); err == nil || !strings.Contains(err.Error(), "has no cache") {
		t.Error(err)
	}
	warmChanged(t, o, warm, program("x"), find)
}

// warmChanged changes a cache that a Box uses: that is the control, and a new Box
// must find it.
func warmChanged(t *testing.T, o glovebox.Options, warm *glovebox.Box, p glovebox.Program, find func(*glovebox.Box) glovebox.Language) {
	files, err := filepath.Glob(filepath.Join(o.CacheDir, "hoarder-*", "files", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], []byte("poisoned"), 0o444); err != nil {
		t.Fatal(err)
	}
	if r := run(t, warm, p); !strings.Contains(r.Stdout, "poisoned") {
		t.Errorf("control: %q", r.Stdout)
	}
	changed := newBox(t, o)
	if r := run(t, changed, p); strings.Contains(r.Stdout, "poisoned") {
		t.Errorf("a changed cache was used: %q", r.Stdout)
	}
	if l := find(changed); !l.Cold {
		t.Errorf("%+v", l)
	}
}
