package glovebox_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// What cells do to the machine as a whole: its swap, its memory, its process
// numbers, its way of handling crashes.

// coreCounter is the first argument under which this test program is what the
// kernel gives a core dump to; the second names the file that it marks.
const coreCounter = "count-a-core"

func init() {
	if len(os.Args) != 3 || os.Args[1] != coreCounter {
		return
	}
	f, err := os.OpenFile(os.Args[2], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		os.Exit(1)
	}
	_, _ = f.WriteString("x")
	os.Exit(0)
}

// crashes are ways to die that dump a core, for Python.
var crashes = []struct{ name, source, want string }{
	{"abort", "os.abort()", "error SIGABRT"},
	{"segv", "import ctypes; ctypes.string_at(0)", "error SIGSEGV"},
	{"quit", "os.kill(os.getpid(), 3)", "error SIGQUIT"},
	{"kill class", "import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)", "denied ptrace"},
	{"raised", "import resource as r\nfor n in (-1, 2, 1 << 20):\n  try: r.setrlimit(r.RLIMIT_CORE, (n, n)); print('raised')\n  except (ValueError, OSError): pass\nos.abort()", "error SIGABRT"},
	{"child", "pid = os.fork()\nif pid == 0: os.abort()\nos.waitpid(pid, 0)", "ok 0"},
}

// Where the kernel gives core dumps to a program, none of it is started by any
// death of a guest. A limit of 0, outside of a cell, does not prevent it.
//
// proves H-12
func TestOnVMAnyCores(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	marks := filepath.Join(t.TempDir(), "cores")
	if err := os.WriteFile(marks, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	setSysctl(t, "kernel/core_pipe_limit", "4") // a dying process waits for the program's end
	setSysctl(t, "kernel/core_pattern", fmt.Sprintf("|%s %s %s", self, coreCounter, marks))
	count := func() int {
		text, err := os.ReadFile(marks)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	b := kernelBox(t)
	for _, c := range crashes {
		r := run(t, b, python("import os\n"+c.source))
		if wantEnd(t, c.name, r, c.want); r.Stdout != "" {
			t.Errorf("%s: %q", c.name, r.Stdout)
		}
		if n := count(); n != 0 {
			t.Fatalf("%s: the program for cores was started %d times", c.name, n)
		}
	}
	cmd := exec.Command("python3", "-c", "import os, resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0)); os.abort()")
	if err := cmd.Run(); err == nil || count() != 1 {
		t.Errorf("control: %v, %d starts", err, count())
	}
}

// bystander makes children that end with 7, as fast as it can, until its input
// ends, and says how many there were, how many ended otherwise, and how many
// different numbers they had.
const bystander = `
import os, select, sys
n, bad, numbers = 0, 0, set()
print('on', flush=True)
while not select.select([0], [], [], 0)[0]:
    pid = os.fork()
    if pid == 0: os._exit(7)
    n, bad = n + 1, bad + (os.waitpid(pid, 0)[1] != 7 << 8)
    numbers.add(pid)
print(n, bad, len(numbers))
`

// While 100 cells are killed on a machine with few process numbers, which other
// processes use up again and again, so that a number read a while ago is often
// somebody else's, none of these is hit. The control groups of the cells do not
// pile up either.
//
// proves part of H-15 H-44
func TestOnVMAnyKills(t *testing.T) {
	setSysctl(t, "kernel/pid_max", "400")
	cmd := exec.Command("python3", "-c", bystander)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	if s, err := said.ReadString('\n'); s != "on\n" {
		t.Fatalf("%q, %v", s, err)
	}
	b := kernelBox(t)
	before := groupsOfKernel(t)
	const kills = 100
	abreast(kills, 2, func(int) { killOne(t, b) })
	after := groupsOfKernel(t)
	in.Close()
	rest, err := io.ReadAll(said)
	if err != nil {
		t.Fatal(err)
	}
	var n, bad, numbers int
	if _, err := fmt.Sscan(string(rest), &n, &bad, &numbers); err != nil || cmd.Wait() != nil || bad != 0 {
		t.Errorf("of %d bystanders %d did not end as they wanted: %q, %v", n, bad, rest, err)
	}
	if n < 3*numbers {
		t.Errorf("control: %d bystanders with %d numbers, so few came again", n, numbers)
	}
	t.Logf("%d bystanders; groups that the kernel keeps: %d before, %d after", n, before, after)
	if after-before > kills/3 {
		t.Errorf("groups that the kernel keeps: %d before, %d after %d cells", before, after, kills)
	}
}

// killOne starts a program and kills it as soon as it runs.
func killOne(t *testing.T, b *glovebox.Box) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := b.Start(ctx, glovebox.Program{Command: []string{"/bin/sleep", "60"}, Limits: glovebox.Limits{WallMS: 60_000}},
		glovebox.WithEvents(func(e glovebox.Event) {
			if e.Type == "started" {
				cancel()
			}
		}))
	if err != nil {
		t.Error(err)
		return
	}
	if res, err := r.Wait(); err != nil || res.Verdict != "canceled" {
		t.Errorf("%v, %+v", err, res)
	}
}

// groupsOfKernel is the number of memory groups that the kernel has, those that
// were removed and are kept for their pages with them.
func groupsOfKernel(t *testing.T) int {
	t.Helper()
	if text, err := os.ReadFile("/sys/fs/cgroup/cgroup.stat"); err == nil {
		return numberAfter(t, string(text), "nr_descendants") + numberAfter(t, string(text), "nr_dying_descendants")
	}
	text, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "memory" {
			n, err := strconv.Atoi(f[2])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no memory controller in %q", text)
	return 0
}

// numberAfter is the number that follows a key at the start of a line.
func numberAfter(t *testing.T, text, key string) int {
	t.Helper()
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in %q", key, text)
	return 0
}
