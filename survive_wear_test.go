package glovebox_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// used is what could wear down: counted of this process, of what comes from it
// and of what it makes on the host.
type used map[string]int

// usage counts, once everything that runs behind a caller's back has come to
// rest: pools are full again, groups removed. That is so when nothing has
// changed for a fifth of a second.
func usage(t testing.TB) used {
	t.Helper()
	var u used
	for same, tries := 0, 0; same < 10 && tries < 500; tries++ {
		next := counted(t)
		if same++; fmt.Sprint(next) != fmt.Sprint(u) {
			same = 0
		}
		u = next
		<-time.After(20 * time.Millisecond)
	}
	return u
}

func counted(t testing.TB) used {
	t.Helper()
	all := testenv.Descendants(os.Getpid())
	u := used{"processes": len(all), "goroutines": runtime.NumGoroutine()}
	for _, pid := range all {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if bytes.Contains(stat, []byte(") Z ")) {
			u["zombies"]++
		}
	}
	for name, dir := range map[string]string{"descriptors": "/proc/self/fd", "temporary files": os.TempDir(), "ids": "/run/glovebox/ids"} {
		list, _ := os.ReadDir(dir)
		for _, e := range list {
			// Each thread of an armed init has a file open here, and how many those
			// are is up to its runtime.
			link, _ := os.Readlink(filepath.Join(dir, e.Name()))
			thread := strings.Contains(link, "/task/")
			if !thread && (name != "temporary files" || strings.Contains(e.Name(), "glovebox")) {
				u[name]++
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	u["mounts"] = bytes.Count(mounts, []byte("\n"))
	pattern := fmt.Sprintf("i%d-*", os.Getpid())
	for _, base := range groupBases() {
		mine, _ := filepath.Glob(filepath.Join(base, pattern))
		u["groups"] += len(mine)
		for _, m := range mine {
			cells, _ := filepath.Glob(filepath.Join(m, "c*[0-9]"))
			u["groups"] += len(cells)
		}
	}
	return u
}

// groupBases are the directories in which hosts make their groups.
func groupBases() []string {
	var all []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "glovebox" {
			all = append(all, path)
			return filepath.SkipDir
		}
		return nil
	})
	return all
}

// compare wants nothing to have become more.
func (u used) compare(t testing.TB, after used) {
	t.Helper()
	for name, n := range after {
		if n > u[name] {
			t.Errorf("%s: %d, before %d", name, n, u[name])
		}
	}
}

// threads are those of this process. The runtime keeps a number of them, so
// they are compared with a slack.
func threads() int {
	list, _ := os.ReadDir("/proc/self/task")
	return len(list)
}

// memoryGroups is how many memory groups the kernel has, removed ones that
// something still pins included.
func memoryGroups(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "memory" {
			n, err := strconv.Atoi(f[2])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the kernel has no memory groups")
	return 0
}

// wear is a mix of ends: most runs are of /bin/true, each twentieth of another
// kind, and each hundredth is compiled, sees a folder, gives files back or gets a
// signal.
func wear(t *testing.T, b *glovebox.Box, i int) {
	short := glovebox.Limits{WallMS: 60}
	p, want := glovebox.Program{Command: []string{"/bin/true"}}, "ok 0"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch i % 20 {
	case 3:
		p, want = limited(glovebox.Program{Command: []string{"sleep", "9"}}, short), "timeout wall"
	case 7:
		p, want = glovebox.Program{Command: []string{"sh", "-c", "sleep 9 & kill -SEGV $$"}}, "error SIGSEGV"
	case 11:
		p, want = glovebox.Program{Command: []string{"sleep", "9"}}, "canceled"
		ctx, cancel = context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer cancel()
	case 13:
		p, want = limited(glovebox.Program{Command: []string{"cat", "/dev/zero"}}, glovebox.Limits{StdoutBytes: 100_000}), "output_limit stdout"
	case 17:
		p, want = limited(glovebox.Program{Command: []string{"sh", "-c", "x=x; while :; do x=$x$x; done"}}, glovebox.Limits{MemoryBytes: 16 * mib}), "memory_limit"
	case 19:
		p, want = glovebox.Program{Command: []string{"/no/such/program"}}, "error 127"
	}
	var opts []glovebox.RunOption
	switch i % 100 {
	case 5:
		p, want = cSource("main.c", "int main(void) { return 0; }\n"), "ok 0"
	case 25:
		p, want = cSource("main.c", "int main(void) { return x; }\n"), "compile_error"
	case 45:
		opts = []glovebox.RunOption{glovebox.WithFolder("/usr/share/base-passwd", "/data")}
	case 65:
		p, want = shell("echo x >f; mkfifo g; exit 3", "*"), "error 3"
	case 85:
		p, want = glovebox.Program{Command: []string{"sleep", "9"}}, "error SIGTERM"
		opts = []glovebox.RunOption{glovebox.WithStdinPipe()}
	}
	r, err := wearOne(ctx, b, p, opts, want == "error SIGTERM")
	if err != nil {
		if want != "canceled" {
			t.Errorf("run %d: %v", i, err)
		}
		return
	}
	if got := ended(r); got != want {
		t.Errorf("run %d: %q, want %q; %s", i, got, want, r.Message)
	}
}

func wearOne(ctx context.Context, b *glovebox.Box, p glovebox.Program, opts []glovebox.RunOption, signal bool) (*glovebox.Result, error) {
	running, err := b.Start(ctx, p, opts...)
	if err != nil {
		return nil, err
	}
	if signal {
		if err := running.Signal(unix.SIGTERM); err != nil {
			return nil, err
		}
	}
	return running.Wait()
}

// wearDown runs so many cells and compares what is used before and after.
func wearDown(t *testing.T, cells int) {
	t.Setenv("TMPDIR", t.TempDir()) // that nobody else uses
	o := options()
	o.Armed = 2
	b := newBox(t, o)
	step := testenv.Progress(t, cells)
	one := func(i int) { wear(t, b, i); step() }
	flat(t, func() { abreast(40, 4, func(i int) { wear(t, b, i) }) }, func() { abreast(cells, 4, one) })
}

// flat wants nothing to have become more by what wears. What comes first brings pools
// and the runtime to their size.
func flat(t *testing.T, first, wears func()) {
	t.Helper()
	first()
	before, tasks, groups, heap := usage(t), threads(), memoryGroups(t), heapInUse()
	wears()
	before.compare(t, usage(t))
	if n := threads(); n > tasks+8 {
		t.Errorf("threads: %d, before %d", n, tasks)
	}
	// The kernel may keep a bounded number for the file pages that were charged
	// to them; other programs make groups too.
	if n := memoryGroups(t); n > groups+96 {
		t.Errorf("memory groups: %d, before %d", n, groups)
	}
	if n := heapInUse(); n > heap+8*mib {
		t.Errorf("heap: %d KiB, before %d", n>>10, heap>>10)
	}
}

// Five hundred cells, however they end, leave the host as it was.
//
// proves T-10
func TestSurviveWear(t *testing.T) { wearDown(t, 500) }
