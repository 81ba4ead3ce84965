// Command suite runs the tests of the whole repository twice, as root and again
// as an ordinary user with delegated control groups, and counts them. Run by an
// ordinary user it does only the second half, and says so.
//
//	suite [-half root|user|both] [-race] [-norace PKG,…] [-run RE] [-timeout D] [PACKAGE]…
//
// Packages run two at a time, but for those that measure. Those to whose tests the
// user's id cannot matter run once, as root; the list has the reasons. The race
// detector leaves out those in which nothing runs beside anything else. Nothing is
// vetted: make test does that first.
//
// No test is ever skipped. A test that needs a certain host has it in its name
// and is deselected, and listed, elsewhere:
//
//	AsRoot   needs root, or is long and the same for others
//	AsUser   needs an ordinary user
//	OnV1     needs cgroup v1       OnV2     needs cgroup v2 with a memory controller
//	OnVM     needs a machine of its own, see the package matrix
//	OnChromium  clicks in a browser      OnBundle  needs what make page brings
//
// A test that skips itself all the same counts as failed. The last line is
// "N passed, M failed".
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// settings are the command line's.
type settings struct {
	half     string
	race     bool
	norace   string
	run      string
	timeout  time.Duration
	packages []string
}

func main() {
	var s settings
	flag.StringVar(&s.half, "half", "both", "`root`, user or both")
	flag.BoolVar(&s.race, "race", false, "use the race detector in the half as root")
	flag.StringVar(&s.norace, "norace", "", "`packages` without it, with commas")
	flag.StringVar(&s.run, "run", "", "only tests that match this `pattern`")
	flag.DurationVar(&s.timeout, "timeout", 10*time.Minute, "the longest that one package may take")
	flag.Parse()
	s.packages = flag.Args()
	if len(s.packages) == 0 {
		s.packages = []string{"./..."}
	}
	total, err := s.both()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		total.failed++
	}
	fmt.Printf("%d passed, %d failed\n", total.passed, total.failed)
	if total.failed > 0 || total.passed == 0 {
		os.Exit(1)
	}
}

func (s *settings) both() (count, error) {
	var total count
	for _, p := range programs {
		if err := p.build(); err != nil {
			return total, err
		}
	}
	root := os.Geteuid() == 0
	if s.half != "user" {
		if !root {
			fmt.Println("== as root: not run, since this is an ordinary user; run it as root to have both halves")
		} else if err := s.rootHalf(&total); err != nil {
			return total, err
		}
	}
	if s.half == "root" {
		return total, nil
	}
	if !root {
		fmt.Println("== as an ordinary user, in the control groups that are there")
		return total, s.goTest(&total, "AsRoot", ".", nil, nil, s.packages)
	}
	return total, s.userHalf(&total)
}

// program is one that the tests use, with the variable that names it to them.
type program struct{ name, pkg, variable string }

var programs = []program{
	{"glovebox", "./cmd/glovebox", "GLOVEBOX_TEST_COMMAND"},
	{"glovebox-init", "./cmd/glovebox-init", "GLOVEBOX_TEST_INIT"},
	{"glovebox-js", "./cmd/glovebox-js", "GLOVEBOX_TEST_WORKER"},
	{"liar", "./internal/testenv/liar", "GLOVEBOX_TEST_LIAR"},
}

// bin is where they are built, below the tree's root.
const bin = "bin"

// build builds it for all packages, from the present sources.
func (p *program) build() error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(bin, p.name), p.pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// raceSettings keeps each process of a raced program, of which tests start hundreds,
// from waiting a second at its end.
const raceSettings = "GORACE=atexit_sleep_ms=0"

func (s *settings) rootHalf(total *count) error {
	all, err := packages(s.packages)
	if err != nil {
		return err
	}
	if s.race {
		if _, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "gcc")); err != nil {
			fmt.Println("== no C compiler: without the race detector")
			s.race = false
		}
	}
	plain, raced := all, []string(nil)
	if s.race {
		not, err := packages(strings.Split(s.norace, ","))
		if err != nil {
			return err
		}
		every, err := units("./...")
		if err != nil {
			return err
		}
		still, err := calm(every)
		if err != nil {
			return err
		}
		plain, raced = split(all, append(not, still...))
	}
	if len(raced) > 0 {
		fmt.Println("== as root, with the race detector")
		if err := s.goTest(total, "AsUser", ".", []string{"CGO_ENABLED=1", raceSettings}, []string{"-race"}, raced); err != nil {
			return err
		}
	}
	if len(plain) == 0 {
		return nil
	}
	fmt.Println("== as root")
	return s.goTest(total, "AsUser", ".", []string{"CGO_ENABLED=0"}, nil, plain)
}

// split parts all into those in not and the others.
func split(all, not []string) (in, others []string) {
	for _, p := range all {
		if strings.Contains("\n"+strings.Join(not, "\n")+"\n", "\n"+p+"\n") {
			in = append(in, p)
		} else {
			others = append(others, p)
		}
	}
	return in, others
}

// packages are the import paths that go's patterns stand for.
func packages(patterns []string) ([]string, error) {
	if strings.Join(patterns, "") == "" {
		return nil, nil
	}
	cmd := exec.Command("go", append([]string{"list"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.Fields(string(out)), err
}

// alone are packages whose tests hold the clock and the host's counts against what
// they see, on all processors: nothing runs beside them.
var alone = []string{module}

// goTest runs go test in dir and adds up what it says: first what runs alone, then
// the others, as many at a time as there are processors, but two at most, since most
// of them wait more than they compute. deselect is the part of a name that does not
// belong in this half.
func (s *settings) goTest(total *count, deselect, dir string, env, flags, pkgs []string) error {
	all, err := packages(pkgs)
	if err != nil {
		return err
	}
	not := []string{deselect, testenv.CgroupDeselect(), testenv.OnVM}
	names, err := named(".", not)
	if err != nil {
		return err
	}
	for _, n := range names {
		fmt.Println("   deselected:", n)
	}
	first, others := split(all, alone)
	for _, group := range []struct {
		pkgs    []string
		abreast int
	}{{first, 1}, {others, min(2, runtime.NumCPU())}} {
		if len(group.pkgs) == 0 {
			continue
		}
		if err := s.goTestGroup(total, not, dir, env, slices.Concat(flags, []string{"-p", strconv.Itoa(group.abreast)}), group.pkgs); err != nil {
			return err
		}
	}
	return nil
}

func (s *settings) goTestGroup(total *count, not []string, dir string, env, flags, pkgs []string) error {
	args := []string{"test", "-json", "-vet=off", "-timeout", s.timeout.String(), "-skip", testenv.SkipPattern(not)}
	if s.run != "" {
		args = append(args, "-run", s.run)
	}
	cmd := exec.Command("go", append(append(args, flags...), pkgs...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	built, err := filepath.Abs(filepath.Join(dir, bin))
	if err != nil {
		return err
	}
	cmd.Env = os.Environ()
	for _, p := range programs {
		cmd.Env = append(cmd.Env, p.variable+"="+filepath.Join(built, p.name))
	}
	cmd.Env = append(cmd.Env, env...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	before := total.failed
	readErr := total.read(pipe, os.Stdout)
	if err := cmd.Wait(); err != nil && total.failed == before {
		return fmt.Errorf("go test: %w", err) // it failed outside of any test
	}
	return readErr
}
