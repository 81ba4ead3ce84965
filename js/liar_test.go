package js

import (
	"context"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/internal/testenv/liar/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// liars is a pool whose workers do what their script says, in real cells.
type liars struct {
	*Pool
	files []string
}

// openLiars makes the pool. What it leaves behind when it is closed is an error.
func openLiars(t *testing.T, o Options) *liars {
	t.Helper()
	processes, descriptors, goroutines := left()
	o.InitPath, o.WorkerPath = testenv.Init(), testenv.Liar()
	p, err := NewPool(context.Background(), o, PoolOptions{Max: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		var a, b, c int
		for end := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
			if a, b, c = left(); a <= processes && b <= descriptors && c <= goroutines || time.Now().After(end) {
				break
			}
		}
		if a > processes || b > descriptors || c > goroutines {
			all := make([]byte, 1<<20)
			t.Errorf("%d processes, %d descriptors, %d goroutines became %d, %d, %d\n%s", processes, descriptors, goroutines, a, b, c, all[:runtime.Stack(all, true)])
		}
	})
	l := &liars{p, p.files}
	if err := l.start(t, nil).Close(); err != nil { // the first one, which has no script
		t.Fatal(err)
	}
	return l
}

// left are the processes, descriptors and goroutines of this process.
func left() (processes, descriptors, goroutines int) {
	all, _ := os.ReadDir("/proc/self/fd")
	return len(testenv.Descendants(os.Getpid())), len(all), runtime.NumGoroutine()
}

// greeting is what an honest worker begins with.
var greeting = []script.Step{{Do: script.Hello}, {Do: script.Seal}, {Do: script.Ready}}

// tell says what the next workers do.
func (l *liars) tell(steps []script.Step) {
	l.Pool.files = append(l.files[:len(l.files):len(l.files)], script.Argument(steps))
}

// start returns a runtime of a worker that greets and then does its steps.
func (l *liars) start(t testing.TB, steps []script.Step) *Runtime {
	t.Helper()
	l.tell(append(greeting[:len(greeting):len(greeting)], steps...))
	rt, err := l.Checkout(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// await reads up to a message of a type.
func await(t wire.Type) script.Step { return script.Step{Do: script.Await, Type: byte(t)} }

// frame is a frame of parts: bytes, numbers, names of variables.
func frame(t wire.Type, parts ...any) script.Step {
	s := script.Step{Do: script.Frame, Type: byte(t)}
	for _, p := range parts {
		switch p := p.(type) {
		case []byte:
			s.Parts = append(s.Parts, script.Part{Bytes: p})
		case int:
			s.Parts = append(s.Parts, script.Part{Bytes: binary.AppendUvarint(nil, uint64(p))})
		case script.Part:
			s.Parts = append(s.Parts, p)
		case []script.Part:
			s.Parts = append(s.Parts, p...)
		case string:
			s.Parts = append(s.Parts, script.Part{Var: p})
		}
	}
	return s
}

// said is the frame of a message.
func said(m wire.Message) script.Step {
	p, err := wire.AppendPayload(nil, m)
	if err != nil {
		panic(err)
	}
	return frame(m.Type(), p)
}

// framed is the whole frame of a message.
func framed(m wire.Message) []byte {
	b, err := wire.AppendFrame(nil, m)
	if err != nil {
		panic(err)
	}
	return b
}

// raw are bytes with no frame around them.
func raw(b []byte) script.Step {
	return script.Step{Do: script.Raw, Parts: []script.Part{{Bytes: b}}}
}

// encoded is a value as it crosses, as long as its length says.
func encoded(v any) []byte {
	b, err := wire.Encode(v, wire.Budget{})
	if err != nil {
		panic(err)
	}
	return sized(b)
}

func sized(b []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }

// one is the honest answer to the first evaluation.
var one = said(&wire.Done{ID: 1, Value: mustEncode(1.0)})

func mustEncode(v any) wire.Value {
	b, err := wire.Encode(v, wire.Budget{})
	if err != nil {
		panic(err)
	}
	return b
}

// lie is what a worker does, and what the host is to make of it.
type lie struct {
	name  string
	steps []script.Step
	do    func(*Runtime) error // nil: evaluate
	want  Kind                 // "" is success
	// within bounds the time; 0 is 5 s.
	within time.Duration
}

// see runs one lie.
func (l *liars) see(t *testing.T, c lie) {
	t.Helper()
	rt := l.start(t, c.steps)
	l.judge(t, rt, c)
	if err := rt.Close(); err != nil {
		t.Errorf("%s: close: %v", c.name, err)
	}
}

func (l *liars) judge(t *testing.T, rt *Runtime, c lie) {
	t.Helper()
	do, within := c.do, c.within
	if do == nil {
		do = evaluates
	}
	if within == 0 {
		within = 5 * time.Second
	}
	begin := time.Now()
	err := do(rt)
	took := time.Since(begin)
	if KindOf(err) != c.want || (err == nil) != (c.want == "") {
		t.Errorf("%s: %v, not %q", c.name, err, c.want)
	}
	if took > within {
		t.Errorf("%s: took %v", c.name, took)
	}
	checkError(t, c.name, err)
	if err != nil && rt.why() != nil { // the runtime is over, and says so
		if _, again := rt.Eval(context.Background(), "1"); KindOf(again) != Closed {
			t.Errorf("%s: afterwards: %v", c.name, again)
		}
	}
}

func evaluates(rt *Runtime) error { _, err := rt.Eval(context.Background(), "1"); return err }

func binds(rt *Runtime) error {
	return rt.Bind(context.Background(), "f", func() int { return 1 })
}

// checkError wants words for people, and not many.
func checkError(t *testing.T, name string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	bad := func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }
	if s := err.Error(); len(s) > 33<<10 || strings.ContainsFunc(s, bad) {
		t.Errorf("%s: %d bytes of words: %.200q", name, len(s), s)
	}
}
