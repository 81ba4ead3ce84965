package js

import (
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/testenv/liar/script"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// rawValue is a value with this structure, and neither text nor bytes.
func rawValue(words []float64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(words)))
	b = append(b, make([]byte, 12)...)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(w))
	}
	return b
}

// bulk is a value that is larger than a script may be: words, then a pattern of
// words n times, then words; its text is n times as well, Latin-1. One of the
// patterns may be none.
func bulk(first, pattern []float64, n int, last []float64, text string) []script.Part {
	words := len(first) + len(pattern)*n + len(last)
	head := binary.LittleEndian.AppendUint32(nil, uint32(words))
	head = binary.LittleEndian.AppendUint32(head, 0)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(text)*n))
	head = binary.LittleEndian.AppendUint32(head, 0)
	parts := []script.Part{{Bytes: append(binary.AppendUvarint(nil, uint64(16+8*words+len(text)*n)), head...)}, {Bytes: rawValue(first)[16:]}}
	if len(pattern) > 0 {
		parts = append(parts, script.Part{Bytes: rawValue(pattern)[16:], Times: n})
	}
	parts = append(parts, script.Part{Bytes: rawValue(last)[16:]})
	if text != "" {
		parts = append(parts, script.Part{Bytes: []byte(text), Times: n})
	}
	return parts
}

// heapPeak is the most memory that the heap had in use while f ran, beyond what it
// had before.
func heapPeak(f func()) int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, m.HeapAlloc
	end := make(chan struct{})
	var look sync.WaitGroup
	look.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(2 * time.Millisecond):
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
	})
	f()
	close(end)
	look.Wait()
	return int64(peak - before)
}

// grown are values that take as much of Go's memory for each byte as we know, in
// frames as large as the budget of nodes lets them be. Each is an array of one
// value, as arguments are.
func grown() map[string][]script.Part {
	of := func(nodes int, pattern []float64, first ...float64) []script.Part {
		n := 900_000 / nodes
		return bulk(append([]float64{7, 1, 7, float64(n + len(first)/5)}, first...), pattern, n, nil, "")
	}
	return map[string][]script.Part{
		"null":          of(1, []float64{1}),
		"numbers":       of(1, []float64{4, 1234.5}),
		"empty strings": of(1, []float64{6, 0}),
		"arrays":        of(1, []float64{7, 0}),
		"arrays of one": of(2, []float64{7, 1, 1}),
		"objects":       of(2, []float64{8, 0, 1}, 8, 0, 1, 0, 1), // the first one defines the shape, with an empty key
		"maps":          of(3, []float64{9, 1, 1, 1}),
		"sets":          of(1, []float64{10, 0}),
		"errors":        of(2, []float64{12, 0, 0, 0}),
		"no bytes":      of(2, []float64{13, 0, 0}),
		"a long text":   bulk([]float64{7, 1, 6, 15 << 20}, nil, 15<<10, nil, kilobyte),
	}
}

var kilobyte = string(make([]byte, 1<<10))

// What a worker says takes of the host's memory at most eight times its bytes, and
// three times for the frame itself, whatever it is: as a result, as arguments and
// as an error. It is what the runtime has allocated in all, so that what was thrown
// away again counts too.
//
// proves part of B-12
func TestLiarAmplifiesAsRoot(t *testing.T) {
	l := openLiars(t, Options{})
	ratio, of := 0.0, ""
	for name, parts := range grown() {
		n := 0
		for _, p := range parts {
			n += len(p.Bytes) * max(p.Times, 1)
		}
		for _, c := range []lie{
			{name: name + " as a result", steps: list(evaluation, frame(wire.TypeDone, 1, 0, 0, 0, 1, parts), rest)},
			{name: name + " as arguments", steps: list(isBound, evaluation, call(1, parts), await(wire.TypeAnswer), one, rest), do: bindsAndCalls},
		} {
			rt := l.start(t, c.steps)
			c.within = 20 * time.Second
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			l.judge(t, rt, c)
			runtime.ReadMemStats(&after)
			took := after.TotalAlloc - before.TotalAlloc
			if took > uint64(11*n+1<<20) {
				t.Errorf("%s: %d bytes took %d", c.name, n, took)
			}
			if r := float64(took) / float64(n); r > ratio {
				ratio, of = r, c.name
			}
			_ = rt.Close()
		}
	}
	t.Logf("at most %.2f times a frame: %s", ratio, of)
	for n, want := range map[int]bool{maxArguments: true, maxArguments + 1: false, 900_000: false} {
		called := false
		rt := l.start(t, list(isBound, evaluation, call(1, bulk([]float64{7, float64(n)}, []float64{1}, n, nil, "")), await(wire.TypeAnswer), one, rest))
		l.judge(t, rt, lie{name: "many arguments", do: func(rt *Runtime) error {
			if err := rt.Bind(context.Background(), "f", func(...Value) { called = true }); err != nil {
				return err
			}
			return evaluates(rt)
		}})
		if called != want {
			t.Errorf("%d arguments: called %v", n, called)
		}
		_ = rt.Close()
	}
	texts := &wire.Done{ID: 1, Failure: &wire.Failure{Kind: "thrown", Name: kilobyte, Message: kilobyte + kilobyte, Stack: kilobyte}}
	rt := l.start(t, list(evaluation, said(texts), rest))
	took := heapPeak(func() { l.judge(t, rt, lie{name: "texts", want: Thrown}) })
	if took > 1<<20 {
		t.Errorf("texts: %d", took)
	}
	_ = rt.Close()
}

// What calls without an answer hold of the host's memory is within its budget,
// however the worker shares it out; what there is no room for is thrown, and
// answered calls give their room back.
//
// proves part of T-11
func TestLiarHoldsMemory(t *testing.T) {
	const budget = 8 << 20
	l := openLiars(t, Options{Limits: Limits{HostBytes: budget}})
	objects := bulk([]float64{7, 1, 7, 10_001, 8, 0, 1, 0, 1}, []float64{8, 0, 1}, 10_000, nil, "") // 0.25 MB, five times that in Go
	rt := l.start(t, list(isBound, evaluation, times(call(0, objects), 50), one, rest))
	var mu sync.Mutex
	calls := 0
	let := make(chan struct{})
	f := func(ctx context.Context, v ...Value) { mu.Lock(); calls++; mu.Unlock(); <-let; runtime.KeepAlive(v) }
	if err := rt.BindAsync(context.Background(), "f", f); err != nil {
		t.Fatal(err)
	}
	peak := heapPeak(func() { l.judge(t, rt, lie{name: "objects"}) })
	mu.Lock()
	if calls < 3 || calls > 20 || peak > 3*budget+8<<20 {
		t.Errorf("%d calls, %d bytes", calls, peak)
	}
	mu.Unlock()
	close(let)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && rt.room().Memory != budget; <-time.After(time.Millisecond) {
	}
	if got := rt.room().Memory; got != budget {
		t.Errorf("%d bytes of room afterwards", got)
	}
	_ = rt.Close()
}

// bindsAndCalls binds a function that returns at once, and evaluates.
func bindsAndCalls(rt *Runtime) error {
	if err := rt.Bind(context.Background(), "f", func(Value) {}); err != nil {
		return err
	}
	return evaluates(rt)
}
