package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/js"
)

// What is evaluated. The rows are 2 MB as JSON.
const (
	onePlusOne = "1 + 1"
	makeRows   = "const rows = []; for (let i = 0; i < 22000; i++) rows.push({ id: i, name: 'row number ' + i, value: i / 3, tags: ['a', 'b'], ok: i % 2 === 0 }); 0"
	calls      = 200
)

// contender is one way to run JavaScript beside the program that wants it.
type contender struct {
	name, wall string
	eval       func(n int, code string) ([]time.Duration, error) // n times
	cold       func(n int) ([]time.Duration, error)              // from nothing to the first value
	checkout   func(n int) ([]time.Duration, error)              // from a warm pool; nil for who has none
	idle       func() (memoryUse, error)                         // nil where the kernel does not tell it
	close      func() error

	took map[string][]time.Duration
}

// timed does something n times.
func timed(n int, once func() error) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		begin := time.Now()
		if err := once(); err != nil {
			return nil, err
		}
		took[i] = time.Since(begin)
	}
	return took, nil
}

// jsOptions are those of a worker of this tree.
func jsOptions(mode js.JIT, limits js.Limits) js.Options {
	init := options(0, 0).InitPath
	return js.Options{JIT: mode, InitPath: init, WorkerPath: filepath.Join(filepath.Dir(init), "glovebox-js"), Limits: limits}
}

var modes = []js.JIT{"", js.Baseline, js.Full}

func modeName(mode js.JIT) string {
	if mode == "" {
		return "interpreter"
	}
	return string(mode)
}

// worker is Glovebox as a contender: a runtime that is warm, and a pool that
// keeps none, from which the cold ones come.
func worker(ctx context.Context, mode js.JIT) (*contender, error) {
	limits := js.Limits{HostCalls: 1 << 40, TimeoutMS: 60_000}
	p, err := js.NewPool(ctx, jsOptions(mode, limits), js.PoolOptions{})
	if err != nil {
		return nil, err
	}
	v := &contender{name: "Glovebox, " + modeName(mode), wall: "a sealed cell", close: p.Close}
	rt, err := p.Checkout(ctx)
	if err == nil {
		err = rt.Bind(ctx, "inc", func(n int) int { return n + 1 })
	}
	if err == nil {
		err = rt.Bind(ctx, "take", func(js.Value) int { return 1 })
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	v.eval = func(n int, code string) ([]time.Duration, error) {
		return timed(n, func() error { _, err := rt.Eval(ctx, code); return err })
	}
	v.cold = func(n int) ([]time.Duration, error) {
		var took []time.Duration
		for range n {
			begin := time.Now()
			other, err := p.Checkout(ctx)
			if err != nil {
				return nil, err
			}
			if _, err = other.Eval(ctx, onePlusOne); err == nil {
				took = append(took, time.Since(begin))
			}
			if err := errors.Join(err, other.Close()); err != nil {
				return nil, err
			}
		}
		return took, nil
	}
	v.idle = func() (memoryUse, error) { return idleWorkers(ctx, mode) }
	return v, nil
}

// warmPool is the contender for checkouts alone.
func warmPool(ctx context.Context) (*contender, error) {
	const warm = 4
	p, err := js.NewPool(ctx, jsOptions("", js.Limits{}), js.PoolOptions{Warm: warm})
	if err != nil {
		return nil, err
	}
	return &contender{close: p.Close, checkout: func(n int) ([]time.Duration, error) {
		var took []time.Duration
		for range n {
			if err := filled(p, warm); err != nil {
				return nil, err
			}
			begin := time.Now()
			rt, err := p.Checkout(ctx)
			if err != nil {
				return nil, err
			}
			took = append(took, time.Since(begin))
			if err := rt.Close(); err != nil {
				return nil, err
			}
		}
		return took, nil
	}}, nil
}

// filled waits until a pool has so many warm workers.
func filled(p *js.Pool, warm int) error {
	for begin := time.Now(); p.Stats().Warm < warm; time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			return fmt.Errorf("only %d of %d workers are warm", p.Stats().Warm, warm)
		}
	}
	return nil
}

// javascript measures Glovebox's workers beside other ways to run JavaScript.
func javascript() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	all, absent := peers(ctx)
	defer func() {
		for _, v := range all {
			_ = v.close()
		}
	}()
	ours := len(modes)
	for i, mode := range modes {
		v, err := worker(ctx, mode)
		if err != nil {
			return fmt.Errorf("%s: %w", modeName(mode), err)
		}
		all = slices.Insert(all, i, v)
	}
	fmt.Printf("\nJavaScript. What stands between guest and host:\n")
	for _, v := range all {
		fmt.Printf("%-34s %s\n", v.name, v.wall)
	}
	for _, a := range absent {
		fmt.Printf("absent: %s\n", a)
	}
	if err := jsRounds(ctx, all); err != nil {
		return err
	}
	base := all[min(ours, len(all)-1)] // node --jitless, if it is there
	goals := map[string]string{"eval": "0.018", "call": "0.020", "cold": "15", "result": "24, baseline 12", "argument": "24, baseline 12", "checkout": "0.03"}
	for _, m := range []struct{ key, title string }{
		{"checkout", "checkout of a warm worker"}, {"eval", "warm evaluation of " + onePlusOne}, {"call", "one synchronous call of a host function"},
		{"cold", "from nothing to a first value"}, {"result", "22,000 objects as a result"}, {"argument", "22,000 objects as an argument"}} {
		jsTable(fmt.Sprintf("%s; goal in ms: %s; ratio to %s", m.title, goals[m.key], base.name), m.key, base, all)
	}
	return idleTable(all)
}

// jsRounds has every contender do a bit of everything in each round.
func jsRounds(ctx context.Context, all []*contender) error {
	pool, err := warmPool(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = pool.close() }()
	loop := fmt.Sprintf("n = 0; for (let i = 0; i < %d; i++) n = inc(n); n", calls)
	for _, v := range all {
		v.took = map[string][]time.Duration{}
		for _, code := range []string{makeRows, onePlusOne, "rows", "take(rows)", loop} { // what is made once is made
			if _, err := v.eval(1, code); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	for range max(*rounds/8, 5) {
		took, err := pool.checkout(2)
		if err != nil {
			return fmt.Errorf("checkout: %w", err)
		}
		all[0].took["checkout"] = append(all[0].took["checkout"], took...)
		for _, step := range []struct {
			key, code string
			n, per    int
		}{{"eval", onePlusOne, 40, 1}, {"call", loop, 2, calls}, {"result", "rows", 2, 1}, {"argument", "take(rows)", 2, 1}, {"cold", "", 1, 1}} {
			for _, v := range all {
				do := v.eval
				if step.key == "cold" {
					do = func(n int, _ string) ([]time.Duration, error) { return v.cold(n) }
				}
				took, err := do(step.n, step.code)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", v.name, step.key, err)
				}
				for _, t := range took {
					v.took[step.key] = append(v.took[step.key], t/time.Duration(step.per))
				}
				time.Sleep(8 * time.Millisecond) // what is made ahead is made
			}
		}
	}
	return nil
}

func jsTable(title, key string, base *contender, all []*contender) {
	fmt.Printf("\n%s\n%-34s %6s %9s %9s %9s %8s\n", title, "", "n", "p10 ms", "median", "p90", "ratio")
	for _, v := range all {
		took := v.took[key]
		if len(took) == 0 {
			continue
		}
		ratio := "-"
		if b := base.took[key]; len(b) > 0 {
			ratio = fmt.Sprintf("%.2fx", float64(quantile(took, 0.5))/float64(quantile(b, 0.5)))
		}
		fine := func(q float64) float64 { return quantile(took, q).Seconds() * 1000 }
		fmt.Printf("%-34s %6d %9.4f %9.4f %9.4f %8s\n", v.name, len(took), fine(0.1), fine(0.5), fine(0.9), ratio)
	}
}
