package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// A hundred watch one run, from its beginning and from its middle: each gets each
// event once, in order.
// proves part of X-16
func TestWatchers(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	submit(t, q, "c", "r")
	submit(t, q, "c", "foreign")
	d := take(t, q)
	must(t, d.Begin(ctx, nil))
	const count = 300
	var all sync.WaitGroup
	watch := func(after uint64) {
		all.Go(func() {
			want := after + 1
			for e, err := range q.Events(ctx, "r", after) {
				switch {
				case err != nil:
					t.Error(err)
				case e.Seq != want:
					t.Errorf("after %d: %d, not %d", after, e.Seq, want)
					return
				case e.Final != (e.Seq == count+2):
					t.Errorf("final at %d", e.Seq)
				}
				want++
			}
			if want != count+3 {
				t.Errorf("after %d it ends before %d", after, want)
			}
		})
	}
	for range 50 {
		watch(0)
	}
	foreign := take(t, q)
	must(t, foreign.Begin(ctx, nil))
	for i := range count {
		must(t, d.Publish(ctx, "chunk", fmt.Append(nil, i)))
		must(t, foreign.Publish(ctx, "chunk", []byte("foreign")))
		if i%6 == 0 {
			watch(uint64(i / 2))
		}
	}
	must(t, d.Finish(ctx, []byte("ok"), nil))
	all.Wait()
	if n := len(q.hints.waiting); n != 0 {
		t.Error(n, "are still waiting")
	}
}

// Who never reads keeps nothing in memory, and nobody waits for him.
// proves part of X-16
func TestSlowReader(t *testing.T) {
	q := open(t, Options{})
	ctx, leave := context.WithCancelCause(t.Context())
	submit(t, q, "c", "r")
	d := take(t, q)
	must(t, d.Begin(ctx, nil))
	began, read := make(chan struct{}), make(chan struct{})
	gone := errors.New("gone")
	var last error
	var all sync.WaitGroup
	all.Go(func() {
		n := 0
		for _, err := range q.Events(ctx, "r", 0) {
			last = err
			if n++; n == 1 {
				close(began)
				<-read
			}
		}
	})
	<-began
	for range 500 {
		must(t, d.Publish(ctx, "chunk", make([]byte, 20<<10))) // 10 MB
	}
	leave(gone)
	close(read)
	all.Wait()
	if !errors.Is(last, gone) {
		t.Error(last)
	}
	must(t, d.Finish(t.Context(), nil, nil))
}

// proves part of X-16
func TestSignals(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	submit(t, q, "c", "r")
	if err := q.Signal(ctx, "r", nil); !errors.Is(err, ErrNotFound) {
		t.Error("nobody holds it:", err)
	}
	if err := q.Cancel(ctx, "nothing", nil); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	d := take(t, q)
	for i := range maxSignals {
		must(t, q.Signal(ctx, "r", fmt.Append(nil, i)))
	}
	if err := q.Signal(ctx, "r", nil); !errors.Is(err, ErrBusy) {
		t.Error("one more than it takes:", err)
	}
	for i := range maxSignals {
		if s := <-d.Signals(); string(s) != fmt.Sprint(i) {
			t.Errorf("%s, not %d", s, i)
		}
	}
	must(t, q.Signal(ctx, "r", bytes.Repeat([]byte("x"), MaxInline)))
	if err := q.Cancel(ctx, "r", nil); !errors.Is(err, ErrRunning) {
		t.Error("canceled while an executor has it:", err)
	}
	if st, err := q.Status(ctx, "r"); err != nil || st.State != Taken {
		t.Errorf("%+v %v", st, err)
	}
	must(t, d.Begin(ctx, nil))
	if st, err := q.Status(ctx, "r"); err != nil || st.State != Begun {
		t.Errorf("%+v %v", st, err)
	}
	must(t, d.Finish(ctx, nil, nil))
	if st, err := q.Status(ctx, "r"); err != nil || st.State != Finished {
		t.Errorf("%+v %v", st, err)
	}
	if err := q.Signal(ctx, "r", nil); !errors.Is(err, ErrNotFound) {
		t.Error("after the end:", err)
	}
}

// Whoever asks for a run while it is accepted, taken and ended never ends it, and
// never hears that it is not there once it was accepted.
// proves part of X-17
func TestLookedForEarly(t *testing.T) {
	q := open(t, Options{})
	ctx, stop := context.WithCancel(t.Context())
	go serve(ctx, q)
	var all sync.WaitGroup
	for i := range 100 {
		id := fmt.Sprintf("r%d", i)
		over := make(chan struct{})
		for range 2 {
			all.Go(func() {
				seen := false
				for {
					_, err := q.Status(t.Context(), id)
					switch {
					case err == nil:
						seen = true
					case !errors.Is(err, ErrNotFound) || seen:
						t.Error(id, err)
						return
					}
					select {
					case <-over:
						return
					default:
					}
				}
			})
		}
		submit(t, q, "c", id)
		e, err := q.Wait(t.Context(), id)
		if err != nil || string(e.Data) != `{"verdict":"ok"}` {
			t.Error(id, string(e.Data), err)
		}
		close(over)
	}
	all.Wait()
	stop()
}

// proves part of T-10
func TestClosedLeavesNothing(t *testing.T) {
	use := func() {
		q, err := Open(t.Context(), Options{Dir: t.TempDir() + "/queue", MinFree: 1})
		must(t, err)
		bucket(t, q, "keys", BucketOptions{})
		submit(t, q, "c", "r")
		d := take(t, q)
		must(t, d.Begin(t.Context(), nil))
		waited := make(chan error, 2)
		go func() {
			_, err := q.Wait(t.Context(), "r")
			waited <- err
		}()
		go func() {
			_, err := q.Take(t.Context())
			waited <- err
		}()
		eventually(t, func() bool {
			q.hints.mu.Lock()
			defer q.hints.mu.Unlock()
			return len(q.hints.waiting) == 1
		})
		must(t, q.Close())
		for range 2 {
			if err := <-waited; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
	}
	use()
	before := runtime.NumGoroutine()
	for range 5 {
		use()
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, not %d", runtime.NumGoroutine(), before)
		}
	}
}

// proves part of X-09
func TestManyKeysAsRoot(t *testing.T) {
	const count = 200_000
	q := open(t, Options{})
	b := bucket(t, q, "quotas", BucketOptions{TTL: time.Hour})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := w; i < count; i += 8 {
				if _, err := b.Create(t.Context(), fmt.Sprintf("client-%d", i), []byte("value"), 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	full := heap()
	if info, err := b.s.js.Info(t.Context()); err != nil || info.State.Msgs != count {
		t.Fatal("they were dropped before their time, so that nothing is proved:", err)
	}
	keys, err := q.build(keysSubjects, "quotas")
	must(t, err)
	must(t, b.s.removeAll(t.Context(), keys)) // as the server does at their age
	q.sweep(t.Context(), true)
	// The store's caches go after some seconds.
	var after int64
	eventually(t, func() bool {
		after = heap()
		return after-before < 8<<20
	})
	t.Logf("heap before %d KiB, full %d KiB, swept %d KiB", before>>10, full>>10, after>>10)
	runtime.KeepAlive(q)
}
