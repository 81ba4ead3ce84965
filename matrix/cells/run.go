//go:build linux

package cells

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/matrix"
)

// MaxTime bounds a whole run of the matrix.
const MaxTime = 90 * time.Minute

// Options of [Run].
type Options struct {
	// Jobs is the number of machines at a time; 0 is one. Each keeps one
	// processor of this host busy.
	Jobs int
	// Log, if it is not nil, gets a line about what is being done. It is called
	// from one goroutine at a time.
	Log func(format string, args ...any)
}

// Pick takes the cells whose name matches a pattern as in path.Match; empty
// matches all. With ci it takes only those that .ci/run takes.
func Pick(all []Cell, only string, ci bool) ([]Cell, error) {
	if _, err := path.Match(only, ""); err != nil {
		return nil, fmt.Errorf("%q is no pattern", only)
	}
	var out []Cell
	for _, c := range all {
		if ok, _ := path.Match(only, c.Name()); (only == "" || ok) && (c.CI || !ci) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no cell matches %q", only)
	}
	return out, nil
}

// Run runs cells and returns a result for each, in their order. The error says
// that not all of them were run: what was wanted could not be built, or ctx ended,
// which ends the machines.
func Run(ctx context.Context, cells []Cell, o Options) ([]*Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, MaxTime, fmt.Errorf("the matrix took longer than %v", MaxTime))
	defer cancel()
	var logging sync.Mutex
	logf := func(format string, args ...any) {
		logging.Lock()
		defer logging.Unlock()
		if o.Log != nil {
			o.Log(format, args...)
		}
	}
	built := map[string]programs{}
	for _, c := range cells {
		if err := c.check(); err != nil {
			return nil, err
		}
		if built[c.Arch] != nil {
			continue
		}
		p, err := build(ctx, c.Arch, stepsOf(cells, c.Arch), logf)
		if err != nil {
			return nil, errors.Join(context.Cause(ctx), err)
		}
		built[c.Arch] = p
	}
	results := make([]*Result, len(cells))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(o.Jobs, 1) {
		workers.Go(func() {
			for i := range next {
				results[i] = cells[i].run(ctx, built[cells[i].Arch])
				logf("%3d/%d %s", i+1, len(cells), results[i].Line())
			}
		})
	}
	for _, i := range longestFirst(cells) {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	workers.Wait()
	return results, context.Cause(ctx)
}

// longestFirst are the places of the cells in the order in which they are begun,
// so that no long one is left over for one machine at the end.
func longestFirst(cells []Cell) []int {
	order := make([]int, len(cells))
	weight := func(i int) int {
		w := 0
		for _, word := range strings.Fields(cells[i].Tests) {
			w -= map[string]int{"host": 4, "newhost": 4, "sweep": 2, "kernel": 1}[word]
		}
		return w
	}
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return weight(a) - weight(b) })
	return order
}

// stepsOf are the programs that run in the cells of an architecture.
func stepsOf(cells []Cell, arch string) (out []step) {
	for _, c := range cells {
		if c.Arch == arch {
			out = append(out, c.steps()...)
		}
	}
	return out
}

// run boots a cell and judges it.
func (c Cell) run(ctx context.Context, p programs) *Result {
	begin := time.Now()
	steps := c.steps()
	r := &Result{Cell: c.Name()}
	vm, err := c.machine(ctx, p, steps)
	if err != nil {
		r.fail("%v", err)
		return r
	}
	var commands []matrix.Command
	for _, s := range steps {
		commands = append(commands, s.Command)
	}
	outputs, err := vm.Run(ctx, commands)
	r = c.judge(steps, outputs)
	if err != nil {
		r.Failures = []string{err.Error()} // all else follows from it
	}
	if r.Release != "" && r.Release != vm.Kernel.Release || r.Machine != "" && r.Machine != c.Arch {
		r.fail("it ran %s on %s, not %s on %s", r.Release, r.Machine, vm.Kernel.Release, c.Arch)
	}
	for i, s := range steps {
		r.Steps = append(r.Steps, Step{What: s.what, Seconds: seconds(outputs[i].Duration)})
	}
	r.Seconds = seconds(time.Since(begin))
	return r
}
