//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The values of Host.Version.
const (
	V1     = "v1"     // every controller on a v1 hierarchy
	V2     = "v2"     // the unified hierarchy
	Hybrid = "hybrid" // the controllers on v1, with a v2 tree that does not have them
)

// required must be there for Find to succeed; optional are reported by Missing.
var (
	required   = []string{"memory", "pids"}
	optionalV1 = []string{"cpu", "cpuacct"}
	optionalV2 = []string{"cpu"}
)

// baseName is the directory that holds everything this package makes; hostLeaf is
// where a v2 host moves itself to when its own group must hold children.
const (
	baseName = "glovebox"
	hostLeaf = "glovebox-host"
)

// UnavailableError says why no group can be made and what the narrowest cure is.
type UnavailableError struct {
	Controller string // the controller, or the file system, that is missing; "cgroup" for all
	Reason     string // what was found
	Remedy     string // the smallest change that mends it; never empty
	Err        error  // the cause, may be nil

	base string // on v1, the directory that would mend it
}

// Error gives all of it on one line.
func (e *UnavailableError) Error() string {
	s := "cgroup: " + e.Controller + ": " + e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + " (remedy: " + e.Remedy + ")"
}

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// hierarchy is one mounted tree together with the group in it that will hold ours.
type hierarchy struct {
	unified     bool
	controllers []string // those we use, all of them mounted here
	key         string   // second field of the line in /proc/<pid>/cgroup
	dir         string   // the ancestor in the file system
	path        string   // the ancestor as /proc/<pid>/cgroup names it
	selfDir     string   // own group in the file system
	moveSelf    bool     // v2: this process must leave the ancestor first
}

// has tells whether the controller is one of those used on this tree.
func (h *hierarchy) has(controller string) bool { return slices.Contains(h.controllers, controller) }

// base is the directory named "glovebox".
func (h *hierarchy) base() string { return filepath.Join(h.dir, baseName) }

// Host is what this process can use. It is immutable and safe for concurrent use.
// It describes the moment of Find: a delegation that is taken back later shows as
// an error of Open or NewGroup.
type Host struct {
	sys     *system
	version string
	trees   []*hierarchy
	missing []string
}

// Find discovers what this process can use. It only reads: no directory is made, no
// process is moved. The error is an *UnavailableError, or one of reading /proc.
func Find() (*Host, error) { return find(liveSystem()) }

// Version is V2, V1 or Hybrid.
func (h *Host) Version() string { return h.version }

// Missing names the optional controllers that are not there: "cpu" (no limit on the
// rate; SetLimits refuses a CPUPercent) and, on v1, "cpuacct" (no CPU time).
func (h *Host) Missing() []string { return slices.Clone(h.missing) }

// Describe says in one line what is used and where.
func (h *Host) Describe() string {
	var parts []string
	for _, t := range h.trees {
		parts = append(parts, fmt.Sprintf("%s in %s", strings.Join(t.controllers, "+"), t.base()))
	}
	s := "cgroup " + h.version + ": " + strings.Join(parts, ", ")
	if len(h.missing) > 0 {
		s += "; without " + strings.Join(h.missing, ", ")
	}
	return s
}

// tree gives the hierarchy that carries the controller, or nil.
func (h *Host) tree(controller string) *hierarchy {
	for _, t := range h.trees {
		if t.has(controller) {
			return t
		}
	}
	return nil
}

// unified tells whether the cells live on the v2 tree.
func (h *Host) unified() bool { return h.version == V2 }

// SwapExtra reports whether a cell could use swap beyond its memory limit: the host
// has swap and the kernel offers no limit for it (v1 without memsw accounting, v2
// without memory.swap.max). The text says what was found, in either case. It reads
// afresh at each call, since swap can be added while the host runs.
func (h *Host) SwapExtra() (bool, string) {
	swap, err := hasSwap(h.sys)
	if err != nil {
		return true, "cannot tell whether the host has swap: " + err.Error()
	}
	if !swap {
		return false, "the host has no swap"
	}
	if h.swapLimited() {
		return false, "swap is limited with memory"
	}
	if h.unified() {
		return true, "the host has swap and the kernel does not limit it per group (boot with swapaccount=1)"
	}
	return true, "the host has swap and cgroup v1 does not count it (boot with swapaccount=1, or turn swap off)"
}

// swapLimited looks for the file that limits swap. The root group of v2 has none, so
// every group at hand that has a memory limit is asked; where there is none yet, the
// command line of the kernel decides.
func (h *Host) swapLimited() bool {
	t := h.tree("memory")
	if !t.unified {
		return h.sys.exists(filepath.Join(t.dir, "memory.memsw.limit_in_bytes"))
	}
	dirs := []string{t.selfDir, t.dir}
	children, _ := os.ReadDir(t.dir)
	for i, c := range children {
		if i >= maxListing {
			break
		}
		if c.IsDir() {
			dirs = append(dirs, filepath.Join(t.dir, c.Name()))
		}
	}
	for _, d := range dirs {
		if h.sys.exists(filepath.Join(d, "memory.max")) {
			return h.sys.exists(filepath.Join(d, "memory.swap.max"))
		}
	}
	line, err := h.sys.readProc("cmdline")
	return err == nil && !slices.Contains(strings.Fields(line), "swapaccount=0")
}

// KernelMemoryUncounted reports whether memory that the kernel holds for a cell
// (pipes, sockets, dentries, page tables) escapes its limit, and why. It judges by
// the kernel's command line and by the files of v1; it does not measure.
func (h *Host) KernelMemoryUncounted() (bool, string) {
	line, err := h.sys.readProc("cmdline")
	if err != nil {
		return true, "cannot read the kernel's command line: " + err.Error()
	}
	for _, word := range strings.Fields(line) {
		list, ok := strings.CutPrefix(word, "cgroup.memory=")
		if !ok {
			continue
		}
		for _, opt := range strings.Split(list, ",") {
			if opt == "nokmem" || opt == "nosocket" {
				return true, "the kernel was started with cgroup.memory=" + opt
			}
		}
	}
	t := h.tree("memory")
	if !t.unified && !h.sys.exists(filepath.Join(t.dir, "memory.kmem.usage_in_bytes")) {
		return true, "this kernel counts no kernel memory on cgroup v1"
	}
	return false, "kernel memory is counted"
}
