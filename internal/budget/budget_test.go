package budget

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func must(t *testing.T) func(release func(), err error) func() {
	return func(release func(), err error) func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
}

func mem(n int64) Amount { return Amount{Memory: n} }

// proves part of H-45
func TestNamesTheResource(t *testing.T) {
	total := Amount{100, 100, 100, 100}
	for name, part := range map[string]func(int64) Amount{
		"memory":      func(n int64) Amount { return Amount{n, 1, 1, 1} },
		"processes":   func(n int64) Amount { return Amount{1, n, 1, 1} },
		"descriptors": func(n int64) Amount { return Amount{1, 1, n, 1} },
		"disk":        func(n int64) Amount { return Amount{1, 1, 1, n} },
	} {
		t.Run(name, func(t *testing.T) {
			b := New(total, Amount{10, 10, 10, 10})
			for _, n := range []int64{91, 1000, math.MaxInt64, -1, math.MinInt64} {
				for how, f := range map[string]func() (func(), error){
					"acquire": func() (func(), error) { return b.Acquire(t.Context(), part(n)) },
					"try":     func() (func(), error) { return b.Try(part(n)) },
				} {
					if _, err := f(); !errors.Is(err, ErrTooMuch) || !strings.Contains(err.Error(), name) {
						t.Errorf("%s %d: %v", how, n, err)
					}
				}
			}
			release := must(t)(b.Try(part(90))) // the control
			if _, err := b.Try(part(1)); !errors.Is(err, ErrShort) || !strings.Contains(err.Error(), name) {
				t.Error(err)
			}
			control := must(t)(b.Control(part(10))) // the reserve
			if _, err := b.Control(part(1)); !errors.Is(err, ErrShort) || !strings.Contains(err.Error(), name) {
				t.Error(err)
			}
			if _, err := b.Control(part(101)); !errors.Is(err, ErrTooMuch) || !strings.Contains(err.Error(), name) {
				t.Error(err)
			}
			control()
			release()
			release() // again gives nothing
			control()
			if b.InUse() != (Amount{}) {
				t.Errorf("%+v", b.InUse())
			}
			must(t)(b.Try(part(90)))()
			if p := b.Peak().plus(Amount{}); p.max(part(100)) != p {
				t.Errorf("%+v", p)
			}
		})
	}
}

// Who came first gets it first, a large need too, and who goes makes room for those
// behind.
//
// proves part of H-45
func TestFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(mem(10), Amount{})
		held := must(t)(b.Try(mem(5)))
		var mu sync.Mutex
		var order []string
		come := func(ctx context.Context, name string, n int64) {
			go func() {
				release, err := b.Acquire(ctx, mem(n))
				mu.Lock()
				if err != nil {
					name += " gone"
				}
				order = append(order, name)
				mu.Unlock()
				if err == nil {
					release()
				}
			}()
			synctest.Wait()
		}
		gone, leave := context.WithCancelCause(t.Context())
		come(t.Context(), "large", 10)
		come(gone, "second", 9)
		come(t.Context(), "small", 1)
		if len(order) != 0 || b.Waiting() != 3 {
			t.Error("overtaken:", order)
		}
		if _, err := b.Try(mem(1)); !errors.Is(err, ErrShort) {
			t.Error("Try has overtaken:", err)
		}
		cause := errors.New("the client has gone")
		leave(cause)
		synctest.Wait()
		held()
		synctest.Wait()
		if got := strings.Join(order, ", "); got != "second gone, large, small" {
			t.Error(got)
		}
		if b.InUse() != (Amount{}) || b.Waiting() != 0 {
			t.Errorf("%+v, %d wait", b.InUse(), b.Waiting())
		}
		if _, err := b.Acquire(gone, mem(1)); !errors.Is(err, cause) {
			t.Error(err)
		}
		// The head of the line goes, and what is behind it has room.
		held = must(t)(b.Try(mem(5)))
		head, leaveHead := context.WithCancel(t.Context())
		order = nil
		come(head, "large", 10)
		come(t.Context(), "small", 1)
		leaveHead()
		synctest.Wait()
		if got := strings.Join(order, ", "); got != "large gone, small" && got != "small, large gone" {
			t.Error(got)
		}
		held()
	})
}

// Pools shrink before somebody is refused or has to wait.
//
// proves part of H-45
func TestPressure(t *testing.T) {
	b := New(mem(10), Amount{})
	if _, err := b.Try(mem(10)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Try(mem(1)); !errors.Is(err, ErrShort) {
		t.Error("the control: no pool, and it gets it:", err)
	}
	b = New(mem(10), Amount{})
	warm := must(t)(b.Try(mem(8)))
	asked := 0
	b.OnPressure(func(wanted Amount) {
		asked++
		if wanted != mem(5) {
			t.Errorf("%+v", wanted)
		}
		warm()
	})
	release := must(t)(b.Try(mem(2)))
	if asked != 0 {
		t.Error("asked without need")
	}
	release()
	first := must(t)(b.Try(mem(5)))
	second := must(t)(b.Acquire(t.Context(), mem(5)))
	if asked != 1 {
		t.Error(asked)
	}
	if _, err := b.Try(mem(5)); !errors.Is(err, ErrShort) || asked != 2 {
		t.Error(err, asked)
	}
	first()
	second()
}

// However many take and give back at once, what is in use never is more than there
// is, and in the end it is nothing.
//
// proves part of H-45
func TestParallel(t *testing.T) {
	total, reserve := Amount{1000, 50, 200, 5000}, Amount{100, 5, 20, 500}
	b := New(total, reserve)
	var mine [4]atomic.Int64 // counted beside the ledger
	over := atomic.Bool{}
	add := func(a Amount, sign int64) {
		for i, r := range a.resources() {
			n := mine[i].Add(sign * r.n)
			if n > total.resources()[i].n || n < 0 {
				over.Store(true)
			}
		}
	}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 200 {
				need := Amount{r.Int64N(300), r.Int64N(15), r.Int64N(60), r.Int64N(1500)}
				var release func()
				var err error
				switch i % 4 {
				case 0:
					release, err = b.Control(need)
				case 1:
					release, err = b.Try(need)
				default:
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(1000))*time.Microsecond)
					release, err = b.Acquire(ctx, need)
					cancel()
				}
				if err != nil {
					if !errors.Is(err, ErrShort) && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					continue
				}
				add(need, 1)
				add(need, -1)
				release()
			}
		})
	}
	all.Wait()
	if over.Load() {
		t.Error("more was in use than there is")
	}
	if b.InUse() != (Amount{}) || b.Waiting() != 0 {
		t.Errorf("left: %+v, %d wait", b.InUse(), b.Waiting())
	}
	if _, _, more := b.Peak().short(total); more {
		t.Errorf("%+v", b.Peak())
	}
	must(t)(b.Acquire(t.Context(), total.minus(reserve)))()
}

// proves part of H-45
func TestNewPanics(t *testing.T) {
	for _, reserve := range []Amount{{Memory: 11}, {Disk: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v", reserve)
				}
			}()
			New(Amount{10, 10, 10, 10}, reserve)
		}()
	}
}
