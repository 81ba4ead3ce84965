package glovebox_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// The status has one line for each protection, in a fixed order, and survives
// JSON; what it calls complete is what New accepts under require; and nothing
// of the cell that it was measured on is left.
//
// proves P-01 P-02 P-03
func TestStatus(t *testing.T) {
	before := launchers(t)
	s := glovebox.CheckHost(options())
	if after := launchers(t); after != before {
		t.Errorf("%d launchers before, %d after", before, after)
	}
	var names []string
	for _, l := range s.Layers {
		names = append(names, l.Name)
		if l.Detail == "" {
			t.Errorf("%s says nothing", l.Name)
		}
	}
	want := []string{"namespaces", "root", "proc", "landlock", "seccomp", "cgroup", "rlimits", "privileges", "self_test",
		"time", "speculation", "resource_probes", "termination"}
	if !slices.Equal(names, want) {
		t.Errorf("layers %v", names)
	}
	b, err := glovebox.New(options())
	if (err == nil) != s.Complete {
		t.Errorf("complete is %v, and New says %v", s.Complete, err)
	}
	if err == nil {
		b.Close()
	}
	var back glovebox.Status
	if text, err := json.Marshal(s); err != nil || json.Unmarshal(text, &back) != nil || len(back.Layers) != len(s.Layers) {
		t.Errorf("JSON: %v", err)
	}
	for _, l := range s.Layers {
		if l.Name == "termination" && !strings.Contains(l.Detail, "a cell was killed in") {
			t.Errorf("no cell was killed: %s", l.Detail)
		}
		if l.Name == "resource_probes" && l.Detail != "the kernel counts cpu, memory, peak, tasks, oom kills, refused forks" {
			t.Errorf("counters: %s", l.Detail)
		}
	}
}

// With one layer left out neither is complete: the status names the layer, and
// a Box under require would be refused.
//
// proves part of P-03 T-04
func TestStatusWithoutALayer(t *testing.T) {
	for _, layer := range []string{"landlock", "seccomp", "cgroup", "rlimits", "privileges"} {
		s := glovebox.CheckHost(glovebox.SandboxOffUnsafeForNegativeControlsOnly(options(), layer))
		i := slices.IndexFunc(s.Layers, func(l glovebox.Layer) bool { return l.Name == layer })
		if s.Complete || i < 0 || s.Layers[i].Applied {
			t.Errorf("without %s: complete %v, layers %+v", layer, s.Complete, s.Layers)
		}
	}
}

// launchers counts the launchers that are children of this process.
func launchers(t *testing.T) int {
	t.Helper()
	n := 0
	dirs, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		b, err := os.ReadFile(d)
		if err == nil {
			n += len(strings.Fields(string(b)))
		}
	}
	return n
}

// A host program that was started without address randomisation does not hand
// that down: the guest's personality is the plain one. The control is the same
// question outside. (READ_IMPLIES_EXEC, the dangerous one, the kernel itself
// takes away at the exec of a 64-bit program.)
//
// proves part of O-05
func TestPersonalityIsCleared(t *testing.T) {
	const ask = "import ctypes; print(ctypes.CDLL(None).personality(ctypes.c_ulong(0xffffffff)))"
	outside, err := exec.Command("setarch", "-R", "/usr/bin/python3", "-c", ask).Output()
	if err != nil || string(outside) == "0\n" {
		t.Fatalf("control: %q %v", outside, err)
	}
	bin := filepath.Join(filepath.Dir(testenv.Init()), "glovebox")
	cmd := exec.Command("setarch", "-R", bin, "run", "-l", "python", "-e", ask)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "0\n" {
		t.Errorf("the guest has personality %q, %v", out, err)
	}
}
