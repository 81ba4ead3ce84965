package js

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// ending is what a worker of bytes does behind them.
type ending int

const (
	dies   ending = iota
	silent        // keeps the socket open until it is killed
	lives         // says no more, and lives until it is killed
)

// stream is a runtime whose worker is bytes: they come on a socket, whatever the
// host says.
func stream(t testing.TB, o Options, bytes []byte, end ending) *Runtime {
	t.Helper()
	limits, err := o.Limits.resolve()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(pair[0]), "channel")
	if err := errors.Join(unix.SetNonblock(pair[0], true), unix.SetNonblock(pair[1], true)); err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "worker's end")
	channel, closes, err := cell.NewChannel(ours)
	if err != nil {
		t.Fatal(err)
	}
	p := &Pool{opts: o, limits: limits, log: slog.New(slog.DiscardHandler), tokens: make(chan struct{}, 1), refill: make(chan struct{}, 1)}
	w := &worker{ch: channel, done: make(chan struct{}), result: &api.Result{Verdict: api.OK}}
	killed := make(chan struct{})
	w.cancel = sync.OnceFunc(func() { close(killed); theirs.Close() })
	w.speak(&limits)
	go func() {
		defer closes()
		var reads sync.WaitGroup
		defer reads.Wait()
		reads.Go(func() { _, _ = io.Copy(io.Discard, theirs) })
		_, _ = theirs.Write(append(framed(hostile[wire.TypeWorkerHello].good), bytes...))
		if raw, err := theirs.SyscallConn(); err == nil && end != silent {
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
		}
		if end == dies {
			close(w.done)
		}
		<-killed
		if end != dies {
			close(w.done)
		}
	}()
	if _, err := w.in.Read(); err != nil { // the hello
		t.Fatal(err)
	}
	return newRuntime(p, w)
}

// fuzzToken is that of the one function that the guest of a fuzzed runtime has.
const fuzzToken = 7

// frames makes what a worker says of any bytes: a byte that names a type, two of a
// length, the payload; or, from 200 on, a length and bytes without a frame.
func frames(script []byte) (out []byte) {
	kinds := wire.Types(wire.Worker)
	for len(script) >= 3 && len(out) < 1<<20 {
		kind, n := script[0], int(binary.LittleEndian.Uint16(script[1:]))
		script = script[3:]
		p := script[:min(n, len(script))]
		script = script[len(p):]
		if kind < 200 {
			claims := uint32(n) // the whole, of which the last frame may lack some
			out = binary.LittleEndian.AppendUint32(out, claims+1)
			out = append(out, byte(kinds[int(kind)%len(kinds)].Type))
		}
		out = append(out, p...)
	}
	return out
}

// scripted is the inverse for whole messages.
func scripted(all ...wire.Message) (script []byte) {
	kinds := wire.Types(wire.Worker)
	for _, m := range all {
		at := slices.IndexFunc(kinds, func(k wire.Kind) bool { return k.Type == m.Type() })
		p := said(m).Parts[0].Bytes
		script = append(binary.LittleEndian.AppendUint16(append(script, byte(at)), uint16(len(p))), p...)
	}
	return script
}

// fuzzKinds are what may come of a worker that says anything and then ends.
var fuzzKinds = []Kind{"", Protocol, Crashed, Thrown, SyntaxError, NeverSettles, Timeout, ResultLimit, Unsupported, CallLimit, HostWait, HardTimeout, Closed, WriteStall}

// FuzzConversation gives the host everything that a worker says, from the first
// evaluation on, as any frames: each evaluation ends in time and with a kind that a
// worker may bring about, and no function is called that was not bound.
//
// proves part of T-11 T-13
func FuzzConversation(f *testing.F) {
	ok := func(id uint64) wire.Message { return &wire.Done{ID: id, Value: mustEncode([]any{"x", 1.0})} }
	call := func(id uint64, args any) wire.Message {
		return &wire.Call{CallID: id, Token: fuzzToken, EvalID: 1, Args: mustEncode(args)}
	}
	say := &wire.Console{EvalID: 1, Level: 1, Text: []string{"a", "\x1b[2J\u202e"}}
	f.Add(scripted(ok(1), ok(2)))
	f.Add(scripted(say, call(1, []any{1.0}), call(2, []any{}), ok(1), ok(1)))
	f.Add(scripted(call(1, []any{nest(nil, 100)}), &wire.Done{ID: 1, Failure: &wire.Failure{Kind: "thrown", Message: "\x1b"}}, ok(2)))
	f.Add(scripted(call(1, "no list")))
	for _, row := range hostile {
		f.Add(scripted(row.good, ok(1)))
		for _, p := range row.bad {
			if len(p) < 1000 {
				f.Add(append(scripted(row.good)[:1], append(binary.LittleEndian.AppendUint16(nil, uint16(len(p))), p...)...))
			}
		}
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		late := time.AfterFunc(20*time.Second, func() {
			debug.SetTraceback("all")
			panic("it does not end")
		})
		defer late.Stop()
		var shown, calls int
		o := Options{Limits: Limits{ConsoleBytes: 1000, HostCalls: 50, InFlight: 8, TimeoutMS: 3000, HardMS: 4000, HostWaitMS: 4000}, Console: func(_ Level, s string) { shown += len(s) + 1 }}
		rt := stream(t, o, frames(script), dies)
		var mu sync.Mutex
		rt.bindings[fuzzToken] = &binding{"f", func(context.Context, []Value) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return calls, nil
		}}
		for range 3 {
			begin := time.Now()
			v, err := rt.Eval(context.Background(), "1")
			if !slices.Contains(fuzzKinds, KindOf(err)) || time.Since(begin) > 10*time.Second {
				t.Fatalf("%v after %v", err, time.Since(begin))
			}
			if err == nil && len(v.String()) > maxPrint {
				t.Fatal("a long value")
			}
			checkError(t, "an evaluation", err)
		}
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if shown > 3*(2*1000+64<<10) || calls > 50 {
			t.Fatalf("%d bytes shown, %d calls", shown, calls)
		}
	})
}

// A worker that hangs up and lives on is found out; one that only hangs up is not
// waited for.
//
// proves part of T-11
func TestLiarHangsUp(t *testing.T) {
	rt := stream(t, Options{}, framed(&wire.Done{ID: 1, Value: mustEncode(1.0)}), dies)
	if err := evaluates(rt); err != nil { // control
		t.Fatal(err)
	}
	if err := evaluates(rt); KindOf(err) != Crashed {
		t.Error(err)
	}
	_ = rt.Close()
	rt = stream(t, Options{}, nil, lives)
	begin := time.Now()
	if err := evaluates(rt); KindOf(err) != Protocol || time.Since(begin) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	_ = rt.Close()
}

// Processor time counts from the beginning of an evaluation, not from the first
// look; what was used before does not.
func TestCPUFromTheBeginning(t *testing.T) {
	for name, c := range map[string]struct {
		used []time.Duration // at the beginning and at each look
		want Kind
	}{
		"in the first tenth": {[]time.Duration{time.Hour, time.Hour + 90*time.Millisecond}, CPULimit},
		"later":              {[]time.Duration{time.Hour, time.Hour + 40*time.Millisecond, time.Hour + 90*time.Millisecond}, CPULimit},
		"before":             {[]time.Duration{time.Hour, time.Hour + 40*time.Millisecond, time.Hour + 45*time.Millisecond}, HardTimeout},
	} {
		rt := stream(t, Options{Limits: Limits{CPUMS: 50, TimeoutMS: 300, HardMS: 600}}, nil, silent)
		var mu sync.Mutex
		looks := 0
		rt.w.clock = func() (time.Duration, bool) {
			mu.Lock()
			defer mu.Unlock()
			looks++
			return c.used[min(looks, len(c.used))-1], true
		}
		if err := evaluates(rt); KindOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		mu.Lock()
		if c.want == CPULimit && looks != len(c.used) {
			t.Errorf("%s: found at look %d", name, looks)
		}
		mu.Unlock()
		_ = rt.Close()
	}
}
