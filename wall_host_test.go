package glovebox_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/languages"
)

// walkPy prints, as JSON, what /proc holds: for each path below it, but for
// those of processes, "dir", "link TO" or the content; and for those of the own
// process the content too.
const walkPy = `import json, os, sys
out, own = {}, {}
def look(path, into, depth=0):
    try:
        if os.path.islink(path): into[path] = "link " + os.readlink(path); return
        if os.path.isdir(path):
            into[path] = "dir"
            for e in os.listdir(path) if depth < 6 else []: look(path + "/" + e, into, depth + 1)
            return
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try: into[path] = "file " + os.read(fd, 65536).decode(errors="replace")
        finally: os.close(fd)
    except OSError as e: into[path] = "errno %d" % e.errno
for e in os.listdir("/proc"):
    if e.isdigit(): out["/proc/" + e] = "process"
    else: look("/proc/" + e, out)
for e in os.listdir("/proc/self"):
    if e not in ("mem", "task", "map_files", "pagemap", "clear_refs", "net", "root", "cwd"): look("/proc/self/" + e, own)
print(json.dumps({"proc": out, "own": own,
    "dev": sorted(os.listdir("/dev")), "etc": sorted(os.listdir("/etc")), "uname": list(os.uname())}))
`

type walk struct {
	Proc, Own map[string]string
	Dev, Etc  []string
	Uname     []string
}

func walkProc(t *testing.T, b *glovebox.Box, l glovebox.Limits) walk {
	t.Helper()
	p := python(walkPy)
	p.Limits = l
	r := run(t, b, p)
	var w walk
	if err := json.Unmarshal([]byte(r.Stdout), &w); err != nil {
		t.Fatalf("%v: %s", err, r.Stderr)
	}
	return w
}

// procFiles is all that a cell shows in /proc with a content, and what that is
// with a limit of 64 MiB and one processor.
var procFiles = map[string]string{
	"/proc/meminfo":                  `^MemTotal: +65536 kB\nMemFree: +65536 kB\n[^\n]*65536 kB\n(\w+: +0 kB\n)+$`,
	"/proc/cpuinfo":                  `^processor\t: 0\nvendor_id\t: glovebox\n[^\n]+\n[^\n]+\ncpu cores\t: 1\nsiblings\t: 1\n\n$`,
	"/proc/stat":                     `^cpu  0[ 0]+\ncpu0 0[ 0]+\nintr 0\nctxt 0\nbtime 0\nprocesses 1\n`,
	"/proc/uptime":                   `^0\.00 0\.00\n$`,
	"/proc/loadavg":                  `^0\.00 0\.00 0\.00 1/1 1\n$`,
	"/proc/version":                  `^Linux version \S+ \(glovebox\) #1\n$`,
	"/proc/cmdline":                  `^\n$`,
	"/proc/filesystems":              `^nodev\ttmpfs\nnodev\tproc\n$`,
	"/proc/swaps":                    `^Filename[^\n]*\n$`,
	"/proc/sys/kernel/ostype":        `^Linux\n$`,
	"/proc/sys/kernel/osrelease":     `^\S+\n$`,
	"/proc/sys/kernel/hostname":      `^glovebox\n$`,
	"/proc/sys/kernel/pid_max":       `^32768\n$`,
	"/proc/sys/kernel/ngroups_max":   `^65536\n$`,
	"/proc/sys/kernel/cap_last_cap":  `^40\n$`,
	"/proc/sys/vm/overcommit_memory": `^0\n$`,
	"/proc/sys/vm/max_map_count":     `^65530\n$`,
	"/proc/sys/net/core/somaxconn":   `^4096\n$`,
}

// procDirs are the directories that hold something.
var procDirs = []string{"/proc/sys", "/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/net", "/proc/sys/net/core"}

// /proc is a list: what is on it says the cell's own figures, everything else
// is an empty file or an empty directory; there is one process, the guest.
// Without the masks it shows the host.
//
// proves part of O-02 O-25 H-36
func TestWallHostProc(t *testing.T) {
	limits := glovebox.Limits{MemoryBytes: 64 << 20, CPUPercent: 100}
	w := walkProc(t, box(t), limits)
	seen, processes := 0, 0
	for path, what := range w.Proc {
		kind, content, _ := strings.Cut(what, " ")
		want, listed := procFiles[path]
		switch {
		case kind == "process":
			processes++
		case kind == "link":
			if !slices.Contains([]string{"/proc/self", "/proc/thread-self", "/proc/mounts", "/proc/net"}, path) {
				t.Errorf("%s is a link to %s", path, content)
			}
		case kind == "dir":
			if !slices.Contains(procDirs, path) && strings.Count(path, "/") > 2 {
				t.Errorf("%s is a directory", path)
			}
		case kind != "file":
			t.Errorf("%s: %s", path, what)
		case listed:
			seen++
			if !regexp.MustCompile(want).MatchString(content) {
				t.Errorf("%s is %q", path, content)
			}
		case content != "":
			t.Errorf("%s is not on the list and holds %.40q", path, content)
		}
	}
	if seen != len(procFiles) || processes != 1 {
		t.Errorf("%d files of %d, %d processes", seen, len(procFiles), processes)
	}
	findings := 0
	for path, what := range walkProc(t, without(t, "procmask"), limits).Proc {
		if kind, content, _ := strings.Cut(what, " "); kind == "file" && content != "" && !regexp.MustCompile(cmp.Or(procFiles[path], "^$")).MatchString(content) {
			findings++
		}
	}
	if findings < 20 {
		t.Errorf("control: %d files of the host, want 20 or more", findings)
	}
	w = walkProc(t, box(t), glovebox.Limits{CPUPercent: int64(100 * runtime.NumCPU())})
	if n := strings.Count(w.Proc["/proc/cpuinfo"], "processor"); n != runtime.NumCPU() {
		t.Errorf("cpuinfo shows %d processors of %d", n, runtime.NumCPU())
	}
}

// identities are the strings by which this host could be known again.
func identities(t *testing.T) map[string]string {
	t.Helper()
	ids := map[string]string{"boot id": strings.TrimSpace(readFile(t, "/proc/sys/kernel/random/boot_id"))}
	for name, path := range map[string]string{"machine id": "/etc/machine-id", "dbus id": "/var/lib/dbus/machine-id", "command line": "/proc/cmdline"} {
		if b, err := os.ReadFile(path); err == nil {
			ids[name] = strings.TrimSpace(string(b))
		}
	}
	if h, err := os.Hostname(); err == nil {
		ids["host name"] = h
	}
	ids["working directory"], _ = os.Getwd()
	ids["group"] = strings.Join(regexp.MustCompile(`(?m)^\d+:memory:(/.+)$`).FindStringSubmatch(readFile(t, "/proc/self/cgroup")), "")
	maps.DeleteFunc(ids, func(_, v string) bool { return len(v) < 8 })
	return ids
}

// Nothing that a guest reads in /proc, its own files included, names the host;
// its machine is called glovebox, and /dev and /etc hold what is on the list.
// Without the masks the boot id is there, and without the UTS namespace the
// host's name.
//
// proves part of O-02
func TestWallHostIdentity(t *testing.T) {
	ids := identities(t)
	named := func(w walk) (found []string) {
		for _, files := range []map[string]string{w.Proc, w.Own} {
			for path, what := range files {
				for name, id := range ids {
					if strings.Contains(what, id) {
						found = append(found, path+" has the "+name)
					}
				}
			}
		}
		return found
	}
	o := options()
	o.CacheDir = "/var/cache/glovebox" // mountinfo has the path, and the tests' own is below the working directory
	w := walkProc(t, newBox(t, o), glovebox.Limits{})
	if found := named(w); found != nil {
		t.Errorf("the host is named: %v", found)
	}
	if len(w.Own) < 20 {
		t.Errorf("only %d own files", len(w.Own))
	}
	if w.Uname[1] != "glovebox" {
		t.Errorf("uname: %v", w.Uname)
	}
	if want := "fd full null random shm stderr stdin stdout urandom zero"; strings.Join(w.Dev, " ") != want {
		t.Errorf("/dev holds %v", w.Dev)
	}
	asked := languages.Builtin().Paths()
	for _, e := range w.Etc {
		if slices.ContainsFunc(asked, func(p string) bool {
			in, ok := strings.CutPrefix(p, "/etc/")
			top, _, _ := strings.Cut(in, "/")
			is, _ := path.Match(top, e)
			return ok && is
		}) {
			continue
		}
		if !regexp.MustCompile(`^(passwd|group|hosts|hostname|nsswitch\.conf|localtime|timezone|ld\.so\.cache|alternatives|python3.*)$`).MatchString(e) {
			t.Errorf("/etc holds %s", e)
		}
	}
	if found := named(walkProc(t, without(t, "procmask"), glovebox.Limits{})); !strings.Contains(strings.Join(found, " "), "boot id") {
		t.Errorf("control without the masks: %v", found)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if w = walkProc(t, without(t, "uts"), glovebox.Limits{}); w.Uname[1] != host {
		t.Errorf("control without the UTS namespace: %v, want %s", w.Uname, host)
	}
}

// clocksC prints, in whole seconds, every clock that counts from the boot.
const clocksC = wallC + `
#include <sys/sysinfo.h>
static void clk(const char *name, int id) { struct timespec t; clock_gettime(id, &t); printf("%s s%ld\n", name, (long)t.tv_sec); }
static void raw(const char *name, int id) { struct timespec t; syscall(SYS_clock_gettime, id, &t); printf("%s s%ld\n", name, (long)t.tv_sec); }
int main(void) {
	struct sysinfo s;
	char b[4096] = {0}, *p;
	clk("monotonic", CLOCK_MONOTONIC); clk("raw", CLOCK_MONOTONIC_RAW); clk("coarse", CLOCK_MONOTONIC_COARSE); clk("boottime", CLOCK_BOOTTIME);
	raw("monotonic-call", CLOCK_MONOTONIC); raw("raw-call", CLOCK_MONOTONIC_RAW); raw("coarse-call", CLOCK_MONOTONIC_COARSE); raw("boottime-call", CLOCK_BOOTTIME);
	sysinfo(&s);
	printf("sysinfo s%ld\n", s.uptime);
	read(open("/proc/self/stat", O_RDONLY), b, sizeof b - 1);
	p = strrchr(b, ')');
	for (int i = 0; i < 20; i++) p = strchr(p + 1, ' ');
	printf("stat s%ld\n", atol(p) / sysconf(_SC_CLK_TCK));
	return 0;
}`

// Every clock that counts from the boot starts near zero for a guest; without
// the time namespace each tells how long the host has been up.
//
// proves part of H-37
func TestWallHostClocks(t *testing.T) {
	prog := cProgram(t, clocksC)
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*glovebox.Box{"sealed": box(t), "control": without(t, "time")} {
		got := answers(run(t, b, prog).Stdout)
		if len(got) != 10 {
			t.Fatalf("%s: %v", name, got)
		}
		for clock, v := range got {
			s, err := strconv.ParseInt(strings.TrimPrefix(v, "s"), 10, 64)
			switch {
			case name == "sealed" && strings.HasPrefix(clock, "raw"):
				// The kernel moves it by the offset of the monotonic one, from which it
				// differs by what the host's clock was corrected since the boot.
				if drift := up.Sec/1000 + 10; s < -drift || s > drift {
					t.Errorf("%s: %s is at %s", name, clock, v)
				}
			case err != nil || name == "sealed" && (s < 0 || s >= 10):
				t.Errorf("%s: %s is at %s", name, clock, v)
			case name == "control" && clock != "raw" && clock != "raw-call" && (s < up.Sec-60 || s > up.Sec+60):
				t.Errorf("%s: %s is at %s, the host at %d", name, clock, v, up.Sec)
			}
		}
	}
}

// What the evidence says of the speculation controls is what the kernel shows
// of the guest's process.
//
// proves part of H-39
func TestWallHostSpeculation(t *testing.T) {
	l := pause(t, box(t), cProgram(t, wallC+`int main(){ready();}`))
	status := readFile(t, fmt.Sprintf("/proc/%d/status", l.guest))
	detail := ""
	for _, layer := range l.release().Evidence.Layers {
		if layer.Name == "speculation" {
			detail = layer.Detail
		}
	}
	held, open, _ := strings.Cut(detail, "open:")
	for line, name := range map[string]string{"Speculation_Store_Bypass": "store bypass", "SpeculationIndirectBranch": "indirect branch"} {
		forced := strings.Contains(statusField(status, line), "force")
		if strings.Contains(held, name) != forced || strings.Contains(open, name) == forced {
			t.Errorf("the kernel says %q, the evidence %q", statusField(status, line), detail)
		}
	}
}
