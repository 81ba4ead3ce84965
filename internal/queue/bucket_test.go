package queue

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func bucket(t testing.TB, q *Queue, name string, o BucketOptions) *Bucket {
	t.Helper()
	b, err := q.Bucket(t.Context(), name, o)
	must(t, err)
	return b
}

// proves part of X-10 X-09
func TestBucket(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	b := bucket(t, q, "keys", BucketOptions{TTL: time.Hour, MaxValue: 100})
	if _, err := b.Get(ctx, "k"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	one, err := b.Create(ctx, "k", []byte("v1"), 0)
	must(t, err)
	if _, err := b.Create(ctx, "k", []byte("v2"), 0); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	two, err := b.Update(ctx, "k", []byte("v2"), one, 0)
	must(t, err)
	if _, err := b.Update(ctx, "k", []byte("v3"), one, 0); !errors.Is(err, ErrConflict) {
		t.Error("an old revision:", err)
	}
	if _, err := b.Update(ctx, "other", nil, two, 0); !errors.Is(err, ErrConflict) {
		t.Error("none:", err)
	}
	v, err := b.Get(ctx, "k")
	if err != nil || string(v.Data) != "v2" || v.Revision != two {
		t.Errorf("%+v %v", v, err)
	}
	if err := b.Delete(ctx, "k", one); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	must(t, b.Delete(ctx, "k", two))
	if err := b.Delete(ctx, "k", 0); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := b.Create(ctx, "k", make([]byte, 101), 0); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

// What is too old is not there, although the store still has it.
//
// proves part of X-10
func TestBucketAge(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	b := bucket(t, q, "keys", BucketOptions{TTL: time.Hour})
	_, err := b.Create(ctx, "short", []byte("old"), 50*time.Millisecond)
	must(t, err)
	_, err = b.Create(ctx, "long", []byte("old"), time.Minute)
	must(t, err)
	time.Sleep(60 * time.Millisecond)
	if v, err := b.read(ctx, "short"); err != nil || string(v.Data) != "old" {
		t.Error("the store has erased it already, so that nothing is proved:", err)
	}
	if _, err := b.Get(ctx, "short"); !errors.Is(err, ErrNotFound) {
		t.Error("too old:", err)
	}
	if _, err := b.Get(ctx, "long"); err != nil {
		t.Error("not too old:", err)
	}
	n := 0
	for key := range b.All(ctx) {
		if n++; key != "long" {
			t.Error(key)
		}
	}
	if n != 1 {
		t.Error(n, "values")
	}
	_, err = b.Create(ctx, "short", []byte("new"), 0)
	must(t, err)
}

// proves part of H-76 X-18
func TestChargeParallel(t *testing.T) {
	q := open(t, Options{})
	b := bucket(t, q, "quotas", BucketOptions{TTL: 2 * time.Hour})
	charge := Charge{N: 1, Limit: 20, Window: time.Hour}
	var granted, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			c := charge
			c.ID = fmt.Sprintf("run-%d", i)
			_, err := b.Charge(t.Context(), "client", c)
			switch {
			case err == nil:
				granted.Add(1)
			case errors.Is(err, ErrQuota):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if granted.Load() != 20 || refused.Load() != 180 {
		t.Errorf("%d granted, %d refused", granted.Load(), refused.Load())
	}
	u, err := b.Used(t.Context(), "client", 20, time.Hour)
	if err != nil || u.Used != 20 || u.Limit != 20 || time.Until(u.Reset) > time.Hour || time.Until(u.Reset) < -time.Second {
		t.Errorf("%+v %v", u, err)
	}
}

// proves part of H-76 X-18
func TestChargeOnce(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	b := bucket(t, q, "quotas", BucketOptions{TTL: 2 * time.Hour})
	c := Charge{ID: "run-1", N: 3, Limit: 5, Window: time.Hour}
	for range 3 { // once for an id
		u, err := b.Charge(ctx, "client", c)
		if err != nil || u.Used != 3 {
			t.Errorf("%+v %v", u, err)
		}
	}
	c.ID = "run-2"
	if u, err := b.Charge(ctx, "client", c); !errors.Is(err, ErrQuota) || u.Used != 3 {
		t.Errorf("%+v %v", u, err)
	}
	if u, err := b.Refund(ctx, "client", "run-2", time.Hour); err != nil || u.Used != 3 {
		t.Errorf("of what was not charged: %+v %v", u, err)
	}
	if u, err := b.Refund(ctx, "client", "run-1", time.Hour); err != nil || u.Used != 0 {
		t.Errorf("%+v %v", u, err)
	}
	if u, err := b.Charge(ctx, "client", c); err != nil || u.Used != 3 {
		t.Errorf("%+v %v", u, err)
	}
	for _, id := range []string{"", "a.b", "*", ">", "a b", strings.Repeat("a", 65), "\x00", "é"} {
		c.ID = id
		if _, err := b.Charge(ctx, "client", c); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", id, err)
		}
		c.ID = "ok"
		if _, err := b.Charge(ctx, id, c); !errors.Is(err, ErrName) {
			t.Errorf("key %q: %v", id, err)
		}
	}
}

// proves part of H-76
func TestCounterClock(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	n := &counter{}
	n.roll(now, time.Hour)
	n.charges = []charged{{1, 7}}
	for _, c := range []struct {
		move time.Duration
		used uint64
	}{
		{0, 7}, {-time.Minute, 7},
		{-time.Hour, 7}, // the clock goes back: what was charged stands
		{-3 * time.Hour, 0}, {time.Hour, 0},
	} {
		m := &counter{n.window, n.charges}
		m.roll(now.Add(c.move), time.Hour)
		if m.used() != c.used {
			t.Errorf("after %v: %d", c.move, m.used())
		}
	}
}
