package redteam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/landlock"
	"github.com/glovebox-dev/glovebox/languages"
)

// Bounds of a whole battery and of one program in it, with room for an emulated
// processor on a busy host, on which Python alone needs many seconds to start.
const (
	maxTime = 10 * time.Minute
	wallMS  = 60_000
	cpuMS   = 60_000
)

// compiledBefore is what tests of this package have compiled once for all of them,
// nil outside of them.
var compiledBefore *sync.Map

// Options of [Fire].
type Options struct {
	// InitPath is the glovebox-init program; empty: beside the running one.
	InitPath string
	// Only is a pattern as in path.Match for GROUP/ATTACK or GROUP, or several,
	// with commas between them. Empty means all.
	Only string
	// Done, if there is one, gets each row as it is known.
	Done func(Row)
}

// Row is what came of one attack.
type Row struct {
	Attack string   `json:"attack"` // GROUP/NAME
	Claim  string   `json:"claim"`
	IDs    []string `json:"ids"`
	Layers []string `json:"layers"`
	// Stopped says that the whole cell stopped it, by every witness of its file;
	// StoppedBy is what the kernel answered.
	Stopped   bool   `json:"stopped"`
	StoppedBy string `json:"stopped_by"`
	// Without are the parts that the control lacks, and Through says that the
	// same program got through there.
	Without []string `json:"without"`
	Through bool     `json:"through"`
	// Reason says what was otherwise than expected.
	Reason string `json:"reason,omitempty"`
	// NotFired says why neither was run; such a row counts as nothing else.
	NotFired string  `json:"not_fired,omitempty"`
	MS       float64 `json:"ms"`
}

// Good tells whether the attack was stopped and its control got through.
func (r Row) Good() bool { return r.Stopped && r.Through }

// Report is what came of a battery.
type Report struct {
	Attacks    int    `json:"attacks"` // that were fired
	Stopped    int    `json:"stopped"`
	Through    int    `json:"through"` // controls
	NotFired   int    `json:"not_fired"`
	Rows       []Row  `json:"rows"`
	Kernel     string `json:"kernel"`
	User       string `json:"user"`
	APIVersion string `json:"api_version"`
}

// Good tells whether something was fired, all of it was stopped, and every
// control got through.
func (r *Report) Good() bool {
	return r.Attacks > 0 && r.Stopped == r.Attacks && r.Through == r.Attacks
}

// ErrPattern is for a pattern that is none, or that no attack matches.
var ErrPattern = errors.New("no attack matches")

// Groups are the names of the groups of attacks.
func Groups() []string { return slices.Clone(groups) }

// List tells of the attacks that a pattern picks, none if it picks none, without
// firing one.
func List(only string) []Row {
	all, err := load()
	if err == nil {
		all, err = pick(all, only)
	}
	var out []Row
	for _, a := range all {
		if err == nil {
			out = append(out, a.row())
		}
	}
	return out
}

// row is what is known of an attack before it is fired.
func (a *attack) row() Row {
	return Row{Attack: a.id(), Claim: a.claim, IDs: a.ids, Layers: a.layers, Without: a.off, NotFired: a.unfit()}
}

// Fire fires the battery. It refuses, with an error that wraps
// api.ErrSandboxUnavailable, unless every layer of the sandbox holds on this
// host. When the context ends, the attack that runs is ended and the error is
// the context's. Nothing is left behind in either case.
func Fire(ctx context.Context, o Options) (*Report, error) {
	all, err := load()
	if err != nil {
		return nil, err
	}
	if all, err = pick(all, o.Only); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("the battery took longer than %v", maxTime))
	defer cancel()
	r, err := open(o.InitPath, cell.Require)
	if err != nil {
		return nil, err
	}
	r.compiled = cmp.Or(compiledBefore, r.compiled)
	return r.fireAll(ctx, all, o.Done)
}

// fireAll fires these attacks and closes the runner.
func (r *runner) fireAll(ctx context.Context, all []*attack, done func(Row)) (*Report, error) {
	status := r.whole.Status()
	var err error
	report := &Report{Kernel: status.Kernel, User: status.User, APIVersion: api.Version, Rows: []Row{}}
	for _, a := range all {
		var row Row
		if row, err = r.fire(ctx, a); err != nil {
			break
		}
		report.add(row)
		if done != nil {
			done(row)
		}
	}
	return report, errors.Join(err, r.close())
}

// pick takes the attacks that a pattern names.
func pick(all []*attack, only string) ([]*attack, error) {
	if only == "" {
		return all, nil
	}
	wanted := map[*attack]bool{}
	for _, one := range strings.Split(only, ",") {
		if _, err := path.Match(one, ""); err != nil {
			return nil, fmt.Errorf("%w %q, which is no pattern", ErrPattern, one)
		}
		some := false
		for _, a := range all {
			whole, _ := path.Match(one, a.id())
			group, _ := path.Match(one, a.group)
			some = some || whole || group
			wanted[a] = wanted[a] || whole || group
		}
		if !some {
			return nil, fmt.Errorf("%w %q", ErrPattern, one)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(a *attack) bool { return !wanted[a] }), nil
}

func (r *Report) add(row Row) {
	r.Rows = append(r.Rows, row)
	if row.NotFired != "" {
		r.NotFired++
		return
	}
	r.Attacks++
	if row.Stopped {
		r.Stopped++
	}
	if row.Through {
		r.Through++
	}
}

// runner holds the hosts: the whole one, and one for each control.
type runner struct {
	init     string
	mode     cell.Mode // of the whole host
	whole    *cell.Host
	controls map[string]*cell.Host
	leaks    *leaks
	compiled *sync.Map // what was compiled: digest of the sources to the program
}

// open opens the whole host, which must have every layer, unless a test takes
// what there is (auto).
func open(init string, mode cell.Mode) (*runner, error) {
	r := &runner{init: init, mode: mode, controls: map[string]*cell.Host{}, compiled: &sync.Map{}}
	var err error
	if r.leaks, err = leak(); err != nil {
		return nil, err
	}
	if r.whole, err = cell.Open(r.config(nil)); err != nil {
		r.leaks.close()
		return nil, err
	}
	return r, nil
}

// config is that of a host whose cells lack some parts, none for the whole one.
// It is the only place outside of tests from which a part can be left out, and
// the parts come from the embedded files alone.
func (r *runner) config(off []string) cell.Config {
	c := cell.Config{Mode: r.mode, InitPath: r.init, MaxCells: 2, Paths: languages.Builtin().Paths(),
		Max: api.MaxLimits(runtime.NumCPU(), 1<<30)}
	if len(off) > 0 {
		c.Mode, c.ControlOff = cell.Off, off
	}
	return c
}

// without returns the host of a control. It must be whole but for what is left
// out.
func (r *runner) without(a *attack) (*cell.Host, error) {
	key := strings.Join(slices.Sorted(slices.Values(a.off)), " ")
	if h := r.controls[key]; h != nil {
		return h, nil
	}
	h, err := cell.Open(r.config(a.off))
	if err != nil {
		return nil, err
	}
	r.controls[key] = h
	return h, r.wholeButFor(h, a.off)
}

// wholeButFor wants a host to have every layer that the whole one has, but for
// those of which a part is left out.
func (r *runner) wholeButFor(h *cell.Host, off []string) error {
	has := map[string]bool{}
	for _, l := range h.Status().Layers {
		has[l.Name] = l.Applied
	}
	for _, l := range r.whole.Status().Layers {
		lacks := slices.ContainsFunc(off, func(o string) bool { return slices.Contains(also[parts[o]], l.Name) || parts[o] == l.Name })
		if l.Applied && !has[l.Name] && !lacks {
			return fmt.Errorf("a cell without %s lacks the layer %s too: %w", strings.Join(off, ", "), l.Name, errNotWhole)
		}
	}
	return nil
}

var errNotWhole = errors.New("the control would prove nothing")

// also are layers that go with another: the empty root is what proc and the
// clocks stand in, the privileges carry the speculation controls, and without
// control groups nothing is counted.
var also = map[string][]string{
	"root": {"proc", "time"}, "privileges": {"speculation"}, "cgroup": {"resource_probes"}, "namespaces": {"proc"},
}

func (r *runner) close() error {
	var errs []error
	for _, h := range r.controls {
		errs = append(errs, h.Close())
	}
	r.leaks.close()
	return errors.Join(append(errs, r.whole.Close())...)
}

// fire runs an attack and its control. The error is for what ends the battery.
func (r *runner) fire(ctx context.Context, a *attack) (Row, error) {
	begin := time.Now()
	row := a.row()
	if row.NotFired == "" {
		row.NotFired = r.lacks(a)
	}
	if row.NotFired != "" {
		return row, nil
	}
	if ctx.Err() != nil {
		return row, context.Cause(ctx)
	}
	built, err := r.build(ctx, a)
	if err != nil {
		row.Reason = err.Error()
	} else {
		var sealed, control error
		if row.StoppedBy, sealed = r.run(ctx, r.whole, a, built, &a.sealed); sealed != nil {
			sealed = fmt.Errorf("sealed: %w", sealed)
		}
		h, err := r.without(a)
		if err == nil {
			_, err = r.run(ctx, h, a, built, &a.control)
		}
		if err != nil {
			control = fmt.Errorf("control: %w", err)
		}
		row.Stopped, row.Through = sealed == nil, control == nil
		if err := errors.Join(sealed, control); err != nil {
			row.Reason = err.Error()
		}
	}
	row.MS = float64(time.Since(begin).Microseconds()) / 1000
	if ctx.Err() != nil {
		return row, context.Cause(ctx)
	}
	return row, nil
}

// lacks says that this host, although it is complete, has none of the layers
// that stop an attack: the sandbox does not insist on all of them. Each that it
// has is enough.
func (r *runner) lacks(a *attack) string {
	left := slices.Clone(a.layers)
	for _, l := range r.whole.Status().Layers {
		if !l.Applied {
			left = slices.DeleteFunc(left, func(n string) bool { return n == l.Name })
		}
	}
	if len(left) == 0 {
		return "no layer " + strings.Join(a.layers, ", ") + " here"
	}
	return ""
}

// unfit says why an attack cannot be fired on this host.
func (a *attack) unfit() string {
	switch root := os.Geteuid() == 0; {
	case a.as == "root" && !root:
		return "needs root"
	case a.as == "user" && root:
		return "needs an ordinary user"
	case a.abi > landlock.ABI() && slices.Equal(a.layers, []string{"landlock"}):
		return fmt.Sprintf("needs Landlock %d", a.abi)
	case a.arch != "" && a.arch != runtime.GOARCH:
		return "needs " + a.arch
	case a.wants == "user-namespaces" && !userNamespaces(readText):
		return "needs a host that lets programs make user namespaces"
	case a.wants == "locked-memory" && !lockedMemory():
		return "needs a limit on locked memory of 1 MiB or more"
	}
	need := []string{a.language}
	if a.needs != "" {
		need = append(need, a.needs)
	}
	if a.bystander != nil {
		need = append(need, languageOf(a.bystander.name))
	}
	for _, n := range need {
		if n == "sh" || n == "c" && a.needs != "c" && !a.source && a.hasPrecompiled() {
			continue
		}
		if _, missing := languages.Builtin().Find(n).Program(); missing != "" {
			return "needs " + n
		}
	}
	return ""
}

// lockedMemory tells whether this process, whose limits a control has, may lock
// as much as the battery does: old kernels begin with 64 KiB.
func lockedMemory() bool {
	var l unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil && l.Max >= 1<<20
}

// userNamespaces tells whether the host lets a program without privileges make
// them and be root there, as far as its settings say.
func userNamespaces(read func(path string) string) bool {
	is := func(name, value string) bool { return word(read("/proc/sys/"+name), 0) == value }
	return !is("kernel/unprivileged_userns_clone", "0") && !is("user/max_user_namespaces", "0") &&
		!is("kernel/apparmor_restrict_unprivileged_userns", "1")
}

func languageOf(name string) string {
	return map[string]string{".py": "python", ".sh": "sh", ".c": "c"}[filepath.Ext(name)]
}

// baseEnv is the environment of every program of the battery.
var baseEnv = []string{"HOME=/box", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "TMPDIR=/tmp", "TZ=UTC"}

// values are the limits of a program of the battery that says nothing.
func (a *attack) resolved() (api.Limits, error) {
	def := api.DefaultLimits()
	def.WallMS, def.CPUMS = wallMS, cpuMS
	l := a.limits
	l.Compile = nil
	return l.Resolve(def, api.MaxLimits(runtime.NumCPU(), 1<<30))
}

// run runs an attack in a cell of a host and judges it; the text is what the
// kernel answered.
func (r *runner) run(ctx context.Context, h *cell.Host, a *attack, b *built, e *expect) (string, error) {
	limits, err := a.resolved()
	if err != nil {
		return "", err
	}
	s := newScene(limits, r.leaks.values)
	defer s.close()
	for _, f := range a.fixtures {
		if err := fixtures[f](s); err != nil {
			return "", fmt.Errorf("fixture %s: %w", f, err)
		}
	}
	var beside *bystander
	if a.bystander != nil {
		if beside, err = r.beside(ctx, h, b, s); err != nil {
			return "", fmt.Errorf("bystander: %w", err)
		}
	}
	job, err := a.job(b, s, limits)
	if err != nil {
		return "", err
	}
	res, err := h.Run(ctx, job, cell.Streams{})
	text := ""
	if beside != nil {
		var more error
		text, more = beside.end()
		err = errors.Join(err, more)
	}
	if err != nil {
		return "", err
	}
	return a.answer(res), e.judge(s, res, text)
}

// job is the attack as a cell takes it.
func (a *attack) job(b *built, s *scene, limits api.Limits) (*cell.Job, error) {
	job := &cell.Job{Profile: cell.DefaultProfile, Loopback: a.loopback, Limits: limits, Files: slices.Clone(b.files)}
	if a.profile != "" {
		job.Profile = a.profile
	}
	for _, p := range a.artifacts {
		job.Artifacts = append(job.Artifacts, s.fill(p))
	}
	for i, f := range job.Files { // what the program's text says of the scene
		if !strings.HasPrefix(f.Name, "prog") {
			job.Files[i].Data = []byte(s.fill(string(f.Data)))
		}
	}
	for _, v := range append(append([]string{}, b.argv...), a.args...) {
		job.Argv = append(job.Argv, s.fill(v))
	}
	job.Env = slices.Clone(baseEnv)
	for _, v := range a.env {
		job.Env = append(job.Env, s.fill(v))
	}
	if !a.source {
		return job, nil
	}
	c := languages.Builtin().Find("c")
	program, _ := c.Program()
	max := api.MaxLimits(runtime.NumCPU(), 1<<30)
	cl, err := a.limits.ResolveCompile(c.CompileLimits.Over(api.DefaultCompileLimits()), max)
	if err != nil {
		return nil, err
	}
	pl := languages.Places{Program: program, Entry: a.files[0].name, Out: cell.ProductDir, Memory: cl.MemoryBytes, CPUs: cell.CPUs(cl.CPUPercent)}
	pl.Sources = c.Sources(pl.Entry, slices.Sorted(maps.Keys(names(a.files))))
	job.Compile = &cell.Step{Argv: pl.Fill(c.Compile), Env: baseEnv, Limits: cl}
	job.Argv = pl.Fill(c.Run)
	return job, nil
}

func names(files []file) map[string]bool {
	out := map[string]bool{}
	for _, f := range files {
		out[f.name] = true
	}
	return out
}
