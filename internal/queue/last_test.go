package queue

import (
	"errors"
	"testing"
)

// The last number of a run is the one of its last event: none while it waits or is
// taken, and final at its end.
//
// proves part of X-16
func TestLast(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	last := func(want uint64, end bool) {
		t.Helper()
		if seq, final, err := q.Last(ctx, "r"); err != nil || seq != want || final != end {
			t.Errorf("%d %v %v, not %d %v", seq, final, err, want, end)
		}
	}
	if _, _, err := q.Last(ctx, "r"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, _, err := q.Last(ctx, "*"); !errors.Is(err, ErrName) {
		t.Error(err)
	}
	submit(t, q, "c", "r")
	last(0, false)
	d := take(t, q)
	last(0, false)
	must(t, d.Begin(ctx, nil))
	last(1, false)
	must(t, d.Publish(ctx, "chunk", nil))
	last(2, false)
	must(t, d.Finish(ctx, nil, nil))
	last(3, true)
}

// What is judged is either taken or was not looked at: what the judge has kept of a
// signal that then had no room would come a second time.
//
// proves part of X-16
func TestSignalsJudgedOnce(t *testing.T) {
	q := open(t, Options{})
	ctx := t.Context()
	submit(t, q, "c", "r")
	d := take(t, q)
	judged := 0
	d.Admit(func([]byte) error { judged++; return nil })
	for range maxSignals {
		must(t, q.Signal(ctx, "r", nil))
	}
	if err := q.Signal(ctx, "r", nil); !errors.Is(err, ErrBusy) || judged != maxSignals {
		t.Errorf("%v, %d judged, %d taken", err, judged, maxSignals)
	}
	must(t, d.Finish(ctx, nil, nil))
}
