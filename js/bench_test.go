package js_test

import (
	"fmt"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// pool is one with the programs of this tree.
func pool(b *testing.B, o js.Options, size js.PoolOptions) *js.Pool {
	b.Helper()
	o.InitPath, o.WorkerPath = testenv.Init(), testenv.Worker()
	p, err := js.NewPool(ctx, o, size)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	return p
}

func BenchmarkEval(b *testing.B) {
	for _, jit := range []js.JIT{"", js.Baseline, js.Full} {
		b.Run("mode="+string(jit), func(b *testing.B) {
			rt := open(b, js.Options{JIT: jit})
			for b.Loop() {
				if _, err := rt.Eval(ctx, "1 + 1"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHostCall(b *testing.B) {
	rt := open(b, js.Options{Limits: js.Limits{HostCalls: 1 << 40, TimeoutMS: 600_000, HostWaitMS: 600_000}})
	if err := rt.Bind(ctx, "inc", func(n int) int { return n + 1 }); err != nil {
		b.Fatal(err)
	}
	if _, err := rt.Eval(ctx, fmt.Sprintf("let n = 0; for (let i = 0; i < %d; i++) n = inc(n); n", b.N)); err != nil {
		b.Fatal(err)
	}
}

// From nothing to a first value, the host of the cells being there.
func BenchmarkCold(b *testing.B) {
	p := pool(b, js.Options{}, js.PoolOptions{})
	for b.Loop() {
		rt, err := p.Checkout(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := rt.Eval(ctx, "1 + 1"); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_ = rt.Close()
		b.StartTimer()
	}
}

// 22,000 objects, 2 MB as JSON, as a result and as an argument.
func BenchmarkTwoMegabytes(b *testing.B) {
	for _, jit := range []js.JIT{"", js.Baseline} {
		rt := open(b, js.Options{JIT: jit})
		if err := rt.Bind(ctx, "take", func(v js.Value) int { return 1 }); err != nil {
			b.Fatal(err)
		}
		if _, err := rt.Eval(ctx, "const rows = []; for (let i = 0; i < 22000; i++) rows.push({ id: i, name: 'row number ' + i, value: i / 3, tags: ['a', 'b'], ok: i % 2 === 0 }); 0"); err != nil {
			b.Fatal(err)
		}
		for name, code := range map[string]string{"result": "rows", "argument": "take(rows)"} {
			b.Run(fmt.Sprintf("%s/mode=%s", name, jit), func(b *testing.B) {
				for b.Loop() {
					if _, err := rt.Eval(ctx, code); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// The same as the result of a function of the host.
func BenchmarkTwoMegabytesIn(b *testing.B) {
	type row struct {
		ID    int      `json:"id"`
		Name  string   `json:"name"`
		Value float64  `json:"value"`
		Tags  []string `json:"tags"`
		OK    bool     `json:"ok"`
	}
	var rows []row
	for i := range 22000 {
		rows = append(rows, row{i, fmt.Sprintf("row number %d", i), float64(i) / 3, []string{"a", "b"}, i%2 == 0})
	}
	for _, jit := range []js.JIT{"", js.Baseline} {
		b.Run(fmt.Sprintf("mode=%s", jit), func(b *testing.B) {
			rt := open(b, js.Options{JIT: jit})
			if err := rt.Bind(ctx, "give", func() []row { return rows }); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := rt.Eval(ctx, "give().length"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a feed costs beside an evaluation: one that is not read, one that declares,
// one that awaits, one with what a session gives it each time.
func BenchmarkFeed(b *testing.B) {
	at := int64(1_700_000_000_000)
	rt := open(b, js.Options{Clock: &at})
	for _, c := range []struct {
		name string
		s    js.Script
	}{
		{"eval", js.Script{Code: "1 + 1"}},
		{"plain", js.Script{Code: "1 + 1", Feed: &js.Feed{}}},
		{"declares", js.Script{Code: "{ let x = 1 } 1 + 1", Feed: &js.Feed{}}},
		{"awaits", js.Script{Code: "await 1", Feed: &js.Feed{}}},
		{"clock", js.Script{Code: "1 + 1", Feed: &js.Feed{Clock: &at}}},
		{"inputs", js.Script{Code: "a + b", Feed: &js.Feed{Clock: &at, Inputs: map[string]any{"a": 1, "b": 2}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := rt.Run(ctx, c.s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A state of a thousand objects, out and into another runtime.
func BenchmarkState(b *testing.B) {
	p := pool(b, js.Options{}, js.PoolOptions{Warm: 1})
	rt, err := p.Checkout(ctx)
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := rt.Run(ctx, js.Script{Code: "let all = Array.from({ length: 1000 }, (_, i) => ({ id: i, name: 'row ' + i, tags: ['a', 'b'] })); undefined", Feed: &js.Feed{}}); err != nil {
		b.Fatal(err)
	}
	state, err := rt.Snapshot(ctx)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			if _, err := rt.Snapshot(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("rebuild", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			fresh, err := p.Checkout(ctx)
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if err := fresh.Rebuild(ctx, state); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			_ = fresh.Close()
			b.StartTimer()
		}
	})
}
