package glovebox_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// eaters fill one kind of memory, of which there is more than the limit.
var eaters = []struct {
	name, source string
	limit        int64
}{
	{"heap", "b = []\nwhile True: b.append(bytearray(1 << 20))", 48 << 20},
	{"tmpfs", "f = open('/dev/shm/x', 'wb', 0)\nwhile True: f.write(bytes(1 << 20))", 48 << 20},
	{"memfd", "f = open(os.memfd_create('x'), 'wb', 0)\nwhile True: f.write(bytes(1 << 20))", 48 << 20},
	{"pipes", `
p = []
while True:
    try: r, w = os.pipe()
    except OSError: break
    p.append((r, w))
    try: fcntl.fcntl(w, 1031, 1 << 20)
    except OSError: pass
    os.set_blocking(w, False)
    try:
        while True: os.write(w, bytes(1 << 16))
    except OSError: pass
print(len(p))`, 32 << 20}, // a user has 64 MiB of pipes at most, not all of it full
	{"sockets", `
p = []
while True:
    try: a, b = socket.socketpair()
    except OSError: break
    p.append((a, b))
    for s in a, b:
        s.setblocking(False)
        try:
            while True: s.send(bytes(1 << 15))
        except OSError: pass
print(len(p))`, 48 << 20},
	{"page tables", `
m = mmap.mmap(-1, 1 << 37, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ)
n = 0
for at in range(0, 1 << 37, 1 << 21): n += m[at]
print(n)`, 48 << 20},
}

// lowWater reads MemAvailable until stop is closed, and gives its lowest.
func lowWater(t *testing.T, stop <-chan struct{}) int64 {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for low := memAvailable(t); ; low = min(low, memAvailable(t)) {
		select {
		case <-stop:
			return low
		case <-tick.C:
		}
	}
}

func memAvailable(t *testing.T) int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Error(err)
	}
	return int64(numberAfter(t, string(text), "MemAvailable:")) << 10
}

// Whatever kind of memory a guest fills, the machine loses no more than the
// limit and 16 MiB, and the kernel counts the kill.
//
// proves part of H-43
func TestOnVMAnyMemoryKinds(t *testing.T) {
	inMachine(t)
	const slack = 16 << 20
	b := kernelBox(t)
	run(t, b, python("import fcntl, mmap, os, socket")) // what is read once stays in the page cache
	for _, e := range eaters {
		p := python("import fcntl, mmap, os, socket\n" + e.source)
		p.Limits = glovebox.Limits{MemoryBytes: e.limit, DiskBytes: 1 << 30, FileBytes: 1 << 30, OpenFiles: 1024, WallMS: 60_000, CPUMS: 60_000}
		r, lost := losing(t, b, p)
		t.Logf("%s: %s, the machine lost %d KiB, peak %s", e.name, ended(r), lost>>10, number(r.PeakBytes))
		if lost > e.limit+slack {
			t.Errorf("%s: the machine lost %d KiB", e.name, lost>>10)
		}
		if wantEnd(t, e.name, r, "memory_limit"); !atLeast(r.OOMKills, 1) {
			t.Errorf("%s: oom kills %s", e.name, number(r.OOMKills))
		}
	}
	p := python("import time\nb = b'x' * (100 << 20)\ntime.sleep(0.5)")
	p.Limits = glovebox.Limits{MemoryBytes: 48 << 20}
	if _, lost := losing(t, without(t, "cgroup", "sample"), p); lost < 48<<20+slack {
		t.Errorf("control: the machine lost %d KiB", lost>>10)
	}
}

// losing runs a program and says how much less memory was available meanwhile.
func losing(t *testing.T, b *glovebox.Box, p glovebox.Program) (*glovebox.Result, int64) {
	t.Helper()
	before := memAvailable(t)
	stop, low := make(chan struct{}), make(chan int64)
	go func() { low <- lowWater(t, stop) }()
	r := run(t, b, p)
	close(stop)
	return r, before - <-low
}

// The highest use of memory is a number where the kernel keeps one, and never 0:
// a kernel that keeps none is said to.
//
// proves part of X-02
func TestOnVMAnyPeak(t *testing.T) {
	r := run(t, kernelBox(t), python("b = bytearray(20 << 20)"))
	warned := strings.Contains(strings.Join(r.Warnings, "\n"), "peak_bytes: this kernel cannot tell")
	if keepsPeak(t) {
		if !atLeast(r.PeakBytes, 20<<20) || warned {
			t.Errorf("peak %s, warnings %q", number(r.PeakBytes), r.Warnings)
		}
	} else if r.PeakBytes != nil || !warned {
		t.Errorf("peak %s on a kernel that keeps none, warnings %q", number(r.PeakBytes), r.Warnings)
	}
}

// keepsPeak tells what this machine's kernel has: v1 always had it, v2 since
// 5.19. Any group but the root shows it.
func keepsPeak(t *testing.T) bool {
	t.Helper()
	inMachine(t)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		return true
	}
	const dir = "/sys/fs/cgroup/peak-test"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer unix.Rmdir(dir)
	_, err := os.Stat(dir + "/memory.peak")
	return err == nil
}

// On a machine with swap a cell over its limit is ended and nothing of it is
// swapped out.
//
// proves X-06
// proves part of H-43
func TestOnVMSwap(t *testing.T) {
	if !hasSwap(t) {
		t.Fatal("this machine has no swap")
	}
	swappedOut := func() int {
		text, err := os.ReadFile("/proc/vmstat")
		if err != nil {
			t.Fatal(err)
		}
		return numberAfter(t, string(text), "pswpout")
	}
	b := kernelBox(t)
	before := swappedOut()
	p := python("b = bytearray(200 << 20)\nfor n in range(3):\n  for at in range(0, len(b), 4096): b[at] = 1\nprint('survived')")
	p.Limits = glovebox.Limits{MemoryBytes: 64 << 20, WallMS: 60_000, CPUMS: 60_000}
	wantEnd(t, "200 MiB under 64", run(t, b, p), "memory_limit")
	if after := swappedOut(); after != before {
		t.Errorf("%d pages were swapped out", after-before)
	}
}

// A kernel with swap that does not count it for a group: require refuses and
// names it; auto says so.
//
// proves X-06
func TestOnVMSwapUncounted(t *testing.T) {
	if !hasSwap(t) {
		t.Fatal("this machine has no swap")
	}
	s := glovebox.CheckHost(options())
	lacks(t, s.Layers, missingLandlock("cgroup")...)
	if !strings.Contains(strings.Join(s.Warnings, "\n"), "swap") {
		t.Errorf("warnings: %q", s.Warnings)
	}
	mustRefuse(t, glovebox.Require, "cgroup", "swap", "swapaccount=1")
	wantEnd(t, "auto", run(t, opened(t, glovebox.Auto), python("print(1)")), "ok 0")
}

func hasSwap(t *testing.T) bool {
	t.Helper()
	inMachine(t)
	text, err := os.ReadFile("/proc/swaps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n") > 1
}
