package glovebox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// A caller that is slow to take the first event keeps the host from nothing:
// the guest ends at its own deadline, and the wall time is the guest's.
//
// proves part of X-03 X-04
func TestSlowStartedEvent(t *testing.T) {
	block := make(chan struct{})
	ended := make(chan struct{})
	p := python("import time, sys\nwhile True:\n  sys.stdout.write('.'); sys.stdout.flush(); time.sleep(0.02)")
	p.Limits = glovebox.Limits{WallMS: 300}
	r, err := box(t).Start(context.Background(), p, glovebox.WithEvents(func(e glovebox.Event) {
		if e.Type == "started" {
			<-block
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*time.Second, func() { close(block) }) // long after both keepers would have acted
	go func() { _, _ = r.Wait(); close(ended) }()
	<-ended
	res, err := r.Wait()
	if err != nil || res.Verdict != "timeout" || res.Cause != "wall" {
		t.Fatalf("%v %+v", err, res)
	}
	if n := strings.Count(res.Stdout, "."); n > 40 { // 15 in the limit, 65 by the second keeper
		t.Errorf("the guest wrote %d times: it ran past its limit", n)
	}
}

// A stream of events that nobody reads keeps neither a killed run nor a Box that is
// closed from their end.
func TestUnreadEvents(t *testing.T) {
	for _, end := range []string{"kill", "context", "close"} {
		o := options()
		o.MaxCells = 1
		b, err := glovebox.New(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := b.Start(ctx, python("print(1)"), glovebox.WithEventStream())
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		switch end {
		case "kill":
			r.Kill()
		case "context":
			cancel()
		case "close":
			go func() { closed <- b.Close() }()
		}
		ended := make(chan struct{})
		go func() { _, _ = r.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the run does not end", end)
		}
		if end != "close" {
			if res, err := b.Run(t.Context(), python("print(2)")); err != nil || res.Stdout != "2\n" {
				t.Errorf("%s: the next one: %v, %+v", end, err, res)
			}
			closed <- b.Close()
		}
		if err := <-closed; err != nil {
			t.Errorf("%s: %v", end, err)
		}
		cancel()
	}
}
