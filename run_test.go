package glovebox_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox"
)

// A command and a Python program run to their end with every layer.
func TestRun(t *testing.T) {
	r := run(t, box(t), glovebox.Program{Command: []string{"/bin/true"}})
	if r.Verdict != "ok" || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("true: %+v", r)
	}
	// The result speaks of the very layers of the status: what is missing on a host
	// is missing in each of its results.
	names := func(layers []glovebox.Layer) (out []string) {
		for _, l := range layers {
			out = append(out, l.Name)
		}
		return out
	}
	if d := cmp.Diff(names(box(t).Status().Layers), names(r.Evidence.Layers)); d != "" {
		t.Errorf("layers of the status and of a result: %s", d)
	}
	for _, l := range r.Evidence.Layers {
		if !l.Applied && l.Name != "time" && l.Name != "speculation" {
			t.Errorf("layer %s: %s", l.Name, l.Detail)
		}
	}
	r = run(t, box(t), python("import sys\nprint('hello')\nprint('oops', file=sys.stderr)\nsys.exit(3)"))
	if r.Verdict != "error" || r.Stdout != "hello\n" || r.Stderr != "oops\n" || *r.ExitCode != 3 {
		t.Errorf("python: %+v", r)
	}
	r = run(t, box(t), cProgram(t, `int main(){puts("c");abort();}`))
	if r.Verdict != "error" || r.Signal != "SIGABRT" || r.ExitCode != nil {
		t.Errorf("c: %+v", r)
	}
}
