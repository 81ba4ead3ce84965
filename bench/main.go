// Command bench measures Glovebox beside its peers, everything interleaved in
// one loop, and prints medians and ratios. Absolute times belong to the machine
// and the hour; the ratios are what to look at.
//
//	go run ./bench [-n 200] [-heap 500]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/languages"
)

var rounds = flag.Int("n", 200, "rounds of each measurement")
var heapMB = flag.Int("heap", 500, "megabytes of the host's heap in the second half")
var only = flag.String("only", "", "only the part of this name: times, parallel, memory, steps, hellos, artifacts, javascript, agent, libraries, service")
var cacheDir = flag.String("cache", ".cache/warm", "folder of the compilers' caches")
var downloads = flag.String("downloads", ".cache/bench", "folder of what npm and apt bring for the JavaScript parts")

func main() {
	flag.Parse()
	if err := bench(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench() error {
	fmt.Printf("%s, %d cores, %s, %s\n", time.Now().Format(time.DateOnly), runtime.NumCPU(), kernel(), user())
	parts := []struct {
		name string
		do   func() error
	}{{"times", times}, {"parallel", parallel}, {"memory", memory}, {"steps", steps}, {"hellos", hellos}, {"artifacts", artifacts},
		{"javascript", javascript}, {"agent", agentSessions}, {"libraries", libraries},
		{"service", serviceTimes}}
	for _, p := range parts {
		if *only != "" && *only != p.name {
			continue
		}
		if err := p.do(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// subject is one thing to be timed.
type subject struct {
	name string
	once func() error
	took []time.Duration
}

func (s *subject) median() time.Duration { return quantile(s.took, 0.5) }

func quantile(d []time.Duration, q float64) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[min(int(q*float64(len(d))), len(d)-1)]
}

// interleave runs every subject once a round, so that what the machine does
// meanwhile meets all alike. A pause between them lets what is made ahead be
// made again; it is the same for all.
func interleave(n int, subjects ...*subject) error {
	for range n {
		for _, s := range subjects {
			begin := time.Now()
			if err := s.once(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.took = append(s.took, time.Since(begin))
			time.Sleep(8 * time.Millisecond)
		}
	}
	return nil
}

func table(title string, base *subject, subjects ...*subject) {
	fmt.Printf("\n%s (%d rounds)\n%-34s %9s %9s %9s %8s\n", title, len(base.took), "", "p10 ms", "median", "p90", "ratio")
	for _, s := range subjects {
		fmt.Printf("%-34s %9.2f %9.2f %9.2f %7.2fx\n", s.name, ms(quantile(s.took, 0.1)), ms(s.median()), ms(quantile(s.took, 0.9)),
			float64(s.median())/float64(base.median()))
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func options(armed, prepared int) glovebox.Options {
	self, _ := os.Getwd()
	return glovebox.Options{InitPath: filepath.Join(self, "bin", "glovebox-init"), Armed: armed, Prepared: prepared}
}

// bwrap is the peer: the same namespaces and a like root; it has neither
// Landlock nor a filter, control group or attestation.
func bwrap(argv ...string) func() error {
	args := []string{"--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
		"--tmpfs", "/tmp", "--tmpfs", "/box", "--chdir", "/box"}
	return func() error { return exec.Command("bwrap", append(args, argv...)...).Run() }
}

func in(b *glovebox.Box, p glovebox.Program) func() error {
	return func() error {
		r, err := b.Run(context.Background(), p)
		if err == nil && r.Verdict != "ok" {
			err = fmt.Errorf("verdict %s: %s", r.Verdict, r.Message)
		}
		return err
	}
}

var (
	trueProgram = glovebox.Program{Command: []string{"/bin/true"}}
	hello       = glovebox.Program{Language: "python", Source: "print(1)"}
)

// times measures single starts, with a small heap and with a large one.
func times() error {
	cold, err := glovebox.New(options(-1, 2))
	if err != nil {
		return err
	}
	defer cold.Close()
	armed, err := glovebox.New(options(2, 2))
	if err != nil {
		return err
	}
	defer armed.Close()
	for _, heap := range []int{0, *heapMB} {
		ballast := make([]byte, heap<<20)
		for i := 0; i < len(ballast); i += 4096 {
			ballast[i] = 1
		}
		fork := &subject{name: "fork + exec /bin/true", once: func() error { return exec.Command("/bin/true").Run() }}
		peer := &subject{name: "bubblewrap /bin/true", once: bwrap("/bin/true")}
		c := &subject{name: "cold cell /bin/true", once: in(cold, trueProgram)}
		a := &subject{name: "armed cell /bin/true", once: in(armed, trueProgram)}
		if err := interleave(*rounds, fork, peer, c, a); err != nil {
			return err
		}
		table(fmt.Sprintf("/bin/true, heap %d MB, ratio to bubblewrap", heap), peer, fork, peer, c, a)
		table("the same, ratio to fork + exec", fork, a)
		runtime.KeepAlive(ballast)
	}
	python, _ := languages.Builtin().Find("python").Program()
	plain := &subject{name: "fork + exec python3 print(1)", once: func() error { return exec.Command(python, "-c", "print(1)").Run() }}
	peer := &subject{name: "bubblewrap python3 print(1)", once: bwrap(python, "-c", "print(1)")}
	c := &subject{name: "cold cell python print(1)", once: in(cold, hello)}
	a := &subject{name: "armed cell python print(1)", once: in(armed, hello)}
	if err := interleave(*rounds/2, plain, peer, c, a); err != nil {
		return err
	}
	table("Python, ratio to bubblewrap", peer, plain, peer, c, a)
	return nil
}

// parallel measures how many a second come out of eight callers at once.
func parallel() error {
	b, err := glovebox.New(options(8, 4))
	if err != nil {
		return err
	}
	defer b.Close()
	fmt.Printf("\neight callers at once\n%-34s %9s %8s\n", "", "per s", "ratio")
	var base float64
	for _, s := range []struct {
		name string
		once func() error
	}{{"bubblewrap /bin/true", bwrap("/bin/true")}, {"Glovebox /bin/true", in(b, trueProgram)}, {"Glovebox python print(1)", in(b, hello)}} {
		rate, err := throughput(s.once)
		if err != nil {
			return err
		}
		if base == 0 {
			base = rate
		}
		fmt.Printf("%-34s %9.0f %7.2fx\n", s.name, rate, rate/base)
	}
	return nil
}

func throughput(once func() error) (float64, error) {
	var wg sync.WaitGroup
	each := max(*rounds/4, 10)
	errs := make(chan error, 8)
	begin := time.Now()
	for range 8 {
		wg.Go(func() {
			for range each {
				if err := once(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return float64(8*each) / time.Since(begin).Seconds(), <-errs
}

// steps shows where the time of a cold cell goes.
func steps() error {
	var mu sync.Mutex
	var order []string
	took := map[string][]time.Duration{}
	cfg := cell.Config{Mode: cell.Require, InitPath: options(0, 0).InitPath, Reserve: 2, MaxCells: 1, Max: glovebox.Limits{},
		Trace: func(step string, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if took[step] == nil {
				order = append(order, step)
			}
			took[step] = append(took[step], d)
		}}
	_, cfg.Max = glovebox.Bounds()
	h, err := cell.Open(cfg)
	if err != nil {
		return err
	}
	defer h.Close()
	limits, err := glovebox.Limits{}.Resolve(defaults(), cfg.Max)
	if err != nil {
		return err
	}
	job := &cell.Job{Profile: cell.DefaultProfile, Argv: []string{"/bin/true"}, Limits: limits}
	for range *rounds {
		if _, err := h.Run(context.Background(), job, cell.Streams{}); err != nil {
			return err
		}
		time.Sleep(8 * time.Millisecond)
	}
	fmt.Printf("\nsteps of a cold cell\n%-34s %9s %9s %9s\n", "", "p10 ms", "median", "p90")
	for _, s := range order {
		fmt.Printf("%-34s %9.3f %9.3f %9.3f\n", s, ms(quantile(took[s], 0.1)), ms(quantile(took[s], 0.5)), ms(quantile(took[s], 0.9)))
	}
	return nil
}
