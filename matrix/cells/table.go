//go:build linux

package cells

import (
	"fmt"
	"slices"
	"strings"
)

// Cell is one machine of the matrix.
type Cell struct {
	Kernel   string // of matrix.Names
	Arch     string // of matrix.Architectures
	Userland string // Debian's release
	Variant  string // of Variants
	CI       bool   // among those that .ci/run takes
	Tests    string // words of tests
	Attacks  string // words of attacks
}

// Name is KERNEL-ARCH-USERLAND-VARIANT.
func (c Cell) Name() string {
	return strings.Join([]string{c.Kernel, c.Arch, c.Userland, c.Variant}, "-")
}

// The table. Each machine gets a part of the tests and of the attacks, as
// processors are emulated here; all machines of an architecture together get
// the whole battery.
var table = []Cell{
	{"6.12", "amd64", "trixie", "full", ci, "newhost memfd sweep seccomp", "filesystem"},
	{"6.12", "amd64", "bookworm", "full", no, "kernel groups", "network shared"},
	{"6.12", "amd64", "bullseye", "full", no, "kernel", "process ipc"},
	{"6.1", "amd64", "bookworm", "full", no, "kernel sweep seccomp", "memory identity"},
	{"6.1", "amd64", "trixie", "full", no, "kernel", "kernel terminal"},
	{"5.10", "amd64", "bullseye", "full", ci, "peak seccomp", "filesystem"},
	{"6.12", "amd64", "trixie", "no-landlock", no, "nolandlock", "network process"},
	{"6.1", "amd64", "bookworm", "no-landlock", ci, "nolandlock", "identity"},
	{"6.12", "amd64", "trixie", "no-userns", no, "limits", "artifacts compile"},
	{"6.1", "amd64", "bookworm", "no-userns", no, "limits", "init classics"},
	{"6.12", "amd64", "trixie", "no-seccomp", no, "noseccomp", "filesystem"},
	{"6.1", "amd64", "bookworm", "no-seccomp", ci, "noseccomp", "network"},
	{"5.10", "amd64", "bullseye", "no-seccomp", no, "noseccomp", "network"},
	{"6.12", "amd64", "trixie", "hidepid", no, "hidepid", "process"},
	{"6.1", "amd64", "bookworm", "hidepid", no, "hidepid", "identity"},
	{"5.10", "amd64", "bullseye", "hidepid", no, "hidepid", "ipc"},
	{"6.1", "amd64", "bookworm", "cgroup-v1", no, "kernel groups", "exhaustion"},
	{"5.10", "amd64", "bullseye", "cgroup-v1", no, "kernel groups", "exhaustion"},
	{"6.1", "amd64", "bookworm", "hybrid", ci, "kernel groups", "terminal"},
	{"6.12", "amd64", "trixie", "delegated", no, "kernel", "exhaustion"},
	{"6.1", "amd64", "bookworm", "delegated", no, "kernel", "filesystem"},
	{"6.12", "amd64", "trixie", "user", no, "tasks", "network"},
	{"5.10", "amd64", "bullseye", "user", no, "tasks", "kernel"},
	{"6.1", "amd64", "bookworm", "no-cgroup", no, "tasks", "memory"},
	{"6.1", "amd64", "bookworm", "small-swap", ci, "host swap sweep groups", "exhaustion"},
	{"5.10", "amd64", "bullseye", "v1-swap", ci, "host swap sweep groups", "exhaustion"},
	{"5.10", "amd64", "bullseye", "v1-uncounted-swap", ci, "uncounted", "ipc"},

	{"6.12", "arm64", "trixie", "full", no, "kernel sweep seccomp", "network memory"},
	{"6.1", "arm64", "bookworm", "full", ci, "kernel sweep seccomp groups", "kernel"},
	{"5.10", "arm64", "bullseye", "full", no, "kernel seccomp", "filesystem"},
	{"6.12", "arm64", "bullseye", "full", no, "limits", "filesystem"},
	{"6.1", "arm64", "trixie", "no-landlock", no, "nolandlock", "process"},
	{"6.1", "arm64", "bookworm", "no-userns", no, "limits", "artifacts init compile"},
	{"6.1", "arm64", "bookworm", "no-seccomp", no, "noseccomp", "network"},
	{"6.12", "arm64", "trixie", "hidepid", no, "hidepid", "identity shared"},
	{"5.10", "arm64", "bullseye", "cgroup-v1", no, "groups limits", "exhaustion"},
	{"6.1", "arm64", "bookworm", "hybrid", no, "limits groups", "classics"},
	{"6.12", "arm64", "trixie", "delegated", no, "limits", "process ipc terminal"},
	{"6.12", "arm64", "trixie", "user", no, "tasks", "network"},
	{"6.1", "arm64", "bookworm", "small-swap", no, "limits swap", "exhaustion"},
}

const (
	ci = true
	no = false
)

// test is a test program and which of its tests to run.
type test struct {
	program string // of the names in programs
	run     string // as for -test.run
	skip    string // as for -test.skip; empty leaves it to the program
	user    bool   // as an ordinary user who is lent control groups
	hidden  bool   // from whom /proc then hides the processes of others
}

// tests are the words for them in the table.
var tests = map[string][]test{
	"kernel":     {{program: "root", run: "TestKernel"}},
	"limits":     {{program: "root", run: "TestKernelLimits|TestKernelMissingLayer"}},
	"tasks":      {{program: "root", run: "TestKernelTasksWithoutGroup"}},
	"sweep":      {{program: "root", run: "TestWallSweep"}},
	"host":       {{program: "root", run: "TestKernel|TestOnVMAny"}, {program: "root", run: "TestKernel", user: true}, {program: "root", run: "TestOnVMHidepid", user: true, hidden: true}},
	"newhost":    {{program: "root", run: "TestKernel|TestOnVMAny[^K]"}},
	"peak":       {{program: "root", run: "TestOnVMAnyPeak|TestOnVMAnyMemory"}},
	"memfd":      {{program: "root", run: "TestOnVMMemfd"}},
	"swap":       {{program: "root", run: "TestOnVMSwap$"}},
	"uncounted":  {{program: "root", run: "TestOnVMSwapUncounted"}},
	"nolandlock": {{program: "root", run: "TestKernelMissingLayer|TestKernelProc|TestOnVMLandlockOff"}},
	"noseccomp":  {{program: "root", run: "TestOnVMSeccompOff"}},
	"hidepid":    {{program: "root", run: "TestKernelLimits|TestKernelProc|TestOnVMHidepid"}},
	"seccomp":    {{program: "seccomp", run: "TestKernel|TestInterpreterIsTheKernel"}, {program: "landlock", run: "."}},
	"groups":     {{program: "asuser", run: "."}, {program: "cgroup", run: ".", skip: "AsUser"}, {program: "cgroup", run: ".", skip: "AsRoot", user: true}},
}

// Table is the matrix.
func Table() []Cell { return slices.Clone(table) }

// check wants every name of a cell to be known.
func (c Cell) check() error {
	if _, ok := find(c.Variant); !ok {
		return fmt.Errorf("%s: there is no variant %q", c.Name(), c.Variant)
	}
	for _, w := range strings.Fields(c.Tests) {
		if tests[w] == nil {
			return fmt.Errorf("%s: there are no tests %q", c.Name(), w)
		}
	}
	if c.Tests == "" || c.Attacks == "" {
		return fmt.Errorf("%s: there are no tests or no attacks", c.Name())
	}
	return nil
}

// lacks are the layers that do not hold in a cell.
func (c Cell) lacks() []string {
	v, _ := find(c.Variant)
	out := slices.Clone(v.Lacks)
	if c.Kernel == "5.10" && !slices.Contains(out, "landlock") {
		out = append(out, "landlock")
	}
	slices.Sort(out)
	return out
}
