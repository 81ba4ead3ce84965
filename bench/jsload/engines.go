package jsload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/js"
)

// Engine is something that runs scripts.
type Engine interface {
	Name() string
	// Run evaluates files one after the other in a fresh world, calls a function
	// with a clock in ms, and returns the text that its promise comes to.
	Run(ctx context.Context, files []string, function string) (string, error)
}

// ask runs and decodes the JSON that comes out.
func ask(ctx context.Context, e Engine, files []string, function string, into any) error {
	text, err := e.Run(ctx, files, function)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("%w in %q", err, text[:min(len(text), 200)])
	}
	return nil
}

// Sealed is the engine of a pool's workers.
func Sealed(name string, p *js.Pool) Engine { return sealed{name, p} }

type sealed struct {
	name string
	pool *js.Pool
}

func (s sealed) Name() string { return s.name }

func (s sealed) Run(ctx context.Context, files []string, function string) (string, error) {
	rt, err := s.pool.Checkout(ctx)
	if err != nil {
		return "", err
	}
	defer rt.Close()
	begin := time.Now() // the clock is the host's: its call costs some µs, where the guest's has whole ms
	if err := rt.Bind(ctx, "hostClock", func() float64 { return time.Since(begin).Seconds() * 1000 }); err != nil {
		return "", err
	}
	for _, f := range files {
		code, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		// A script's last value would cross, and a bundle's is no plain data.
		if _, err := rt.Eval(ctx, string(code)+"\n;0"); err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(f), err)
		}
	}
	v, err := rt.Eval(ctx, function+"(hostClock)")
	if err != nil {
		return "", err
	}
	var text string
	err = v.Decode(&text)
	return text, err
}

// Limits are wide enough for every job in the interpreter on a slow machine.
func Limits() js.Limits {
	return js.Limits{TimeoutMS: 120_000, HardMS: 130_000, CPUMS: 240_000, MemoryBytes: 1 << 30}
}

// program is an engine with a process of its own, outside of any cell.
type program struct {
	name   string
	before []string // of the command line
	after  []string // %s is the function
	env    []string
}

func (p program) Name() string { return p.name }

func (p program) Run(ctx context.Context, files []string, function string) (string, error) {
	argv := append(append([]string{}, p.before...), files...)
	for _, a := range p.after {
		argv = append(argv, strings.ReplaceAll(a, "%s", function))
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "TZ=UTC", "LANG=C.UTF-8"}, p.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %.2000s", err, errs.String()+out.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// Node is Node.js with flags, "--jitless" for one.
func (b *Bundles) Node(flags ...string) (Engine, error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	return program{
		name:   strings.Join(append([]string{"node"}, flags...), " "),
		before: append(append([]string{path}, flags...), b.file("node.js")), after: []string{"%s"},
	}, nil
}

// modes are the settings that make jsc what a worker's mode is.
var modes = map[js.JIT][]string{
	"":          {"JSC_useJIT=0"},
	js.Baseline: {"JSC_useJIT=1", "JSC_useDFGJIT=0", "JSC_useFTLJIT=0"},
	js.Full:     {"JSC_useJIT=1"},
}

// workers are the further settings of a worker's engine; a test holds them
// against the binding's.
var workers = []string{
	"JSC_useConcurrentGC=0", "JSC_usePollingTraps=1", "JSC_useSharedArrayBuffer=0", "JSC_useShadowRealm=0", "JSC_useProfiler=0",
	"JSC_useSamplingProfiler=0", "JSC_useWasmFaultSignalHandler=0", "JSC_useWasmFastMemory=0", "JSC_numberOfGCMarkers=1", "JSC_useWasm=0",
}

// Engine is JavaScriptCore's own program in one of the modes; alike gives it the
// other settings of a worker's engine too.
func (j JSC) Engine(mode js.JIT, alike bool) Engine {
	p := program{name: "jsc", before: []string{j.Path}, after: []string{"-e", "(async () => print(await %s(() => preciseTime() * 1000)))().catch((e) => { print(e); quit(1) })"}}
	p.env = append(p.env, modes[mode]...)
	if j.libraries != "" {
		p.env = append(p.env, "LD_LIBRARY_PATH="+j.libraries)
	}
	if alike {
		p.name = "jsc, a worker's settings"
		p.env = append(p.env, workers...)
	}
	return p
}
