//go:build linux

package cells

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/matrix"
)

// Bounds of a machine and of the programs in it, for a busy host.
const (
	bootTime   = 4 * time.Minute
	askTime    = 4 * time.Minute
	attackTime = 10 * time.Minute
	testTime   = 10 * time.Minute
)

// What a user with delegated groups has.
const (
	userID    = 1000
	userGroup = "user.slice/u1000/app"
	userOwns  = "user.slice/u1000"
)

// packages are those of each userland, besides the base.
var packages = []string{"findutils", "grep", "python3"}

// kind is what a program in a machine is there for.
type kind string

const (
	askStatus  kind = "status"
	askRequire kind = "require"
	askAuto    kind = "auto"
	askRedteam kind = "redteam" // must refuse where something is missing
	fire       kind = "attacks" // a report on stdout
	fireLine   kind = "degraded"
	runTests   kind = "tests"
)

// step is a program that runs in a machine.
type step struct {
	kind kind
	user bool // the other identity's of a variant with UserLacks
	what string
	matrix.Command
}

// steps are the programs that run in a cell, one after another.
func (c Cell) steps() []step {
	v, _ := find(c.Variant)
	lacks := c.lacks()
	out := c.ask(v, v.User, false)
	switch {
	case len(lacks) == 0:
		s := c.command(v, v.User, fire, attackTime, "/opt/glovebox", "redteam", "--json", "--only", commas(c.Attacks))
		out = append(out, s)
	default:
		s := c.command(v, v.User, fireLine, attackTime, "/opt/redteam.test", "-test.v", "-test.run=^TestOnVMDegraded$")
		s.Env = append(s.Env, "GLOVEBOX_TEST_ATTACKS="+commas(c.Attacks))
		out = append(out, s)
	}
	for _, w := range strings.Fields(c.Tests) {
		for _, t := range tests[w] {
			out = append(out, c.test(v, t))
		}
	}
	if len(v.UserLacks) > 0 {
		out = append(out, c.ask(v, true, true)...)
	}
	return out
}

// commas are the words of a pattern of redteam.
func commas(words string) string { return strings.Join(strings.Fields(words), ",") }

// ask are the programs that say what Glovebox makes of the machine.
func (c Cell) ask(v Variant, user, other bool) []step {
	out := []step{
		c.command(v, user, askStatus, askTime, "/opt/glovebox", "status", "--json"),
		c.command(v, user, askRequire, askTime, "/opt/glovebox", "run", "--json", "--sandbox", "require", "--", "/bin/true"),
		c.command(v, user, askAuto, askTime, "/opt/glovebox", "run", "--json", "--sandbox", "auto", "--", "/bin/true"),
	}
	if len(c.lacks()) > 0 || other {
		out = append(out, c.command(v, user, askRedteam, askTime, "/opt/glovebox", "redteam", "--json"))
	}
	for i := range out {
		out[i].user = other
	}
	return out
}

// command is a program as root or as the ordinary user of the machine.
func (c Cell) command(v Variant, user bool, k kind, limit time.Duration, name string, args ...string) step {
	s := step{kind: k, what: strings.Join(append([]string{path.Base(name)}, args...), " ")}
	s.Command = matrix.Command{Path: name, Args: args, Dir: "/tmp", Timeout: limit, NoSeccomp: v.NoSeccomp,
		Env: []string{"GLOVEBOX_TEST_INIT=/opt/glovebox-init", "GLOVEBOX_TEST_SWEEP=/opt/sweep"}}
	if user {
		s.UID = userID
		s.Cgroup = userGroup
		if v.Delegated {
			s.Delegate = userOwns
		}
	}
	return s
}

// test runs a test program, as root unless the variant or the test wants
// otherwise.
func (c Cell) test(v Variant, t test) step {
	args := []string{"-test.v", "-test.run=" + t.run}
	if t.skip != "" {
		args = append(args, "-test.skip="+t.skip+"|"+otherGroups(v))
	}
	name := "/opt/" + t.program + ".test"
	if !t.user {
		return c.command(v, v.User, runTests, testTime, name, args...)
	}
	s := c.command(v, false, runTests, testTime, "/opt/asuser", append([]string{"-copy", "-env", "GLOVEBOX_TEST_INIT=/opt/glovebox-init", name}, args...)...)
	if t.hidden {
		s.Args = append([]string{"-c", `mount -o remount,hidepid=2 /proc && exec "$0" "$@"`, s.Path}, s.Args...)
		s.Path = "/bin/sh"
	}
	return s
}

// otherGroups is the part of names of tests for the version of control groups
// that the machine does not have.
func otherGroups(v Variant) string {
	if v.Cgroup == "v2" {
		return "OnV1"
	}
	return "OnV2"
}

// machine is the cell's machine with its programs.
func (c Cell) machine(ctx context.Context, p programs, steps []step) (matrix.VM, error) {
	v, _ := find(c.Variant)
	vm := matrix.VM{Cgroup: v.Cgroup, Cmdline: v.Cmdline, Sysctls: v.Sysctls, ProcOptions: v.Proc, Swap: v.Swap, MemoryMB: v.MemoryMB, Boot: bootTime}
	var err error
	if vm.Kernel, err = matrix.Fetch(ctx, c.Kernel, c.Arch); err != nil {
		return vm, err
	}
	dir, err := matrix.FetchUserland(ctx, c.Userland, c.Arch, packages...)
	if err != nil {
		return vm, err
	}
	vm.Files = matrix.NewTree()
	if err := vm.Files.AddTree(dir, "/"); err != nil {
		return vm, err
	}
	for name, file := range p {
		if !needed(name, steps) {
			continue
		}
		if err := vm.Files.AddFile("/opt/"+name, file); err != nil {
			return vm, fmt.Errorf("%s: %w", name, err)
		}
	}
	return vm, nil
}

// needed tells whether a machine runs a program: test programs are large, and
// its files are in its memory.
func needed(name string, steps []step) bool {
	if !strings.HasSuffix(name, ".test") {
		return true
	}
	for _, s := range steps {
		for _, a := range append([]string{s.Path}, s.Args...) {
			if a == "/opt/"+name {
				return true
			}
		}
	}
	return false
}
