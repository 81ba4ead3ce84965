package glovebox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// casePool is a Box of its own with so many cells.
func casePool(c *caseBox, cells, waiting int) *caseBox {
	c.Helper()
	o := options()
	o.MaxCells, o.MaxWaiting, o.Armed = cells, waiting, 1
	b, err := glovebox.New(o)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if err := b.Close(); err != nil {
			c.Error(err)
		}
	})
	return &caseBox{c.T, b}
}

// What one tenant leaves in files, umask and environment the next one, on the only
// cell there is, does not find.
func caseFilesLeft(c *caseBox, file []byte) {
	pool := casePool(c, 1, 0)
	for range 3 {
		pool.run(python(string(file)), caseWant{verdict: api.OK, stdout: "clean\n"})
	}
	twice := caseBash("cat > main.py; python3 main.py; python3 main.py")
	twice.Stdin = file
	r, bad := pool.try(twice)
	if lines := strings.Split(r.Stdout, "\n"); len(lines) != 3 || lines[0] != "clean" || !strings.HasPrefix(lines[1], "LEAK ") || len(bad) > 0 {
		c.Errorf("the control: %q %v", r.Stdout, bad)
	}
}

// A server that one tenant leaves running is gone for the next, with its port.
func caseServerLeft(c *caseBox, file []byte) {
	pool := casePool(c, 1, 0)
	p := caseBash(string(file))
	p.Network = api.NetworkLoopback
	first := pool.run(p, caseWant{verdict: api.OK, stdoutPattern: `free\n\d\n`})
	if second := pool.run(p, caseWant{verdict: api.OK, stdoutPattern: `free\n\d\n`}); second.Stdout != first.Stdout {
		c.Errorf("the first run has %q, the second %q", first.Stdout, second.Stdout)
	}
}

// A guest that kills, ends, stops or wedges its own interpreter ends as it should, and
// the next run has a good one.
func caseSuicide(c *caseBox, file []byte) {
	pool := casePool(c, 2, 0)
	ends := map[string]caseWant{
		"kill\n": {verdict: api.Error, exit: noExit, signal: "SIGKILL", stdout: "kill\n"}, "exit\n": {verdict: api.Error, exit: 139, stdout: "exit\n"},
		"stop\n":     {verdict: api.Timeout, cause: api.CauseWall, exit: noExit, stdout: "stop\n"},
		"closeall\n": {verdict: api.Timeout, cause: api.CauseWall, exit: noExit, stdout: "closeall\n"},
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	for _, way := range []string{"kill", "exit", "stop", "closeall"} {
		pool.many(2, 2, func(int) {
			// The file throws dice; here each side of them comes.
			p := python(strings.Replace(string(file), `random.choice(("kill", "exit", "stop", "closeall"))`, `"`+way+`"`, 1))
			p.Limits.WallMS = 800
			r, bad := pool.try(p)
			want, ok := ends[r.Stdout]
			if bad = append(bad, want.diff(r)...); !ok || len(bad) > 0 {
				c.Errorf("%s: %q %v", way, r.Stdout, bad)
			}
			mu.Lock()
			seen[r.Stdout] = true
			mu.Unlock()
			pool.run(caseBash("echo hi"), caseWant{verdict: api.OK, stdout: "hi\n"})
		})
	}
	if len(seen) != len(ends) {
		c.Errorf("seen were %v", seen)
	}
}

// However runs fail, all slots are there in the end; the queue has a cap and a
// deadline, which are told apart.
func caseSlots(c *caseBox, file []byte) {
	var script struct {
		Faults []struct {
			Lang, Source string
			Limits       struct {
				WallMS int64 `json:"wall_ms"`
			}
			Gone bool `json:"client_gone_while_queued"`
		}
		Repeat int
	}
	c.decode(file, &script)
	if len(script.Faults) != 6 || script.Repeat != 200 {
		c.Fatalf("%+v", script)
	}
	const cells = 3
	pool := casePool(c, cells, 2)
	for i := range script.Repeat / caseShare {
		f := script.Faults[i%len(script.Faults)]
		p := glovebox.Program{Language: f.Lang, Source: f.Source}
		p.Limits.WallMS = f.Limits.WallMS
		switch {
		case f.Gone:
			caseGone(pool, cells)
		case f.Lang == "nope":
			if _, err := pool.box.Run(context.Background(), p); err == nil {
				c.Error("a language that there is not runs")
			}
		default:
			if r, bad := pool.try(p); r.Verdict == api.SetupFailed || len(bad) > 0 {
				c.Errorf("%q: %s %v", f.Source, r.Verdict, bad)
			}
		}
	}
	caseFull(pool, cells)
}

// caseGone has a client leave the queue.
func caseGone(pool *caseBox, cells int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	end := caseFill(pool, cells)
	left := make(chan error, 1)
	go func() { _, err := pool.box.Run(ctx, caseBash("echo never")); left <- err }()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		pool.Errorf("who left the queue has %v", err)
	}
	end()
}

// caseFill takes every cell, and returns what ends that.
func caseFill(pool *caseBox, cells int) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all []*glovebox.Running
	runs := make(chan struct{}, cells)
	for range cells {
		r, err := pool.box.Start(ctx, caseBash("sleep 100"), glovebox.WithEvents(func(e glovebox.Event) {
			if e.Type == "started" {
				runs <- struct{}{}
			}
		}))
		if err != nil {
			pool.Fatal(err)
		}
		all = append(all, r)
	}
	for range cells {
		<-runs
	}
	return func() {
		cancel()
		for _, r := range all {
			_, _ = r.Wait()
		}
	}
}

// caseFull uses all of the pool, and looks at its queue.
func caseFull(pool *caseBox, cells int) {
	pool.many(2*cells, cells, func(int) { pool.run(caseBash("echo ok"), caseWant{verdict: api.OK, stdout: "ok\n"}) })
	end := caseFill(pool, cells)
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	results := make(chan error, 3)
	for range 3 { // two may wait
		go func() { _, err := pool.box.Run(ctx, caseBash("echo never")); results <- err }()
	}
	busy, late := 0, 0
	for range 3 {
		switch err := <-results; {
		case errors.Is(err, glovebox.ErrBusy):
			busy++
		case errors.Is(err, context.DeadlineExceeded):
			late++
		default:
			pool.Errorf("in a full queue: %v", err)
		}
	}
	if busy != 1 || late != 2 {
		pool.Errorf("%d were told that it is busy, %d waited until their deadline", busy, late)
	}
}
