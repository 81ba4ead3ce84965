package cell

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
)

// The table of losses has each layer of the status once, in its order, and says
// of each what require insists on.
//
// proves part of T-03 O-11
func TestLossesAreTheLayers(t *testing.T) {
	var names, insisted []string
	for _, l := range Losses() {
		names = append(names, l.Layer)
		if l.Insisted {
			insisted = append(insisted, l.Layer)
		}
		if l.Missing == "" || l.Runs != (l.Gone != "") || l.Runs != (l.Bound != "") || !l.Insisted && !l.Runs {
			t.Errorf("%s: the row is not whole", l.Layer)
		}
	}
	if !slices.Equal(insisted, requiredLayers) {
		t.Errorf("require insists on %v, the table says %v", requiredLayers, insisted)
	}
	h, err := Open(refuseConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var shown []string
	for _, l := range h.Status().Layers {
		shown = append(shown, l.Name)
	}
	slices.Sort(shown)
	slices.Sort(names)
	if !slices.Equal(shown, names) {
		t.Errorf("the status has %v, the table %v", shown, names)
	}
}

// lacking are hosts without a layer, as far as one can be made of this host.
var lacking = map[string]func(*Config){
	"namespaces":      func(c *Config) { c.insideOff = []string{"pid"} },
	"root":            func(c *Config) { c.insideOff = []string{"root"} },
	"proc":            func(c *Config) { c.insideOff = []string{"procmask"} },
	"landlock":        func(c *Config) { c.ControlOff = []string{"landlock"} },
	"seccomp":         func(c *Config) { c.ControlOff = []string{"seccomp"} },
	"cgroup":          func(c *Config) { c.ControlOff = []string{"cgroup"} },
	"privileges":      func(c *Config) { c.insideOff = []string{"privileges"} },
	"self_test":       func(c *Config) { c.insideOff = []string{"dumpable"} },
	"resource_probes": func(c *Config) { c.ControlOff = []string{"cgroup"} },
	"time":            func(c *Config) { c.ControlOff = []string{"time"} },
	"speculation":     func(c *Config) { c.ControlOff = []string{"speculation"} },
}

// A host that lacks a layer is taken or refused as the table says: by require
// with the layer's name where it insists on it, by auto with its name in the
// status of what runs, or in every mode.
//
// proves part of T-03 O-11
func TestLossesAreTrue(t *testing.T) {
	for _, l := range Losses() {
		lack := lacking[l.Layer]
		if lack == nil {
			// A process that does not end cannot be made; a limit that cannot be raised
			// is that of a process of its own, below.
			if l.Layer != "termination" && l.Layer != "rlimits" {
				t.Errorf("%s: there is no host without it", l.Layer)
			}
			continue
		}
		for _, mode := range []Mode{Require, Auto} {
			cfg := refuseConfig()
			cfg.Mode = mode
			lack(&cfg)
			h, err := Open(cfg)
			runs := l.Runs && (mode == Auto || !l.Insisted)
			switch {
			case err == nil && !runs:
				t.Errorf("%s without %s opens", mode, l.Layer)
			case err != nil && (runs || !errors.Is(err, api.ErrSandboxUnavailable)):
				t.Errorf("%s without %s: %v", mode, l.Layer, err)
			case err != nil && l.Runs && l.Layer != "resource_probes" && !strings.Contains(err.Error(), l.Layer+" does not hold"):
				t.Errorf("%s without %s does not name it: %v", mode, l.Layer, err)
			case err == nil && slices.ContainsFunc(h.Status().Layers, func(s api.Layer) bool { return s.Name == l.Layer && s.Applied }):
				t.Errorf("%s without %s says that it holds", mode, l.Layer)
			}
			if err == nil {
				_ = h.Close()
			}
		}
	}
}

// Under auto a host whose core limit cannot be what it must be runs, and says so,
// unless it may raise it.
//
// proves part of T-03
func TestLossOfRlimits(t *testing.T) {
	out := withoutCores(t, Auto)
	want := `{"name":"rlimits","applied":false`
	if mayRaiseLimits(t) {
		want = `{"name":"rlimits","applied":true`
	}
	if !strings.Contains(out, want) {
		t.Errorf("%s, want %s", out, want)
	}
}
