package glovebox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// spawnVar makes this test binary a host program that lacks something, and
// tells in a report of JSON what came of it.
const spawnVar = "GLOVEBOX_SURVIVE_SPAWN"

func init() {
	what := os.Getenv(spawnVar)
	if what == "" {
		return
	}
	os.Unsetenv(spawnVar)
	reports := json.NewEncoder(os.Stdout)
	for name, f := range map[string]func(*json.Encoder) error{"files": lackFiles, "processes": lackProcesses, "launcher": lackInLauncher} {
		if name == what {
			if err := f(reports); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
}

// spawn is the report of one attempt.
type spawn struct {
	What   string
	Failed string  // the error, or the message of setup_failed; empty: it ran
	MS     float64 // how long that took
	After  string  // how a run ended once the lack was mended
	Open   int     // descriptors then
}

// attempt runs /bin/true and says what kept it from running.
func attempt(b *glovebox.Box) string {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := b.Run(ctx, glovebox.Program{Command: []string{"/bin/true"}})
	switch {
	case err != nil:
		return "error: " + err.Error()
	case r.Verdict == "setup_failed":
		return r.Stage + ": " + r.Message
	case r.Verdict != "ok":
		return "verdict " + string(r.Verdict)
	}
	return ""
}

// lacking reports an attempt under a lack and one after it.
func lacking(b *glovebox.Box, what string, mend func() error) (spawn, error) {
	begin := time.Now()
	s := spawn{What: what, Failed: attempt(b)}
	s.MS = float64(time.Since(begin).Milliseconds())
	if err := mend(); err != nil {
		return s, err
	}
	s.After = attempt(b)
	// What the run had is given back behind its back.
	for same, tries := 0, 0; same < 10 && tries < 300; tries++ {
		n := len(openDescriptors())
		if same++; n != s.Open {
			same = 0
		}
		s.Open = n
		time.Sleep(5 * time.Millisecond)
	}
	return s, nil
}

func openDescriptors() []os.DirEntry {
	list, _ := os.ReadDir("/proc/self/fd")
	return list
}

// setLimit sets a soft limit and returns the function that puts it back.
func setLimit(pid, what int, soft uint64) (func() error, error) {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, what, nil, &old); err != nil {
		return nil, err
	}
	return func() error { return unix.Prlimit(pid, what, &old, nil) },
		unix.Prlimit(pid, what, &unix.Rlimit{Cur: soft, Max: old.Max}, nil)
}

// plug takes every free number below the highest descriptor and returns the
// next one above it, and the function that gives them back.
func plug() (next uint64, unplug func(), err error) {
	highest := 0
	for _, e := range openDescriptors() {
		var n int
		if _, err := fmt.Sscan(e.Name(), &n); err == nil {
			highest = max(highest, n)
		}
	}
	var taken []int
	unplug = func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
	}
	for fd := 0; fd <= highest; {
		if fd, err = unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3); err != nil {
			return 0, unplug, err
		}
		taken = append(taken, fd)
	}
	return uint64(taken[len(taken)-1] + 1), unplug, nil
}

// lackFiles leaves the host ever more descriptors, from none to enough.
func lackFiles(out *json.Encoder) error {
	o := options()
	o.Prepared = -1 // whose number would hang on what was lacking when
	b, err := glovebox.New(o)
	if err != nil {
		return err
	}
	defer b.Close()
	attempt(b)
	for free := range uint64(40) {
		next, unplug, err := plug()
		if err != nil {
			return err
		}
		old, err := setLimit(0, unix.RLIMIT_NOFILE, next+free)
		if err != nil {
			return err
		}
		mend := func() error { unplug(); return old() }
		s, err := lacking(b, fmt.Sprintf("%d descriptors", free), mend)
		if err != nil {
			return err
		}
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// lackProcesses lets New fail for want of processes, then lets it have them.
func lackProcesses(out *json.Encoder) error {
	makeThreads(32)
	mend, err := setLimit(0, unix.RLIMIT_NPROC, 1)
	if err != nil {
		return err
	}
	begin := time.Now()
	b, err := glovebox.New(options())
	s := spawn{What: "processes", MS: float64(time.Since(begin).Milliseconds())}
	if err == nil {
		s.Failed = attempt(b)
		b.Close()
	} else {
		s.Failed = err.Error()
	}
	if err := mend(); err != nil {
		return err
	}
	if b, err = glovebox.New(options()); err != nil {
		return err
	}
	defer b.Close()
	if s.After = attempt(b); s.After != "" {
		return errors.New(s.After)
	}
	return out.Encode(s)
}

// makeThreads has the runtime make so many threads, which it keeps: a Go program
// that needs one and may not have it is ended by its runtime.
func makeThreads(n int) {
	var all, here sync.WaitGroup
	here.Add(n)
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			here.Done()
			here.Wait()
		})
	}
	all.Wait()
}

// lackInLauncher takes from a running launcher what it needs to start a cell:
// processes (EAGAIN), address space (ENOMEM), descriptors (EMFILE).
func lackInLauncher(out *json.Encoder) error {
	for _, c := range []struct {
		what  string
		limit int
		soft  uint64
	}{{"EAGAIN", unix.RLIMIT_NPROC, 1}, {"ENOMEM", unix.RLIMIT_AS, 1 << 20}, {"EMFILE", unix.RLIMIT_NOFILE, 6}} {
		s, err := oneLack(c.what, c.limit, c.soft)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// oneLack takes something from the launcher of a Box of its own: one that died
// of it has been replaced, and is not there to be mended.
func oneLack(what string, limit int, soft uint64) (spawn, error) {
	o := options()
	o.Prepared = -1 // or the run would take what was made before the lack
	b, err := glovebox.New(o)
	if err != nil {
		return spawn{}, err
	}
	defer b.Close()
	attempt(b)
	mend, err := setLimit(testenv.Descendants(os.Getpid())[0], limit, soft)
	if err != nil {
		return spawn{}, err
	}
	return lacking(b, what, func() error {
		if err := mend(); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		return nil
	})
}

// lack runs such a host program and returns its reports.
func lack(t *testing.T, what string) []spawn {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), spawnVar+"="+what, "GLOVEBOX_TEST_INIT="+testenv.Init())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", what, err, out, &stderr)
	}
	var all []spawn
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var s spawn
		if err := d.Decode(&s); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, out)
		}
		all = append(all, s)
	}
	return all
}

// A host without descriptors fails one run, with a sentence that says so, and
// neither itself nor the next run; nothing stays open of what failed half-way.
//
// proves part of X-13
func TestSurviveSpawnFiles(t *testing.T) {
	failed, base := 0, 0
	for i, s := range lack(t, "files") {
		if s.Failed != "" {
			failed++
			if !strings.Contains(s.Failed, "too many open files") && !strings.Contains(s.Failed, "pidfd") {
				t.Errorf("%s: unclear: %s", s.What, s.Failed)
			}
		}
		if s.After != "" {
			t.Errorf("after %s: %s", s.What, s.After)
		}
		if s.MS > 3000 {
			t.Errorf("%s: took %.0f ms", s.What, s.MS)
		}
		if i == 0 {
			base = s.Open
		}
		if s.Open > base {
			t.Errorf("after %s: %d descriptors, %d at first", s.What, s.Open, base)
		}
	}
	if failed < 5 || failed == 40 {
		t.Errorf("%d of 40 failed", failed)
	}
}

// A host without processes is told so, and works when it has them. Root may have
// as many as it likes, but its launcher may not.
//
// proves part of X-13
func TestSurviveSpawnProcesses(t *testing.T) {
	for _, s := range lack(t, "processes") {
		if s.Failed == "" || !strings.Contains(s.Failed, "temporarily unavailable") && !strings.Contains(s.Failed, "launcher is gone") {
			t.Errorf("%s: %q", s.What, s.Failed)
		}
		if s.MS > 5000 {
			t.Errorf("%s: took %.0f ms", s.What, s.MS)
		}
	}
}

// A launcher that cannot start a cell, or dies of what it lacks, fails the runs
// of that moment and no later one. An ordinary user may not change the limits of
// his launcher, which is not dumpable.
//
// proves part of X-13
func TestSurviveSpawnLauncherAsRoot(t *testing.T) {
	for _, s := range lack(t, "launcher") {
		// Go ends a launcher that may have no thread; the run then gets another.
		replaced := s.What == "EAGAIN" && s.Failed == ""
		if s.Failed == "" && !replaced || s.After != "" || s.MS > 3000 {
			t.Errorf("%s: failed %q after %.0f ms, then %q", s.What, s.Failed, s.MS, s.After)
		}
		t.Logf("%s: %s", s.What, s.Failed)
	}
}
