package glovebox_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// countForks makes processes until one is refused or the argument's number
// stands, all alive at once, and says how many there were with itself.
const countForks = `
import errno, os, signal, sys
n, why = 1, 'none'
try:
    while n < int(sys.argv[1]):
        if os.fork() == 0: signal.pause()
        n += 1
except OSError as e: why = errno.errorcode[e.errno]
print(n, why)
`

// taskLimits checks how many processes a guest gets from cells without control
// groups: as root exactly its limit, each cell having a uid of its own; as an
// ordinary user, whose cells are counted with all else that is his, no more
// than the machine had besides. None of it holds without the limit.
func taskLimits(t *testing.T, b, control *glovebox.Box, most int) {
	t.Helper()
	p := python(countForks)
	p.Limits = glovebox.Limits{WallMS: 60_000, CPUMS: 60_000}
	p.Args = []string{fmt.Sprint(most)}
	for _, pids := range []int64{1, 10} {
		p.Limits.Pids = pids
		r := run(t, b, p)
		var n int64
		var why string
		if _, err := fmt.Sscan(r.Stdout, &n, &why); err != nil || why != "EAGAIN" {
			t.Errorf("limit %d: %s, %q, stderr %q", pids, ended(r), r.Stdout, clip(r.Stderr))
		}
		if asRoot && n != pids || n > int64(most) {
			t.Errorf("limit %d: %d processes", pids, n)
		}
		if !strings.Contains(strings.Join(r.Warnings, "\n"), "tasks: bounded by RLIMIT_NPROC") {
			t.Errorf("warnings: %q", r.Warnings)
		}
	}
	if control != nil {
		p.Limits.Pids = 10
		if r := run(t, control, p); r.Stdout != fmt.Sprintf("%d none\n", most) {
			t.Errorf("control: %q, stderr %q", r.Stdout, clip(r.Stderr))
		}
	}
}

// unbounded is more tasks than the limit of any cell here: as an ordinary user
// that is what the whole machine has, and room for those that come and go.
func unbounded(t *testing.T) int {
	t.Helper()
	if asRoot {
		return 40
	}
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	var a, b, c float64
	var now, all int
	if _, err := fmt.Sscanf(string(text), "%f %f %f %d/%d", &a, &b, &c, &now, &all); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return all + 100
}

// Without a control group the kernel still bounds a guest's processes.
//
// proves O-10
func TestKernelTasksWithoutGroup(t *testing.T) {
	taskLimits(t, without(t, "cgroup", "sample"), without(t, "cgroup", "sample", "nproc"), unbounded(t))
}
