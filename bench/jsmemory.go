package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/js"
)

// memoryUse is what the kernel charges a process, in kB.
type memoryUse struct{ rss, pss, private int }

// use reads a process's account.
func use(pid int) memoryUse {
	return memoryUse{smaps(pid, "Rss"), smaps(pid, "Pss"), smaps(pid, "Private_Clean") + smaps(pid, "Private_Dirty")}
}

// less is one of n parts of what came on top.
func (m memoryUse) less(before memoryUse, n int) memoryUse {
	return memoryUse{(m.rss - before.rss) / n, (m.pss - before.pss) / n, (m.private - before.private) / n}
}

// idleWorkers is one of four workers that wait in a pool and have evaluated
// nothing.
func idleWorkers(ctx context.Context, mode js.JIT) (memoryUse, error) {
	const warm = 4
	before := map[int]bool{}
	for _, pid := range descendants(modeName(mode)) {
		before[pid] = true
	}
	p, err := js.NewPool(ctx, jsOptions(mode, js.Limits{}), js.PoolOptions{Warm: warm})
	if err != nil {
		return memoryUse{}, err
	}
	var sum memoryUse
	count := 0
	if err = filled(p, warm); err == nil {
		for _, pid := range descendants(modeName(mode)) {
			if m := use(pid); !before[pid] && m.rss > 0 {
				sum = memoryUse{sum.rss + m.rss, sum.pss + m.pss, sum.private + m.private}
				count++
			}
		}
		if count != warm {
			err = fmt.Errorf("the accounts of %d workers could be read, of %d", count, warm)
		}
	}
	if err := errors.Join(err, p.Close()); err != nil {
		return memoryUse{}, err
	}
	return sum.less(memoryUse{}, count), nil
}

// idleTable shows what one idle guest takes, by the kernel's account.
func idleTable(all []*contender) error {
	fmt.Printf("\nmemory of one that waits, kB, by the kernel's account; goal: 12,000 private\n%-34s %9s %9s %9s\n", "", "private", "Pss", "Rss")
	for _, v := range all {
		if v.idle == nil {
			continue
		}
		m, err := v.idle()
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		fmt.Printf("%-34s %9d %9d %9d\n", v.name, m.private, m.pss, m.rss)
	}
	fmt.Println("of a peer in one process with its host: what each of ten more adds")
	return nil
}
