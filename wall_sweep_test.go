package glovebox_test

import (
	"embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/seccomp"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// updateSweep adds the answers of this kernel to the tables in testdata/sweep. It never takes one away.
//
//	go test -run WallSweep -update-sweep .
var updateSweep = flag.Bool("update-sweep", false, "add this kernel's answers to testdata/sweep")

// sweepFiles lets the test run on machines that have no checkout.
//
//go:embed testdata/sweep
var sweepFiles embed.FS

// swept is one row of a table in testdata/sweep: a call and what may come of it, for arguments that are all zero and
// all ones. Kernels differ, so each is a set; the last column says why.
type swept struct {
	zero, ones []string
	why        string
}

// above is how many numbers behind the last of the table are tried too.
const above = 32

// readSweep reads a table: NAME, tab, answers, tab, answers, tab, why. Answers are parted by "|".
func readSweep(t *testing.T, file string) map[string]swept {
	t.Helper()
	raw, err := sweepFiles.ReadFile(file)
	if err != nil && !*updateSweep {
		t.Fatal(err)
	}
	rows := map[string]swept{}
	for n, line := range strings.Split(string(raw), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 || f[3] == "" || rows[f[0]].why != "" {
			t.Fatalf("%s:%d: want a name that is new, two columns of answers, and why", file, n+1)
		}
		rows[f[0]] = swept{strings.Split(f[1], "|"), strings.Split(f[2], "|"), f[3]}
	}
	return rows
}

func writeSweep(t *testing.T, file, profile string, rows map[string]swept) {
	t.Helper()
	var names []string
	for name := range rows {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintf(&b, "# What a sealed process of the profile %s gets from each system call: name, answer to arguments that are all zero,\n", profile)
	b.WriteString("# to all ones, why. See wall_sweep_test.go. \"unknown\" is every number without a name, to the end of the table and beyond.\n")
	for _, name := range names {
		r := rows[name]
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", name, strings.Join(r.zero, "|"), strings.Join(r.ones, "|"), r.why)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sweep runs the sweeping program over numbers and returns the two answers of each.
func sweep(t *testing.T, b *glovebox.Box, p glovebox.Program, seccompMode string, numbers []int) map[int][2]string {
	t.Helper()
	p.Args = []string{seccompMode}
	for _, nr := range numbers {
		p.Args = append(p.Args, strconv.Itoa(nr))
	}
	p.Limits.WallMS, p.Limits.CPUMS = 60_000, 30_000
	r := run(t, b, p)
	out := map[int][2]string{}
	if !strings.HasPrefix(r.Stdout, "confined\n") || !strings.HasSuffix(r.Stdout, "\ndone\n") {
		tail := r.Stdout[max(0, len(r.Stdout)-300):]
		t.Fatalf("%s %s %s, output ends %q, stderr %q", r.Verdict, r.Syscall, r.Signal, tail, r.Stderr)
	}
	for line := range strings.Lines(r.Stdout) {
		if f := strings.Fields(line); len(f) == 3 {
			nr, err := strconv.Atoi(f[0])
			if err != nil {
				t.Fatal(err)
			}
			out[nr] = [2]string{answerName(f[1]), answerName(f[2])}
		}
	}
	if len(out) != len(numbers) {
		t.Fatalf("%d answers to %d numbers", len(out), len(numbers))
	}
	return out
}

// answerName turns the number of an errno into its name.
func answerName(s string) string {
	if n, err := strconv.Atoi(s); err == nil {
		if name := unix.ErrnoName(unix.Errno(n)); name != "" {
			return name
		}
	}
	return s
}

// sweepNumbers are all numbers of this machine's table and beyond, without those of the kill class.
func sweepNumbers(a seccomp.Arch, p *seccomp.Policy) (live, killed []int) {
	last := 0
	for nr := range 2048 {
		if seccomp.Name(a, nr) != "" {
			last = nr
		}
	}
	for nr := range last + 1 + above {
		if slices.Contains(p.Killed(), seccomp.Name(a, nr)) {
			killed = append(killed, nr)
		} else {
			live = append(live, nr)
		}
	}
	return live, killed
}

// row is the name under which a number stands in a table.
func row(a seccomp.Arch, nr int) string {
	if name := seccomp.Name(a, nr); name != "" {
		return name
	}
	return "unknown"
}

// reasonFor is what a new row of a table says.
func reasonFor(p *seccomp.Policy, name string, a seccomp.Answer) string {
	if name == "unknown" {
		return "no such call"
	}
	return map[seccomp.Kind]string{seccomp.Allow: "allowed", seccomp.Refuse: "refused", seccomp.Kill: "the cell ends"}[a.Kind] + ": " + p.Reason(name)
}

// sweepProfile is one profile and how a program gets into it.
type sweepProfile struct {
	name, profile, network string
	opts                   seccomp.Options
}

var sweepProfiles = []sweepProfile{
	{"language", "language", "", seccomp.Options{}},
	{"language-loopback", "language", "loopback", seccomp.Options{Loopback: true}},
	{"compile", "compile", "", seccomp.Options{}},
}

// sweepAnswers makes every call in cells of a profile: those of the kill class in one cell each, where the verdict
// must name the call, all others one after the other.
func sweepAnswers(t *testing.T, b *glovebox.Box, prog glovebox.Program, a seccomp.Arch, p *seccomp.Policy) map[int][2]string {
	t.Helper()
	live, killed := sweepNumbers(a, p)
	got := sweep(t, b, prog, "2", live)
	for _, nr := range killed {
		one := prog
		one.Args = []string{"2", strconv.Itoa(nr)}
		r := run(t, b, one)
		got[nr] = [2]string{string(r.Verdict), string(r.Verdict)}
		if r.Stdout != "confined\n" || r.Syscall != seccomp.Name(a, nr) {
			t.Errorf("%s: verdict %s, call %q, output %q", seccomp.Name(a, nr), r.Verdict, r.Syscall, r.Stdout)
		}
	}
	return got
}

// unfiltered are calls that newer kernels keep from every filter, and what makes them harmless.
var unfiltered = map[string]string{
	"uretprobe": "x86: ends a process with SIGILL that does not come from the kernel's own page",
	"uprobe":    "x86: answers ENXIO to whoever does not come from the kernel's own page",
}

// Every system call of this machine, and every number without one, is made from a sealed process that has first read
// its own confinement from the kernel: one throwaway process a call, and a cell each for the calls that end it. What
// the policy refuses is refused with its errno; everything else answers what a table with a reason for each call says.
//
// proves T-07
// proves part of O-21 H-40 T-20
func TestWallSweep(t *testing.T) {
	a, ok := seccomp.Host()
	if !ok {
		t.Fatal("no table for this machine")
	}
	b := kernelBox(t)
	for _, sp := range sweepProfiles {
		t.Run(sp.name, func(t *testing.T) {
			p, err := seccomp.Load(sp.profile, sp.opts)
			if err != nil {
				t.Fatal(err)
			}
			prog := sweeper(t)
			prog.Profile, prog.Network = sp.profile, sp.network
			got := sweepAnswers(t, b, prog, a, p)
			file := filepath.Join("testdata", "sweep", sp.name+".txt")
			table := readSweep(t, file)
			for nr, said := range got {
				name := row(a, nr)
				for i, ones := range []uint64{0, ^uint64(0)} {
					want := p.Action(a, nr, [6]uint64{ones, ones, ones, ones, ones, ones})
					if unfiltered[name] == "" && want.Kind == seccomp.Refuse && said[i] != unix.ErrnoName(want.Errno) || (want.Kind == seccomp.Kill) != (said[i] == "denied") {
						t.Errorf("%s (%d) with %#x: the policy says %v, the kernel %s", name, nr, ones, want, said[i])
					}
				}
				if *updateSweep {
					table[name] = added(table[name], said, reasonFor(p, name, p.Action(a, nr, [6]uint64{})))
				}
				if r := table[name]; !slices.Contains(r.zero, said[0]) || !slices.Contains(r.ones, said[1]) {
					t.Errorf("%s (%d) answers %s and %s, not in the table: %v, %v", name, nr, said[0], said[1], r.zero, r.ones)
				}
			}
			if *updateSweep {
				writeSweep(t, file, sp.name, table)
			}
			if len(table) < 300 || len(got) < 400 {
				t.Errorf("%d rows, %d numbers", len(table), len(got))
			}
		})
	}
}

// added is a row with one more answer in each column.
func added(r swept, said [2]string, why string) swept {
	for i, to := range []*[]string{&r.zero, &r.ones} {
		if !slices.Contains(*to, said[i]) {
			*to = append(*to, said[i])
			slices.Sort(*to)
		}
	}
	if r.why == "" {
		r.why = why
	}
	return r
}

// Without the filter the same program, still confined by every other layer, hears something else from the kernel: so
// the answers of the sweep are the filter's. The calls that capabilities guard answer EPERM either way and are not
// among those that must differ.
//
// proves part of T-04
func TestWallSweepControl(t *testing.T) {
	a, ok := seccomp.Host()
	if !ok {
		t.Fatal("no table for this machine")
	}
	p, err := seccomp.Load("language", seccomp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int
	for nr := range 512 {
		// sync would write back the whole host, and has its control in TestWallKernelRefused.
		if name := seccomp.Name(a, nr); name != "" && name != "sync" && p.Action(a, nr, [6]uint64{}).Kind != seccomp.Allow {
			numbers = append(numbers, nr)
		}
	}
	got := sweep(t, without(t, "seccomp"), sweeper(t), "0", numbers)
	table := readSweep(t, filepath.Join("testdata", "sweep", "language.txt"))
	differ := 0
	for _, name := range append(strings.Fields(mustDiffer), p.Killed()...) {
		nr, ok := seccomp.Number(a, name)
		if !ok {
			continue // another machine's
		}
		if said, r := got[nr], table[name]; slices.Contains(r.zero, said[0]) && slices.Contains(r.ones, said[1]) {
			t.Errorf("%s answers %s and %s without the filter, as with it", name, said[0], said[1])
		} else {
			differ++
		}
	}
	if differ < 90 {
		t.Errorf("only %d answers are the filter's", differ)
	}
	// A program that finds itself without the filter that it expects makes no call at all.
	prog := sweeper(t)
	prog.Args = []string{"2", strconv.Itoa(numbers[0])}
	if r := run(t, without(t, "seccomp"), prog); !strings.HasPrefix(r.Stdout, "not confined") || r.ExitCode == nil || *r.ExitCode != 9 {
		t.Errorf("without the filter that it expects: %s, exit %v, %q", r.Verdict, r.ExitCode, r.Stdout)
	}
}

// mustDiffer are calls that the kernel itself answers otherwise than the filter, whatever it was configured with. The
// kill class is added.
const mustDiffer = `accept accept4 add_key adjtimex bind chroot clock_adjtime clock_settime clone clone3 connect fremovexattr fsetxattr
	inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_destroy io_setup io_submit ioctl ioprio_get ioprio_set
	keyctl listen lremovexattr lsetxattr mincore msgctl msgget msgrcv msgsnd name_to_handle_at perf_event_open personality readahead
	recvmmsg removexattr request_key sched_setattr sched_setparam sched_setscheduler seccomp semctl semget semop semtimedop sendmmsg
	setsockopt settimeofday setxattr shmat shmctl shmdt shmget socket socketpair splice syncfs tee unshare ustat vmsplice`

// sweeper is the sweeping program, compiled here, or the one that GLOVEBOX_TEST_SWEEP names on a machine that has no
// compiler.
func sweeper(t *testing.T) glovebox.Program {
	t.Helper()
	if path := os.Getenv("GLOVEBOX_TEST_SWEEP"); path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return binary(raw)
	}
	source, err := sweepFiles.ReadFile("testdata/sweep/sweep.c")
	if err != nil {
		t.Fatal(err)
	}
	return binary(testenv.C(t, string(source)))
}
