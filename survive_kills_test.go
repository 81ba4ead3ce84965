package glovebox_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// seedVar repeats the random choices of a test: it prints the seed that it had.
const seedVar = "GLOVEBOX_TEST_SEED"

func randomSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(seedVar); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", seedVar, seed)
	return seed
}

// killer is a Box whose processes are killed while it runs programs, one at a time,
// so that whoever is in its tree belongs to the one run, or to none.
type killer struct {
	t        *testing.T
	b        *glovebox.Box
	launcher int // the number it had when last seen, 0 if never
}

// scene is one run and what is known of it so far.
type scene struct {
	k                        *killer
	rng                      *rand.Rand
	mark                     string
	folder                   bool
	started, ready, compiled chan struct{}
	over                     chan struct{}
	running                  *glovebox.Running
}

// kill is one way to end a process of a run. What it may come to is exact: every
// other end is a fault. The ends are those of killedEnd; "setup_failed …" stands for
// every stage before the guest runs.
type kill struct {
	name    string
	program func(s *scene) glovebox.Program
	options []glovebox.RunOption
	before  func(s *scene) bool // ends processes before the run begins
	do      func(s *scene) bool // and while it runs; false: there was none to end
	want    []string
	missed  string // how the run ends when nothing was killed, "" if that must not be
	rare    bool   // it takes long
}

// pickKill returns a kill by chance, rare ones in a third of the cases.
func pickKill(rng *rand.Rand) kill {
	for {
		if k := kills[rng.IntN(len(kills))]; !k.rare || rng.IntN(3) == 0 {
			return k
		}
	}
}

func commandOf(argv ...string) func(*scene) glovebox.Program {
	return func(*scene) glovebox.Program { return glovebox.Program{Command: argv} }
}

var (
	sleeping = commandOf("sleep", "5")
	shortly  = commandOf("/bin/true")
	fileful  = func(*scene) glovebox.Program {
		return shell("for i in {1..400}; do echo $i >$i; done; echo ready; read x; exit 0", "*")
	}
	compiling = func(*scene) glovebox.Program { return cSource("main.c", "int main(void) { return 0; }\n") }
	inFolder  = glovebox.WithFolder("/usr/share/base-passwd", "/data")
)

// kills are all of them. The first words of a name say who is ended, the rest when.
var kills = []kill{
	{name: "guest", program: sleeping, do: running(guest), want: []string{"error SIGKILL"}},
	{name: "init", program: sleeping, do: running(initOf), want: []string{"setup_failed init"}},
	{name: "launcher", program: sleeping, do: running(launcherOf), want: []string{"setup_failed init"}},
	{name: "guest's child", program: commandOf("sh", "-c", "sleep 5; exit $?"), do: running(child), want: []string{"error 137"}},
	{name: "guest in a folder", rare: true, program: sleeping, options: []glovebox.RunOption{inFolder}, do: running(guest), want: []string{"error SIGKILL"}},
	{name: "init in a folder", rare: true, program: sleeping, options: []glovebox.RunOption{inFolder}, do: running(initOf), want: []string{"setup_failed init"}},
	{name: "launcher in a folder", rare: true, program: sleeping, options: []glovebox.RunOption{inFolder}, do: running(launcherOf), want: []string{"setup_failed init"}},
	{name: "compiler", rare: true, program: compiling, do: building(guest), want: []string{"compile_error", "ok 0", "error SIGKILL", "setup_failed job"}, missed: "ok 0"},
	{name: "init of the compiler", rare: true, program: compiling, do: building(initOf), want: []string{"setup_failed init", "ok 0", "setup_failed job", "setup_failed collect"}, missed: "ok 0"},
	{name: "launcher of the compiler", rare: true, program: compiling, do: building(launcherOf), want: []string{"setup_failed init", "ok 0", "setup_failed job", "setup_failed collect"}, missed: "ok 0"},
	{name: "init while it collects", rare: true, program: fileful, options: []glovebox.RunOption{glovebox.WithStdinPipe()}, do: collecting(initOf), want: []string{"ok 0", "setup_failed init"}},
	{name: "launcher while it collects", rare: true, program: fileful, options: []glovebox.RunOption{glovebox.WithStdinPipe()}, do: collecting(launcherOf), want: []string{"ok 0", "setup_failed init"}},
	{name: "armed cells", program: shortly, before: idle, want: []string{"ok 0"}, missed: "ok 0"},
	{name: "launcher between runs", rare: true, program: shortly, before: idleLauncher, want: []string{"ok 0"}, missed: "ok 0"},
	{name: "an init at any time", program: shortly, do: anyTime(someInit), want: []string{"ok 0", "setup_failed …", "setup_failed init"}, missed: "ok 0"},
	{name: "the launcher at any time", program: shortly, do: anyTime(someLauncher), want: []string{"ok 0", "setup_failed …", "setup_failed init"}, missed: "ok 0"},
	{name: "an init of a compiled program", rare: true, program: compiling, do: anyTime(someInit), want: []string{"ok 0", "setup_failed …", "setup_failed init", "setup_failed collect"}, missed: "ok 0"},
	{name: "the launcher of a compiled program", rare: true, program: compiling, do: anyTime(someLauncher), want: []string{"ok 0", "setup_failed …", "setup_failed init", "setup_failed collect"}, missed: "ok 0"},
	{name: "anyone of a compiled program", rare: true, program: compiling, do: anyTime(someone), want: []string{"ok 0", "compile_error", "error SIGKILL", "setup_failed …", "setup_failed init", "setup_failed collect"}, missed: "ok 0"},
	{name: "nobody", program: shortly, do: func(*scene) bool { return true }, want: []string{"ok 0"}},
}

// stagesBefore are those of a run whose guest does not run yet.
var stagesBefore = []string{"prepare", "arm", "attest", "cgroup", "job"}

// killedEnd is the end of a run in the words of the table.
func killedEnd(r *glovebox.Result) string {
	if r.Verdict == "setup_failed" {
		return "setup_failed " + r.Stage
	}
	return ended(r)
}

// victims find a process of a run by its place in the tree of the Box.

// guest is the first process of the program, or any of the compiler.
func guest(s *scene) int {
	if s.compiled != nil {
		return s.compiler()
	}
	for try := range 2000 { // the kernel's list leaves some out while others end
		tree := s.k.launcher
		if s.folder || tree == 0 || try%10 == 9 { // another launcher, or one that has taken its place
			tree = os.Getpid()
		}
		for _, pid := range testenv.Descendants(tree) {
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if strings.Contains(string(env), "MARK="+s.mark+"\x00") {
				return pid
			}
		}
		select {
		case <-s.over:
			return 0
		case <-time.After(time.Millisecond): // it was started: it is there
		}
	}
	return 0
}

// compiler is a process below an init of the Box.
func (s *scene) compiler() int {
	for _, init := range testenv.Children(s.k.launcher) {
		if all := testenv.Descendants(init); len(all) > 0 {
			return all[s.rng.IntN(len(all))]
		}
	}
	return 0
}

func child(s *scene) int {
	for try := 0; try < 2000; try++ {
		if all := testenv.Children(guest(s)); len(all) > 0 {
			return all[0]
		}
		<-time.After(time.Millisecond) // the shell forks when it likes
	}
	return 0
}

func initOf(s *scene) int {
	if s.compiled == nil {
		return testenv.Parent(guest(s))
	}
	for _, init := range testenv.Children(s.k.launcher) {
		if len(testenv.Children(init)) > 0 {
			return init
		}
	}
	return 0
}

func launcherOf(s *scene) int { return testenv.Parent(initOf(s)) }

func someLauncher(s *scene) int { return s.k.launcher }
func someInit(s *scene) int     { return s.pick(testenv.Children(s.k.launcher)) }
func someone(s *scene) int {
	return s.pick(append(testenv.Descendants(s.k.launcher), s.k.launcher))
}

func (s *scene) pick(all []int) int {
	if len(all) == 0 {
		return 0
	}
	return all[s.rng.IntN(len(all))]
}

// end kills a process that is this test's own, and sees it end: the next run is to find
// it dead.
func end(pid int) bool {
	if pid == os.Getpid() || pid == 0 {
		return false
	}
	fd := testenv.HoldDescendant(pid)
	if fd < 0 {
		return false
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil && testenv.EndsWithin(fd, 10*time.Second)
}

// moments say when a process is ended.

func running(whom func(*scene) int) func(*scene) bool {
	return func(s *scene) bool {
		return s.await(s.started) && end(whom(s))
	}
}

// building is while the compiler has a process.
func building(whom func(*scene) int) func(*scene) bool {
	return func(s *scene) bool {
		for {
			if s.compiler() != 0 {
				return end(whom(s))
			}
			select {
			case <-s.compiled:
				return false
			case <-s.over:
				return false
			case <-time.After(time.Millisecond): // nothing tells when a compiler starts
			}
		}
	}
}

// collecting is shortly after the guest has ended by itself.
func collecting(whom func(*scene) int) func(*scene) bool {
	return func(s *scene) bool {
		if !s.await(s.ready) {
			return false
		}
		g, fd := testenv.HoldDescendant(guest(s)), testenv.HoldDescendant(whom(s))
		if g < 0 || fd < 0 {
			return false
		}
		defer unix.Close(g)
		defer unix.Close(fd)
		s.running.Stdin().Close()
		testenv.EndsWithin(g, 10*time.Second)
		s.pause(6 * time.Millisecond)
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may be gone
		return testenv.EndsWithin(fd, 10*time.Second)
	}
}

func anyTime(whom func(*scene) int) func(*scene) bool {
	return func(s *scene) bool {
		s.pause(map[bool]time.Duration{true: 120, false: 15}[s.compiled != nil] * time.Millisecond)
		return end(whom(s))
	}
}

// idle ends every init that waits, and sees their ends.
func idle(s *scene) bool {
	var fds []int
	for _, pid := range testenv.Children(s.k.launcher) {
		if fd := testenv.HoldDescendant(pid); fd >= 0 {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			fds = append(fds, fd)
		}
	}
	return s.k.gone(fds...)
}

func idleLauncher(s *scene) bool {
	fd := testenv.HoldDescendant(s.k.launcher)
	if fd < 0 {
		return false
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	return s.k.gone(fd)
}

func (k *killer) gone(fds ...int) bool {
	all := len(fds) > 0
	for _, fd := range fds {
		all = testenv.EndsWithin(fd, 10*time.Second) && all
		unix.Close(fd)
	}
	return all
}

// pause is for a random time.
func (s *scene) pause(most time.Duration) {
	select {
	case <-time.After(time.Duration(s.rng.Int64N(int64(most)))):
	case <-s.over:
	}
}

// await waits for a moment of the run, or for its end.
func (s *scene) await(moment <-chan struct{}) bool {
	select {
	case <-moment:
		return true
	case <-s.over:
		return false
	}
}

// hangs is longer than any run of these takes, and less than the time that the host
// gives a launcher or an init to answer: no run may have waited for a dead one.
const hangs = 9 * time.Second

// run runs one program, has a process of it killed, and judges its end, in words
// for a count of them.
func (k *killer) run(seed uint64, i int) string {
	s := &scene{k: k, rng: rand.New(rand.NewPCG(seed, uint64(i))), mark: fmt.Sprintf("kill-%d-%d", seed, i),
		started: make(chan struct{}), ready: make(chan struct{}), over: make(chan struct{})}
	c := pickKill(s.rng)
	s.folder = strings.HasSuffix(c.name, "in a folder")
	k.learn()
	p := c.program(s)
	p.Env = map[string]string{"MARK": s.mark}
	p.Limits.WallMS = 10_000
	if p.Language == "c" {
		s.compiled = make(chan struct{})
	}
	hit := c.before == nil || c.before(s)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	begin := time.Now()
	var err error
	if s.running, err = k.b.Start(ctx, p, append(slices.Clone(c.options), glovebox.WithEvents(s.event))...); err != nil {
		k.t.Errorf("run %d (%s): %v", i, c.name, err)
		return "no start"
	}
	var r *glovebox.Result
	go func() {
		defer close(s.over)
		r, err = s.running.Wait()
	}()
	if c.do != nil {
		hit = c.do(s)
	}
	<-s.over
	took := time.Since(begin)
	if err != nil {
		k.t.Errorf("run %d (%s): %v", i, c.name, err)
		return "error"
	}
	k.judge(i, &c, r, hit, took)
	return fmt.Sprintf("%s: %s", c.name, killedEnd(r))
}

func (s *scene) event(e glovebox.Event) {
	switch {
	case e.Type == "started":
		close(s.started)
	case e.Type == "compiled" && s.compiled != nil:
		close(s.compiled)
	case e.Type == "chunk" && strings.Contains(e.Data, "ready"):
		close(s.ready)
	}
}

// judge wants one of the ends that a kill may come to, told as it must be, in time.
func (k *killer) judge(i int, c *kill, r *glovebox.Result, hit bool, took time.Duration) {
	k.t.Helper()
	got, want := killedEnd(r), c.want
	if !hit {
		want = []string{c.missed}
	}
	fine := slices.Contains(want, got) || slices.Contains(want, "setup_failed …") && r.Verdict == "setup_failed" && slices.Contains(stagesBefore, r.Stage)
	if setup := r.Verdict == "setup_failed"; setup != (r.Stage != "") || setup && (r.Message == "" || r.ExitCode != nil || r.Signal != "") {
		fine = false
	}
	if c.name == "init while it collects" || c.name == "launcher while it collects" {
		whole := len(r.Artifacts) == 401 && len(r.RefusedArtifacts) == 0
		none := len(r.Artifacts) == 0 && len(r.RefusedArtifacts) == 1 && strings.HasPrefix(r.RefusedArtifacts[0].Reason, "collecting failed: ")
		fine = fine && (whole || none || r.Verdict == "setup_failed") // before init could report the end
	}
	if !fine || took > hangs {
		k.t.Errorf("run %d (%s, hit %v): %q after %v, want one of %q; %s; %d artifacts, refused %.200v", i, c.name, hit, got, took, want, r.Message,
			len(r.Artifacts), r.RefusedArtifacts)
	}
}

// learn finds the launcher when the last one known has ended: by a guest of it.
func (k *killer) learn() {
	if fd := testenv.HoldDescendant(k.launcher); fd >= 0 {
		alive := !testenv.EndsWithin(fd, 0)
		unix.Close(fd)
		if alive {
			return
		}
	}
	s := &scene{k: k, mark: fmt.Sprintf("learn-%p-%d", k, time.Now().UnixNano()), started: make(chan struct{}), over: make(chan struct{})}
	p := glovebox.Program{Command: []string{"sh", "-c", "read x; exit 3"}, Env: map[string]string{"MARK": s.mark}}
	k.launcher = 0
	running, err := k.b.Start(context.Background(), p, glovebox.WithStdinPipe(), glovebox.WithEvents(s.event))
	if err != nil {
		k.t.Errorf("after a kill: %v", err)
		return
	}
	select {
	case <-s.started:
		k.launcher = launcherOf(s)
	case <-time.After(20 * time.Second):
	}
	running.Stdin().Close()
	if r, err := running.Wait(); err != nil || ended(r) != "error 3" || k.launcher == 0 {
		k.t.Errorf("after a kill: %v %+v, launcher %d", err, r, k.launcher)
	}
}

// fill has every reserve of the Box filled, that of compilers too.
func (k *killer) fill() {
	for _, p := range []glovebox.Program{compiling(nil), shortly(nil)} {
		if r, err := k.b.Run(context.Background(), p); err != nil || ended(r) != "ok 0" {
			k.t.Errorf("after the kills: %v %+v", err, r)
		}
	}
}

// wearDownByKills runs so many cells in which something is killed, and compares what
// is used before and after.
func wearDownByKills(t *testing.T, cells int) {
	t.Setenv("TMPDIR", t.TempDir())
	seed := randomSeed(t)
	const boxes = 4
	free := make(chan *killer, boxes)
	for range boxes {
		o := options()
		o.Armed = 1
		free <- &killer{t: t, b: newBox(t, o)}
	}
	ends := make(chan string, cells+100)
	step := testenv.Progress(t, cells)
	one := func(i int) {
		k := <-free
		ends <- k.run(seed, i)
		free <- k
	}
	// A kill may leave a reserve empty until the next run asks for it: both counts are of
	// full ones.
	full := func(wears func()) func() {
		return func() {
			wears()
			for range boxes {
				k := <-free
				k.fill()
				free <- k
			}
		}
	}
	flat(t, full(func() { abreast(40, boxes, func(i int) { one(cells + i) }) }), full(func() { abreast(cells, boxes, func(i int) { one(i); step() }) }))
	close(ends)
	count := map[string]int{}
	for e := range ends {
		count[e]++
	}
	for _, e := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%5d %s", count[e], e)
	}
}

// Five hundred cells of which guests, inits, launchers and compilers are killed at
// every stage, by chance: each run ends in time with the verdict that this kill has,
// and the host is left as it was. An ordinary user, who can kill the same, has two
// hundred.
//
// proves T-10
func TestSurviveKills(t *testing.T) { wearDownByKills(t, map[bool]int{true: 500, false: 200}[asRoot]) }
