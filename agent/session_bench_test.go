package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/agent/store"
)

// wide are limits that no benchmark reaches.
var wide = Limits{Feeds: 1_000_000, Calls: 1_000_000, MS: 24 * hour, Bytes: 64 << 30, JournalBytes: 1 << 30}

// took notes how long each turn of a benchmark was, for a median beside the mean.
type took []time.Duration

func (t *took) since(begin time.Time) { *t = append(*t, time.Since(begin)) }

func (t took) report(b *testing.B) {
	if len(t) == 0 {
		return
	}
	slices.Sort(t)
	b.ReportMetric(float64(t[len(t)/2].Nanoseconds()), "p50-ns")
}

// feedsOf feeds one session again and again.
func feedsOf(b *testing.B, s *Session, code, want string) {
	b.Helper()
	if got := fed(s, code); got != want {
		b.Fatal(got)
	}
	var t took
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		if _, err := s.Feed(context.Background(), code, FeedOptions{}); err != nil {
			b.Fatal(err)
		}
		t.since(begin)
	}
	t.report(b)
}

// benchStores are where the journal is kept; nil is in memory alone.
func benchStores(b *testing.B) []struct {
	name string
	open func() store.Store
} {
	file := func(o store.FileOptions) func() store.Store {
		return func() store.Store {
			st, err := store.NewFile(filepath.Join(b.TempDir(), "sessions"), o)
			if err != nil {
				b.Fatal(err)
			}
			return st
		}
	}
	return []struct {
		name string
		open func() store.Store
	}{{"memory", nil}, {"file", file(store.FileOptions{NoSync: true})}, {"fsync", file(store.FileOptions{})}}
}

// BenchmarkSessionFeed is one feed of a session that is there, without a tool and
// with one call of one.
func BenchmarkSessionFeed(b *testing.B) {
	tools := catalogOf(b, Tool{Name: "inc", Func: func(n int) int { return n + 1 }, MaxCalls: 1_000_000})
	for _, st := range benchStores(b) {
		o := Options{Limits: wide}
		if st.open != nil {
			kept := st.open()
			defer func() { _ = kept.Close() }()
			o.Store = kept
		}
		p := newPool(b, o)
		for i, c := range [][3]string{{"none", "1 + 1", "2"}, {"tool", "await inc(41)", "42"}} {
			b.Run(st.name+"/"+c[0], func(b *testing.B) {
				var s *Session
				if st.open == nil {
					s = checkout(b, p, SessionOptions{Tools: tools})
				} else {
					s = acquire(b, p, store.Key{Owner: "bench", ID: fmt.Sprint(i, b.N)}, AcquireOptions{Tools: tools})
				}
				defer func() { _ = s.Close() }()
				feedsOf(b, s, c[1], c[2])
			})
		}
	}
}

// BenchmarkCheckout is a session from a warm pool with its first feed; the pool
// starts the next worker outside of what is measured.
func BenchmarkCheckout(b *testing.B) {
	const warm = 4
	p := newPool(b, Options{Warm: warm, Limits: wide})
	for _, n := range []int{0, 1, 10} {
		var tools []Tool
		for i := range n {
			tools = append(tools, Tool{Name: fmt.Sprintf("tool%d.run", i), Func: func() {}})
		}
		catalog := catalogOf(b, tools...)
		b.Run(fmt.Sprintf("tools=%d", n), func(b *testing.B) {
			var t took
			for b.Loop() {
				b.StopTimer()
				for p.js.Stats().Warm < warm {
					time.Sleep(time.Millisecond)
				}
				b.StartTimer()
				begin := time.Now()
				s, err := p.Checkout(context.Background(), SessionOptions{Tools: catalog})
				if err == nil {
					_, err = s.Feed(context.Background(), "1 + 1", FeedOptions{})
				}
				t.since(begin)
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			t.report(b)
		})
	}
}

// BenchmarkParallelSessions is how many feeds a second a hundred sessions come to,
// each fed by a goroutine of its own.
func BenchmarkParallelSessions(b *testing.B) {
	const many = 100
	tools := catalogOf(b, Tool{Name: "inc", Func: func(n int) int { return n + 1 }, MaxCalls: 1_000_000})
	p := newPool(b, Options{Limits: wide})
	sessions := make([]*Session, many)
	for i := range sessions {
		sessions[i] = checkout(b, p, SessionOptions{Tools: tools})
	}
	for _, c := range [][2]string{{"none", "1 + 1"}, {"tool", "await inc(41)"}} {
		b.Run(c[0], func(b *testing.B) {
			var wg sync.WaitGroup
			for i, s := range sessions {
				wg.Go(func() {
					for range (b.N + i) / many {
						if _, err := s.Feed(context.Background(), c[1], FeedOptions{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "feeds/s")
		})
	}
}

// withEvents is a session with so many records, half of them in feeds with one
// call of a tool each.
func withEvents(b *testing.B, p *Pool, tools *Catalog, events uint64) *Session {
	b.Helper()
	s := checkout(b, p, SessionOptions{Owner: []byte("bench"), Tools: tools})
	for s.w.Head().Count < events {
		if got := fed(s, "globalThis.n = await inc(globalThis.n ?? 0)"); got == "" || got[0] == 'e' {
			b.Fatal(got)
		}
	}
	return s
}

// BenchmarkDumpAndLoad is a session of 1,000 records: its dump, and its load with
// the replay, on a warm worker.
func BenchmarkDumpAndLoad(b *testing.B) {
	const events, warm = 1_000, 2
	tools := catalogOf(b, Tool{Name: "inc", Func: func(n int) int { return n + 1 }, MaxCalls: 1_000_000})
	p := newPool(b, Options{Warm: warm, Limits: wide})
	s := withEvents(b, p, tools, events)
	d, err := s.Dump()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("dump", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Dump(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		var t took
		for b.Loop() {
			b.StopTimer()
			for p.js.Stats().Warm < warm {
				time.Sleep(time.Millisecond)
			}
			b.StartTimer()
			begin := time.Now()
			l, err := p.Load(context.Background(), d.Journal, LoadOptions{SessionOptions: SessionOptions{Owner: []byte("bench"), Tools: tools}, Head: d.Head})
			t.since(begin)
			b.StopTimer()
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		t.report(b)
		b.ReportMetric(float64(d.Count)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}
