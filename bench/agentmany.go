package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/agent"
)

// warmed waits until a pool has so many warm workers.
func warmed(p *agent.Pool, warm int) error {
	for begin := time.Now(); p.Stats().Warm < warm; time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			return fmt.Errorf("only %d of %d workers are warm", p.Stats().Warm, warm)
		}
	}
	time.Sleep(8 * time.Millisecond) // as in the other parts
	return nil
}

func fine(d time.Duration) float64 { return d.Seconds() * 1000 }

func row(name string, took []time.Duration, more string) {
	fmt.Printf("%-34s %6d %9.3f %9.3f %9.3f  %s\n", name, len(took), fine(quantile(took, 0.1)), fine(quantile(took, 0.5)), fine(quantile(took, 0.9)), more)
}

// checkouts measures a session from a warm pool with its first feed.
func checkouts(ctx context.Context, _ *agent.Catalog) error {
	p, err := agentPool(ctx, agent.Options{Warm: 2})
	if err != nil {
		return err
	}
	fmt.Printf("\ncheckout from a warm pool, with the first feed; goal: 0.3 ms\n%-34s %6s %9s %9s %9s\n", "", "n", "p10 ms", "median", "p90")
	for _, n := range []int{1, 10, 100} {
		catalog, err := incTools(n)
		if err != nil {
			return err
		}
		var took []time.Duration
		for range max(*rounds/8, 5) {
			if err := warmed(p, 2); err != nil {
				return errors.Join(err, p.Close())
			}
			begin := time.Now()
			s, err := p.Checkout(ctx, agent.SessionOptions{Tools: catalog})
			if err == nil {
				_, err = s.Feed(ctx, onePlusOne, agent.FeedOptions{})
			}
			if err != nil {
				return errors.Join(err, p.Close())
			}
			took = append(took, time.Since(begin))
			if err := s.Close(); err != nil {
				return errors.Join(err, p.Close())
			}
		}
		row(fmt.Sprintf("%d tools", n), took, "")
	}
	return p.Close()
}

// dumpAndLoad measures a session of many records.
func dumpAndLoad(ctx context.Context, catalog *agent.Catalog) (err error) {
	p, err := agentPool(ctx, agent.Options{Warm: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	s, err := p.Checkout(ctx, agent.SessionOptions{Tools: catalog})
	if err != nil {
		return err
	}
	var d *agent.Dump
	for d == nil || d.Count < manyRecords {
		if _, err = s.Feed(ctx, "globalThis.n = await inc(globalThis.n ?? 0)", agent.FeedOptions{}); err == nil {
			d, err = s.Dump()
		}
		if err != nil {
			return err
		}
	}
	fmt.Printf("\na session of %d records, %d kB\n%-34s %6s %9s %9s %9s\n", d.Count, len(d.Journal)>>10, "", "n", "p10 ms", "median", "p90")
	dumps, err := timed(*rounds, func() error { _, err := s.Dump(); return err })
	if err != nil {
		return err
	}
	row("dump", dumps, "")
	var loads []time.Duration
	for range max(*rounds/8, 5) {
		if err := warmed(p, 1); err != nil {
			return err
		}
		begin := time.Now()
		l, err := p.Load(ctx, d.Journal, agent.LoadOptions{SessionOptions: agent.SessionOptions{Tools: catalog}, Head: d.Head})
		if err != nil {
			return err
		}
		loads = append(loads, time.Since(begin))
		if err := l.Close(); err != nil {
			return err
		}
	}
	row("load, with the replay", loads, fmt.Sprintf("%.0f records a second", float64(d.Count)/quantile(loads, 0.5).Seconds()))
	return nil
}

// parallelSessions measures many sessions that are fed at one time, and what they
// take while they wait.
func parallelSessions(ctx context.Context, catalog *agent.Catalog) (err error) {
	workers := map[int]bool{} // of others
	for _, pid := range descendants("interpreter") {
		workers[pid] = true
	}
	p, err := agentPool(ctx, agent.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	before := heap()
	sessions := make([]*agent.Session, manySession)
	for i := range sessions {
		if sessions[i], err = p.Checkout(ctx, agent.SessionOptions{Tools: catalog}); err != nil {
			return err
		}
	}
	fmt.Printf("\n%d sessions at one time\n", manySession)
	for _, do := range [][2]string{{"feeds without a tool", onePlusOne}, {"feeds with a call", toolFeed}} {
		if _, err := inAll(ctx, sessions, do[1], 1); err != nil {
			return err
		}
		took, err := inAll(ctx, sessions, do[1], *rounds)
		if err != nil {
			return err
		}
		fmt.Printf("%-34s %9.0f a second\n", do[0], float64(manySession**rounds)/took.Seconds())
	}
	return paused(ctx, sessions, before, workers)
}

// inAll feeds each session some times, from a goroutine of its own.
func inAll(ctx context.Context, sessions []*agent.Session, code string, times int) (time.Duration, error) {
	var all sync.WaitGroup
	errs := make(chan error, len(sessions))
	begin := time.Now()
	for _, s := range sessions {
		all.Go(func() {
			for range times {
				if _, err := s.Feed(ctx, code, agent.FeedOptions{}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return time.Since(begin), <-errs
}

// paused tells what sessions take that wait for Resume.
func paused(ctx context.Context, sessions []*agent.Session, before uint64, workers map[int]bool) error {
	for _, s := range sessions {
		if step, err := s.Start(ctx, toolFeed, agent.FeedOptions{}); err != nil || step.Done {
			return fmt.Errorf("a session that should have paused: %w", err)
		}
	}
	after := heap()
	var sum memoryUse
	n := 0
	for _, pid := range descendants("interpreter") {
		if m := use(pid); !workers[pid] && m.rss > 0 {
			sum = memoryUse{sum.rss + m.rss, sum.pss + m.pss, sum.private + m.private}
			n++
		}
	}
	if n < len(sessions) {
		return fmt.Errorf("the accounts of %d workers could be read, of %d", n, len(sessions))
	}
	m := sum.less(memoryUse{}, n)
	fmt.Printf("one that has paused: worker %d kB private, %d Pss, %d Rss; %d kB of the host's heap, journals of %d kB among them\n",
		m.private, m.pss, m.rss, (int64(after)-int64(before))/int64(len(sessions))>>10, journals(sessions)/int64(len(sessions))>>10)
	return nil
}

func journals(sessions []*agent.Session) (sum int64) {
	for _, s := range sessions {
		sum += s.Usage().Journal
	}
	return sum
}

// heap is what lives in the host's heap.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
