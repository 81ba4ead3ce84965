// The command run takes guards of the wall away, one at a time, in a copy of
// the tree, and runs the test that must notice:
//
//	go run ./internal/mutations/run                              # the whole list
//	go run ./internal/mutations/run -n 10 -quick -within 4m      # ten of it, by chance
//	go run ./internal/mutations/run -n 10 -quick -seed 7         # the same ten again
//	go run ./internal/mutations/run -run seccomp                 # those with the word in name, file or test
//
// Each line says killed, SURVIVED, or BROKEN for a mutation that does not fit
// or does not compile, or whose test fails without it too. What was not killed is
// named again at the end, and the seed with it. It exits with 1 unless all that were
// tried are killed, and some were. The tests run as the user who runs the command;
// as root more of them do.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/mutations"
)

// settings are the command line's.
type settings struct {
	n      int
	seed   uint64
	word   string
	quick  bool
	within time.Duration
}

func main() {
	var s settings
	flag.IntVar(&s.n, "n", 0, "how many to pick; 0 is all")
	flag.Uint64Var(&s.seed, "seed", 0, "what picks them; 0 is by chance")
	flag.StringVar(&s.word, "run", "", "only those with this `word` in name, file or test")
	flag.BoolVar(&s.quick, "quick", false, "none whose test is slow")
	flag.DurationVar(&s.within, "within", time.Hour*24, "the longest it may take: what is not done by then is left out")
	flag.Parse()
	ok, err := run(&s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// pick returns the mutations to try.
func pick(s *settings) ([]mutations.Mutation, error) {
	all, err := mutations.All()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m mutations.Mutation) bool {
		return s.quick && m.Slow || !strings.Contains(m.Name+" "+m.File+" "+m.Test, s.word)
	})
	if s.n > 0 && s.n < len(all) {
		if s.seed == 0 {
			s.seed = 1 + rand.Uint64N(1_000_000)
		}
		fmt.Printf("%d of %d, seed %d\n", s.n, len(all), s.seed)
		r := rand.New(rand.NewPCG(s.seed, 0))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:s.n]
	}
	return all, nil
}

func run(s *settings) (bool, error) {
	start := time.Now()
	all, err := pick(s)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "glovebox-mutations-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // guests with ids of their own read in it
		return false, err
	}
	if err := copyTree(".", dir); err != nil {
		return false, err
	}
	build := exec.Command("go", "build", "-trimpath", "-o", "bin/glovebox", "./cmd/glovebox") // some tests start it
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return false, fmt.Errorf("build: %w\n%s", err, out)
	}
	ctx, cancel := context.WithDeadline(context.Background(), start.Add(s.within))
	defer cancel()
	count := map[string]int{}
	var bad []string
	sound := map[string]bool{} // tests that pass without a mutation
	for i, m := range all {
		begin := time.Now()
		said, why := try(ctx, dir, m, sound)
		if ctx.Err() != nil { // it may be that which has ended the test
			fmt.Printf("%v are over: %d are left out\n", s.within, len(all)-i)
			break
		}
		count[said]++
		if said != "killed" {
			bad = append(bad, said+" "+m.Name)
		}
		fmt.Printf("%-9s %s (%s, %.1f s)%s\n", said, m.Name, m.Test, time.Since(begin).Seconds(), why)
	}
	for _, b := range bad {
		fmt.Println("not killed:", b)
	}
	fmt.Printf("%d killed, %d survived, %d broken, %.0f s\n", count["killed"], count["SURVIVED"], count["BROKEN"], time.Since(start).Seconds())
	return len(bad) == 0 && count["killed"] > 0, nil
}

// try runs the test of one mutation without it, once for each test, and with
// it, and puts the file back.
func try(ctx context.Context, dir string, m mutations.Mutation, sound map[string]bool) (said, why string) {
	key := m.Package + " " + m.Test
	if !sound[key] {
		if out, err := test(ctx, dir, m); err != nil || strings.Contains(out, "no tests to run") {
			return "BROKEN", ": fails without it too\n" + tail(out)
		}
		sound[key] = true
	}
	file := filepath.Join(dir, m.File)
	raw, err := os.ReadFile(file)
	if err != nil {
		return "BROKEN", ": " + err.Error()
	}
	mutated, err := m.Apply(string(raw))
	if err == nil {
		err = os.WriteFile(file, []byte(mutated), 0o644)
	}
	if err != nil {
		return "BROKEN", ": " + err.Error()
	}
	out, err := test(ctx, dir, m)
	if put := os.WriteFile(file, raw, 0o644); put != nil {
		return "BROKEN", ": " + put.Error()
	}
	switch {
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "build glovebox-init:"):
		return "BROKEN", ": does not compile\n" + tail(out)
	case err == nil:
		return "SURVIVED", ""
	}
	return "killed", ""
}

// test runs the test of a mutation; the error says that it failed.
func test(ctx context.Context, dir string, m mutations.Mutation) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	parts := strings.Split(m.Test, "/")
	for i := range parts {
		parts[i] = "^" + parts[i] + "$"
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-timeout=2m", "-run", strings.Join(parts, "/"), m.Package)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GLOVEBOX_TEST_INIT=") { // it would be the unbroken one
			cmd.Env = append(cmd.Env, e)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func tail(s string) string {
	return s[max(0, len(s)-1500):]
}

// copyTree copies the files of the repository, without what git, the build and
// the caches keep there.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == ".git" || path == ".cache" || path == "bin" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		target := filepath.Join(to, path)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, raw, info.Mode().Perm())
	})
}
