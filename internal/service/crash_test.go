package service_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// serving is a glovebox serve in a process of its own.
type serving struct {
	*exec.Cmd
	url    string
	stderr bytes.Buffer
}

// serve starts it on a folder, with two slots and room for a hundred runs.
func serve(t *testing.T, dir string, prefix ...string) *serving {
	t.Helper()
	args := append(prefix, testenv.Command(), "serve", "--addr", "127.0.0.1:0", "--data", dir, "--slots", "2", "--backlog", "100", "--in-flight", "100", "--min-free", "16MiB")
	s := &serving{Cmd: exec.Command(args[0], args[1:]...)}
	if len(prefix) > 0 {
		s.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	}
	s.Stderr = &s.stderr
	out, err := s.StdoutPipe()
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "serving at "); ok {
			s.url = url
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return s
		}
	}
	s.end(syscall.SIGKILL)
	t.Fatal("it does not serve:", s.stderr.String())
	return nil
}

// end signals the service, once, and waits for its end.
func (s *serving) end(sig syscall.Signal) {
	if s.ProcessState == nil {
		_ = s.Process.Signal(sig)
		_ = s.Wait()
	}
}

// watch counts the guests of each run: processes with its mark among their arguments,
// told apart by number and time of their start. The kernel says so, not the guest.
type watch struct {
	mu   sync.Mutex
	seen map[string]map[string]bool
	stop chan struct{}
	done chan struct{}
}

func newWatch(t *testing.T) *watch {
	w := &watch{seen: map[string]map[string]bool{}, stop: make(chan struct{}), done: make(chan struct{})}
	tick := time.NewTicker(20 * time.Millisecond)
	go func() {
		defer close(w.done)
		defer tick.Stop()
		for {
			w.look()
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
		}
	}()
	t.Cleanup(w.close)
	return w
}

func (w *watch) close() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	<-w.done
}

// mark is what a run has among its arguments: sleep(1) adds it to its time.
func mark(run, i int) string { return fmt.Sprintf("0.0000%07d%03d", run, i) }

// look returns how many guests there are now.
func (w *watch) look() (now int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	w.mu.Lock()
	defer w.mu.Unlock()
	prefix := strings.TrimSuffix(mark(os.Getpid(), 0), "000")
	for _, f := range files {
		b, err := os.ReadFile(f)
		args := strings.Split(string(b), "\x00")
		if err != nil || len(args) < 3 || args[0] != "/bin/sleep" || !strings.HasPrefix(args[2], prefix) {
			continue
		}
		now++
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(f), "stat"))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if err != nil || len(fields) < 20 {
			continue
		}
		if w.seen[args[2]] == nil {
			w.seen[args[2]] = map[string]bool{}
		}
		w.seen[args[2]][filepath.Dir(f)+" "+fields[19]] = true
	}
	return now
}

// most is how many guests one run had at most, and how many runs had one.
func (w *watch) most() (most, runs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, guests := range w.seen {
		most, runs = max(most, len(guests)), runs+1
	}
	return most, runs
}

const crashRuns = 50

// accept submits runs that sleep for a while each, and returns their ids.
func accept(t *testing.T, url string) (ids []string) {
	t.Helper()
	for i := range crashRuns {
		var run api.Run
		a := ask(t, "POST", url+"/v1/runs", api.Submission{Program: glovebox.Program{Command: []string{"/bin/sleep", "0.2", mark(os.Getpid(), i)}}}, &run)
		if a.StatusCode != 202 {
			t.Fatal(a.StatusCode)
		}
		ids = append(ids, run.ID)
	}
	return ids
}

// judge looks at the end of each run: one, and no other than a few kinds.
func judge(t *testing.T, url string, ids []string, w *watch) map[string]int {
	t.Helper()
	ends := map[string]int{}
	for _, id := range ids {
		run := result(t, url, id)
		if run.Result == nil {
			t.Errorf("%s has no result: %+v", id, run)
			continue
		}
		ends[strings.TrimSpace(string(run.Result.Verdict)+" "+run.Result.Cause)]++
		count := frames(t, url, id)
		if count["finished"] != 1 || count["started"] > 1 || run.Result.Verdict == api.OK && count["started"] != 1 {
			t.Errorf("%s (%s %s): %v", id, run.Result.Verdict, run.Result.Cause, count)
		}
	}
	w.close()
	most, runs := w.most()
	t.Logf("%v; %d runs had a guest, %d at most", ends, runs, most)
	if most != 1 || runs < ends["ok"]*4/5 { // it looks now and then
		t.Errorf("%d runs had a guest, one of them %d", runs, most)
	}
	return ends
}

// result reads the end of a run from a service that may be about to be opened again.
func result(t *testing.T, url, id string) (run api.Run) {
	t.Helper()
	for end := time.Now().Add(time.Minute); run.Result == nil && time.Now().Before(end); {
		a, err := http.Get(url + "/v1/runs/" + id + "?wait=30s")
		if err == nil {
			err = json.NewDecoder(a.Body).Decode(&run)
			_ = a.Body.Close()
		}
		if err != nil || a.StatusCode != 200 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return run
}

// frames counts the events of a run that has ended, by their type, to the end of the stream.
func frames(t *testing.T, url, id string) map[string]int {
	t.Helper()
	count := map[string]int{}
	a, err := http.Get(url + "/v1/runs/" + id + "/events")
	if err != nil {
		t.Error(err)
		return count
	}
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			count[kind]++
		}
	}
	return count
}

// The control: a run that is there twice is seen twice.
func TestCrashWatch(t *testing.T) {
	w := newWatch(t)
	_, url := open(t, service.Options{})
	for range 2 {
		ask(t, "POST", url+"/v1/runs?wait=20s", api.Submission{Program: glovebox.Program{Command: []string{"/bin/sleep", "0.3", mark(os.Getpid(), 999)}}}, nil)
	}
	w.close()
	if most, runs := w.most(); most != 2 || runs != 1 {
		t.Errorf("%d runs had a guest, %d at most", runs, most)
	}
}

// A service that is killed while fifty runs are on their way: each has one end, none ran
// twice, and no cell of the dead service is left when the next one is about to begin.
// proves part of X-09 H-50
func TestCrashKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	w := newWatch(t)
	s := serve(t, dir)
	ids := accept(t, s.url)
	var once, again api.Run
	keyed := api.Submission{Program: glovebox.Program{Command: []string{"/bin/sleep", "0.2", mark(os.Getpid(), crashRuns)}}}
	ask(t, "POST", s.url+"/v1/runs", keyed, &once, "Idempotency-Key", "a-key-of-the-crash")
	for kills := range 2 {
		time.Sleep(time.Second)
		s.end(syscall.SIGKILL)
		// Before anything else: they go with the service's end, and nobody ends them.
		for end := time.Now().Add(5 * time.Second); w.look() > 0; {
			if time.Now().After(end) {
				t.Fatalf("kill %d: %d cells outlive their service", kills, w.look())
			}
		}
		s = serve(t, dir)
	}
	// Who does not know what came of a submission sends it again.
	ask(t, "POST", s.url+"/v1/runs", keyed, &again, "Idempotency-Key", "a-key-of-the-crash")
	if again.ID != once.ID || again.OwnerToken != once.OwnerToken || once.ID == "" {
		t.Errorf("%+v, then %+v", once, again)
	}
	ends := judge(t, s.url, append(ids, once.ID), w)
	if ends["ok"]+ends["interrupted lost"] != crashRuns+1 || ends["interrupted lost"] > 4 || ends["ok"] == 0 {
		t.Error(ends)
	}
	s.end(syscall.SIGTERM)
	if code := s.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ends with %d: %s", code, s.stderr.String())
	}
}

// The same with a service that stands still for a while, again and again.
// proves part of H-50
func TestCrashStopped(t *testing.T) {
	w := newWatch(t)
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	ids := accept(t, s.url)
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			if err := s.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			time.Sleep(700 * time.Millisecond)
		}
	}
	if ends := judge(t, s.url, ids, w); ends["ok"] != crashRuns {
		t.Error(ends)
	}
}

// The same on a disk that others fill to its last byte and free again: meanwhile nothing
// is accepted, and the service goes on by itself.
// proves part of H-47
func TestStorageFullAsRoot(t *testing.T) {
	dir := t.TempDir()
	w := newWatch(t)
	s := serve(t, filepath.Join(dir, "data"), os.Args[0], "small-disk", dir)
	ids := accept(t, s.url)
	time.Sleep(500 * time.Millisecond)
	fill, err := os.Create(filepath.Join("/proc", fmt.Sprint(s.Process.Pid), "root", dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	for block := make([]byte, 1<<20); err == nil; {
		_, err = fill.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	one := api.Submission{Program: glovebox.Program{Command: []string{"/bin/true"}}}
	var refused api.ErrorBody
	if a := ask(t, "POST", s.url+"/v1/runs", one, &refused); a.StatusCode != 503 || refused.Error.Code != api.CodeStorage || refused.Error.RetryAfterMS == 0 {
		t.Errorf("%d %+v", a.StatusCode, refused)
	}
	time.Sleep(2 * time.Second)
	if err := errors.Join(fill.Truncate(0), fill.Close()); err != nil {
		t.Fatal(err)
	}
	accepted := false
	for end := time.Now().Add(90 * time.Second); !accepted && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		accepted = offer(s.url, one)
	}
	if !accepted {
		t.Fatal("it does not go on:", s.stderr.String())
	}
	ends := judge(t, s.url, ids, w)
	if ends["ok"]+ends["interrupted lost"]+ends["interrupted shutdown"] != crashRuns || ends["ok"] < crashRuns-8 {
		t.Error(ends)
	}
}

// offer submits a run, to a service that may be about to be opened again.
func offer(url string, s api.Submission) bool {
	body, err := json.Marshal(s)
	if err != nil {
		return false
	}
	a, err := http.Post(url+"/v1/runs", "application/json", bytes.NewReader(body))
	if err != nil {
		return false
	}
	_ = a.Body.Close()
	return a.StatusCode == 202
}

// smallDisk gives a folder a small file system that only this process sees, and becomes
// the program of the arguments.
func smallDisk(dir string, argv ...string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=96m,mode=0755"); err != nil {
		return err
	}
	return unix.Exec(argv[0], argv, os.Environ())
}
