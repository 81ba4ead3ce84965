package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/gate"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// poisonVar makes the test's program an executor that one job kills: its value is the
// folder, the step at which it does, and how many losses are allowed.
const poisonVar = "GLOVEBOX_TEST_EXECUTOR_POISON"

const (
	poison    = "poison"
	goodJobs  = 100
	poisonous = "poisonous = True"
)

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// dies is an executor's process, which ends when every job has.
func dies(said string) error {
	f := strings.Split(said, "|")
	dir, at := f[0], f[1]
	losses, _ := strconv.Atoi(f[2])
	ctx := context.Background()
	q, err := queue.Open(ctx, queue.Options{Dir: filepath.Join(dir, "queue"), MinFree: 1, MaxJobs: 200, MaxLosses: losses})
	if err != nil {
		return err
	}
	box, err := glovebox.New(glovebox.Options{InitPath: testenv.Init(), CacheDir: testenv.Cache(), Gate: func(_ context.Context, source []byte, _ gate.Info) gate.Verdict {
		if at == "start" && strings.Contains(string(source), poisonous) {
			die()
		}
		return gate.Verdict{Allow: true}
	}})
	if err != nil {
		return err
	}
	o := Options{Queue: q, Box: box, Slots: 2}
	o.Taken = func(j queue.Job, _ int, _ Note) {
		if at == "taken" && j.ID == poison {
			die()
		}
	}
	o.Reserve = func(_ context.Context, l api.Limits) (func(), error) {
		if at == "reserve" && l.Pids == 7 {
			die()
		}
		return func() {}, nil
	}
	o.Ended = func(e End) {
		if at == "ended" && e.Job.ID == poison {
			die()
		}
	}
	if err := submitAll(ctx, q); err != nil { // what has been submitted before is the same run
		return err
	}
	if st, err := q.Status(ctx, poison); err == nil && st.State != queue.Finished && at == "prints" {
		go func() {
			for e := range q.Events(ctx, poison, 0) {
				if e.Type == "chunk" {
					die()
				}
			}
		}()
	}
	e := Start(o)
	for i := range goodJobs + 1 {
		id := poison
		if i < goodJobs {
			id = good(i)
		}
		if _, err := q.Wait(ctx, id); err != nil {
			return err
		}
	}
	return errors.Join(e.Drain(ctx), box.Close(), q.Close())
}

func good(i int) string { return fmt.Sprintf("good-%d", i) }

// submitAll submits what was not submitted yet: ten good ones, the poison, the others.
func submitAll(ctx context.Context, q *queue.Queue) error {
	put := func(id string, p api.Program) error {
		program, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return q.Submit(ctx, queue.Job{ID: id, Client: "c", Program: program, Note: []byte("{}")})
	}
	for i := range goodJobs {
		if i == 10 {
			if err := put(poison, api.Program{Language: "bash", Source: "echo printed; sleep 0.5; # " + poisonous, Limits: api.Limits{Pids: 7}}); err != nil {
				return err
			}
		}
		if err := put(good(i), api.Program{Command: []string{"/bin/true"}}); err != nil {
			return err
		}
	}
	return nil
}

// A run that kills its executor's process, at each step, ends by the rules, and the
// hundred good ones around it end too.
// proves part of H-50
func TestPoison(t *testing.T) {
	t.Parallel() // it waits most of its time
	for step, c := range map[string]struct {
		deaths int
		end    string
		losses int
	}{
		"taken":   {2, "interrupted killed", 2},
		"reserve": {2, "interrupted killed", 2},
		// What has begun never begins again.
		"start":  {1, "interrupted lost", 2},
		"prints": {1, "interrupted lost", 2},
		"ended":  {1, "ok", 2},
		// The control: as many as it likes.
		"unlimited taken": {10, "interrupted killed", 10},
	} {
		t.Run(step, func(t *testing.T) {
			dir, deaths, began := t.TempDir(), 0, time.Now()
			for lives := 1; ; lives++ {
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), poisonVar+"="+dir+"|"+strings.TrimPrefix(step, "unlimited ")+"|"+strconv.Itoa(c.losses))
				out, err := cmd.CombinedOutput()
				if err == nil {
					break
				}
				if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || lives > 20 {
					t.Fatalf("%v %s", err, out)
				}
				deaths++
			}
			q := openQueue(t, queue.Options{Dir: filepath.Join(dir, "queue")})
			ends := map[string]int{}
			for i := range goodJobs {
				_, result := history(t, q, good(i))
				ends[strings.TrimSpace(string(result.Verdict)+" "+result.Cause)]++
			}
			_, result := history(t, q, poison)
			if end := strings.TrimSpace(string(result.Verdict) + " " + result.Cause); end != c.end || deaths != c.deaths {
				t.Errorf("%d executors died, and the poison is %s", deaths, end)
			}
			// The other slot's run of that moment is lost with each; if it is the same one
			// twice, and had not begun, it is held for what kills, too.
			lost := ends["interrupted lost"] + ends["interrupted killed"]
			if ends["ok"]+lost != goodJobs || lost > deaths || ends["interrupted killed"] > deaths/2 {
				t.Error(ends)
			}
			t.Log(ends, time.Since(began).Round(time.Millisecond))
		})
	}
}
