package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fullVar makes the child one that fills a small disk of its own.
const fullVar = "GLOVEBOX_TEST_QUEUE_FULL"

// fullChild runs in a mount namespace of its own. It says what it found, a line each.
func fullChild(dir string) {
	ctx := context.Background()
	fatal(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	fatal(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=96m,mode=0755"))
	o := Options{Dir: filepath.Join(dir, "queue"), MinFree: 16 << 20, MaxBytes: 1 << 30}
	q, err := Open(ctx, o)
	fatal(err)
	for i := range crashJobs {
		fatal(q.Submit(ctx, Job{ID: fmt.Sprintf("job-%d", i), Client: "c", Program: []byte("p")}))
	}
	effects := map[string]int{}
	begin := func() *Delivery {
		d, err := q.Take(ctx)
		fatal(err)
		fatal(d.Begin(ctx, nil))
		effects[d.Job.ID]++
		return d
	}
	var held []*Delivery
	for range 2 {
		held = append(held, begin())
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	fatal(err)
	for block := make([]byte, 1<<20); err == nil; {
		_, err = fill.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		fatal(err)
	}
	fmt.Println("submit:", errors.Is(q.Submit(ctx, Job{ID: "new", Client: "c"}), ErrFull))
	fmt.Println("publish:", errors.Is(held[0].Publish(ctx, "chunk", make([]byte, 1000)), ErrFull))
	// The end of these runs may find no room any more; whoever is told so knows it.
	told := map[string]bool{}
	for _, d := range held {
		step, cancel := context.WithTimeout(ctx, 2*time.Second)
		told[d.Job.ID] = d.Finish(step, bytes.Repeat([]byte("r"), 200<<10), nil) == nil
		cancel()
	}
	fmt.Println("queue:", errors.Is(q.Err(), ErrFull))
	fatal(fill.Close())
	fatal(os.Remove(fill.Name()))
	fmt.Println("again:", errors.Is(q.Submit(ctx, Job{ID: "again", Client: "c"}), ErrFull))
	fatal(q.Close())

	fullAgain(ctx, o, effects, told)
}

// fullAgain opens the queue when there is room again, and runs what is left.
func fullAgain(ctx context.Context, o Options, effects map[string]int, told map[string]bool) {
	q, err := Open(ctx, o)
	fatal(err)
	for {
		step, cancel := context.WithTimeout(ctx, 3*time.Second)
		d, err := q.Take(step)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		fatal(err)
		fatal(d.Begin(ctx, nil))
		effects[d.Job.ID]++
		fatal(d.Finish(ctx, []byte("ok"), nil))
	}
	finals, twice := 0, 0
	for i := range crashJobs {
		id := fmt.Sprintf("job-%d", i)
		result, err := q.Result(ctx, id)
		fatal(err)
		finals++
		if effects[id] > 1 {
			twice++
		}
		if told[id] && !bytes.HasPrefix(result, []byte("rrr")) {
			fmt.Println("lost:", id)
		}
	}
	fmt.Println("finals:", finals, "twice:", twice)
	fatal(q.Close())
}

// proves part of H-47
func TestDiskFullAsRoot(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fullVar+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
	for _, want := range []string{"submit: true", "publish: true", "queue: true", "again: true", fmt.Sprintf("finals: %d twice: 0", crashJobs)} {
		if !strings.Contains(string(out), want) {
			t.Errorf("not %q", want)
		}
	}
	if strings.Contains(string(out), "lost:") {
		t.Error("a result that was acknowledged is gone")
	}
}

// A service that is stopped for longer than its signs of life may be late takes
// nothing twice.
// proves part of H-50
func TestStopped(t *testing.T) {
	o := Options{Patience: 200 * time.Millisecond}
	q := open(t, o)
	ctx := t.Context()
	submit(t, q, "c", "held")
	submit(t, q, "c", "begun")
	submit(t, q, "c", "waits")
	held, begun := take(t, q), take(t, q)
	must(t, begun.Begin(ctx, nil))
	// As if nothing of this process but the server's clock had gone on.
	q.taking.mu.Lock()
	time.Sleep(3 * o.Patience)
	q.taking.mu.Unlock()
	time.Sleep(o.Patience)
	if d := take(t, q); d.Job.ID != "waits" {
		t.Fatal("taken twice:", d.Job.ID)
	}
	step, cancel := context.WithTimeout(ctx, 3*o.Patience)
	defer cancel()
	if d, err := q.Take(step); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal("taken twice:", d, err)
	}
	must(t, held.Begin(ctx, nil))
	must(t, held.Finish(ctx, []byte("ok"), nil))
	must(t, begun.Finish(ctx, []byte("ok"), nil))
	count, _ := finals(t, q)
	if count["held"] != 1 || count["begun"] != 1 {
		t.Error(count)
	}
}
