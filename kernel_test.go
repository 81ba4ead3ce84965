package glovebox_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// These tests need nothing but python3 and are what is run on other kernels
// too, from 5.10 to 6.12 on cgroup v1 and v2: every limit, and what becomes of
// a host that lacks a layer.

// kernelBox is a Box of the strongest mode that this kernel allows: require
// with Landlock, auto without.
func kernelBox(t *testing.T) *glovebox.Box {
	t.Helper()
	o := options()
	if !kernelHasLandlock() {
		o.Sandbox = glovebox.Auto
	}
	b, err := glovebox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func kernelHasLandlock() bool {
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1)
	return errno == 0
}

// kernelPrograms are one program for each limit and how it must end.
var kernelPrograms = []struct {
	name, source   string
	limits         glovebox.Limits
	verdict, cause string
	stdout         string
	oom, pids      bool
}{
	{"hello", "print('hello')", glovebox.Limits{}, "ok", "", "hello\n", false, false},
	{"heap", "b = []\nwhile True: b.append(bytearray(1 << 20))", glovebox.Limits{MemoryBytes: 48 << 20}, "memory_limit", "", "", true, false},
	{"child", "import os\npid = os.fork()\nif pid == 0:\n  b = []\n  while True: b.append(bytearray(1 << 20))\nos.waitpid(pid, 0)",
		glovebox.Limits{MemoryBytes: 48 << 20}, "memory_limit", "", "", true, false},
	{"shm", "f = open('/dev/shm/x', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()",
		glovebox.Limits{MemoryBytes: 48 << 20, FileBytes: 200 << 20}, "memory_limit", "", "", true, false},
	{"disk", "import errno\nn = 0\ntry:\n  f = open('/tmp/x', 'wb', 0)\n  while True: n += f.write(bytes(1 << 16))\nexcept OSError as e: print(errno.errorcode[e.errno], n <= 4 << 20)",
		glovebox.Limits{DiskBytes: 4 << 20}, "ok", "", "ENOSPC True\n", false, false},
	{"forks", "import os, signal\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: signal.pause()\n    n += 1\nexcept OSError as e: print(n, e.strerror)",
		glovebox.Limits{Pids: 10}, "ok", "", "9 Resource temporarily unavailable\n", false, true},
	{"wall", "import time\ntime.sleep(60)", glovebox.Limits{WallMS: 1500}, "timeout", "wall", "", false, false},
	{"cpu", "while True: pass", glovebox.Limits{CPUMS: 1000, WallMS: 60_000}, "timeout", "cpu", "", false, false},
	{"output", "while True: print('x' * 1000)", glovebox.Limits{StdoutBytes: 5000}, "output_limit", "stdout", strings.Repeat(strings.Repeat("x", 1000)+"\n", 5)[:5000], false, false},
	{"usr", "import errno\ntry: open('/usr/x', 'w')\nexcept OSError as e: print(errno.errorcode[e.errno] in ('EROFS', 'EACCES'))", glovebox.Limits{}, "ok", "", "True\n", false, false},
	{"network", "import socket\ntry: socket.socket()\nexcept OSError as e: print(e.errno)", glovebox.Limits{}, "ok", "", "97\n", false, false},
	{"kill", "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nprint('on')", glovebox.Limits{}, "denied", "", "", false, false},
}

// Every limit holds on this kernel, by its own counters.
//
// proves X-02 X-06
func TestKernelLimits(t *testing.T) {
	b := kernelBox(t)
	for _, k := range kernelPrograms {
		t.Run(k.name, func(t *testing.T) {
			p := python(k.source)
			p.Limits = k.limits
			if p.Limits.WallMS == 0 {
				p.Limits.WallMS, p.Limits.CPUMS = 60_000, 60_000 // an emulated processor is slow
			}
			r := run(t, b, p)
			if string(r.Verdict) != k.verdict || r.Cause != k.cause || r.Stdout != k.stdout {
				t.Errorf("verdict %s, cause %q, stdout %.80q, stderr %.200q", r.Verdict, r.Cause, r.Stdout, r.Stderr)
			}
			if r.OOMKills == nil || (*r.OOMKills > 0) != k.oom {
				t.Errorf("oom kills: %v", r.OOMKills)
			}
			if r.PidsMaxHits == nil || (*r.PidsMaxHits > 0) != k.pids {
				t.Errorf("refused forks: %v", r.PidsMaxHits)
			}
			if k.verdict == "denied" && r.Syscall != "ptrace" {
				t.Errorf("syscall %q", r.Syscall)
			}
		})
	}
}

// A kernel without a layer is refused under require, by the layer's name and
// with what mends it, and runs under auto, which says so in every result.
//
// proves T-03 O-11 O-14
func TestKernelMissingLayer(t *testing.T) {
	o := options()
	b, err := glovebox.New(o)
	if kernelHasLandlock() {
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if s := b.Status(); !s.Complete {
			t.Errorf("a Box under require is not complete: %+v", s.Warnings)
		}
		return
	}
	var unavailable *glovebox.SandboxError
	if !errors.As(err, &unavailable) || !errors.Is(err, glovebox.ErrSandboxUnavailable) {
		t.Fatalf("require on a kernel without Landlock: %v", err)
	}
	if !strings.Contains(err.Error(), "landlock does not hold") || !strings.Contains(err.Error(), "CONFIG_SECURITY_LANDLOCK") {
		t.Errorf("the error names neither layer nor remedy: %v", err)
	}
	if s := glovebox.CheckHost(options()); s.Complete || len(s.Warnings) == 0 {
		t.Errorf("status: %+v", s)
	}
	r := run(t, kernelBox(t), python("print(1)"))
	for _, l := range r.Evidence.Layers {
		if l.Name == "landlock" && (l.Applied || l.Detail == "") {
			t.Errorf("evidence: %+v", l)
		}
	}
}

// What a cell can learn of the machine's /proc does not depend on the kernel:
// the entries that are not the cell's own are empty.
//
// proves H-36
func TestKernelProc(t *testing.T) {
	r := run(t, kernelBox(t), python(`
import os
for name in sorted(os.listdir('/proc')):
    path = '/proc/' + name
    if name.isdigit() or os.path.islink(path) or name == 'net': continue
    if os.path.isdir(path):
        if name != 'sys' and os.listdir(path): print('dir', name)
    else:
        try: data = open(path, 'rb').read()
        except OSError as e: data = b''
        if data and name not in ('meminfo','cpuinfo','stat','uptime','loadavg','version','cmdline','filesystems','swaps'): print('file', name)
print('done')
`))
	if r.Stdout != "done\n" {
		t.Errorf("entries with content:\n%s%s", r.Stdout, r.Stderr)
	}
	if host, err := os.Hostname(); err == nil && len(host) > 3 && strings.Contains(r.Stdout, host) {
		t.Error("the host's name")
	}
}
