package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/bench/jsload"
	"github.com/glovebox-dev/glovebox/js"
)

// lane is an engine with its times of each job, and of the nine small pieces as
// one more.
type lane struct {
	jsload.Engine
	mode string
	base *lane // what it is compared with
	took map[string][]time.Duration
}

const small = "nine small"

// libraries measures jobs with real libraries, and nine small pieces of work, in
// sealed workers and in the engine's own program outside of any cell.
func libraries() error {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	b, err := jsload.Prepare(ctx, filepath.Join(*downloads, "jsload"))
	if err != nil {
		fmt.Printf("\nJavaScript libraries: absent: %v\n", err)
		return nil
	}
	jsc, err := jsload.FindJSC(ctx, filepath.Join(*downloads, "jsc"))
	if err != nil {
		fmt.Printf("\nabsent: jsc: %v\n", err)
	}
	var lanes []*lane
	var pools []*js.Pool
	defer func() {
		for _, p := range pools {
			_ = p.Close()
		}
	}()
	for _, mode := range modes {
		p, err := js.NewPool(ctx, jsOptions(mode, jsload.Limits()), js.PoolOptions{}) // none is started beside the work
		if err != nil {
			return err
		}
		pools = append(pools, p)
		sealed := &lane{Engine: jsload.Sealed("sealed worker", p), mode: modeName(mode)}
		if jsc.Path != "" {
			sealed.base = &lane{Engine: jsc.Engine(mode, false), mode: modeName(mode)}
			lanes = append(lanes, sealed.base, &lane{Engine: jsc.Engine(mode, true), mode: modeName(mode), base: sealed.base})
		}
		lanes = append(lanes, sealed)
	}
	for _, flags := range [][]string{{"--jitless"}, {}} {
		e, err := b.Node(flags...)
		if err != nil {
			fmt.Printf("\nabsent: node %s: %v\n", strings.Join(flags, " "), err)
			continue
		}
		lanes = append(lanes, &lane{Engine: e, mode: "V8"})
	}
	rounds := min(max(*rounds/20, 5), 11)
	fmt.Printf("\nJavaScript libraries: the work of each job, loading not counted; %d rounds, medians in ms. jsc: %s\n", rounds, jscOf(jsc))
	for range rounds {
		if err := librariesRound(ctx, b, lanes); err != nil {
			return err
		}
	}
	librariesTable(lanes)
	return nil
}

func jscOf(j jsload.JSC) string {
	return strings.TrimSpace(j.Path + " " + j.Version)
}

// librariesRound has each lane do every job once, the lanes of one job in turn;
// what they come to must be the same.
func librariesRound(ctx context.Context, b *jsload.Bundles, lanes []*lane) error {
	for _, job := range jsload.Jobs {
		var first jsload.Outcome
		for _, l := range lanes {
			o, err := b.Job(ctx, l, job)
			if err != nil {
				return err
			}
			if first.Digest == "" {
				first = o
			}
			if o.Digest != first.Digest || o.Size != first.Size {
				return fmt.Errorf("%s: %s (%s) made %d bytes, %s, and not %d, %s", job, l.Name(), l.mode, o.Size, o.Digest, first.Size, first.Digest)
			}
			l.note(job, o.MS)
		}
	}
	var first jsload.Micro
	for _, l := range lanes {
		m, err := b.Micro(ctx, l)
		if err != nil {
			return err
		}
		if first.Results == nil {
			first = m
		}
		if !slices.Equal(m.Results, first.Results) {
			return fmt.Errorf("%s: %s (%s) came to %v, and not %v", small, l.Name(), l.mode, m.Results, first.Results)
		}
		l.note(small, m.Mean())
	}
	return nil
}

func (l *lane) note(job string, ms float64) {
	if l.took == nil {
		l.took = map[string][]time.Duration{}
	}
	l.took[job] = append(l.took[job], duration(ms))
}

func (l *lane) median(job string) time.Duration { return quantile(l.took[job], 0.5) }

// librariesTable shows the medians, and the ratios to jsc in the same mode.
func librariesTable(lanes []*lane) {
	jobs := append(slices.Clone(jsload.Jobs), small)
	fmt.Printf("%-12s %-24s", "", "")
	for _, j := range jobs {
		fmt.Printf(" %10s", j)
	}
	fmt.Println()
	for _, l := range lanes {
		fmt.Printf("%-12s %-24s", l.mode, l.Name())
		for _, j := range jobs {
			fmt.Printf(" %10.1f", ms(l.median(j)))
		}
		fmt.Println()
	}
	fmt.Printf("\nratios to jsc in the same mode; goal 1.05\n")
	for _, l := range lanes {
		if l.base == nil {
			continue
		}
		fmt.Printf("%-12s %-24s", l.mode, l.Name())
		for _, j := range jobs {
			fmt.Printf(" %9.2fx", float64(l.median(j))/float64(l.base.median(j)))
		}
		fmt.Println()
	}
	for _, j := range jsload.Jobs {
		fmt.Printf("%s: %s\n", j, jsload.Libraries[j])
	}
}
