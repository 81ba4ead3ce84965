package js_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// What is absent is so by every way to a global; what can be asked for is there
// once it is. Nothing promises secret numbers.
//
// proves G-19 H-64
func TestAbsentGlobals(t *testing.T) {
	never := []string{"process", "require", "module", "Deno", "Bun", "fetch", "XMLHttpRequest", "WebSocket", "Worker", "importScripts", "navigator", "crypto",
		"performance", "ShadowRealm", "$vm", "Loader", "SharedArrayBuffer", "load", "read", "readFile", "gc", "quit", "print", "structuredClone"}
	optional := []string{"WebAssembly", "Atomics", "WeakRef", "FinalizationRegistry"}
	code := func(names []string) string {
		return fmt.Sprintf(`%q.split(" ").filter(n => n in globalThis || (0, eval)("typeof " + n) !== "undefined" || Function("return typeof " + n)() !== "undefined" || Reflect.has(Object.getPrototypeOf(globalThis), n)).join()`,
			strings.Join(names, " "))
	}
	if got := text(t, open(t, js.Options{}), code(append(slices.Clone(never), optional...))); got != `""` {
		t.Errorf("there is %s", got)
	}
	rt := open(t, js.Options{Allow: []string{"WebAssembly", "Atomics", "WeakRef"}})
	if got := text(t, rt, code(optional)); got != `"WebAssembly,Atomics,WeakRef,FinalizationRegistry"` { // control
		t.Errorf("of what was asked for there is %s", got)
	}
	if got := text(t, rt, code(never)); got != `""` {
		t.Errorf("beside what was asked for there is %s", got)
	}
}

// Timers run on a time of their own, in their order, with sane delays and a cap.
//
// proves part of G-20
func TestTimers(t *testing.T) {
	rt := open(t, js.Options{})
	for code, want := range map[string]string{
		"const out = []; setTimeout(() => out.push('year'), 31536000000 / 20); setTimeout(() => out.push('soon'), 1); new Promise(f => setTimeout(() => f(out.join()), 2147483647))": `"soon,year"`,
		"new Promise(f => { const o = []; for (const d of [NaN, -1, Infinity, undefined, '5', 2 ** 40]) setTimeout(() => o.push(String(d)), d); setTimeout(() => f(o.join()), 2) })": `"NaN,-1,Infinity,undefined,5,1099511627776"`,
		"(() => { try { for (let i = 0; ; i++) setTimeout(() => 0, 1) } catch (e) { return e.name + ': ' + e.message } })()":                                                         `"RangeError: more than 10000 timers"`,
		"new Promise(f => { let n = 0; const id = setInterval(() => { if (++n === 5) { clearInterval(id); f(n) } }, 1000) })":                                                        "5",
		"new Promise(f => { const id = setTimeout(() => f('ran'), 1); clearTimeout(id); setTimeout(() => f('cleared'), 2) })":                                                        `"cleared"`,
		"(() => { try { setTimeout('code', 1) } catch (e) { return e.name } })()":                                                                                                    `"TypeError"`,
	} {
		rt := rt
		if strings.Contains(code, "catch (e) { return e.name + ") {
			rt = open(t, js.Options{})
		}
		begun := time.Now()
		if got := text(t, rt, "{"+code+"}"); got != want {
			t.Errorf("%s: %s, not %s", code, got, want)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s waited %v", code, took)
		}
	}
}

// A guest's error that is named after a failure of the host is an Error.
//
// proves G-21
func TestClaimedNames(t *testing.T) {
	rt := open(t, js.Options{})
	for _, name := range []string{"timeout", "HardTimeout", "MemoryLimitError", "denied", "CrashedError", "PROTOCOL", "canceled", "host_wait"} {
		_, err := rt.Eval(ctx, fmt.Sprintf("const e%s = new TypeError('x'); e%s.name = %q; throw e%s", name, name, name, name))
		var e *js.Error
		if !asError(err, &e) || e.Kind != js.Thrown || e.Name != "Error" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	_, err := rt.Eval(ctx, "const own = new TypeError('x'); own.name = 'MineError'; throw own") // control
	if e := new(js.Error); !asError(err, &e) || e.Name != "MineError" {
		t.Errorf("a name of its own became %q", e.Name)
	}
}

func asError(err error, to **js.Error) bool {
	e, ok := err.(*js.Error)
	if ok {
		*to = e
	}
	return ok
}

// A function of the host that blocks holds up its own runtime and no other.
//
// proves B-06
func TestSlowFunctionHoldsNobodyElse(t *testing.T) {
	p, err := js.NewPool(ctx, js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()}, js.PoolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	slow, other := checkout(t, p), checkout(t, p)
	inside, leave, ended := make(chan bool), make(chan bool), make(chan error)
	if err := slow.Bind(ctx, "block", func(context.Context) { inside <- true; <-leave }); err != nil {
		t.Fatal(err)
	}
	if err := other.Bind(ctx, "add", func(a, b int) int { return a + b }); err != nil {
		t.Fatal(err)
	}
	go func() { _, err := slow.Eval(ctx, "block()"); ended <- err }()
	<-inside
	if got := text(t, other, "let n = 0; for (let i = 0; i < 1000; i++) n = add(n, 1); n"); got != "1000" {
		t.Errorf("beside it: %s", got)
	}
	if _, err := slow.Eval(ctx, "1"); js.KindOf(err) != js.Busy { // control: it does block its own
		t.Errorf("the one that it blocks: %v", err)
	}
	close(leave)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func checkout(t *testing.T, p *js.Pool) *js.Runtime {
	t.Helper()
	rt, err := p.Checkout(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return rt
}

// The environment of a worker is two variables, whatever the host's is. Its engine
// runs in the mode that was asked for. The control: a child that inherits has them.
//
// proves part of H-29
// proves B-05
func TestInheritedEnvironmentAsRoot(t *testing.T) {
	hostile := []string{"JSC_useJIT=1", "JSC_dumpOptions=2", "JSC_configFile=/tmp/x", "WEBKIT_INSPECTOR_SERVER=127.0.0.1:1", "G_MESSAGES_DEBUG=all", "GIO_MODULE_DIR=/tmp",
		"ICU_DATA=/tmp", "MALLOC_PERTURB_=1", "LD_PRELOAD=/nowhere.so", "LD_LIBRARY_PATH=/tmp", "GODEBUG=inittrace=1", "GLIBC_TUNABLES=glibc.malloc.check=1"}
	for _, v := range hostile {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	rt := open(t, js.Options{})
	if got := text(t, rt, "6 * 7"); got != "42" || rt.Engine().Mode != "interpreter" {
		t.Errorf("%s in mode %s", got, rt.Engine().Mode)
	}
	found := false
	for _, pid := range testenv.Descendants(os.Getpid()) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if !strings.HasPrefix(string(line), "/glovebox-js\x00") {
			continue
		}
		found = true
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || string(environ) != "LANG=C.UTF-8\x00TZ=UTC\x00" {
			t.Errorf("the worker has %q, %v", environ, err)
		}
	}
	if !found {
		t.Fatal("no worker was found")
	}
	out, err := exec.Command("/usr/bin/env").Output() // control
	if err != nil || !strings.Contains(string(out), hostile[0]) {
		t.Errorf("a child of the host lacks them: %v", err)
	}
}

// The engine's binding is in no program of a host, so that none can load it.
//
// proves part of H-30
func TestHostLinksNoEngine(t *testing.T) {
	deps := func(program string) []string {
		out, err := exec.Command("go", "list", "-deps", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	const binding, loader = "github.com/glovebox-dev/glovebox/internal/jsc", "github.com/ebitengine/purego"
	for _, program := range []string{"../cmd/glovebox", "../cmd/glovebox-init"} {
		if all := deps(program); slices.Contains(all, binding) || slices.Contains(all, loader) {
			t.Errorf("%s links the engine's binding", program)
		}
	}
	if all := deps("../cmd/glovebox-js"); !slices.Contains(all, binding) || !slices.Contains(all, loader) { // control
		t.Error("the worker links no binding")
	}
}

// How many threads a worker has is what the kernel counts, the engine's own among
// them, of which the worker's runtime keeps no books.
//
// proves O-09
func TestThreadsAreTheKernelsCount(t *testing.T) {
	for try := 0; ; try++ {
		rt := open(t, js.Options{})
		var tasks []os.DirEntry
		engine := 0 // threads of another name than the program's
		for _, pid := range testenv.Descendants(os.Getpid()) {
			dir := fmt.Sprintf("/proc/%d/", pid)
			if line, _ := os.ReadFile(dir + "cmdline"); !strings.HasPrefix(string(line), "/glovebox-js\x00") {
				continue
			}
			tasks, _ = os.ReadDir(dir + "task")
			for _, k := range tasks {
				if name, _ := os.ReadFile(dir + "task/" + k.Name() + "/comm"); strings.TrimSpace(string(name)) != "glovebox-js" {
					engine++
				}
			}
		}
		layers := rt.Evidence().Layers
		want := fmt.Sprintf("outside: %d threads under ", len(tasks))
		detail := layers[len(layers)-1].Detail
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
		switch {
		case engine == 0:
			t.Fatalf("no thread of the engine's own among %d", len(tasks))
		case strings.HasPrefix(detail, want):
			return
		case try == 10: // a thread can come between the two looks
			t.Fatalf("%s, want %s", detail, want)
		}
	}
}
