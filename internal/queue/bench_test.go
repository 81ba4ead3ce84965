package queue

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Opening a folder that has nothing, and closing it.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		q, err := Open(b.Context(), Options{Dir: b.TempDir() + "/queue", MinFree: 1})
		must(b, err)
		b.StopTimer()
		must(b, q.Close())
		b.StartTimer()
	}
}

// From Submit to the delivery in an executor's hand.
func BenchmarkSubmitTake(b *testing.B) {
	q := open(b, Options{})
	n := 0
	for b.Loop() {
		n++
		submit(b, q, "c", fmt.Sprintf("r%d", n))
		d := take(b, q)
		b.StopTimer()
		must(b, d.Finish(b.Context(), nil, nil))
		b.StartTimer()
	}
}

// All of a short run: Submit, Take, Begin, Finish, and somebody who waits.
func BenchmarkRoundTrip(b *testing.B) {
	for _, fsync := range []bool{false, true} {
		b.Run(fmt.Sprintf("fsync=%v", fsync), func(b *testing.B) {
			q := open(b, Options{FsyncAlways: fsync})
			go serve(b.Context(), q)
			n := 0
			for b.Loop() {
				n++
				id := fmt.Sprintf("r%d", n)
				submit(b, q, "c", id)
				if _, err := q.Wait(b.Context(), id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func serve(ctx context.Context, q *Queue) {
	for {
		d, err := q.Take(ctx)
		if err != nil {
			return
		}
		_ = d.Begin(ctx, nil)
		_ = d.Finish(ctx, []byte(`{"verdict":"ok"}`), nil)
	}
}

func BenchmarkPublish(b *testing.B) {
	q := open(b, Options{RunEvents: 1_000_000, RunBytes: 1 << 40})
	submit(b, q, "c", "r")
	d := take(b, q)
	must(b, d.Begin(b.Context(), nil))
	data := make([]byte, 1000)
	for n := 0; b.Loop(); n++ {
		if n < 900_000 {
			must(b, d.Publish(b.Context(), "chunk", data))
		}
	}
}

// Reading 1,000 events of a run.
func BenchmarkReplay(b *testing.B) {
	q := open(b, Options{})
	submit(b, q, "c", "r")
	d := take(b, q)
	must(b, d.Begin(b.Context(), nil))
	for range 998 {
		must(b, d.Publish(b.Context(), "chunk", make([]byte, 200)))
	}
	must(b, d.Finish(b.Context(), nil, nil))
	for b.Loop() {
		if n := len(events(b, q, "r", 0)); n != 1000 {
			b.Fatal(n)
		}
	}
}

func BenchmarkCharge(b *testing.B) {
	q := open(b, Options{})
	k := bucket(b, q, "quotas", BucketOptions{})
	for n := 0; b.Loop(); n++ {
		_, err := k.Charge(b.Context(), fmt.Sprintf("c%d", n/100), Charge{ID: fmt.Sprint(n), N: 1, Limit: 200, Window: time.Hour})
		must(b, err)
	}
}

// What an open queue holds in memory, with nothing to do.
func BenchmarkIdleMemory(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	q := open(b, Options{})
	submit(b, q, "c", "r")
	must(b, take(b, q).Finish(b.Context(), nil, nil))
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		runtime.KeepAlive(q)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1024, "KiB-heap")
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
}
