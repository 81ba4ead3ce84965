package glovebox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// children are host programs that differ from the test itself in what they
// inherit: each is this test binary again, in a process of its own.
var children = map[string]func() error{
	"mountbelow": childMountBelow,
	"inherit":    childInherit,
	"groups":     childGroups,
	"usergroups": childUserGroups,
	"maskedproc": childMaskedProc,
	"setuid":     childSetuid,
}

// childVar names the one to be.
const childVar = "GLOVEBOX_WALL_CHILD"

func init() {
	name := os.Getenv(childVar)
	if name == "" {
		return
	}
	f := children[name]
	if f == nil {
		return
	}
	os.Unsetenv(childVar)
	if err := f(); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// asChild runs one of the children and returns what it printed.
func asChild(t *testing.T, name string, attr *syscall.SysProcAttr, env ...string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.SysProcAttr = attr
	cmd.Env = append(os.Environ(), childVar+"="+name, "GLOVEBOX_TEST_INIT="+testenv.Init())
	cmd.Env = append(cmd.Env, env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out, &stderr)
	}
	return string(out)
}

// childRun makes a Box, does something between, runs a program and closes.
func childRun(o glovebox.Options, p glovebox.Program, between func() error) (*glovebox.Result, error) {
	b, err := glovebox.New(o)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if between != nil {
		if err := between(); err != nil {
			return nil, err
		}
	}
	r, err := b.Run(context.Background(), p)
	if err != nil {
		return nil, err
	}
	if r.Verdict == "setup_failed" {
		return nil, errors.New(r.Message)
	}
	return r, nil
}

// ownMounts gives a child a mount namespace in which it may mount: as an
// ordinary user inside a user namespace with his own ids.
func ownMounts() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if !asRoot {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return attr
}
