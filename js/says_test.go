package js_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/js"
)

// An error that a limit makes is one sentence with the limit's name and value.
func TestErrorsNameTheLimit(t *testing.T) {
	for want, c := range map[string]struct {
		limits js.Limits
		code   string
	}{
		"js: timeout: it took longer than timeout_ms, 50 ms":                                                   {js.Limits{TimeoutMS: 50}, "for (;;);"},
		"js: memory_limit: the worker needed more memory than memory_bytes, 67108864 bytes":                    {js.Limits{MemoryBytes: 64 << 20}, "const a = []; for (;;) a.push('x'.repeat(1 << 20) + a.length)"},
		"js: cpu_limit: it took more processor time than cpu_ms, 300 ms":                                       {js.Limits{CPUMS: 300, TimeoutMS: 60_000}, "for (;;);"},
		"js: host_wait: functions of the host took longer than host_wait_ms, 50 ms, and the worker was killed": {js.Limits{HostWaitMS: 50}, "wait()"},
		"js: Error: more calls of the host than host_calls, 3":                                                 {js.Limits{HostCalls: 3}, "for (;;) nothing()"},
		"js: Error: more calls of the host at one time than in_flight, 1":                                      {js.Limits{InFlight: 1}, "(async () => { const l = later(); l.catch(() => 0); await later() })()"},
		"js: RangeError: the value has too many parts: more than nodes, 9":                                     {js.Limits{Nodes: 9}, "[1, 2, 3, 4, 5, 6, 7, 8, [9]]"},
		"js: RangeError: the value is nested too deeply: more levels than depth, 2":                            {js.Limits{Depth: 2}, "[[[1]]]"},
		"js: RangeError: the value is too large: more bytes than result_bytes, 100":                            {js.Limits{ResultBytes: 100}, "[1, 2, 3].map(() => 'x'.repeat(100))"},
		"js: RangeError: no room for a buffer: all that live may have 65536 bytes":                             {js.Limits{BufferBytes: 64 << 10}, "new ArrayBuffer(1 << 20)"},
	} {
		rt := open(t, js.Options{Limits: c.limits})
		for name, fn := range map[string]any{"wait": func(ctx context.Context) { <-ctx.Done() }, "nothing": func() {}} {
			if err := rt.Bind(ctx, name, fn); err != nil {
				t.Fatal(err)
			}
		}
		if err := rt.BindAsync(ctx, "later", func(ctx context.Context) { <-ctx.Done() }); err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Eval(ctx, c.code); err == nil || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// What is asked of a runtime that is over says what ended it, and a context that
// ended is told with its cause.
func TestErrorsAfterTheEnd(t *testing.T) {
	rt := open(t, js.Options{Limits: js.Limits{MemoryBytes: 64 << 20}})
	_, first := rt.Eval(ctx, "const a = []; for (;;) a.push('x'.repeat(1 << 20) + a.length)")
	const why = "memory_limit: the worker needed more memory than memory_bytes, 67108864 bytes"
	_, err := rt.Eval(ctx, "1")
	if first == nil || err == nil || err.Error() != "js: closed: an earlier error ended the runtime: "+why || !errors.Is(err, js.MemoryLimit) {
		t.Errorf("after %v: %v", first, err)
	}
	rt = open(t, js.Options{})
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Eval(ctx, "1"); err == nil || err.Error() != "js: closed: the runtime was closed" {
		t.Errorf("after Close: %v", err)
	}
	rt = open(t, js.Options{})
	over, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("enough"))
	if _, err := rt.Eval(over, "1"); err == nil || err.Error() != "js: canceled: the context ended before it began: enough" {
		t.Errorf("before: %v", err)
	}
	late, cancelLate := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancelLate()
	if _, err := rt.Eval(late, "for (;;);"); err == nil || err.Error() != "js: canceled: the context ended while it ran: context deadline exceeded" {
		t.Errorf("while it ran: %v", err)
	}
}
