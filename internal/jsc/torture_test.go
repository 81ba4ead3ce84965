package jsc

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func init() {
	children["torture"] = torture
	children["unprotected"] = unprotected
}

// work is JavaScript that calls the host in every way: with objects, strings
// and arrays just made, from callbacks of built-ins, deep in a recursion, and
// with exceptions through host frames.
const work = `(function (host, n) {
	const deep = (d, o) => d === 0 ? host({ bottom: o }, "x" + o.k) : deep(d - 1, { k: o.k + 1, was: o }) || d;
	let got = 0;
	for (let i = 0; i < n; i++) {
		const back = host({ i, s: "v" + i }, "t" + i, [i, { i }]);
		if (back !== undefined && back.i !== undefined) got += back.i === i ? 1 : 1e9;
		if (i % 64 === 0) [3, 1, 2].sort((a, b) => (host({ a }, "sort", [b]), a - b));
		if (i % 256 === 0) deep(40, { k: 0 });
		if (i % 16 === 0) {
			try { host({ i }, "throw", []); throw "nothing thrown"; }
			catch (e) { if (!(e instanceof Error) || e.message !== "told to") throw e; }
		}
		if (i % 128 === 0) try { host({ i }, "panic", []); } catch (e) { if (e.message !== "host function panicked") throw e; }
	}
	return got;
})`

// torture makes a number of host calls while everything moves: the engine
// collects at every slow allocation, or at every so manieth, Go's collector and
// its stacks never rest. arg is both numbers; every 0 is the
// concurrent collector, without a pause, and -1 what the binding sets, asked for the same.
func torture(arg string) (any, error) {
	var calls, every int
	if _, err := fmt.Sscan(arg, &calls, &every); err != nil {
		return nil, err
	}
	settings := []string{fmt.Sprintf("JSC_slowPathAllocsBetweenGCs=%d", every)}
	if every < 0 {
		settings = []string{"JSC_collectContinuously=1"}
	}
	if every == 0 {
		settings = []string{"JSC_useConcurrentGC=1", "JSC_collectContinuously=1"}
	}
	c, err := start(Options{}, settings...)
	if err != nil {
		return nil, err
	}
	defer restless()()
	keeper := &keeper{c: c, max: 64}
	f, err := c.Evaluate(work, "work.js", 1)
	if err != nil {
		return nil, err
	}
	host, err := c.NewFunction(keeper.answer)
	if err != nil {
		return nil, err
	}
	for keeper.calls < calls {
		n := c.Number(2000)
		got, err := c.Call(f, nil, host, n)
		if err != nil {
			return nil, say(c, err)
		}
		n.Release()
		got.Release()
		if err := keeper.check(); err != nil {
			return nil, err
		}
		if keeper.calls%100 < 50 {
			c.Collect()
		}
	}
	return keeper.calls, nil
}

// say adds the text of an exception.
func say(c *Context, err error) error {
	var thrown *Exception
	if !errors.As(err, &thrown) {
		return err
	}
	text, e := c.Evaluate("(e) => String(e && e.message || e) + (e && e.stack)", "say.js", 1)
	if e != nil {
		return err
	}
	s, e := c.Call(text, nil, thrown.Value)
	if e != nil {
		return err
	}
	t, _ := s.Text()
	return fmt.Errorf("%w: %s", err, t)
}

// restless keeps Go's collector, its allocator and its stacks busy until the
// function that it returns is called.
func restless() func() {
	debug.SetGCPercent(1)
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for !stop.Load() {
				kept := make([][]byte, 64)
				for i := range kept {
					kept[i] = make([]byte, 100+i)
				}
				grow(200)
				runtime.Gosched()
				time.Sleep(100 * time.Microsecond) // leave the processor to the engine
			}
		})
	}
	return func() { stop.Store(true); all.Wait() }
}

// grow makes its goroutine's stack grow and move.
func grow(n int) int {
	var big [256]byte
	if n == 0 {
		return int(big[0])
	}
	return grow(n-1) + int(big[n%256])
}

// keeper holds values of the last calls and looks whether they are still what
// they were.
type keeper struct {
	c     *Context
	max   int
	calls int
	held  []*Value
	texts []string // of the held strings; "" for an object
}

// answer keeps what it is given, in a recursion of its own every now and then.
func (k *keeper) answer(call *Call) (*Value, error) {
	k.calls++
	text, err := call.Arg(1).Text()
	if err != nil {
		return nil, err
	}
	switch text {
	case "throw":
		return nil, errors.New("told to")
	case "panic":
		panic("told to")
	}
	if k.calls%97 == 0 {
		grow(500)
	}
	if k.calls%31 == 0 {
		v, err := k.c.Evaluate("({made: [1, 2, 3].map(x => ({x}))})", "nested.js", 1)
		if err != nil {
			return nil, err
		}
		v.Release()
	}
	// Both a string, whose text can be compared, and an object are held for a while.
	if k.calls%4 == 0 {
		k.hold(k.c.Text(text+"!"), text+"!")
	}
	if k.calls%8 == 0 {
		v, err := k.c.Evaluate("({kept: ["+strconv.Itoa(k.calls)+"]})", "kept.js", 1)
		if err != nil {
			return nil, err
		}
		k.hold(v, "")
	}
	return k.c.Text(text), nil
}

func (k *keeper) hold(v *Value, text string) {
	if len(k.held) >= k.max {
		if err := k.same(0); err != nil {
			panic(err)
		}
		k.held[0].Release()
		k.held, k.texts = k.held[1:], k.texts[1:]
	}
	k.held, k.texts = append(k.held, v), append(k.texts, text)
}

// same compares one held value with what it was.
func (k *keeper) same(i int) error {
	if k.texts[i] == "" {
		if k.held[i].Type() != Object {
			return fmt.Errorf("a held object became %d", k.held[i].Type())
		}
		return nil
	}
	got, err := k.held[i].Text()
	if err != nil || got != k.texts[i] {
		return fmt.Errorf("a held string became %q, was %q (%v)", got, k.texts[i], err)
	}
	return nil
}

func (k *keeper) check() error {
	for i := range k.held {
		if err := k.same(i); err != nil {
			return err
		}
	}
	return nil
}

// TestTorture is the ground of the whole binding: values held from Go, whose
// stacks the engine's collector does not scan, survive collections at every slow
// allocation, a million host calls, exceptions, panics and recursions through
// host frames, while Go's own collector runs without a pause.
func TestTorture(t *testing.T) {
	tortureAll(t, 1, 5_000, 1)
	tortureAll(t, 4, 250_000, 50)
}

// TestTortureFifty runs fifty engines, a processor's number of them at a time.
func TestTortureFifty(t *testing.T) { tortureAll(t, 50, 3_000, 20) }

// tortureAll has processes make calls each, with a collection at every so many
// slow allocations.
func tortureAll(t *testing.T, processes, calls, every int) {
	t.Helper()
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for range processes {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			made := 0
			ask(t, &made, "torture", fmt.Sprint(calls, every))
			if made < calls {
				t.Errorf("%d host calls, want %d", made, calls)
			}
		})
	}
	all.Wait()
}

// unprotected holds values as the binding must not: without JSValueProtect.
func unprotected(arg string) (any, error) {
	c, err := start(Options{}, strings.Fields(arg)...)
	if err != nil {
		return nil, err
	}
	defer restless()()
	end := time.Now().Add(20 * time.Second)
	for time.Now().Before(end) {
		var held []*Value
		for i := range 200 {
			v, err := c.Evaluate("({kept: ['x"+strconv.Itoa(i)+"', {}]})", "kept.js", 1)
			if err != nil {
				return nil, err
			}
			v.Release()
			held = append(held, &Value{c: c, ref: v.ref})
		}
		c.Collect()
		f, err := c.Evaluate("(o) => { let s = ''; for (const k of o.kept) s += k; return o.kept.length + s.length + JSON.stringify(o).length }", "use.js", 1)
		if err != nil {
			return nil, err
		}
		for _, v := range held {
			got, err := c.Call(f, nil, v)
			if err != nil {
				return nil, fmt.Errorf("a held value is broken: %w", err)
			}
			got.Release()
		}
		f.Release()
	}
	return "survived", nil
}

// TestTortureControl is the control: the same values without their protection
// end the process by a signal, or are not what they were.
func TestTortureControl(t *testing.T) {
	e := run(t, "unprotected", "JSC_slowPathAllocsBetweenGCs=1")
	if !crashed(e) && !strings.Contains(e.log, "broken") {
		t.Errorf("ended with %v, %s\n%.2000s", e.err, e.out, e.log)
	}
}

// TestTortureContinuously asks the engine to collect without a pause beside the
// program, which it does not do with the binding's settings.
func TestTortureContinuously(t *testing.T) { tortureAll(t, 2, 100_000, -1) }

// TestTortureConcurrent shows what the other collector would do: it stops the
// thread that uses the engine with a signal, on whatever stack that is, and so
// the process ends by it.
func TestTortureConcurrent(t *testing.T) {
	e := run(t, "torture", "1000000 0")
	var exit *exec.ExitError
	if !errors.As(e.err, &exit) {
		t.Fatalf("ended with %v, %s", e.err, e.out)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != gcSignal {
		t.Errorf("ended with %v, want %v\n%.2000s", e.err, gcSignal, e.log)
	}
}

// crashed says whether a signal ended a child: at once, or through the report
// that Go writes of it.
func crashed(e ended) bool {
	var exit *exec.ExitError
	if !errors.As(e.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() || strings.Contains(e.log, "signal arrived during cgo execution")
}
