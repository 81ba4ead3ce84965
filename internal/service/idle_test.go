package service_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// kernelKiB reads a figure of a process from its status file.
func kernelKiB(t *testing.T, file, name string) (n int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			n, err = strconv.Atoi(strings.Fields(v)[0])
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// An idle service is small: the process itself, and the launcher with the cells that wait.
// proves part of H-45
func TestIdleMemory(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	var run api.Run
	ask(t, "POST", s.url+"/v1/runs?wait=20s", api.Submission{Program: glovebox.Program{Command: []string{"/bin/true"}}}, &run)
	time.Sleep(time.Second) // cells that wait again, and what a collector gives back
	status := func(pid int) string { return fmt.Sprintf("/proc/%d/status", pid) }
	rss, anon := kernelKiB(t, status(s.Process.Pid), "VmRSS"), kernelKiB(t, status(s.Process.Pid), "RssAnon")
	others := testenv.Descendants(s.Process.Pid)
	sum, pss := 0, kernelKiB(t, fmt.Sprintf("/proc/%d/smaps_rollup", s.Process.Pid), "Pss")
	for _, pid := range others {
		sum += kernelKiB(t, status(pid), "RssAnon")
	}
	t.Logf("the process: %.1f MiB resident, %.1f of them its own (proportional %.1f); launcher and %d more: %.1f MiB of their own", mib(rss), mib(anon), mib(pss), len(others)-1, mib(sum))
	if rss > 48<<10 || anon+sum > 24<<10 {
		t.Errorf("%d KiB resident, %d KiB of its own, %d KiB of others", rss, anon, sum)
	}
	s.end(syscall.SIGTERM)
}

func mib(kib int) float64 { return float64(kib) / 1024 }

// holds is what a service could leave behind.
type holds struct{ descriptors, goroutines, processes, groups int }

func held(t *testing.T) (h holds) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		// Each thread of an armed init has a file open here, as many as its runtime likes.
		if link, _ := os.Readlink("/proc/self/fd/" + fd.Name()); !strings.Contains(link, "/task/") {
			h.descriptors++
		}
	}
	h.processes = len(testenv.Descendants(os.Getpid()))
	h.goroutines = runtime.NumGoroutine()
	mine := fmt.Sprintf("i%d-", os.Getpid())
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "/glovebox/"+mine) {
			h.groups++
		}
		return nil
	})
	return h
}

// settled is what is held once that does not change any more.
func settled(t *testing.T) (h holds) {
	t.Helper()
	for same, tries := 0, 0; same < 10 && tries < 400; tries++ {
		next := held(t)
		if same++; next != h {
			same = 0
		}
		h = next
		time.Sleep(20 * time.Millisecond)
	}
	return h
}

// Five hundred runs leave nothing behind: no descriptor, goroutine, process or control
// group; and a service that is closed leaves nothing at all.
// proves part of X-09 X-17
func TestIdleAfterRuns(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	before := settled(t)
	s, url := open(t, service.Options{Slots: 2})
	many := func(n int) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range n / 4 {
					p := glovebox.Program{Command: []string{"/bin/sh", "-c", "echo hello; test $0 -ne 3", strconv.Itoa(i % 5)}}
					if i%7 == 0 {
						p = glovebox.Program{Language: "python", Source: "open('f','w').write('x')\n1/" + strconv.Itoa(i%2), Artifacts: []string{"f"}}
					}
					var run api.Run
					ask(t, "POST", url+"/v1/runs?wait=30s", api.Submission{Program: p}, &run)
					if run.Result == nil || run.Result.Verdict != api.OK && run.Result.Verdict != api.Error {
						t.Errorf("%+v", run)
					}
				}
			})
		}
		all.Wait()
		http.DefaultClient.CloseIdleConnections()
	}
	many(40)
	idle := settled(t)
	many(500)
	after := settled(t)
	t.Logf("before %+v, idle %+v, after 500 runs %+v", before, idle, after)
	if after.descriptors > idle.descriptors || after.goroutines > idle.goroutines+2 || after.processes > idle.processes || after.groups > idle.groups {
		t.Errorf("after 500 runs %+v, before them %+v", after, idle)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if end := settled(t); end.descriptors > before.descriptors || end.processes > before.processes || end.groups > before.groups {
		t.Errorf("after the end %+v, before %+v", end, before)
	}
	if err := goleak.Find(ignore); err != nil {
		t.Error(err)
	}
}
