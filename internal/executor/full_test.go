package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// fill leaves no room for objects.
func fill(t *testing.T, q *queue.Queue) {
	t.Helper()
	for size, n := 4<<20, 0; size >= 16<<10; n++ {
		if err := q.Runs().Put(t.Context(), "fill", fmt.Sprintf("f%d", n), bytes.NewReader(make([]byte, size))); err != nil {
			if !errors.Is(err, queue.ErrFull) {
				t.Fatal(err)
			}
			size /= 2
		}
	}
}

// When nothing more of the store's share is left for objects, artifacts are refused by
// name, and a large result is replaced by one without its output.
// proves part of H-47
func TestObjectsFull(t *testing.T) {
	q := openQueue(t, queue.Options{MaxBytes: 64 << 20})
	taken, goOn := make(chan struct{}, 9), make(chan struct{})
	start(t, q, Options{Taken: func(queue.Job, int, Note) { taken <- struct{}{}; <-goOn }})
	id := submit(t, q, "files", api.Program{Language: "python", Source: "open('a','wb').write(bytes(1 << 20))\nprint('small')\n", Artifacts: []string{"a"}}, Note{})
	large := submit(t, q, "large", api.Program{Language: "python", Source: "print('x' * 900_000)\nexit(3)\n"}, Note{})
	<-taken
	<-taken
	fill(t, q)
	close(goOn)
	_, result := history(t, q, id)
	if result.Verdict != api.OK || result.Stdout != "small\n" || len(result.Artifacts) != 0 || len(result.RefusedArtifacts) != 1 || !strings.Contains(result.RefusedArtifacts[0].Reason, "no room") {
		t.Errorf("%+v", result)
	}
	_, result = history(t, q, large)
	if result.Verdict != api.Error || result.ExitCode == nil || *result.ExitCode != 3 || result.Stdout != "" || !result.Truncated.Stdout || len(result.Warnings) == 0 {
		t.Errorf("%+v", result)
	}
	// What could not be kept is not accepted.
	time.Sleep(300 * time.Millisecond) // the figure of what is stored is that old at most
	if err := q.Submit(t.Context(), queue.Job{ID: "new", Client: "c", Program: []byte("{}"), Note: []byte("{}")}); !errors.Is(err, queue.ErrFull) {
		t.Error(err)
	}
}

// A store whose share for events is full takes no job that could not be written of, and
// brings what it took before to its end.
// proves part of H-47
func TestEventsFull(t *testing.T) {
	q := openQueue(t, queue.Options{MaxBytes: 64 << 20})
	taken, goOn := make(chan struct{}, 9), make(chan struct{})
	start(t, q, Options{Slots: 1, Taken: func(j queue.Job, _ int, _ Note) {
		if j.ID == "held" {
			close(taken)
			<-goOn
		}
	}})
	ids := []string{submit(t, q, "held", api.Program{Command: []string{"/bin/true"}}, Note{})}
	<-taken
	wordy := api.Program{Language: "python", Source: "import os\nfor i in range(128): os.write(1, b'x' * 65536)\n", Limits: api.Limits{StdoutBytes: 9 << 20}}
	for i := range 5 {
		ids = append(ids, submit(t, q, fmt.Sprintf("r%d", i), wordy, Note{}))
	}
	close(goOn)
	for _, id := range ids {
		begin := time.Now()
		if _, result := history(t, q, id); result.Verdict != api.OK {
			t.Errorf("%s: %+v", id, result.Verdict)
		}
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("%s took %v", id, d)
		}
	}
	// Now with results that take what is left: at some point nothing is accepted.
	ends := api.Program{Language: "python", Source: "print('y' * 200_000)\n"}
	program, err := json.Marshal(ends)
	must(t, err)
	ids = nil
	for i := 0; err == nil && i < 40; i++ {
		id := fmt.Sprintf("e%d", i)
		if err = q.Submit(t.Context(), queue.Job{ID: id, Client: "c", Program: program, Note: []byte("{}")}); err == nil {
			ids = append(ids, id)
			if i%8 == 7 { // the last of them wait together
				history(t, q, id)
				time.Sleep(250 * time.Millisecond)
			}
		}
	}
	if !errors.Is(err, queue.ErrFull) || len(ids) == 0 {
		t.Errorf("%d were accepted, then %v", len(ids), err)
	}
	for _, id := range ids {
		if _, result := history(t, q, id); result.Verdict != api.OK {
			t.Errorf("%s: %+v", id, result)
		}
	}
}

// fullVar makes the test's program one that fills a small disk of its own.
const fullVar = "GLOVEBOX_TEST_EXECUTOR_FULL"

// A disk that others fill to the last byte keeps no executor waiting for ever, loses
// nothing that was accepted, and repeats nothing.
// proves part of H-47 X-13
func TestDiskFullAsRoot(t *testing.T) {
	t.Parallel() // it waits most of its time
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDiskFullAsRoot$", "-test.v")
	if dir := os.Getenv(fullVar); dir != "" {
		diskFull(t, dir)
		return
	}
	cmd.Env = append(os.Environ(), fullVar+"="+t.TempDir())
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func diskFull(t *testing.T, dir string) {
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=96m,mode=0755"))
	o := queue.Options{Dir: filepath.Join(dir, "queue"), MinFree: 16 << 20, MaxBytes: 1 << 30}
	q, err := queue.Open(t.Context(), o)
	must(t, err)
	f := start(t, q, Options{Slots: 2})
	talk := api.Program{Language: "python", Source: "import os, time\nos.write(1, b'ready\\n')\nfor i in range(3000):\n os.write(1, b'%0999d\\n' % i)\n if i % 3 == 0: time.sleep(0.001)\n", Limits: api.Limits{StdoutBytes: 4 << 20}}
	var ids []string
	for i := range 10 {
		ids = append(ids, submit(t, q, fmt.Sprintf("r%d", i), talk, Note{}))
	}
	printed(t, q, ids[0])
	fill, err := os.Create(filepath.Join(dir, "fill"))
	must(t, err)
	for block := make([]byte, 1<<20); err == nil; {
		_, err = fill.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	begin := time.Now()
	until(t, "the queue says that it is full", func() bool { return errors.Is(q.Err(), queue.ErrFull) })
	f.Quit()
	f.Wait() // each has given up what it cannot bring to an end
	t.Logf("the executor ended after %v", time.Since(begin))
	if d := time.Since(begin); d > 90*time.Second {
		t.Errorf("the executor ended after %v", d)
	}
	must(t, fill.Close())
	must(t, os.Remove(fill.Name()))
	must(t, q.Close())
	told := map[string]bool{}
	for len(f.ends) > 0 {
		told[(<-f.ends).Job.ID] = true
	}

	q = openQueue(t, o)
	start(t, q, Options{})
	verdicts := map[string]int{}
	for _, id := range ids {
		_, result := history(t, q, id)
		verdicts[string(result.Verdict)+" "+result.Cause]++
		if told[id] && result.Verdict != api.OK {
			t.Errorf("%s had ended well, and is %s", id, result.Verdict)
		}
	}
	t.Log(verdicts)
	if verdicts["ok "]+verdicts["interrupted lost"] != len(ids) {
		t.Error(verdicts)
	}
}
