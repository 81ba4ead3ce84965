package jsc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/jsc/library"
)

func init() {
	children["engine"] = engine
	children["wasm"] = wasm
}

// report is what a child says of its engine.
type report struct {
	Dropped   int
	Environ   []string
	Mapped    []string // files with code
	Generated []Mapping
	After     []Mapping // the same, once code has run and been compiled
	Tasks     []string
	Signals   []int // whose action differs from before
	Again     string
	Load      time.Duration
	Context   time.Duration
	Dirty     int           // kB of memory that belongs to the process alone, after the context
	Clean     int           // kB of file pages that no other process has mapped just now
	Eval      time.Duration // of the smallest script, processor time
	HostCall  time.Duration // of a host function by a loop of JavaScript, the same
}

const hot = `let f = n => n < 2 ? n : f(n - 1) + f(n - 2); let a = [];
	for (let i = 0; i < 200000; i++) a.push({i, s: "x" + i}); new Date(0).toString(); /(a|b)+c/.test("abab".repeat(50)); f(22)`

// engine starts in the mode that arg names and reports.
func engine(arg string) (any, error) {
	var r report
	mode := Mode(slices.Index(modeNames[:], arg))
	lib, err := library.Find()
	if err != nil {
		return nil, err
	}
	files, err := lib.Files()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	e, err := Load(lib, Options{Mode: mode, Files: files})
	if err != nil {
		return nil, err
	}
	r.Load = time.Since(begun)
	begun = time.Now()
	c, err := e.NewContext()
	if err != nil {
		return nil, err
	}
	r.Context = time.Since(begun)
	r.Dirty, r.Clean = private()
	r.Dropped, r.Environ = e.Dropped(), os.Environ()
	if r.Eval, r.HostCall, err = speeds(c); err != nil {
		return nil, err
	}
	if r.Generated, err = Generated(); err != nil {
		return nil, err
	}
	if _, err := c.Evaluate(hot, "hot.js", 1); err != nil {
		return nil, say(c, err)
	}
	c.Collect()
	if r.After, err = Generated(); err != nil {
		return nil, err
	}
	err = r.look(e)
	return r, err
}

// look reads what the kernel says of the process once code has run.
func (r *report) look(e *Engine) error {
	all, err := Mappings()
	if err != nil {
		return err
	}
	for _, m := range all {
		if strings.HasPrefix(m.Path, "/") && strings.Contains(m.Perms, "x") {
			r.Mapped = append(r.Mapped, m.Path)
		}
	}
	now, err := actions()
	if err != nil {
		return err
	}
	for n := range now {
		if now[n] != e.before[n] {
			r.Signals = append(r.Signals, n)
		}
	}
	tasks, err := filepath.Glob("/proc/self/task/*/comm")
	for _, name := range tasks {
		b, _ := os.ReadFile(name)
		r.Tasks = append(r.Tasks, strings.TrimSpace(string(b)))
	}
	_, again := e.NewContext()
	_, load := Load(e.Library(), Options{Files: []string{}})
	r.Again = fmt.Sprint(errors.Is(again, ErrLoaded), errors.Is(load, ErrLoaded))
	return err
}

// speeds measures what the smallest evaluation and call of a host function take.
func speeds(c *Context) (eval, host time.Duration, err error) {
	const evals, calls = 500, 5000
	begun := used()
	for range evals {
		v, err := c.Evaluate("1 + 1", "e.js", 1)
		if err != nil {
			return 0, 0, err
		}
		v.Release()
	}
	eval = (used() - begun) / evals
	f, err := c.NewFunction(func(k *Call) (*Value, error) { return k.Arg(0), nil })
	if err != nil {
		return 0, 0, err
	}
	loop, err := c.Evaluate("(f, n) => { for (let i = 0; i < n; i++) f(i) }", "l.js", 1)
	if err != nil {
		return 0, 0, err
	}
	begun = used()
	_, err = c.Call(loop, nil, f, c.Number(calls))
	return eval, (used() - begun) / calls, err
}

// used is the processor time of the calling thread.
func used() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// private is how much memory belongs to the process alone, in kB: written to, and
// pages of files that happen to be mapped by nobody else.
func private() (dirty, clean int) {
	b, _ := os.ReadFile("/proc/self/smaps_rollup")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Private_Dirty:"); ok {
			dirty, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
		if rest, ok := strings.CutPrefix(line, "Private_Clean:"); ok {
			clean, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return dirty, clean
}

// TestEngineModes proves part of O-05 and of H-29: in the interpreter's mode no memory is
// executable but that of files that the library says it needs, before code has
// run and after; the control is the other two modes, where there is one mapping.
// No mode leaves a handler of a signal behind.
//
// proves part of O-05 H-29
func TestEngineModes(t *testing.T) {
	lib, err := library.Find()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files, err := library.Closure(lib.Path, self)
	if err != nil {
		t.Fatal(err)
	}
	for mode, name := range modeNames {
		var r report
		ask(t, &r, "engine", name)
		want := min(mode, 1)
		if len(r.Generated) != want || len(r.After) != want {
			t.Errorf("%s: mappings for code that is generated: %v, later %v", name, r.Generated, r.After)
		}
		for _, m := range r.Mapped {
			if !slices.Contains(files, m) {
				t.Errorf("%s: %s is mapped and not in the list", name, m)
			}
		}
		if len(r.Mapped) < 10 || len(r.Signals) != 0 || r.Again != "true true" {
			t.Errorf("%s: %d files, signals %v, again %s", name, len(r.Mapped), r.Signals, r.Again)
		}
		t.Logf("%s: load %v, context %v, %d kB dirty, %d kB clean, eval %v, host call %v, tasks %q", name, r.Load, r.Context, r.Dirty, r.Clean, r.Eval, r.HostCall, r.Tasks)
	}
}

// TestEngineEnvironment proves part of H-29: thirty hostile variables of the environment
// are dropped and counted, and the engine's own list is what it sees. Nothing is
// written, although they ask for it.
//
// proves part of H-29
func TestEngineEnvironment(t *testing.T) {
	dir := t.TempDir()
	hostile := []string{
		"JSC_useJIT=1", "JSC_useConcurrentGC=1", "JSC_configFile=" + dir + "/c", "JSC_jitDumpDirectory=" + dir, "JSC_useJITDump=1",
		"JSC_dumpOptions=3", "JSC_logGC=2", "JSC_dumpGeneratedBytecodes=1", "JSC_useGdbJITInfo=1", "JSC_textMarkersDirectory=" + dir,
		"JSC_useTextMarkers=1", "JSC_useSamplingProfiler=1", "JSC_samplingProfilerPath=" + dir, "JSC_useSharedArrayBuffer=1",
		"JSC_SIGNAL_FOR_GC=17", "JSC_dumpJITMemoryPath=" + dir + "/m", "JSC_functionOverrides=" + dir + "/o", "JSC_validateBytecode=1",
		"WEBKIT_INSPECTOR_SERVER=127.0.0.1:1", "WEBKIT_INSPECTOR_HTTP_SERVER=127.0.0.1:2", "G_MESSAGES_DEBUG=all", "G_DEBUG=fatal-warnings",
		"GIO_EXTRA_MODULES=" + dir, "GIO_MODULE_DIR=" + dir, "ICU_DATA=" + dir, "MALLOC_CHECK_=3", "MALLOC_PERTURB_=7", "LD_PRELOAD_NOT=1", "GODEBUG=madvdontneed=1", "TZ=:" + dir + "/zone", "LANG=de_DE.UTF-8",
	}
	var r report
	ask(t, &r, "engine", "interpreter", hostile...)
	if r.Dropped != len(hostile) {
		t.Errorf("%d dropped, want %d", r.Dropped, len(hostile))
	}
	settings, err := Options{}.settings()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range r.Environ {
		if name, _, _ := strings.Cut(entry, "="); listens(name) && !slices.Contains(settings, entry) {
			t.Errorf("%s is there", entry)
		}
	}
	if len(r.After) != 0 {
		t.Errorf("code was generated: %v", r.After)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("written: %v, %v", left, err)
	}
}

// TestEnginePlanted proves part of H-30: a library that lies in the working directory and in
// LD_LIBRARY_PATH under the engine's name is not mapped. One of its needs that
// the loader takes from there is: the engine is then refused, and that is the control.
//
// proves part of H-30
func TestEnginePlanted(t *testing.T) {
	lib, err := library.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plant := func(from, name string) {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	plant(lib.Path, lib.Soname)
	t.Chdir(dir)
	var r report
	ask(t, &r, "engine", "interpreter", "LD_LIBRARY_PATH="+dir)
	for _, m := range r.Mapped {
		if strings.HasPrefix(m, dir) {
			t.Errorf("%s is mapped", m)
		}
	}
	files, err := lib.Files()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(files, func(f string) bool { return strings.Contains(f, "/libz.so") })
	plant(files[at], "libz.so.1")
	if e := run(t, "engine", "interpreter", "LD_LIBRARY_PATH="+dir); e.err == nil || !strings.Contains(e.log, "does not belong to it") {
		t.Errorf("a planted need: %v, %s", e.err, e.log)
	}
}

// TestWasm: WebAssembly is there by option only.
func TestWasm(t *testing.T) {
	for arg, want := range map[string]string{"": "undefined", "yes": "object"} {
		var got string
		ask(t, &got, "wasm", arg)
		if got != want {
			t.Errorf("%q: typeof WebAssembly is %s", arg, got)
		}
	}
}

func wasm(arg string) (any, error) {
	c, err := start(Options{WebAssembly: arg == "yes"})
	if err != nil {
		return nil, err
	}
	v, err := c.Evaluate("typeof WebAssembly", "w.js", 1)
	if err != nil {
		return nil, err
	}
	return v.Text()
}

// TestMode: names, and a mode that there is not.
func TestMode(t *testing.T) {
	if Interpreter.String() != "interpreter" || Mode(7).String() != "mode 7" || Mode(-1).String() != "mode -1" {
		t.Error("names of modes")
	}
	if _, err := Load(library.Library{}, Options{Mode: 3}); err == nil || errors.Is(err, ErrLoaded) {
		t.Errorf("mode 3: %v", err)
	}
}
