package redteam

import (
	"fmt"
	"slices"
)

// parts are the parts of a layer that a control can leave out, by the name that
// internal/cell and internal/cellinit have for them. A part of the attestation
// is what would refuse the cell of a control; it stops no attack.
var parts = map[string]string{
	"pid": "namespaces", "net": "namespaces", "ipc": "namespaces", "uts": "namespaces", "cgroup_ns": "namespaces",
	"root": "root", "recursive": "root", "nosuid": "root",
	"procmask": "proc", "hidepid": "proc",
	"landlock":   "landlock",
	"seccomp":    "seccomp",
	"cgroup":     "cgroup",
	"sample":     "cgroup",
	"nproc":      "cgroup",
	"rlimits":    "rlimits",
	"privileges": "privileges", "groups": "privileges",
	"dumpable": "init", "signals": "init", "close_range": "init", "environ": "init",
	"time":       "time",
	"links":      "collector",
	"mountcheck": "attestation",
}

// layers are the names that a file may give: those of the status, and the parts
// of the wall that the status counts among others.
var layers = []string{"namespaces", "root", "proc", "landlock", "seccomp", "cgroup", "rlimits", "privileges", "init", "time", "collector"}

// checkLayers wants the control to leave out the layers that are said to stop
// the attack, all of them and no other.
func (a *attack) checkLayers() error {
	var without []string
	for _, o := range a.off {
		l, ok := parts[o]
		switch {
		case !ok:
			return fmt.Errorf("off: there is no %q", o)
		case l != "attestation" && !slices.Contains(without, l):
			without = append(without, l)
		}
	}
	for _, l := range a.layers {
		if !slices.Contains(layers, l) {
			return fmt.Errorf("layer: there is no %q", l)
		}
		if !slices.Contains(without, l) {
			return fmt.Errorf("layer: %s is said to stop it, and the control keeps it", l)
		}
	}
	for _, l := range without {
		if !slices.Contains(a.layers, l) {
			return fmt.Errorf("off: the control lacks %s, which is not among the layers that stop it", l)
		}
	}
	return nil
}

// reachable is what a program of the battery may get at where it gets through.
// None of it is anybody else's: an attack that reaches for something that is not
// in this list, and that would harm a host, has no place here.
var reachable = map[string]string{
	"canary":    "a file that the runner made",
	"listener":  "a socket that the runner opened",
	"segment":   "shared memory that the runner made",
	"leak":      "a descriptor that the runner left open",
	"bystander": "a program that the runner started, in another cell: it is looked at and gets signal 0",
	"init":      "the first process of its own cell, which is looked at and gets signal 0",
	"facts":     "what the host's kernel says of the host, which is read",
	"own":       "its own processes, files, memory and limits",
}

// checkReaches wants an attack to say what it gets at, and the runner to make
// what it says.
func (a *attack) checkReaches() error {
	if len(a.reaches) == 0 {
		return fmt.Errorf("reaches: is missing")
	}
	for _, r := range a.reaches {
		if reachable[r] == "" {
			return fmt.Errorf("reaches: there is no %q", r)
		}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(a.fixtures, n) })
	}
	for r, made := range map[string]bool{"canary": has("canary"), "listener": has("tcp", "unix", "abstract"), "segment": has("segment"), "bystander": a.bystander != nil} {
		if slices.Contains(a.reaches, r) != made {
			return fmt.Errorf("reaches: %q does not fit what the runner makes", r)
		}
	}
	return nil
}
