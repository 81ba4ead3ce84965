package glovebox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/languages"
)

func caseBash(source string) glovebox.Program {
	return glovebox.Program{Language: "bash", Source: source}
}

func (c *caseBox) decode(file []byte, into any) {
	c.Helper()
	if err := json.Unmarshal(file, into); err != nil {
		c.Fatal(err)
	}
}

// A program that is not there, or is none, is the guest's failure, in a shell
// as well as without one.
func caseExecMissing(c *caseBox, file []byte) {
	var script struct {
		Steps []struct {
			Run struct {
				Source string
				Files  []struct{ Path, Content string }
			}
			Expect struct{ Code int }
		}
	}
	c.decode(file, &script)
	says := []string{
		`\./main\.sh: line 1: /no/such/program: No such file or directory\n`,
		`\./main\.sh: line 1: \./x: Permission denied\n`,
		`\./main\.sh: line 1: .*/nope: (cannot execute: )?No such file or directory\n`,
	}
	if len(script.Steps) != len(says) {
		c.Fatalf("%d steps, want %d", len(script.Steps), len(says))
	}
	for i, s := range script.Steps {
		p := glovebox.Program{Language: "bash", Files: []glovebox.File{{Name: "main.sh", Content: s.Run.Source}}}
		for _, f := range s.Run.Files {
			p.Files = append(p.Files, glovebox.File{Name: f.Path, Content: f.Content})
		}
		c.run(p, caseWant{verdict: api.Error, exit: s.Expect.Code, wall: between{0, 2000}, stderrPattern: says[i]})
	}
	for _, s := range []struct {
		command, says string
		exit          int
	}{
		{"/no/such/program", "glovebox: cannot run /no/such/program: no such file or directory\n", 127},
		{"no-such-program", "glovebox: cannot run no-such-program: no such file or directory\n", 127},
		{"./x", "glovebox: cannot run ./x: permission denied\n", 126},
		{"/box", "glovebox: cannot run /box: permission denied\n", 126},
	} {
		p := glovebox.Program{Command: []string{s.command}, Files: []glovebox.File{{Name: "x", Content: "data"}}}
		c.run(p, caseWant{verdict: api.Error, exit: s.exit, stderr: s.says, wall: between{0, 2000}})
	}
}

// A next run is as if nothing had been before.
func caseThenHello(c *caseBox, _ *glovebox.Result) {
	c.run(caseBash("echo hi"), caseWant{verdict: api.OK, stdout: "hi\n"})
}

func caseThenEmpty(c *caseBox, _ *glovebox.Result) {
	p := glovebox.Program{Command: []string{"ls", "-A", "/box", "/tmp", "/dev/shm"}}
	c.run(p, caseWant{verdict: api.OK, stdout: "/box:\n\n/dev/shm:\n\n/tmp:\n"})
}

// A program that ends about when its limit does is in time or too late, and
// nothing else.
func caseFinishAtDeadline(c *caseBox, file []byte) {
	var script struct {
		Repeat int
		VaryMS []int `json:"vary_ms"`
		Run    struct {
			Source string
			Limits struct {
				WallMS int64 `json:"wall_ms"`
			}
		}
	}
	c.decode(file, &script)
	ended := map[api.Verdict]int{}
	var mu sync.Mutex
	c.many(script.Repeat, 8, func(i int) {
		wait := fmt.Sprintf("%.3f", float64(script.VaryMS[i%len(script.VaryMS)])/1000)
		p := caseBash(strings.ReplaceAll(script.Run.Source, "${VARY_S}", wait))
		p.Limits.WallMS = script.Run.Limits.WallMS
		r, bad := c.try(p)
		inTime := caseWant{verdict: api.OK, stdout: "end\n", wall: between{0, float64(p.Limits.WallMS)}}
		late := caseWant{verdict: api.Timeout, cause: api.CauseWall, exit: noExit, stdoutPattern: `(end\n)?`, wall: wallFrom(float64(p.Limits.WallMS))}
		if r.ExitCode != nil {
			late.exit = 0 // it ended by itself while it was about to be ended
		}
		if a, b := inTime.diff(r), late.diff(r); len(a) > 0 && len(b) > 0 {
			c.Errorf("run %d, %s s: neither in time (%v) nor too late (%v)", i, wait, a, b)
		}
		for _, s := range bad {
			c.Errorf("run %d: %s", i, s)
		}
		mu.Lock()
		defer mu.Unlock()
		ended[r.Verdict]++
	})
	if ended[api.OK]+ended[api.Timeout] != script.Repeat {
		c.Errorf("%d runs ended as %v", script.Repeat, ended)
	}
}

// System V segments cannot be made, so none is left on the host.
func caseSegmentsLeft(c *caseBox, file []byte) {
	segments := func() int {
		b, err := os.ReadFile("/proc/sysvipc/shm")
		if err != nil {
			c.Fatal(err)
		}
		return strings.Count(string(b), fmt.Sprintf(" %d ", 32*mebi))
	}
	before := segments()
	p := cProgram(c, string(file))
	p.Limits.MemoryBytes = 64 * mebi
	for range 30 {
		c.run(p, caseWant{verdict: api.OK, stderr: "shmget: " + notPermitted + "\n"})
	}
	if after := segments(); after != before {
		c.Errorf("%d segments of this size before, %d after", before, after)
	}
}

// The peak is the guest's own, however big the program that runs Glovebox.
func caseBigHost(c *caseBox, file []byte) {
	big := make([]byte, 64*mebi)
	for i := 0; i < len(big); i += 4096 {
		big[i] = 1
	}
	c.run(cProgram(c, string(file)), caseWant{verdict: api.OK, peak: between{1, 10 * mebi}})
	if big[len(big)-4096] != 1 {
		c.Error("the host is not big")
	}
}

// A C program gets the signal where Python gets the errno, and pipes are not
// under this limit.
func caseFileSizeElsewhere(c *caseBox, _ *glovebox.Result) {
	p := cProgram(c, `#include <fcntl.h>
#include <unistd.h>
int main(void) {
    static char b[65536];
    int fd = open("f.bin", O_CREAT | O_WRONLY, 0600);
    for (int i = 0; i < 1024; i++) if (write(fd, b, sizeof b) < 0) return 1;
    return 0;
}`)
	p.Limits.FileBytes = 8 * mebi
	c.run(p, caseWant{verdict: api.Error, exit: noExit, signal: "SIGXFSZ"})
	p = python("print('x' * (1 << 19))")
	p.Limits.FileBytes = 64 << 10
	c.run(p, caseWant{verdict: api.OK, stdout: strings.Repeat("x", 1<<19) + "\n"})
}

// What a guest sees of mounts and groups names no person, machine or folder of
// the host.
func caseTellsNothing(c *caseBox, r *glovebox.Result) {
	home, err := os.UserHomeDir()
	if err != nil {
		c.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		c.Fatal(err)
	}
	folder, err := os.Getwd()
	if err != nil {
		c.Fatal(err)
	}
	for what, name := range map[string]string{"home": home, "name": "\n" + host + "\n", "folder": folder, "temporary folder": os.TempDir() + "/"} {
		if strings.Contains(r.Stdout, name) && len(name) > 1 {
			c.Errorf("the host's %s %q is in the output", what, name)
		}
	}
}

// Every call of the file is made in a run of its own, since those of the kill
// class end it.
func caseSyscallProbe(c *caseBox, file []byte) {
	calls := regexp.MustCompile(`T\((\w+)[^;]*\);`)
	i := 0
	var names []string
	head, body, ok := strings.Cut(string(file), "int main(void) {")
	if !ok {
		c.Fatal("no main")
	}
	body = calls.ReplaceAllStringFunc(body, func(call string) string {
		names = append(names, calls.FindStringSubmatch(call)[1])
		i++
		return fmt.Sprintf("if (pick == %d) %s", i-1, call)
	})
	p := cProgram(c, "#include <stdlib.h>\n"+head+"int main(int argc, char **argv) { int pick = atoi(argv[1]);"+body)
	killed := strings.Fields("bpf mount umount2 pivot_root fsopen open_tree move_mount mount_setattr setns ptrace process_vm_writev " +
		"open_by_handle_at kexec_load init_module finit_module delete_module swapon quotactl iopl ioperm modify_ldt")
	refused := map[string]string{
		"io_uring_setup": "Function not implemented", "perf_event_open": "Permission denied", "userfaultfd": notPermitted,
		"keyctl": notPermitted, "add_key": notPermitted, "request_key": notPermitted, "chroot": notPermitted, "unshare": notPermitted,
		"name_to_handle_at": notPermitted, "syslog": notPermitted, "fanotify_init": notPermitted, "clock_settime": notPermitted,
		"sethostname": notPermitted, "setdomainname": notPermitted, "vhangup": notPermitted, "kcmp": notPermitted,
	}
	if len(names) != len(killed)+len(refused) {
		c.Fatalf("%d calls in the file, %d in the table", len(names), len(killed)+len(refused))
	}
	c.many(len(names), 4, func(i int) {
		p := p
		p.Args = []string{strconv.Itoa(i)}
		if slices.Contains(killed, names[i]) {
			c.run(p, caseWant{verdict: api.Denied, exit: noExit, syscall: names[i]})
			return
		}
		c.run(p, caseWant{verdict: api.OK, stdout: fmt.Sprintf("%-18s %s\n", names[i], refused[names[i]])})
	})
}

// Calls of the x32 ABI end the cell, whatever their number.
func caseX32Probe(c *caseBox, file []byte) {
	const loop = "int i = 0; i < 4;"
	source := strings.Replace(string(file), loop, "int i = atoi(argv[1]), n = i; i <= n;", 1)
	source = "#include <stdlib.h>\n" + strings.Replace(source, "main(void)", "main(int argc, char **argv)", 1)
	p := cProgram(c, source)
	for i, name := range []string{"getpid", "unshare", "ptrace", "ptrace"} {
		p := p
		p.Args = []string{strconv.Itoa(i)}
		c.run(p, caseWant{verdict: api.Denied, exit: noExit, syscall: "x32:" + name})
	}
}

// A guest can make no local socket, so it reaches no listener of the host.
func caseAbstractSocket(c *caseBox, file []byte) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@glovebox-canary", Net: "unix"})
	if errors.Is(err, unix.EADDRINUSE) {
		c.Log("another run of these tests listens; the guest's errno decides alone")
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: "@glovebox-canary-" + newCaseMark(), Net: "unix"})
	}
	if err != nil {
		c.Fatal(err)
	}
	defer l.Close()
	for _, network := range []string{api.NetworkNone, api.NetworkLoopback} {
		p := python(string(file))
		p.Network = network
		c.run(p, caseWant{verdict: api.Error, exit: 1,
			stderrPattern: `(?s)Traceback .*socket\.socket\(socket\.AF_UNIX\).*PermissionError: \[Errno 13\] Permission denied\n`})
	}
	if err := l.SetDeadline(time.Now()); err != nil {
		c.Fatal(err)
	}
	if conn, err := l.Accept(); err == nil {
		conn.Close()
		c.Error("the host's listener was reached")
	}
}

// Without a network there is not even a loopback.
func caseWithoutLoopback(c *caseBox, _ *glovebox.Result) {
	file, err := os.ReadFile(filepath.Join(caseDir, "115-loopback.py"))
	if err != nil {
		c.Fatal(err)
	}
	c.run(python(string(file)), caseWant{verdict: api.Error, exit: 1,
		stderrPattern: `(?s)Traceback .*OSError: \[Errno 97\] Address family not supported by protocol\n`})
}

// Without loopback there is no socket to begin with.
func caseNoNetwork(c *caseBox, _ *glovebox.Result) {
	file, err := os.ReadFile(filepath.Join(caseDir, "119-no-net.py"))
	if err != nil {
		c.Fatal(err)
	}
	c.run(python(string(file)), caseWant{verdict: api.Error, exit: 1,
		stderrPattern: `(?s)Traceback .*OSError: \[Errno 97\] Address family not supported by protocol\n`})
}

// Go builds from nothing, with no cache but its own and no try to reach anybody.
// The compiler alone needs some 300 MiB for Go's runtime, which is more than a run
// has by default; as the language go it has a compiler's limits.
func caseGoCache(c *caseBox, file []byte) {
	program, missing := languages.Builtin().Find("go").Program()
	if missing != "" {
		c.Fatal("go is not installed: looked for " + missing)
	}
	p := caseBash(string(file))
	p.Env = map[string]string{"PATH": filepath.Dir(program) + ":/usr/bin:/bin", "GOPROXY": "off"}
	p.Limits = glovebox.Limits{WallMS: 240_000, CPUMS: 60_000, CPUPercent: 100 * int64(runtime.NumCPU()), MemoryBytes: 512 * mebi} // beside all other cases
	c.run(p, caseWant{verdict: api.OK, stdoutPattern: `/box/\.cache/go-build\n\noff\n\S+\n`, stderr: "built\n"})
}

// The status says which control groups this host has, and runs prove that they
// bound memory and processes. Where nothing is lent to a user, Glovebox refuses
// with a remedy. The other hosts of the list are those of the kernel matrix and
// of the tests of internal/cgroup.
func caseThisFlavour(c *caseBox, _ []byte) {
	detail := ""
	for _, l := range c.box.Status().Layers {
		if l.Name == "cgroup" && l.Applied {
			detail = l.Detail
		}
	}
	if !regexp.MustCompile(`^cgroup (v1|v2|hybrid): .*memory.* in /.*`).MatchString(detail) {
		c.Errorf("the status says %q of the control groups", detail)
	}
	p := caseBash(`exec 2>/dev/null; x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done`)
	p.Limits.MemoryBytes = 16 * mebi
	c.run(p, caseWant{verdict: api.MemoryLimit, exit: noExit, signal: "SIGKILL", oom: true})
	p = python("import os\ntry:\n    while os.fork(): pass\n    os.kill(os.getpid(), 19)\nexcept OSError as e: print(e.errno)")
	p.Limits.Pids = 5
	c.run(p, caseWant{verdict: api.OK, stdout: "11\n", forks: true})
	if !asRoot {
		return
	}
	out, err := caseChild(c, "lone", nil).CombinedOutput()
	if err != nil || !regexp.MustCompile(`^the sandbox is not available: cgroup .*; remedy: .*(Delegate=yes|chown 64777).*\n$`).Match(out) {
		c.Errorf("a user without control groups: %v: %q, want a refusal that names the remedy", err, out)
	}
}

// caseChild starts this program again, as a host of its own.
func caseChild(c *caseBox, role string, env []string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		c.Fatal(err)
	}
	// By descriptor, since an ordinary user need not have a way to the file.
	f, err := os.Open(self)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { f.Close() })
	cmd := exec.CommandContext(c.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{f}
	cmd.Env = append(os.Environ(), append(env, caseRole+"="+role, "GLOVEBOX_TEST_INIT="+testenv.Init(), "TMPDIR="+c.TempDir())...)
	if role == "lone" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64777, Gid: 64777}}
	}
	return cmd
}

const caseRole = "GLOVEBOX_CASE_ROLE"

// The roles of a child.
func init() {
	switch os.Getenv(caseRole) {
	case "lone":
		o := options()
		f, err := os.Open(o.InitPath)
		if err == nil {
			defer f.Close()
			_, err = glovebox.New(o)
		}
		fmt.Println(err)
		os.Exit(0)
	case "host":
		if err := caseHost(); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
}

const caseHostRuns = 20

// caseHost has 20 programs running, says so, and waits to be killed.
func caseHost() error {
	o := options()
	o.MaxCells = caseHostRuns
	b, err := glovebox.New(o)
	if err != nil {
		return err
	}
	began := make(chan struct{}, caseHostRuns)
	for range caseHostRuns {
		p := caseBash("echo began; sleep 600")
		p.Env = map[string]string{caseMark: os.Getenv(caseMark)}
		p.Limits.WallMS = 600_000
		if _, err := b.Start(context.Background(), p, glovebox.WithEvents(func(e glovebox.Event) {
			if e.Type == "chunk" {
				began <- struct{}{}
			}
		})); err != nil {
			return err
		}
	}
	for range caseHostRuns {
		<-began
	}
	fmt.Println("running")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// After many runs of every kind, and after a host that was killed with runs on
// the way, nothing is left once a new host has started.
func caseLeftovers(c *caseBox, file []byte) {
	var script struct{ Runs int }
	c.decode(file, &script)
	caseMixed(c, script.Runs/5) // make soak does all of them
	mark := newCaseMark()
	cmd := caseChild(c, "host", []string{caseMark + "=" + mark})
	in, err := cmd.StdinPipe()
	if err != nil {
		c.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "running\n" {
		c.Fatalf("the host says %q, %v", line, err)
	}
	guests := slices.DeleteFunc(caseProcesses(c, caseMark+"="+mark), func(pid int) bool { return pid == cmd.Process.Pid })
	if len(guests) < caseHostRuns {
		c.Errorf("%d processes of guests, want %d or more", len(guests), caseHostRuns)
	}
	ends := c.handles(append(guests, testenv.Descendants(cmd.Process.Pid)...))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.waitFor(ends)
	if left := caseProcesses(c, caseMark+"="+mark); len(left) > 0 {
		c.Errorf("processes %v outlived their host", left)
	}
	next, err := glovebox.New(options())
	if err != nil {
		c.Fatal(err)
	}
	if left := caseGroupsOf(c, next, cmd.Process.Pid); len(left) > 0 {
		c.Errorf("control groups %v outlived the next start", left)
	}
	if err := next.Close(); err != nil {
		c.Error(err)
	}
	tmp := cmd.Env[len(cmd.Env)-1]
	if left, err := os.ReadDir(strings.TrimPrefix(tmp, "TMPDIR=")); err != nil || len(left) > 0 {
		c.Errorf("temporary files %v, %v", left, err)
	}
}

// handles holds on to processes by what cannot be mistaken for another.
func (c *caseBox) handles(pids []int) map[int]int {
	all := map[int]int{}
	for _, pid := range pids {
		if fd := testenv.OpenProcess(c, pid); fd >= 0 {
			all[pid] = fd
		}
	}
	return all
}

// waitFor waits for the end of processes.
func (c *caseBox) waitFor(handles map[int]int) {
	for pid, fd := range handles {
		if !testenv.EndsWithin(fd, 10*time.Second) {
			c.Fatalf("process %d did not end within ten seconds of its host", pid)
		}
	}
}

// caseMixed runs programs that end in every way, a few at once.
func caseMixed(c *caseBox, n int) {
	hog := caseBash(`exec 2>/dev/null; x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done`)
	hog.Limits.MemoryBytes = 16 * mebi
	late := caseBash("sleep 60")
	late.Limits.WallMS = 50
	kinds := []struct {
		p glovebox.Program
		w caseWant
	}{
		{caseBash("echo hello"), caseWant{verdict: api.OK, stdout: "hello\n"}},
		{caseBash("for i in 1 2 3; do (sleep 60 & sleep 60 &) & done; wait; echo tree"), caseWant{verdict: api.OK, stdout: "tree\n"}},
		{late, caseWant{verdict: api.Timeout, cause: api.CauseWall, exit: noExit}},
		{hog, caseWant{verdict: api.MemoryLimit, exit: noExit, signal: "SIGKILL", oom: true}},
	}
	c.many(n, 4, func(i int) {
		k := kinds[i%len(kinds)]
		c.run(k.p, k.w)
	})
}
