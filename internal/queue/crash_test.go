package queue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	crashJobs = 50
	poison    = "poison"
)

// child is a service that is killed again and again: it submits the jobs, runs them
// with two executors, and ends when each has its final event. It says what it has
// done, a line each.
func child(dir string) {
	ctx := context.Background()
	q, err := Open(ctx, Options{Dir: filepath.Join(dir, "queue"), MinFree: 1})
	fatal(err)
	say := func(what, id string) { fmt.Fprintf(os.Stdout, "%s %s\n", what, id) }
	say("open", "-")
	for range 2 {
		go func() {
			for {
				d, err := q.Take(ctx)
				if errors.Is(err, ErrClosed) {
					return
				}
				fatal(err)
				fatal(work(ctx, d, dir, say))
			}
		}()
	}
	ids := []string{poison}
	for i := range crashJobs {
		ids = append(ids, "job-"+strconv.Itoa(i))
	}
	for i, id := range ids {
		// Large programs take another way.
		program := bytes.Repeat([]byte(id), 1+i%3*5000)
		fatal(q.Submit(ctx, Job{ID: id, Client: "c" + strconv.Itoa(i%4), Program: program}))
		say("accepted", id)
	}
	for _, id := range ids {
		_, err := q.Wait(ctx, id)
		fatal(err)
	}
	fatal(q.Close())
	os.Exit(0)
}

func fatal(err error) {
	if err != nil && !errors.Is(err, ErrClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// work is a run: its effect is a line in a file.
func work(ctx context.Context, d *Delivery, dir string, say func(what, id string)) error {
	id := d.Job.ID
	say("taken", id)
	if id == poison {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	if err := d.Begin(ctx, nil); err != nil {
		return err
	}
	say("begun", id)
	f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, id)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for range 5 {
		if err := d.Publish(ctx, "chunk", []byte(id)); err != nil {
			return err
		}
	}
	say("effect", id)
	result := []byte("ok " + id)
	if strings.HasSuffix(id, "7") {
		result = bytes.Repeat(append(result, '\n'), MaxInline/8)
	}
	err = d.Finish(ctx, result, nil)
	say("finished", id)
	return err
}

// life starts the child, and kills it after so many lines, or not for 0. It returns
// what the child said of each id.
func life(t *testing.T, dir string, lines int) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said := map[string][]string{}
	scan := bufio.NewScanner(out)
	for n := 1; scan.Scan(); n++ {
		what, id, _ := strings.Cut(scan.Text(), " ")
		said[what] = append(said[what], id)
		if n == lines {
			must(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatal(err, stderr.String())
	}
	return said
}

// finals counts the final events of each run as they are stored.
func finals(t *testing.T, q *Queue) (count map[string]int, verdicts map[string]string) {
	t.Helper()
	count, verdicts = map[string]int{}, map[string]string{}
	for m, err := range q.events.scan(t.Context(), q.fixed(eventsSubjects), 1) {
		must(t, err)
		r, err := decodeRecord(m.body)
		must(t, err)
		if r.kind != kindFinished {
			continue
		}
		id := m.on.token(2)
		count[id]++
		data, err := q.Data(t.Context(), id, r.event())
		must(t, err)
		verdicts[id] = string(data)
	}
	return count, verdicts
}

// proves part of H-50 X-17
func TestKilled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GLOVEBOX_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("GLOVEBOX_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	accepted, taken, finished := map[string]bool{}, map[string]int{}, map[string]bool{}
	lives := 0
	for ended := false; !ended && lives < 100; lives++ {
		lines := 1 + random.IntN(40)
		if lives >= 40 {
			lines = 0 // now it may come to an end
		}
		said := life(t, dir, lines)
		for _, id := range said["accepted"] {
			accepted[id] = true
		}
		for _, id := range said["taken"] {
			taken[id]++
		}
		for _, id := range said["finished"] {
			finished[id] = true
		}
		ended = lines == 0 && len(said["accepted"]) == crashJobs+1 && said["open"] != nil
	}
	t.Logf("%d lives, the poison was taken %d times", lives, taken[poison])

	judge(t, dir, accepted, taken, finished)
}

// judge looks at what is there in the end.
func judge(t *testing.T, dir string, accepted map[string]bool, taken map[string]int, finished map[string]bool) {
	t.Helper()
	q := open(t, Options{Dir: filepath.Join(dir, "queue")})
	count, results := finals(t, q)
	effects := map[string]int{}
	lines, err := os.ReadFile(filepath.Join(dir, "effects"))
	must(t, err)
	for id := range strings.Lines(string(lines)) {
		effects[strings.TrimSpace(id)]++
	}
	interrupted := 0
	if len(accepted) != crashJobs+1 || len(count) != crashJobs+1 {
		t.Errorf("%d accepted, %d with a final event", len(accepted), len(count))
	}
	for id := range accepted {
		if count[id] != 1 {
			t.Errorf("%s has %d final events", id, count[id])
		}
		ok := strings.HasPrefix(results[id], "ok ")
		switch {
		case id == poison:
			if taken[id] != 2 || !strings.Contains(results[id], `"cause":"killed"`) || effects[id] != 0 {
				t.Errorf("the poison was taken %d times: %s", taken[id], results[id])
			}
		case effects[id] > 1:
			t.Errorf("%s ran %d times", id, effects[id])
		case ok && effects[id] != 1:
			t.Errorf("%s is ok and did not run", id)
		case finished[id] && !ok:
			t.Errorf("%s was finished, and is %s", id, results[id])
		case !ok:
			interrupted++
			if !strings.Contains(results[id], `"verdict":"interrupted"`) {
				t.Errorf("%s: %s", id, results[id])
			}
		}
	}
	t.Logf("%d ran to their end, %d were interrupted", crashJobs-interrupted, interrupted)
}

// proves part of H-50
func TestLostTwice(t *testing.T) {
	for losses := 1; losses <= 3; losses++ {
		t.Run(fmt.Sprint(losses), func(t *testing.T) {
			var settled []string
			o := Options{Dir: t.TempDir() + "/queue", MaxLosses: losses, MinFree: 1,
				Settled: func(j Job, result []byte) { settled = append(settled, j.Client+" "+j.ID+" "+string(result)) }}
			for n := 0; n < losses; n++ {
				q, err := Open(t.Context(), o)
				must(t, err)
				if n == 0 {
					submit(t, q, "c", "bad")
					submit(t, q, "c", "good")
				}
				if d := take(t, q); d.Job.ID != "bad" || d.Losses() != n {
					t.Error(d.Job.ID, d.Losses())
				}
				q.taking.mu.Lock()
				clear(q.taking.active) // or Close would give it back
				q.taking.mu.Unlock()
				must(t, q.Close())
			}
			q := open(t, o)
			if d := take(t, q); d.Job.ID != "good" {
				t.Error("given to an executor again")
			}
			result, err := q.Result(t.Context(), "bad")
			if err != nil || !strings.Contains(string(result), `"cause":"killed"`) {
				t.Error(string(result), err)
			}
			if len(settled) != 1 || settled[0] != "c bad "+string(result) {
				t.Errorf("told of %q", settled)
			}
		})
	}
}

// proves part of H-50
func TestRetryIsNoLoss(t *testing.T) {
	q := open(t, Options{})
	submit(t, q, "c", "r")
	for range 5 {
		must(t, take(t, q).Retry(t.Context(), 0))
	}
	d := take(t, q)
	if d.Losses() != 0 {
		t.Error(d.Losses())
	}
	must(t, d.Begin(t.Context(), nil))
	must(t, d.Finish(t.Context(), nil, nil))
	for range maxTries - 5 {
		submit(t, q, "c", "s")
		must(t, take(t, q).Retry(t.Context(), 0))
	}
}

// proves part of H-50
func TestClosedIsNoLoss(t *testing.T) {
	o := Options{Dir: t.TempDir() + "/queue", MinFree: 1}
	for n := range 4 {
		q, err := Open(t.Context(), o)
		must(t, err)
		if n == 0 {
			submit(t, q, "c", "r")
		}
		d := take(t, q)
		if d.Job.ID != "r" || d.Losses() != 0 {
			t.Error(d.Job.ID, d.Losses())
		}
		must(t, q.Close())
		select {
		case <-d.Lost():
		default:
			t.Error("it is not told")
		}
		if err := d.Begin(t.Context(), nil); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

// Two finish at once, and many times: one is heard.
// proves part of H-50
func TestOneFinal(t *testing.T) {
	q := open(t, Options{})
	for i := range 20 {
		id := fmt.Sprintf("r%d", i)
		submit(t, q, "c", id)
		d := take(t, q)
		if i%2 == 0 {
			must(t, d.Begin(t.Context(), nil))
		}
		last, err := q.control(t.Context(), id)
		must(t, err)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				err := d.Finish(t.Context(), []byte("ok"), nil)
				if err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrOver) {
					t.Error(err)
				}
			})
			all.Go(func() {
				if _, err := q.settle(t.Context(), id, last, CauseLost); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	count, _ := finals(t, q)
	for id, n := range count {
		if n != 1 {
			t.Errorf("%s: %d final events", id, n)
		}
	}
	if len(count) != 20 {
		t.Error(len(count))
	}
}
